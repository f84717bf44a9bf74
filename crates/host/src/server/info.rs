//! `INFO crawlspace`: metrics, data sets and jobs.

use std::ffi::CString;
use std::fmt::Write;
use std::os::raw::{c_int, c_ulonglong};

use super::api::{Ctx, raw, rm};
use super::facts::policy_may_evict;
use super::guard::guarded;
use super::job;
use super::main_thread::MainThread;
use super::metric::{Metric, OWN};
use super::scope::Names;

/// The data sets of a family, which `INFO` lists by name: `index_0:db=0,prefix={coll-42}:`.
#[derive(Clone, Copy)]
pub struct Named {
    /// The word for one data set, such as `index`.
    pub what: &'static str,
    /// The name of the value that identifies a data set: `prefix` or `key`.
    pub by: &'static str,
    /// Function that returns the names of the data sets.
    pub names: fn() -> Names,
}

/// Maximum number of jobs in the list.
const MAX_JOBS: usize = 64;

type Shown = (&'static [&'static Metric], Named);

/// The metrics and data sets of each family.
static FAMILIES: MainThread<Vec<Shown>> = MainThread::new(Vec::new());

/// Escapes bytes from clients for a field with several values. Printable ASCII stays unchanged,
/// except for characters that end a value. All other bytes become `\xNN`.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b',' | b'=' | b'\\' => {}
            0x21..=0x7e => {
                text.push(char::from(byte));
                continue;
            }
            _ => {}
        }
        let _ = write!(text, "\\x{byte:02x}");
    }
    text
}

/// Returns a field for each data set and each job. Each field has several values.
fn listed(families: &[Shown]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for (_, Named { what, by, names }) in families {
        for (n, (db, name)) in names().into_iter().enumerate() {
            let name = escaped(&name);
            fields.push((format!("{what}_{n}"), format!("db={db},{by}={name}")));
        }
    }
    let mut jobs = 0;
    job::each(|id, completion| {
        if jobs == MAX_JOBS {
            return;
        }
        let of = id
            .arguments
            .first()
            .map_or_else(String::new, |first| escaped(first));
        let (db, prefix, kind) = (id.db, escaped(&id.prefix), id.kind);
        let work = id.work.replace(' ', "-");
        let (done, total) = (completion.done, completion.total);
        fields.push((
            format!("job_{jobs}"),
            format!(
                "db={db},prefix={prefix},kind={kind},work={work},of={of},done={done},total={total}"
            ),
        ));
        jobs += 1;
    });
    fields
}

extern "C" fn report(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    if for_crash_report != 0 {
        return;
    }
    let _ = guarded("INFO", || {
        // SAFETY: main thread, the info context of this callback; the server copies the texts.
        unsafe {
            rm!(RedisModule_InfoAddSection(info, c"".as_ptr()));
            let families = FAMILIES.borrow();
            let figures = families.iter().flat_map(|(figures, _)| figures.iter());
            for metric in figures.chain(OWN) {
                let n = metric.get() as c_ulonglong;
                rm!(RedisModule_InfoAddFieldULongLong(
                    info,
                    metric.name.as_ptr(),
                    n
                ));
            }
            let evicting = c_ulonglong::from(policy_may_evict());
            rm!(RedisModule_InfoAddFieldULongLong(
                info,
                c"evicting_policy".as_ptr(),
                evicting
            ));
            for (name, value) in listed(&families) {
                let text = |text: String| CString::new(text).unwrap_or_default();
                let (name, value) = (text(name), text(value));
                rm!(RedisModule_InfoAddFieldCString(
                    info,
                    name.as_ptr(),
                    value.as_ptr()
                ));
            }
        }
    });
}

/// Registers the metrics with the server.
///
/// # Safety
/// Called once, with the context of the module's load.
pub unsafe fn register(ctx: Ctx, families: impl Iterator<Item = Shown>) {
    FAMILIES.borrow().extend(families);
    // SAFETY: by contract.
    unsafe { rm!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(report))) };
}
