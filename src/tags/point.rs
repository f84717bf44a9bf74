//! Access points: named expressions that requests of readers select by name.

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
/// Limits for names that are regular expressions.
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
    /// The name as a pattern, if it is a pattern.
    pattern: Option<Pattern>,
    /// True if compiling a regular expression in the expression may take a long time.
    heavy: bool,
}

impl Point {
    /// Parses an access point.
    ///
    /// # Errors
    /// Fails if the name, its pattern or the expression is malformed or too large.
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

    /// Returns the name as it was set.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the expression as it was set.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the parsed expression of the access point.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    fn bytes(&self) -> usize {
        // A parsed expression takes several times as much memory as its text, and a compiled
        // pattern some kilobytes.
        400 + self.name.len() + 6 * self.text.len() + self.pattern.as_ref().map_or(0, |_| 8192)
    }
}

/// Returns true if a name is a pattern, that is, if it contains a special character of regular
/// expressions. A dot alone does not make a name a pattern, because names of sites contain dots.
fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| b"\\()[]{}*+?|^$".contains(b))
}

/// Returns true if compiling a regular expression in this expression may take a long time.
pub fn has_heavy_pattern(expression: &[u8]) -> bool {
    expression.contains(&b'~') && Pattern::is_heavy(expression)
}

/// An access point that was found by name.
pub struct Named<'a> {
    /// The access point.
    pub point: &'a Point,
    /// The positions of the pattern's capture groups in the requested name. The first group is the
    /// whole name. Empty if the name of the access point is literal.
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
    /// Returns the number of access points.
    pub fn len(&self) -> usize {
        self.by_order.len()
    }

    /// Returns true if there are no access points.
    pub fn is_empty(&self) -> bool {
        self.by_order.is_empty()
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Returns true if compiling a regular expression in any access point may take a long time.
    pub fn have_heavy(&self) -> bool {
        self.heavy > 0
    }

    /// Iterates over the access points in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Point> {
        self.by_order.values().map(|point| &**point)
    }

    /// Returns the access point that was set under exactly this name.
    pub fn set_as(&self, name: &[u8]) -> Option<&Point> {
        let order = self.by_name.get(name)?;
        self.by_order.get(order).map(|point| &**point)
    }

    /// Sets an access point. If an access point with the same name exists, replaces it and keeps
    /// its position.
    ///
    /// # Errors
    /// `CYCLE`, or `TOOBIG` if the space is full.
    pub fn set(&mut self, point: Point) -> Result<(), Error> {
        self.refuse_cycle(&point)?;
        self.restore(point)
    }

    /// Sets an access point from a saved space, without a check for cycles. A saved space may
    /// contain a cycle: when access point `b` is removed, a reference to `b` from access point `a`
    /// may match a pattern instead, and this pattern may refer back to `a`. Requests of readers
    /// detect such a cycle.
    ///
    /// # Errors
    /// `TOOBIG` if the space is full.
    pub fn restore(&mut self, point: Point) -> Result<(), Error> {
        let known = self.by_name.get(&point.name).copied();
        if known.is_none() && self.len() >= MAX_POINTS {
            return Err(Error::TooBig(format!(
                "a space has at most {MAX_POINTS} access points; one name with a group, such as org-(\\d+), can replace many"
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

    /// Removes an access point. Returns true if the access point existed.
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

    /// Returns the access point for a name in a request: the literal access point with that name
    /// or, if there is none, the first pattern that matches the whole name.
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

    /// Refuses an access point that refers to itself, directly or indirectly. Only references
    /// without groups are checked.
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
                    // Do not try patterns if a literal access point with that name exists.
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

    /// Returns true unless a look-up tries the existing access point `there` before `new`.
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
    fn literal_names_precede_patterns_and_patterns_keep_their_order() {
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
    fn cycles_are_refused_and_keep_the_old_point() {
        let mut all = points(&[("a", "x"), ("b", "@a"), ("c", "@b | y")]);
        let cycle = Point::new(b"a", b"z & !@c").unwrap();
        assert!(matches!(all.set(cycle), Err(Error::Cycle(_))));
        assert_eq!(all.set_as(b"a").unwrap().text(), b"x");
        let own = Point::new(b"d", b"@d").unwrap();
        assert!(matches!(all.set(own), Err(Error::Cycle(_))));
        let pattern = Point::new(b"e(.*)", b"@e1").unwrap();
        assert!(matches!(all.set(pattern), Err(Error::Cycle(_))));
        // The name `a` belongs to a literal access point, so a look-up does not try the pattern.
        all.set(Point::new(b"[ab]", b"@a").unwrap()).unwrap();
    }
}
