//! Leases: the exclusive right to fetch from a host group for a limited time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::{Frontier, Millis, command, millis};
use crate::reply::{as_optional_text, as_text, shown};
use crate::server::{Ask, Call, Error, Steps};

/// Maximum waiting time that one call requests from the server. For longer waits, the client
/// repeats the call. The waiting time is shorter than the timeout after which the connection treats
/// a silent server as dead.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The right to fetch from one host group until the lease is released or its deadline passes.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// Host group (CHG).
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// Token of the lease, unique per lease.
    pub token: u64,
    /// Time at which the lease expires. After this time, another worker can lease the group.
    pub deadline: Millis,
    /// Time at which the group became due.
    pub due: Millis,
    /// Number of queued URIs of the group, including the leased one.
    pub count: u64,
    /// Execution that queued the URI. `None` when the frontier only counts URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// URI to fetch; the first URI if the lease has several. `None` when the frontier only counts
    /// URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
    /// All URIs to fetch, if the request set [`uris`](Next::uris), [`gate`](Next::gate) or
    /// [`execution`](Next::execution).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uris: Vec<LeasedUri>,
}

debug_as_text! { Lease { chg: text, token: plain, deadline: plain, due: plain, count: plain, execution: optional, uri: optional, uris: plain } }

/// A leased URI with its key, payload and counts.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct LeasedUri {
    /// URI to fetch.
    #[serde(serialize_with = "as_text")]
    pub uri: Vec<u8>,
    /// Key that identifies the request.
    #[serde(serialize_with = "as_optional_text")]
    pub key: Option<Vec<u8>>,
    /// Payload of the request.
    #[serde(serialize_with = "as_optional_text")]
    pub payload: Option<Vec<u8>>,
    /// Distance from a seed.
    pub depth: u32,
    /// Number of leases of the URI that expired.
    pub attempts: u32,
}

debug_as_text! { LeasedUri { uri: text, key: optional, payload: optional, depth: plain, attempts: plain } }

impl FromRedisValue for LeasedUri {
    fn from_redis_value(value: Value) -> Result<LeasedUri, ParsingError> {
        let (uri, key, payload, depth, attempts) = FromRedisValue::from_redis_value(value)?;
        Ok(LeasedUri {
            uri,
            key,
            payload,
            depth,
            attempts,
        })
    }
}

impl Lease {
    /// Returns the argument for releasing the lease after its URI was handled. A frontier that only counts
    /// URIs does not know the execution of a URI: the result is then [`Fetched::Nothing`], and the caller
    /// must pass [`Fetched::Done`] with the execution.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// frontier.release(&lease, &Pause::For(std::time::Duration::from_secs(1)), &lease.done())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn done(&self) -> Fetched<'_> {
        match &self.execution {
            Some(execution) => Fetched::Done {
                execution,
                count: self.uris.len().max(1) as u64,
            },
            None => Fetched::Nothing,
        }
    }
}

impl FromRedisValue for Lease {
    fn from_redis_value(value: Value) -> Result<Lease, ParsingError> {
        let mut value = value;
        let more = match &mut value {
            Value::Array(parts) if parts.len() == 8 => parts.pop(),
            _ => None,
        };
        let uris = more.map_or(Ok(Vec::new()), Vec::<LeasedUri>::from_redis_value)?;
        let (chg, token, deadline, due, count, execution, uri): (_, _, _, _, _, _, Option<_>) =
            FromRedisValue::from_redis_value(value)?;
        let first = uris.first().map(|first| first.uri.clone());
        Ok(Lease {
            chg,
            token,
            deadline,
            due,
            count,
            execution,
            uri: uri.or(first),
            uris,
        })
    }
}

/// Options of a request for leases.
#[derive(Clone)]
pub struct Next {
    /// Duration of the leases. The default is the server's `crawlspace.chg-lease`.
    pub lease: Option<Duration>,
    /// Maximum number of leases.
    pub count: u32,
    /// Behaviour when no group is due.
    pub wait: Wait,
    /// Requests only URIs of this execution. The frontier must be packed and store the URIs.
    pub execution: Option<Vec<u8>>,
    /// Maximum number of URIs of a lease, all of one group and one execution. Needs a packed frontier.
    pub uris: Option<u32>,
    /// Frees the group at once, and lets it be leased again after this pause. The URIs stay with the
    /// lease until its deadline; [`Frontier::end`] marks them as done. Needs a packed frontier.
    pub gate: Option<Duration>,
}

debug_as_text! { Next { lease: plain, count: plain, wait: plain, execution: optional, uris: plain, gate: plain } }

impl Next {
    /// Writes the options except for the time to wait.
    fn write_to(&self, command: &mut Cmd) {
        if let Some(lease) = self.lease {
            command.arg("LEASE").arg(millis(lease));
        }
        if let Some(execution) = &self.execution {
            command.arg("EXECUTION").arg(&execution[..]);
        }
        if let Some(uris) = self.uris {
            command.arg("URIS").arg(uris);
        }
        if let Some(gate) = self.gate {
            command.arg("GATE").arg(millis(gate));
        }
    }
}

impl Default for Next {
    /// Requests one lease, without waiting.
    fn default() -> Next {
        Next {
            lease: None,
            count: 1,
            wait: Wait::No,
            execution: None,
            uris: None,
            gate: None,
        }
    }
}

/// The time to wait for a due group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Return immediately.
    No,
    /// Wait up to this time.
    UpTo(Duration),
    /// Wait without limit.
    ForEver,
}

impl Wait {
    /// Returns the `BLOCK` argument in milliseconds, at most `max`, for a caller that has already
    /// waited for `waited`. Returns `None` if the server should not block.
    fn left(self, waited: Duration, max: Duration) -> Option<u64> {
        let left = match self {
            Wait::No => return None,
            Wait::UpTo(whole) => whole.checked_sub(waited)?.min(max),
            Wait::ForEver => max,
        };
        // `BLOCK 0` would wait without limit.
        Some(millis(left)).filter(|&ms| ms > 0)
    }
}

/// The pause of the group after a fetch.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// A pause until this time.
    Until(Millis),
    /// A pause of this length from now on.
    For(Duration),
    /// A pause that the server computes from the properties of the fetch.
    Computed(Facts),
    /// The pause that is stored for the group ([`Limits::delay`](super::Limits::delay)). If no
    /// pause is stored, the call fails.
    Stored,
}

impl From<Facts> for Pause {
    fn from(facts: Facts) -> Pause {
        Pause::Computed(facts)
    }
}

/// Properties of a fetch, from which the server computes the pause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Duration of the fetch.
    pub elapsed: Duration,
    /// Ratio of the pause to the duration of the fetch: 0 to 1000 with up to three decimals. The
    /// default is 1.
    pub factor: Option<f64>,
    /// Minimum pause.
    pub min: Option<Duration>,
    /// Maximum pause that results from the duration of the fetch.
    pub max: Option<Duration>,
    /// `Crawl-delay` of the host's robots.txt.
    pub crawl_delay: Option<Duration>,
    /// `Retry-After` header of the response, as a duration.
    pub retry_after: Option<Duration>,
    /// Status code of the response; negative if there was no response. After codes such as 429 and
    /// 503, the pause increases step by step (back-off).
    pub status: Option<i32>,
}

impl Facts {
    fn write_to(&self, command: &mut Cmd) {
        command.arg("ELAPSED").arg(millis(self.elapsed));
        if let Some(factor) = self.factor {
            // The server parses plain decimals with at most three digits after the point.
            command.arg("FACTOR").arg(format!("{factor:.3}"));
        }
        for (name, time) in [
            ("MIN", self.min),
            ("MAX", self.max),
            ("CRAWLDELAY", self.crawl_delay),
            ("RETRYAFTER", self.retry_after),
        ] {
            if let Some(time) = time {
                command.arg(name).arg(millis(time));
            }
        }
        if let Some(status) = self.status {
            command.arg("STATUS").arg(status);
        }
    }
}

/// The result for the URI of a lease.
#[derive(Clone, Copy)]
pub enum Fetched<'a> {
    /// The URI was handled and is removed. In a frontier that only counts URIs, subtracts `count`
    /// URIs from this execution.
    #[allow(missing_docs)]
    Done { execution: &'a [u8], count: u64 },
    /// The URI must be fetched again at this time.
    Retry(Millis),
    /// The group is free, and the URIs stay with the lease for this long; [`Frontier::end`] marks them as done. Needs
    /// a packed frontier.
    Later(Duration),
    /// The URI is queued again unchanged.
    Nothing,
}

impl std::fmt::Debug for Fetched<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done { execution, count } => f
                .debug_struct("Done")
                .field("execution", &shown::text(execution))
                .field("count", count)
                .finish(),
            Self::Retry(at) => f.debug_tuple("Retry").field(at).finish(),
            Self::Later(left) => f.debug_tuple("Later").field(left).finish(),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

impl<S: Ask> Frontier<S> {
    /// Releases a lease after the fetch (`CHG.RELEASE`). Returns the time at which the group is due
    /// again.
    ///
    /// A repeated call changes nothing and returns the first reply, unless another worker has
    /// leased the group since.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// let facts = Facts { elapsed: std::time::Duration::from_millis(300), ..Facts::default() };
    /// let due = frontier.release(&lease, &facts.into(), &lease.done())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `STALE` if the lease is no longer held, `NOCHG` if the group does not exist (nothing
    /// changes), or another server or connection error. After a retry, `STALE` may also mean that
    /// the first attempt succeeded and the group was leased again.
    pub fn release(
        &self,
        lease: &Lease,
        pause: &Pause,
        fetched: &Fetched<'_>,
    ) -> S::Answer<Millis> {
        let release = self.release_command(lease, pause, fetched);
        self.repeat(release)
    }

    fn release_command(&self, lease: &Lease, pause: &Pause, fetched: &Fetched<'_>) -> Cmd {
        let mut release = self.command("CHG.RELEASE");
        release.arg(&lease.chg[..]).arg(lease.token);
        match pause {
            Pause::Until(at) => {
                release.arg("AT").arg(at);
            }
            Pause::For(delay) => {
                release.arg("DELAY").arg(millis(*delay));
            }
            Pause::Computed(facts) => facts.write_to(&mut release),
            Pause::Stored => {}
        }
        match fetched {
            Fetched::Done { execution, count } => {
                release.arg("DONE").arg(*execution);
                if *count != 1 {
                    release.arg(count);
                }
            }
            Fetched::Retry(at) => {
                release.arg("RETRY").arg(at);
            }
            Fetched::Later(left) => {
                release.arg("LATER").arg(millis(*left));
            }
            Fetched::Nothing => {}
        }
        release
    }

    /// Marks URIs of a lease as done, all if none is named (`CHG.DONE`), even after the group was freed
    /// with [`Fetched::Later`] or [`Next::gate`]. Returns the number of URIs that were marked.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # use std::time::Duration;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// // The host is free while the page is parsed.
    /// let later = Fetched::Later(Duration::from_secs(60));
    /// frontier.release(&lease, &Pause::For(Duration::from_secs(1)), &later)?;
    /// frontier.end(&lease, &[])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `PLAIN` when the frontier is not packed, `STALE` when the deadline of the lease has passed, or
    /// another server or connection error.
    pub fn end(&self, lease: &Lease, names: &[&[u8]]) -> S::Answer<u64> {
        let mut done = self.command("CHG.DONE");
        done.arg(&lease.chg[..]).arg(lease.token);
        done.arg(lease.execution.as_deref().unwrap_or_default());
        done.arg(names);
        self.repeat(done)
    }

    /// Leases this group if it is due now and nothing holds it back (`CHG.NEXT … GROUP`). Never
    /// leases another group. Without `lease`, the lease lasts for the server's
    /// `crawlspace.chg-lease`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// if let Some(lease) = frontier.next_of(b"example.com", None)? {
    ///     println!("fetch from it now, until {}", lease.deadline);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when the group does not exist, or another server or connection error.
    pub fn next_of(
        &self,
        chg: impl AsRef<[u8]>,
        lease: Option<Duration>,
    ) -> S::Answer<Option<Lease>> {
        let chg = chg.as_ref();
        let mut next = self.command("CHG.NEXT");
        if let Some(lease) = lease {
            next.arg("LEASE").arg(millis(lease));
        }
        next.arg("GROUP").arg(chg);
        self.server.ask(
            Call::<Option<Vec<Lease>>>::new(next)
                .repeatable()
                .map(|leases| leases.and_then(|mut leases| leases.pop())),
        )
    }

    /// Leases URIs of this group as [`next`](Frontier::next) does, if it is due now and nothing holds it back
    /// (`CHG.NEXT … GROUP`). Ignores `next.count` and `next.wait`.
    ///
    /// # Errors
    /// `NOCHG` when the group does not exist, or another server or connection error.
    pub fn next_in(&self, chg: impl AsRef<[u8]>, next: &Next) -> S::Answer<Option<Lease>> {
        let mut command = self.command("CHG.NEXT");
        next.write_to(&mut command);
        command.arg("GROUP").arg(chg.as_ref());
        self.server.ask(
            Call::<Option<Vec<Lease>>>::new(command)
                .repeatable()
                .map(|leases| leases.and_then(|mut leases| leases.pop())),
        )
    }

    /// Extends a lease to last for `by` from now on (`CHG.EXTEND`). Returns the new deadline.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// let deadline = frontier.extend(&lease, std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `STALE` when the lease is no longer held, `NOCHG` when the group does not exist; or another server or
    /// connection error.
    pub fn extend(&self, lease: &Lease, by: Duration) -> S::Answer<Millis> {
        let mut extend = self.command("CHG.EXTEND");
        extend.arg(&lease.chg[..]).arg(lease.token).arg(millis(by));
        self.repeat(extend)
    }
}

impl<S: Steps> Frontier<S> {
    /// Leases the groups that have been due for the longest time (`CHG.NEXT`). Returns an empty
    /// list if no group became due during the wait.
    ///
    /// If the connection breaks and the reply is lost, the lease expires at its deadline, and
    /// another worker can then lease the group.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// use std::time::Duration;
    /// let next = Next { wait: Wait::UpTo(Duration::from_secs(60)), count: 10, ..Next::default() };
    /// for lease in frontier.next(&next)? {
    ///     println!("fetch from {} now", String::from_utf8_lossy(&lease.chg));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `UNBLOCKED` when the server became a replica during the wait, or another server or
    /// connection error.
    pub fn next(&self, next: &Next) -> S::Answer<Vec<Lease>> {
        let (frontier, next) = (self.clone(), next.clone());
        self.server
            .run(async move { frontier.take_next(next).await })
    }

    async fn take_next(&self, mut next: Next) -> Result<Vec<Lease>, Error> {
        let begun = Instant::now();
        let max = self.max_wait();
        let now = self.now;
        if now.is_some() {
            next.wait = Wait::No;
        }
        loop {
            let prefix = Arc::clone(&self.prefix);
            let asked = next.clone();
            let command = move || {
                let mut command = command("CHG.NEXT", &prefix, now);
                asked.write_to(&mut command);
                if asked.count != 1 {
                    command.arg("COUNT").arg(asked.count);
                }
                if let Some(block) = asked.wait.left(begun.elapsed(), max) {
                    command.arg("BLOCK").arg(block);
                }
                command
            };
            let mut call = Call::<Option<Vec<Lease>>>::new(command()).repeatable();
            if next.wait != Wait::No {
                call = call.waits();
            }
            match self.server.step(call.renewal(command)).await? {
                Some(leases) => return Ok(leases),
                // `CLIENT UNBLOCK` also ends a wait. If the caller waits without limit, repeat the
                // request.
                None if next.wait.left(begun.elapsed(), max).is_some() => {}
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Returns the maximum wait per call, which is shorter than the timeout for a silent server.
    fn max_wait(&self) -> Duration {
        MAX_WAIT.min(self.server.max_wait())
    }

    /// Releases a lease and requests the next lease in the same round trip (`CHG.RELEASE … NEXT`).
    /// Ignores `next.count`: a release returns at most one new lease.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// use std::time::Duration;
    /// let facts = Facts { elapsed: Duration::from_millis(300), status: Some(200), ..Facts::default() };
    /// let next = Next { wait: Wait::ForEver, ..Next::default() };
    /// let (due, next_lease) = frontier.release_and_next(&lease, &facts.into(), &lease.done(), &next)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`release`](Frontier::release), and `UNBLOCKED` when the server
    /// became a replica during the wait; the lease is released in that case.
    pub fn release_and_next(
        &self,
        lease: &Lease,
        pause: &Pause,
        fetched: &Fetched<'_>,
        next: &Next,
    ) -> S::Answer<(Millis, Option<Lease>)> {
        let begun = Instant::now();
        let mut release = self.release_command(lease, pause, fetched);
        release.arg("NEXT");
        next.write_to(&mut release);
        let mut next = next.clone();
        if self.now.is_some() {
            next.wait = Wait::No;
        }
        let block = next.wait.left(Duration::ZERO, self.max_wait());
        if let Some(block) = block {
            release.arg("BLOCK").arg(block);
        }
        let mut release = Call::<(Millis, Option<Lease>)>::new(release).repeatable();
        if block.is_some() {
            release = release.waits();
        }
        let frontier = self.clone();
        self.server.run(async move {
            let (due, taken) = frontier.server.step(release).await?;
            if taken.is_some() || next.wait == Wait::No {
                return Ok((due, taken));
            }
            // Either the server has waited for the maximum time of one call, or the call was a
            // retry, which does not wait.
            let wait = match next.wait {
                Wait::UpTo(whole) => match whole.checked_sub(begun.elapsed()) {
                    Some(left) => Wait::UpTo(left),
                    None => return Ok((due, None)),
                },
                for_ever => for_ever,
            };
            let rest = Next {
                wait,
                count: 1,
                ..next
            };
            Ok((due, frontier.take_next(rest).await?.pop()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_shorter_than_the_connection_timeout() {
        let hour = Duration::from_secs(3600);
        let max = MAX_WAIT.as_millis() as u64;
        assert!(MAX_WAIT < crate::server::TIMEOUT);
        assert_eq!(Wait::No.left(Duration::ZERO, MAX_WAIT), None);
        assert_eq!(Wait::UpTo(hour).left(Duration::ZERO, MAX_WAIT), Some(max));
        assert_eq!(Wait::ForEver.left(hour, MAX_WAIT), Some(max));
        let left = Wait::UpTo(hour).left(hour - Duration::from_millis(7), MAX_WAIT);
        assert_eq!(left, Some(7));
        let left = Wait::UpTo(hour).left(hour - Duration::from_micros(7), MAX_WAIT);
        assert_eq!(left, Some(1));
        // `BLOCK 0` would wait without limit.
        assert_eq!(Wait::UpTo(hour).left(hour, MAX_WAIT), None);
        assert_eq!(Wait::UpTo(hour).left(2 * hour, MAX_WAIT), None);
    }
}
