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

/// Pending replies about a crawl in one shard.
struct StandingCalls {
    committed: Pending<bool>,
    uncommitted: Pending<bool>,
    removing: Pending<Option<Vec<u8>>>,
}

impl StandingCalls {
    fn of(shard: &Index<Batch>, crawl: &[u8]) -> StandingCalls {
        let member = |set: &[u8]| {
            let mut member = redis::cmd("SISMEMBER");
            member.arg(shard.key(set)).arg(crawl);
            shard.server().ask(Call::new(member).repeatable())
        };
        let mut removing = redis::cmd("HGET");
        removing.arg(shard.key(b"removing")).arg(crawl);
        StandingCalls {
            committed: member(b"allcrawls"),
            uncommitted: member(b"uncommittedcrawls"),
            removing: shard.server().ask(Call::new(removing).repeatable()),
        }
    }

    fn take(self) -> Result<Standing, Error> {
        let removing = self.removing.take()?;
        let canceling = |state: &Vec<u8>| state.starts_with(b"cancel ");
        Ok(Standing {
            committed: self.committed.take()?,
            uncommitted: self.uncommitted.take()?,
            removing: removing.as_ref().is_some_and(|state| !canceling(state)),
            canceling: removing.as_ref().is_some_and(canceling),
        })
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
        let asked: Vec<Vec<StandingCalls>> = crawls
            .iter()
            .map(|crawl| {
                let shards = self.shards().iter();
                shards
                    .map(|shard| StandingCalls::of(&shard.over(&batch), crawl))
                    .collect()
            })
            .collect();
        self.server().step_batch(&batch).await?;
        let mut standings = Vec::with_capacity(asked.len());
        for of_crawl in asked {
            let of_crawl: Result<_, _> = of_crawl.into_iter().map(StandingCalls::take).collect();
            standings.push(Standings(of_crawl?));
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
