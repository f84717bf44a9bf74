//! Commands for rules: `TAGS.RULESET`, `TAGS.RULEDEL`, `TAGS.RULES`.

use super::store::{change, read};
use crate::tags::grammar::{RuleDel, RuleSet, Rules};
use crate::tags::rule::Rule;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::command::{Act, Answer, Call};

impl Act for RuleSet<'static> {
    fn act(asked: RuleSet<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let rule = Rule::new(asked.name, asked.field, asked.regex, asked.templates);
        let rule = rule.map_err(|error| error.to_string())?;
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

impl Act for RuleDel<'static> {
    fn act(asked: RuleDel<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let removed = change(call, false, c"tags.ruledel", |space| {
            let removed = space.remove_rule(asked.name);
            Ok((removed, removed))
        })?;
        Ok(Answer::Reply(Reply::Int(i64::from(removed == Some(true)))))
    }
}

impl Act for Rules {
    fn act(_: Rules, call: &mut Call<'_>) -> Result<Answer, String> {
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
