//! A condition in a form for testing many captures. Clauses that depend only on tags are separated from the
//! other clauses, and every question about tags has a number.
//!
//! A capture has its direct tags and all tags that these tags carry. Therefore, the combined
//! answers for the direct tags of a capture answer every question about its tags. The answers for
//! each tag are computed once, and cached as a [`Mask`] with one bit per question. Testing a
//! capture then only takes look-ups of the masks of its direct tags.

use crawlspace_cdx::{Dialect, Field, Filter, Format, Line};
use hashbrown::HashSet;
use smallvec::SmallVec;

use super::error::Error;
use super::expression::{Clause, FieldTest};

/// The answers to all questions about tags, one bit per question.
pub type Mask = SmallVec<[u64; 1]>;

/// A condition against which captures are tested.
#[derive(Debug)]
pub struct Condition {
    questions: Vec<Question>,
    /// Tests that depend only on tags.
    of_tags: Node,
    /// All other tests, which must also pass.
    of_line: Vec<Node>,
    /// Number of tests of lines. `weight` is the total weight of the regular expressions in these
    /// tests.
    tests: usize,
    weight: usize,
    /// Worst-case cost of the regular expressions per byte; see [`cost`].
    cost: usize,
    /// A field that the condition tests and that exists only in CDXJ lines, if there is one.
    needs_cdxj: Option<Box<[u8]>>,
    /// Number of columns that a line must have, for fields that are given by number.
    needs_columns: usize,
}

/// A question about tags: does the capture have one of these tags, or a tag with one of these
/// prefixes?
#[derive(Debug, Default)]
struct Question {
    tags: HashSet<Box<[u8]>>,
    prefixes: Vec<Box<[u8]>>,
}

#[derive(Debug)]
enum Node {
    Always,
    Question(usize),
    Field(FieldTest),
    Filter(Filter),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// Returns the worst-case cost, per input byte, of matching a regular expression of this weight.
/// The unit is 1/16 of the per-byte cost of a plain condition. A heavy expression has too many
/// automaton states to cache, so each byte takes a full step.
pub(super) fn cost(weight: usize) -> usize {
    match weight {
        ..=64 => weight,
        heavy => heavy.saturating_mul(16),
    }
}

impl Condition {
    /// Creates a condition from clauses that must all be true. `dialect` is the dialect of those
    /// clauses that are filters.
    pub fn new(clauses: Vec<Clause>, dialect: Dialect) -> Condition {
        let mut condition = Condition {
            questions: Vec::new(),
            of_tags: Node::Always,
            of_line: Vec::new(),
            tests: 0,
            weight: 0,
            cost: 0,
            needs_cdxj: None,
            needs_columns: 0,
        };
        let mut of_tags = Vec::new();
        for clause in clauses {
            condition.place(clause, dialect, &mut of_tags);
        }
        condition.of_tags = Node::All(of_tags);
        condition
    }

    /// Adds a clause, which must be true, either to the tests of tags or to the tests of the line.
    fn place(&mut self, clause: Clause, dialect: Dialect, of_tags: &mut Vec<Node>) {
        match clause {
            Clause::All(parts) => {
                for part in parts {
                    self.place(part, dialect, of_tags);
                }
            }
            Clause::Point(_, inner) => self.place(*inner, dialect, of_tags),
            other => {
                let node = self.node(other, dialect);
                if node.asks_of_line() {
                    self.of_line.push(node);
                } else {
                    of_tags.push(node);
                }
            }
        }
    }

    fn node(&mut self, clause: Clause, dialect: Dialect) -> Node {
        match clause {
            Clause::Everything => Node::Always,
            Clause::Tag(tag) => self.ask(Question::of(tag)),
            Clause::Prefix(prefix) => self.ask(Question {
                prefixes: vec![prefix],
                ..Question::default()
            }),
            Clause::OneOf(prefix, choices) => {
                let tags = choices.iter().map(|c| [&*prefix, &**c].concat().into());
                let tags = tags.collect();
                self.ask(Question {
                    tags,
                    prefixes: Vec::new(),
                })
            }
            Clause::Point(_, inner) => self.node(*inner, dialect),
            Clause::Field(test) => {
                self.needs(test.field());
                self.tests += 1;
                self.weigh(test.weight());
                Node::Field(test)
            }
            Clause::Filter(_, filter) => {
                if let Some((negated, tags)) = filter.tag_test() {
                    let tags = tags.iter().cloned().collect();
                    let asked = self.ask(Question {
                        tags,
                        prefixes: Vec::new(),
                    });
                    return if negated {
                        Node::Not(Box::new(asked))
                    } else {
                        asked
                    };
                }
                if let Some(field) = filter.field().filter(|_| dialect == Dialect::Outback) {
                    self.needs(field);
                }
                if let Some(column) = filter.column() {
                    self.needs_columns = self.needs_columns.max(column + 1);
                }
                self.tests += 1;
                self.weigh(filter.weight());
                Node::Filter(filter)
            }
            Clause::Not(inner) => Node::Not(Box::new(self.node(*inner, dialect))),
            Clause::All(parts) => Node::All(self.nodes(parts, dialect)),
            Clause::Any(parts) => self.any(parts, dialect),
        }
    }

    fn weigh(&mut self, weight: usize) {
        self.weight = self.weight.saturating_add(weight);
        self.cost = self.cost.saturating_add(cost(weight));
    }

    fn nodes(&mut self, clauses: Vec<Clause>, dialect: Dialect) -> Vec<Node> {
        clauses
            .into_iter()
            .map(|clause| self.node(clause, dialect))
            .collect()
    }

    /// Builds the node of an `|`, and merges all of its questions about tags into one.
    fn any(&mut self, parts: Vec<Clause>, dialect: Dialect) -> Node {
        let mut one: Option<Question> = None;
        let mut others = Vec::new();
        for part in parts {
            match self.node(part, dialect) {
                // The question to merge is the last one, so no other node refers to it or to a
                // later question.
                Node::Question(asked) if asked + 1 == self.questions.len() => {
                    let question = self.questions.pop().unwrap_or_default();
                    match &mut one {
                        None => one = Some(question),
                        Some(one) => {
                            one.tags.extend(question.tags);
                            one.prefixes.extend(question.prefixes);
                        }
                    }
                }
                other => others.push(other),
            }
        }
        if let Some(question) = one {
            others.push(self.ask(question));
        }
        Node::Any(others)
    }

    fn ask(&mut self, question: Question) -> Node {
        self.questions.push(question);
        Node::Question(self.questions.len() - 1)
    }

    fn needs(&mut self, field: &Field) {
        if !field.is_standard() && self.needs_cdxj.is_none() {
            self.needs_cdxj = Some(field.name().into());
        }
    }

    /// Adds a field that collapsing needs, in addition to the fields of the clauses.
    pub fn also_needs(&mut self, field: &Field) {
        self.needs(field);
    }

    /// Returns an error if lines of this format cannot have a field or a column that the condition needs.
    pub fn lacks(&self, format: Format) -> Option<Error> {
        self.lacks_with(format, format.columns())
    }

    /// Returns an error if this line does not have a field or a column that the condition needs.
    #[inline]
    pub fn lacks_of(&self, line: &Line<'_>) -> Option<Error> {
        if self.needs_cdxj.is_none() && self.needs_columns == 0 {
            return None;
        }
        self.lacks_with(line.format(), line.columns())
    }

    fn lacks_with(&self, format: Format, columns: usize) -> Option<Error> {
        match &self.needs_cdxj {
            Some(field) if !format.may_have_json() => Some(Error::BadField(field.clone())),
            _ if self.needs_columns > columns => Some(Error::NoColumn(self.needs_columns - 1)),
            _ => None,
        }
    }

    /// Returns the number of questions and tests; each tag of a question counts as one.
    pub fn parts(&self) -> usize {
        let asked = |question: &Question| question.tags.len() + question.prefixes.len();
        self.tests + self.questions.iter().map(asked).sum::<usize>()
    }

    /// Returns the approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        200 * self.parts() + 100 * self.weight
    }

    /// Returns the number of tests of lines.
    pub fn tests(&self) -> usize {
        self.tests
    }

    /// Returns the total weight of the regular expressions.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the worst-case cost of the regular expressions per input byte. The unit is 1/16 of the per-byte cost of
    /// a plain condition.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Returns true if the condition contains tests of tags.
    pub fn asks_of_tags(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Answers every question about tags for a capture with these tags.
    pub fn mask<'t>(&self, tags: impl Iterator<Item = &'t [u8]>) -> Mask {
        let mut mask = self.no_tags();
        for tag in tags {
            for (n, question) in self.questions.iter().enumerate() {
                if question.is_about(tag) {
                    mask[n / 64] |= 1 << (n % 64);
                }
            }
        }
        mask
    }

    /// Returns the answers for a capture without tags.
    pub fn no_tags(&self) -> Mask {
        SmallVec::from_elem(0, self.questions.len().div_ceil(64).max(1))
    }

    /// Returns true if the tags of a capture satisfy the tests of tags.
    pub fn tags_pass(&self, mask: &Mask) -> bool {
        self.of_tags.holds(mask, None)
    }

    /// Returns true if a capture whose tags pass also passes the tests that need its line.
    pub fn line_passes(&self, mask: &Mask, line: &Line<'_>) -> bool {
        self.of_line.iter().all(|node| node.holds(mask, Some(line)))
    }

    /// Returns true if the condition contains tests of the line.
    pub fn asks_of_line(&self) -> bool {
        !self.of_line.is_empty()
    }
}

impl Question {
    fn of(tag: Box<[u8]>) -> Question {
        Question {
            tags: HashSet::from_iter([tag]),
            prefixes: Vec::new(),
        }
    }

    fn is_about(&self, tag: &[u8]) -> bool {
        self.tags.contains(tag) || self.prefixes.iter().any(|prefix| tag.starts_with(prefix))
    }
}

impl Node {
    fn asks_of_line(&self) -> bool {
        match self {
            Node::Always | Node::Question(_) => false,
            Node::Field(_) | Node::Filter(_) => true,
            Node::Not(inner) => inner.asks_of_line(),
            Node::All(parts) | Node::Any(parts) => parts.iter().any(Node::asks_of_line),
        }
    }

    fn holds(&self, mask: &Mask, line: Option<&Line<'_>>) -> bool {
        match self {
            Node::Always => true,
            Node::Question(n) => mask[n / 64] & (1 << (n % 64)) != 0,
            Node::Field(test) => line.is_some_and(|line| test.passes(line)),
            // When the line was read, it was checked that the line has the field.
            Node::Filter(filter) => {
                line.is_some_and(|line| filter.passes(line, &mut |_| false).unwrap_or(false))
            }
            Node::Not(inner) => !inner.holds(mask, line),
            Node::All(parts) => parts.iter().all(|part| part.holds(mask, line)),
            Node::Any(parts) => parts.iter().any(|part| part.holds(mask, line)),
        }
    }
}
