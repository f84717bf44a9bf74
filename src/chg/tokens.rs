//! Tokens of leases, which only grow.

use super::Token;
use super::error::Result;
use super::store::Store;
use super::time::Millis;

/// Exclusive upper bound of tokens: larger numbers are not exact in JavaScript.
const MAX_TOKEN: Token = 1 << 53;

/// Number of tokens reserved in advance: one second's worth.
const RESERVED: Token = 1_000_000;

/// Mints tokens. Stores the last minted token, and the end of the range reserved in the key.
pub(super) struct Tokens<K: Store> {
    key: K::Name,
    /// The last minted token and the end of the reserved range; `None` if not read yet.
    minted: Option<(Token, Token)>,
}

impl<K: Store> Tokens<K> {
    pub(super) fn new(key: K::Name) -> Tokens<K> {
        Tokens { key, minted: None }
    }

    /// Takes over the last minted token of the same frontier.
    pub(super) fn take_over(&mut self, other: &Tokens<K>) {
        self.minted = other.minted;
    }

    /// Invalidates the cached contents of the key.
    pub(super) fn invalidate(&mut self) {
        self.minted = None;
    }

    /// Mints a token. A range of tokens is reserved in the key in advance. So most tokens cost no
    /// write, and a server that takes over from the key continues above all minted tokens. The
    /// newest reservation can be lost, with a replica that lags behind its master or with the last
    /// second of an append-only file. To grow even then, a token is at least the clock in
    /// microseconds.
    pub(super) fn mint(&mut self, ks: &mut K, now: Millis) -> Result<Token> {
        let (last, reserved) = match self.minted {
            Some(minted) => minted,
            None => {
                // A number that a plain client wrote is accepted if larger tokens can still be minted after
                // it.
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

    /// Returns the last minted token; if that is unknown, the end of the reserved range.
    pub(super) fn last(&self, ks: &mut K) -> Result<Token> {
        match self.minted {
            Some((last, _)) => Ok(last),
            None => Ok(ks.number(&self.key)?.max(0) as u64),
        }
    }
}
