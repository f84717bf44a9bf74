//! Leases: the right to fetch from a group of hosts, for a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::{Frontier, Millis, command, millis};
use crate::reply::{as_optional_text, as_text, shown};
use crate::server::{Ask, Call, Error, Steps};

/// Maximum wait that the server is asked for, before the client asks again. Less than the time
/// after which the connection gives a silent server up for dead.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The right to fetch from one group of hosts, until it is released or its deadline passes.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// The group.
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// The token of the lease, unique to it.
    pub token: u64,
    /// The deadline, after which the group goes to another worker.
    pub deadline: Millis,
    /// When the group became due.
    pub due: Millis,
    /// How many URIs of the group are queued, the leased one included.
    pub count: u64,
    /// Whose URI this is. `None` when the frontier only counts URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// What to fetch. `None` when the frontier only counts URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
}

debug_as_text! { Lease { chg: text, token: plain, deadline: plain, due: plain, count: plain, execution: optional, uri: optional } }

impl Lease {
    /// What to release it with when its URI is dealt with. Where the frontier only counts URIs it does not
    /// know whose: then this is [`Fetched::Nothing`], and the caller says [`Fetched::Done`] with the execution.
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
                count: 1,
            },
            None => Fetched::Nothing,
        }
    }
}

impl FromRedisValue for Lease {
    fn from_redis_value(value: Value) -> Result<Lease, ParsingError> {
        let (chg, token, deadline, due, count, execution, uri) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Lease {
            chg,
            token,
            deadline,
            due,
            count,
            execution,
            uri,
        })
    }
}

/// What leases are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// How long they last; the server's `crawlspace.chg-lease` when it is not said.
    pub lease: Option<Duration>,
    /// How many at most.
    pub count: u32,
    /// What to do when no group is due.
    pub wait: Wait,
}

impl Default for Next {
    /// One, and only if there is one now.
    fn default() -> Next {
        Next {
            lease: None,
            count: 1,
            wait: Wait::No,
        }
    }
}

/// How long to wait for a group that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The call does not wait.
    No,
    /// Up to this time.
    UpTo(Duration),
    /// The call waits until there is a lease.
    ForEver,
}

impl Wait {
    /// For how many milliseconds the server is to be asked to wait, after so long. `None`: not at all.
    /// Not for longer than `max` at a time.
    fn left(self, waited: Duration, max: Duration) -> Option<u64> {
        let left = match self {
            Wait::No => return None,
            Wait::UpTo(whole) => whole.checked_sub(waited)?.min(max),
            Wait::ForEver => max,
        };
        // 0 would mean for ever.
        Some(millis(left)).filter(|&ms| ms > 0)
    }
}

/// How long the group has to be left alone now.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// Until then.
    Until(Millis),
    /// A pause of this time from now on.
    For(Duration),
    /// A pause that the server computes from these facts.
    Computed(Facts),
    /// For as long as is stored for the group ([`Limits::delay`](super::Limits::delay)); an error when
    /// nothing is.
    Stored,
}

impl From<Facts> for Pause {
    fn from(facts: Facts) -> Pause {
        Pause::Computed(facts)
    }
}

/// What a fetch was like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// How long it took.
    pub elapsed: Duration,
    /// Factor of the pause: 0 to 1000, of which three decimals count; 1 by default.
    pub factor: Option<f64>,
    /// Minimum of the pause.
    pub min: Option<Duration>,
    /// Maximum of the pause that is computed from the time that the fetch took.
    pub max: Option<Duration>,
    /// `Crawl-delay` of the host's robots.txt.
    pub crawl_delay: Option<Duration>,
    /// `Retry-After` of the answer.
    pub retry_after: Option<Duration>,
    /// The status of the answer; negative when there was none. 429, 503 and their like make the server
    /// back off, step by step.
    pub status: Option<i32>,
}

impl Facts {
    fn write_to(&self, command: &mut Cmd) {
        command.arg("ELAPSED").arg(millis(self.elapsed));
        if let Some(factor) = self.factor {
            // The server reads plain decimals, and no more than three.
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

/// What becomes of the URI of a lease.
#[derive(Clone, Copy)]
pub enum Fetched<'a> {
    /// The URI is dealt with. Where the frontier only counts URIs: `count` of this execution are.
    #[allow(missing_docs)]
    Done { execution: &'a [u8], count: u64 },
    /// The URI is retried at this time.
    Retry(Millis),
    /// The URI goes back as it was.
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
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

impl<S: Ask> Frontier<S> {
    /// `CHG.RELEASE`: the fetch has ended. Gives the time at which the group will be due.
    ///
    /// Sending it twice changes nothing and gives the first answer, as long as no other worker has leased the group
    /// since.
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
    /// `STALE` when the lease is not held any more, `NOCHG` when there is no such group (nothing was
    /// changed); or when the server refuses or cannot be reached. After a connection that broke, `STALE`
    /// may also mean that the release was done and the group is leased again.
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
            Fetched::Nothing => {}
        }
        release
    }

    /// `CHG.NEXT … GROUP`: a lease of this group and no other, if it is due now and nothing holds it back.
    /// Without `lease` it lasts for the server's `crawlspace.chg-lease`.
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
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
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

    /// `CHG.EXTEND`: the lease lasts so long from now on. Gives the new deadline.
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
    /// `STALE` when the lease is not held any more, `NOCHG` when there is no such group; or when the server
    /// refuses or cannot be reached.
    pub fn extend(&self, lease: &Lease, by: Duration) -> S::Answer<Millis> {
        let mut extend = self.command("CHG.EXTEND");
        extend.arg(&lease.chg[..]).arg(lease.token).arg(millis(by));
        self.repeat(extend)
    }
}

impl<S: Steps> Frontier<S> {
    /// `CHG.NEXT`: leases of the groups that have been due for the longest time. Empty when there were none in time.
    ///
    /// A lease that a broken connection swallowed runs out at its deadline, and the group goes to somebody
    /// else.
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
    /// `UNBLOCKED` when the server became a replica while this waited; or when the server refuses or cannot
    /// be reached.
    pub fn next(&self, next: &Next) -> S::Answer<Vec<Lease>> {
        let (frontier, next) = (self.clone(), *next);
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
            let command = move || {
                let mut command = command("CHG.NEXT", &prefix, now);
                if let Some(lease) = next.lease {
                    command.arg("LEASE").arg(millis(lease));
                }
                if next.count != 1 {
                    command.arg("COUNT").arg(next.count);
                }
                if let Some(block) = next.wait.left(begun.elapsed(), max) {
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
                // `CLIENT UNBLOCK` also ends a wait; a caller that waits for ever asks again then as well.
                None if next.wait.left(begun.elapsed(), max).is_some() => {}
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Less than the time after which the connection gives a silent server up for dead.
    fn max_wait(&self) -> Duration {
        MAX_WAIT.min(self.server.max_wait())
    }

    /// `CHG.RELEASE … NEXT`: the same, and the next lease in the same round trip. `next.count` is not
    /// looked at: one lease is given for one that was released.
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
    /// As [`release`](Frontier::release), and `UNBLOCKED` when the server became a replica while this
    /// waited: the release is done then.
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
        if let Some(lease) = next.lease {
            release.arg("LEASE").arg(millis(lease));
        }
        let mut next = *next;
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
            // It waited for as long as a call may, or it was sent again: such a call does not wait.
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
    fn the_server_is_never_asked_to_wait_for_longer_than_the_connection_does() {
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
        // `BLOCK 0` would be for ever.
        assert_eq!(Wait::UpTo(hour).left(hour, MAX_WAIT), None);
        assert_eq!(Wait::UpTo(hour).left(2 * hour, MAX_WAIT), None);
    }
}
