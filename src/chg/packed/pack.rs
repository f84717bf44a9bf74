//! Moves groups from plain keys to a packed frontier.

use crawlspace_host::keyspace::{Batch, KeyError, Result};
use crawlspace_host::text::parse_unsigned;

use super::super::group::{Group, Hold, Id};
use super::super::keys::{COUNTED, GROUP, URIS};
use super::super::store::Store;
use super::super::time::of_score;
use super::super::uris::Op;
use super::element::{Plain, as_stored};
use super::keys::Packed;
use super::moved::Entering;
use super::record::SETS;

impl<K: Store> Plain<'_, K> {
    /// Returns true if a group is in plain keys.
    pub(super) fn holds(&mut self, id: &[u8]) -> bool {
        let hash = self.key(GROUP.before, id);
        let uris = self.key(URIS.before, id);
        self.ks.hash_len(&hash).unwrap_or(0) > 0
            || self.ks.keeps_uris(&uris).unwrap_or(false)
            || self.scores(id) != [None; SETS]
    }

    fn scores(&mut self, id: &[u8]) -> [Option<f64>; SETS] {
        let once = &self.names.once;
        [&once.wait, &once.busy, &once.idle]
            .map(|set| self.ks.zset_score(set, id).unwrap_or(None).map(as_stored))
    }

    /// Reads a group from plain keys for the packed frontier. Also returns its number of fields, and true if
    /// a plain client has created or damaged the group. Returns `None` for an unknown group.
    pub(super) fn read(&mut self, id: &[u8]) -> Result<Option<(Entering, u64, bool)>> {
        let hash = self.key(GROUP.before, id);
        let uris = self.key(URIS.before, id);
        let scores = self.scores(id);
        let Plain { ks, names } = self;
        let raw = match ks.hash_get_many(&hash, std::array::from_fn(|i| &names.fields[i])) {
            Err(KeyError::WrongType { .. }) => std::array::from_fn(|_| None),
            raw => raw?,
        };
        let kept = match ks.uris(&uris, |uris| {
            (uris.len(), uris.tokens().collect::<Vec<_>>())
        }) {
            Err(KeyError::WrongType { .. }) => None,
            kept => kept?,
        };
        let own_fields = raw.iter().flatten().count() as u64;
        let all_fields = ks.hash_len(&hash).unwrap_or(0);
        let exists = all_fields > 0;
        if !exists && kept.is_none() && scores == [None; 3] {
            return Ok(None);
        }
        let fields = raw
            .each_ref()
            .map(|field| field.as_ref().map(AsRef::as_ref));
        let mut group = Group::read(fields);
        // The group has only options.
        let is_bare = fields[..4].iter().all(Option::is_none);
        let mut damaged =
            (exists || kept.is_some()) && !group.ours && !(exists && is_bare && kept.is_none());
        let mut lost = Vec::new();
        if let Some((len, tokens)) = kept {
            damaged |= len > group.uris || !group.keeps;
            group.uris = group.uris.max(len);
            group.keeps = true;
            let holds = &group.holds;
            lost = tokens;
            lost.retain(|token| holds.iter().all(|hold| hold.token != *token));
            damaged |= !lost.is_empty();
            if let Some(deadline) = scores[1] {
                group.holds.extend(lost.drain(..).map(|token| Hold {
                    token,
                    granted: token / 1000,
                    deadline: of_score(deadline),
                }));
            }
        }
        if damaged {
            group.known = true;
            group.ours = true;
        }
        let mut entering = Entering {
            group,
            exists: exists || damaged,
            scores,
            lost,
            ..Entering::default()
        };
        if all_fields > own_fields {
            entering.next = ks
                .hash_get(&hash, b"x")?
                .map(|next| Id::from_slice(next.as_ref()));
            let (mut batch, mut cursor) = (Batch::default(), ks.cursor());
            while ks.hash_scan(&hash, &mut cursor, &mut batch)? {}
            for (field, value) in batch.iter() {
                let count = field.strip_prefix(COUNTED).zip(parse_unsigned(value));
                if let Some((execution, n)) = count.filter(|(_, n)| *n > 0) {
                    entering.counts.push((execution.to_vec(), n));
                }
            }
            // A scan may return a field twice.
            entering.counts.sort();
            entering.counts.dedup_by(|a, b| a.0 == b.0);
        }
        Ok(Some((entering, own_fields, damaged)))
    }

    /// Moves a group to the packed frontier. Returns true if the group was in plain keys.
    pub(super) fn pack(&mut self, packed: &mut Packed, id: &[u8]) -> Result<bool> {
        let Some((mut entering, _, damaged)) = self.read(id)? else {
            return Ok(false);
        };
        let (scores, exists) = (entering.scores, entering.exists);
        let lost = std::mem::take(&mut entering.lost);
        packed.enter(id, entering, damaged);
        let key = self.key(URIS.before, id);
        let uris = match self.ks.take_uris(&key) {
            Err(KeyError::WrongType { .. }) => None,
            uris => uris?,
        };
        if let Some(uris) = uris {
            packed.enter_uris(id, uris);
            for token in lost {
                let back = Op::Return {
                    token,
                    due: None,
                    failed: false,
                };
                packed.apply_to_uris(id, &back, |_| ());
            }
        }
        let hash = self.key(GROUP.before, id);
        if exists && self.ks.hash_len(&hash).unwrap_or(0) > 0 {
            self.ks.delete(&hash)?;
        }
        let once = &self.names.once;
        for (set, score) in [&once.wait, &once.busy, &once.idle].into_iter().zip(scores) {
            if score.is_some() {
                self.ks.zset_del(set, id)?;
            }
        }
        Ok(true)
    }
}
