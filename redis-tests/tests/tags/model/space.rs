//! A tag space of the model, and the tags of a capture.

use crawlspace_compact::limits::tags::POINT_NAME_BYTES;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::capture::{Capture, Tags, canonical};
use crate::model::expression::{Expression, Text};
use crate::model::pattern::{Bytes, Fill, Pattern, captured};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Record,
    File,
    Tag,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Record, Kind::File, Kind::Tag];

    pub fn word(self) -> &'static str {
        ["RECORD", "FILE", "TAG"][self as usize]
    }
}

pub type Edges = BTreeMap<Bytes, Tags>;

#[derive(Clone, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub field: &'static str,
    pub pattern: Pattern,
    pub templates: Vec<Text>,
}

#[derive(Clone, Debug)]
pub struct Point {
    pub name: Bytes,
    /// Pattern of the name; `None` for a literal name.
    pub pattern: Option<Pattern>,
    pub expression: Expression,
    /// Text of the expression as it was set.
    pub text: Bytes,
}

/// An expression with the text of all groups inserted.
#[derive(Clone, Debug)]
pub enum Clear {
    Any,
    Tag(Bytes),
    Prefix(Bytes),
    OneOf(Vec<Bytes>),
    Is(&'static str, Bytes),
    Has(&'static str, Bytes),
    Finds(&'static str, Pattern),
    Not(Box<Clear>),
    And(Vec<Clear>),
    Or(Vec<Clear>),
}

/// Code words of errors. Any of them is valid.
pub type Codes = BTreeSet<&'static str>;

#[derive(Clone, Debug, Default)]
pub struct Space {
    pub edges: [Edges; 3],
    pub staged: [Option<Edges>; 3],
    pub rules: Vec<Rule>,
    pub points: Vec<Point>,
}

/// Adds an edge. Returns false if it exists.
pub fn add(edges: &mut Edges, id: &[u8], tag: &[u8]) -> bool {
    edges.entry(id.to_vec()).or_default().insert(tag.to_vec())
}

/// Returns true if a tag would carry itself.
pub fn has_cycle(edges: &Edges) -> bool {
    edges.keys().any(|tag| {
        let mut seen = Tags::new();
        close(edges, &mut seen, edges[tag].iter());
        seen.contains(tag)
    })
}

fn close<'a>(edges: &'a Edges, into: &mut Tags, tags: impl Iterator<Item = &'a Bytes>) {
    for tag in tags {
        if into.insert(tag.clone())
            && let Some(more) = edges.get(tag)
        {
            close(edges, into, more.iter());
        }
    }
}

impl Space {
    pub fn exists(&self) -> bool {
        self.edges.iter().any(|edges| !edges.is_empty())
            || self.staged.iter().any(Option::is_some)
            || !self.rules.is_empty()
            || !self.points.is_empty()
    }

    pub fn own(&self, kind: Kind, id: &[u8]) -> Tags {
        self.edges[kind as usize]
            .get(id)
            .cloned()
            .unwrap_or_default()
    }

    pub fn closed(&self, tags: &Tags) -> Tags {
        let mut all = Tags::new();
        let carried = &self.edges[Kind::Tag as usize];
        for tag in tags {
            all.insert(tag.clone());
            close(carried, &mut all, carried.get(tag).into_iter().flatten());
        }
        all
    }

    /// Returns the tags of a record under its id, and under its id with the base name of its file.
    fn of_record(&self, id: &[u8]) -> Tags {
        let mut tags = self.own(Kind::Record, id);
        let mut parts: Vec<&[u8]> = id.split(|b| *b == b' ').collect();
        if let [_, _, file, _] = &mut parts[..] {
            *file = file.rsplit(|b| *b == b'/').next().unwrap_or_default();
            tags.extend(self.own(Kind::Record, &parts.join(&b' ')));
        }
        tags
    }

    /// Returns the tags of a file under its name, and under its base name.
    fn of_file(&self, name: &[u8]) -> Tags {
        let base = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let mut tags = self.own(Kind::File, name);
        tags.extend(self.own(Kind::File, base));
        tags
    }

    fn by_rules(&self, field: impl Fn(&str) -> Option<Bytes>) -> Tags {
        let mut tags = Tags::new();
        for rule in &self.rules {
            let Some(value) = field(rule.field) else {
                continue;
            };
            let Some(captures) = rule.pattern.find(&value) else {
                continue;
            };
            let groups = rule.pattern.groups();
            for template in &rule.templates {
                let tag = template.filled(&|what| captured(&value, &captures, &groups, what));
                tags.extend(tag.filter(|tag| !tag.is_empty() && !tag.contains(&b' ')));
            }
        }
        tags
    }

    /// Returns every tag of a capture.
    pub fn tags(&self, capture: &Capture) -> Tags {
        // Rules ignore fields that the line does not have.
        let mut tags = self.by_rules(|field| capture.fields.get(canonical(field)).cloned());
        if let Some(record) = &capture.record {
            tags.extend(self.of_record(record));
        }
        if let Some(name) = capture.filename() {
            tags.extend(self.of_file(name));
        }
        self.closed(&tags)
    }

    /// Returns the tags of `GET … ALL`.
    pub fn all(&self, kind: Kind, id: &[u8]) -> Tags {
        match kind {
            Kind::Tag => {
                let mut tags = self.closed(&self.own(kind, id));
                tags.remove(id);
                tags
            }
            Kind::File => {
                let mut tags =
                    self.by_rules(|field| (canonical(field) == "filename").then(|| id.to_vec()));
                tags.extend(self.of_file(id));
                self.closed(&tags)
            }
            Kind::Record => {
                let parts: Vec<&[u8]> = id.split(|b| *b == b' ').collect();
                let [key, date, name, offset] = parts[..] else {
                    return self.closed(&self.own(kind, id));
                };
                let mut tags = self.by_rules(|field| {
                    let value = match canonical(field) {
                        "urlkey" => key,
                        "timestamp" => date,
                        "filename" => name,
                        "offset" => offset,
                        _ => return None,
                    };
                    Some(value.to_vec())
                });
                tags.extend(self.of_record(id));
                tags.extend(self.of_file(name));
                self.closed(&tags)
            }
        }
    }

    /// Returns every tag that occurs in an edge of an active copy.
    pub fn named(&self) -> Tags {
        let mut all: Tags = self
            .edges
            .iter()
            .flat_map(|edges| edges.values().flatten().cloned())
            .collect();
        all.extend(self.edges[Kind::Tag as usize].keys().cloned());
        all
    }

    /// Finds the point to which a name refers, and the text of its groups.
    fn resolve(&self, name: &[u8]) -> Option<(&Point, BTreeMap<String, Bytes>)> {
        if let Some(point) = self
            .points
            .iter()
            .find(|p| p.pattern.is_none() && p.name == name)
        {
            return Some((point, BTreeMap::new()));
        }
        self.points.iter().find_map(|point| {
            let pattern = point.pattern.as_ref()?;
            let captures = pattern.full(name)?;
            let groups = pattern.groups();
            let mut bring = BTreeMap::new();
            for (n, group) in groups.iter().enumerate() {
                let numbered = Fill::Number(n + 1);
                if let Some(text) = captured(name, &captures, &groups, &numbered) {
                    if let Some(group) = group {
                        bring.insert((*group).to_owned(), text.clone());
                    }
                    bring.insert((n + 1).to_string(), text);
                }
            }
            bring.insert("0".to_owned(), name.to_vec());
            Some((point, bring))
        })
    }

    /// Returns the name of the point to which a name refers, or the error codes if there is none.
    pub fn meant(&self, name: &[u8]) -> Result<Bytes, Codes> {
        if let Some(point) = self.points.iter().find(|p| p.name == name) {
            return Ok(point.name.clone());
        }
        let (point, _) = self.resolve(name).ok_or(Codes::from(["NOPOINT"]))?;
        self.point(name).map(|_| point.name.clone())
    }

    /// Expands a point.
    pub fn point(&self, name: &[u8]) -> Result<Clear, Codes> {
        let mut codes = Codes::new();
        let clear = self.point_below(name, &mut Vec::new(), 0, &mut codes);
        clear.filter(|_| codes.is_empty()).ok_or(codes)
    }

    /// Expands an expression from a client.
    pub fn expression(&self, expression: &Expression) -> Result<Clear, Codes> {
        let mut codes = Codes::new();
        let clear = self.clear(expression, &BTreeMap::new(), &mut Vec::new(), 0, &mut codes);
        clear.filter(|_| codes.is_empty()).ok_or(codes)
    }

    fn point_below(
        &self,
        name: &[u8],
        above: &mut Vec<Bytes>,
        depth: usize,
        codes: &mut Codes,
    ) -> Option<Clear> {
        if depth > 16 || above.iter().any(|n| n == name) {
            codes.insert(if depth > 16 { "TOOBIG" } else { "CYCLE" });
            return None;
        }
        let Some((point, bring)) = self.resolve(name) else {
            codes.insert("NOPOINT");
            return None;
        };
        if name.len() > POINT_NAME_BYTES {
            // The name is too long, so the model ignores other problems.
            codes.insert("NOPOINT");
        }
        above.push(name.to_vec());
        let clear = self.clear(&point.expression, &bring, above, depth + 1, codes);
        above.pop();
        if codes.remove("idle") {
            codes.insert("NOPOINT");
        }
        clear
    }

    /// Expands the expression of a point or of a client with the text of the groups.
    fn clear(
        &self,
        expression: &Expression,
        bring: &BTreeMap<String, Bytes>,
        above: &mut Vec<Bytes>,
        depth: usize,
        codes: &mut Codes,
    ) -> Option<Clear> {
        let fill = |what: &Fill| {
            let key = match what {
                Fill::Number(n) => n.to_string(),
                Fill::Name(name) => (*name).to_owned(),
            };
            bring.get(&key).cloned()
        };
        let text = |text: &Text, codes: &mut Codes| {
            let filled = text.filled(&fill);
            if filled.is_none() {
                codes.insert("idle");
            }
            filled
        };
        Some(match expression {
            Expression::Any => Clear::Any,
            Expression::Tag(t) => Clear::Tag(text(t, codes)?),
            Expression::Prefix(t) => Clear::Prefix(text(t, codes)?),
            Expression::OneOf(prefix, values) => {
                let prefix = text(prefix, codes);
                let values: Vec<Option<Bytes>> =
                    values.iter().map(|value| text(value, codes)).collect();
                let (prefix, values) = (prefix?, values.into_iter().collect::<Option<Vec<_>>>()?);
                Clear::OneOf(
                    values
                        .into_iter()
                        .map(|value| [&prefix[..], &value].concat())
                        .collect(),
                )
            }
            Expression::Is(field, t) => Clear::Is(field, text(t, codes)?),
            Expression::Has(field, t) => Clear::Has(field, text(t, codes)?),
            Expression::Finds(field, pattern) => match pattern.filled(&fill) {
                Some(pattern) => Clear::Finds(field, pattern),
                None => {
                    codes.insert("idle");
                    return None;
                }
            },
            Expression::Point(name) => {
                let name = text(name, codes)?;
                self.point_below(&name, above, depth, codes)?
            }
            Expression::Not(inner) => {
                Clear::Not(Box::new(self.clear(inner, bring, above, depth, codes)?))
            }
            Expression::And(parts) | Expression::Or(parts) => {
                let clear: Vec<Option<Clear>> = parts
                    .iter()
                    .map(|part| self.clear(part, bring, above, depth, codes))
                    .collect();
                let clear = clear.into_iter().collect::<Option<Vec<_>>>()?;
                match expression {
                    Expression::And(_) => Clear::And(clear),
                    _ => Clear::Or(clear),
                }
            }
        })
    }
}

impl Clear {
    /// Returns every field that the expression reads.
    pub fn fields(&self, into: &mut Vec<&'static str>) {
        match self {
            Clear::Is(field, _) | Clear::Has(field, _) | Clear::Finds(field, _) => into.push(field),
            Clear::Not(inner) => inner.fields(into),
            Clear::And(parts) | Clear::Or(parts) => parts.iter().for_each(|part| part.fields(into)),
            _ => (),
        }
    }

    pub fn passes(&self, tags: &Tags, field: &dyn Fn(&str) -> Bytes) -> bool {
        match self {
            Clear::Any => true,
            Clear::Tag(tag) => tags.contains(tag),
            Clear::Prefix(prefix) => tags.iter().any(|tag| tag.starts_with(prefix)),
            Clear::OneOf(all) => all.iter().any(|tag| tags.contains(tag)),
            Clear::Is(name, value) => field(name) == *value,
            Clear::Has(name, value) => contains(&field(name), value),
            Clear::Finds(name, pattern) => pattern.find(&field(name)).is_some(),
            Clear::Not(inner) => !inner.passes(tags, field),
            Clear::And(parts) => parts.iter().all(|part| part.passes(tags, field)),
            Clear::Or(parts) => parts.iter().any(|part| part.passes(tags, field)),
        }
    }
}

pub fn contains(text: &[u8], part: &[u8]) -> bool {
    (0..=text.len()).any(|at| text[at..].starts_with(part))
}
