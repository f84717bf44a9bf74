//! Parses YAML into a tree with positions, of bounded size and depth.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag, options};

use super::errors::Position;

/// Maximum size of a configuration, in bytes.
pub(crate) const MAX_TEXT: usize = 4 << 20;
/// Maximum number of values in a configuration; values repeated by `*` count each time.
const MAX_NODES: usize = 200_000;
/// Maximum nesting depth; a valid configuration has at most 7 levels.
const MAX_DEPTH: usize = 32;

/// A value and the position of its start.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub position: Position,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A plain or quoted string, not yet interpreted.
    Text {
        text: Rc<str>,
        plain: bool,
    },
    List(Rc<Vec<Node>>),
    Map(Rc<Vec<Pair>>),
}

#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub key: Rc<str>,
    pub position: Position,
    pub value: Node,
}

/// An error of the parser.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub position: Position,
    pub what: String,
}

/// Returns the nodes of a list, or the node itself as a list of one.
pub(super) fn each(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(nodes) => nodes,
        _ => std::slice::from_ref(node),
    }
}

impl Node {
    /// Returns whether the value is empty: `key:`, `~`, `null`.
    pub(crate) fn is_nothing(&self) -> bool {
        match &self.value {
            Value::Text { text, plain: true } => {
                matches!(&**text, "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// Returns the kind of the node, for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_nothing() => "nothing",
            Value::Text { .. } => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// A list or mapping whose end was not read yet: its anchor, and its content so far.
struct Open {
    position: Position,
    anchor: usize,
    /// Number of nodes created before this one.
    begin: usize,
    what: Filling,
}

enum Filling {
    List(Vec<Node>),
    Map {
        entries: Vec<Pair>,
        /// Values of `<<`; explicit entries take precedence over the entries of these values.
        merged: Vec<Node>,
        keys: HashSet<Rc<str>>,
        key: Option<Key>,
    },
}

struct Key {
    text: Rc<str>,
    position: Position,
    /// Set if the mapping already has this key.
    again: bool,
    /// Set if the key is `<<` without quotes.
    merge: bool,
}

/// Parses one YAML document. If a key occurs several times, uses its first value and warns about the others.
///
/// # Errors
/// The first error: invalid syntax, a document that is too large or too deep, or an unsupported type.
pub(crate) fn read(text: &str) -> Result<(Node, Vec<Wrong>), Wrong> {
    let mut tree = Tree::default();
    let mut end = Position { line: 1, column: 1 };
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax(text, &error))?;
        end = position(&span.start);
        tree.take(event, end)?;
    }
    match tree.root {
        Some(root) => Ok((root, tree.twice)),
        None => Err(wrong(end, "the file is empty: it needs collections")),
    }
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
    twice: Vec<Wrong>,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, position: Position) -> Result<(), Wrong> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(wrong(
                        position,
                        "a second document begins: the file must be one document",
                    ));
                }
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    return Err(wrong(
                        position,
                        "this alias (*) refers to a value that contains the alias",
                    ));
                };
                let (mut node, size) = (node.clone(), *size);
                node.position = position;
                self.count(size, position)?;
                self.put(node, false)?;
            }
            Event::Scalar(text, style, anchor, tag) => {
                understand(tag.as_deref(), position)?;
                self.count(1, position)?;
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let node = Node {
                    position,
                    value: Value::Text {
                        text: text.into(),
                        plain,
                    },
                };
                self.keep(anchor, &node, 1);
                self.put(node, true)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                understand(tag.as_deref(), position)?;
                self.begin(position, anchor, Filling::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                understand(tag.as_deref(), position)?;
                let what = Filling::Map {
                    entries: Vec::new(),
                    merged: Vec::new(),
                    keys: HashSet::new(),
                    key: None,
                };
                self.begin(position, anchor, what)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            // Ignore the ends of documents, and events without meaning.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, position: Position, anchor: usize, what: Filling) -> Result<(), Wrong> {
        self.count(1, position)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(wrong(
                position,
                format!("more than {MAX_DEPTH} levels deep"),
            ));
        }
        if let Some(Open {
            what: Filling::Map { key: None, .. },
            ..
        }) = self.open.last()
        {
            return Err(wrong(
                position,
                "a key must be a string: put it into quotes",
            ));
        }
        self.open.push(Open {
            position,
            anchor,
            begin: self.nodes,
            what,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Wrong> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.what {
            Filling::List(nodes) => Value::List(Rc::new(nodes)),
            Filling::Map {
                mut entries,
                merged,
                mut keys,
                ..
            } => {
                for node in &merged {
                    merge(node, &mut entries, &mut keys)?;
                }
                Value::Map(Rc::new(entries))
            }
        };
        let node = Node {
            position: open.position,
            value,
        };
        let size = self.nodes.saturating_sub(open.begin).saturating_add(1);
        self.keep(open.anchor, &node, size);
        self.put(node, false)
    }

    fn keep(&mut self, anchor: usize, node: &Node, size: usize) {
        // 0 means no anchor.
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
    }

    fn count(&mut self, nodes: usize, position: Position) -> Result<(), Wrong> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            Err(wrong(
                position,
                format!("more than {MAX_NODES} values, counting every expansion of an alias (*)"),
            ))
        } else {
            Ok(())
        }
    }

    /// Adds a complete value to its parent; `is_text` is false for a list, a mapping, and a value repeated by `*`.
    fn put(&mut self, node: Node, is_text: bool) -> Result<(), Wrong> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.what {
            Filling::List(nodes) => nodes.push(node),
            Filling::Map {
                entries,
                merged,
                keys,
                key,
            } => match key.take() {
                None => {
                    let position = node.position;
                    let nothing = node.is_nothing();
                    match node.value {
                        Value::Text { text, plain } if is_text && !nothing => {
                            let merge = plain && &*text == "<<";
                            let again = !merge && !keys.insert(text.clone());
                            if again {
                                let what = format!("{:?} occurs twice: remove one of them", &*text);
                                self.twice.push(wrong(position, what));
                            }
                            *key = Some(Key {
                                text,
                                position,
                                again,
                                merge,
                            });
                        }
                        _ => {
                            return Err(wrong(
                                position,
                                "a key must be a string: put it into quotes",
                            ));
                        }
                    }
                }
                Some(Key { merge: true, .. }) => merged.push(node),
                Some(Key { again: true, .. }) => {}
                Some(key) => entries.push(Pair {
                    key: key.text,
                    position: key.position,
                    value: node,
                }),
            },
        }
        Ok(())
    }
}

/// Adds the entries of `<<: *other` or `<<: [*one, *two]` whose keys are missing.
fn merge(node: &Node, entries: &mut Vec<Pair>, keys: &mut HashSet<Rc<str>>) -> Result<(), Wrong> {
    let maps = match &node.value {
        Value::Map(_) => std::slice::from_ref(node),
        Value::List(nodes) => nodes.as_slice(),
        Value::Text { .. } => &[],
    };
    let no_map = || wrong(node.position, "<< needs a mapping or a list of mappings");
    if maps.is_empty() {
        return Err(no_map());
    }
    for map in maps {
        let Value::Map(others) = &map.value else {
            return Err(no_map());
        };
        for other in others.iter() {
            if keys.insert(other.key.clone()) {
                entries.push(other.clone());
            }
        }
    }
    Ok(())
}

/// Accepts the tags of YAML's core schema, which have no effect, and refuses all others.
fn understand(tag: Option<&Tag>, position: Position) -> Result<(), Wrong> {
    match tag {
        None => Ok(()),
        Some(tag)
            if ["str", "int", "float", "map", "seq"]
                .iter()
                .any(|known| tag.is_yaml_core_schema_tag(known)) =>
        {
            Ok(())
        }
        Some(tag) => Err(wrong(
            position,
            format!("unsupported type {tag}: remove it"),
        )),
    }
}

fn syntax(text: &str, error: &granit_parser::ScanError) -> Wrong {
    let position = position(error.marker());
    let line = text
        .lines()
        .nth(position.line.saturating_sub(1))
        .unwrap_or_default();
    let indent = line.len().saturating_sub(line.trim_start().len());
    let tab = line.get(..indent).is_some_and(|blank| blank.contains('\t'));
    let hint = if tab {
        ": indent with spaces instead of tabs"
    } else {
        ""
    };
    wrong(position, format!("invalid YAML: {}{hint}", error.info()))
}

fn position(marker: &Marker) -> Position {
    Position {
        line: marker.line(),
        column: marker.col().saturating_add(1),
    }
}

fn wrong(position: Position, what: impl Into<String>) -> Wrong {
    Wrong {
        position,
        what: what.into(),
    }
}
