//! The state of a crawl in each shard.

use super::Sharded;
use super::marks::Marks;
use crate::dedupe::Index;
use crate::server::{Ask, Batch, Call, Error, Pending, Steps};

/// Maximum number of crawls per batch of queries.
pub(super) const BATCH: usize = 500;

/// The state of a crawl in one shard, according to the plain keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// True if the crawl is part of the shard's merged index.
    pub committed: bool,
    /// True if the shard lists the crawl as uncommitted.
    pub uncommitted: bool,
    /// True if a removal is running or was interrupted.
    pub removing: bool,
    /// True if a cancel is running or was interrupted.
    pub canceling: bool,
}

impl Standing {
    /// Returns true if the shard does not know the crawl.
    pub fn is_nowhere(&self) -> bool {
        *self == Standing::default()
    }

    /// Returns true if a removal would change this shard.
    pub fn is_removable(&self) -> bool {
        self.committed || self.removing
    }

    /// Returns true if a cancel would change this shard.
    pub fn is_cancelable(&self) -> bool {
        (self.uncommitted && !self.removing) || self.canceling
    }
}

/// The states of a crawl in all shards, the home shard first.
#[derive(Clone, Debug)]
pub(super) struct Standings(pub Vec<Standing>);

impl Standings {
    pub fn home(&self) -> &Standing {
        &self.0[0]
    }

    pub fn others(&self) -> &[Standing] {
        &self.0[1..]
    }

    pub fn is_nowhere(&self) -> bool {
        self.0.iter().all(Standing::is_nowhere)
    }
}

/// Pending replies about some crawls in one shard.
struct StandingCalls {
    committed: Pending<Vec<bool>>,
    uncommitted: Pending<Vec<bool>>,
    removing: Pending<Vec<Option<Vec<u8>>>>,
}

impl StandingCalls {
    fn of(shard: &Index<Batch>, crawls: &[&[u8]]) -> StandingCalls {
        let command = |name: &str, key: &[u8]| {
            let mut command = redis::cmd(name);
            command.arg(shard.key(key)).arg(crawls);
            command
        };
        let are_in = |set: &[u8]| {
            let members = Call::new(command("SMISMEMBER", set));
            shard.server().ask(members.repeatable())
        };
        let removing = Call::new(command("HMGET", b"removing"));
        StandingCalls {
            committed: are_in(b"allcrawls"),
            uncommitted: are_in(b"uncommittedcrawls"),
            removing: shard.server().ask(removing.repeatable()),
        }
    }

    /// Returns the states of the crawls.
    fn take(self) -> Result<impl Iterator<Item = Standing>, Error> {
        let sets = self.committed.take()?.into_iter();
        let sets = sets.zip(self.uncommitted.take()?);
        let all = sets.zip(self.removing.take()?);
        let canceling = |state: &Vec<u8>| state.starts_with(b"cancel ");
        Ok(
            all.map(move |((committed, uncommitted), removing)| Standing {
                committed,
                uncommitted,
                removing: removing.as_ref().is_some_and(|state| !canceling(state)),
                canceling: removing.as_ref().is_some_and(canceling),
            }),
        )
    }
}

impl<S: Steps> Sharded<S> {
    /// Returns the states of these crawls, and all marks of the index.
    pub(super) async fn standings(
        &self,
        crawls: &[&[u8]],
    ) -> Result<(Vec<Standings>, Marks), Error> {
        let marks = self.server().step(self.marks_call()).await?;
        let mut standings = Vec::with_capacity(crawls.len());
        for some in crawls.chunks(BATCH) {
            standings.extend(self.standings_of(some).await?);
        }
        Ok((standings, marks))
    }

    async fn standings_of(&self, crawls: &[&[u8]]) -> Result<Vec<Standings>, Error> {
        let batch = Batch::new();
        let shards = self.shards().iter();
        let asked: Vec<StandingCalls> = shards
            .map(|shard| StandingCalls::of(&shard.over(&batch), crawls))
            .collect();
        self.server().step_batch(&batch).await?;
        let mut standings = vec![Standings(Vec::new()); crawls.len()];
        for of_shard in asked {
            for (crawl, standing) in standings.iter_mut().zip(of_shard.take()?) {
                crawl.0.push(standing);
            }
        }
        Ok(standings)
    }

    /// Returns the state of one crawl, and all marks of the index.
    pub(super) async fn standing(&self, crawl: &[u8]) -> Result<(Standings, Marks), Error> {
        let (mut standings, marks) = self.standings(&[crawl]).await?;
        match standings.pop() {
            Some(standing) => Ok((standing, marks)),
            None => unreachable!("one standing per crawl"),
        }
    }

    /// Returns the members of a set in each shard.
    pub(super) async fn members(&self, name: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Error> {
        let batch = Batch::new();
        let shards = self.shards().iter();
        let asked: Vec<Pending<Vec<Vec<u8>>>> = shards
            .map(|shard| {
                let mut members = redis::cmd("SMEMBERS");
                members.arg(shard.key(name));
                batch.ask(Call::new(members).repeatable())
            })
            .collect();
        self.server().step_batch(&batch).await?;
        asked.into_iter().map(Pending::take).collect()
    }
}
