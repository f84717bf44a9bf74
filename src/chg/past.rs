//! The last releases of deleted groups. These releases are stored because a client that did not
//! receive the reply may send the release again.

use std::rc::Rc;

use crawlspace_host::text::{parse_unsigned, push_number};

use super::Token;
use super::error::Result;
use super::group::Released;
use super::groups::Loaded;
use super::keys::Keys;
use super::store::Store;

/// Maximum number of stored releases of deleted groups.
const MAX_PAST: u64 = 1 << 16;

/// A release, and the group of the lease that was granted with it.
pub(super) type Answer = (Released, Vec<u8>);

/// The keys `chg_past` and `chg_answers`.
pub(super) struct Past<K: Store> {
    keys: Rc<Keys<K>>,
}

impl<K: Store> Past<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Past<K> {
        Past { keys }
    }

    /// Stores the last release of a group that is being deleted, because the client may not have
    /// received the reply.
    pub(super) fn keep_last(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        last: Released,
    ) -> Result<()> {
        let next = match last.next {
            0 => None,
            _ => ks.hash_get(&loaded.key, self.keys.fields.next.as_ref())?,
        };
        let next = next.as_ref().map_or(&b""[..], AsRef::as_ref);
        self.keep(ks, &loaded.id, last, next)
    }

    /// Stores the last release of a group in `chg_past`, and drops the oldest releases beyond
    /// [`MAX_PAST`].
    pub(super) fn keep(
        &mut self,
        ks: &mut K,
        id: &[u8],
        last: Released,
        next: &[u8],
    ) -> Result<()> {
        let mut text = Vec::new();
        for n in [last.due, last.next] {
            push_number(&mut text, n);
            text.push(b' ');
        }
        text.extend_from_slice(next);
        ks.zset_add(&self.keys.once.past, id, last.token as f64)?;
        ks.hash_set(&self.keys.once.answers, id, &text)?;
        if ks.zset_len(&self.keys.once.past)? > MAX_PAST
            && let Some((oldest, _)) = ks.zset_at(&self.keys.once.past, 0)?
        {
            self.forget(ks, oldest.as_ref())?;
        }
        Ok(())
    }

    /// Stores the lease that was granted with the last release of a deleted group.
    pub(super) fn keep_next(
        &mut self,
        ks: &mut K,
        id: &[u8],
        token: Token,
        (next, chg): (Token, &[u8]),
    ) -> Result<()> {
        let Some((mut released, _)) = self.find(ks, id, token)? else {
            return Ok(());
        };
        released.next = next;
        self.keep(ks, id, released, chg)
    }

    /// Drops the stored release of a deleted group after the group is leased again.
    pub(super) fn forget(&mut self, ks: &mut K, id: &[u8]) -> Result<()> {
        if ks.zset_del(&self.keys.once.past, id)? {
            ks.hash_del(&self.keys.once.answers, id)?;
        }
        Ok(())
    }

    /// Returns the release with this token, if it is stored for a deleted group.
    pub(super) fn find(&self, ks: &mut K, id: &[u8], token: Token) -> Result<Option<Answer>> {
        let last = ks.zset_score(&self.keys.once.past, id)?;
        if last != Some(token as f64) {
            return Ok(None);
        }
        let Some(text) = ks.hash_get(&self.keys.once.answers, id)? else {
            return Ok(None);
        };
        let mut parts = text.as_ref().splitn(3, |&b| b == b' ');
        let mut next = || parts.next().unwrap_or_default();
        let released = Released {
            token,
            due: parse_unsigned(next()).unwrap_or(0),
            next: parse_unsigned(next()).unwrap_or(0),
        };
        Ok(Some((released, next().to_vec())))
    }
}
