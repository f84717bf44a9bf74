//! Reads and changes the plain keys of an index, whether or not the index is packed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::crawler::hash_key;
use crate::dataset::Snapshot;
use crate::server::{Options, Server};
use crate::wire::{Reply, Wire, Word, bulk};

thread_local! {
    /// A second server. Packed indexes are copied there and unpacked, so that the server under test
    /// is only read.
    static SCRATCH: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Returns true if an index is packed, completely or partly.
pub fn is_packed(c: &mut Wire, p: impl Word) -> bool {
    let stats = c.expect_ok(&["DEDUPE.STATS".word(), p.word()]);
    stats.field("storage") != bulk("plain")
}

/// Returns the number of hashes that have an owner, including those of running commits.
pub fn indexed(c: &mut Wire, p: impl Word) -> i64 {
    let stats = c.expect_ok(&["DEDUPE.STATS".word(), p.word()]);
    stats.field("hashes").int()
}

/// Returns the keys under a prefix as they are on plain storage. A packed index is copied to
/// another server and unpacked there.
///
/// # Panics
/// When the index cannot be copied or unpacked.
#[track_caller]
pub fn plain_view(c: &mut Wire, p: impl Word) -> Snapshot {
    let p = p.word();
    if !is_packed(c, &p) {
        return Snapshot::of_keys(c, |key| key.starts_with(&p));
    }
    let keys = c.expect_ok(&["KEYS", "*"]);
    let keys = keys.items().iter().map(Reply::bytes);
    let keys: Vec<&[u8]> = keys.filter(|key| key.starts_with(&p)).collect();
    let dumps = c.pipeline(keys.iter().map(|key| vec![b"DUMP".as_slice(), key]));
    SCRATCH.with_borrow_mut(|server| {
        let server = server.get_or_insert_with(|| Options::new().plain().start());
        let mut scratch = server.wire();
        scratch.expect_ok(&["FLUSHALL"]);
        // A key may have been deleted in the meantime.
        let there = keys.iter().zip(&dumps).filter(|(_, dump)| !dump.is_nil());
        let restores = there.map(|(key, dump)| {
            let words: [&[u8]; 4] = [b"RESTORE", key, b"0", dump.bytes()];
            words.to_vec()
        });
        for restored in scratch.pipeline(restores) {
            assert!(!restored.is_error(), "RESTORE said {restored:?}");
        }
        scratch.expect_ok(&[b"DEDUPE.UNPACK".as_slice(), &p]);
        Snapshot::of_keys(&mut scratch, |key| key.starts_with(&p))
    })
}

/// Changes the plain keys of an index the way a plain client does. A packed index is unpacked first
/// and packed again afterwards.
pub fn plainly<T>(c: &mut Wire, p: impl Word, change: impl FnOnce(&mut Wire) -> T) -> T {
    let packed = is_packed(c, p.word());
    if packed {
        c.expect_ok(&["DEDUPE.UNPACK".word(), p.word()]);
    }
    let done = change(c);
    if packed {
        c.expect_ok(&["DEDUPE.PACK".word(), p.word()]);
    }
    done
}

/// Returns one hash of [`plain_view`]; `name` is the key without the prefix: `allhashes`,
/// `h:<crawl>`.
#[track_caller]
pub fn plain_hash(c: &mut Wire, p: &str, name: &str) -> BTreeMap<String, String> {
    let key = format!("{p}{name}");
    if is_packed(c, p) {
        plain_view(c, p).hash(key)
    } else {
        hash_key(c, &key)
    }
}
