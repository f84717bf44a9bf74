//! Ends expired leases, and reports them.

use super::Token;
use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::reports::Report;
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::{Event, Seen, Step};
use smallvec::SmallVec;

impl<K: Store> Frontier<K> {
    /// Ends the expired leases on a group. Puts the URIs of these leases back into the queue, or
    /// gives up the URIs after too many attempts. Stores a report in both cases. The caller applies
    /// the returned step.
    pub(super) fn expire(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        now: Millis,
    ) -> Result<Step> {
        let holds = loaded.group.holds.iter();
        let over = holds.filter(|hold| hold.deadline <= now);
        let over: SmallVec<[Token; 1]> = over.map(|hold| hold.token).collect();
        let (mut given_up, mut counted) = (0, false);
        let (mut times, attempts) = (loaded.group.expired, self.attempts);
        for &token in &over {
            times += 1;
            let uris = self
                .groups
                .kept(ks, loaded, |uris| uris.leased_under(token).count())?;
            for _ in 0..uris.unwrap_or(0).max(1) {
                let report = self
                    .outcomes()
                    .end_attempt(ks, loaded, token, times, attempts)?;
                given_up += u64::from(report.given_up && report.counts);
                counted |= report.uri.is_none();
                self.figures.reports_dropped += self.reports.keep(ks, &report)?;
            }
        }
        let mut seen = Seen::at(now, self.groups.stock(ks, loaded)?);
        seen.away = self.groups.away_without(ks, loaded, &over)?;
        let step = (loaded.group).on(Event::Expired { given_up, counted }, &seen);
        let ended = loaded.group.expired - (times - over.len() as u64);
        self.figures.expired += ended;
        if ended > over.len() as u64 {
            // A lease without a token belongs to a plain client.
            let report = Report::of_group(&loaded.id, loaded.group.expired);
            self.figures.reports_dropped += self.reports.keep(ks, &report)?;
        }
        Ok(step)
    }

    /// Ends all leases that have expired. Then removes the oldest reports from the list and returns
    /// them.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn expired(&mut self, ks: &mut K, most: usize, now: Millis) -> Result<Vec<Report>> {
        self.evict_idle(ks, now)?;
        for _ in 0..most {
            let first = ks.zset_at(&self.keys.once.busy, 0)?;
            let Some((id, _)) = first.filter(|(_, score)| of_score(*score) <= now) else {
                break;
            };
            let mut loaded = self.groups.load(ks, id.as_ref())?;
            self.end_expired_leases(ks, &mut loaded, now)?;
        }
        for _ in 0..most {
            if !self.end_some_later(ks, now)? {
                break;
            }
        }
        self.reports.take(ks, most)
    }
}
