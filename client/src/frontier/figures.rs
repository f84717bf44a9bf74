//! Replies of the commands for operators. The fields have the same names as in the replies.

use super::{Millis, Storage};
use crate::reply::{as_optional_text, as_text};

map_reply! {
    /// The state of a host group, with the reason why no worker fetches from it (`CHG.WHY`).
    Why {
        /// Host group (CHG).
        #[serde(serialize_with = "as_text")]
        chg: Vec<u8>,
        /// `ready`, `waiting`, `busy`, `idle`, `blocked`, `paused`, `limited`, `gated` or `freed`.
        state: String,
        /// The reason, as a sentence.
        why: String,
        /// Due time of the group. Ignores pauses without an end, such as a pause of the whole
        /// frontier.
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
        /// Pause after a fetch in milliseconds, as stored for the group.
        delay: Option<u64>,
        /// Number of URIs that the group still accepts. `None` for no limit.
        budget: Option<u64>,
        /// Name of the gate that the group shares with other groups, if there is one.
        #[serde(serialize_with = "as_optional_text")]
        group: Option<Vec<u8>>,
        /// Time at which the shared gate opens.
        group_gate: Option<Millis>,
        /// Number of back-off steps.
        backoff: u64,
        /// Number of consecutive leases that expired.
        expired: u64,
        /// The first 1000 executions with queued URIs.
        executions: Vec<Execution>,
        /// True if `executions` is truncated.
        more_executions: bool,
        /// The first 1000 limits of done URLs of the group.
        done_limits: Vec<DoneLimit>,
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
        /// Weight of the execution, which determines its share of the fetches.
        weight: Option<u64>,
        /// Number of URIs of the execution in this group.
        uris: u64,
    }
}

map_reply! {
    /// A limit of done URLs ([`Frontier::limit_done`](super::Frontier::limit_done)).
    DoneLimit {
        /// Id of the execution.
        #[serde(serialize_with = "as_text")]
        execution: Vec<u8>,
        /// Number of done URLs after which the group is no longer leased for the execution.
        limit: u64,
        /// Number of URLs of the execution in this group that are done.
        done: u64,
    }
}

map_reply! {
    /// Statistics of a frontier (`CHG.INFO`).
    Info {
        /// Number of groups in the waiting queue.
        groups_waiting: u64,
        /// Number of groups that are ready to be leased.
        groups_ready: u64,
        /// Number of groups that are leased.
        groups_busy: u64,
        /// Number of groups without URIs whose politeness pause has not ended yet.
        groups_idle: u64,
        /// Number of groups that are queued behind a closed shared gate. Excludes the
        /// representative of each gate, which waits for all groups of the gate.
        groups_gated: u64,
        /// Number of groups that can be leased now: ready groups, and waiting groups that are due.
        due: u64,
        /// Time since the earliest of the due groups became due, in milliseconds.
        oldest_ready_ms: u64,
        /// Earliest time at which a group may be leased; -1 if no group can be leased until another command
        /// changes the frontier.
        next_due_ms: i64,
        /// Number of queued URIs.
        uris: u64,
        /// Number of executions with queued URIs.
        executions: u64,
        /// `all` if the whole frontier is paused, otherwise the number of paused executions.
        paused: String,
        /// Number of clients that are blocked in `NEXT`.
        waiters: u64,
        /// Number of leases granted.
        leases: u64,
        /// Number of leases released.
        releases: u64,
        /// Number of leases that expired.
        expired: u64,
        /// Number of unread reports of expired leases.
        expired_reports: u64,
        /// Number of reports that were dropped because too many were unread.
        reports_dropped: u64,
        /// Number of leases granted per second, over the last seconds.
        rate_leases: u64,
        /// Number of measured pauses between two fetches of a group.
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
        /// Number of URLs that the frontier remembers, in all states.
        known: u64,
        /// Expected number of new URLs that were mistaken for known ones, as a decimal number.
        known_expected_lost: String,
        /// Storage format of the frontier.
        storage: Storage,
    }
}

map_reply! {
    /// Statistics of an execution (`CHG.INFO … EXECUTION`). The numbers by state are `None` if the execution
    /// does not remember its URLs.
    ExecutionInfo {
        /// Number of queued URIs, including leased ones.
        uris: u64,
        /// True if the execution is paused.
        paused: bool,
        /// Earliest time at which one of the URIs may be leased; -1 if no URI can be leased until another
        /// command changes the frontier.
        next_due_ms: i64,
        /// Number of queued URLs.
        queued: Option<u64>,
        /// Number of leased URLs.
        leased: Option<u64>,
        /// Number of URLs that were fetched.
        done: Option<u64>,
        /// Number of URLs whose leases expired too often.
        given_up: Option<u64>,
        /// Number of known URLs in all states.
        known: Option<u64>,
    }
}

map_reply! {
    /// Result of a consistency check (`CHG.CHECK`) or repair (`CHG.REPAIR`).
    Check {
        /// Number of groups.
        groups: u64,
        /// Number of executions with queued URIs.
        executions: u64,
        /// Value of `QCT`, the total number of queued URIs.
        total: u64,
        /// Sum of the groups' counts.
        sum_groups: u64,
        /// Sum of the executions' counts.
        sum_executions: u64,
        /// True if the check found no errors. A repair reports the state before the repair.
        consistent: bool,
        /// Descriptions of the first 100 errors.
        problems: Vec<String>,
        /// Total number of errors.
        problems_total: u64,
        /// True if plain clients wrote to the frontier during the check. Some findings may then be false.
        disturbed: bool,
        /// Number of texts of done URLs that are missing, wrong or needless; `None` for 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        wrong_texts: Option<u64>,
        /// Number of groups of an execution for which `NEXT … EXECUTION` has no time or a wrong time; `None` for 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        wrong_agendas: Option<u64>,
        /// Number of repairs made. `None` for a check, which repairs nothing.
        mended: Option<u64>,
    }
}
