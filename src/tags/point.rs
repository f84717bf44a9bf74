//! Access points: expressions with a name, which readers' requests give.

use crawlspace_compact::limits::tags::MAX_PATTERNS;
pub use crawlspace_compact::limits::tags::MAX_POINTS;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crawlspace_cdx::{Anchor, Limits, Pattern};
use hashbrown::HashMap;

use super::error::Error;
use super::expression::Expression;
use super::template::Groups;
use crawlspace_host::text::Shown;

pub use crawlspace_compact::limits::tags::POINT_NAME_BYTES as NAME_BYTES;
/// Limits of the regular expressions that names are.
const LIMITS: Limits = Limits {
    pattern_bytes: NAME_BYTES,
    compiled_bytes: 1 << 20,
};

/// An access point.
#[derive(Debug)]
pub struct Point {
    name: Box<[u8]>,
    text: Box<[u8]>,
    expression: Expression,
    /// Its name as a pattern, if it is one.
    pattern: Option<Pattern>,
    /// Whether a regular expression in its expression may take long.
    heavy: bool,
}

impl Point {
    /// Reads one.
    ///
    /// # Errors
    /// When the name, its pattern or the expression is malformed or too large.
    pub fn new(name: &[u8], text: &[u8]) -> Result<Point, Error> {
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(Error::Argument(format!(
                "the name of an access point has {} bytes, not 1 to {NAME_BYTES}",
                name.len()
            )));
        }
        let pattern = if is_pattern(name) {
            let compiled = Pattern::compile(name, Anchor::Whole, LIMITS).map_err(|error| {
                Error::BadPattern(format!(
                    "in the name of access point '{}': {error}",
                    Shown(name)
                ))
            })?;
            Some(compiled)
        } else {
            None
        };
        let groups = pattern
            .as_ref()
            .map_or_else(Groups::none, |pattern| Groups::of(pattern.regex()));
        let expression = Expression::parse_point(text, &groups)?;
        expression.check_patterns()?;
        Ok(Point {
            name: name.into(),
            text: text.into(),
            heavy: has_heavy_pattern(text),
            expression,
            pattern,
        })
    }

    /// Its name as set.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its expression as set.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    fn bytes(&self) -> usize {
        // An expression takes several times its text, and a compiled pattern some kilobytes.
        400 + self.name.len() + 6 * self.text.len() + self.pattern.as_ref().map_or(0, |_| 8192)
    }
}

/// Whether a name is a pattern: it holds something that means more than itself. A dot alone does not
/// make one, because names of sites have dots.
fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| b"\\()[]{}*+?|^$".contains(b))
}

/// Whether a regular expression in the text of an expression may take long.
pub fn has_heavy_pattern(expression: &[u8]) -> bool {
    expression.contains(&b'~') && Pattern::is_heavy(expression)
}

/// A point found by a name.
pub struct Named<'a> {
    /// The point.
    pub point: &'a Point,
    /// Where the groups of its pattern are in the name; all of it comes first.
    pub groups: Vec<Option<Range<usize>>>,
}

/// The access points of a space, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub struct Points {
    by_order: BTreeMap<u64, Arc<Point>>,
    by_name: HashMap<Box<[u8]>, u64>,
    patterns: BTreeSet<u64>,
    heavy: usize,
    next: u64,
    bytes: usize,
}

impl Points {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_order.is_empty()
    }

    /// Bytes of memory, more or less.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Whether a regular expression in one of them may take long.
    pub fn have_heavy(&self) -> bool {
        self.heavy > 0
    }

    /// In the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Point> {
        self.by_order.values().map(|point| &**point)
    }

    /// The one that was set under this very name.
    pub fn set_as(&self, name: &[u8]) -> Option<&Point> {
        let order = self.by_name.get(name)?;
        self.by_order.get(order).map(|point| &**point)
    }

    /// Sets one; one of the same name is replaced in its place.
    ///
    /// # Errors
    /// `CYCLE`, or `TOOBIG` when the space is full.
    pub fn set(&mut self, point: Point) -> Result<(), Error> {
        self.refuse_cycle(&point)?;
        self.restore(point)
    }

    /// Sets one that was set before. A cycle may have come about meanwhile, when a point was removed
    /// that stood before a pattern; readers' requests find it.
    ///
    /// # Errors
    /// `TOOBIG` when the space is full.
    pub fn restore(&mut self, point: Point) -> Result<(), Error> {
        let known = self.by_name.get(&point.name).copied();
        if known.is_none() && self.len() >= MAX_POINTS {
            return Err(Error::TooBig(format!(
                "a space has at most {MAX_POINTS} access points; a name with a group, such as org-(\\d+), stands for many"
            )));
        }
        if known.is_none() && point.pattern.is_some() && self.patterns.len() >= MAX_PATTERNS {
            return Err(Error::TooBig(format!(
                "a space has at most {MAX_PATTERNS} access points whose names are patterns"
            )));
        }
        let order = known.unwrap_or(self.next);
        self.next = self.next.max(order + 1);
        if point.pattern.is_some() {
            self.patterns.insert(order);
        }
        self.by_name.insert(point.name.clone(), order);
        self.bytes += point.bytes();
        self.heavy += usize::from(point.heavy);
        if let Some(old) = self.by_order.insert(order, Arc::new(point)) {
            self.bytes -= old.bytes();
            self.heavy -= usize::from(old.heavy);
        }
        Ok(())
    }

    /// Removes one, if there is one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(order) = self.by_name.remove(name) else {
            return false;
        };
        self.patterns.remove(&order);
        if let Some(old) = self.by_order.remove(&order) {
            self.bytes -= old.bytes();
            self.heavy -= usize::from(old.heavy);
        }
        true
    }

    /// The point that a request means: the literal one of that name, else the first pattern that
    /// matches all of it.
    ///
    /// # Errors
    /// `NOPOINT`.
    pub fn named(&self, name: &[u8]) -> Result<Named<'_>, Error> {
        if let Some(point) = self.set_as(name).filter(|point| point.pattern.is_none()) {
            return Ok(Named {
                point,
                groups: Vec::new(),
            });
        }
        let patterns = self.patterns.iter().filter_map(|o| self.by_order.get(o));
        for point in patterns.take_while(|_| name.len() <= NAME_BYTES) {
            let Some(pattern) = &point.pattern else {
                continue;
            };
            if let Some(found) = pattern.regex().captures(name) {
                return Ok(Named {
                    point,
                    groups: found.iter().map(|g| g.map(|g| g.range())).collect(),
                });
            }
        }
        Err(Error::NoPoint(format!(
            "access point '{}' does not exist; TAGS.POINTS lists them",
            Shown(name)
        )))
    }

    /// Refuses a point that leads back to itself by names without groups.
    fn refuse_cycle(&self, new: &Point) -> Result<(), Error> {
        let mut seen: BTreeSet<&[u8]> = BTreeSet::new();
        let mut to_see: Vec<&[u8]> = Vec::new();
        new.expression.points(&mut |name| to_see.push(name));
        while let Some(name) = to_see.pop() {
            if !seen.insert(name) {
                continue;
            }
            let literal = *name == *new.name && new.pattern.is_none();
            let found = self.named(name).ok();
            let is_new = literal
                || match (&new.pattern, &found) {
                    // Where a literal point of that name stands, the pattern is not asked.
                    (Some(pattern), found) => {
                        pattern.is_match(name)
                            && found.as_ref().is_none_or(|f| {
                                f.point.pattern.is_some() && self.comes_after(f.point, new)
                            })
                    }
                    (None, _) => false,
                };
            if is_new {
                return Err(Error::Cycle(new.name.clone()));
            }
            if let Some(found) = found.filter(|found| *found.point.name != *new.name) {
                found.point.expression.points(&mut |name| to_see.push(name));
            }
        }
        Ok(())
    }

    /// Whether a point that is there is asked no sooner than one that is to be set.
    fn comes_after(&self, there: &Point, new: &Point) -> bool {
        let place = |point: &Point| self.by_name.get(&point.name).copied().unwrap_or(u64::MAX);
        place(there) >= place(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(set: &[(&str, &str)]) -> Points {
        let mut points = Points::default();
        for (name, text) in set {
            let point = Point::new(name.as_bytes(), text.as_bytes()).unwrap();
            points.set(point).unwrap();
        }
        points
    }

    #[test]
    fn a_literal_name_comes_before_patterns_and_patterns_in_order() {
        let points = points(&[
            ("org-(\\d+)", "org:$1"),
            ("org-.*x?", "b"),
            ("org-7", "c"),
            ("all", "coll:* & !private"),
        ]);
        let found = |name: &str| {
            let name = name.as_bytes();
            points.named(name).ok().map(|n| n.point.text().to_vec())
        };
        assert_eq!(found("org-7").unwrap(), b"c");
        assert_eq!(found("org-8").unwrap(), b"org:$1");
        assert_eq!(found("org-8a").unwrap(), b"b");
        assert_eq!(found("org-(\\d+)").unwrap(), b"b");
        assert_eq!(found("xorg-8"), None);
        assert_eq!(found("al"), None);
    }

    #[test]
    fn cycles_are_refused_and_leave_the_old_point() {
        let mut all = points(&[("a", "x"), ("b", "@a"), ("c", "@b | y")]);
        let cycle = Point::new(b"a", b"z & !@c").unwrap();
        assert!(matches!(all.set(cycle), Err(Error::Cycle(_))));
        assert_eq!(all.set_as(b"a").unwrap().text(), b"x");
        let own = Point::new(b"d", b"@d").unwrap();
        assert!(matches!(all.set(own), Err(Error::Cycle(_))));
        let pattern = Point::new(b"e(.*)", b"@e1").unwrap();
        assert!(matches!(all.set(pattern), Err(Error::Cycle(_))));
        // `a` itself is literal, and the pattern is not asked for it.
        all.set(Point::new(b"[ab]", b"@a").unwrap()).unwrap();
    }
}
