//! Tokens of leases, which only grow.

use super::Token;
use super::error::Result;
use super::store::Store;
use super::time::Millis;

/// Tokens stay below this, so that they are exact in the numbers of JavaScript.
const MAX_TOKEN: Token = 1 << 53;

/// How many tokens are reserved ahead: a second's worth.
const RESERVED: Token = 1_000_000;

/// The token minted last, and up to which they are reserved in the key.
pub(super) struct Tokens<K: Store> {
    key: K::Name,
    /// `None` when it is not known.
    minted: Option<(Token, Token)>,
}

impl<K: Store> Tokens<K> {
    pub(super) fn new(key: K::Name) -> Tokens<K> {
        Tokens { key, minted: None }
    }

    /// Invalidates what was read of the key.
    pub(super) fn invalidate(&mut self) {
        self.minted = None;
    }

    /// Mints a token. Tokens are reserved in the key for some time ahead, so that most of them cost no
    /// write, and whoever takes over from the key goes on above all that were ever minted. A token is
    /// above the clock in microseconds, so that tokens grow even when the newest ones were lost, with a
    /// replica that lagged behind its master or the last second of an append-only file.
    pub(super) fn mint(&mut self, ks: &mut K, now: Millis) -> Result<Token> {
        let (last, reserved) = match self.minted {
            Some(minted) => minted,
            None => {
                // What a plain client put there counts if tokens can grow from it.
                let reserved = u64::try_from(ks.number(&self.key)?).ok();
                let reserved = reserved.filter(|&n| n < MAX_TOKEN).unwrap_or(0);
                (reserved, reserved)
            }
        };
        let token = (last + 1).max(now * 1000);
        let mut until = reserved;
        if token > reserved {
            until = token + RESERVED;
            ks.number_set(&self.key, until as i64)?;
        }
        self.minted = Some((token, until));
        Ok(token)
    }

    /// The token minted last; where that is not known, up to which they are reserved.
    pub(super) fn last(&self, ks: &mut K) -> Result<Token> {
        match self.minted {
            Some((last, _)) => Ok(last),
            None => Ok(ks.number(&self.key)?.max(0) as u64),
        }
    }
}
