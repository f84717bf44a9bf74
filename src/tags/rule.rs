//! Rules that read tags from a field of a capture.

pub use crawlspace_compact::limits::tags::MAX_RULES;
use crawlspace_compact::limits::tags::{FIELD_BYTES, TEMPLATE_BYTES};
use std::sync::Arc;

use crawlspace_cdx::Field;
use crawlspace_cdx::{Anchor, Limits, Pattern};

use super::affix::Affix;
use super::error::Error;
use super::index::TAG_BYTES;
use super::template::{Groups, Template};
use crawlspace_host::text::Shown;

pub use crawlspace_compact::limits::tags::RULE_NAME_BYTES as NAME_BYTES;
/// Maximum number of templates of a rule.
const MAX_TEMPLATES: usize = 1000;
/// Limits of a rule's regular expression. Every server that loads the space compiles the expression
/// again.
const LIMITS: Limits = Limits {
    pattern_bytes: 64 << 10,
    compiled_bytes: 4 << 20,
};

/// A rule. If the regular expression of a rule matches a field of a capture, the capture gets the
/// tags of the rule's templates.
#[derive(Debug)]
pub struct Rule {
    name: Box<[u8]>,
    field: Field,
    regex: Box<[u8]>,
    pattern: Pattern,
    /// A form of the pattern that can be searched faster, if the pattern has such a form.
    affix: Option<Affix>,
    templates: Vec<(Box<[u8]>, Template)>,
}

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Fails if the name, the field, the regular expression or a template is malformed or too large.
    pub fn new(
        name: &[u8],
        field: &[u8],
        regex: &[u8],
        templates: &[&[u8]],
    ) -> Result<Rule, Error> {
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(Error::Argument(format!(
                "the name of a rule has {} bytes, not 1 to {NAME_BYTES}",
                name.len()
            )));
        }
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
        if field.is_empty() || field.len() > FIELD_BYTES || !field.iter().all(plain) {
            return Err(Error::BadFieldName(field.into()));
        }
        if templates.is_empty() || templates.len() > MAX_TEMPLATES {
            return Err(Error::TooBig(format!(
                "a rule has 1 to {MAX_TEMPLATES} templates, not {}",
                templates.len()
            )));
        }
        let pattern = Pattern::compile(regex, Anchor::Anywhere, LIMITS)
            .map_err(|error| Error::BadPattern(format!("in rule '{}': {error}", Shown(name))))?;
        let groups = Groups::of(pattern.regex());
        let templates: Vec<_> = templates
            .iter()
            .map(|&text| {
                if text.len() > TEMPLATE_BYTES {
                    return Err(Error::TooBig(format!(
                        "a template has {} bytes, the maximum is {TEMPLATE_BYTES}",
                        text.len()
                    )));
                }
                Ok((Box::from(text), Template::parse(text, &groups)?))
            })
            .collect::<Result<_, Error>>()?;
        // An affix finds only the first group, not the start of the whole match.
        let only_first = !templates.iter().any(|(_, t)| t.names_other_than(1));
        Ok(Rule {
            name: name.into(),
            field: Field::named(field),
            regex: regex.into(),
            affix: only_first.then(|| Affix::of(regex)).flatten(),
            pattern,
            templates,
        })
    }

    /// Returns true if both rules are identical.
    pub fn is(&self, other: &Rule) -> bool {
        self.name == other.name
            && self.field == other.field
            && self.regex == other.regex
            && self.templates().eq(other.templates())
    }

    /// Returns the weight of the regular expression, or 0 if an affix replaces it.
    pub fn weight(&self) -> usize {
        match self.affix {
            Some(_) => 0,
            None => self.pattern.weight(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the field that the rule reads.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the regular expression as it was set.
    pub fn regex(&self) -> &[u8] {
        &self.regex
    }

    /// Returns the templates as they were set.
    pub fn templates(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.templates.iter().map(|(text, _)| &**text)
    }

    /// Returns the part of the field that determines the tags: the first group, or the whole field.
    /// Returns `None` if the rule does not match. Fields with equal parts get equal tags.
    #[inline]
    pub fn part<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        match &self.affix {
            Some(affix) => affix.find(value),
            None => self.pattern.is_match(value).then_some(value),
        }
    }

    /// Calls `each` with every tag that the rule derives from a part.
    pub fn tags_of_part(&self, part: &[u8], each: &mut dyn FnMut(&[u8])) {
        if self.affix.is_some() {
            self.fill(|n| (n == 1).then_some(part), each);
        } else {
            self.tags_of(part, each);
        }
    }

    /// Calls `each` with every tag that the rule derives from a field.
    pub fn tags_of(&self, value: &[u8], each: &mut dyn FnMut(&[u8])) {
        if let Some(groups) = self.pattern.regex().captures(value) {
            self.fill(|n| groups.get(n).map(|group| group.as_bytes()), each);
        }
    }

    fn fill<'v>(&self, group: impl Fn(usize) -> Option<&'v [u8]>, each: &mut dyn FnMut(&[u8])) {
        let mut tag = Vec::new();
        for (_, template) in &self.templates {
            tag.clear();
            let filled = template.fill(&group, &mut tag).is_ok();
            if filled && (1..=TAG_BYTES).contains(&tag.len()) && !tag.contains(&b' ') {
                each(&tag);
            }
        }
    }

    fn bytes(&self) -> usize {
        let templates: usize = self.templates.iter().map(|(t, _)| 100 + 2 * t.len()).sum();
        // A compiled pattern takes some kilobytes, plus an amount that grows with its length.
        16_384 + self.name.len() + 64 * self.regex.len() + templates
    }
}

/// The rules of a space, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Arc<Rule>>);

impl Rules {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.0.iter().map(|rule| rule.bytes()).sum()
    }

    /// Iterates over the rules in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|rule| &**rule)
    }

    /// Sets a rule. If a rule with the same name exists, replaces it and keeps its position.
    ///
    /// # Errors
    /// `TOOBIG` if the space is full.
    pub fn set(&mut self, rule: Rule) -> Result<(), Error> {
        match self.0.iter().position(|known| known.name == rule.name) {
            Some(at) => self.0[at] = Arc::new(rule),
            None if self.len() >= MAX_RULES => {
                return Err(Error::TooBig(format!(
                    "a space has at most {MAX_RULES} rules"
                )));
            }
            None => self.0.push(Arc::new(rule)),
        }
        Ok(())
    }

    /// Removes a rule. Returns true if the rule existed.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.len();
        self.0.retain(|rule| *rule.name != *name);
        self.len() < before
    }
}
