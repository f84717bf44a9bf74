//! Regular expressions without a regex engine. A pattern is built from simple parts, formatted as a
//! regex for the server, and matched here by plain backtracking.

use redis_tests::{Rng, rows};

pub type Bytes = Vec<u8>;

/// The group whose text is inserted.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    Number(usize),
    Name(&'static str),
}

/// A part of a pattern.
#[derive(Clone, Debug)]
pub enum Node {
    Literal(Bytes),
    Dot,
    Digit,
    Class(Bytes),
    Start,
    End,
    /// A group with its number, name and alternatives.
    Group(usize, Option<&'static str>, Vec<Vec<Node>>),
    /// A repetition of a one-byte part or of a group that may not match.
    Repeat(Box<Node>, usize, Option<usize>),
    /// Text from the name of a point.
    Fill(Fill),
}

/// The ranges that the groups matched. The first is the whole match.
pub type Captures = Vec<Option<(usize, usize)>>;

#[derive(Clone, Debug)]
pub struct Pattern(pub Vec<Node>);

/// The special characters of a regex.
const SIGNS: &[u8] = b"\\.+*?()|[]{}^$";

impl Pattern {
    pub fn literal(text: &[u8]) -> Pattern {
        Pattern(vec![Node::Literal(text.to_vec())])
    }

    /// Returns a random pattern over these bytes.
    pub fn random(rng: &mut Rng, bytes: &[u8]) -> Pattern {
        let mut groups = 0;
        let mut nodes = Vec::new();
        if rng.chance(25) {
            nodes.push(Node::Start);
        }
        for _ in 0..1 + rng.below(4) {
            nodes.push(part(rng, bytes, &mut groups, 0));
        }
        if rng.chance(25) {
            nodes.push(Node::End);
        }
        Pattern(nodes)
    }

    /// Returns the names of the groups. Groups without a name are `None`.
    pub fn groups(&self) -> Vec<Option<&'static str>> {
        fn walk(nodes: &[Node], into: &mut Vec<Option<&'static str>>) {
            for node in nodes {
                match node {
                    Node::Group(_, name, alternatives) => {
                        into.push(*name);
                        alternatives.iter().for_each(|nodes| walk(nodes, into));
                    }
                    Node::Repeat(node, ..) => walk(std::slice::from_ref(node), into),
                    _ => (),
                }
            }
        }
        let mut all = Vec::new();
        walk(&self.0, &mut all);
        all
    }

    /// Formats the pattern as a regex. Writes inserted text as references, as in a point.
    pub fn regex(&self) -> Bytes {
        let mut out = Vec::new();
        write(&self.0, &mut out);
        out
    }

    /// Returns the pattern with all text inserted. Returns `None` if some of it is missing.
    pub fn filled(&self, fill: &dyn Fn(&Fill) -> Option<Bytes>) -> Option<Pattern> {
        let nodes = self.0.iter().map(|node| match node {
            Node::Fill(what) => fill(what).map(Node::Literal),
            other => Some(other.clone()),
        });
        nodes.collect::<Option<Vec<_>>>().map(Pattern)
    }

    fn at(&self, text: &[u8], at: usize, full: bool) -> Option<Captures> {
        let mut captures = vec![None; self.groups().len() + 1];
        let mut found = None;
        let matches = run(&self.0, text, at, &mut captures, &mut |end, captures| {
            if full && end != text.len() {
                return false;
            }
            let mut all = captures.clone();
            all[0] = Some((at, end));
            found = Some(all);
            true
        });
        assert_eq!(matches, found.is_some());
        found
    }

    /// Returns the first match anywhere.
    pub fn find(&self, text: &[u8]) -> Option<Captures> {
        (0..=text.len()).find_map(|at| self.at(text, at, false))
    }

    /// Returns the match if it covers the whole text.
    pub fn full(&self, text: &[u8]) -> Option<Captures> {
        self.at(text, 0, true)
    }

    /// Returns true if the pattern matches at the start.
    pub fn starts(&self, text: &[u8]) -> bool {
        self.at(text, 0, false).is_some()
    }
}

/// Returns the text that a group matched.
pub fn captured(
    text: &[u8],
    captures: &Captures,
    names: &[Option<&'static str>],
    what: &Fill,
) -> Option<Bytes> {
    let number = match what {
        Fill::Number(n) => *n,
        Fill::Name(name) => 1 + names.iter().position(|n| *n == Some(name))?,
    };
    let (from, to) = captures.get(number).copied().flatten()?;
    Some(text[from..to].to_vec())
}

fn part(rng: &mut Rng, bytes: &[u8], groups: &mut usize, depth: usize) -> Node {
    let single = |rng: &mut Rng| match rng.below(6) {
        0 => Node::Dot,
        1 => Node::Digit,
        2 => Node::Class(
            (0..1 + rng.below(3))
                .map(|_| *rng.pick(bytes))
                .filter(u8::is_ascii_alphanumeric)
                .chain([b'a'])
                .collect(),
        ),
        _ => Node::Literal(vec![*rng.pick(bytes)]),
    };
    match rng.below(10) {
        0..=2 => Node::Literal((0..1 + rng.below(3)).map(|_| *rng.pick(bytes)).collect()),
        3..=4 => single(rng),
        5..=6 => {
            let (min, max) = *rng.pick(&rows![
                0, None; 1, None; 0, Some(1); 1, Some(2); 2, Some(2);
            ]);
            Node::Repeat(Box::new(single(rng)), min, max)
        }
        _ if depth == 2 => single(rng),
        n => {
            *groups += 1;
            let number = *groups;
            let name = (number <= NAMES.len() && rng.chance(30)).then(|| NAMES[number - 1]);
            let mut alternatives = Vec::new();
            for _ in 0..1 + rng.below(2) {
                let count = 1 + rng.below(2);
                alternatives.push(
                    (0..count)
                        .map(|_| part(rng, bytes, groups, depth + 1))
                        .collect(),
                );
            }
            let group = Node::Group(number, name, alternatives);
            match n {
                9 => Node::Repeat(Box::new(group), 0, Some(1)),
                _ => group,
            }
        }
    }
}

const NAMES: [&str; 3] = ["n", "ns", "year"];

fn write(nodes: &[Node], out: &mut Bytes) {
    for node in nodes {
        match node {
            Node::Literal(text) => {
                for &byte in text {
                    if SIGNS.contains(&byte) {
                        out.push(b'\\');
                    }
                    out.push(byte);
                }
            }
            Node::Dot => out.push(b'.'),
            Node::Digit => out.extend(b"\\d"),
            Node::Class(bytes) => {
                out.push(b'[');
                out.extend(bytes);
                out.push(b']');
            }
            Node::Start => out.push(b'^'),
            Node::End => out.push(b'$'),
            Node::Group(_, name, alternatives) => {
                out.push(b'(');
                if let Some(name) = name {
                    out.extend(format!("?P<{name}>").bytes());
                }
                for (n, alternative) in alternatives.iter().enumerate() {
                    if n > 0 {
                        out.push(b'|');
                    }
                    write(alternative, out);
                }
                out.push(b')');
            }
            Node::Repeat(node, min, max) => {
                write(std::slice::from_ref(node), out);
                match (min, max) {
                    (0, None) => out.push(b'*'),
                    (1, None) => out.push(b'+'),
                    (0, Some(1)) => out.push(b'?'),
                    (min, max) => out.extend(
                        format!("{{{min},{}}}", max.map_or(String::new(), |n| n.to_string()))
                            .bytes(),
                    ),
                }
            }
            // Only points have inserted text. They format their regexes part by part.
            Node::Fill(_) => panic!("nothing to fill in here"),
        }
    }
}

type Then<'a> = &'a mut dyn FnMut(usize, &mut Captures) -> bool;

fn one(node: &Node, byte: u8) -> bool {
    match node {
        Node::Literal(text) => text == &[byte],
        Node::Dot => byte != b'\n',
        Node::Digit => byte.is_ascii_digit(),
        Node::Class(bytes) => bytes.contains(&byte),
        other => panic!("{other:?} does not match exactly one byte"),
    }
}

fn run(nodes: &[Node], text: &[u8], at: usize, captures: &mut Captures, then: Then) -> bool {
    let Some((first, rest)) = nodes.split_first() else {
        return then(at, captures);
    };
    match first {
        Node::Literal(literal) => {
            text[at..].starts_with(literal) && run(rest, text, at + literal.len(), captures, then)
        }
        Node::Dot | Node::Digit | Node::Class(_) => {
            at < text.len() && one(first, text[at]) && run(rest, text, at + 1, captures, then)
        }
        Node::Start => at == 0 && run(rest, text, at, captures, then),
        Node::End => at == text.len() && run(rest, text, at, captures, then),
        Node::Group(number, _, alternatives) => alternatives.iter().any(|alternative| {
            run(alternative, text, at, captures, &mut |end, captures| {
                let before = captures[*number];
                captures[*number] = Some((at, end));
                let matches = run(rest, text, end, captures, then);
                if !matches {
                    captures[*number] = before;
                }
                matches
            })
        }),
        Node::Repeat(node, ..) if matches!(**node, Node::Group(..)) => {
            let with = [vec![(**node).clone()], rest.to_vec()].concat();
            run(&with, text, at, captures, then) || run(rest, text, at, captures, then)
        }
        Node::Repeat(node, min, max) => {
            let most = text[at..]
                .iter()
                .take_while(|byte| one(node, **byte))
                .count();
            let most = max.map_or(most, |max| most.min(max));
            (*min..=most)
                .rev()
                .any(|n| run(rest, text, at + n, captures, then))
        }
        Node::Fill(_) => panic!("nothing to fill in here"),
    }
}
