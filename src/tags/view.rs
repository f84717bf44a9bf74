//! Snapshots of a space, which any thread may read while the space changes.

use std::sync::Arc;

use crawlspace_cdx::{Dialect, Filter, Line};

use super::condition::{Condition, cost};
use super::error::Error;
use super::expression::{Bounds, Clause, Expression, limits};
use super::index::{Index, TagId, Tagged};
use super::names::{ids_of_record, names_of_file};
use super::point::Points;
use super::resolve::Resolver;
use super::rule::{Rule, Rules};

/// A snapshot of a space.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The tagging index.
    pub index: Index,
    /// The rules.
    pub rules: Arc<Rules>,
    /// The access points.
    pub points: Arc<Points>,
    /// True if the space exists. Without a space, every capture is hidden.
    pub exists: bool,
}

/// The conditions of a request as the client wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Name of an access point.
    pub point: Option<Vec<u8>>,
    /// An expression.
    pub expression: Option<Vec<u8>>,
    /// Filters in the syntax of a CDX server.
    pub filters: Vec<Vec<u8>>,
    /// The dialect of the filters.
    pub dialect: Dialect,
}

impl Asked {
    /// Returns the total length of expression and filters in bytes.
    pub fn bytes(&self) -> usize {
        let filters: usize = self.filters.iter().map(Vec::len).sum();
        filters + self.expression.as_ref().map_or(0, Vec::len)
    }
}

/// Maximum number of steps of the regular expressions per line, which take a few seconds. A search
/// cannot be interrupted.
const STEPS: usize = 200_000_000;
/// Lines up to this length are always processed, even if the regular expressions of the space's
/// rules are heavy.
const LINE_BYTES: usize = 16_384;
/// Lines up to this length are always processed, even if the reader's condition is heavy.
const READERS_LINE_BYTES: usize = 4096;

/// The source of a tag of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The record has the tag.
    Record,
    /// The file has the tag.
    File,
    /// The rule with this name derives the tag.
    Rule(&'a [u8]),
    /// The tag in this variant carries the tag.
    Tag(&'a [u8]),
}

impl View {
    /// Returns the clauses of the access point, the expression and each filter. All clauses must be
    /// true.
    ///
    /// # Errors
    /// Fails if the expression, a point or a filter is invalid; `TOOBIG` beyond the limits.
    pub fn clauses(&self, asked: &Asked, most: Bounds) -> Result<Vec<Clause>, Error> {
        let resolver = Resolver::new(&self.points, most);
        // Count all filters before compiling any of them.
        for spec in &asked.filters {
            resolver.count_filter(spec)?;
        }
        let mut clauses = Vec::new();
        if let Some(point) = &asked.point {
            clauses.push(resolver.point(point)?);
        }
        if let Some(text) = &asked.expression {
            clauses.push(resolver.expression(&Expression::parse(text)?)?);
        }
        for spec in &asked.filters {
            let filter = Filter::parse(spec, asked.dialect, limits())
                .map_err(|error| Error::of_spec("filter", spec, error))?;
            clauses.push(Clause::Filter(spec.as_slice().into(), filter));
        }
        Ok(clauses)
    }

    /// Prepares the conditions of a request for testing many captures.
    ///
    /// # Errors
    /// Fails if the expression, a point or a filter is invalid; `TOOBIG` beyond the limits.
    pub fn condition(&self, asked: &Asked, most: Bounds) -> Result<Condition, Error> {
        let clauses = self.clauses(asked, most)?;
        Ok(Condition::new(clauses, asked.dialect))
    }

    /// Returns the maximum work for captures of this total size. The unit is the work of testing
    /// one byte against a plain condition. If `condition` is given, the captures are tested against
    /// it; otherwise, only their tags are determined.
    pub fn work(&self, bytes: usize, condition: Option<&Condition>) -> usize {
        let tests = condition.map_or(0, Condition::tests);
        let rules = self.rules.iter().map(|rule| cost(rule.weight()));
        let cost = rules.fold(condition.map_or(0, Condition::cost), usize::saturating_add);
        bytes.saturating_mul((1 + tests / 4).saturating_add(cost / 16))
    }

    /// Returns the maximum length of a line, in bytes. Longer lines are not processed, because the
    /// time of a search is proportional to the length of the line, and a search cannot be
    /// interrupted.
    pub fn longest_line(&self, condition: &Condition) -> usize {
        let of_all = (STEPS / self.weight(Some(condition)).max(1)).max(LINE_BYTES);
        let of_readers = (STEPS / condition.weight().max(1)).max(READERS_LINE_BYTES);
        of_all.min(of_readers)
    }

    /// Returns the total weight of the regular expressions of the rules and the condition.
    fn weight(&self, condition: Option<&Condition>) -> usize {
        let rules = self.rules.iter().map(Rule::weight);
        rules.fold(
            condition.map_or(0, Condition::weight),
            usize::saturating_add,
        )
    }

    /// Calls `each` with every direct tag of a capture and its source.
    pub fn direct_tags(&self, line: &Line<'_>, each: &mut dyn FnMut(&[u8], Source<'_>)) {
        let index = &self.index;
        let mut id = Vec::new();
        line.record_id(&mut id);
        for id in ids_of_record(&mut id) {
            for &tag in index.tags_of(Tagged::Record, id) {
                each(index.name(tag), Source::Record);
            }
        }
        for name in names_of_file(&line.filename()) {
            for &tag in index.tags_of(Tagged::File, name) {
                each(index.name(tag), Source::File);
            }
        }
        for rule in self.rules.iter().filter(|rule| line.has(rule.field())) {
            if let Some(value) = line.field(rule.field()) {
                rule.tags_of(&value, &mut |tag| each(tag, Source::Rule(rule.name())));
            }
        }
    }

    /// Returns the tags of a capture, sorted and without duplicates.
    pub fn tags(&self, line: &Line<'_>) -> Vec<Vec<u8>> {
        let mut tags = Vec::new();
        self.direct_tags(line, &mut |tag, _| tags.push(tag.to_vec()));
        self.close(&mut tags);
        tags
    }

    /// Adds all tags that these tags carry. Sorts the tags and removes duplicates.
    pub fn close(&self, tags: &mut Vec<Vec<u8>>) {
        let known: Vec<TagId> = tags.iter().filter_map(|tag| self.index.tag(tag)).collect();
        let mut closure = Vec::new();
        self.index.closure(&known, &mut closure);
        tags.extend(closure.iter().map(|&tag| self.index.name(tag).to_vec()));
        tags.sort();
        tags.dedup();
    }
}
