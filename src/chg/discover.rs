//! Known URLs: adds a URL unless it is known, reports the state of a URL, and forgets URLs.

use std::hash::{BuildHasher, RandomState};

use crawlspace_host::reply::Reply;
use crawlspace_host::text::Shown;

use super::add::{Entered, How, Item};
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::groups::Loaded;
use super::job::{Job, Lent};
use super::known::{Extra, Known, Member, Misfit, Print, Prints, Shape, State, UNIT};
use super::packed::Packed;
use super::packed::known::Found;
use super::store::{Store, with_packed};
use super::time::Millis;
use super::transition::{Event, Seen};
use super::uris::{Op, Stock};

/// The options with which a client requests a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Number of bits of a record that identify a URL. `None` if the client did not specify it,
    /// which means 96.
    pub bits: Option<u64>,
    /// Name of a space that executions share.
    pub share: Option<&'a [u8]>,
    /// True to keep the texts of URLs that are done or given up. `None` if the client did not
    /// specify it, which means false.
    pub text: Option<bool>,
}

impl Asked<'_> {
    fn shape(&self) -> Shape {
        Shape {
            is_wide: self.bits == Some(128),
            is_shared: self.share.is_some(),
            keeps_text: self.text == Some(true),
        }
    }
}

/// Selects the URLs to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Only URLs of this group.
    pub group: Option<&'a [u8]>,
    /// Only URLs that changed before this time.
    pub before: Option<Millis>,
    /// Only URLs in this state.
    pub state: Option<State>,
}

/// Number of URLs of a command whose records are prefetched together.
const PREFETCHED: usize = 64;

/// Returns a new secret key.
fn secret() -> [u8; 16] {
    let random = || RandomState::new().hash_one(0).to_le_bytes();
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&random());
    secret[8..].copy_from_slice(&random());
    secret
}

/// Returns the counts of URLs in each state.
fn counts_reply(counts: [u64; 4]) -> Reply {
    let sum = counts.iter().sum();
    let named = State::ALL.map(|state| (state.name(), Reply::count(counts[state as usize])));
    let [queued, leased, done, given_up] = named;
    Reply::named([queued, leased, done, given_up, ("known", Reply::count(sum))])
}

/// Returns the URL that is queued or leased in a group under a key.
pub(super) fn url_of<K: Store>(
    ks: &mut K,
    chg: &[u8],
    (execution, name): (&[u8], &[u8]),
) -> Result<Option<Vec<u8>>> {
    let url = ks.packed(|packed| {
        let extra = packed.extra(execution, name, chg);
        extra.url.map(<[u8]>::to_vec)
    })?;
    Ok(url.flatten())
}

/// Looks up the records of the URLs of a command, and prefetches the memory that later look-ups
/// read.
#[derive(Default)]
pub(super) struct Lookups(std::vec::IntoIter<Prints>);

impl Lookups {
    /// Finds the record of the next URL of the command. `urls` are the URLs that have not been looked up yet. Returns
    /// `None` if the execution does not remember its URLs.
    pub(super) fn next<'u, K: Store>(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        mut urls: impl Iterator<Item = &'u [u8]> + Clone,
    ) -> Result<Option<Found>> {
        let found = ks.packed(|packed| {
            if self.0.len() == 0 {
                let urls = urls.clone().take(PREFETCHED);
                self.0 = packed.prefetch_urls(execution, urls).into_iter();
            }
            let prints = self.0.next()?;
            packed.find_print((execution, urls.next()?), prints, None)
        })?;
        Ok(found.flatten())
    }
}

impl Found {
    /// Returns true if the URL is unknown, or was done at least `fresh` ago.
    pub(super) fn is_new(&self, fresh: Option<Millis>, now: Millis) -> bool {
        match self.known {
            None => true,
            Some(known) if known.state.has_text() => false,
            Some(known) => {
                fresh.is_some_and(|fresh| now.saturating_sub(known.changed_ms()) >= fresh)
            }
        }
    }
}

/// Returns true if the frontier has records of URLs.
pub(super) fn knows_urls<K: Store>(ks: &mut K) -> Result<bool> {
    let knows = ks.packed(|packed| !packed.spaces().is_empty())?;
    Ok(knows.unwrap_or(false))
}

/// Returns true if an execution remembers its URLs.
pub(super) fn has_space<K: Store>(ks: &mut K, execution: &[u8]) -> Result<bool> {
    let has = ks.packed(|packed| packed.spaces().member(execution).is_some())?;
    Ok(has.unwrap_or(false))
}

/// Stores the additional data of a URL that is queued or leased in a group: the URL (if a key
/// identifies it) and its payload.
pub(super) fn set_extra<K: Store>(
    ks: &mut K,
    chg: &[u8],
    (execution, url): (&[u8], &[u8]),
    extra: Extra<'_>,
) -> Result<()> {
    ks.packed(|packed| {
        let here = packed.group_hash(chg);
        packed.set_extra(execution, url, Some(here), extra);
    })?;
    Ok(())
}

/// Returns the record of each URL: nil or `[state, due, status, attempts, changed]`.
///
/// # Errors
/// `PLAIN` if the frontier is not packed.
pub fn known<K: Store>(ks: &mut K, execution: &[u8], urls: &[&[u8]]) -> Result<Reply> {
    let all = with_packed(ks, |packed| {
        let all = urls.iter().map(|url| {
            let found = packed.find_url(execution, url, None);
            let Some(known) = found.and_then(|found| found.known) else {
                return Reply::Nil;
            };
            let due = if known.state.has_text() {
                packed.due_of_url(execution, &known, url)
            } else {
                None
            };
            let optional = |n: Option<u64>| n.map_or(Reply::Int(-1), Reply::count);
            Reply::Array(vec![
                Reply::bulk(known.state.name()),
                optional(due),
                optional(known.status.map(u64::from)),
                Reply::count(known.attempts.into()),
                Reply::count(known.changed_ms()),
            ])
        });
        all.collect()
    })?;
    Ok(Reply::Array(all))
}

/// Returns the number of URLs of an execution in each state.
///
/// # Errors
/// `PLAIN` if the frontier is not packed.
pub fn count_known<K: Store>(ks: &mut K, execution: &[u8]) -> Result<Reply> {
    with_packed(ks, |packed| {
        let member = packed.spaces().member(execution);
        counts_reply(member.map_or([0; 4], |member| member.counts))
    })
}

/// Returns the number of URLs of an execution in each state that belong to a group, if a limit needs these counts.
///
/// # Errors
/// `PLAIN` if the frontier is not packed.
pub fn counts_in_group<K: Store>(
    ks: &mut K,
    execution: &[u8],
    group: &[u8],
) -> Result<Option<Reply>> {
    let counts = with_packed(ks, |packed| {
        let hash = packed.group_hash(group);
        packed.limits().counts(execution, hash)
    })?;
    Ok(counts.map(counts_reply))
}

/// Removes an execution from its space if the execution does not know any URL.
fn leave_if_empty<K: Store>(ks: &mut K, execution: &[u8]) -> Result<()> {
    with_packed(ks, |packed| {
        let member = packed.spaces().member(execution);
        if member.is_some_and(|member| member.counts == [0; 4]) {
            packed.leave_space(execution);
        }
    })
}

impl<K: Store> Frontier<K> {
    /// Makes an execution remember its URLs.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed; `KNOWN` if the execution has URIs that were queued before, or another space.
    pub fn space(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        asked: &Asked<'_>,
        now: Millis,
    ) -> Result<()> {
        let is_new = with_packed(ks, |packed| packed.spaces().member(execution).is_none())?;
        let queued = self.ledger.queued_of(ks, execution)?;
        if is_new && queued > 0 {
            return Err(Error::Known(format!(
                "execution '{}' has {queued} URIs that were queued before it remembered its URLs; finish or drop them, or use another execution",
                Shown(execution)
            )));
        }
        let joined = with_packed(ks, |packed| {
            let joined = packed.join_space(execution, asked.share, asked.shape(), secret());
            packed.set_clock(now);
            joined
        })?;
        joined.map_err(|misfit| {
            Error::Known(match misfit {
                Misfit::Other => format!(
                    "execution '{}' already has another space; to leave it, forget all of its URLs (CHG.FORGET)",
                    Shown(execution)
                ),
                Misfit::Shape => format!(
                    "the space of execution '{}' has other BITS or TEXT; to remove it, forget all of its URLs (CHG.FORGET)",
                    Shown(execution)
                ),
            })
        })
    }

    /// Adds URLs that are unknown, or were done at least `fresh` ago.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed; `KNOWN` if the execution has URIs that were queued before.
    pub fn discover(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        (weight, fresh): (Option<u64>, Option<Millis>),
        items: &[Item<'_>],
        now: Millis,
    ) -> Result<Vec<Entered>> {
        if !has_space(ks, execution)? {
            if self.drops.has(ks, execution, now)? {
                return Ok(vec![Entered::Refused; items.len()]);
            }
            self.space(ks, execution, &Asked::default(), now)?;
        }
        let how = How {
            weight,
            fresh,
            counts: false,
        };
        self.enter(ks, execution, how, items.iter().copied(), now)
    }

    /// Forgets URLs, and removes them from the queue; does not forget leased URLs. Returns the number of URLs
    /// forgotten.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed.
    pub fn forget(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        urls: &[&[u8]],
        now: Millis,
    ) -> Result<u64> {
        with_packed(ks, |_| ())?;
        self.evict_idle(ks, now)?;
        let mut forgotten = 0;
        for url in urls {
            let found = with_packed(ks, |packed| {
                let (member, _) = packed.spaces().of(execution)?;
                let (space, number) = (member.space.clone(), member.number);
                let found = packed.find_url(execution, url, None)?;
                Some((space, number, found.print, found.known?))
            })?;
            let Some((space, number, print, known)) = found else {
                continue;
            };
            match known.state {
                State::Done | State::GivenUp => {
                    with_packed(ks, |packed| packed.forget_url(&space, &print))?;
                    forgotten += 1;
                }
                State::Queued if known.member == number => {
                    forgotten += u64::from(self.unqueue_url(ks, execution, url, &known, now)?);
                }
                // Another execution has discovered the URL and is still crawling it.
                State::Queued | State::Leased => {}
            }
        }
        Ok(forgotten)
    }

    /// Removes a queued URL. Returns false if the URL is not queued.
    fn unqueue_url(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        url: &[u8],
        known: &Known,
        now: Millis,
    ) -> Result<bool> {
        let found = with_packed(ks, |packed| packed.group_of_url(execution, known, url))?;
        let Some((execution, group)) = found else {
            return Ok(false);
        };
        let remove = Op::Remove {
            execution: &execution,
            uri: url,
        };
        self.end_url(ks, &group, (&execution, &remove), now)?;
        Ok(true)
    }

    /// Removes a queued or leased URL from a group. The lease of a leased URL remains.
    pub(super) fn end_url(
        &mut self,
        ks: &mut K,
        group: &[u8],
        ending: (&[u8], &Op<'_>),
        now: Millis,
    ) -> Result<()> {
        let loaded = self.groups.load(ks, group)?;
        self.end_loaded(ks, loaded, ending, now)
    }

    /// Does the same as [`Frontier::end_url`] for a group that was just loaded.
    pub(super) fn end_loaded(
        &mut self,
        ks: &mut K,
        mut loaded: Box<Loaded<K>>,
        (execution, op): (&[u8], &Op<'_>),
        now: Millis,
    ) -> Result<()> {
        let key = self.groups.uris_of(ks, &loaded);
        ks.change_uris(key, op)?;
        self.groups.clear_ended(ks, &loaded)?;
        self.ledger
            .delist_if_done(ks, &self.groups, &loaded, execution)?;
        self.ledger.tally(ks, execution, -1)?;
        let mut seen = Seen::at(now, Stock::default());
        seen.away = self.groups.away_without(ks, &loaded, &[])?;
        let step = loaded.group.on(Event::Dropped { uris: 1 }, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)
    }
}

/// Calls `each` with all URLs of a space, in slices.
async fn each_url<K: Store>(
    lent: &Lent<K>,
    space: &[u8],
    each: &mut dyn FnMut(&mut Packed, &Print, Known),
) -> Result<()> {
    let mut from = Some(0);
    lent.slices(|_, ks, time| {
        while let Some(at) = from {
            from = with_packed(ks, |packed| {
                let (urls, next) = packed.spaces().space(space)?.page(at);
                for (print, known) in &urls {
                    each(packed, print, *known);
                }
                next
            })?;
            if from.is_some() && !time() {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    })
    .await
}

/// Returns the membership of an execution in its space, and the hash of a group.
fn member_and_hash<K: Store>(
    lent: &Lent<K>,
    execution: &[u8],
    group: Option<&[u8]>,
) -> Result<Option<(Member, Option<u32>)>> {
    lent.with(|_, ks| {
        with_packed(ks, |packed| {
            let member = packed.spaces().member(execution)?;
            let hash = group.map(|group| packed.group_hash(group));
            Some((member.clone(), hash))
        })
    })
}

/// Creates a job that forgets URLs that are neither queued nor leased. The reply of the job is the number
/// of forgotten URLs. Without a selection, the job finally removes the execution from its space if no
/// known URL is left.
pub fn forget_selected<K: Store>(execution: &[u8], selection: &Selection<'_>) -> Job<K> {
    let execution = execution.to_vec();
    let group = selection.group.map(<[u8]>::to_vec);
    let (before, state) = (selection.before, selection.state);
    let all = *selection == Selection::default();
    Job::new(async move |lent: Lent<K>| {
        let found = member_and_hash(&lent, &execution, group.as_deref())?;
        let Some((member, hash)) = found else {
            return Ok(Reply::count(0));
        };
        let mut forgotten = 0;
        each_url(&lent, &member.space, &mut |packed, print, known| {
            let is_selected = known.member == member.number
                && !known.state.has_text()
                && state.is_none_or(|state| state == known.state)
                && hash.is_none_or(|hash| hash == known.group)
                && before.is_none_or(|before| known.changed_ms() + UNIT <= before);
            if is_selected {
                packed.forget_url(&member.space, print);
                forgotten += 1;
            }
        })
        .await?;
        if all {
            lent.with(|_, ks| leave_if_empty(ks, &execution))?;
        }
        Ok(Reply::count(forgotten))
    })
}

/// Creates a job that counts the URLs of an execution that belong to a group.
pub fn count_in_group<K: Store>(execution: &[u8], group: &[u8]) -> Job<K> {
    let (execution, group) = (execution.to_vec(), group.to_vec());
    Job::new(async move |lent: Lent<K>| {
        let mut counts = [0; 4];
        let found = member_and_hash(&lent, &execution, Some(&group))?;
        if let Some((member, hash)) = found {
            each_url(&lent, &member.space, &mut |_, _, known| {
                if known.member == member.number && Some(known.group) == hash {
                    counts[known.state as usize] += 1;
                }
            })
            .await?;
        }
        Ok(counts_reply(counts))
    })
}

/// Assigns the URLs of a group that are neither queued nor leased to another group.
pub(super) async fn regroup<K: Store>(lent: &Lent<K>, from: &[u8], to: &[u8]) -> Result<()> {
    let found = lent.with(|_, ks| {
        ks.packed(|packed| {
            let names = packed.spaces().spaces().map(|(name, _)| name.into());
            let names: Vec<Box<[u8]>> = names.collect();
            (names, packed.group_hash(from))
        })
    })?;
    let Some((names, from)) = found else {
        return Ok(());
    };
    for name in names {
        each_url(lent, &name, &mut |packed, print, known| {
            if known.group == from && !known.state.has_text() {
                packed.regroup_url(&name, print, known, to);
            }
        })
        .await?;
    }
    Ok(())
}
