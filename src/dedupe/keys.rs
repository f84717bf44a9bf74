//! The keys of an index: a table of their names, types and roles.

pub use crawlspace_compact::limits::dedupe::CRAWL_BYTES;
use crawlspace_host::keyspace::KeyType;
use crawlspace_host::names::{Endings, Lengths};
use crawlspace_host::once_keys;

use self::Group::{Marks, Measured, Moved, State, Whole};
use super::profile::Profile;

/// Groups of keys that one permission check covers, or that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of the whole index that a commit or a removal changes.
    Whole,
    /// Keys that determine the state of a crawl. Permissions are checked for all of these keys,
    /// because a command reads only those that are not cached.
    State,
    /// Keys that a storage conversion moves, except the merged index.
    Moved,
    /// Keys whose memory is part of the memory of an index, besides the keys of its crawls.
    Measured,
    /// Keys that mark the existence of an index.
    Marks,
}

/// Roles of keys that determine the owner of a hash, and that other programs also change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The merged index.
    Merged,
    /// `allcrawls`.
    Committed,
    /// `to-remove-crawls`.
    Outgoing,
    /// `packedhashes`. Other clients change this key only by deleting or renaming the index.
    Packed,
}

/// A key that exists once per index.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Names after the prefix, in the order of [`Profile::ALL`].
    names: [&'static str; 2],
    /// The type that the key must have, unless it depends on the storage.
    pub kind: Option<KeyType>,
    cached: bool,
    bookkeeping: bool,
    groups: &'static [Group],
    /// The role of a key that other programs also change.
    shared: Option<Shared>,
}

impl Once {
    const fn of(name: &'static str, groups: &'static [Group]) -> Once {
        Once {
            names: [name, name],
            kind: None,
            cached: false,
            bookkeeping: false,
            groups,
            shared: None,
        }
    }

    const fn hash(name: &'static str, groups: &'static [Group]) -> Once {
        let kind = Some(KeyType::Hash);
        Once {
            kind,
            ..Once::of(name, groups)
        }
    }

    const fn set(name: &'static str, groups: &'static [Group]) -> Once {
        let kind = Some(KeyType::Set);
        Once {
            kind,
            ..Once::of(name, groups)
        }
    }

    /// Sets a different name for the Browsertrix layout.
    const fn in_browsertrix(self, name: &'static str) -> Once {
        let names = [self.names[0], name];
        Once { names, ..self }
    }

    /// Marks the key as cached: the cache must be invalidated when other clients change it.
    const fn cached(self) -> Once {
        let cached = true;
        Once { cached, ..self }
    }

    /// Marks the key as bookkeeping: it contains no user data, so every command may read it.
    const fn bookkeeping(self) -> Once {
        let bookkeeping = true;
        Once {
            bookkeeping,
            ..self
        }
    }

    /// Marks a key that determines the owner of a hash, and that other programs also change.
    const fn shared(self, shared: Shared) -> Once {
        let shared = Some(shared);
        Once { shared, ..self }
    }

    /// Returns the name after the prefix.
    pub const fn name(&self, profile: Profile) -> &'static str {
        self.names[profile as usize]
    }

    /// Returns true if the key is in a group.
    pub fn is_in(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    /// Returns the names in all profiles, without duplicates.
    pub(super) fn every_name(&self) -> impl Iterator<Item = &'static str> + use<> {
        let [document, browsertrix] = self.names;
        let other = (browsertrix != document).then_some(browsertrix);
        std::iter::once(document).chain(other)
    }

    /// Returns the prefix of a key with one of these names.
    pub fn prefix_of<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        let mut names = self.every_name();
        names.find_map(|name| key.strip_suffix(name.as_bytes()))
    }
}

/// The merged index.
pub const MERGED: Once = Once::of("allhashes", &[Whole, Measured])
    .in_browsertrix("alldupes")
    .cached()
    .shared(Shared::Merged);

/// The packed index.
pub const PACKED_INDEX: Once = Once::of("packedhashes", &[Measured])
    .cached()
    .shared(Shared::Packed);

/// The set of committed crawls.
const COMMITTED: Once = Once::set("allcrawls", &[Whole, State, Measured, Marks])
    .cached()
    .shared(Shared::Committed);

/// The set to which a purge by Browsertrix renames the set of committed crawls.
const OUTGOING: Once = Once::set("to-remove-crawls", &[State])
    .cached()
    .shared(Shared::Outgoing);

/// The key that stores the layout of an index.
pub const META: Once = Once::hash("crawlspace", &[Marks]).cached().bookkeeping();

once_keys! { Once:
    /// The merged index: hash → owning crawl.
    merged = MERGED;
    /// `allcounts`.
    allcounts = Once::hash("allcounts", &[Whole, Measured]);
    /// `allcrawls`.
    allcrawls = COMMITTED;
    /// `uncommittedcrawls`.
    uncommitted = Once::set("uncommittedcrawls", &[Whole, State, Measured, Marks]).cached();
    /// `src:d`: names of WACZ files whose hashes are in the index.
    finished = Once::set("src:d", &[Whole]);
    /// `crawlspace`: format, profile, counters.
    meta = META;
    /// `committing`: crawl → `n new known`, for running commits.
    committing = Once::hash("committing", &[]).cached().bookkeeping();
    /// `removing`: crawl → state, for running removals.
    removing = Once::hash("removing", &[]).cached().bookkeeping();
    /// `commits`: commit number → crawl.
    commits = Once::hash("commits", &[Measured]).cached().bookkeeping();
    /// `holders`: hash → numbers of the commits after the commit of its owner that also contained
    /// the hash.
    holders = Once::hash("holders", &[Moved, Measured]).cached().bookkeeping();
    /// `claims`: hash → `token deadline crawl`.
    claims = Once::hash("claims", &[Measured]).cached().bookkeeping();
    /// `sharedwaczs`: names in `src:d` that more than one crawl may have.
    shared = Once::set("sharedwaczs", &[]).bookkeeping();
    /// `packedhashes`: the packed index.
    packed = PACKED_INDEX;
    /// `moving`: entries of the merged index that are still to be packed.
    moving = Once::of("moving", &[Moved, Measured]).cached();
    /// `to-remove-crawls`: crawls that a purge by Browsertrix has not put back or deleted yet.
    outgoing = OUTGOING;
    /// `last_update_ts`: the end of the last import.
    last_update = Once::of("last_update_ts", &[]);
    /// `canceledcrawls`: crawls that Browsertrix canceled after some of their hashes were merged.
    canceled = Once::set("canceledcrawls", &[State]);
}

/// Selects a key name.
pub type Pick<N> = fn(&Names<N>) -> &N;

impl<N> Names<N> {
    /// Returns the names of the keys in a group.
    pub fn group(&self, group: Group) -> impl Iterator<Item = &N> {
        let wanted = self.all().filter(move |(_, row)| row.is_in(group));
        wanted.map(|(name, _)| name)
    }
}

/// Strings before and after the crawl id in the name of a key, and the type of the key.
type CrawlRow = (&'static [u8], &'static [u8], KeyType);

/// Declares the keys of a crawl, each with its row of the table.
macro_rules! crawl_keys {
    ($($(#[$doc:meta])* $key:ident = $row:expr;)*) => {
        /// A key of a crawl.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CrawlKey { $($(#[$doc])* $key,)* }

        const CRAWL_ROWS: &[CrawlRow] = &[$($row),*];

        impl CrawlKey {
            /// All keys that a crawl may have.
            pub const ALL: &[CrawlKey] = &[$(CrawlKey::$key),*];
        }
    };
}

/// Start of the names of a crawl's keys, except those that start with the crawl id.
pub(super) const RECORDS: &[u8; 2] = b"h:";

const fn hash(ending: &'static [u8]) -> CrawlRow {
    (RECORDS, ending, KeyType::Hash)
}

crawl_keys! {
    /// `h:<crawl>`: hash → record.
    Records = hash(b"");
    /// `h:<crawl>:counts`.
    Counts = hash(b":counts");
    /// `c:<crawl>:wacz`.
    Waczs = (b"c:", b":wacz", KeyType::List);
    /// `<crawl>:reqCrawls`.
    Requires = (b"", b":reqCrawls", KeyType::Set);
    /// `h:<crawl>:baseline`: counts as of the last commit, and the data needed to return to that
    /// commit.
    Baseline = hash(b":baseline");
    /// `h:<crawl>:added`: hashes added since the last commit, or since the running commit began.
    Added = hash(b":added");
    /// `h:<crawl>:merging`: hashes of a continued crawl that the running commit merges.
    Merging = hash(b":merging");
    /// `h:<crawl>:unstored`: marks of records that were counted since the last commit but are not stored.
    Unstored = hash(b":unstored");
    /// `h:<crawl>:deps`: source crawl → number of revisits.
    Deps = hash(b":deps");
    /// `h:<crawl>:refs`: ids of the WACZ files whose references this crawl wrote.
    Refs = (RECORDS, b":refs", KeyType::Set);
    /// `h:<crawl>:seq`: writer → `n reply`.
    Seq = hash(b":seq");
    /// `h:<crawl>:urls`: hashes. The score of a hash is derived from the URL and the minute of its
    /// record.
    Urls = (RECORDS, b":urls", KeyType::SortedSet);
}

impl CrawlKey {
    /// Keys whose contents cannot be rebuilt from other keys.
    pub const CONTENT: &[CrawlKey] = CrawlKey::ALL.split_at(3).0;

    /// Documented keys.
    pub const DOCUMENTED: &[CrawlKey] = CrawlKey::ALL.split_at(4).0;

    /// Undocumented keys, which only the module uses.
    pub const OURS: &[CrawlKey] = CrawlKey::ALL.split_at(4).1;

    /// Keys that record the contents of commits.
    pub const OF_COMMITS: &[CrawlKey] = CrawlKey::OURS.split_at(3).0;

    /// Lists of the hashes that do not belong to a finished commit.
    pub const UNCOMMITTED: &[CrawlKey] = CrawlKey::OF_COMMITS.split_at(1).1;

    /// Returns the strings before and after the crawl id in the name of the key.
    pub const fn around(self) -> (&'static [u8], &'static [u8]) {
        let (before, after, _) = CRAWL_ROWS[self as usize];
        (before, after)
    }

    /// Returns the type that the key must have.
    pub const fn kind(self) -> KeyType {
        CRAWL_ROWS[self as usize].2
    }

    /// Returns true if the key is not documented.
    pub fn is_ours(self) -> bool {
        CrawlKey::OURS.contains(&self)
    }

    /// Returns true if the key is bookkeeping: it contains no user data, so every command may read it.
    fn is_bookkeeping(self) -> bool {
        self.is_ours() && self != CrawlKey::Refs
    }

    /// Parses the name of a crawl's key, without the prefix. Returns the crawl and the key.
    pub fn parse(name: &[u8]) -> Option<(&[u8], CrawlKey)> {
        // Try the shortest form last: every `h:<crawl>:counts` also looks like the records of a
        // crawl.
        let (crawl, which) = CrawlKey::ALL.iter().rev().find_map(|&which| {
            let (before, after) = which.around();
            let crawl = name.strip_prefix(before)?.strip_suffix(after)?;
            (!crawl.is_empty()).then_some((crawl, which))
        })?;
        is_crawl_id(crawl).then_some((crawl, which))
    }
}

/// Suffix of the key that contains the references of a WACZ file, by profile in the order of
/// [`Profile::ALL`].
const REFERENCES: [&str; 2] = [":duperefs", ":duperef"];

/// Returns the suffix of the key that contains the references of a WACZ file.
pub(super) const fn references_suffix(profile: Profile) -> &'static [u8] {
    REFERENCES[profile as usize].as_bytes()
}

/// Suffixes that are reserved for future keys.
const KEPT_ENDINGS: [&str; 1] = [":claims"];

/// Returns true if a crawl id has a reserved ending: with such an ending, `h:<id>` could be a key
/// of another crawl, or `<id>:reqCrawls` or `<uuid>:duperefs` could look like the hashes of a
/// crawl.
fn has_reserved_ending(crawl: &[u8]) -> bool {
    let of_crawls = CrawlKey::ALL.iter().map(|which| which.around().1);
    let others = REFERENCES.iter().chain(&KEPT_ENDINGS);
    of_crawls
        .chain(others.map(|ending| ending.as_bytes()))
        .any(|ending| !ending.is_empty() && crawl.ends_with(ending))
}

/// Returns true if an id is a valid crawl id.
pub(super) fn is_crawl_id(crawl: &[u8]) -> bool {
    !crawl.is_empty() && crawl.len() <= CRAWL_BYTES && !has_reserved_ending(crawl)
}

/// Returns true if a key is bookkeeping, without user data. `name` is the key's name after the
/// prefix.
pub fn is_bookkeeping(name: &[u8]) -> bool {
    let mut once = ONCE.iter();
    match once.find(|row| row.prefix_of(name) == Some(b"")) {
        Some(row) => row.bookkeeping,
        None => CrawlKey::parse(name).is_some_and(|(_, which)| which.is_bookkeeping()),
    }
}

/// The name endings of cached keys that exist once per index.
const ENDINGS: Endings = {
    let mut endings = Endings::new();
    let mut row = 0;
    while row < ONCE.len() {
        let mut profile = 0;
        while ONCE[row].cached && profile < ONCE[row].names.len() {
            endings = endings.with(ONCE[row].names[profile]);
            profile += 1;
        }
        row += 1;
    }
    endings
};

/// Returns the rows of the cached keys, among those that exist once per index, that a key with this
/// name may be.
fn rows_for(key: &[u8]) -> impl Iterator<Item = &'static Once> {
    let rows: &[Once] = if ENDINGS.may_end(key) { ONCE } else { &[] };
    rows.iter().filter(|row| row.cached)
}

/// Returns the possible prefixes of a key if its name matches a cached key that exists once per
/// index.
fn prefixes_of_once(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    rows_for(key).filter_map(|row| row.prefix_of(key))
}

/// Returns true if a name, parsed as the name of a crawl's key, denotes the counts of the crawl.
fn is_counts(name: &[u8]) -> bool {
    name.ends_with(CrawlKey::Counts.around().1)
}

/// Returns the positions at which the name of a crawl's records may begin in a key. Keys of counts
/// are excluded first, because crawlers write counts for each capture.
fn records_in<'a>(name: &'a [u8], lengths: &Lengths) -> impl Iterator<Item = usize> + use<'a> {
    let searched = if is_counts(name) { &[] } else { name };
    lengths.find(searched, RECORDS)
}

/// Returns true if a key may be a cached key of an index with a prefix of one of these lengths.
/// Quickly rejects the keys of other applications, which are the majority on a shared server.
pub fn may_be_ours(key: &[u8], lengths: &Lengths) -> bool {
    let may_be_once = ENDINGS.may_end(key) && prefixes_of_once(key).next().is_some();
    may_be_once || lengths.any(key, RECORDS) && !is_counts(key)
}

/// Returns true for the key of a packed index, and for the key `crawlspace` of an index, in which
/// the module records changes that plain clients make to other keys.
pub fn marks_an_index(key: &[u8]) -> bool {
    META.prefix_of(key).is_some() || PACKED_INDEX.prefix_of(key).is_some()
}

/// Returns the names that a packed index may have after its prefix. Version 0.1.0 used the name of
/// the merged index.
pub fn packed_names() -> impl Iterator<Item = &'static str> {
    PACKED_INDEX.every_name().chain(MERGED.every_name())
}

/// Returns the prefix of an index if renaming `from` to `to` begins a purge by Browsertrix.
pub fn as_purge<'a>(from: &'a [u8], to: &[u8]) -> Option<&'a [u8]> {
    let prefix = COMMITTED.prefix_of(from)?;
    (OUTGOING.prefix_of(to)? == prefix).then_some(prefix)
}

/// Returns the possible prefixes of a key, at most `max_prefix` bytes long. If the key may contain
/// the records of a crawl, also returns the crawl, and only prefixes with one of these `lengths`.
/// If the key may be a key that exists once per index, the crawl is `None`. Key names may have any
/// length, unlike prefixes and crawl ids.
pub fn possible_prefixes<'a>(
    key: &'a [u8],
    max_prefix: usize,
    lengths: &Lengths,
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
    let once = prefixes_of_once(key)
        .filter(move |prefix| prefix.len() <= max_prefix)
        .map(|prefix| (prefix, None));
    let too_long = key.len() > max_prefix + RECORDS.len() + CRAWL_BYTES;
    let searched = if too_long { &[] } else { key };
    let records = records_in(searched, lengths)
        .take_while(move |&at| at <= max_prefix)
        .map(|at| (&key[..at], Some(&key[at + RECORDS.len()..])));
    once.chain(records)
}

/// Returns the prefix and the role of a key that other programs also change, in any profile.
pub fn prefix_of_shared(key: &[u8]) -> Option<(&[u8], Shared)> {
    let mut shared = rows_for(key).filter_map(|row| Some((row, row.shared?)));
    shared.find_map(|(row, shared)| Some((row.prefix_of(key)?, shared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_recognized_by_its_name() {
        let lengths = Lengths::new();
        lengths.note(b"p:".len());
        for &which in CrawlKey::ALL {
            let (before, after) = which.around();
            let key = [before, b"some:crawl", after].concat();
            assert_eq!(CrawlKey::parse(&key), Some((&b"some:crawl"[..], which)));
            let prefixed = [b"p:", &key[..]].concat();
            let mut prefixes = possible_prefixes(&prefixed, 100, &lengths);
            let heard = prefixes.any(|(prefix, crawl)| prefix == b"p:" && crawl.is_some());
            let expected = before == RECORDS && which != CrawlKey::Counts;
            assert_eq!(heard, expected, "{which:?}");
            assert_eq!(may_be_ours(&prefixed, &lengths), heard);
            assert!(!may_be_ours(&prefixed, &Lengths::new()));
        }
        for row in ONCE {
            for name in row.every_name() {
                let key = ["p:", name].concat();
                let mut prefixes = possible_prefixes(key.as_bytes(), 100, &lengths);
                let heard = prefixes.any(|found| found == (&b"p:"[..], None));
                assert_eq!(heard, row.cached, "{name}");
                assert_eq!(may_be_ours(key.as_bytes(), &lengths), row.cached, "{name}");
                assert_eq!(is_bookkeeping(name.as_bytes()), row.bookkeeping, "{name}");
            }
        }
    }

    #[test]
    fn ids_that_end_like_keys_are_reserved() {
        for ending in [
            ":counts",
            ":wacz",
            ":baseline",
            ":added",
            ":merging",
            ":unstored",
            ":deps",
            ":refs",
            ":seq",
            ":urls",
            ":claims",
            ":reqCrawls",
            ":duperefs",
            ":duperef",
        ] {
            let id = ["crawl", ending].concat();
            assert!(!is_crawl_id(id.as_bytes()), "{id}");
        }
        for id in ["crawl", "a:b", ":", "counts", "allcrawls", "h:x"] {
            assert!(is_crawl_id(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn only_bookkeeping_keys_need_no_read_permission() {
        for name in [
            "h:a:seq",
            "h:a:deps",
            "h:a:urls",
            "crawlspace",
            "claims",
            "sharedwaczs",
        ] {
            assert!(is_bookkeeping(name.as_bytes()), "{name}");
        }
        for name in [
            "h:a",
            "h:claims",
            "h:my-commits",
            "h:a:counts",
            "h:a:refs",
            "c:a:wacz",
            "a:reqCrawls",
            "u:duperefs",
            "allhashes",
            "alldupes",
            "moving",
            "src:d",
            "claims:seq:x",
        ] {
            assert!(!is_bookkeeping(name.as_bytes()), "{name}");
        }
    }
}
