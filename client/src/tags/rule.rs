//! Rules that derive tags from the fields of a capture.

use redis::{FromRedisValue, ParsingError, Value};

use super::TagSpace;
use crate::server::Ask;

/// A rule that derives tags from a field.
#[derive(Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name of the rule.
    pub name: Vec<u8>,
    /// Field to which the rule is applied.
    pub field: Vec<u8>,
    /// Regular expression to search for in the field.
    pub regex: Vec<u8>,
    /// Templates of the tags, with `$1` or `${name}` for the groups of the match.
    pub templates: Vec<Vec<u8>>,
}

debug_as_text! { Rule { name: text, field: text, regex: text, templates: texts } }

impl FromRedisValue for Rule {
    fn from_redis_value(value: Value) -> Result<Rule, ParsingError> {
        let (name, field, regex, templates) = FromRedisValue::from_redis_value(value)?;
        Ok(Rule {
            name,
            field,
            regex,
            templates,
        })
    }
}

impl<S: Ask> TagSpace<S> {
    /// Creates or replaces a rule: a capture whose `field` matches `regex` gets the tags of the templates
    /// (`TAGS.RULESET`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.rule_set(b"coll", b"filename", br"(?:^|/)ARCHIVEIT-(\d+)-", &[b"coll:$1"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADFIELD`, `BADRE` or `SYNTAX` when an argument is invalid; or another server or connection error.
    pub fn rule_set(
        &self,
        name: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        regex: impl AsRef<[u8]>,
        templates: &[&[u8]],
    ) -> S::Answer<()> {
        let (name, field, regex) = (name.as_ref(), field.as_ref(), regex.as_ref());
        let mut set = self.command("TAGS.RULESET");
        set.arg(name).arg(field).arg(regex).arg(templates);
        self.repeat(set)
    }

    /// Deletes a rule (`TAGS.RULEDEL`). Returns true if the rule existed. After a retry, returns
    /// true if the second attempt deleted it.
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// space.rule_delete(b"coll")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn rule_delete(&self, name: impl AsRef<[u8]>) -> S::Answer<bool> {
        let name = name.as_ref();
        let mut delete = self.command("TAGS.RULEDEL");
        delete.arg(name);
        self.repeat(delete)
    }

    /// Lists all rules, in the order in which they were set (`TAGS.RULES`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// for rule in space.rules()? {
    ///     println!("{}", String::from_utf8_lossy(&rule.regex));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
    pub fn rules(&self) -> S::Answer<Vec<Rule>> {
        let rules = self.command("TAGS.RULES");
        self.repeat(rules)
    }
}
