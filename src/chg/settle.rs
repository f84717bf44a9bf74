//! Marks URLs as done or schedules them. The client specifies the URLs themselves, whether it holds
//! a lease on them or not.

use super::add::{Entered, How, Item, Kept};
use super::discover::{Asked, Lookups, has_space};
use super::error::Result;
use super::frontier::Frontier;
use super::known::{Extra, State};
use super::packed::known::Found;
use super::store::{Store, check_packed, with_packed};
use super::time::Millis;
use super::transition::{Event, Seen};
use super::uris::{Changed, End, Op};

/// A URL to mark as done or to schedule.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// The group for the URL if the execution does not know the URL.
    pub chg: &'a [u8],
    /// The URL.
    pub uri: &'a [u8],
    /// Due time of the URL; `None` if the URL is done.
    pub at: Option<Millis>,
    /// New payload of a URL with a due time. An empty payload removes the stored payload; `None`
    /// keeps it.
    pub payload: Option<&'a [u8]>,
}

/// Results for the URLs in order: true if the URL changed; `None` if it was refused because the budget of
/// the group is used up or the execution was dropped.
pub type Changes = Vec<Option<bool>>;

impl<K: Store> Frontier<K> {
    /// Marks URLs as done, or schedules them. `status` is recorded for URLs that are done.
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed; `KNOWN` if the execution has URIs that were queued before.
    pub fn settle(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        status: Option<u16>,
        urls: &[Settled<'_>],
        now: Millis,
    ) -> Result<Changes> {
        check_packed(ks)?;
        self.evict_idle(ks, now)?;
        if self.drops.has(ks, execution, now)? {
            return Ok(vec![None; urls.len()]);
        }
        if !has_space(ks, execution)? {
            self.space(ks, execution, &Asked::default(), now)?;
        }
        let mut lookups = Lookups::default();
        let each = urls.iter().enumerate();
        let all = each.map(|(n, url)| {
            let names = urls[n..].iter().map(|url| url.uri);
            let Some(found) = lookups.next(ks, execution, names)? else {
                return Ok(Some(false));
            };
            match url.at {
                Some(at) => self.schedule(ks, execution, (url, found), at, now),
                None => {
                    let finished = self.finish_url(ks, execution, (url, found), status, now);
                    finished.map(Some)
                }
            }
        });
        all.collect()
    }

    /// Marks a URL as done.
    fn finish_url(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        (url, found): (&Settled<'_>, Found),
        status: Option<u16>,
        now: Millis,
    ) -> Result<bool> {
        let Some(place) = standing(ks, execution, (url.uri, found))? else {
            return with_packed(ks, |packed| {
                packed.mark_done(execution, url.uri, found, url.chg, status)
            });
        };
        let end = Op::End {
            execution: &place.owner,
            uri: url.uri,
            end: End {
                is_given_up: false,
                status,
            },
        };
        self.end_url(ks, &place.group, (&place.owner, &end), now)?;
        Ok(true)
    }

    /// Queues a URL, or changes its due time and its payload.
    fn schedule(
        &mut self,
        ks: &mut K,
        execution: &[u8],
        (url, found): (&Settled<'_>, Found),
        at: Millis,
        now: Millis,
    ) -> Result<Option<bool>> {
        let Some(place) = standing(ks, execution, (url.uri, found))? else {
            let kept = Kept {
                chg: url.chg,
                at,
                depth: 0,
                uri: url.uri,
            };
            let item = Item {
                payload: url.payload.filter(|payload| !payload.is_empty()),
                ..Item::of(kept)
            };
            let items = [item].into_iter();
            let how = How {
                fresh: Some(0),
                ..How::default()
            };
            let entered = self.enter(ks, execution, how, items, now)?;
            return Ok(match entered[0] {
                Entered::New(_) => Some(true),
                Entered::Known(_) => Some(false),
                Entered::Refused => None,
            });
        };
        let is_replaced = replace_payload(ks, &place, url)?;
        // A time in the past means now, so it changes nothing if the URL is already due.
        let due = at.max(now);
        let is_new = place.state == State::Queued && place.attempts == 0;
        if is_new && place.due.max(now) == due {
            return Ok(Some(is_replaced));
        }
        let mut loaded = self.groups.load(ks, &place.group)?;
        let key = self.keys.uris_key(ks, &place.group);
        let reschedule = Op::Reschedule {
            execution: &place.owner,
            uri: url.uri,
            due,
        };
        let (changed, stock) = ks.change_uris_then(&key, &reschedule, |kept| kept.stock())?;
        if changed == Changed::Nothing {
            return Ok(Some(is_replaced));
        }
        self.groups.clear_ended(ks, &loaded)?;
        let seen = Seen {
            opens: self.gates.opens(ks, &loaded)?,
            away: self.groups.away_without(ks, &loaded, &[])?,
            ..Seen::at(now, stock.unwrap_or_default())
        };
        let step = loaded.group.on(Event::Rescheduled, &seen);
        self.placing().apply(ks, &mut loaded, &step, now)?;
        Ok(Some(true))
    }
}

/// Replaces the payload of a queued or leased URL. Returns true if the payload changed.
fn replace_payload<K: Store>(ks: &mut K, place: &Standing, settled: &Settled<'_>) -> Result<bool> {
    let Some(payload) = settled.payload else {
        return Ok(false);
    };
    let payload = Some(payload).filter(|payload| !payload.is_empty());
    with_packed(ks, |packed| {
        let extra = packed.extra(&place.owner, settled.uri, &place.group);
        if extra.payload == payload {
            return false;
        }
        let url = extra.url.map(<[u8]>::to_vec);
        let extra = Extra {
            url: url.as_deref(),
            payload,
        };
        let here = packed.group_hash(&place.group);
        packed.set_extra(&place.owner, settled.uri, Some(here), extra);
        true
    })
}

/// Returns the state and the place of a URL that is queued or leased, and `None` for any other URL.
fn standing<K: Store>(
    ks: &mut K,
    execution: &[u8],
    (url, found): (&[u8], Found),
) -> Result<Option<Standing>> {
    let Some(known) = found.known.filter(|known| known.state.has_text()) else {
        return Ok(None);
    };
    with_packed(ks, |packed| {
        let (owner, group) = packed.group_of_url(execution, &known, url)?;
        Some(Standing {
            state: known.state,
            attempts: known.attempts,
            due: packed.due_of_url(execution, &known, url)?,
            owner,
            group,
        })
    })
}

/// A URL that is queued or leased.
struct Standing {
    state: State,
    attempts: u32,
    due: Millis,
    /// The execution that discovered the URL.
    owner: Vec<u8>,
    group: Vec<u8>,
}
