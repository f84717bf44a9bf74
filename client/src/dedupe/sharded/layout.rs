//! Prefixes of the shards of an index. The prefixes and the assignment of hashes to shards can
//! never change.

use crate::server::{Code, Error, slot};

/// Maximum number of shards.
pub(super) const MAX_SHARDS: u16 = 1024;
/// Maximum length of the name of a sharded index, in bytes.
const NAME_BYTES: usize = 256;

/// Returns the prefixes of all shards, the home shard first: `{name-0}:`, then `{name-1.3}:`, … The
/// second number is a salt that places the shards in evenly spaced slots, so that servers with
/// equal shares of the slots also have equal shares of the index.
pub(super) fn prefixes(name: &[u8], shards: u16) -> Result<Vec<Vec<u8>>, Error> {
    let wrong = |sentence: &str| Err(Error::refused("sharded index", Code::BadPrefix, sentence));
    if name.is_empty() || name.len() > NAME_BYTES || name.iter().any(|byte| b"{}".contains(byte)) {
        return wrong(&format!(
            "the name of an index must have 1 to {NAME_BYTES} bytes and no braces"
        ));
    }
    if !(1..=MAX_SHARDS).contains(&shards) {
        return wrong(&format!(
            "the number of shards must be from 1 to {MAX_SHARDS}"
        ));
    }
    let home = [b"{", name, b"-0}:"].concat();
    let home_slot = u32::from(slot::of(&home));
    let mut prefixes = vec![home];
    for shard in 1..u32::from(shards) {
        // Each shard has a window of the slots, starting from the slot of the home shard.
        let window = |number: u32| number * u32::from(slot::SLOTS) / u32::from(shards);
        let (first, end) = (window(shard), window(shard + 1));
        let there = |prefix: &Vec<u8>| {
            let slots = u32::from(slot::SLOTS);
            let distance = (u32::from(slot::of(prefix)) + slots - home_slot) % slots;
            (first..end).contains(&distance)
        };
        let salted = |salt: u32| [b"{", name, format!("-{shard}.{salt}}}:").as_bytes()].concat();
        let mut salts = (0..).map(salted);
        prefixes.extend(salts.find(there));
    }
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, shards: u16) -> Vec<String> {
        let prefixes = prefixes(name.as_bytes(), shards).unwrap();
        let text = |prefix| String::from_utf8(prefix).unwrap();
        prefixes.into_iter().map(text).collect()
    }

    #[test]
    fn prefixes_never_change() {
        // If these prefixes changed, clients would not find the data of existing indexes.
        assert_eq!(shown("coll", 1), ["{coll-0}:"]);
        let four = ["{coll-0}:", "{coll-1.3}:", "{coll-2.3}:", "{coll-3.3}:"];
        assert_eq!(shown("coll", 4), four);
    }

    #[test]
    fn home_shard_does_not_depend_on_the_number_of_shards() {
        for shards in [1, 2, 3, 64] {
            assert_eq!(shown("some index", shards)[0], "{some index-0}:");
        }
    }

    #[test]
    fn shards_are_evenly_spaced() {
        for shards in [2, 3, 7, 16, MAX_SHARDS] {
            let prefixes = shown("coll-42", shards);
            assert_eq!(prefixes.len(), usize::from(shards));
            let mut slots: Vec<u16> = prefixes.iter().map(|p| slot::of(p.as_bytes())).collect();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), usize::from(shards), "{shards}");
            // Three servers with equal shares of the slots.
            let mut parts = [0; 3];
            for slot in slots {
                parts[usize::from(slot) * 3 / usize::from(slot::SLOTS)] += 1;
            }
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            assert!(most - least <= 2, "{shards} shards: {parts:?}");
        }
    }

    #[test]
    fn names_that_are_not_hash_tags_are_refused() {
        for name in ["", "a{b", "a}b", &"x".repeat(257)] {
            let error = prefixes(name.as_bytes(), 2).unwrap_err();
            assert_eq!(error.code(), Some(Code::BadPrefix), "{error}");
        }
        for shards in [0, MAX_SHARDS + 1] {
            assert!(prefixes(b"coll", shards).is_err());
        }
    }
}
