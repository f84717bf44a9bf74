//! A politeness frontier: the keys that share a prefix, and a cache of them in memory.
//!
//! The keys are the source of truth. The cache can be rebuilt from the keys at any time, and is
//! invalidated when another client changes the keys.

pub use crawlspace_compact::limits::chg::ATTEMPTS;
use std::rc::Rc;

use super::dropped::Drops;
use super::figures::Figures;
use super::first::First;
use super::gates::Gates;
use super::groups::Groups;
use super::keys::Keys;
use super::later::Later;
use super::ledger::Ledger;
use super::outcome::Outcomes;
use super::past::Past;
use super::pauses::Pauses;
use super::placing::Placing;
use super::queues::Queues;
use super::reports::Reports;
use super::store::Store;
use super::time::Millis;
use super::tokens::Tokens;
use super::types::Types;

/// A frontier.
pub struct Frontier<K: Store> {
    /// The keys of the frontier.
    pub keys: Rc<Keys<K>>,
    /// Maximum number of leases on a kept URI that may expire before the frontier gives up the URI.
    pub attempts: u64,
    /// Milliseconds that are added to each pause. Times are rounded down to milliseconds, so a
    /// release may actually happen up to this number of milliseconds after the recorded time.
    pub rounding: Millis,
    /// Statistics since the frontier was opened.
    pub figures: Figures,
    pub(super) groups: Groups<K>,
    pub(super) queues: Queues<K>,
    pub(super) ledger: Ledger<K>,
    pub(super) past: Past<K>,
    pub(super) gates: Gates<K>,
    pub(super) later: Later<K>,
    pub(super) reports: Reports<K>,
    pub(super) pauses: Pauses<K>,
    pub(super) drops: Drops<K>,
    pub(super) tokens: Tokens<K>,
    /// Time at which the first idle group must be deleted.
    pub(super) first_idle: First,
    /// Tracks whether the types of the keys that exist once per frontier were checked.
    pub types: Types<K>,
}

impl<K: Store> Frontier<K> {
    /// Opens the frontier with this prefix.
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
            later: Later::new(keys.clone()),
            reports: Reports::new(keys.clone()),
            pauses: Pauses::new(keys.once.paused.clone()),
            drops: Drops::new(keys.once.dropped.clone()),
            tokens: Tokens::new(keys.once.token.clone()),
            first_idle: First::default(),
            types: Types::new(keys.clone()),
            keys,
        }
    }

    /// Invalidates the cached contents of keys after other clients changed them.
    pub fn invalidate(&mut self) {
        self.queues.invalidate();
        self.pauses.invalidate();
        self.drops.invalidate();
        self.first_idle.invalidate();
        self.types.invalidate();
        self.groups.invalidate();
        self.ledger.audits.disturb();
    }

    /// Invalidates the whole cache, and resets the statistics. Called after the database or the
    /// master has changed.
    pub fn invalidate_all(&mut self) {
        self.invalidate();
        self.tokens.invalidate();
        self.queues.invalidate_all();
        self.figures = Figures::default();
    }

    /// Records that a plain client wrote to a group.
    pub fn changed_by_others(&mut self, id: &[u8]) {
        self.ledger.audits.disturb();
        self.groups.evict(id);
        self.queues.skipped.changed_by_others(id);
    }

    /// Returns the parts of the frontier that the end of a lease changes.
    pub(super) fn outcomes(&mut self) -> Outcomes<'_, K> {
        Outcomes {
            groups: &self.groups,
            ledger: &mut self.ledger,
        }
    }

    /// Returns the parts of the frontier that change when a group moves.
    pub(super) fn placing(&mut self) -> Placing<'_, K> {
        Placing {
            keys: &self.keys,
            groups: &mut self.groups,
            queues: &mut self.queues,
            ledger: &mut self.ledger,
            past: &mut self.past,
            gates: &self.gates,
            first_idle: &mut self.first_idle,
        }
    }

    /// Returns true if a running job depends on cached state: if an execution is being dropped or
    /// paused, or if an audit is running.
    pub fn is_worked_on(&self) -> bool {
        self.drops.is_under_way()
            || self.ledger.audits.is_wanted()
            || self.queues.skipped.is_prepared()
    }
}
