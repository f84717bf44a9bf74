//! The value type of a packed index.

use std::ffi::CStr;
use std::os::raw::c_int;

use crate::dedupe::packed::op::{Log, Op, Take, apply_log};
use crate::dedupe::packed::{ENVELOPE, Packed, Value};
use crate::dedupe::store::{Holds, PACKED, Store};
use crawlspace_host::defrag::Mover;
use crawlspace_host::keyspace::{KeyType, Keyspace, Result};
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString, selected_db};
use crawlspace_host::server::command::{Internal, InternalCall, register_internal};
use crawlspace_host::server::keyspace::{By, Gathering, RedisKeyspace, Replicated};
use crawlspace_host::server::native::{self, Native, Registered};
use crawlspace_host::server::notify::Change;
use crawlspace_host::slices::Time;

use super::indexes;
use crate::marker::{self, CHANGE, Marker};

/// Replication of changes.
const GATHERING: Gathering = Gathering {
    word: c"APPLY",
    event: c"dedupe.packed",
};

static REGISTERED: Registered = Registered::new();

impl Native for Packed {
    const NAME: &'static CStr = c"crawlpack";
    const VERSION: c_int = ENVELOPE.version as c_int;
    const WHAT: &'static str = match PACKED {
        KeyType::Native(what) => what,
        _ => panic!("a packed index is a native value"),
    };
    const REBUILT_BY: &'static CStr = CHANGE;
    const REBUILT_WITH: &'static CStr = c"CHUNK";

    fn registered() -> &'static Registered {
        &REGISTERED
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        Packed::save(self, chunk);
    }

    fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        Packed::elements(self, element);
    }

    fn load(&mut self, chunk: &[u8]) -> std::result::Result<(), String> {
        Packed::load(self, chunk)
    }

    fn loaded(&self) -> std::result::Result<(), String> {
        Packed::loaded(self)
    }

    fn is_empty(&self) -> bool {
        Packed::is_empty(self)
    }

    fn memory(&self) -> usize {
        Packed::memory(self)
    }

    fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        Packed::defrag(self, cursor, mover, time)
    }

    fn free_effort(&self) -> usize {
        Packed::free_effort(self)
    }
}

impl Store for RedisKeyspace {
    fn packed<T>(&mut self, key: &RmString, read: impl FnOnce(&Packed) -> T) -> Result<Option<T>> {
        Ok(self.native::<Packed>(key)?.map(read))
    }

    fn change_packed(&mut self, key: &RmString, op: &Op<'_>) -> Result<bool> {
        self.gather_native(key, None, GATHERING, |packed: &mut Packed, log, mark| {
            let changed = op.apply(packed);
            op.write(log, mark);
            changed
        })
    }

    fn take_packed(&mut self, key: &RmString, records: &RmString, take: &Take<'_>) -> Result<bool> {
        self.gather_native(
            key,
            Some(records),
            GATHERING,
            |packed: &mut Packed, log, mark| {
                let op = Op::Take(*take);
                op.write(log, mark);
                op.apply(packed)
            },
        )
    }

    fn mark(&mut self, key: &RmString) -> Result<()> {
        marker::mark(self, key)
    }

    fn holds(&mut self, key: &RmString) -> Holds {
        match self.holds_native::<Packed>(key) {
            None => Holds::Nothing,
            Some(true) => Holds::Packed,
            Some(false) => match self.holds_native::<Marker>(key) {
                Some(true) => Holds::Marker,
                _ if self.check_type(key, KeyType::Hash).is_ok() => Holds::Hash,
                _ => Holds::Other,
            },
        }
    }
}

/// `crawlspace.packed key APPLY records log`, `crawlspace.packed key CHUNK chunk` and
/// `crawlspace.packed key MARK content`. The master sends this command to replicas and the
/// append-only file; a client that sends it changes the packed index.
struct ChangePacked;

impl Internal for ChangePacked {
    const NAME: &'static CStr = CHANGE;
    const FLAGS: &'static CStr = c"write deny-oom admin";

    fn run(call: &mut InternalCall<'_>) -> std::result::Result<(), String> {
        let changed = match *call.arguments {
            [b"APPLY", records, log] => apply(call, records, log),
            [b"CHUNK", chunk] => {
                change(call, GATHERING.event, |packed: &mut Packed| packed.load(chunk))
            }
            [b"MARK", content] => {
                change(call, marker::EVENT, |marker: &mut Marker| marker.load(content))
            }
            _ => Err("ERR syntax error: expected key CHUNK chunk, key APPLY records log, or key MARK content".into()),
        };
        // Replicas also cache indexes, so invalidate the cache.
        let (db, key) = (selected_db(call.ctx), call.key.clone());
        call.keys.release();
        indexes::on_change(call.ctx, Change::Key(db, key.as_ref()));
        changed
    }
}

fn change<T: Native>(
    call: &mut InternalCall<'_>,
    event: &'static CStr,
    change: impl FnOnce(&mut T) -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    let key = call.key.clone();
    let changed = call.keys.change_native(&key, true, |value: &mut T| {
        let replicated = Replicated {
            by: By::TheCommand,
            event,
        };
        (change(value), Some(replicated))
    });
    match changed {
        Ok(changed) => changed.unwrap_or(Ok(())).map_err(|e| format!("ERR {e}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Applies the changes of the master. `records` names the plain hash from which the master packed
/// records; that hash on the replica contains the same records.
fn apply(
    call: &mut InternalCall<'_>,
    records: &[u8],
    log: &[u8],
) -> std::result::Result<(), String> {
    let records = RmString::new(records);
    // The server checks the permissions of the command's first key only, so check the other key
    // here. A replication link may have no user.
    let user = User::current_name(call.ctx);
    User::named_or_nobody(user.as_ref()).check(&records, Access::Read)?;
    let mut taken: Vec<Option<Value>> = Vec::new();
    let mut ops = Log::new(log);
    while let Some(op) = ops.next_op().map_err(|error| format!("ERR {error}"))? {
        if let Op::Take(take) = op {
            let record = call.keys.hash_get(&records, take.field);
            let record = record.map_err(|error| error.to_string())?;
            taken.push(record.map(|record| Value::from_slice(record.as_ref())));
        }
    }
    let mut taken = taken.into_iter();
    change(call, GATHERING.event, |packed: &mut Packed| {
        apply_log(packed, log, |_| taken.next().flatten())
    })
}

/// Registers the value types and their internal command with the server.
///
/// # Safety
/// Must be called once, with the context of the module's load.
pub unsafe fn register(ctx: Ctx) -> std::result::Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        native::register::<Packed>(ctx)?;
        native::register::<Marker>(ctx)?;
        register_internal::<ChangePacked>(ctx)
    }
}
