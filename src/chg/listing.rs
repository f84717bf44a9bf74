//! Listings, page by page: the groups in the queues of a frontier, and the URIs that the frontier
//! stores for a group.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;
use crawlspace_host::text::{Shown, parse_unsigned};

use super::discover::url_of;
use super::error::{Error, Result};
use super::frontier::Frontier;
use super::groups::Groups;
use super::keys::Keys;
use super::known::State;
use super::later::{member, parts};
use super::packed::Ended;
use super::packed::listed::{Listed, Place};
use super::store::{Store, with_packed};
use super::time::{Millis, of_score};
use super::uris::Position;

/// A queue of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// `chg_wait`.
    Waiting,
    /// `chg_ready`.
    Ready,
    /// `chg_busy`.
    Busy,
    /// `chg_later`: leases that have freed their group.
    Freed,
}

impl Queue {
    /// All queues in listing order, which is the order in which a group passes through them.
    const ALL: [Queue; 4] = [Queue::Waiting, Queue::Ready, Queue::Busy, Queue::Freed];

    /// Returns the state of a group in this queue.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Waiting => "waiting",
            Queue::Ready => "ready",
            Queue::Busy => "busy",
            Queue::Freed => "freed",
        }
    }
}

/// The position from which a listing of groups continues.
///
/// A position in a sorted set consists of a score and a member, so that it remains valid when
/// members before it are added or removed. `chg_ready` is listed from its tail to its head. Groups
/// leave the list at the head and enter it at the tail. The other groups therefore only move
/// towards the head, and the listing does not skip any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cursor {
    /// The position after a member of a sorted set.
    Behind(Queue, f64, Vec<u8>),
    /// The position before an entry of `chg_ready`.
    Before(u64),
}

impl Cursor {
    /// Parses the result of `Cursor::to_text`.
    pub fn parse(text: &[u8]) -> Option<Cursor> {
        let (name, place) = split(text)?;
        let queue = Queue::ALL
            .into_iter()
            .find(|q| q.name().as_bytes() == name)?;
        if queue == Queue::Ready {
            return Some(Cursor::Before(parse_unsigned(place)?));
        }
        let (score, chg) = split(place)?;
        let score: f64 = std::str::from_utf8(score).ok()?.parse().ok()?;
        let member = if queue == Queue::Freed {
            let (token, chg) = split(chg)?;
            member(parse_unsigned(token)?, chg).to_vec()
        } else {
            chg.to_vec()
        };
        (!score.is_nan()).then_some(Cursor::Behind(queue, score, member))
    }

    /// Returns the cursor in the form that clients get.
    fn to_text(&self) -> Vec<u8> {
        match self {
            Cursor::Behind(Queue::Freed, score, member) => {
                let (token, chg) = parts(member).unwrap_or_default();
                let begin = format!("{}:{score}:{token}:", Queue::Freed.name());
                [begin.as_bytes(), chg].concat()
            }
            Cursor::Behind(queue, score, chg) => {
                [format!("{}:{score}:", queue.name()).as_bytes(), chg].concat()
            }
            Cursor::Before(at) => format!("{}:{at}", Queue::Ready.name()).into_bytes(),
        }
    }

    /// Returns the queue of the position.
    pub fn queue(&self) -> Queue {
        match self {
            Cursor::Behind(queue, ..) => *queue,
            Cursor::Before(_) => Queue::Ready,
        }
    }
}

/// Splits bytes at the first colon.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((&text[..colon], &text[colon + 1..]))
}

/// The position from which a list of URLs of an execution continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlCursor {
    /// A position in a list of queued and leased URLs.
    Queued(Place),
    /// A position in a list of URLs that are done or were given up.
    Ended(u64),
}

impl UrlCursor {
    /// Parses the result of `UrlCursor::to_text`.
    pub fn parse(text: &[u8]) -> Option<UrlCursor> {
        let (name, rest) = split(text)?;
        if name == b"ended" {
            let digits = std::str::from_utf8(rest).ok()?;
            return u64::from_str_radix(digits, 16).ok().map(UrlCursor::Ended);
        }
        let (slot, rest) = split(rest)?;
        let (leased, queued) = split(rest)?;
        let place = Place {
            slot: parse_unsigned(slot)?.try_into().ok()?,
            leased: parse_unsigned(leased)? as usize,
            queued: Position::parse(queued)?,
        };
        (name == b"queued").then_some(UrlCursor::Queued(place))
    }

    /// Returns the cursor in the form that clients get.
    fn to_text(self) -> Vec<u8> {
        match self {
            UrlCursor::Queued(place) => {
                let begin = format!("queued:{}:{}:", place.slot, place.leased);
                [begin.as_bytes(), &place.queued.to_text()].concat()
            }
            UrlCursor::Ended(position) => format!("ended:{position:x}").into_bytes(),
        }
    }
}

/// Returns a listed URL as a reply.
fn url_reply(listed: Listed) -> Reply {
    let optional = |n: Option<u64>| n.map_or(Reply::Int(-1), Reply::count);
    let Ended { chg, key, uri } = listed.url;
    let known = listed.known;
    Reply::Array(vec![
        Reply::Bulk(chg),
        Reply::Bulk(uri),
        key.map_or(Reply::Nil, Reply::Bulk),
        optional(listed.place.map(|(depth, _)| depth.into())),
        Reply::bulk(listed.state.name()),
        optional(listed.place.map(|(_, due)| due)),
        optional(known.and_then(|known| known.status).map(u64::from)),
        Reply::count(listed.attempts.into()),
        optional(known.map(|known| known.changed_ms())),
    ])
}

/// Returns a page as a reply, with the cursor of the next page.
fn page(next: Option<Vec<u8>>, entries: Vec<Reply>) -> Reply {
    let next = next.unwrap_or_else(|| b"0".to_vec());
    Reply::Array(vec![Reply::bulk(next), Reply::Array(entries)])
}

impl<K: Store> Frontier<K> {
    /// Returns up to `count` groups after a cursor, from one queue or from all queues except
    /// `chg_later`: `[cursor, [[chg, state, due, c] ...]]`.
    ///
    /// # Errors
    /// Fails if a queue has another type.
    pub fn list(
        &mut self,
        ks: &mut K,
        only: Option<Queue>,
        cursor: Option<&Cursor>,
        count: u64,
    ) -> Result<Reply> {
        let first = cursor.map(Cursor::queue).or(only);
        let queues = Queue::ALL.into_iter();
        let queues = queues.skip_while(|&queue| first.is_some_and(|first| queue != first));
        let mut listed = Vec::new();
        let is_wanted = |queue| only.map_or(queue != Queue::Freed, |only| queue == only);
        for queue in queues.filter(|&queue| is_wanted(queue)) {
            let cursor = cursor.filter(|cursor| cursor.queue() == queue);
            let left = count - listed.len() as u64;
            let next = list_some(
                (&self.keys, &self.groups),
                ks,
                queue,
                cursor,
                left,
                &mut listed,
            )?;
            if listed.len() as u64 == count {
                return Ok(page(Some(next.to_text()), listed));
            }
        }
        Ok(page(None, listed))
    }

    /// Returns up to `count` queued URIs of a group, after a position: `[cursor, [[execution, depth, due, attempts,
    /// uri] ...]]`, followed by the key if the URI has one.
    ///
    /// # Errors
    /// `NOCHG` if the group is unknown.
    pub fn list_uris(
        &mut self,
        ks: &mut K,
        id: &[u8],
        from: Position,
        count: usize,
        now: Millis,
    ) -> Result<Reply> {
        let mut loaded = self.groups.known(ks, id)?;
        self.groups.show_as_deleted(ks, &mut loaded, now)?;
        if !loaded.group.known {
            return Err(Error::NoChg(id.to_vec()));
        }
        let key = self.keys.uris_key(ks, id);
        let some = ks.uris(&key, |uris| uris.page(from, count))?;
        let (queued, next) = some.unwrap_or_default();
        let entries = queued.into_iter().map(|queued| {
            let url = url_of(ks, id, (&queued.execution, &queued.uri))?;
            let mut entry = vec![
                Reply::Bulk(queued.execution),
                Reply::count(queued.depth.into()),
                Reply::count(queued.due),
                Reply::count(queued.attempts.into()),
            ];
            entry.extend(url.map(Reply::Bulk));
            entry.push(Reply::Bulk(queued.uri));
            Ok(Reply::Array(entry))
        });
        let entries = entries.collect::<Result<_>>()?;
        Ok(page(next.map(|next| next.to_text()), entries))
    }
}

/// Returns up to `count` URLs of an execution after a cursor, either the URLs in `state` or all queued and
/// leased URLs: `[cursor, [[chg, uri, key, depth, state, due, status, attempts, changed] ...]]`.
///
/// # Errors
/// `PLAIN` if the frontier is not packed; `KNOWN` if the frontier does not keep the texts of URLs that are done.
pub fn list_urls<K: Store>(
    ks: &mut K,
    execution: &[u8],
    state: Option<State>,
    from: Option<UrlCursor>,
    count: usize,
) -> Result<Reply> {
    let listed = with_packed(ks, |packed| match state {
        Some(state) if !state.has_text() => {
            let at = match from {
                Some(UrlCursor::Ended(at)) => at,
                _ => 0,
            };
            let (urls, next) = packed.list_ended(execution, state, at, count)?;
            Some((urls, next.map(UrlCursor::Ended)))
        }
        _ => {
            let place = match from {
                Some(UrlCursor::Queued(place)) => place,
                _ => Place::default(),
            };
            let (urls, next) = packed.list_queued(execution, state, place, count);
            Some((urls, next.map(UrlCursor::Queued)))
        }
    })?;
    let (urls, next) = listed.ok_or_else(|| {
        Error::Known(format!(
            "execution '{}' has no space with TEXT yes, so the texts of its URLs are forgotten when they are done or given up",
            Shown(execution)
        ))
    })?;
    let urls = urls.into_iter().map(url_reply);
    Ok(page(next.map(UrlCursor::to_text), urls.collect()))
}

/// Lists up to `count` groups of one queue. Returns the position after the last one.
fn list_some<K: Store>(
    (keys, groups): (&Keys<K>, &Groups<K>),
    ks: &mut K,
    queue: Queue,
    cursor: Option<&Cursor>,
    count: u64,
    listed: &mut Vec<Reply>,
) -> Result<Cursor> {
    let mut batch = Batch::default();
    let key = match queue {
        Queue::Waiting => keys.once.wait.clone(),
        Queue::Busy => keys.once.busy.clone(),
        Queue::Freed if ks.packed(|packed| packed.has_later())? == Some(true) => {
            keys.once.later.clone()
        }
        Queue::Freed => return Ok(Cursor::Behind(queue, f64::INFINITY, Vec::new())),
        Queue::Ready => {
            let mut end = ks.list_len(&keys.once.ready)?;
            if let Some(Cursor::Before(at)) = cursor {
                end = end.min(*at);
            }
            let begin = end.saturating_sub(count);
            ks.list_range(&keys.once.ready, begin, end - begin, &mut batch)?;
            for i in (0..batch.len()).rev() {
                listed.push(entry(groups, ks, batch.get(i).0, queue, None)?);
            }
            return Ok(Cursor::Before(begin));
        }
    };
    let rank = match cursor {
        Some(Cursor::Behind(_, score, chg)) => rank_behind(ks, &key, *score, chg)?,
        _ => 0,
    };
    ks.zset_range(&key, rank, count, &mut batch)?;
    let mut end = Cursor::Behind(queue, f64::NEG_INFINITY, Vec::new());
    for (member, _) in batch.iter() {
        let score = ks.zset_score(&key, member)?.unwrap_or(0.0);
        let chg = match queue {
            Queue::Freed => parts(member).unwrap_or_default().1,
            _ => member,
        };
        listed.push(entry(groups, ks, chg, queue, Some(of_score(score)))?);
        end = Cursor::Behind(queue, score, member.to_vec());
    }
    Ok(end)
}

/// Returns the entry of a group. If the member of the queue is not a group, the count is 0.
fn entry<K: Store>(
    groups: &Groups<K>,
    ks: &mut K,
    id: &[u8],
    queue: Queue,
    until: Option<Millis>,
) -> Result<Reply> {
    let loaded = groups.load_sound(ks, id)?;
    let (due, uris) = loaded.map_or((0, 0), |loaded| (loaded.group.due, loaded.group.uris));
    Ok(Reply::Array(vec![
        Reply::bulk(id),
        Reply::bulk(queue.name()),
        Reply::count(until.unwrap_or(due)),
        Reply::count(uris),
    ]))
}

/// Returns the number of members of a sorted set up to a position. The member in the position may
/// have been removed.
fn rank_behind<K: Store>(ks: &mut K, key: &K::Name, score: f64, member: &[u8]) -> Result<u64> {
    let (mut least, mut most) = (0, ks.zset_count(key, score)?);
    while least < most {
        let middle = least + (most - least) / 2;
        let behind = match ks.zset_at(key, middle)? {
            Some((other, at)) => at > score || (at == score && other.as_ref() > member),
            None => true,
        };
        if behind {
            most = middle
        } else {
            least = middle + 1
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::super::add::Queued;
    use super::super::next::Ask;
    use super::*;
    use crate::chg::store::MemoryKeyspace;
    use crawlspace_host::keyspace::Keyspace;

    /// State and id.
    type Seen = (Vec<u8>, Vec<u8>);

    fn parts(page: Reply) -> (Vec<u8>, Vec<Seen>) {
        let Reply::Array(parts) = page else { panic!() };
        let [Reply::Bulk(next), Reply::Array(listed)] = &parts[..] else {
            panic!("{parts:?}")
        };
        let names = listed.iter().map(|listed| match listed {
            Reply::Array(parts) => match &parts[..] {
                [
                    Reply::Bulk(chg),
                    Reply::Bulk(state),
                    Reply::Int(_),
                    Reply::Int(_),
                ] => (state.clone(), chg.clone()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        (next.clone(), names.collect())
    }

    fn chg(i: u32) -> Vec<u8> {
        format!("a:{i:03}").into_bytes()
    }

    /// Creates groups 0 to 19 with the same due time, and groups 20 to 39 with different due times,
    /// some of them ready and some busy.
    fn stage() -> (MemoryKeyspace, Frontier<MemoryKeyspace>) {
        let mut ks = MemoryKeyspace::default();
        let mut frontier = Frontier::open(&mut ks, b"{f}:");
        let add = |frontier: &mut Frontier<_>, ks: &mut _, i: u32, at| {
            let chg = chg(i);
            let queued = Queued { chg: &chg, at };
            frontier.add(ks, b"x", None, &[queued], 1).unwrap();
        };
        for i in 50..60 {
            add(&mut frontier, &mut ks, i, 0);
        }
        let ask = Ask {
            lease: 1000,
            uris: 1,
            gate: None,
            count: 10,
            execution: None,
            after: None,
        };
        let mut leases = Vec::new();
        frontier
            .next(&mut ks, &ask, 1, &mut || true, &mut leases)
            .unwrap();
        assert_eq!(leases.len(), 10);
        for i in 0..40 {
            add(&mut frontier, &mut ks, i, 5000 + 7 * u64::from(i / 20 * i));
        }
        let ready = ks.name(&[b"{f}:chg_ready"]);
        for i in 70..90 {
            ks.list_push(&ready, &chg(i)).unwrap();
        }
        (ks, frontier)
    }

    fn all(
        only: Option<Queue>,
        count: u64,
        mut between: impl FnMut(&mut MemoryKeyspace, &mut Frontier<MemoryKeyspace>),
    ) -> Vec<Seen> {
        let (mut ks, mut frontier) = stage();
        let (mut seen, mut cursor) = (Vec::new(), None);
        for _ in 0..1000 {
            let reply = frontier
                .list(&mut ks, only, cursor.as_ref(), count)
                .unwrap();
            let (next, listed) = parts(reply);
            assert!(listed.len() as u64 <= count);
            seen.extend(listed);
            if next == b"0" {
                return seen;
            }
            cursor = Some(Cursor::parse(&next).expect("as given"));
            between(&mut ks, &mut frontier);
        }
        panic!("no end");
    }

    #[test]
    fn pages_of_any_size_list_every_group_once() {
        let whole = all(None, 1000, |_, _| {});
        assert_eq!(whole.len(), 70);
        for count in [1, 2, 7, 10, 20, 39, 40, 41, 69, 70] {
            assert_eq!(all(None, count, |_, _| {}), whole, "{count}");
            for queue in Queue::ALL {
                let name = queue.name().as_bytes();
                let own: Vec<_> = whole.iter().filter(|(q, _)| q == name).cloned().collect();
                assert_eq!(all(Some(queue), count, |_, _| {}), own, "{count}");
            }
        }
    }

    #[test]
    fn group_that_stays_in_its_place_is_listed_while_others_come_and_go() {
        let mut n = 0;
        let listed = all(None, 3, |ks, _| {
            let wait = ks.name(&[b"{f}:chg_wait"]);
            let ready = ks.name(&[b"{f}:chg_ready"]);
            // Every third waiting group leaves, starting with the first group, and new groups are
            // added at the front. The first ready groups leave, and new groups are added at the
            // end.
            ks.zset_del(&wait, &chg(3 * n)).unwrap();
            ks.zset_add(&wait, &chg(900 - n), f64::from(n)).unwrap();
            if n % 2 == 0 && n < 24 {
                ks.list_take(&ready, 0).unwrap();
                ks.list_push(&ready, &chg(300 + n)).unwrap();
            }
            n += 1;
        });
        let has = |state: &str, i: u32| {
            let of = |(s, c): &&Seen| s == state.as_bytes() && *c == chg(i);
            listed.iter().filter(of).count()
        };
        for i in (0..40).filter(|i| i % 3 != 0) {
            assert_eq!(has("waiting", i), 1, "{i}");
        }
        for i in 82..90 {
            assert!(has("ready", i) >= 1, "{i}");
        }
        for i in 50..60 {
            assert_eq!(has("busy", i), 1, "{i}");
        }
    }

    #[test]
    fn cursors_are_read_as_they_were_written() {
        for cursor in [
            Cursor::Before(0),
            Cursor::Before(7),
            Cursor::Behind(Queue::Waiting, 1.5e12 + 1.0 / 2048.0, b"a:b\xff\0".to_vec()),
            Cursor::Behind(Queue::Busy, f64::NEG_INFINITY, Vec::new()),
            Cursor::Behind(Queue::Freed, 1.5e12, member(7, b"a:\xff").to_vec()),
        ] {
            assert_eq!(Cursor::parse(&cursor.to_text()), Some(cursor));
        }
        for text in [
            "",
            "1",
            "ready",
            "ready:",
            "ready:-1",
            "waiting:nan:a",
            "waiting:1",
            "idle:1:a",
        ] {
            assert_eq!(Cursor::parse(text.as_bytes()), None, "{text}");
        }
    }
}
