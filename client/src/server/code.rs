//! Error codes: the first word of an error reply.

macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $word:literal,)*) => {
        /// An error code: the first word of an error reply of the server. Error codes do not
        /// change, so programs can match on them.
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
            /// The complete list of error codes.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// Returns the code word as the server writes it.
            pub fn word(self) -> &'static str {
                match self {
                    $(Code::$name => $word,)*
                }
            }

            /// Returns the code of a code word.
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
    /// Invalid syntax, number or length; the message names the argument.
    Err = "ERR",
    /// The prefix is too long, or lacks a hash tag in a cluster.
    BadPrefix = "BADPREFIX",
    /// A documented key, or the key of a tag space, holds a value of another type.
    WrongType = "WRONGTYPE",
    /// A newer version of the module wrote the index.
    BadFormat = "BADFORMAT",
    /// The server has reached `maxmemory`.
    Oom = "OOM",
    /// A blocking call ended because the server's role or data changed.
    Unblocked = "UNBLOCKED",
    /// A writer has sent a higher number before, or the token does not match the claim or lease.
    Stale = "STALE",
    /// Another module ran this command in the middle of a command of this module, or a script has
    /// been running for too long.
    Busy = "BUSY",

    /// The crawl does not exist.
    NoCrawl = "NOCRAWL",
    /// Invalid crawl id.
    BadCrawl = "BADCRAWL",
    /// Invalid hash.
    BadHash = "BADHASH",
    /// The hash is not in the index, so there is no original to revisit.
    NoHash = "NOHASH",
    /// The crawl was cancelled in the meantime.
    Canceled = "CANCELED",
    /// The crawl is committed.
    Committed = "COMMITTED",
    /// The crawl is not committed.
    Uncommitted = "UNCOMMITTED",
    /// The crawl is being removed or cancelled.
    Removing = "REMOVING",
    /// The index has crawls, so its profile can no longer be changed.
    HasCrawls = "HASCRAWLS",
    /// The index has no index by URL, or the index by URL is still being built.
    NoUrls = "NOURLS",
    /// A purge by another program has moved the crawl to `to-remove-crawls`, or is running in the
    /// index.
    Purging = "PURGING",

    /// The host group does not exist.
    NoChg = "NOCHG",
    /// The group is leased: a worker is fetching from it.
    Leased = "LEASED",
    /// A plain key exists under a name that a packed frontier uses for a marker.
    Mixed = "MIXED",
    /// The command needs a packed frontier.
    Plain = "PLAIN",
    /// The command does not work with the known URLs of the execution, or with URIs that were queued
    /// before it remembered its URLs.
    Known = "KNOWN",

    /// Invalid expression, filter spec or template.
    Syntax = "SYNTAX",
    /// The access point does not exist.
    NoPoint = "NOPOINT",
    /// Invalid or too large regular expression.
    BadRegex = "BADRE",
    /// Invalid field name, or the lines have no such field.
    BadField = "BADFIELD",
    /// Invalid line.
    BadLine = "BADLINE",
    /// A tag would carry itself, or access points form a cycle.
    Cycle = "CYCLE",
    /// A value exceeds a size limit.
    TooBig = "TOOBIG",
    /// The staged copy is missing, or its number of ids is not the expected one.
    NoStage = "NOSTAGE",

    /// The number of shards differs from the requested number, or an unfinished operation must be
    /// completed first. [`Sharded`](crate::dedupe::Sharded) returns this code, not the server.
    Sharded = "SHARDED",

    /// The user lacks permission for the command or key.
    NoPerm = "NOPERM",
    /// Authentication is required.
    NoAuth = "NOAUTH",
    /// Invalid user name or password.
    WrongPass = "WRONGPASS",
    /// The server is a read-only replica.
    ReadOnly = "READONLY",
    /// The server is loading its data.
    Loading = "LOADING",
    /// The server cannot save its data, and therefore rejects writes.
    Misconf = "MISCONF",
    /// The replica has lost its connection to the master.
    MasterDown = "MASTERDOWN",
    /// Too few replicas are connected.
    NoReplicas = "NOREPLICAS",
    /// The cluster does not serve this slot.
    ClusterDown = "CLUSTERDOWN",
    /// The keys of the command are in different slots.
    CrossSlot = "CROSSSLOT",
    /// The slot is being migrated to another server. Retry later.
    TryAgain = "TRYAGAIN",
    /// The slot is on another server.
    Moved = "MOVED",
    /// The slot is being migrated, and this key is on another server.
    Ask = "ASK",
    /// A transaction was discarded.
    ExecAbort = "EXECABORT",
}

impl Code {
    /// Returns true if the server cannot run the command yet, because it is loading its data or a
    /// failover is in progress.
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
    fn code_is_parsed_from_its_word() {
        for &code in Code::ALL {
            assert_eq!(Code::of(code.word()), Some(code));
        }
        assert_eq!(Code::of("NOSUCHWORD"), None);
    }
}
