//! What the commands for operators answer: maps, whose fields have the names of the reply.

use super::Millis;
use crate::reply::{as_optional_text, as_text};

map_reply! {
    /// Why a group is not being fetched from (`CHG.WHY`).
    Why {
        /// The group.
        #[serde(serialize_with = "as_text")]
        chg: Vec<u8>,
        /// `ready`, `waiting`, `busy`, `idle`, `blocked`, `paused` or `gated`.
        state: String,
        /// The reason, in a sentence.
        why: String,
        /// When it is due, as far as that depends on the time.
        due: Millis,
        /// Milliseconds until then.
        r#in: u64,
        /// URIs queued.
        count: u64,
        /// The politeness gate: when the pause after the last fetch is over.
        gate: Millis,
        /// Until when it is blocked; 0 when it is not.
        blocked_until: Millis,
        /// Whether it is paused by itself.
        paused: bool,
        /// Leases that are held.
        leases: Vec<Leased>,
        /// How many fetches at a time it allows.
        parallel: u64,
        /// The shortest time between two beginnings of fetches, in milliseconds.
        gap: u64,
        /// The pause after a fetch that is stored for it, in milliseconds.
        delay: Option<u64>,
        /// How many more URIs it takes in. `None`: any number.
        budget: Option<u64>,
        /// The group of CHGs that share a gate with it.
        #[serde(serialize_with = "as_optional_text")]
        group: Option<Vec<u8>>,
        /// When that shared gate opens.
        group_gate: Option<Millis>,
        /// Steps of back-off.
        backoff: u64,
        /// Leases that ran out in a row.
        expired: u64,
        /// Executions with queued URIs, the first thousand.
        executions: Vec<Execution>,
        /// Whether there are more of them.
        more_executions: bool,
    }
}

map_reply! {
    /// A lease that is held, as [`Why`] shows it.
    Leased {
        /// The lease's token.
        token: u64,
        /// When it was given.
        granted: Millis,
        /// How long ago that was, in milliseconds.
        age: u64,
        /// When it runs out.
        deadline: Millis,
        /// Whose URI is leased, if the frontier keeps URIs.
        #[serde(serialize_with = "as_optional_text")]
        execution: Option<Vec<u8>>,
        /// The URI that is leased, if the frontier keeps URIs.
        #[serde(serialize_with = "as_optional_text")]
        uri: Option<Vec<u8>>,
    }
}

map_reply! {
    /// An execution with URIs in a group.
    Execution {
        /// The execution's id.
        #[serde(serialize_with = "as_text")]
        execution: Vec<u8>,
        /// The execution's share of the fetches.
        weight: Option<u64>,
        /// The execution's URIs in this group.
        uris: u64,
    }
}

map_reply! {
    /// The figures of a frontier (`CHG.INFO`).
    Info {
        /// Groups that wait for their time.
        groups_waiting: u64,
        /// Groups that can be leased.
        groups_ready: u64,
        /// Groups that are leased.
        groups_busy: u64,
        /// Groups without URIs whose politeness gate is not over yet.
        groups_idle: u64,
        /// Groups that are queued behind a closed gate which they share with others; one of those waits for all.
        groups_gated: u64,
        /// Groups that can be leased now: the ready ones, and those that wait and whose time has come.
        due: u64,
        /// For how long the first of them has been so, in milliseconds.
        oldest_ready_ms: u64,
        /// URIs queued.
        uris: u64,
        /// Executions with queued URIs.
        executions: u64,
        /// `all` when everything is paused, else the number of executions that are.
        paused: String,
        /// Clients that wait in `NEXT`.
        waiters: u64,
        /// Leases given.
        leases: u64,
        /// Leases released.
        releases: u64,
        /// Leases that ran out.
        expired: u64,
        /// Unread reports of them.
        expired_reports: u64,
        /// Reports that were not kept, because too many were unread.
        reports_dropped: u64,
        /// Leases a second, over the last seconds.
        rate_leases: u64,
        /// Pauses between two fetches of a group that were measured.
        pauses_observed: u64,
        /// The shortest of them, in milliseconds.
        smallest_pause_ms: Option<u64>,
        /// What was asked for that one.
        smallest_pause_asked_ms: Option<u64>,
        /// The smallest difference between a pause and what was asked for it: negative if a fetch came too soon.
        smallest_margin_ms: Option<i64>,
        /// The token that was given last.
        token: u64,
    }
}

map_reply! {
    /// Whether the frontier is consistent (`CHG.CHECK`), and what was mended if it was not (`CHG.REPAIR`).
    Check {
        /// Groups.
        groups: u64,
        /// Executions with queued URIs.
        executions: u64,
        /// `QCT`.
        total: u64,
        /// Sum of the groups' counts.
        sum_groups: u64,
        /// Sum of the executions' counts.
        sum_executions: u64,
        /// Whether nothing is wrong, or was before it was mended.
        consistent: bool,
        /// What is or was wrong: the first hundred.
        problems: Vec<String>,
        /// How many things are or were wrong.
        problems_total: u64,
        /// Whether plain clients wrote to the frontier meanwhile, so that some findings may not be true.
        disturbed: bool,
        /// How many things were mended. `None` for a check, which mends nothing.
        mended: Option<u64>,
    }
}
