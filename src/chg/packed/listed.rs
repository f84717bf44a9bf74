//! Lists the URLs of an execution: queued and leased URLs group by group and, from spaces that keep texts, URLs that
//! are done or given up.

use super::super::known::{Known, State};
use super::super::time::Millis;
use super::super::uris::Position;
use super::ended::Ended;
use super::keys::Packed;

/// Maximum number of groups, and of known URLs, that are examined for one page.
const MAX_LOOKED: usize = 4096;

/// Size at which a page ends, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// A listed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Group, key and URI.
    pub url: Ended,
    /// Number of links between a seed and the URL, and the due time of the URL, if the URL is
    /// queued or leased.
    pub place: Option<(u32, Millis)>,
    /// Its state.
    pub state: State,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Its record, if the execution remembers its URLs.
    pub known: Option<Known>,
}

/// Position from which a list of queued and leased URLs continues. A position is valid only on the server
/// that returned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Slot of the group.
    pub slot: u32,
    /// Number of leased URIs of the group that were already listed.
    pub leased: usize,
    /// Position of the next queued URI; the default position while leased URIs remain.
    pub queued: Position,
}

impl Place {
    fn at(slot: u32) -> Place {
        Place {
            slot,
            ..Place::default()
        }
    }
}

/// A page that is being built.
struct Page {
    all: Vec<Listed>,
    most: usize,
    bytes: usize,
}

impl Page {
    fn new(most: usize) -> Page {
        Page {
            all: Vec::new(),
            most,
            bytes: 0,
        }
    }

    fn add(&mut self, listed: Listed) {
        self.bytes += listed.url.uri.len();
        self.all.push(listed);
    }

    fn left(&self) -> usize {
        match self.bytes {
            PAGE_BYTES.. => 0,
            _ => self.most - self.all.len(),
        }
    }
}

impl Packed {
    /// Returns some queued and leased URLs of an execution, filtered by state, and the position at which to
    /// continue.
    pub fn list_queued(
        &self,
        execution: &[u8],
        only: Option<State>,
        from: Place,
        most: usize,
    ) -> (Vec<Listed>, Option<Place>) {
        let mut page = Page::new(most);
        let (mut next, mut looked_at) = (Some(from), 0);
        while let Some(place) = next {
            if page.left() == 0 || looked_at == MAX_LOOKED {
                break;
            }
            if place.slot >= self.groups.end() {
                return (page.all, None);
            }
            looked_at += 1;
            let in_group = self.list_in_group(execution, only, place, &mut page);
            next = in_group.or(Some(Place::at(place.slot + 1)));
        }
        (page.all, next)
    }

    /// Lists URLs of a group. Returns the place of the next URL in this group.
    fn list_in_group(
        &self,
        execution: &[u8],
        only: Option<State>,
        place: Place,
        page: &mut Page,
    ) -> Option<Place> {
        let chg = self.groups.id(place.slot);
        if chg.is_empty() {
            return None;
        }
        let next = self.look_at_kept(place.slot, |kept| {
            let mut shares = kept.executions();
            let share = shares.find(|share| share.id == execution)?;
            if place.queued == Position::default() && only != Some(State::Queued) {
                for (nth, leased) in kept.leases().enumerate().skip(place.leased) {
                    if leased.execution != execution || leased.dropped {
                        continue;
                    }
                    if page.left() == 0 {
                        return Some(Place {
                            leased: nth,
                            ..place
                        });
                    }
                    let name = kept.uri_of(&leased);
                    let times = (leased.depth, leased.due);
                    let attempts = leased.attempts;
                    page.add(self.listed(chg, execution, name, State::Leased, times, attempts));
                }
            }
            if only == Some(State::Leased) {
                return None;
            }
            let from = place.queued.max(Position::first_of(share.number));
            let (queued, next) = kept.page(from, page.left());
            for queued in queued {
                if queued.execution != execution {
                    return None;
                }
                let times = (queued.depth, queued.due);
                let (name, attempts) = (queued.uri, queued.attempts);
                page.add(self.listed(chg, execution, name, State::Queued, times, attempts));
            }
            next.map(|queued| Place { queued, ..place })
        });
        next.flatten()
    }

    fn listed(
        &self,
        chg: &[u8],
        execution: &[u8],
        name: Vec<u8>,
        state: State,
        place: (u32, Millis),
        attempts: u32,
    ) -> Listed {
        let found = self.find_url(execution, &name, Some(self.group_hash(chg)));
        let url = self.extra(execution, &name, chg).url.map(<[u8]>::to_vec);
        let (uri, key) = match url {
            Some(url) => (url, Some(name)),
            None => (name, None),
        };
        Listed {
            url: Ended {
                chg: chg.to_vec(),
                key,
                uri,
            },
            place: Some(place),
            state,
            attempts,
            known: found.and_then(|found| found.known),
        }
    }

    /// Returns some URLs of an execution that are done or were given up, and the position at which to
    /// continue. Returns `None` if the texts are not kept.
    pub fn list_ended(
        &self,
        execution: &[u8],
        state: State,
        from: u64,
        most: usize,
    ) -> Option<(Vec<Listed>, Option<u64>)> {
        let (member, space) = self.spaces().of(execution)?;
        if !space.shape().keeps_text {
            return None;
        }
        let mut page = Page::new(most);
        let (mut next, mut looked_at) = (Some(from), 0);
        while let Some(at) = next {
            if looked_at > MAX_LOOKED {
                break;
            }
            let (urls, after) = space.ordered(at);
            next = after;
            looked_at += urls.len();
            for (position, print, known) in urls {
                if known.member != member.number || known.state != state {
                    continue;
                }
                if page.left() == 0 {
                    return Some((page.all, Some(position)));
                }
                if let Some(url) = self.ended(space, &print) {
                    page.add(Listed {
                        url,
                        place: None,
                        state,
                        attempts: known.attempts,
                        known: Some(known),
                    });
                }
            }
        }
        Some((page.all, next))
    }
}
