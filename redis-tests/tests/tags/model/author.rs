//! Generates random histories with few different names, so that the same names occur often.

use redis_tests::{Rng, rows};

use crate::model::capture::{FILES, Format, STANDARD, VALUES, random_line, record_id};
use crate::model::command::{Command, Mode, Swap};
use crate::model::expression::{Expression, Piece, Taste, Text};
use crate::model::filter::{Call, Dialect, Form, Spec, Value};
use crate::model::pattern::{Bytes, Fill, Node, Pattern};
use crate::model::space::{Kind, Point, Rule, Space};

const TAGS: [&str; 14] = [
    "p", "q", "r", "c:1", "c:2", "c:12", "o:1", "o:2", "private", "x|y", "*", "$1", "e\u{e9}",
    "\"'\\",
];
const POINTS: [&str; 7] = ["all", "o-1", "p1", "a.", "pp", "o-x|*", ""];
const FIELDS: [&str; 10] = rows![
    "urlkey"; "timestamp"; "url"; "original"; "mime"; "status"; "statuscode"; "filename"; "offset"; "colour";
];
const RULES: [&str; 4] = ["r1", "r2", "r3", "r 4"];

fn tag(rng: &mut Rng) -> Bytes {
    rng.pick(&TAGS).as_bytes().to_vec()
}

fn tags(rng: &mut Rng, least: u64) -> Vec<Bytes> {
    (0..least + rng.below(3)).map(|_| tag(rng)).collect()
}

fn id(rng: &mut Rng, kind: Kind) -> Bytes {
    match kind {
        Kind::Record if rng.chance(95) => record_id(rng).into_bytes(),
        Kind::Record => b"odd".to_vec(),
        Kind::File => rng.pick(&FILES).as_bytes().to_vec(),
        Kind::Tag => tag(rng),
    }
}

/// Returns a name that may match a pattern.
fn point_name(rng: &mut Rng) -> Bytes {
    if rng.chance(20) {
        return (0..1 + rng.below(4))
            .map(|_| *rng.pick(b"opa-1.2x"))
            .collect();
    }
    let name = *rng.pick(&POINTS[..6]);
    name.as_bytes().to_vec()
}

/// Returns a name that refers to a point in most cases.
fn known_point(rng: &mut Rng, space: &Space) -> Bytes {
    let name = point_name(rng);
    let literal = |p: &&Point| p.pattern.is_none();
    let known: Vec<&Point> = space.points.iter().filter(literal).collect();
    if space.point(&name).is_err() && !known.is_empty() && rng.chance(80) {
        rng.pick(&known).name.clone()
    } else {
        name
    }
}

fn taste<'a>(fields: &'a [&'static str], fills: &'a [Fill]) -> Taste<'a> {
    Taste {
        tags: &TAGS,
        points: &POINTS[..6],
        fields,
        values: &VALUES,
        fills,
    }
}

/// Returns an expression, in most cases without unknown points, which would make the command fail.
fn condition(rng: &mut Rng) -> (Expression, Bytes) {
    let fields = match rng.below(10) {
        0 => &FIELDS[..],
        1..=4 => &FIELDS[..9],
        _ => &[],
    };
    let mut taste = taste(fields, &[]);
    if rng.chance(70) {
        taste.points = &[];
    }
    let depth = rng.below(4) as usize;
    let expression = Expression::random(rng, &taste, depth);
    let text = expression.write(rng, false);
    (expression, text)
}

fn fills(pattern: &Pattern) -> Vec<Fill> {
    let groups = pattern.groups();
    let numbers = (0..=groups.len()).map(Fill::Number);
    let names = groups.iter().flatten().map(|name| Fill::Name(name));
    numbers.chain(names).collect()
}

fn point(rng: &mut Rng) -> Point {
    let pattern = match rng.below(6) {
        0..=2 => None,
        3 => Some(Pattern(vec![
            Node::Literal(b"o-".to_vec()),
            Node::Group(
                1,
                None,
                vec![vec![Node::Repeat(Box::new(Node::Dot), 0, None)]],
            ),
        ])),
        _ => Some(Pattern::random(rng, b"opa-1x")),
    };
    let mut name = point_name(rng);
    let mut known = Vec::new();
    let mut pattern = pattern;
    if let Some(p) = &pattern {
        name = p.regex();
        known = fills(p);
    }
    if !name.iter().any(|b| br"\()[]{}*+?|^$".contains(b)) {
        pattern = None;
        known = Vec::new();
    } else if pattern.is_none() {
        // `o-x|*` is not a regex, so this name cannot be used for a point.
        name = b"all".to_vec();
    }
    let fields = if rng.chance(30) { &FIELDS[..9] } else { &[] };
    let mut taste = taste(fields, &known);
    if rng.chance(50) {
        taste.points = &[];
    }
    let depth = rng.below(3) as usize;
    let expression = Expression::random(rng, &taste, depth);
    let text = expression.write(rng, true);
    Point {
        name,
        pattern,
        expression,
        text,
    }
}

fn rule(rng: &mut Rng) -> Rule {
    let field = *rng.pick(&rows![
        "filename"; "filename"; "filename"; "urlkey"; "timestamp"; "offset"; "mime"; "mimetype"; "status";
        "colour"; "coll"; "url";
    ]);
    let pattern = Pattern::random(rng, b"ack-/x12");
    let known = fills(&pattern);
    let templates = (0..1 + rng.below(2)).map(|_| {
        let mut pieces = Vec::new();
        if rng.chance(70) {
            pieces.push(Piece::Bytes(
                rng.pick(&["c:", "o:", "t", "$", "", "a b"])
                    .as_bytes()
                    .to_vec(),
            ));
        }
        if rng.chance(80) || pieces.is_empty() {
            pieces.push(Piece::Fill(rng.pick(&known).clone()));
        }
        if rng.chance(20) {
            pieces.push(Piece::Bytes(rng.pick(&["0", "x", "$"]).as_bytes().to_vec()));
        }
        Text(pieces)
    });
    let templates = templates.collect();
    Rule {
        name: *rng.pick(&RULES),
        field,
        pattern,
        templates,
    }
}

fn spec(rng: &mut Rng, dialect: Dialect) -> Spec {
    if rng.chance(30) {
        let (field, values) = *rng.pick(&[
            ("tag.c", &["1", "2", "12", "3"][..]),
            ("tag.o", &["1", "2"]),
            ("tag", &["p", "q", "private", "c:1", "x"]),
            ("tag.any", &["1"]),
        ]);
        return Spec {
            signs: *rng.pick(&["", "", "", "!", "!", "~"]),
            field: Some(field),
            value: Value::Tags((0..1 + rng.below(3)).map(|_| *rng.pick(values)).collect()),
        };
    }
    let odd = rng.chance(if dialect == Dialect::Outback { 4 } else { 40 });
    let signs = if odd {
        ["=", "!=", "!~", "~!"][rng.below(4) as usize]
    } else {
        *rng.pick(&["", "!", "~", "~!"])
    };
    let field = match rng.below(20) {
        0 => Some("colour"),
        1 if odd => None,
        _ => Some(*rng.pick(&FIELDS[..9])),
    };
    let mut pattern = Pattern::random(rng, b"ack-/x1204");
    if rng.chance(40) {
        pattern = Pattern::literal(
            rng.pick(&["200", "2020", "a", "k1", "x/a", "text", "-"])
                .as_bytes(),
        );
    }
    if rng.chance(60) {
        let any = || Node::Repeat(Box::new(Node::Dot), 0, None);
        pattern.0.insert(0, any());
        pattern.0.push(any());
    }
    Spec {
        signs,
        field,
        value: Value::Pattern(pattern),
    }
}

fn call(rng: &mut Rng, space: &Space) -> Call {
    let format = *rng.pick(&[
        Format::Auto,
        Format::Auto,
        Format::Auto,
        Format::Cdx,
        Format::Cdxj,
        Format::Record,
        Format::File,
    ]);
    let dialect = *rng.pick(&[Dialect::Outback, Dialect::Ia, Dialect::Pywb]);
    let bad = *rng.pick(&[0, 0, 0, 3, 20]);
    let fits = |field: &&&str| STANDARD.contains(&crate::model::capture::canonical(field));
    let collapses: Vec<&'static str> = FIELDS
        .iter()
        .filter(fits)
        .copied()
        .chain(["colour"])
        .collect();
    let collapse = match rng.chance(25) {
        true if rng.chance(5) => Some(("colour", None)),
        true => Some((
            *rng.pick(&collapses[..9]),
            rng.chance(50).then(|| 1 + rng.below(5) as usize),
        )),
        false => None,
    };
    let count = *rng.pick(&[0, 1, 3, 8, 9, 20, 20, 60]);
    Call {
        point: rng.chance(25).then(|| known_point(rng, space)),
        condition: rng.chance(50).then(|| condition(rng)),
        specs: (0..*rng.pick(&[0, 0, 0, 1, 1, 2]))
            .map(|_| spec(rng, dialect))
            .collect(),
        dialect,
        collapse,
        skip: *rng.pick(&[0, 0, 0, 0, 0, 1, 3]),
        limit: rng.chance(25).then(|| *rng.pick(&[0, 1, 2, 5, 5, 100])),
        format,
        drop_bad: rng.chance(if bad > 0 { 60 } else { 10 }),
        form: *rng.pick(&[
            Form::Lines,
            Form::Index,
            Form::Bits,
            Form::Count,
            Form::Tags,
        ]),
        blob: rng.chance(40) || count == 0,
        lines: (0..count).map(|_| random_line(rng, format, bad)).collect(),
    }
}

fn load(rng: &mut Rng) -> Command {
    let kind = *rng.pick(&Kind::ALL);
    let mode = match rng.below(10) {
        0..=2 => Mode::Merge,
        3..=5 => Mode::Set,
        6 => Mode::Replace,
        _ => Mode::Stage,
    };
    let mut pairs: Vec<(Bytes, Vec<Bytes>)> = Vec::new();
    for _ in 0..rng.below(6) {
        let id = id(rng, kind);
        // The documentation does not define the meaning of a repeated id.
        if pairs.iter().all(|(other, _)| *other != id) {
            pairs.push((id, tags(rng, 0)));
        }
    }
    Command::Load(kind, mode, pairs)
}

/// Returns the next command of a history.
pub fn command(rng: &mut Rng, space: &Space) -> Command {
    let kind = *rng.pick(&Kind::ALL);
    match rng.below(1000) {
        0..=119 => Command::Add(kind, id(rng, kind), tags(rng, 1)),
        120..=169 => Command::Rem(kind, id(rng, kind), tags(rng, 1)),
        170..=189 => Command::Get(kind, id(rng, kind)),
        190..=259 => Command::All(kind, id(rng, kind)),
        260..=329 => load(rng),
        330..=349 => Command::Swap(kind, Swap::Plain),
        350..=359 => Command::Swap(kind, Swap::Expect(rng.below(5) as usize)),
        360..=364 => Command::Swap(kind, Swap::Discard),
        365..=389 => Command::RuleSet(rule(rng)),
        390..=399 => Command::RuleDel(*rng.pick(&RULES)),
        400..=404 => Command::Rules,
        405..=449 => Command::PointSet(point(rng)),
        450..=464 => Command::PointDel(point_name(rng)),
        465..=469 => Command::Points,
        470..=499 => Command::PointOf(known_point(rng, space)),
        500..=839 => Command::Filter(call(rng, space)),
        840..=909 => {
            let mut call = call(rng, space);
            let format = call.format;
            call.lines = vec![random_line(rng, format, 5)];
            call.blob = false;
            call.form = Form::Lines;
            (call.skip, call.limit, call.collapse) = (0, None, None);
            call.drop_bad = false;
            Command::Explain(call)
        }
        910..=949 => {
            let (expression, text) = loop {
                let (expression, text) = condition(rng);
                let mut fields = 0;
                expression.each(&mut |part| {
                    let field = matches!(
                        part,
                        Expression::Is(..) | Expression::Has(..) | Expression::Finds(..)
                    );
                    fields += usize::from(field);
                });
                if fields == 0 || rng.chance(10) {
                    break (expression, text);
                }
            };
            let prefix = rng
                .chance(40)
                .then(|| tag(rng))
                .map(|tag| tag[..1].to_vec());
            Command::List(expression, text, prefix)
        }
        950..=964 => {
            let prefix = rng
                .chance(40)
                .then(|| id(rng, kind))
                .map(|id| id[..1].to_vec());
            Command::Scan(kind, prefix)
        }
        965..=979 => Command::Info,
        980..=984 => Command::Exists,
        985..=989 => Command::Reload,
        990..=997 => Command::Dump,
        _ => Command::Del,
    }
}
