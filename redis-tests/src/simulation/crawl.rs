//! The simulated web: groups of several kinds, their URIs, and the links between them.

use super::{EXECUTIONS, HALTING, Size};
use crate::rng::Rng;

/// Number of groups per shared gate.
const BEHIND_A_GATE: usize = 8;

/// Returns the id of a group.
pub fn id(group: usize) -> String {
    format!("g{group}")
}

/// Returns the number of a group.
pub fn number_of(id: &str) -> usize {
    let number = id.strip_prefix('g').and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{id} is not a group of the simulation"))
}

/// Returns the number of an execution.
pub fn execution_of(id: &str) -> usize {
    let at = EXECUTIONS.iter().position(|(name, _)| *name == id);
    at.unwrap_or_else(|| panic!("{id} is not an execution of the simulation"))
}

struct Group {
    /// True if the frontier stores the URIs of the group.
    kept: bool,
    parallel: usize,
}

struct Uri {
    group: usize,
    execution: usize,
    /// True if fetching the URI kills the worker.
    poison: bool,
}

/// All groups and URIs of the simulated crawl.
pub struct Crawl {
    groups: Vec<Group>,
    /// Number of large groups, in which shares are measured, and the number of URIs of each, as a
    /// multiple of the sum of weights. Large groups have the lowest numbers.
    large: (usize, usize),
    gates: usize,
    uris: Vec<Uri>,
    /// Number of URIs and counts that the crawl can still discover.
    undiscovered: usize,
    /// True if executions remember their URLs.
    remembers: bool,
}

impl Crawl {
    pub fn new(size: Size, rng: &mut Rng) -> Crawl {
        // Of every hundred groups, the last two are shared gates, with eight groups behind each.
        let gates = size.groups / 50 / BEHIND_A_GATE;
        let group = |number: usize| {
            let ordinary = size.large.0..size.groups - gates * BEHIND_A_GATE;
            let several = ordinary.contains(&number) && rng.chance(2);
            Group {
                kept: size.remembers || number < size.large.0 || rng.chance(70),
                parallel: if several {
                    2 + rng.below(2) as usize
                } else {
                    1
                },
            }
        };
        Crawl {
            groups: (0..size.groups).map(group).collect(),
            large: size.large,
            gates,
            uris: Vec::new(),
            undiscovered: size.uris,
            remembers: size.remembers,
        }
    }

    /// Returns the commands that set limits and shared gates.
    pub fn setup(&self) -> Vec<String> {
        let groups = self.groups.iter().enumerate();
        let several = groups.filter(|(_, group)| group.parallel > 1);
        let mut lines: Vec<String> = several
            .map(|(number, group)| format!("LIMIT {} PARALLEL {}", id(number), group.parallel))
            .collect();
        let first = self.groups.len() - self.gates * BEHIND_A_GATE;
        for (gate, name) in self.gate_names().iter().enumerate() {
            let from = first + gate * BEHIND_A_GATE;
            let ids: Vec<String> = (from..from + BEHIND_A_GATE).map(id).collect();
            lines.push(format!("GROUP {name} {}", ids.join(" ")));
        }
        lines
    }

    pub fn gate_names(&self) -> Vec<String> {
        (0..self.gates).map(|gate| format!("gate{gate}")).collect()
    }

    /// Returns the commands that add the first URIs. Large groups get all their URIs at once.
    pub fn seeds(&mut self, rng: &mut Rng, now: i64) -> Vec<String> {
        let mut lines = Vec::new();
        for group in 0..self.groups.len() {
            if self.is_large(group) {
                for (execution, (_, weight)) in EXECUTIONS[..HALTING].iter().enumerate() {
                    let uris = (0..self.large.1 * *weight as usize).map(|_| {
                        let item = self.new_uri(rng, group, execution);
                        self.item(&item, now)
                    });
                    let uris: String = uris.collect();
                    lines.push(self.add_line(execution, true, false, &uris));
                }
                continue;
            }
            for _ in 0..2 + rng.below(2) {
                let execution = rng.below(EXECUTIONS.len() as u64) as usize;
                let item = self.new_uri(rng, group, execution);
                let at = if rng.chance(50) {
                    now + rng.below(20_000) as i64
                } else {
                    0
                };
                lines.push(self.add(&item, at, false));
            }
        }
        lines
    }

    /// Returns the additions for the links on a page that this execution fetched: zero to three
    /// URIs, some of them known. Each addition has a flag that is true if its reply gets lost.
    pub fn links(&mut self, rng: &mut Rng, now: i64, execution: usize) -> Vec<(String, bool)> {
        let links = [0, 1, 1, 2, 2, 3][rng.below(6) as usize];
        let mut lines = Vec::new();
        for _ in 0..if self.undiscovered > 0 { links } else { 0 } {
            let ordinary = self.groups.len() - self.large.0;
            let group = self.large.0 + rng.below(ordinary as u64) as usize;
            let at = match rng.below(10) {
                0..=5 => 0,
                6..=8 => now + rng.below(5_000) as i64,
                _ => now + rng.below(60_000) as i64,
            };
            let mut item = self.new_uri(rng, group, execution);
            // Some links lead to known URIs.
            let known = if self.remembers { 20 } else { 5 };
            if let (Some(_), true) = (item.2, rng.chance(known)) {
                let known = rng.below(self.uris.len() as u64) as usize;
                let Uri {
                    group,
                    execution,
                    poison,
                } = self.uris[known];
                if !poison && !self.is_large(group) {
                    item = (group, execution, Some(known));
                }
            }
            let again = rng.chance(5);
            lines.push((self.add(&item, at, again), again));
        }
        lines
    }

    /// Returns a new URI, or one more counted URI: group, execution and number.
    fn new_uri(
        &mut self,
        rng: &mut Rng,
        group: usize,
        execution: usize,
    ) -> (usize, usize, Option<usize>) {
        self.undiscovered = self.undiscovered.saturating_sub(1);
        let uri = self.groups[group].kept.then(|| {
            let poison = !self.is_large(group) && rng.below(2_000) == 0;
            self.uris.push(Uri {
                group,
                execution,
                poison,
            });
            self.uris.len() - 1
        });
        (group, execution, uri)
    }

    fn add(&self, item: &(usize, usize, Option<usize>), at: i64, again: bool) -> String {
        self.add_line(item.1, item.2.is_some(), again, &self.item(item, at))
    }

    /// Returns an `ADD`, `ADDURI` or `DISCOVER` command. `?` is a placeholder for the writer's sequence
    /// number, which is assigned when the command is sent. A command that will be sent `again` has its own
    /// writer, so that no other command uses the writer's numbers in between.
    fn add_line(&self, execution: usize, keeps: bool, again: bool, items: &str) -> String {
        let (execution, weight) = EXECUTIONS[execution];
        let count = items.matches(" http://").count();
        match (keeps, again) {
            (true, _) if self.remembers => {
                // Some pages are fetched again at once, and other pages after a while.
                let fresh = match items.len() % 5 {
                    0 => "FRESH 0 ",
                    1 => "FRESH 300000 ",
                    _ => "",
                };
                format!("DISCOVER {execution} URI {fresh}WEIGHT {weight} ITEMS {count}{items}")
            }
            (true, _) => format!("ADDURI {execution} WEIGHT {weight}{items}"),
            (false, true) => format!("ADD {execution} SEQ w? 1{items}"),
            (false, false) => format!("ADD {execution} SEQ w ?{items}"),
        }
    }

    fn item(&self, (group, _, uri): &(usize, usize, Option<usize>), at: i64) -> String {
        let group = id(*group);
        match uri {
            Some(uri) => format!(" {group} {at} {} http://{group}/{uri}", uri % 5),
            None => format!(" {group} {at}"),
        }
    }

    /// Returns true for groups in which shares are measured.
    pub fn is_large(&self, group: usize) -> bool {
        group < self.large.0
    }

    /// Returns true for groups that allow several fetches at the same time.
    pub fn is_parallel(&self, group: usize) -> bool {
        self.groups[group].parallel > 1
    }

    /// Returns true if fetching the URI kills its worker.
    pub fn is_poison(&self, uri: &str) -> bool {
        let number = uri.rsplit('/').next().and_then(|n| n.parse::<usize>().ok());
        self.uris[number.expect("a URI of ours")].poison
    }
}
