//! Names of the keys of a frontier.

use crate::keyspace::Keyspace;

/// Longest id of a group, execution, writer or shared gate, in bytes.
pub const ID_BYTES: usize = 1024;

/// Names of the keys that a frontier has once, and of the fields of a group.
pub struct Names<N> {
    /// `chg_wait`: groups by due time.
    pub wait: N,
    /// `chg_busy`: groups by the deadline of their first lease to run out.
    pub busy: N,
    /// `chg_ready`: groups that are due, longest-ready first.
    pub ready: N,
    /// `EIDC`: crawl execution -> queued URIs.
    pub executions: N,
    /// `QCT`: all queued URIs.
    pub total: N,
    /// `chg_idle`: groups with nothing queued, by the time when they are forgotten.
    pub idle: N,
    /// `chg_gated`: how many groups stand behind shared gates.
    pub gated: N,
    /// `chg_token`: the token minted last.
    pub token: N,
    /// `chg_past`: groups that are forgotten, by the token of their last release.
    pub past: N,
    /// `chg_answers`: what was answered to these releases.
    pub answers: N,
    /// `chg_paused`: what is paused beside single groups.
    pub paused: N,
    /// `chg_expired`: reports of leases that ran out.
    pub expired: N,
    /// `CHG:`, which stands for the keys of all groups where permissions are checked.
    pub any_group: N,
    /// Fields of `CHG:<id>`.
    pub field: Fields<N>,
}

/// Fields of the hash of a group.
pub struct Fields<N> {
    /// `n`: due time.
    pub due: N,
    /// `c`: queued URIs.
    pub count: N,
    /// `s`: due time as this module wrote it, gate, last release, back-off.
    pub state: N,
    /// `l`: leases held, and the release that was last.
    pub leases: N,
    /// `o`: limits and holds.
    pub options: N,
    /// `x`: group of the lease that the last release took.
    pub next: N,
}

impl<N> Names<N> {
    /// The names for a prefix.
    pub fn new<K: Keyspace<Name = N>>(ks: &mut K, prefix: &[u8]) -> Names<N> {
        let mut name = |ending: &[u8]| ks.name(&[prefix, ending]);
        Names {
            wait: name(b"chg_wait"),
            busy: name(b"chg_busy"),
            ready: name(b"chg_ready"),
            executions: name(b"EIDC"),
            total: name(b"QCT"),
            idle: name(b"chg_idle"),
            gated: name(b"chg_gated"),
            token: name(b"chg_token"),
            past: name(b"chg_past"),
            answers: name(b"chg_answers"),
            paused: name(b"chg_paused"),
            expired: name(b"chg_expired"),
            any_group: name(GROUP),
            field: Fields {
                due: ks.name(&[b"n"]),
                count: ks.name(&[b"c"]),
                state: ks.name(&[b"s"]),
                leases: ks.name(&[b"l"]),
                options: ks.name(&[b"o"]),
                next: ks.name(&[b"x"]),
            },
        }
    }
}

/// What stands before the id in the name of a group's hash.
pub const GROUP: &[u8] = b"CHG:";
/// The same for the URIs that are kept for it.
pub const URIS: &[u8] = b"chg_uris:";
/// The same for a shared gate.
pub const GATE: &[u8] = b"chg_gate:";
/// The same for the groups that wait behind one.
pub const GATED: &[u8] = b"chg_gated:";
/// The same for numbered commands of an execution.
pub const SEQUENCE: &[u8] = b"chg_seq:";
/// What stands before an execution in the field of a group that counts its URIs.
pub const COUNTED: &[u8] = b"e:";
