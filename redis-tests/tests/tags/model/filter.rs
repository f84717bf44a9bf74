//! `FILTER` as specified: filter specs of three dialects, then collapse, skip and limit.

use redis_tests::{Reply, bulk, int};

use crate::model::capture::{Capture, Format, Line, Read, STANDARD, read};
use crate::model::expression::Expression;
use crate::model::pattern::{Bytes, Node, Pattern};
use crate::model::space::{Clear, Codes, Space, contains};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dialect {
    Outback,
    Ia,
    Pywb,
}

/// One `FILTER` spec.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The operator before the field: one of `"" ! ~ = != !~ ~!`.
    pub signs: &'static str,
    pub field: Option<&'static str>,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Pattern(Pattern),
    /// Values of a tag filter.
    Tags(Vec<&'static str>),
}

impl Spec {
    pub fn text(&self) -> Bytes {
        let value = match &self.value {
            Value::Pattern(pattern) => pattern.regex(),
            Value::Tags(values) => values.join("|").into_bytes(),
        };
        match self.field {
            Some(field) => [self.signs.as_bytes(), field.as_bytes(), b":", &value].concat(),
            None => [self.signs.as_bytes(), &value].concat(),
        }
    }

    fn check(&self, dialect: Dialect, codes: &mut Codes) {
        let tilde_or_equals = self.signs.contains(['~', '=']);
        match (&self.value, dialect) {
            (Value::Tags(_), _) if tilde_or_equals => {
                codes.insert("SYNTAX");
            }
            (Value::Tags(_), _) | (_, Dialect::Ia | Dialect::Pywb) => (),
            _ if self.field.is_none() || ["=", "!=", "!~"].contains(&self.signs) => {
                // According to the table of the specification, this is an error.
                codes.insert("");
            }
            _ => (),
        }
    }

    /// Returns the field that a line must have, if there is one.
    fn needs(&self, dialect: Dialect) -> Option<&'static str> {
        let by_field = dialect == Dialect::Outback && matches!(self.value, Value::Pattern(_));
        self.field.filter(|_| by_field)
    }

    fn passes(&self, dialect: Dialect, capture: &Capture, has_tag: &dyn Fn(&[u8]) -> bool) -> bool {
        let pattern = match &self.value {
            Value::Pattern(pattern) => pattern,
            Value::Tags(values) => {
                let field = self.field.expect("a tag filter has one");
                let space = field
                    .strip_prefix("tag.")
                    .map_or(String::new(), |space| format!("{space}:"));
                let found = values
                    .iter()
                    .any(|value| has_tag(format!("{space}{value}").as_bytes()));
                return found != (self.signs == "!");
            }
        };
        let text = pattern.regex();
        let field = self.field.and_then(|field| capture.get(field));
        // If the dialect does not have an operator, the operator is the start of the text.
        let after =
            |sign: u8| Pattern([vec![Node::Literal(vec![sign])], pattern.0.clone()].concat());
        let line = &capture.line;
        match dialect {
            Dialect::Outback => {
                let value = field.expect("checked before");
                match self.signs {
                    "" => pattern.full(&value).is_some(),
                    "!" => pattern.full(&value).is_none(),
                    "~" => contains(&value, &text),
                    "~!" => !contains(&value, &text),
                    other => panic!("{other} was refused"),
                }
            }
            Dialect::Ia => {
                let value = field.as_ref().unwrap_or(line);
                let whole = |sign: u8| match self.field {
                    Some(_) => pattern.full(line).is_some(),
                    None => after(sign).full(line).is_some(),
                };
                match self.signs {
                    "" => pattern.full(value).is_some(),
                    "!" => pattern.full(value).is_none(),
                    "~" => contains(value, &text),
                    "~!" => !contains(value, &text),
                    "=" => whole(b'='),
                    "!=" => !whole(b'='),
                    _ => !whole(b'~'),
                }
            }
            Dialect::Pywb => {
                let value = match self.field {
                    Some(_) => field.unwrap_or_default(),
                    None => line.clone(),
                };
                match self.signs {
                    "" => contains(&value, &text),
                    "!" => !contains(&value, &text),
                    "~" => pattern.starts(&value),
                    "!~" => !pattern.starts(&value),
                    "=" => value == text,
                    "!=" => value != text,
                    _ if self.field.is_some() => pattern.starts(b""),
                    _ => after(b'!').starts(&value),
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Lines,
    Index,
    Bits,
    Count,
    Tags,
}

/// A call of `FILTER`.
#[derive(Clone, Debug)]
pub struct Call {
    pub point: Option<Bytes>,
    pub condition: Option<(Expression, Bytes)>,
    pub specs: Vec<Spec>,
    pub dialect: Dialect,
    pub collapse: Option<(&'static str, Option<usize>)>,
    pub skip: usize,
    pub limit: Option<usize>,
    pub format: Format,
    pub drop_bad: bool,
    pub form: Form,
    pub blob: bool,
    pub lines: Vec<Line>,
}

/// The expected reply, or the codes of the expected error.
#[derive(Clone, Debug)]
pub enum Expected {
    Reply(Reply),
    Error(Codes),
    /// An error that starts with this text.
    Line(String),
}

impl Call {
    fn clear(&self, space: &Space, codes: &mut Codes) -> Vec<Clear> {
        let mut clear = Vec::new();
        let point = self.point.as_ref().map(|name| space.point(name));
        let condition = self.condition.as_ref().map(|(e, _)| space.expression(e));
        for result in point.into_iter().chain(condition) {
            match result {
                Ok(one) => clear.push(one),
                Err(more) => codes.extend(more),
            }
        }
        clear
    }

    /// Returns the fields that every line must have.
    fn needs(&self, clear: &[Clear]) -> Vec<&'static str> {
        let mut fields = Vec::new();
        clear.iter().for_each(|one| one.fields(&mut fields));
        fields.extend(
            self.specs
                .iter()
                .filter_map(|spec| spec.needs(self.dialect)),
        );
        fields.extend(self.collapse.map(|(field, _)| field));
        fields.retain(|field| !STANDARD.contains(&crate::model::capture::canonical(field)));
        fields
    }

    /// Returns the errors that the command detects before it reads a line.
    fn refused(&self, space: &Space, codes: &mut Codes) -> Vec<Clear> {
        for spec in &self.specs {
            spec.check(self.dialect, codes);
        }
        let clear = self.clear(space, codes);
        let plain = ![Format::Auto, Format::Cdxj].contains(&self.format);
        if plain && !self.needs(&clear).is_empty() {
            codes.insert("BADFIELD");
        }
        clear
    }

    pub fn expected(&self, space: &Space) -> Expected {
        let mut codes = Codes::new();
        let clear = self.refused(space, &mut codes);
        if !codes.is_empty() {
            return Expected::Error(codes);
        }
        let needs = self.needs(&clear);
        let mut kept: Vec<(usize, Capture)> = Vec::new();
        let mut last: Option<Bytes> = None;
        let mut skipped = 0;
        for (n, line) in self.lines.iter().enumerate() {
            if self.limit.is_some_and(|limit| kept.len() >= limit) {
                break;
            }
            let capture = match read(line, self.format) {
                Read::Skipped => continue,
                Read::Bad if self.drop_bad => continue,
                Read::Bad => return Expected::Line(format!("BADLINE line {}", n + 1)),
                Read::Good(capture) => capture,
            };
            if !capture.is_json && !needs.is_empty() {
                return Expected::Error(Codes::from(["BADFIELD"]));
            }
            if !self.passes(space, &clear, &capture) {
                continue;
            }
            if let Some((field, bytes)) = self.collapse {
                let mut value = capture.get(field).expect("checked before");
                value.truncate(bytes.unwrap_or(usize::MAX));
                if last.as_ref() == Some(&value) {
                    continue;
                }
                last = Some(value);
            }
            if skipped < self.skip {
                skipped += 1;
                continue;
            }
            kept.push((n, capture));
        }
        if !space.exists() {
            kept.clear();
        }
        Expected::Reply(self.reply(space, &kept))
    }

    fn passes(&self, space: &Space, clear: &[Clear], capture: &Capture) -> bool {
        let tags = space.tags(capture);
        let field = |name: &str| capture.get(name).expect("checked before");
        clear.iter().all(|one| one.passes(&tags, &field))
            && self
                .specs
                .iter()
                .all(|spec| spec.passes(self.dialect, capture, &|tag| tags.contains(tag)))
    }

    /// Returns the expected reply of `EXPLAIN` for the only line.
    pub fn explained(&self, space: &Space) -> Option<(bool, Reply)> {
        let mut codes = Codes::new();
        let clear = self.refused(space, &mut codes);
        let Read::Good(capture) = read(&self.lines[0], self.format) else {
            return None;
        };
        let needs = self.needs(&clear);
        if !codes.is_empty() || (!needs.is_empty() && !capture.is_json) {
            return None;
        }
        let tags = space.tags(&capture).iter().map(bulk).collect();
        let keep = space.exists() && self.passes(space, &clear, &capture);
        Some((keep, Reply::Array(tags)))
    }

    fn reply(&self, space: &Space, kept: &[(usize, Capture)]) -> Reply {
        match self.form {
            Form::Lines if self.blob => bulk(
                kept.iter()
                    .flat_map(|(_, capture)| [&capture.line[..], b"\n"].concat())
                    .collect::<Bytes>(),
            ),
            Form::Lines => Reply::Array(
                kept.iter()
                    .map(|(_, capture)| bulk(&capture.line))
                    .collect(),
            ),
            Form::Index => Reply::Array(kept.iter().map(|(n, _)| int(*n as i64)).collect()),
            Form::Count => int(kept.len() as i64),
            Form::Bits => {
                let mut bits = vec![0u8; self.lines.len().div_ceil(8)];
                for (n, _) in kept {
                    bits[n / 8] |= 0x80 >> (n % 8);
                }
                bulk(bits)
            }
            Form::Tags => {
                let one = |(n, capture): &(usize, Capture)| {
                    let tags = space.tags(capture).iter().map(bulk).collect();
                    Reply::Array(vec![int(*n as i64), Reply::Array(tags)])
                };
                Reply::Array(kept.iter().map(one).collect())
            }
        }
    }

    /// Returns the arguments after `TAGS.FILTER key`.
    pub fn words(&self) -> Vec<Bytes> {
        let mut words: Vec<Bytes> = Vec::new();
        let mut say = |word: &str, value: Bytes| words.extend([word.as_bytes().to_vec(), value]);
        if let Some(point) = &self.point {
            say("POINT", point.clone());
        }
        if let Some((_, text)) = &self.condition {
            say("WHERE", text.clone());
        }
        let number = |n: usize| n.to_string().into_bytes();
        if self.dialect != Dialect::Outback || self.specs.len() == 1 {
            let name = ["OUTBACK", "IA", "PYWB"][self.dialect as usize];
            say("DIALECT", name.into());
        }
        // Use one option with several values, or one option for each value.
        let together = self.lines.len().is_multiple_of(2);
        for (n, spec) in self.specs.iter().enumerate() {
            if n == 0 || !together {
                words.push(b"FILTER".to_vec());
            }
            words.push(spec.text());
        }
        let mut say = |word: &str, value: Bytes| words.extend([word.as_bytes().to_vec(), value]);
        if let Some((field, bytes)) = self.collapse {
            let bytes = bytes.map_or(String::new(), |n| format!(":{n}"));
            say("COLLAPSE", format!("{field}{bytes}").into_bytes());
        }
        if self.skip > 0 {
            say("SKIP", number(self.skip));
        }
        if let Some(limit) = self.limit {
            say("LIMIT", number(limit));
        }
        if self.format != Format::Auto {
            say("FORMAT", self.format.word().into());
        }
        if self.drop_bad {
            say("BADLINES", b"DROP".to_vec());
        }
        if self.form != Form::Lines {
            let name = ["LINES", "INDEX", "BITS", "COUNT", "TAGS"][self.form as usize];
            say("RETURN", name.into());
        }
        let lines = self.lines.iter().map(|line| line.text.clone());
        if self.blob {
            let end: &[u8] = match self.lines.len() % 3 {
                0 => b"\r\n",
                _ => b"\n",
            };
            // An empty last line without a line feed is not a line.
            let mut blob: Bytes = lines.flat_map(|line| [&line[..], end].concat()).collect();
            if self.lines.last().is_some_and(|line| !line.text.is_empty())
                && self.skip.is_multiple_of(2)
            {
                blob.truncate(blob.len() - end.len());
            }
            words.extend([b"BLOB".to_vec(), blob]);
        } else {
            words.push(b"LINES".to_vec());
            words.extend(lines);
        }
        words
    }
}
