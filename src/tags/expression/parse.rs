//! Parser of expressions.

use super::{EXPRESSION_BYTES, Error, Expression, Groups, Template, Test};

/// Maximum nesting depth of `(` and `!`.
const MAX_DEPTH: usize = 100;

/// Parses an expression. Without `groups`, `$` has no special meaning.
pub fn parse(text: &[u8], groups: Option<&Groups>) -> Result<Expression, Error> {
    if text.len() > EXPRESSION_BYTES {
        return Err(Error::TooBig(format!(
            "the expression has {} bytes, the maximum is {EXPRESSION_BYTES}; give captures a tag instead of listing them",
            text.len()
        )));
    }
    let mut parser = Parser {
        text,
        at: 0,
        groups,
    };
    let expression = parser.any(0)?;
    match parser.peek() {
        None => Ok(expression),
        Some(b')') => Err(Error::syntax("unmatched ')'", parser.at)),
        Some(_) => Err(Error::syntax(
            format!("expected '|' or '&' before {}", parser.found()),
            parser.at,
        )),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    groups: Option<&'a Groups>,
}

/// The context of a string, which determines the characters that end the string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextKind {
    /// The name of a tag, access point or field.
    Name,
    /// Between `{` and `}`.
    Choice,
    /// After `=` or `*=`.
    Value,
    /// After `~`.
    Regex,
}

impl TextKind {
    fn ends_at(self, byte: u8) -> bool {
        if byte.is_ascii_whitespace() {
            return true;
        }
        match self {
            TextKind::Name | TextKind::Choice => b"|&!(){}*~=@".contains(&byte),
            TextKind::Value | TextKind::Regex => b"|&)".contains(&byte),
        }
    }
}

impl Parser<'_> {
    /// Skips whitespace and returns the next byte, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        while self.next().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.next()
    }

    /// Returns the next byte, without consuming it.
    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the next byte in the form that error messages use.
    fn found(&self) -> String {
        match self.next() {
            None => "the end".to_string(),
            Some(byte) => format!("'{}'", crawlspace_host::text::Shown(&[byte])),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Expression, Error> {
        self.list(depth, b'|', Parser::all, Expression::Any)
    }

    fn all(&mut self, depth: usize) -> Result<Expression, Error> {
        self.list(depth, b'&', Parser::one, Expression::All)
    }

    fn list(
        &mut self,
        depth: usize,
        sign: u8,
        part: fn(&mut Self, usize) -> Result<Expression, Error>,
        together: fn(Vec<Expression>) -> Expression,
    ) -> Result<Expression, Error> {
        let first = part(self, depth)?;
        if self.peek() != Some(sign) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.peek() == Some(sign) {
            self.at += 1;
            parts.push(part(self, depth)?);
        }
        Ok(together(parts))
    }

    fn one(&mut self, depth: usize) -> Result<Expression, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::syntax(
                format!("'(' and '!' nested more than {MAX_DEPTH} deep"),
                self.at,
            ));
        }
        match self.peek() {
            Some(b'!') => {
                self.at += 1;
                Ok(Expression::Not(Box::new(self.one(depth + 1)?)))
            }
            Some(b'(') => {
                let open = self.at;
                self.at += 1;
                let inner = self.any(depth + 1)?;
                match self.peek() {
                    Some(b')') => {
                        self.at += 1;
                        Ok(inner)
                    }
                    None => Err(Error::syntax("unmatched '('", open)),
                    Some(_) => Err(Error::syntax(
                        format!("expected '|', '&' or ')' before {}", self.found()),
                        self.at,
                    )),
                }
            }
            Some(b'@') => {
                self.at += 1;
                let name = self.text(TextKind::Name, "the name of an access point")?;
                Ok(Expression::Point(name))
            }
            Some(b'*') => {
                self.at += 1;
                match self.next() {
                    Some(byte) if !TextKind::Name.ends_at(byte) => Err(Error::syntax(
                        "unexpected '*' before text; use it alone or after text,",
                        self.at - 1,
                    )),
                    _ => Ok(Expression::Everything),
                }
            }
            Some(b'{') => self.choices(Template::default()),
            _ => self.named(),
        }
    }

    /// Parses a term that begins with a name: a tag, several tags, or a test of a field.
    fn named(&mut self) -> Result<Expression, Error> {
        let start = self.at;
        let name = self.text(TextKind::Name, "a tag")?;
        match (self.next(), self.text.get(self.at + 1)) {
            (Some(b'*'), Some(b'=')) => self.field(start, &name, Test::Contains, 2),
            (Some(b'='), _) => self.field(start, &name, Test::Equals, 1),
            (Some(b'~'), _) => self.field(start, &name, Test::Matches, 1),
            (Some(b'{'), _) => self.choices(name),
            (Some(b'*'), after) => {
                let after = after.copied();
                if after.is_some_and(|b| !TextKind::Name.ends_at(b) || b"{*@(!~".contains(&b)) {
                    return Err(Error::syntax(
                        "unexpected '*' in the middle of a tag; use it only at the end,",
                        self.at,
                    ));
                }
                self.at += 1;
                Ok(Expression::Prefix(name))
            }
            _ => Ok(Expression::Tag(name)),
        }
    }

    fn field(
        &mut self,
        start: usize,
        name: &Template,
        test: Test,
        sign: usize,
    ) -> Result<Expression, Error> {
        let Some(field) = name.as_literal() else {
            return Err(Error::syntax(
                "the name of a field cannot have a group",
                start,
            ));
        };
        if !crawlspace_cdx::Field::named(field).is_plausible() {
            return Err(Error::BadField(field.into()));
        }
        self.at += sign;
        let place = match test {
            Test::Matches => TextKind::Regex,
            _ => TextKind::Value,
        };
        let value = self.pieces(place)?;
        Ok(Expression::Field {
            field: field.to_vec(),
            test,
            value: value.unwrap_or_default(),
        })
    }

    fn choices(&mut self, prefix: Template) -> Result<Expression, Error> {
        let open = self.at;
        let mut choices = Vec::new();
        loop {
            // Consume the '{' or '|'.
            self.at += 1;
            self.peek();
            if self.next().is_none() {
                return Err(Error::syntax("unmatched '{'", open));
            }
            choices.push(self.text(TextKind::Choice, "a text")?);
            match self.peek() {
                Some(b'|') => {}
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                None => return Err(Error::syntax("unmatched '{'", open)),
                Some(_) => {
                    return Err(Error::syntax(
                        format!("expected '|' or '}}' before {}", self.found()),
                        self.at,
                    ));
                }
            }
        }
        if self.next() == Some(b'*') {
            return Err(Error::syntax("a '*' after a '}'", self.at));
        }
        Ok(Expression::OneOf(prefix, choices))
    }

    /// Parses a string that must be present. `what` is its name in error messages.
    fn text(&mut self, place: TextKind, what: &str) -> Result<Template, Error> {
        let start = self.at;
        match self.pieces(place)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(Error::syntax(
                format!("expected {what}, but the text is empty"),
                start,
            )),
            None => Err(Error::syntax(
                format!("expected {what} before {}", self.found()),
                self.at,
            )),
        }
    }

    /// Parses adjacent pieces of text, quoted or not. Returns `None` if there are no pieces.
    fn pieces(&mut self, place: TextKind) -> Result<Option<Template>, Error> {
        let mut template = Template::default();
        let start = self.at;
        while let Some(byte) = self.next() {
            match byte {
                b'"' | b'\'' => self.quoted(byte, place, &mut template)?,
                _ if place.ends_at(byte) => break,
                b'$' => {
                    let regex = place == TextKind::Regex;
                    self.at += template.dollar(self.text, self.at, self.groups, regex)?;
                }
                _ => self.at += template.push(&[byte]),
            }
        }
        Ok((self.at > start).then_some(template))
    }

    fn quoted(&mut self, quote: u8, place: TextKind, template: &mut Template) -> Result<(), Error> {
        let open = self.at;
        self.at += 1;
        loop {
            let Some(byte) = self.next() else {
                return Err(Error::syntax(format!("unclosed {}", quote as char), open));
            };
            match byte {
                _ if byte == quote => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    match self.next() {
                        Some(escaped @ (b'"' | b'\'' | b'\\')) => {
                            self.at += template.push(&[escaped]);
                        }
                        // Do not interpret other backslashes: they belong to the regular
                        // expression.
                        _ => {
                            template.push(b"\\");
                        }
                    }
                }
                b'$' => {
                    let regex = place == TextKind::Regex;
                    self.at += template.dollar(self.text, self.at, self.groups, regex)?;
                }
                _ => self.at += template.push(&[byte]),
            }
        }
    }
}
