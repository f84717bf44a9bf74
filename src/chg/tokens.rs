//! Tokens of leases, which only increase.

use super::Token;
use super::error::Result;
use super::store::Store;
use super::time::Millis;

/// Exclusive upper bound of tokens. JavaScript does not represent larger numbers exactly.
const MAX_TOKEN: Token = 1 << 53;

/// Number of tokens that are reserved in advance: enough for one second.
const RESERVED: Token = 1_000_000;

/// Creates tokens. Keeps the last token, and the end of the range that the key reserves.
pub(super) struct Tokens<K: Store> {
    key: K::Name,
    /// The last minted token and the end of the reserved range; `None` if not read yet.
    minted: Option<(Token, Token)>,
}

impl<K: Store> Tokens<K> {
    pub(super) fn new(key: K::Name) -> Tokens<K> {
        Tokens { key, minted: None }
    }

    /// Copies the last token from another instance for the same frontier.
    pub(super) fn take_over(&mut self, other: &Tokens<K>) {
        self.minted = other.minted;
    }

    /// Invalidates the cached contents of the key.
    pub(super) fn invalidate(&mut self) {
        self.minted = None;
    }

    /// Creates a token. Reserves a range of tokens in the key in advance. Therefore, most tokens are created without
    /// a write, and a server that loads the key continues above all existing tokens. The newest reservation can be
    /// lost if a replica lags behind its master, or if the last second of an append-only file is missing. Therefore,
    /// a token is also at least as large as the current time in microseconds.
    pub(super) fn mint(&mut self, ks: &mut K, now: Millis) -> Result<Token> {
        let (last, reserved) = match self.minted {
            Some(minted) => minted,
            None => {
                // Accept a number that a plain client wrote if larger tokens are still available.
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

    /// Returns the last token or, if it is unknown, the end of the reserved range.
    pub(super) fn last(&self, ks: &mut K) -> Result<Token> {
        match self.minted {
            Some((last, _)) => Ok(last),
            None => Ok(ks.number(&self.key)?.max(0) as u64),
        }
    }
}
