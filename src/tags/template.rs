//! Templates: strings with placeholders for the capture groups of a regular expression, such as
//! `coll:$1`.

use super::error::Error;

/// A string with placeholders for capture groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Group(usize),
}

/// The groups of a regular expression, to which a template may refer by number. Group 0 is the
/// whole match. Some groups also have a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<Option<String>>);

impl Groups {
    /// Returns an empty set of groups, which does not even contain the whole match.
    pub fn none() -> Groups {
        Groups(Vec::new())
    }

    /// Returns the groups of a regular expression.
    pub fn of(regex: &regex::bytes::Regex) -> Groups {
        Groups(regex.capture_names().map(|n| n.map(String::from)).collect())
    }

    /// Parses the text after a `$`: the number or name of a group, with or without braces. Returns
    /// the group and the number of bytes read. Returns `None` if the text does not refer to a
    /// group.
    fn read(&self, text: &[u8], at: usize) -> Result<Option<(usize, usize)>, Error> {
        let braced = text.first() == Some(&b'{');
        let name = if braced {
            let Some(end) = memchr::memchr(b'}', text) else {
                return Err(Error::syntax("unmatched '${'", at));
            };
            &text[1..end]
        } else {
            let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
            &text[..digits]
        };
        if name.is_empty() && !braced {
            return Ok(None);
        }
        let shown = String::from_utf8_lossy(name);
        let number = if name.iter().all(u8::is_ascii_digit) {
            shown.parse().ok().filter(|&n: &usize| n < self.0.len())
        } else {
            self.0.iter().position(|n| n.as_deref() == Some(&*shown))
        };
        match number {
            Some(number) => Ok(Some((number, name.len() + 2 * usize::from(braced)))),
            None => Err(Error::syntax(
                format!(
                    "unknown group '{}'; known: {}",
                    crawlspace_host::text::Shown(name),
                    match self.0.len() {
                        0 => "none".to_string(),
                        1 => "only 0, the whole match".to_string(),
                        n => format!("0 to {}", n - 1),
                    }
                ),
                at,
            )),
        }
    }
}

impl Template {
    /// Creates a template without groups.
    pub fn literal(text: &[u8]) -> Template {
        let mut template = Template::default();
        template.push(text);
        template
    }

    /// Parses `$1`, `${1}` and `${name}` as groups and `$$` as `$`; all other text is literal.
    pub fn parse(text: &[u8], groups: &Groups) -> Result<Template, Error> {
        let mut template = Template::default();
        let mut at = 0;
        while at < text.len() {
            at += match text[at] {
                b'$' => template.dollar(text, at, Some(groups), false)?,
                byte => template.push(&[byte]),
            };
        }
        Ok(template)
    }

    /// Appends text. Returns its length.
    pub fn push(&mut self, text: &[u8]) -> usize {
        if let Some(Piece::Text(last)) = self.0.last_mut() {
            last.extend_from_slice(text);
        } else if !text.is_empty() {
            self.0.push(Piece::Text(text.to_vec()));
        }
        text.len()
    }

    /// Parses the `$` at `text[at]`, appends the group or the `$`, and returns the number of bytes
    /// read. Without `groups`, a `$` is literal. In a regular expression, a `$` that is not
    /// followed by a group is literal, too.
    pub fn dollar(
        &mut self,
        text: &[u8],
        at: usize,
        groups: Option<&Groups>,
        in_regex: bool,
    ) -> Result<usize, Error> {
        let Some(groups) = groups else {
            return Ok(self.push(b"$"));
        };
        // A dollar sign escaped by a backslash is not a placeholder.
        if in_regex && self.ends_with_escape() {
            return Ok(self.push(b"$"));
        }
        let rest = &text[at + 1..];
        if let Some((group, len)) = groups.read(rest, at)? {
            self.0.push(Piece::Group(group));
            return Ok(1 + len);
        }
        if in_regex {
            return Ok(self.push(b"$"));
        }
        if rest.first() == Some(&b'$') {
            self.push(b"$");
            return Ok(2);
        }
        Err(Error::syntax(
            "a '$' without a number or a name in braces; write '$$' for a '$',",
            at,
        ))
    }

    /// Returns true if the text ends with a backslash that is not itself escaped.
    fn ends_with_escape(&self) -> bool {
        let Some(Piece::Text(text)) = self.0.last() else {
            return false;
        };
        text.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
    }

    /// Returns true if the template is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text if the template refers to no group.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns true if the template refers to a group other than `group`.
    pub fn names_other_than(&self, group: usize) -> bool {
        self.0
            .iter()
            .any(|piece| matches!(piece, Piece::Group(n) if *n != group))
    }

    /// Appends the text with the groups filled in.
    ///
    /// # Errors
    /// Returns the number of the first group without a value.
    pub fn fill<V: AsRef<[u8]>>(
        &self,
        group: impl Fn(usize) -> Option<V>,
        into: &mut Vec<u8>,
    ) -> Result<(), usize> {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => into.extend_from_slice(text),
                Piece::Group(n) => into.extend_from_slice(group(*n).ok_or(*n)?.as_ref()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(regex: &str) -> Groups {
        Groups::of(&regex::bytes::Regex::new(regex).unwrap())
    }

    #[test]
    fn groups_are_inserted_by_number_and_name() {
        let groups = groups("(a)(?P<b>b)(c)?");
        let template = Template::parse(b"$1-${b}$$${2}$1x", &groups).unwrap();
        let mut filled = Vec::new();
        let value = |n: usize| [Some(&b"ab"[..]), Some(b"A"), Some(b"B"), None][n];
        template.fill(value, &mut filled).unwrap();
        assert_eq!(filled, b"A-B$BAx");
        let missing = Template::parse(b"x$3", &groups).unwrap();
        assert_eq!(missing.fill(value, &mut filled), Err(3));
    }

    #[test]
    fn unknown_group_is_an_error_with_its_position() {
        let groups = groups("(a)");
        for (text, at) in [
            ("x$2", 1),
            ("$", 0),
            ("ab$x", 2),
            ("${b}", 0),
            ("x${1", 1),
            ("${}", 0),
            ("$99999999999999999999999", 0),
        ] {
            match Template::parse(text.as_bytes(), &groups) {
                Err(Error::Syntax { at: found, .. }) => assert_eq!(found, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
