//! A command of a history: its arguments, and its effect on the model.

use redis_tests::{Reply, bulk, int, simple};

pub use redis_tests::history::Verdict;

use crate::model::capture::{Tags, canonical};
use crate::model::expression::{Expression, Piece};
use crate::model::filter::{Call, Expected};
use crate::model::pattern::Bytes;
use crate::model::space::{Codes, Edges, Kind, Point, Rule, Space, add, has_cycle};

#[derive(Clone, Debug)]
pub enum Mode {
    Merge,
    Set,
    Replace,
    Stage,
}

#[derive(Clone, Debug)]
pub enum Swap {
    Plain,
    Expect(usize),
    Discard,
}

#[derive(Clone, Debug)]
pub enum Command {
    Add(Kind, Bytes, Vec<Bytes>),
    Rem(Kind, Bytes, Vec<Bytes>),
    Get(Kind, Bytes),
    All(Kind, Bytes),
    Load(Kind, Mode, Vec<(Bytes, Vec<Bytes>)>),
    Swap(Kind, Swap),
    RuleSet(Rule),
    RuleDel(&'static str),
    Rules,
    PointSet(Point),
    PointDel(Bytes),
    Points,
    PointOf(Bytes),
    Filter(Call),
    Explain(Call),
    /// An expression, its text, and a prefix.
    List(Expression, Bytes, Option<Bytes>),
    Scan(Kind, Option<Bytes>),
    Info,
    Exists,
    Reload,
    Dump,
    Del,
}
use Command::*;

fn same(reply: &Reply, expected: &Reply) -> Verdict {
    if reply == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {reply:?}"))
    }
}

fn refused(reply: &Reply, code: &str) -> Verdict {
    match reply {
        Reply::Error(line) if line.starts_with(code.as_bytes()) => Ok(()),
        other => Err(format!("expected the error {code:?}, got {other:?}")),
    }
}

fn refused_with_one(reply: &Reply, codes: &Codes) -> Verdict {
    let one = codes.iter().any(|code| refused(reply, code).is_ok());
    one.then_some(()).ok_or(format!(
        "expected one of the errors {codes:?}, got {reply:?}"
    ))
}

fn texts(tags: &Tags) -> Reply {
    Reply::Array(tags.iter().map(bulk).collect())
}

fn number(n: usize) -> Reply {
    int(n as i64)
}

fn loaded(edges: &mut Edges, pairs: &[(Bytes, Vec<Bytes>)]) {
    for (id, tags) in pairs {
        for tag in tags {
            add(edges, id, tag);
        }
    }
}

impl Command {
    /// Returns the arguments of the command for the tag space at this key. For a listing, returns
    /// the arguments of the first page.
    pub fn words(&self, key: &str) -> Vec<Bytes> {
        let of = |name: &str, rest: &[&[u8]]| {
            let first = [format!("TAGS.{name}").into_bytes(), key.as_bytes().to_vec()];
            first
                .into_iter()
                .chain(rest.iter().map(|word| word.to_vec()))
                .collect::<Vec<Bytes>>()
        };
        let with = |mut words: Vec<Bytes>, more: Vec<Bytes>| {
            words.extend(more);
            words
        };
        match self {
            Add(kind, id, tags) => with(of("ADD", &[kind.word().as_bytes(), id]), tags.clone()),
            Rem(kind, id, tags) => with(of("REM", &[kind.word().as_bytes(), id]), tags.clone()),
            Get(kind, id) => of("GET", &[kind.word().as_bytes(), id]),
            All(kind, id) => of("GET", &[kind.word().as_bytes(), id, b"ALL"]),
            Load(kind, mode, pairs) => {
                let mode = format!("{mode:?}").to_uppercase();
                let pairs = pairs
                    .iter()
                    .flat_map(|(id, tags)| [id.clone(), tags.join(&b' ')]);
                with(
                    of("LOAD", &[kind.word().as_bytes(), mode.as_bytes()]),
                    pairs.collect(),
                )
            }
            Swap(kind, Swap::Plain) => of("SWAP", &[kind.word().as_bytes()]),
            Swap(kind, Swap::Expect(n)) => of(
                "SWAP",
                &[kind.word().as_bytes(), b"EXPECT", n.to_string().as_bytes()],
            ),
            Swap(kind, Swap::Discard) => of("SWAP", &[kind.word().as_bytes(), b"DISCARD"]),
            RuleSet(rule) => {
                let templates = rule.templates.iter().map(|template| template.template());
                with(
                    of(
                        "RULESET",
                        &[
                            rule.name.as_bytes(),
                            rule.field.as_bytes(),
                            &rule.pattern.regex(),
                        ],
                    ),
                    templates.collect(),
                )
            }
            RuleDel(name) => of("RULEDEL", &[name.as_bytes()]),
            Rules => of("RULES", &[]),
            PointSet(point) => of("POINTSET", &[&point.name, &point.text]),
            PointDel(name) => of("POINTDEL", &[name]),
            Points => of("POINTS", &[]),
            PointOf(name) => of("POINTS", &[name]),
            Filter(call) => with(of("FILTER", &[]), call.words()),
            Explain(call) => with(of("EXPLAIN", &[]), call.words()),
            List(_, text, prefix) => {
                let prefix = prefix
                    .iter()
                    .flat_map(|prefix| [b"PREFIX".to_vec(), prefix.clone()]);
                with(of("LIST", &[text]), prefix.collect())
            }
            Scan(kind, _) => of("SCAN", &[kind.word().as_bytes()]),
            Info => of("INFO", &[]),
            Exists => vec![b"EXISTS".to_vec(), key.into()],
            Reload => vec![b"DEBUG".to_vec(), b"RELOAD".to_vec()],
            Dump => vec![b"DUMP".to_vec(), key.into()],
            Del => vec![b"DEL".to_vec(), key.into()],
        }
    }

    /// Applies the command and compares the reply with the expected one. For a listing, the reply
    /// consists of all pages together.
    pub fn follow(&self, space: &mut Space, reply: &Reply) -> Verdict {
        let existed = space.exists();
        match self {
            Add(kind, id, tags) => {
                let edges = &mut space.edges[*kind as usize];
                let before = edges.clone();
                let added = tags.iter().filter(|tag| add(edges, id, tag)).count();
                if *kind == Kind::Tag && has_cycle(edges) {
                    *edges = before;
                    return refused(reply, "CYCLE ");
                }
                same(reply, &number(added))
            }
            Rem(kind, id, tags) => {
                let edges = &mut space.edges[*kind as usize];
                let mut removed = 0;
                if let Some(own) = edges.get_mut(id) {
                    removed = tags.iter().filter(|tag| own.remove(*tag)).count();
                    if own.is_empty() {
                        edges.remove(id);
                    }
                }
                same(reply, &number(removed))
            }
            Get(kind, id) => same(reply, &texts(&space.own(*kind, id))),
            All(kind, id) => same(reply, &texts(&space.all(*kind, id))),
            Load(kind, mode, pairs) => {
                let slot = *kind as usize;
                let mut edges = match mode {
                    Mode::Merge | Mode::Set => space.edges[slot].clone(),
                    Mode::Replace => Edges::new(),
                    Mode::Stage => space.staged[slot].clone().unwrap_or_default(),
                };
                if matches!(mode, Mode::Set) {
                    pairs.iter().for_each(|(id, _)| drop(edges.remove(id)));
                }
                loaded(&mut edges, pairs);
                if *kind == Kind::Tag && has_cycle(&edges) {
                    return refused(reply, "CYCLE ");
                }
                match mode {
                    Mode::Stage => space.staged[slot] = Some(edges),
                    _ => space.edges[slot] = edges,
                }
                same(reply, &number(pairs.len()))
            }
            Swap(kind, how) => {
                let staged = &mut space.staged[*kind as usize];
                match (how, staged.as_ref().map(Edges::len)) {
                    (Swap::Discard, count) => {
                        *staged = None;
                        same(reply, &number(count.unwrap_or(0)))
                    }
                    (_, None) => refused(reply, "NOSTAGE "),
                    (Swap::Expect(n), Some(count)) if *n != count => refused(reply, "NOSTAGE "),
                    (_, Some(count)) => {
                        space.edges[*kind as usize] = staged.take().unwrap_or_default();
                        same(reply, &number(count))
                    }
                }
            }
            RuleSet(rule) => {
                match space.rules.iter_mut().find(|r| r.name == rule.name) {
                    Some(old) => *old = rule.clone(),
                    None => space.rules.push(rule.clone()),
                }
                same(reply, &simple("OK"))
            }
            RuleDel(name) => {
                let before = space.rules.len();
                space.rules.retain(|rule| rule.name != *name);
                same(reply, &number(before - space.rules.len()))
            }
            Rules => {
                let rules = space.rules.iter().map(|rule| {
                    let templates = rule.templates.iter().map(|t| bulk(t.template())).collect();
                    Reply::Array(vec![
                        bulk(rule.name),
                        bulk(canonical(rule.field)),
                        bulk(rule.pattern.regex()),
                        Reply::Array(templates),
                    ])
                });
                same(reply, &Reply::Array(rules.collect()))
            }
            PointSet(point) => {
                let before = space.points.clone();
                match space.points.iter_mut().find(|p| p.name == point.name) {
                    Some(old) => *old = point.clone(),
                    None => space.points.push(point.clone()),
                }
                if let Reply::Error(line) = reply {
                    space.points = before;
                    let mut refers = false;
                    point
                        .expression
                        .each(&mut |part| refers |= matches!(part, Expression::Point(_)));
                    return if line.starts_with(b"CYCLE ") && refers {
                        Ok(())
                    } else {
                        Err(format!("expected OK, got {reply:?}"))
                    };
                }
                if point.pattern.is_none() && is_in_a_cycle(space, &point.name) {
                    return refused(reply, "CYCLE ");
                }
                same(reply, &simple("OK"))
            }
            PointDel(name) => {
                let before = space.points.len();
                space.points.retain(|point| point.name != *name);
                same(reply, &number(before - space.points.len()))
            }
            Points => {
                let points = space
                    .points
                    .iter()
                    .map(|p| Reply::Array(vec![bulk(&p.name), bulk(&p.text)]));
                same(reply, &Reply::Array(points.collect()))
            }
            PointOf(name) => match (space.meant(name), reply) {
                (Err(codes), reply) => refused_with_one(reply, &codes),
                (Ok(meant), Reply::Array(points)) if points.len() == 1 => {
                    same(&points[0].items()[0], &bulk(meant))
                }
                (Ok(meant), other) => {
                    Err(format!("expected {}, got {other:?}", meant.escape_ascii()))
                }
            },
            Filter(call) => filtered(call, space, reply),
            Explain(call) => explained(call, space, reply),
            List(expression, _, prefix) => listed(expression, prefix.as_ref(), space, reply),
            Scan(kind, prefix) => {
                let wanted = space.edges[*kind as usize].iter();
                let wanted = wanted
                    .filter(|(id, _)| prefix.as_ref().is_none_or(|prefix| id.starts_with(prefix)));
                let wanted = wanted.map(|(id, tags)| {
                    let tags: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
                    Reply::Array(vec![bulk(id), bulk(tags.join(&b' '))])
                });
                let mut found: Vec<Reply> = reply
                    .items()
                    .chunks(2)
                    .map(|pair| Reply::Array(pair.to_vec()))
                    .collect();
                found.sort();
                found.dedup();
                same(&Reply::Array(found), &Reply::Array(wanted.collect()))
            }
            Info => {
                for (n, kind) in ["record", "file", "tag"].iter().enumerate() {
                    let edges = &space.edges[n];
                    let staged = space.staged[n].as_ref().map_or(0, Edges::len);
                    let count = edges.values().map(Tags::len).sum();
                    for (name, value) in [
                        (format!("{kind}-ids"), edges.len()),
                        (format!("{kind}-edges"), count),
                        (format!("staged-{kind}-ids"), staged),
                    ] {
                        same(&reply.field(&name), &number(value))
                            .map_err(|e| format!("{name} {e}"))?;
                    }
                }
                for (name, value) in [
                    ("rules", space.rules.len()),
                    ("points", space.points.len()),
                    ("tags", space.named().len()),
                ] {
                    same(&reply.field(name), &number(value)).map_err(|e| format!("{name} {e}"))?;
                }
                if (reply.field("memory").int() > 0) == existed {
                    Ok(())
                } else {
                    Err(format!(
                        "memory of a missing key, or none of an existing one: {reply:?}"
                    ))
                }
            }
            Exists => same(reply, &number(usize::from(existed))),
            Reload => same(reply, &simple("OK")),
            Dump => Ok(()),
            Del => {
                *space = Space::default();
                same(reply, &number(usize::from(existed)))
            }
        }
    }
}

/// Returns true if a literal point refers to itself through literal points.
fn is_in_a_cycle(space: &Space, start: &Bytes) -> bool {
    let mut open = vec![start.clone()];
    let mut seen = Tags::new();
    while let Some(name) = open.pop() {
        let Some(point) = space
            .points
            .iter()
            .find(|p| p.pattern.is_none() && p.name == name)
        else {
            continue;
        };
        let mut next = Vec::new();
        point.expression.each(&mut |part| {
            if let Expression::Point(text) = part
                && text.0.iter().all(|piece| matches!(piece, Piece::Bytes(_)))
            {
                next.extend(text.filled(&|_| None));
            }
        });
        for name in next {
            if name == *start {
                return true;
            }
            if seen.insert(name.clone()) {
                open.push(name);
            }
        }
    }
    false
}

fn filtered(call: &Call, space: &Space, reply: &Reply) -> Verdict {
    let expected = call.expected(space);
    if !space.exists() {
        // No line is shown. The documentation does not define which lines are reported as bad.
        let nothing = Call {
            lines: call.lines.clone(),
            ..call.clone()
        };
        let empty = Call {
            limit: Some(0),
            specs: vec![],
            point: None,
            condition: None,
            collapse: None,
            ..nothing
        };
        if let Expected::Reply(empty) = empty.expected(space) {
            let must = matches!(&expected, Expected::Error(codes) if codes.contains("NOPOINT"));
            let bad = ["BADLINE ", "BADFIELD "]
                .iter()
                .any(|code| refused(reply, code).is_ok());
            if !must && (*reply == empty || bad) {
                return Ok(());
            }
        }
    }
    match expected {
        Expected::Reply(expected) => same(reply, &expected),
        Expected::Line(start) => refused(reply, &format!("{start}: ")),
        Expected::Error(codes) => refused_with_one(reply, &codes),
    }
}

fn explained(call: &Call, space: &Space, reply: &Reply) -> Verdict {
    let Some((keep, tags)) = call.explained(space) else {
        let missing = !space.exists() && !reply.is_error() && reply.field("keep") == int(0);
        return if missing { Ok(()) } else { refused(reply, "") };
    };
    if reply.is_error() {
        return Err(format!("expected an explanation, got {reply:?}"));
    }
    same(&reply.field("keep"), &number(usize::from(keep))).map_err(|e| format!("keep {e}"))?;
    let mut told: Vec<Reply> = reply
        .field("tags")
        .items()
        .iter()
        .map(|pair| pair.items()[0].clone())
        .collect();
    told.sort();
    told.dedup();
    if space.exists() {
        same(&Reply::Array(told), &tags).map_err(|e| format!("tags {e}"))?;
    }
    Ok(())
}

fn listed(
    expression: &Expression,
    prefix: Option<&Bytes>,
    space: &Space,
    reply: &Reply,
) -> Verdict {
    let mut fields = Vec::new();
    let clear = match space.expression(expression) {
        Ok(clear) => clear,
        Err(codes) if space.exists() || reply.is_error() => {
            let mut codes = codes;
            codes.insert("BADFIELD");
            return refused_with_one(reply, &codes);
        }
        Err(_) => return same(reply, &Reply::Array(vec![])),
    };
    clear.fields(&mut fields);
    if !fields.is_empty() {
        return refused(reply, "BADFIELD ");
    }
    if reply.is_error() {
        return Err(format!("expected a list, got {reply:?}"));
    }
    let no_field = |_: &str| Vec::new();
    let wanted = space.named().into_iter().filter(|tag| {
        let tags = space.closed(&Tags::from([tag.clone()]));
        prefix.is_none_or(|prefix| tag.starts_with(prefix)) && clear.passes(&tags, &no_field)
    });
    let mut found = reply.items().to_vec();
    found.sort();
    found.dedup();
    same(&Reply::Array(found), &texts(&wanted.collect()))
}
