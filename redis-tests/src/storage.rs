//! Shows an index or a frontier independently of its storage: the plain keys that it has, or would have
//! if it were not packed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::crawler::hash_key;
use crate::dataset::Snapshot;
use crate::server::{Options, Server};
use crate::wire::{Reply, Wire, Word, bulk, int};

/// A server on which copies of packed values are unpacked, so that the server under test is only
/// read.
struct Scratch {
    /// The server lives as long as the connection.
    _server: Server,
    wire: Wire,
    /// The frontier that was last unpacked on the server: its prefix, and its keys.
    frontier: Option<(String, Dumps)>,
}

/// Names of keys, with their values.
type Dumps = Vec<(Vec<u8>, Reply)>;

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
/// Connects to another server with an unpacked copy if the frontier is packed; otherwise, uses the
/// given connection.
///
/// # Panics
/// Panics if the frontier cannot be copied or unpacked.
#[track_caller]
pub fn frontier_view<T>(c: &mut Wire, prefix: &str, read: impl FnOnce(&mut Wire) -> T) -> T {
    let key = format!("{prefix}chg_packed").into_bytes();
    if c.expect_ok(&[b"EXISTS".as_slice(), &key]) == int(0) {
        return read(c);
    }
    let storage = c.expect_ok(&["CHG.INFO", prefix]).field("storage");
    let dumps = if storage == bulk("packed") {
        dumps(c, vec![key])
    } else {
        all_dumps(c, prefix.as_bytes())
    };
    with_scratch(|scratch| {
        let wanted = Some((prefix.to_owned(), dumps));
        if scratch.frontier != wanted {
            let (_, dumps) = wanted.as_ref().expect("just made");
            restore(&mut scratch.wire, dumps);
            while let Some((chg, execution)) = unpack(&mut scratch.wire, prefix) {
                let words = [
                    "CHG.LIMIT",
                    prefix,
                    &chg,
                    "DONE",
                    "0",
                    "EXECUTION",
                    &execution,
                ];
                scratch.wire.expect_ok(&words);
            }
            scratch.frontier = wanted;
        }
        read(&mut scratch.wire)
    })
}

/// Unpacks a frontier. If a limit of done URLs prevents this, returns the group and the execution
/// of the limit.
#[track_caller]
fn unpack(c: &mut Wire, prefix: &str) -> Option<(String, String)> {
    let Reply::Error(line) = c.call(&["CHG.UNPACK", prefix]) else {
        return None;
    };
    let line = String::from_utf8(line).expect("text");
    let is_limit = line.contains("limits the done URLs");
    assert!(is_limit, "CHG.UNPACK replied {line:?}");
    let mut names = line.split('\'').skip(1).step_by(2).map(str::to_owned);
    Some((names.next()?, names.next()?))
}

fn dumps(c: &mut Wire, keys: Vec<Vec<u8>>) -> Dumps {
    let dumps = c.pipeline(keys.iter().map(|key| vec![b"DUMP".as_slice(), key]));
    keys.into_iter().zip(dumps).collect()
}

/// Returns all keys with a prefix.
fn all_dumps(c: &mut Wire, prefix: &[u8]) -> Dumps {
    let keys = c.expect_ok(&["KEYS", "*"]);
    let mut keys: Vec<_> = keys
        .items()
        .iter()
        .map(|key| key.bytes().to_vec())
        .collect();
    keys.retain(|key| key.starts_with(prefix));
    dumps(c, keys)
}

/// Empties a server, and restores these keys on it. Uses a transaction, because the module would create missing
/// markers between the commands.
#[track_caller]
fn restore(c: &mut Wire, dumps: &Dumps) {
    let [begin, flush, end] =
        [b"MULTI".as_slice(), b"FLUSHALL", b"EXEC"].map(|word| vec![word.to_vec()]);
    // A key may have been deleted in the meantime.
    let there = dumps.iter().filter(|(_, dump)| !dump.is_nil());
    let restores = there.map(|(key, dump)| {
        let words: [&[u8]; 4] = [b"RESTORE", key, b"0", dump.bytes()];
        words.map(<[u8]>::to_vec).to_vec()
    });
    let commands = [begin, flush].into_iter().chain(restores).chain([end]);
    let replies = c.pipeline(commands);
    let done = replies.last().expect("EXEC replies");
    for restored in done.items() {
        assert!(!restored.is_error(), "RESTORE replied {restored:?}");
    }
}

/// Returns true if an index is packed, completely or partly.
pub fn is_packed(c: &mut Wire, p: impl Word) -> bool {
    let stats = c.expect_ok(&["DEDUPE.STATS".word(), p.word()]);
    stats.field("storage") != bulk("plain")
}

/// Returns the number of hashes that have an owner, including hashes of running commits.
pub fn indexed(c: &mut Wire, p: impl Word) -> i64 {
    let stats = c.expect_ok(&["DEDUPE.STATS".word(), p.word()]);
    stats.field("hashes").int()
}

/// Returns the keys with a prefix as in plain storage. Copies a packed index to another server and
/// unpacks the copy.
///
/// # Panics
/// Panics if the index cannot be copied or unpacked.
#[track_caller]
pub fn plain_view(c: &mut Wire, p: impl Word) -> Snapshot {
    let p = p.word();
    if !is_packed(c, &p) {
        return Snapshot::of_keys(c, |key| key.starts_with(&p));
    }
    let dumps = all_dumps(c, &p);
    with_scratch(|scratch| {
        scratch.frontier = None;
        let scratch = &mut scratch.wire;
        restore(scratch, &dumps);
        scratch.expect_ok(&[b"DEDUPE.UNPACK".as_slice(), &p]);
        Snapshot::of_keys(scratch, |key| key.starts_with(&p))
    })
}

/// Changes the plain keys of an index like a plain client. Unpacks a packed index first, and packs
/// it again afterwards.
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
