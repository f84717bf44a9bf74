//! Applies logs on replicas, and stores a packed frontier in files as a sequence of logs.
//!
//! A file begins with the symbol tables and the executions. The groups and URIs that refer to them follow,
//! in the same form as in memory. Loading checks everything, but does not expand compressed URIs.
//! Therefore, a hostile file can contain any URIs.

use smallvec::SmallVec;

use crawlspace_compact::envelope::Envelope;
use crawlspace_compact::number::{Malformed, Reader};

use super::super::uris::{CHUNK_BYTES, Op, Uris};
use super::Moving;
use super::element::{Carrier, Element};
use super::executions::Executions;
use super::groups::Stock;
use super::keys::{Packed, log_group};
use super::log::{Entries, Kind, Log};
use super::record::{Record, SETS};
use super::spelling::Spelling;
use super::uris::{Numbers, hold_added, numbers, stored_number};

/// Envelope of each chunk.
pub const ENVELOPE: Envelope = Envelope {
    what: "a packed frontier",
    version: 2,
};

/// Size at which a chunk ends, in bytes. Large queues are written in parts of half this size, so that a chunk
/// stays below [`CHUNK_BYTES`] even with its last entry.
const ENOUGH: usize = CHUNK_BYTES / 2;

/// Flags of the URIs of a group: executions are stored by name (`CROWD`), and URIs are in two encodings (`MIXED`).
const CROWD: u64 = 1;
const MIXED: u64 = 2;

fn is_member(score: f64) -> bool {
    score.is_finite() && score >= 0.0
}

fn has_members(record: &Record) -> bool {
    record.scores.into_iter().flatten().all(is_member)
}

/// Returns true if bytes are the stored form of an execution.
fn is_stored(executions: &Executions, bytes: &[u8]) -> bool {
    let mut from = Reader::new(bytes);
    let number = from.number_to(u32::MAX.into());
    from.is_empty() && number.is_ok_and(|number| executions.knows(number as u32))
}

/// Writes the URIs of a group that are not in its block, in parts of about `most` bytes.
fn save_apart(
    id: &[u8],
    stock: &Stock,
    most: usize,
    log: &mut Log,
    each: &mut dyn FnMut(&mut Log),
) {
    let mut spelling = Vec::new();
    stock.spelling.write(&mut spelling);
    let mut flags = if stock.is_crowd { CROWD } else { 0 };
    flags |= if stock.uris.is_mixed() { MIXED } else { 0 };
    stock.uris.encode(most, &mut |part| {
        log.begin(Kind::Stock).name(id).bytes(&spelling);
        log.number(flags).bytes(part);
        each(log);
    });
}

/// Progress of reading a file into a frontier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Loading {
    /// No chunk was read, because the frontier is new.
    #[default]
    None,
    /// Checksum of the chunk that was read last. More chunks follow.
    After(u64),
    /// All chunks were read, or the frontier was changed after loading.
    Ended,
}

/// Groups from a file that are not in their ordered sets yet: scores and slots.
type Unplaced = [Vec<(f64, u32)>; SETS];

impl Packed {
    /// Applies a log of changes. `carrier` moves elements to and from plain keys.
    ///
    /// # Errors
    /// Returns a description of the error in the log. The entries before the error remain applied.
    pub fn apply(&mut self, log: &[u8], carrier: Option<&mut dyn Carrier>) -> Result<(), String> {
        self.loading = Loading::Ended;
        self.forget_agendas();
        self.apply_log(log, carrier)
    }

    fn apply_log(&mut self, log: &[u8], carrier: Option<&mut dyn Carrier>) -> Result<(), String> {
        let mut entries = Entries::new(log);
        let applied = self.apply_entries(&mut entries, carrier);
        self.groups.take_unlogged(|_| {});
        self.groups.close_all();
        self.log.take();
        self.retire_texts();
        applied.map_err(|Malformed(what)| format!("a log of changes of a packed frontier {what}"))
    }

    fn apply_entries(
        &mut self,
        entries: &mut Entries<'_>,
        carrier: Option<&mut dyn Carrier>,
    ) -> Result<(), Malformed> {
        let mut unplaced = Unplaced::default();
        let applied = self.apply_all(entries, carrier, &mut unplaced);
        self.place_all(&mut unplaced);
        applied
    }

    fn apply_all(
        &mut self,
        entries: &mut Entries<'_>,
        mut carrier: Option<&mut dyn Carrier>,
        unplaced: &mut Unplaced,
    ) -> Result<(), Malformed> {
        while let Some(kind) = entries.kind()? {
            match kind {
                Kind::Block => self.apply_block(entries, unplaced)?,
                Kind::Stock => self.apply_stock(entries)?,
                _ => {
                    self.place_all(unplaced);
                    self.apply_entry(kind, entries, &mut carrier)?;
                    self.groups.end_entry();
                }
            }
        }
        Ok(())
    }

    /// Adds groups to their ordered sets in sorted order, which is faster than adding them in any
    /// order.
    fn place_all(&mut self, unplaced: &mut Unplaced) {
        for (set, unplaced) in unplaced.iter_mut().enumerate() {
            let groups = &self.groups;
            unplaced.sort_unstable_by(|(one, slot), (other, behind)| {
                let scores = one.total_cmp(other);
                scores.then_with(|| groups.id(*slot).cmp(groups.id(*behind)))
            });
            for (score, slot) in unplaced.drain(..) {
                self.place(set, slot, None, Some(score));
            }
        }
    }

    fn apply_block(
        &mut self,
        entries: &mut Entries<'_>,
        unplaced: &mut Unplaced,
    ) -> Result<(), Malformed> {
        let block = entries.from.bytes()?;
        let (executions, texts) = (&self.executions, self.texts.get_mut());
        let mut held = Numbers::new();
        let accept = |record: &Record, stock: Option<&Stock>| {
            let of_stock = stock.map(numbers);
            held.extend(record.counts.iter().map(|(number, _)| *number));
            held.extend(of_stock.into_iter().flatten());
            has_members(record)
                && held.iter().all(|&number| executions.knows(number))
                && stock.is_none_or(|stock| texts.adopt(stock.spelling.table()))
        };
        let knows = |stored: &[u8]| is_stored(executions, stored);
        let (slot, record) = self.groups.restore(block, &knows, accept)?;
        for number in held {
            self.executions.hold_number(number);
        }
        for (unplaced, score) in unplaced.iter_mut().zip(record.scores) {
            unplaced.extend(score.map(|score| (score, slot)));
        }
        Ok(())
    }

    /// Adds a part of the URIs of a group that are not in its block.
    fn apply_stock(&mut self, entries: &mut Entries<'_>) -> Result<(), Malformed> {
        let id = entries.name()?;
        let spelled = entries.from.bytes()?;
        let flags = entries.from.number_to(CROWD | MIXED)?;
        let chunk = entries.from.bytes()?;
        let (spelling, len) = Spelling::read(spelled)?;
        let (are_named, is_mixed) = (flags & CROWD != 0, flags & MIXED != 0);
        let slot = self.groups.enter(id);
        let fits = match self.groups.stock(slot) {
            _ if len < spelled.len() => false,
            _ if is_mixed && self.moving == Moving::No => false,
            Some(stock) => stock.spelling == spelling && stock.uris.is_mixed() == is_mixed,
            None => self.texts.get_mut().adopt(spelling.table()),
        };
        if !fits {
            return Err(Malformed("has URIs of another group"));
        }
        if self.groups.stock(slot).is_none() {
            let mut uris = Uris::default();
            if is_mixed {
                uris.mix(true);
                self.groups.mixed.insert(slot);
            }
            let stock = Stock {
                spelling,
                uris,
                is_crowd: false,
            };
            self.groups.add_stock(slot, stock);
        }
        let stock = self.groups.stock(slot).expect("added above");
        let mut held = numbers(stock);
        held.sort_unstable();
        let (executions, is_crowd) = (&mut self.executions, stock.is_crowd);
        let mut entered = Numbers::new();
        let loaded = stock.uris.load_stored(
            &mut |stored| match (are_named, is_crowd) {
                (true, true) => Some(stored.into()),
                // The group has only a few executions so far.
                (true, false) => {
                    let number = executions.hold(stored);
                    entered.push(number);
                    Some(stored_number(number)[..].into())
                }
                (false, false) if is_stored(executions, stored) => Some(stored.into()),
                (false, _) => None,
            },
            chunk,
        );
        hold_added(&mut self.executions, stock, &held);
        for number in entered {
            self.executions.release(number);
        }
        self.name_executions(slot);
        self.tidy_stock(slot);
        loaded.map_err(|_| Malformed("has malformed URIs"))
    }

    fn apply_entry(
        &mut self,
        kind: Kind,
        entries: &mut Entries<'_>,
        carrier: &mut Option<&mut dyn Carrier>,
    ) -> Result<(), Malformed> {
        match kind {
            Kind::Group => self.apply_group(entries)?,
            Kind::Uris => {
                let id = entries.name()?;
                let leased = entries.leased.clone();
                let op = entries.change(&leased)?;
                if let Op::Take { .. } | Op::Done { .. } | Op::Return { .. } = op {
                    entries.leased = self.lease_of(id, &op);
                }
                self.apply_to_uris(id, &op, |_| ());
            }
            Kind::Load => {
                let id = entries.name()?;
                let chunk = entries.from.bytes()?;
                let loaded = self.load_uris(id, chunk);
                loaded.map_err(|_| Malformed("has malformed URIs"))?;
            }
            Kind::Queued => {
                let leased = entries.leased.clone();
                let name = entries.execution(&leased)?;
                let queued = entries.from.number()?;
                let before = self.executions.queued(name).unwrap_or(0);
                let others = self.executions.total() - before;
                if queued > i64::MAX as u64 - others {
                    return Err(Malformed::NUMBER);
                }
                self.executions.set_queued(name, queued);
            }
            Kind::Push => {
                let id = entries.name()?;
                self.push_ready(id);
            }
            Kind::Take => {
                let at = entries.from.number()?;
                self.take_ready(at);
            }
            Kind::Set => {
                let (key, field) = (entries.from.bytes()?, entries.from.bytes()?);
                self.small.set(key, field, entries.from.bytes()?);
            }
            Kind::Unset => {
                let (key, field) = (entries.from.bytes()?, entries.from.bytes()?);
                self.small.unset(key, field);
            }
            Kind::Score => {
                let (key, member) = (entries.from.bytes()?, entries.from.bytes()?);
                let score = f64::from_bits(entries.from.number()?);
                if !is_member(score) {
                    return Err(Malformed::NUMBER);
                }
                self.small.score(key, member, score);
            }
            Kind::Unscore => {
                let (key, member) = (entries.from.bytes()?, entries.from.bytes()?);
                self.small.unscore(key, member);
            }
            Kind::Append => {
                let (key, element) = (entries.from.bytes()?, entries.from.bytes()?);
                self.small.append(key, element);
            }
            Kind::Remove => {
                let (key, at) = (entries.from.bytes()?, entries.from.number()?);
                self.small.remove(key, at);
            }
            Kind::Number => {
                let (key, n) = (entries.from.bytes()?, entries.from.number()? as i64);
                self.small.numbers.insert(key.into(), n);
            }
            Kind::Delete => {
                let key = entries.from.bytes()?;
                self.small.delete(key);
            }
            Kind::Move => {
                let element = Element::read(entries)?;
                let carrier = carrier.as_mut();
                carrier
                    .ok_or(Malformed("moves an element of another frontier"))?
                    .bring(self, &element);
            }
            Kind::Moving => {
                let number = entries.from.number_to(7)?;
                self.apply_moving(number);
            }
            Kind::Table => {
                let number = entries.from.number_to(u16::MAX.into())? as u16;
                let table = entries.from.bytes()?;
                let restored = self.texts.get_mut().restore(number, table);
                restored.map_err(|_| Malformed("has a malformed symbol table"))?;
            }
            Kind::Execution => {
                let number = entries.from.number_to(u32::MAX.into())? as u32;
                let name = entries.from.bytes()?;
                let queued = entries.from.number()?;
                let fits = name.is_empty() && queued == 0 || Log::is_name(name);
                if !fits || !self.executions.restore(number, name, queued) {
                    return Err(Malformed(
                        "has an execution that is invalid or occurs twice",
                    ));
                }
            }
            Kind::Named => self.executions.restored(),
            Kind::End if entries.from.is_empty() => self.loading = Loading::Ended,
            Kind::End => return Err(Malformed("has entries after its end")),
            Kind::Block | Kind::Stock => unreachable!("applied before"),
            Kind::Seed
            | Kind::Join
            | Kind::Leave
            | Kind::Clock
            | Kind::Known
            | Kind::Unknown
            | Kind::Extra
            | Kind::Limit
            | Kind::Tally
            | Kind::Text
            | Kind::Ended => {
                self.apply_known(kind, entries)?;
            }
        }
        Ok(())
    }

    fn apply_group(&mut self, entries: &mut Entries<'_>) -> Result<(), Malformed> {
        let id = entries.name()?;
        let clock = entries.clock();
        let mut record = Record::default();
        record.replace(clock, &mut entries.from)?;
        if !has_members(&record) {
            return Err(Malformed::NUMBER);
        }
        let more = entries.from.number()?;
        record.next = match more & 3 {
            0 => None,
            1 => Some(entries.name()?.into()),
            2 => Some(entries.from.bytes()?.into()),
            _ => return Err(Malformed::NUMBER),
        };
        let leased = entries.leased.clone();
        let mut counts: SmallVec<[(&[u8], u64); 1]> = SmallVec::new();
        for _ in 0..more >> 2 {
            counts.push((entries.execution(&leased)?, entries.from.number()?));
        }
        let counts = counts.into_iter();
        record.counts = counts
            .map(|(execution, n)| (self.executions.hold(execution), n))
            .collect();
        let slot = self.groups.enter(id);
        let now = self.groups.change(slot);
        (record.listed, record.entry) = (now.record.listed, now.record.entry);
        let before = std::mem::replace(&mut now.record, record);
        let scores = self.groups.get(slot).record.scores;
        for (number, _) in before.counts {
            self.executions.release(number);
        }
        for (set, (before, after)) in before.scores.into_iter().zip(scores).enumerate() {
            if before != after {
                self.place(set, slot, before, after);
            }
        }
        Ok(())
    }

    /// Writes the frontier as logs that do not depend on the layout in memory, and passes each log to
    /// `each`.
    fn entries(&self, log: &mut Log, each: &mut dyn FnMut(&mut Log)) {
        if self.moving_number() != 0 {
            log.begin(Kind::Moving).number(self.moving_number());
            each(log);
        }
        self.executions.each(|_, name, queued| {
            if queued > 0 {
                log.begin(Kind::Queued).name(name).number(queued);
                each(log);
            }
        });
        for slot in 0..self.groups.end() {
            let id = self.groups.id(slot);
            if id.is_empty() {
                continue;
            }
            self.groups.look(slot, |open| {
                log_group(log, id, &open.record, &self.executions);
            });
            self.look_at_kept(slot, |kept| {
                kept.encode(ENOUGH, &mut |chunk| {
                    log.begin(Kind::Load).name(id).bytes(chunk);
                    each(log);
                });
            });
            each(log);
        }
        self.rest(log, true, each);
    }

    /// Writes the order of the ready groups, the small parts, and the records of known URLs. With `singly`,
    /// writes one entry for each URL.
    fn rest(&self, log: &mut Log, singly: bool, each: &mut dyn FnMut(&mut Log)) {
        self.ready
            .range(0, self.ready.len() as usize, &mut |_, slot| {
                log.begin(Kind::Push).name(self.groups.id(slot));
                each(log);
            });
        let small = &self.small;
        for (key, hash) in &small.hashes {
            for (field, value) in hash {
                log.begin(Kind::Set).bytes(key).bytes(field).bytes(value);
                each(log);
            }
        }
        for (key, sorted) in &small.sorted {
            for (member, score) in sorted.iter() {
                log.begin(Kind::Score)
                    .bytes(key)
                    .bytes(member)
                    .number(score.to_bits());
                each(log);
            }
        }
        for (key, list) in &small.lists {
            for element in list.iter() {
                log.begin(Kind::Append).bytes(key).bytes(element);
                each(log);
            }
        }
        for (key, n) in &small.numbers {
            log.begin(Kind::Number).bytes(key).number(*n as u64);
            each(log);
        }
        self.known_entries(log, singly, each);
    }

    /// Writes the value in one or more chunks. The checksum of each chunk includes the checksum of the
    /// previous chunk.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        self.save_in(ENOUGH, chunk);
    }

    /// Writes the value in chunks of about `enough` bytes.
    fn save_in(&self, enough: usize, chunk: &mut dyn FnMut(&[u8])) {
        let part = enough / 2;
        let mut log = Log::default();
        let (mut bytes, mut sum) = (Vec::new(), 0);
        let mut end = |log: &mut Log| {
            ENVELOPE.begin(&mut bytes);
            bytes.extend_from_slice(&log.take());
            sum = ENVELOPE.seal(&mut bytes, sum);
            chunk(&bytes);
        };
        let mut each = |log: &mut Log| {
            if log.bytes.len() >= enough {
                end(log);
            }
        };
        log.begin(Kind::Seed).number(self.groups.seed());
        log.begin(Kind::Moving).number(self.moving_number());
        self.texts.borrow().save(|number, table| {
            log.begin(Kind::Table).number(number.into()).bytes(table);
            each(&mut log);
        });
        self.executions.each(|number, name, queued| {
            log.begin(Kind::Execution)
                .number(number.into())
                .bytes(name)
                .number(queued);
            each(&mut log);
        });
        log.begin(Kind::Named);
        let (mut block, mut crowds) = (Vec::new(), Vec::new());
        for slot in 0..self.groups.end() {
            let id = self.groups.id(slot);
            if id.is_empty() {
                continue;
            }
            block.clear();
            if self.groups.save(slot, &mut block) {
                log.begin(Kind::Block).bytes(&block);
                each(&mut log);
            }
            match self.groups.saved_apart(slot) {
                Some(stock) if stock.is_crowd => crowds.push(slot),
                Some(stock) => save_apart(id, stock, part, &mut log, &mut each),
                None => {}
            }
        }
        // Write these groups after all groups that refer to executions by number, because loading them
        // may add and remove references to the numbers of their executions.
        for slot in crowds {
            if let Some(stock) = self.groups.saved_apart(slot) {
                save_apart(self.groups.id(slot), stock, part, &mut log, &mut each);
            }
        }
        self.rest(&mut log, false, &mut each);
        log.begin(Kind::End);
        end(&mut log);
    }

    /// Adds the contents of the next chunk. The first chunk must be loaded into a new frontier.
    ///
    /// # Errors
    /// Returns a description of the error in the chunk. If the chunk does not follow the previous chunk,
    /// nothing changes; any other error empties the frontier.
    pub fn load(&mut self, chunk: &[u8]) -> Result<(), String> {
        let opened = ENVELOPE.open(chunk)?;
        let before = match self.loading {
            Loading::None => 0,
            Loading::After(sum) => sum,
            Loading::Ended => {
                return Err(
                    "a chunk of a packed frontier cannot be loaded into an existing frontier"
                        .into(),
                );
            }
        };
        if !opened.is_whole(before) {
            let text =
                "a chunk of a packed frontier is damaged, or does not follow the previous chunk";
            return Err(text.into());
        }
        let loaded = self.apply_log(opened.body, None);
        match loaded {
            Err(_) => *self = Packed::default(),
            Ok(()) if self.loading == Loading::Ended => {}
            Ok(()) => self.loading = Loading::After(opened.sum),
        }
        loaded
    }

    /// Checks that all chunks have been read.
    ///
    /// # Errors
    /// Fails if chunks are missing.
    pub fn loaded(&self) -> Result<(), String> {
        match self.loading {
            Loading::After(_) => Err("the last chunks of a packed frontier are missing".into()),
            Loading::None | Loading::Ended => Ok(()),
        }
    }

    /// Passes each element of the value to `each`, for digests.
    pub fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        let mut log = Log::default();
        let mut position = 0_u64;
        self.entries(&mut log, &mut |log| {
            let bytes = log.take();
            if bytes.is_empty() {
                return;
            }
            // The digest depends on the order of the ready groups, but not on the order of other
            // elements.
            if bytes.first() == Some(&(Kind::Push as u8)) {
                position += 1;
            }
            element(&[&bytes, &position.to_le_bytes()]);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::uris::Changed;
    use super::*;

    fn elements(packed: &Packed) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        packed.elements(&mut |parts| all.push(parts.concat()));
        all.sort();
        all
    }

    fn change(packed: &mut Packed, id: &[u8], op: &Op<'_>) -> (Changed, Option<Vec<u8>>) {
        let (changed, taken) = packed.apply_to_uris(id, op, |kept| {
            let leased = kept.leases().last()?;
            Some(kept.uri_of(&leased))
        });
        (changed, taken.flatten())
    }

    fn chunks(packed: &Packed) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        packed.save(&mut |chunk| chunks.push(chunk.to_vec()));
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
        chunks
    }

    /// Creates groups with one URI, a few URIs and a large number of URIs of several executions,
    /// and with leases.
    fn filled() -> Packed {
        let mut packed = Packed::default();
        for (group, uris) in [("one", 1), ("few", 9_usize), ("many", 6_000)] {
            for n in 0..uris {
                // Make the URIs long enough for several chunks.
                let hash = xxhash_rust::xxh3::xxh3_128(&n.to_le_bytes());
                let more = format!("{hash:x}").repeat(8 * usize::from(uris > 9));
                let uri = format!("https://{group}.example/page-{n:x}/{more}");
                let add = Op::Add {
                    execution: [b"one", b"two"][n % 2],
                    weight: None,
                    due: 1000 + n as u64,
                    depth: n as u32 % 3,
                    attempts: 0,
                    uri: uri.as_bytes(),
                };
                let (changed, _) = change(&mut packed, group.as_bytes(), &add);
                assert_eq!(changed, Changed::Added);
            }
            if uris > 1 {
                take(&mut packed, group.as_bytes(), 7);
            }
        }
        packed.flush();
        packed
    }

    fn take(packed: &mut Packed, id: &[u8], token: u64) -> Vec<u8> {
        let take = Op::Take {
            token,
            execution: b"one",
            now: 1 << 40,
        };
        let (changed, taken) = change(packed, id, &take);
        assert_eq!(changed, Changed::Taken);
        taken.unwrap()
    }

    #[test]
    fn large_queue_is_loaded_as_it_was() {
        let mut packed = filled();
        let chunks = chunks(&packed);
        assert!(chunks.len() > 1);
        let mut loaded = Packed::default();
        for chunk in &chunks {
            loaded.load(chunk).unwrap();
            loaded.verify();
        }
        assert!(elements(&packed) == elements(&loaded));
        for token in 100..400 {
            let [one, other] =
                [&mut packed, &mut loaded].map(|packed| take(packed, b"many", token));
            assert_eq!(one, other);
        }
        let again = chunks.last().unwrap();
        assert!(loaded.load(again).is_err(), "a part is there twice");
        loaded.verify();
    }

    /// Creates a group in which all URIs are stored under the names of their executions, and some URIs are
    /// translated.
    fn half_left() -> Packed {
        let mut packed = filled();
        for n in 0..40_u32 {
            let execution = format!("crawl-{}", n % 20);
            let uri = format!("https://many.example/crowd/{n}");
            let add = Op::Add {
                execution: execution.as_bytes(),
                weight: None,
                due: 3000,
                depth: 0,
                attempts: 0,
                uri: uri.as_bytes(),
            };
            let (changed, _) = change(&mut packed, b"many", &add);
            assert_eq!(changed, Changed::Added);
        }
        packed.set_moving(Moving::Out, false);
        for _ in 0..3000 {
            assert!(!packed.translate(b"many"));
        }
        packed.flush();
        packed.verify();
        let slot = packed.groups.find(b"many").unwrap();
        let stock = packed.groups.stock(slot).unwrap();
        assert!(stock.is_crowd && stock.uris.is_mixed());
        packed
    }

    #[test]
    fn mixed_queue_of_many_executions_is_loaded_as_it_was() {
        let mut packed = half_left();
        let mut loaded = Packed::default();
        for chunk in chunks(&packed) {
            loaded.load(&chunk).unwrap();
            loaded.verify();
        }
        assert!(elements(&packed) == elements(&loaded));
        assert_eq!(loaded.mixed_group().as_deref(), Some(&b"many"[..]));
        let slot = loaded.groups.find(b"many").unwrap();
        let stock = loaded.groups.stock(slot).unwrap();
        assert!(stock.is_crowd && stock.uris.is_mixed());
        for token in 100..120 {
            let [one, other] =
                [&mut packed, &mut loaded].map(|packed| take(packed, b"many", token));
            assert_eq!(one, other);
        }
        // The conversion continues, or is reversed.
        let mut turned = loaded.clone();
        turned.set_moving(Moving::In, false);
        for (packed, left) in [(&mut loaded, 3100), (&mut turned, 3100)] {
            let calls = (0..left).position(|_| packed.translate(b"many"));
            assert!(calls.is_some());
            packed.flush();
            packed.verify();
        }
        assert!(turned.mixed_group().is_none());
        packed.set_moving(Moving::In, false);
        assert!(elements(&packed) == elements(&turned));
    }

    #[test]
    fn mixed_queue_of_a_frontier_that_does_not_move_is_refused() {
        let mut packed = half_left();
        packed.set_moving(Moving::No, false);
        let mut loaded = Packed::default();
        let refused = chunks(&packed)
            .iter()
            .any(|chunk| loaded.load(chunk).is_err());
        assert!(refused);
        loaded.verify();
    }

    /// Loads a frontier from these chunks.
    fn load(chunks: &[Vec<u8>]) -> Result<Packed, String> {
        let mut loaded = Packed::default();
        let all = chunks.iter().try_for_each(|chunk| loaded.load(chunk));
        loaded.verify();
        all.and_then(|()| loaded.loaded()).map(|()| loaded)
    }

    #[test]
    fn missing_repeated_swapped_and_foreign_chunks_are_refused() {
        let packed = filled();
        let chunks = |packed: &Packed| {
            let mut chunks = Vec::new();
            packed.save_in(50_000, &mut |chunk| chunks.push(chunk.to_vec()));
            chunks
        };
        let good = chunks(&packed);
        let mut other = packed.clone();
        take(&mut other, b"few", 9);
        other.flush();
        let foreign = chunks(&other);
        assert!(load(&good).is_ok() && load(&foreign).is_ok());
        assert!(good.len() == foreign.len() && (4..40).contains(&good.len()));
        assert!(load(&[good.clone(), good.clone()].concat()).is_err());
        for at in 0..good.len() {
            let bad = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
                let mut bad = good.clone();
                change(&mut bad);
                load(&bad).is_err()
            };
            assert!(bad(&|chunks| drop(chunks.remove(at))), "{at} is missing");
            assert!(at == 0 || bad(&|chunks| chunks.truncate(at)), "cut at {at}");
            assert!(
                bad(&|chunks| chunks.insert(at, good[at].clone())),
                "{at} twice"
            );
            assert!(
                bad(&|chunks| chunks[at] = foreign[at].clone()),
                "{at} is foreign"
            );
            for before in 0..at {
                assert!(bad(&|chunks| chunks.swap(before, at)), "{before}, {at}");
            }
        }
    }

    #[test]
    fn chunk_after_a_change_is_refused_and_changes_nothing() {
        let chunks = chunks(&filled());
        let mut loaded = Packed::default();
        loaded.load(&chunks[0]).unwrap();
        loaded.set_moving(Moving::Out, false);
        loaded.flush();
        let before = elements(&loaded);
        assert!(loaded.load(&chunks[1]).is_err());
        assert!(elements(&loaded) == before);
    }
}
