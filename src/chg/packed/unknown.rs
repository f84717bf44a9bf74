//! Finds records of URLs that contradict the queues, for `CHG.CHECK` and `CHG.REPAIR`.

use std::collections::BTreeSet;

use super::super::known::{Known, Print, State};
use super::super::uris::Position;
use super::keys::Packed;

/// A queued or leased URL: its execution, the URL or its key, its failed attempts, and its state.
type Standing = (Vec<u8>, Vec<u8>, u32, State);

/// A queued or leased URL whose record is missing or wrong.
pub struct Unknown {
    /// The execution in whose queue the URL is.
    pub execution: Vec<u8>,
    /// The URL, or its key.
    pub url: Vec<u8>,
    /// The state in the record of the URL; `None` if there is no record.
    pub found: Option<State>,
    /// The correct state.
    pub state: State,
    print: Print,
    record: Known,
}

/// A stored text that disagrees with the record of its URL.
pub struct WrongText {
    print: Print,
    wrong: Wrong,
}

/// A kind of wrong text.
enum Wrong {
    /// The URL has no record.
    Lone,
    /// The URL is queued or leased.
    Needless(Known),
    /// The text is missing, or it is the text of a different URL.
    Lost,
    /// The group in the text (contained here) differs from the group in the record.
    Group(Known, Vec<u8>),
}

impl WrongText {
    /// Describes the problem.
    pub fn problem(&self) -> &'static str {
        match self.wrong {
            Wrong::Lone => "a stored text has no matching URL record",
            Wrong::Needless(_) => {
                "the text of a URL is stored although the URL is queued or leased"
            }
            Wrong::Lost => "the text of a URL that is done or given up is missing or wrong",
            Wrong::Group(..) => "the text and the record of a URL contain different groups",
        }
    }
}

impl Packed {
    /// Returns the names of the spaces that keep texts.
    pub fn spaces_with_texts(&self) -> Vec<Box<[u8]>> {
        let keep = self
            .known
            .spaces()
            .filter(|(_, space)| space.shape().keeps_text);
        keep.map(|(name, _)| name.into()).collect()
    }

    /// Returns the URLs on a page of the records of a space whose texts are missing, wrong or needless, and the position
    /// of the next page.
    pub fn wrong_texts(&self, name: &[u8], from: u64) -> (Vec<WrongText>, Option<u64>) {
        let Some(space) = self.known.space(name) else {
            return (Vec::new(), None);
        };
        let (records, next) = space.page(from);
        let wrong = records.into_iter().filter_map(|(print, known)| {
            let is_of = |url: &[u8]| space.prints(url).any(|other| other == print);
            let wrong = match self.ended(space, &print) {
                _ if known.state.has_text() => {
                    space.text(&print)?;
                    Wrong::Needless(known)
                }
                Some(ended) if is_of(ended.key.as_ref().unwrap_or(&ended.uri)) => {
                    let group = self.group_hash(&ended.chg);
                    (group != known.group).then_some(Wrong::Group(known, ended.chg))?
                }
                _ => Wrong::Lost,
            };
            Some(WrongText { print, wrong })
        });
        (wrong.collect(), next)
    }

    /// Returns the URL texts without a record that one page of a space contains, and the position of the next page.
    pub fn lone_texts(&self, name: &[u8], from: u64) -> (Vec<WrongText>, Option<u64>) {
        let Some(space) = self.known.space(name) else {
            return (Vec::new(), None);
        };
        let mut lone = Vec::new();
        let next = space.prints_with_text(from, &mut |print| {
            if space.get(print).is_none() {
                lone.push(WrongText {
                    print: Print::of(print),
                    wrong: Wrong::Lone,
                });
            }
        });
        (lone, next)
    }

    /// Corrects the record of a URL whose text is wrong. A URL whose text is lost is forgotten.
    pub fn mend_text(&mut self, name: &[u8], wrong: &WrongText) {
        match &wrong.wrong {
            Wrong::Lone | Wrong::Lost => self.forget_url(name, &wrong.print),
            Wrong::Needless(known) => self.put_url(name, &wrong.print, *known),
            Wrong::Group(known, chg) => self.regroup_url(name, &wrong.print, *known, chg),
        }
    }

    /// Returns the URLs on a page of a group whose records are missing or wrong, and the position of the next page.
    /// The first page includes the leased URLs.
    pub fn unknown_urls(
        &self,
        id: &[u8],
        from: Position,
        count: usize,
    ) -> (Vec<Unknown>, Option<Position>) {
        let (urls, next) = self.urls_in(id, from, count);
        let here = self.group_hash(id);
        let unknown = urls
            .into_iter()
            .filter_map(|(execution, url, attempts, state)| {
                let number = self.known.member(&execution)?.number;
                let found = self.find_url(&execution, &url, Some(here))?;
                let is_right = |known: &Known| {
                    (known.state, known.group, known.member) == (state, here, number)
                };
                if found.known.as_ref().is_some_and(is_right) {
                    return None;
                }
                let record = Known {
                    state,
                    attempts,
                    status: found.known.and_then(|known| known.status),
                    changed: self.unit,
                    group: here,
                    member: number,
                };
                Some(Unknown {
                    found: found.known.map(|known| known.state),
                    print: found.print,
                    execution,
                    url,
                    state,
                    record,
                })
            });
        (unknown.collect(), next)
    }

    /// Returns the fingerprint and the record of a URL if the record is that of another queue entry: the URL is also
    /// queued or leased in another group, or for another execution in the same space.
    pub fn other_entry(&self, unknown: &Unknown, id: &[u8]) -> Option<(Print, Known)> {
        let (execution, url) = (&unknown.execution[..], &unknown.url[..]);
        let found = self.find_url(execution, url, None)?;
        let known = found.known.filter(|known| known.state.has_text())?;
        let (owner, group) = self.group_of_url(execution, &known, url)?;
        (owner != execution || group != id).then_some((found.print, known))
    }

    /// Corrects the record of a URL.
    pub fn record_url(&mut self, unknown: &Unknown) {
        self.forget_others(unknown, &unknown.print);
        self.put_record(unknown, &unknown.print, unknown.record);
    }

    /// Stores a record in the space of a URL.
    pub fn put_record(&mut self, unknown: &Unknown, print: &Print, known: Known) {
        if let Some(member) = self.known.member(&unknown.execution) {
            let space = member.space.clone();
            self.put_url(&space, print, known);
        }
    }

    /// Forgets records of a URL under its other fingerprints. Such a record was stored while another URL used the given
    /// fingerprint.
    pub fn forget_others(&mut self, unknown: &Unknown, kept: &Print) {
        let Some((member, space)) = self.known.of(&unknown.execution) else {
            return;
        };
        let (name, record) = (member.space.clone(), unknown.record);
        let is_other = |print: &Print| {
            let known = space.get(print).filter(|known| known.state.has_text());
            print != kept
                && known.is_some_and(|known| {
                    (known.group, known.member) == (record.group, record.member)
                })
        };
        let others: Vec<Print> = space.prints(&unknown.url).filter(is_other).collect();
        for print in others {
            self.forget_url(&name, &print);
        }
    }

    /// Returns the executions that share a space with one of the given executions.
    pub fn neighbours(&self, executions: &BTreeSet<Box<[u8]>>) -> BTreeSet<Box<[u8]>> {
        let members = executions
            .iter()
            .filter_map(|execution| self.known.member(execution));
        let spaces: BTreeSet<&[u8]> = members.map(|member| &*member.space).collect();
        let all = self.known.members();
        let sharing = all.filter(|(_, member)| spaces.contains(&*member.space));
        sharing.map(|(execution, _)| execution.into()).collect()
    }

    /// Visits the records of queued and leased URLs on a page of an execution's space. Passes the hash of the group
    /// and the fingerprint. Returns the position of the next page.
    pub fn records_with_text(
        &self,
        execution: &[u8],
        from: u64,
        each: &mut dyn FnMut(u32, Print),
    ) -> Option<u64> {
        let (member, space) = self.known.of(execution)?;
        let (page, next) = space.page(from);
        for (print, known) in page {
            if known.state.has_text() && known.member == member.number {
                each(known.group, print);
            }
        }
        next
    }

    /// Returns the ids of the groups with this hash.
    pub fn ids_with_hash(&self, hash: u32) -> Vec<Vec<u8>> {
        let slots = self.groups.with_hash(hash);
        slots.map(|slot| self.groups.id(slot).to_vec()).collect()
    }

    /// Removes from a set the fingerprints under which the URLs on a page of a group are recorded. Returns the position
    /// of the next page. The first page includes the leased URLs.
    pub fn remove_prints(
        &self,
        id: &[u8],
        execution: &[u8],
        from: Position,
        count: usize,
        prints: &mut BTreeSet<Print>,
    ) -> Option<Position> {
        let here = Some(self.group_hash(id));
        let (urls, next) = self.urls_in(id, from, count);
        let own = urls.iter().filter(|(whose, ..)| *whose == execution);
        for found in own.filter_map(|(_, url, ..)| self.find_url(execution, url, here)) {
            prints.remove(&found.print);
        }
        next
    }

    /// Returns the URLs on a page of a group, each with its execution, its failed attempts and its state, and the
    /// position of the next page. The first page includes the leased URLs.
    fn urls_in(
        &self,
        id: &[u8],
        from: Position,
        count: usize,
    ) -> (Vec<Standing>, Option<Position>) {
        let page = self.groups.find(id).and_then(|slot| {
            self.look_at_kept(slot, |kept| {
                let (queued, next) = kept.page(from, count);
                let queued = queued
                    .into_iter()
                    .map(|url| (url.execution, url.uri, url.attempts, State::Queued));
                let leased = kept
                    .leases()
                    .filter(|lease| from == Position::default() && !lease.dropped);
                let leased = leased.map(|lease| {
                    let url = kept.uri_of(&lease);
                    (lease.execution.to_vec(), url, lease.attempts, State::Leased)
                });
                (queued.chain(leased).collect(), next)
            })
        });
        page.unwrap_or_default()
    }

    /// Forgets the URLs with these fingerprints whose records say that they are queued or leased in a
    /// group with this hash. Returns the number of forgotten URLs.
    pub fn forget_lost(&mut self, execution: &[u8], hash: u32, prints: &BTreeSet<Print>) -> u64 {
        let Some((member, space)) = self.known.of(execution) else {
            return 0;
        };
        let (number, name) = (member.number, member.space.clone());
        let is_lost = |print: &&Print| {
            let known = space.get(print);
            known.is_some_and(|known| {
                known.state.has_text() && (known.group, known.member) == (hash, number)
            })
        };
        let lost: Vec<Print> = prints.iter().filter(is_lost).cloned().collect();
        for print in &lost {
            self.forget_url(&name, print);
        }
        lost.len() as u64
    }
}
