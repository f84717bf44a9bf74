//! Replies of the commands for operators. The fields have the names that the replies use.

use super::Millis;
use crate::reply::{as_optional_text, as_text};

map_reply! {
    /// Fetch status of a host group, with the reason why it is not being fetched from (`CHG.WHY`).
    Why {
        /// Host group (CHG).
        #[serde(serialize_with = "as_text")]
        chg: Vec<u8>,
        /// `ready`, `waiting`, `busy`, `idle`, `blocked`, `paused` or `gated`.
        state: String,
        /// Reason, as a sentence.
        why: String,
        /// Due time of the group. Does not consider holds without an end, such as a pause of the
        /// whole frontier.
        due: Millis,
        /// Milliseconds until the group is due.
        r#in: u64,
        /// Number of queued URIs.
        count: u64,
        /// End of the pause after the last fetch (the politeness gate).
        gate: Millis,
        /// End of the block; 0 if the group is not blocked.
        blocked_until: Millis,
        /// True if the group itself is paused.
        paused: bool,
        /// Active leases.
        leases: Vec<Leased>,
        /// Maximum number of parallel fetches.
        parallel: u64,
        /// Minimum time between the starts of two fetches, in milliseconds.
        gap: u64,
        /// Pause after a fetch that is stored for the group, in milliseconds.
        delay: Option<u64>,
        /// Number of URIs that the group still accepts. `None` for no limit.
        budget: Option<u64>,
        /// Name of the shared gate, if the group shares a gate with other CHGs.
        #[serde(serialize_with = "as_optional_text")]
        group: Option<Vec<u8>>,
        /// Time at which the shared gate opens.
        group_gate: Option<Millis>,
        /// Number of back-off steps.
        backoff: u64,
        /// Number of consecutive leases that expired.
        expired: u64,
        /// Executions with queued URIs, the first thousand.
        executions: Vec<Execution>,
        /// True if `executions` is truncated.
        more_executions: bool,
    }
}

map_reply! {
    /// An active lease in the reply of [`Why`].
    Leased {
        /// Token of the lease.
        token: u64,
        /// Time at which the lease was granted.
        granted: Millis,
        /// Age of the lease in milliseconds.
        age: u64,
        /// Time at which the lease expires.
        deadline: Millis,
        /// Execution of the leased URI, if the frontier stores URIs.
        #[serde(serialize_with = "as_optional_text")]
        execution: Option<Vec<u8>>,
        /// Leased URI, if the frontier stores URIs.
        #[serde(serialize_with = "as_optional_text")]
        uri: Option<Vec<u8>>,
    }
}

map_reply! {
    /// An execution with queued URIs in a group.
    Execution {
        /// Id of the execution.
        #[serde(serialize_with = "as_text")]
        execution: Vec<u8>,
        /// Weight of the execution: its share of the fetches.
        weight: Option<u64>,
        /// Number of its URIs in this group.
        uris: u64,
    }
}

map_reply! {
    /// Statistics of a frontier (`CHG.INFO`).
    Info {
        /// Groups in the waiting queue.
        groups_waiting: u64,
        /// Groups that are ready to be leased.
        groups_ready: u64,
        /// Groups that are leased.
        groups_busy: u64,
        /// Groups without URIs whose politeness gate is still closed.
        groups_idle: u64,
        /// Groups queued behind a closed shared gate, without the one member of each gate that
        /// waits on behalf of the others.
        groups_gated: u64,
        /// Groups that can be leased now: ready groups, and waiting groups that are due.
        due: u64,
        /// Time since the first of the due groups became due, in milliseconds.
        oldest_ready_ms: u64,
        /// Queued URIs.
        uris: u64,
        /// Executions with queued URIs.
        executions: u64,
        /// `all` if the whole frontier is paused, otherwise the number of paused executions.
        paused: String,
        /// Clients blocked in `NEXT`.
        waiters: u64,
        /// Leases granted.
        leases: u64,
        /// Leases released.
        releases: u64,
        /// Leases expired.
        expired: u64,
        /// Unread reports of expired leases.
        expired_reports: u64,
        /// Reports that were dropped because too many were unread.
        reports_dropped: u64,
        /// Leases granted per second, over the last seconds.
        rate_leases: u64,
        /// Measured pauses between two fetches of a group.
        pauses_observed: u64,
        /// Shortest measured pause, in milliseconds.
        smallest_pause_ms: Option<u64>,
        /// Requested length of the shortest pause, in milliseconds.
        smallest_pause_asked_ms: Option<u64>,
        /// Smallest difference between a measured pause and its requested length, in milliseconds: negative
        /// if a fetch came too early.
        smallest_margin_ms: Option<i64>,
        /// Token of the latest lease.
        token: u64,
    }
}

map_reply! {
    /// Result of a consistency check (`CHG.CHECK`) or repair (`CHG.REPAIR`).
    Check {
        /// Number of groups.
        groups: u64,
        /// Executions with queued URIs.
        executions: u64,
        /// Value of `QCT`, the total number of queued URIs.
        total: u64,
        /// Sum of the groups' counts.
        sum_groups: u64,
        /// Sum of the executions' counts.
        sum_executions: u64,
        /// True if no errors were found; a repair reports the state before it.
        consistent: bool,
        /// Descriptions of the errors, the first hundred.
        problems: Vec<String>,
        /// Total number of errors found.
        problems_total: u64,
        /// True if plain clients wrote to the frontier during the check, so that some findings may be false.
        disturbed: bool,
        /// Number of repairs made. `None` for a check, which repairs nothing.
        mended: Option<u64>,
    }
}
