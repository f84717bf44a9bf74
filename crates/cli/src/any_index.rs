//! A dedupe index under one prefix, or spread over many.

use crawlspace_client::dedupe::{
    Added, Check, Committed, Crawl, CrawlStats, Dependent, Index, Listed, Located, Moved, Of,
    Original, Profile, Removed, Required, Retained, Revisited, Sequence, Sharded, Stats,
};
use crawlspace_client::{Error, Server};

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

impl AnyIndex {
    /// Opens the sharded index with this name. Creates a missing one if `shards` is given.
    ///
    /// # Errors
    /// Fails if the server cannot be reached, if the index has another number of shards, or if it is
    /// missing and `shards` is not given.
    pub fn sharded(url: &str, name: &[u8], shards: Option<u16>) -> Result<AnyIndex, String> {
        let text = |error: Error| error.to_string();
        let server = Server::open(url).map_err(text)?;
        let found = match shards {
            Some(shards) => Some(Sharded::on(&server, name, shards).map_err(text)?),
            None => Sharded::find(&server, name).map_err(text)?,
        };
        found.map(AnyIndex::Sharded).ok_or_else(|| {
            let name = name.escape_ascii();
            format!("no sharded index has the name '{name}'; pass --shards N to create it")
        })
    }
}

impl From<Index> for AnyIndex {
    fn from(index: Index) -> AnyIndex {
        AnyIndex::One(index)
    }
}
