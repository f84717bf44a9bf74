//! The words that errors begin with.

macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $word:literal,)*) => {
        /// What an error of a server is about: the first word of its text, which is there to program against.
        ///
        /// ```
        /// use crawlspace_client::Code;
        /// assert_eq!(Code::of("NOCRAWL"), Some(Code::NoCrawl));
        /// assert_eq!(Code::NoCrawl.word(), "NOCRAWL");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$about])* $name,)*
        }

        impl Code {
            /// All code words.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The word, as the server writes it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Code::$name => $word,)*
                }
            }

            /// The code of this word.
            pub fn of(word: &str) -> Option<Code> {
                match word {
                    $($word => Some(Code::$name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Syntax, numbers, lengths; the sentence names the argument.
    Err = "ERR",
    /// The prefix is too long, or in a cluster has no hash tag.
    BadPrefix = "BADPREFIX",
    /// A documented key, or that of a tag space, holds another type.
    WrongType = "WRONGTYPE",
    /// A newer version of the module wrote the index.
    BadFormat = "BADFORMAT",
    /// The server is at `maxmemory`.
    Oom = "OOM",
    /// A wait ended because the role of the server or its data changed.
    Unblocked = "UNBLOCKED",
    /// A writer has sent a higher number before, a token is not that of the claim or lease.
    Stale = "STALE",
    /// Another module called in the middle of a command; or a script runs for too long.
    Busy = "BUSY",

    /// There is no such crawl.
    NoCrawl = "NOCRAWL",
    /// This cannot be the id of a crawl.
    BadCrawl = "BADCRAWL",
    /// This cannot be a hash.
    BadHash = "BADHASH",
    /// The hash is not in the index, so nothing can be a revisit of it.
    NoHash = "NOHASH",
    /// The crawl was cancelled meanwhile.
    Canceled = "CANCELED",
    /// The crawl is committed.
    Committed = "COMMITTED",
    /// The crawl is not committed.
    Uncommitted = "UNCOMMITTED",
    /// The crawl is being removed or cancelled.
    Removing = "REMOVING",
    /// The index has crawls, so its profile cannot change.
    HasCrawls = "HASCRAWLS",
    /// The index has no index by URL, or it is not complete yet.
    NoUrls = "NOURLS",
    /// A purge by another program has set the crawl aside, or is under way in the index.
    Purging = "PURGING",

    /// There is no such group of hosts.
    NoChg = "NOCHG",
    /// The group is leased: a crawler fetches from it.
    Leased = "LEASED",

    /// An expression, a spec or a template cannot be read.
    Syntax = "SYNTAX",
    /// There is no such access point.
    NoPoint = "NOPOINT",
    /// A regular expression is malformed or too large.
    BadRegex = "BADRE",
    /// No field can be called that, or the lines have none.
    BadField = "BADFIELD",
    /// A line cannot be read.
    BadLine = "BADLINE",
    /// A tag would carry itself, or access points lead to each other.
    Cycle = "CYCLE",
    /// Something is too large.
    TooBig = "TOOBIG",
    /// There is no staged copy, or it holds another number of ids.
    NoStage = "NOSTAGE",

    /// An index is spread in another way than was said, or a step of it must be finished first. It is not the
    /// server that says so, but [`Sharded`](crate::dedupe::Sharded).
    Sharded = "SHARDED",

    /// The user may not do this.
    NoPerm = "NOPERM",
    /// The user is not known.
    NoAuth = "NOAUTH",
    /// The password is wrong.
    WrongPass = "WRONGPASS",
    /// The server is a replica.
    ReadOnly = "READONLY",
    /// The server reads its data.
    Loading = "LOADING",
    /// The server cannot save, and therefore takes nothing in.
    Misconf = "MISCONF",
    /// The replica has lost its master.
    MasterDown = "MASTERDOWN",
    /// There are too few replicas.
    NoReplicas = "NOREPLICAS",
    /// The cluster does not serve this slot.
    ClusterDown = "CLUSTERDOWN",
    /// The keys of the command are not in one slot.
    CrossSlot = "CROSSSLOT",
    /// The slot is on its way to another server.
    TryAgain = "TRYAGAIN",
    /// The slot is on another server.
    Moved = "MOVED",
    /// The slot is on its way, and this key is on another server.
    Ask = "ASK",
    /// A transaction was not carried out.
    ExecAbort = "EXECABORT",
}

impl Code {
    /// Returns true if the server refused the command for the moment only: it loads its data or waits for a failover.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Code::Loading | Code::MasterDown | Code::ClusterDown | Code::TryAgain
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn a_code_is_that_of_its_word() {
        for &code in Code::ALL {
            assert_eq!(Code::of(code.word()), Some(code));
        }
        assert_eq!(Code::of("NOSUCHWORD"), None);
    }
}
