//! A dedupe index under one prefix, or spread over many.

use crawlspace_client::dedupe::feed::BatchAdd;
use crawlspace_client::dedupe::{
    Added, Adding, Check, Committed, Crawl, CrawlStats, Dependent, Index, Listed, Located, Moved,
    Of, Original, Profile, Removed, Required, Retained, Revisited, Sequence, Sharded, Stats,
};
use crawlspace_client::{Batch, Error, Pending, Server};

/// An index of either kind, with the calls that both have.
#[derive(Clone, Debug)]
pub enum AnyIndex {
    /// An index under one prefix.
    One(Index),
    /// A sharded index.
    Sharded(Sharded),
}

/// Defines the calls, which both kinds have with the same arguments.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $reply:ty;)*) => {
        impl AnyIndex {
            $(
                #[doc = concat!("Calls [`Index::", stringify!($name), "`] or the call of [`Sharded`] with the same name.")]
                ///
                /// # Errors
                /// The errors of this call.
                pub fn $name(&self, $($argument: $type),*) -> Result<$reply, Error> {
                    match self {
                        AnyIndex::One(index) => index.$name($($argument),*),
                        AnyIndex::Sharded(index) => index.$name($($argument),*),
                    }
                }
            )*
        }
    };
}

calls! {
    stats() -> Stats;
    sampled_stats(samples: u32) -> Stats;
    crawl_stats(crawl: &[u8]) -> CrawlStats;
    crawls(listed: Option<Listed>) -> Vec<Crawl>;
    lookup(crawl: Option<&[u8]>, hashes: &[&[u8]]) -> Vec<Option<Original>>;
    lookup_with_wacz(crawl: Option<&[u8]>, hashes: &[&[u8]]) -> Vec<Option<Located>>;
    requires(of: Of<'_>, transitive: bool) -> Vec<Required>;
    required_by(crawl: &[u8]) -> Vec<Dependent>;
    write(crawl: &[u8], sequence: Sequence<'_>, added: &[Added<'_>], revisited: &[Revisited<'_>]) -> ();
    commit(crawl: &[u8]) -> Committed;
    cancel(crawl: &[u8]) -> u64;
    remove(crawls: &[&[u8]]) -> Removed;
    retain(purge: bool, crawls: &[&[u8]]) -> Retained;
    check() -> Check;
    repair() -> Check;
    profile() -> Profile;
    set_profile(profile: Profile) -> ();
    pack() -> Moved;
    unpack() -> Moved;
}

/// The name of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexName {
    /// The prefix of its keys.
    Prefix(Vec<u8>),
    /// The name of a sharded index, and the number of shards to create if the index does not exist.
    Sharded(Vec<u8>, Option<u16>),
}

/// Error of opening an index.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The index returns an error, or cannot be reached.
    #[error("{0}")]
    Index(#[from] Error),
    /// No sharded index has this name, and the number of shards is not given.
    #[error(
        "no sharded index has the name '{}'; pass --shards N to create it",
        .0.escape_ascii()
    )]
    Missing(Vec<u8>),
}

impl IndexName {
    /// Opens the index. Creates a missing sharded index if its number of shards is given.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, if the index has a different number of shards, or if it
    /// is missing and the number of shards is not given.
    pub fn open(&self, server: &Server) -> Result<AnyIndex, OpenError> {
        let (name, shards) = match self {
            IndexName::Prefix(prefix) => return Ok(Index::on(server, &prefix[..]).into()),
            IndexName::Sharded(name, shards) => (&name[..], shards),
        };
        let found = match shards {
            Some(shards) => Some(Sharded::on(server, name, *shards)?),
            None => Sharded::find(server, name)?,
        };
        let missing = || OpenError::Missing(name.to_vec());
        found.map(AnyIndex::Sharded).ok_or_else(missing)
    }
}

impl AnyIndex {
    /// Returns the index itself, or the home shard, which has the WACZ lists and the queue of imports.
    pub fn home(&self) -> &Index {
        match self {
            AnyIndex::One(index) => index,
            AnyIndex::Sharded(index) => &index.shards()[0],
        }
    }

    /// Returns the shards, the home shard first. An index under one prefix is its own shard.
    pub fn shards(&self) -> &[Index] {
        match self {
            AnyIndex::One(index) => std::slice::from_ref(index),
            AnyIndex::Sharded(index) => index.shards(),
        }
    }

    /// Returns the shard of a hash.
    pub fn shard_of(&self, hash: &[u8]) -> &Index {
        match self {
            AnyIndex::One(index) => index,
            AnyIndex::Sharded(index) => index.shard_of(hash),
        }
    }

    /// Commits these crawls in this order. Returns the result of each.
    ///
    /// # Errors
    /// Fails if a server cannot be reached. Some of the crawls may be committed.
    pub fn commit_each(&self, crawls: &[&[u8]]) -> Result<Vec<Result<Committed, Error>>, Error> {
        match self {
            AnyIndex::One(index) => {
                let together = match index.commit_each(crawls) {
                    Err(error) if error.is_connection() => return Err(error),
                    together => together.unwrap_or_default(),
                };
                // Commit the others on their own, because one error must not affect other crawls.
                let batch = Batch::new();
                let together = together.into_iter().chain(std::iter::repeat(None));
                let commits = crawls.iter().zip(together).map(|(crawl, counts)| {
                    let alone = counts.is_none().then(|| index.over(&batch).commit(crawl));
                    (counts, alone)
                });
                let commits: Vec<_> = commits.collect();
                batch.send(index.server())?;
                let commits = commits.into_iter().map(|(counts, alone)| match alone {
                    Some(alone) => alone.take(),
                    None => Ok(counts.unwrap_or_default()),
                });
                Ok(commits.collect())
            }
            AnyIndex::Sharded(index) => index.commit_each(crawls),
        }
    }
}

impl BatchAdd for AnyIndex {
    fn server(&self) -> &Server {
        self.home().server()
    }

    fn add_in_batch(
        &self,
        batch: &Batch,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Vec<Pending<u64>> {
        match self {
            AnyIndex::One(index) => index.add_in_batch(batch, crawl, adding, added),
            AnyIndex::Sharded(index) => index.add_in_batch(batch, crawl, adding, added),
        }
    }
}

impl From<Index> for AnyIndex {
    fn from(index: Index) -> AnyIndex {
        AnyIndex::One(index)
    }
}
