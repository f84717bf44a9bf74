//! Executions that remember their URLs: `DISCOVER` and `COUNT`.

use std::collections::BTreeMap;

use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::wire::{Reply, bulk, int};
use crawlspace_compact::limits::chg as limits;

/// Resolution of the time at which a URL was done or given up, in milliseconds.
const UNIT: i64 = 600_000;

/// The state of a URL that an execution knows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// Queued or leased in a group.
    Open,
    Done(i64),
    GivenUp(i64),
}

/// The URLs that an execution knows.
#[derive(Clone, Debug, Default)]
pub struct Memory(BTreeMap<String, Known>);

impl Memory {
    /// Returns true if a URL must be fetched: it is unknown, or ended at least `fresh` ago.
    fn is_new(&self, uri: &str, fresh: Option<i64>, now: i64) -> bool {
        match self.0.get(uri) {
            None => true,
            Some(Known::Open) => false,
            Some(Known::Done(at) | Known::GivenUp(at)) => {
                fresh.is_some_and(|fresh| now - at >= fresh)
            }
        }
    }
}

impl FrontierModel {
    pub(super) fn discover(&mut self, args: &mut Args<'_>) -> Outcome {
        let execution = args.id()?;
        if !args.keyword("URI") {
            return Err("ERR");
        }
        let (mut fresh, mut weight) = (None, None);
        while !args.keyword("ITEMS") {
            if let Some(span) = args.span_option("FRESH", 0)? {
                fresh = Some(span);
            } else if let Some(n) = args.option("WEIGHT", 1, limits::MAX_WEIGHT as i64)? {
                weight = Some(n);
            } else {
                return Err("ERR");
            }
        }
        let items = args.number(1, 10_000)?;
        let mut uris = Vec::new();
        for _ in 0..items {
            uris.push(args.uri()?);
        }
        args.end()?;
        self.tidy();
        if self.is_dropped(execution) {
            return Ok(Reply::Array(vec![Reply::Nil; uris.len()]));
        }
        if !self.memories.contains_key(execution) {
            let queued = self.enlisted.get(execution);
            if queued.is_some_and(|groups| groups.len() > 0) {
                return Err("KNOWN");
            }
            self.memories
                .insert(execution.to_owned(), Memory::default());
        }
        let each = uris.into_iter().map(|(chg, at, depth, uri)| {
            match self.enter(execution, (weight, fresh), (chg, at, depth, uri)) {
                Entered::New(n) => int(n),
                Entered::Known(_) => int(0),
                Entered::Refused => Reply::Nil,
            }
        });
        Ok(Reply::Array(each.collect()))
    }

    /// Adds a URI that the frontier stores.
    pub(super) fn enter(
        &mut self,
        execution: &str,
        (weight, fresh): (Option<i64>, Option<i64>),
        (chg, at, depth, uri): (&str, i64, i64, &str),
    ) -> Entered {
        let now = self.now;
        let memory = self.memories.get(execution);
        let remembered = memory.is_some_and(|memory| !memory.is_new(uri, fresh, now));
        let remembers = memory.is_some();
        let group = self.group(chg);
        let is_here = group.kept.has(execution, uri);
        if remembered && (weight.is_none() || !is_here) {
            self.figures.known += 1;
            return Entered::Known(self.group(chg).uris);
        }
        if group.options.budget == Some(0) {
            return if is_here {
                Entered::Known(group.uris)
            } else {
                Entered::Refused
            };
        }
        // A known URI changes nothing except the weight of its execution.
        let uri_of = (uri, depth, at.max(now), 0);
        let is_new = group.kept.add(execution, weight, uri_of);
        if is_new {
            self.spend(chg);
            self.arrive(chg, 1, at);
        } else {
            self.figures.known += 1;
        }
        if is_new && remembers {
            let memory = self.memories.entry(execution.to_owned()).or_default();
            self.figures.again += u64::from(memory.0.insert(uri.to_owned(), Known::Open).is_some());
        }
        self.enlist(execution, chg);
        let n = self.group(chg).uris;
        if is_new {
            Entered::New(n)
        } else {
            Entered::Known(n)
        }
    }

    /// Remembers that a URL was fetched or given up.
    pub(super) fn remember_end(&mut self, execution: &str, uri: &str, is_given_up: bool) {
        let at = self.now / UNIT * UNIT;
        if let Some(memory) = self.memories.get_mut(execution) {
            let end = if is_given_up {
                Known::GivenUp(at)
            } else {
                Known::Done(at)
            };
            memory.0.insert(uri.to_owned(), end);
        }
    }

    /// Forgets a URL that was dropped.
    pub(super) fn forget_dropped(&mut self, execution: &str, uris: &[String]) {
        if let Some(memory) = self.memories.get_mut(execution) {
            for uri in uris {
                memory.0.remove(uri);
            }
        }
    }

    pub(super) fn count(&mut self, args: &mut Args<'_>) -> Outcome {
        let execution = args.id()?;
        args.end()?;
        let memory = self.memories.get(execution);
        let mut counts = [0; 4];
        for known in memory.into_iter().flat_map(|memory| memory.0.values()) {
            match known {
                Known::Open => counts[0] += 1,
                Known::Done(_) => counts[2] += 1,
                Known::GivenUp(_) => counts[3] += 1,
            }
        }
        if memory.is_some() {
            let leases = self.groups.values().flat_map(|group| &group.kept.leases);
            let leased = leases.filter(|leased| leased.execution == execution && !leased.dropped);
            counts[1] = leased.count() as i64;
            counts[0] -= counts[1];
        }
        let sum = counts.iter().sum();
        let [queued, leased, done, given_up] = counts;
        let fields = rows![
            "queued", queued; "leased", leased; "done", done; "given-up", given_up; "known", sum;
        ];
        let fields = fields.into_iter().map(|(name, n)| (bulk(name), int(n)));
        Ok(Reply::Map(fields.collect()))
    }

    /// Returns true if an execution remembers its URLs.
    pub fn remembers(&self) -> bool {
        !self.memories.is_empty()
    }
}

/// The effect of adding a URI, with the number of URIs that its group has now.
pub(super) enum Entered {
    New(i64),
    Known(i64),
    Refused,
}
