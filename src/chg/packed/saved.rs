//! Logs as replicas apply them, and a packed frontier as a sequence of logs, in files. `docs/formats/packed-frontier.md`
//! describes both.

use crawlspace_compact::envelope::Envelope;
use crawlspace_compact::number::Malformed;

use super::super::uris::CHUNK_BYTES;
use super::keys::{Packed, log_group};
use super::log::{Entries, Kind, Log};
use super::record::Record;
use crawlspace_compact::number::Reader;

/// Envelope of each chunk.
pub const ENVELOPE: Envelope = Envelope {
    what: "a packed frontier",
    version: 1,
};

fn is_member(score: f64) -> bool {
    score.is_finite() && score >= 0.0
}

impl Packed {
    /// Applies a log of changes.
    ///
    /// # Errors
    /// Says what is wrong with the log; the entries before are applied.
    pub fn apply(&mut self, log: &[u8]) -> Result<(), String> {
        let mut entries = Entries::new(log);
        let applied = self.apply_entries(&mut entries);
        self.groups.take_unlogged(|_| {});
        self.groups.close_all();
        self.log.take();
        applied.map_err(|Malformed(what)| format!("a log of changes of a packed frontier {what}"))
    }

    fn apply_entries(&mut self, entries: &mut Entries<'_>) -> Result<(), Malformed> {
        while let Some(kind) = entries.kind()? {
            self.apply_entry(kind, entries)?;
            // Nothing is logged here, so no group must stay open for it.
            self.groups.take_unlogged(|_| {});
        }
        Ok(())
    }

    fn apply_entry(&mut self, kind: Kind, entries: &mut Entries<'_>) -> Result<(), Malformed> {
        match kind {
            Kind::Group => self.apply_group(entries)?,
            Kind::Uris => {
                let id = entries.name()?;
                let op = entries.change()?;
                self.apply_to_uris(id, &op, |_| ());
            }
            Kind::Load => {
                let id = entries.name()?;
                let chunk = entries.from.bytes()?;
                let loaded = self.load_uris(id, chunk);
                loaded.map_err(|_| Malformed("has malformed URIs"))?;
            }
            Kind::Queued => {
                let name = entries.name()?;
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
            Kind::Forget => self.forget(entries.name()?),
            Kind::Moving => {
                let number = entries.from.number_to(7)?;
                self.apply_moving(number);
            }
        }
        Ok(())
    }

    fn apply_group(&mut self, entries: &mut Entries<'_>) -> Result<(), Malformed> {
        let id = entries.name()?;
        let mut stored = Reader::new(entries.from.bytes()?);
        let mut record = Record::read(&mut stored)?;
        stored.end()?;
        if !record.scores.into_iter().flatten().all(is_member) {
            return Err(Malformed::NUMBER);
        }
        let mut counts = Vec::new();
        for _ in 0..entries.from.number()? {
            counts.push((entries.name()?, entries.from.number()?));
        }
        let counts = counts.into_iter();
        record.counts = counts
            .map(|(execution, n)| (self.executions.hold(execution), n))
            .collect();
        let slot = self.groups.enter(id);
        let now = self.groups.change(slot);
        record.listed = now.record.listed;
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

    /// Writes everything as logs, each of which is passed on when it is long enough.
    fn entries(&self, log: &mut Log, each: &mut dyn FnMut(&mut Log)) {
        let mut scratch = Vec::new();
        if self.moving_number() != 0 {
            log.begin(Kind::Moving).number(self.moving_number());
            each(log);
        }
        let mut from = Some(0);
        while let Some(number) = from {
            let (page, next) = self.executions.page(number, 1024);
            for (name, queued) in page {
                log.begin(Kind::Queued).name(name).number(queued);
                each(log);
            }
            from = next;
        }
        for slot in 0..self.groups.end() {
            let id = self.groups.id(slot);
            if id.is_empty() {
                continue;
            }
            self.groups.look(slot, |open| {
                log_group(log, id, &open.record, &self.executions, &mut scratch);
            });
            self.look_at_kept(slot, |kept| {
                kept.encode(CHUNK_BYTES / 2, &mut |chunk| {
                    log.begin(Kind::Load).name(id).bytes(chunk);
                    each(log);
                });
            });
            each(log);
        }
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
    }

    /// Writes the value in chunks, at least one.
    pub fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        let mut log = Log::default();
        self.entries(&mut log, &mut |log| {
            if log.bytes.len() >= CHUNK_BYTES / 2 {
                chunk(&ENVELOPE.sealed(&[&log.take()]));
            }
        });
        chunk(&ENVELOPE.sealed(&[&log.take()]));
    }

    /// Adds the contents of a chunk.
    ///
    /// # Errors
    /// Says what is wrong with the chunk.
    pub fn load(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.apply(ENVELOPE.body(chunk)?)
    }

    /// Passes on each element of the value, for digests.
    pub fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        let mut log = Log::default();
        let mut position = 0_u64;
        self.entries(&mut log, &mut |log| {
            let bytes = log.take();
            if bytes.is_empty() {
                return;
            }
            // The order of the ready groups counts, that of other elements does not.
            if bytes.first() == Some(&(Kind::Push as u8)) {
                position += 1;
            }
            element(&[&bytes, &position.to_le_bytes()]);
        });
    }
}
