//! Adds URIs to groups: implements *Adding a uri* of the design document.

use super::discover::{Lookups, has_space};
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::group::Text;
use super::groups::Loaded;
use super::keys::{COUNTED, Keys};
use super::known::Extra;
use super::packed::Packed;
use super::placing::Placing;
use super::store::Store;
use super::time::Millis;
use super::transition::{Event, Seen};
use super::uris::{Changed, Op, Stock};
use crawlspace_host::text::{Shown, parse_unsigned, push_number};

/// The sequence number of a command, which makes it safe to send the command again. For each
/// execution, the numbers of a writer only increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The writer, for example the name of a worker.
    pub writer: &'a [u8],
    /// The sequence number, 1 or more.
    pub n: u64,
}

/// A URI that the crawler stores itself and counts in a group.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// The group.
    pub chg: &'a [u8],
    /// Due time of the URI.
    pub at: Millis,
}

/// A URI that the frontier stores.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The group.
    pub chg: &'a [u8],
    /// Due time of the URI.
    pub at: Millis,
    /// Number of links between a seed and the URI.
    pub depth: u32,
    /// The URI.
    pub uri: &'a [u8],
}

/// A URL to discover.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The URL, its group and its due time.
    pub url: Kept<'a>,
    /// A key that identifies the URL; without a key, the bytes of the URL identify it.
    pub key: Option<&'a [u8]>,
    /// Payload: any bytes of the crawler. The frontier returns them with the lease.
    pub payload: Option<&'a [u8]>,
}

impl<'a> Item<'a> {
    /// Creates an item without a key or a payload.
    pub fn of(url: Kept<'a>) -> Item<'a> {
        Item {
            url,
            key: None,
            payload: None,
        }
    }

    fn name(&self) -> &'a [u8] {
        self.key.unwrap_or(self.url.uri)
    }

    fn extra(&self) -> Extra<'a> {
        Extra {
            url: self.key.map(|_| self.url.uri),
            payload: self.payload,
        }
    }
}

/// Options of an addition of URIs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Weight of the execution, which determines its share in the fetches from each group.
    pub weight: Option<u64>,
    /// A URL that was done at least this long ago counts as new.
    pub fresh: Option<Millis>,
    /// True if the reply must contain the counts of the groups of known URIs.
    pub counts: bool,
}

/// The effect of adding a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The URI was queued. Contains the new count of its group.
    New(u64),
    /// The URI was known. Contains the count of the group, if it was needed.
    Known(u64),
    /// The budget of the group is used up, or the execution was dropped.
    Refused,
}

/// The count of each group after the addition; `None` if nothing was added, because the budget of
/// the group is used up or the execution was dropped.
pub type Counts = Vec<Option<u64>>;

impl<K: Store> Frontier<K> {
    /// Counts URIs that the crawler stores itself.
    ///
    /// # Errors
    /// `STALE` if the writer has sent a higher number already.
    pub fn add(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        sequence: Option<Sequence<'_>>,
        uris: &[Queued<'_>],
        now: Millis,
    ) -> Result<Counts> {
        if let Some(sequence) = sequence
            && let Some(counts) = replayed(&self.keys, ks, execution, sequence)?
        {
            return Ok(counts);
        }
        self.evict_idle(ks, now)?;
        if has_space(ks, execution)? {
            return Err(Error::Known(format!(
                "execution '{}' remembers its URLs, but CHG.ADD does not take URLs; use CHG.DISCOVER or CHG.ADDURI",
                Shown(execution)
            )));
        }
        if self.drops.has(ks, execution, now)? {
            return Ok(vec![None; uris.len()]);
        }
        if ks.has_plain_groups() {
            for uri in uris.iter().skip(1) {
                // Load all groups before the first write. If a key has the wrong type, the command
                // then fails without any change. The loop below loads the first group before it
                // writes.
                self.groups.load(ks, uri.chg)?;
            }
        }
        let field = ks.name(&[COUNTED, execution]);
        let mut counts = Vec::with_capacity(uris.len());
        let mut added = 0;
        for uri in uris {
            let (mut loaded, counted) = self.groups.load_counting(ks, uri.chg, &field)?;
            self.placing().reclaim(ks, &mut loaded, now)?;
            if !spend(&mut loaded) {
                counts.push(None);
                continue;
            }
            self.placing().arrive(ks, &mut loaded, 1, uri.at, now)?;
            counts.push(Some(loaded.group.uris));
            let mut text = Text::new();
            push_number(&mut text, counted + 1);
            self.placing()
                .save_with(ks, &loaded, Some((&field, &text)))?;
            if counted == 0 {
                self.ledger.enlist(ks, execution, uri.chg)?;
            }
            added += 1;
        }
        self.figures.added += added as u64;
        self.ledger.tally(ks, execution, added)?;
        if let Some(sequence) = sequence {
            store_counts(&self.keys, ks, execution, sequence, &counts)?;
        }
        Ok(counts)
    }

    /// Adds URIs that the frontier stores. A URI that is already queued or leased for the same
    /// execution is not counted again.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn add_kept(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        weight: Option<u64>,
        uris: &[Kept<'_>],
        now: Millis,
    ) -> Result<Counts> {
        let items = uris.iter().copied().map(Item::of);
        let how = How {
            weight,
            counts: true,
            ..How::default()
        };
        let entered = self.enter(ks, execution, how, items, now)?;
        let counts = entered.into_iter().map(|entered| match entered {
            Entered::New(n) | Entered::Known(n) => Some(n),
            Entered::Refused => None,
        });
        Ok(counts.collect())
    }

    /// Adds URIs that the frontier keeps. If the execution remembers its URLs, known URLs are not added.
    pub(super) fn enter<'i>(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        how: How,
        items: impl ExactSizeIterator<Item = Item<'i>> + Clone,
        now: Millis,
    ) -> Result<Vec<Entered>> {
        let How {
            weight,
            fresh,
            counts,
        } = how;
        self.evict_idle(ks, now)?;
        if self.drops.has(ks, execution, now)? {
            return Ok(vec![Entered::Refused; items.len()]);
        }
        if ks.has_plain_groups() {
            for item in items.clone().skip(1) {
                // Add all URIs or none, as `add` does.
                self.groups.load(ks, item.url.chg)?;
                let key = self.keys.uris_key(ks, item.url.chg);
                ks.keeps_uris(&key)?;
            }
        }
        let mut lookups = Lookups::default();
        let mut all = Vec::with_capacity(items.len());
        let mut added = 0;
        let mut rest = items;
        while rest.len() > 0 {
            let found = lookups.next(ks, execution, rest.clone().map(|item| item.name()))?;
            let item = rest.next().expect("one more");
            let (uri, name) = (item.url, item.name());
            let remembers = found.is_some();
            let is_known = found.is_some_and(|found| !found.is_new(fresh, now));
            if is_known && weight.is_none() && !counts {
                all.push(Entered::Known(0));
                continue;
            }
            let mut loaded = self.groups.load(ks, uri.chg)?;
            self.placing().reclaim(ks, &mut loaded, now)?;
            let is_used_up = loaded.group.options.budget == Some(0);
            // The record of a URL shows whether the execution has the URL, but not in which group. Without
            // records, the result of adding the URL shows whether the group already has it, unless the
            // budget forbids adding it.
            let matters = if remembers {
                is_known && weight.is_some()
            } else {
                is_used_up
            };
            // Only plain frontiers list the groups of an execution.
            let lists = !remembers && ks.has_plain_groups();
            let (first, is_here) = if matters || lists {
                let has = self.groups.kept(ks, &loaded, |kept| {
                    let first = kept.count_of(execution) == 0;
                    (first, matters && !first && kept.contains(execution, name))
                })?;
                has.unwrap_or((true, false))
            } else {
                (false, false)
            };
            let known = is_here || is_known;
            if known && (weight.is_none() || !is_here) {
                all.push(Entered::Known(loaded.group.uris));
                continue;
            }
            if is_used_up {
                all.push(if known {
                    Entered::Known(loaded.group.uris)
                } else {
                    Entered::Refused
                });
                continue;
            }
            let add = Op::Add {
                execution,
                weight,
                due: uri.at.max(now),
                depth: uri.depth,
                attempts: 0,
                uri: name,
            };
            let change = match found {
                Some(found) => {
                    let add =
                        |packed: &mut Packed| packed.add_url(uri.chg, &add, found, item.extra());
                    ks.packed(add)?.unwrap_or(Changed::Nothing)
                }
                None => {
                    let key = self.groups.uris_of(ks, &loaded);
                    ks.change_uris(key, &add)?
                }
            };
            if change != Changed::Added {
                all.push(Entered::Known(loaded.group.uris));
                continue;
            }
            spend(&mut loaded);
            loaded.group.keeps = true;
            self.placing().arrive(ks, &mut loaded, 1, uri.at, now)?;
            all.push(Entered::New(loaded.group.uris));
            self.placing().save(ks, &loaded)?;
            if first {
                self.ledger.enlist(ks, execution, uri.chg)?;
            }
            added += 1;
        }
        self.figures.added += added as u64;
        self.ledger.tally(ks, execution, added)?;
        Ok(all)
    }
}

impl<K: Store> Placing<'_, K> {
    /// Adds URIs to a group. The first of them is due at `at`. Queues the group, or moves it
    /// forward if it is already waiting.
    pub(super) fn arrive(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        uris: u64,
        at: Millis,
        now: Millis,
    ) -> Result<()> {
        let group = &loaded.group;
        let stands = group.is_runnable();
        // This command may already have written to other keys, so a key of the wrong type must not
        // cause an error here.
        let opens = match &group.options.gate[..] {
            gate if stands && !gate.is_empty() => self.gates.closed_until(ks, gate).unwrap_or(0),
            _ => 0,
        };
        // A plain client is fetching from the group, and will queue it afterwards.
        let taken = !stands
            && group.known
            && group.holds.is_empty()
            && ks.zset_score(&self.keys.once.busy, &loaded.id)?.is_some();
        let seen = Seen {
            opens,
            taken,
            ..Seen::at(now, Stock::default())
        };
        let step = loaded.group.on(Event::Arrived { uris, at }, &seen);
        self.place(ks, loaded, &step, now)
    }
}

/// Returns the stored reply if a command with this number was executed before.
fn replayed<K: Store>(
    keys: &Keys<K>,
    ks: &mut K,
    execution: &[u8],
    sequence: Sequence<'_>,
) -> Result<Option<Counts>> {
    let key = keys.sequence_key(ks, execution);
    let Some(stored) = ks.hash_get(&key, sequence.writer)? else {
        return Ok(None);
    };
    let mut numbers = stored.as_ref().split(|&b| b == b' ').map(parse_unsigned);
    match numbers.next().flatten() {
        Some(last) if last == sequence.n => Ok(Some(numbers.collect())),
        Some(last) if last > sequence.n => Err(Error::OldSequence {
            writer: sequence.writer.to_vec(),
            n: sequence.n,
            last,
        }),
        _ => Ok(None),
    }
}

fn store_counts<K: Store>(
    keys: &Keys<K>,
    ks: &mut K,
    execution: &[u8],
    sequence: Sequence<'_>,
    counts: &Counts,
) -> Result<()> {
    let mut stored = Vec::new();
    push_number(&mut stored, sequence.n);
    for count in counts {
        stored.push(b' ');
        match count {
            Some(count) => push_number(&mut stored, *count),
            None => stored.push(b'-'),
        }
    }
    let key = keys.sequence_key(ks, execution);
    ks.hash_set(&key, sequence.writer, &stored)?;
    Ok(())
}

/// Takes one URI from the budget of a group. Returns false if the budget is used up.
fn spend<K: Store>(loaded: &mut Loaded<K>) -> bool {
    match &mut loaded.group.options.budget {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}
