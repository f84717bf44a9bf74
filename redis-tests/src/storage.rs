//! Shows an index or a frontier in the same way in both storages: the plain keys that it has, or
//! would have if it were not packed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::crawler::hash_key;
use crate::dataset::Snapshot;
use crate::server::{Options, Server};
use crate::wire::{Reply, Wire, Word, bulk};

/// A server on which packed values are unpacked, so that the server under test is only read.
struct Scratch {
    /// The server lives as long as the connection.
    _server: Server,
    wire: Wire,
    /// The frontier that was unpacked last on the server: its prefix, and the packed value.
    frontier: Option<(String, Reply)>,
}

thread_local! {
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

/// Calls `act` with the server on which packed values are unpacked.
fn with_scratch<T>(act: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        let scratch = scratch.get_or_insert_with(|| {
            let server = Options::new().plain().start();
            Scratch {
                wire: server.wire(),
                _server: server,
                frontier: None,
            }
        });
        act(scratch)
    })
}

/// Calls `read` with a connection to a server on which the frontier has the documented plain keys.
/// This is the given connection or, for a packed frontier, a connection to another server with an
/// unpacked copy.
///
/// # Panics
/// Panics if the frontier cannot be copied or unpacked.
#[track_caller]
pub fn frontier_view<T>(c: &mut Wire, prefix: &str, read: impl FnOnce(&mut Wire) -> T) -> T {
    let key = format!("{prefix}chg_packed");
    let packed = c.expect_ok(&["DUMP", &key]);
    if packed.is_nil() {
        return read(c);
    }
    with_scratch(|scratch| {
        let wire = &mut scratch.wire;
        let wanted = Some((prefix.to_owned(), packed));
        if scratch.frontier != wanted {
            let packed = wanted.as_ref().expect("just made").1.bytes();
            wire.expect_ok(&["FLUSHALL"]);
            let restore: [&[u8]; 4] = [b"RESTORE", key.as_bytes(), b"0", packed];
            wire.expect_ok(&restore);
            wire.expect_ok(&["CHG.UNPACK", prefix]);
            scratch.frontier = wanted;
        }
        read(wire)
    })
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

/// Returns the keys with a prefix as in plain storage. Copies a packed index to another server and
/// unpacks it there.
///
/// # Panics
/// Panics if the index cannot be copied or unpacked.
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
    with_scratch(|scratch| {
        scratch.frontier = None;
        let scratch = &mut scratch.wire;
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
        Snapshot::of_keys(scratch, |key| key.starts_with(&p))
    })
}

/// Changes the plain keys of an index as a plain client does. Unpacks a packed index first, and
/// packs it again afterwards.
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

/// Returns one hash of [`plain_view`]. `name` is the name of the key without the prefix, such as
/// `allhashes` or `h:<crawl>`.
#[track_caller]
pub fn plain_hash(c: &mut Wire, p: &str, name: &str) -> BTreeMap<String, String> {
    let key = format!("{p}{name}");
    if is_packed(c, p) {
        plain_view(c, p).hash(key)
    } else {
        hash_key(c, &key)
    }
}
