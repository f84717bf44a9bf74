//! Rules: `TAGS.RULESET`, `TAGS.RULEDEL`, `TAGS.RULES`.

use super::store::{change, read};
use crate::tags::rule::{NAME_BYTES, Rule};
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

/// A rule is set.
pub struct RuleSet;

impl Command for RuleSet {
    const SPEC: Spec = Spec {
        name: "tags.ruleset",
        flags: "write deny-oom",
        arity: -6,
        summary: "Sets a rule that reads tags out of a field of captures.",
        complexity: "O(N) where N is the length of the regular expression",
        args: &[
            Arg::key(),
            Arg::text("name"),
            Arg::text("field"),
            Arg::text("regex"),
            Arg::text("template").multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let name = call.args.bytes("name", NAME_BYTES)?;
        let field = call.args.next("field")?;
        let regex = call.args.next("regex")?;
        let templates = call.args.rest();
        let rule = Rule::new(name, field, regex, templates).map_err(|error| error.to_string())?;
        change(call, true, c"tags.ruleset", |space| {
            let known = space.rules().iter().any(|known| known.is(&rule));
            if !known {
                space.set_rule(rule)?;
            }
            Ok(((), !known))
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// A rule is removed.
pub struct RuleDel;

impl Command for RuleDel {
    const SPEC: Spec = Spec {
        name: "tags.ruledel",
        flags: "write fast",
        arity: 3,
        summary: "Removes a rule.",
        complexity: "O(N) where N is the number of rules",
        args: &[Arg::key(), Arg::text("name")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let name = call.args.bytes("name", NAME_BYTES)?;
        call.args.end()?;
        let removed = change(call, false, c"tags.ruledel", |space| {
            let removed = space.remove_rule(name);
            Ok((removed, removed))
        })?;
        Ok(Answer::Reply(Reply::Int(i64::from(removed == Some(true)))))
    }
}

/// The rules.
pub struct List;

impl Command for List {
    const SPEC: Spec = Spec {
        name: "tags.rules",
        flags: "readonly",
        arity: 2,
        summary: "Lists the rules.",
        complexity: "O(N) where N is the number of rules",
        args: &[Arg::key()],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let rules = read(call)?.map(|space| space.rules().iter().map(shown).collect());
        Ok(Answer::Reply(Reply::Array(rules.unwrap_or_default())))
    }
}

fn shown(rule: &Rule) -> Reply {
    Reply::Array(vec![
        Reply::bulk(rule.name()),
        Reply::bulk(rule.field().name()),
        Reply::bulk(rule.regex()),
        Reply::Array(rule.templates().map(Reply::bulk).collect()),
    ])
}
