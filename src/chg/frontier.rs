//! One politeness frontier: the keys that share a prefix, and what is cached of them.
//!
//! The keys are the truth. What is cached here is rebuilt from them at any time; whoever hears
//! that somebody else changed them makes a new one.

pub use crawlspace_compact::limits::chg::ATTEMPTS;
use std::rc::Rc;

use super::dropped::Drops;
use super::error::Result;
use super::figures::Figures;
use super::first::First;
use super::gates::Gates;
use super::groups::{Groups, Loaded};
use super::keys::Keys;
use super::ledger::Ledger;
use super::outcome::Outcomes;
use super::past::Past;
use super::pauses::Pauses;
use super::queues::Queues;
use super::reports::Reports;
use super::store::Store;
use super::time::Millis;
use super::tokens::Tokens;
use super::types::Types;

/// A frontier.
pub struct Frontier<K: Store> {
    /// Its keys.
    pub keys: Rc<Keys<K>>,
    /// How often a kept URI is given out whose leases run out.
    pub attempts: u64,
    /// What is added to a pause: the time that a release comes later than its millisecond began.
    pub rounding: Millis,
    /// What happened since it was opened.
    pub figures: Figures,
    pub(super) groups: Groups<K>,
    pub(super) queues: Queues<K>,
    pub(super) ledger: Ledger<K>,
    pub(super) past: Past<K>,
    pub(super) gates: Gates<K>,
    pub(super) reports: Reports<K>,
    pub(super) pauses: Pauses<K>,
    pub(super) drops: Drops<K>,
    pub(super) tokens: Tokens<K>,
    /// When the first idle group goes.
    pub(super) first_idle: First,
    /// The types of the keys that exist once.
    pub types: Types<K>,
}

impl<K: Store> Frontier<K> {
    /// The frontier with this prefix.
    pub fn open(ks: &mut K, prefix: &[u8]) -> Frontier<K> {
        let keys = Rc::new(Keys::new(ks, prefix));
        Frontier {
            attempts: ATTEMPTS,
            rounding: 0,
            figures: Figures::default(),
            groups: Groups::new(keys.clone()),
            queues: Queues::new(keys.clone()),
            ledger: Ledger::new(keys.clone()),
            past: Past::new(keys.clone()),
            gates: Gates::new(keys.clone()),
            reports: Reports::new(keys.clone()),
            pauses: Pauses::new(keys.once.paused.clone()),
            drops: Drops::new(keys.once.dropped.clone()),
            tokens: Tokens::new(keys.once.token.clone()),
            first_idle: First::default(),
            types: Types::new(keys.clone()),
            keys,
        }
    }

    /// Invalidates what was read from keys, because others changed them.
    pub fn invalidate(&mut self) {
        self.queues.invalidate();
        self.pauses.invalidate();
        self.drops.invalidate();
        self.first_idle.invalidate();
        self.types.invalidate();
        self.groups.invalidate();
        self.ledger.audits.disturb();
    }

    /// Invalidates all that was read, and all figures: there is another database, or another master.
    pub fn invalidate_all(&mut self) {
        self.invalidate();
        self.tokens.invalidate();
        self.queues.invalidate_all();
        self.figures = Figures::default();
    }

    /// Invalidates what is cached of a group because a plain client wrote to it.
    pub fn changed_by_others(&mut self, id: &[u8]) {
        self.ledger.audits.disturb();
        self.groups.evict(id);
        self.queues.skipped.changed_by_others(id);
    }

    /// The parts that the end of a lease changes.
    pub(super) fn outcomes(&mut self) -> Outcomes<'_, K> {
        Outcomes {
            groups: &self.groups,
            ledger: &mut self.ledger,
        }
    }

    /// Writes the fields that changed.
    pub(super) fn save(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        self.save_with(ks, loaded, None)
    }

    /// Saves a group, and one more field.
    pub(super) fn save_with(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        more: Option<(&K::Name, &[u8])>,
    ) -> Result<()> {
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        self.ledger.count_missing(ks, &self.groups, loaded)?;
        self.queues.note_change(ks, &loaded.id)?;
        self.groups.write(ks, loaded, more)
    }

    /// Saves a group when the next lease is known, or somebody looks at it.
    pub(super) fn save_later(&mut self, ks: &mut K, loaded: Box<Loaded<K>>) -> Result<()> {
        self.groups.write_back(ks, None)?;
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        self.ledger.count_missing(ks, &self.groups, &loaded)?;
        self.queues.note_change(ks, &loaded.id)?;
        self.groups.keep_unsaved(loaded);
        Ok(())
    }

    /// Deletes the hash of a group, but for what was set for it, and keeps its last release.
    pub(super) fn delete_group(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        if let Some(last) = loaded.group.last {
            self.past.keep_last(ks, loaded, last)?;
        }
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        if loaded.group.options == Default::default() {
            ks.delete(&loaded.key)?;
            return Ok(());
        }
        let names = &self.keys.fields;
        for field in [
            &names.due,
            &names.count,
            &names.state,
            &names.leases,
            &names.next,
        ] {
            ks.hash_del(&loaded.key, field.as_ref())?;
        }
        Ok(())
    }

    /// Whether a job relies on what is noted here: of crawls that are dropped or paused, or of changes.
    pub fn is_worked_on(&self) -> bool {
        self.drops.is_under_way()
            || self.ledger.audits.is_wanted()
            || self.queues.skipped.is_prepared()
    }
}
