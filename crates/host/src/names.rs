//! Key names, and a fast filter for them. The filter runs at every write to any key of the server, so it
//! must reject keys of other applications in a few instructions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::{Array, SmallVec};

/// Joins the parts of a name. A name of up to `N` bytes is stored without an allocation.
pub fn join<const N: usize>(parts: &[&[u8]]) -> SmallVec<[u8; N]>
where
    [u8; N]: Array<Item = u8>,
{
    let len = parts.iter().map(|part| part.len()).sum();
    if len > N {
        return parts.concat().into();
    }
    let (mut name, mut at) = ([0; N], 0);
    for part in parts {
        name[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    SmallVec::from_buf_and_len(name, len)
}

/// Number of bytes compared at the end of a name.
const END: usize = 4;

/// Number of words of the bitmap.
const WORDS: usize = 16;

/// A set of name endings. About 1 % of names with other endings are false positives.
pub struct Endings {
    bits: [u64; WORDS],
    /// An ending shorter than `END` bytes, if any.
    short: Option<&'static [u8]>,
}

impl Endings {
    /// Creates an empty set.
    pub const fn new() -> Endings {
        Endings {
            bits: [0; WORDS],
            short: None,
        }
    }

    /// Adds an ending to the set.
    ///
    /// # Panics
    /// Panics if `ending` is the second ending shorter than four bytes.
    #[must_use]
    pub const fn with(mut self, ending: &'static str) -> Endings {
        let ending = ending.as_bytes();
        if ending.len() < END {
            assert!(self.short.is_none(), "one short ending at most");
            self.short = Some(ending);
            return self;
        }
        let (word, bit) = place(last(ending));
        self.bits[word] |= bit;
        self
    }

    /// Returns true if the name may have one of these endings. Never returns false for a name that
    /// has one of these endings.
    #[inline]
    pub fn may_end(&self, name: &[u8]) -> bool {
        if name.len() < END {
            return true;
        }
        let (word, bit) = place(last(name));
        self.bits[word] & bit != 0 || self.short.is_some_and(|short| name.ends_with(short))
    }
}

impl Default for Endings {
    fn default() -> Self {
        Endings::new()
    }
}

/// Returns the last `END` bytes of a name, which must have at least that many.
const fn last(name: &[u8]) -> u32 {
    let at = name.len() - END;
    u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]])
}

/// Returns the word and the bit in the bitmap that represent these bytes.
const fn place(end: u32) -> (usize, u64) {
    let hash = end.wrapping_mul(0x9e37_79b1) >> (32 - WORDS.trailing_zeros() - 6);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

/// Lengths of the key prefixes that were used since the module was loaded. Searches in a name begin
/// only at these positions.
#[derive(Default)]
pub struct Lengths(AtomicU64);

/// Lengths of at least this value are not distinguished from each other.
const LONG: usize = 63;

impl Lengths {
    /// Creates an empty set, for a `static`.
    pub const fn new() -> Lengths {
        Lengths(AtomicU64::new(0))
    }

    /// Records the length of a prefix.
    pub fn note(&self, len: usize) {
        self.0.fetch_or(1 << len.min(LONG), Relaxed);
    }

    /// Returns true if the name continues with `with` after a prefix of one of these lengths.
    #[inline]
    pub fn any<const N: usize>(&self, name: &[u8], with: &[u8; N]) -> bool {
        let mut short = self.0.load(Relaxed);
        if short >> LONG != 0 {
            return self.find(name, with).next().is_some();
        }
        while short != 0 {
            let at = short.trailing_zeros() as usize;
            short &= short - 1;
            if name.get(at..).and_then(<[u8]>::first_chunk) == Some(with) {
                return true;
            }
        }
        false
    }

    /// Returns the positions, in ascending order, at which the name continues with `with` after a prefix of one of
    /// these lengths.
    pub fn find<'a>(
        &self,
        name: &'a [u8],
        with: &'a [u8],
    ) -> impl Iterator<Item = usize> + use<'a> {
        let lengths = self.0.load(Relaxed);
        let mut short = lengths & !(1 << LONG);
        let at_short = std::iter::from_fn(move || {
            while short != 0 {
                let at = short.trailing_zeros() as usize;
                short &= short - 1;
                if name.get(at..).is_some_and(|rest| rest.starts_with(with)) {
                    return Some(at);
                }
            }
            None
        });
        let long = name.get(LONG..).filter(|_| lengths >> LONG != 0);
        at_short.chain(
            long.into_iter()
                .flat_map(move |rest| memchr::memmem::find_iter(rest, with).map(|at| at + LONG)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_name_are_joined() {
        for parts in [&["", ""][..], &["p:", "CHG:", "id"], &["12345678", "9"]] {
            let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            assert_eq!(join::<8>(&bytes)[..], *parts.concat().as_bytes());
        }
    }

    #[test]
    fn names_with_a_known_ending_are_always_found() {
        const ENDINGS: Endings = Endings::new()
            .with("allcrawls")
            .with("QCT")
            .with("chg_wait");
        for ending in ["allcrawls", "QCT", "chg_wait"] {
            for prefix in ["", "p", "{coll-42}:"] {
                assert!(ENDINGS.may_end(format!("{prefix}{ending}").as_bytes()));
            }
        }
        let others = (0..100_000).filter(|n| ENDINGS.may_end(format!("user:{n}").as_bytes()));
        assert!(others.count() < 1_000);
        assert!(!ENDINGS.may_end(b"user:1:profile"));
        assert!(ENDINGS.may_end(b"CT"), "too short to tell");
    }

    #[test]
    fn names_are_checked_after_prefixes_of_known_lengths() {
        let lengths = Lengths::new();
        let find = |name: &str| {
            let found = lengths.find(name.as_bytes(), b"h:").collect::<Vec<_>>();
            assert_eq!(lengths.any(name.as_bytes(), b"h:"), !found.is_empty());
            found
        };
        assert!(find("h:a").is_empty());
        lengths.note(0);
        lengths.note(2);
        assert_eq!(find("h:h:a"), [0, 2]);
        assert_eq!(find("xh:a"), []);
        assert_eq!(find("h"), []);
        let long = format!("{}h:a", "x".repeat(100));
        assert_eq!(find(&long), []);
        lengths.note(200);
        assert_eq!(find(&long), [100]);
        assert_eq!(find(&format!("h:{}h:", "x".repeat(61))), [0, 63]);
    }
}
