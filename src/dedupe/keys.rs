//! The keys of an index: one table of what each is called, and of what it is to readers and listeners.

pub use crawlspace_compact::limits::dedupe::CRAWL_BYTES;
use crawlspace_host::keyspace::KeyType;
use crawlspace_host::names::{Endings, Lengths};
use crawlspace_host::once_keys;

use self::Group::{Marks, Measured, Moved, State, Whole};
use super::profile::Profile;

/// Keys for which permission is asked, or which are looked at, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What a commit or a removal changes of the whole index.
    Whole,
    /// What says which state a crawl is in. Which of them a command reads depends on what is cached, so
    /// permission is asked for all of them.
    State,
    /// What the committed part moves between, beside the merged index.
    Moved,
    /// What counts as the memory of an index, beside its crawls.
    Measured,
    /// Where there is any of these, there is an index.
    Marks,
}

/// A key that other programs change, too, and that decides who owns a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The merged index.
    Merged,
    /// `allcrawls`.
    Committed,
    /// `to-remove-crawls`.
    Outgoing,
    /// `packedhashes`, which only a client that takes the index away or moves it changes.
    Packed,
}

/// A key that an index has once.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Its name behind the prefix, in the order of [`Profile::ALL`].
    names: [&'static str; 2],
    /// The type that it must have, unless that depends on the storage.
    pub kind: Option<KeyType>,
    cached: bool,
    bookkeeping: bool,
    groups: &'static [Group],
    /// What it is to other programs that change it.
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

    /// Another name in the layout of Browsertrix.
    const fn in_browsertrix(self, name: &'static str) -> Once {
        let names = [self.names[0], name];
        Once { names, ..self }
    }

    /// Something is cached of it, which must be invalidated when others change it.
    const fn cached(self) -> Once {
        let cached = true;
        Once { cached, ..self }
    }

    /// It says nothing of anybody's data: whoever may run a command may have it read.
    const fn bookkeeping(self) -> Once {
        let bookkeeping = true;
        Once {
            bookkeeping,
            ..self
        }
    }

    /// Other programs change it, too, and it decides who owns a hash.
    const fn shared(self, shared: Shared) -> Once {
        let shared = Some(shared);
        Once { shared, ..self }
    }

    /// Its name behind the prefix.
    pub const fn name(&self, profile: Profile) -> &'static str {
        self.names[profile as usize]
    }

    /// Whether it is one of those.
    pub fn is_in(&self, group: Group) -> bool {
        self.groups.contains(&group)
    }

    /// Its names in all profiles, each once.
    fn every_name(&self) -> impl Iterator<Item = &'static str> + use<> {
        let [document, browsertrix] = self.names;
        let other = (browsertrix != document).then_some(browsertrix);
        std::iter::once(document).chain(other)
    }

    /// The prefix of a key that has one of its names.
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

/// What says how an index is kept.
pub const META: Once = Once::hash("crawlspace", &[Marks]).cached().bookkeeping();

once_keys! { Once:
    /// The merged index: hash → crawl.
    merged = MERGED;
    /// `allcounts`.
    allcounts = Once::hash("allcounts", &[Whole, Measured]);
    /// `allcrawls`.
    allcrawls = Once::set("allcrawls", &[Whole, State, Measured, Marks])
        .cached()
        .shared(Shared::Committed);
    /// `uncommittedcrawls`.
    uncommitted = Once::set("uncommittedcrawls", &[Whole, State, Measured, Marks]).cached();
    /// `src:d`: names of WACZ files whose hashes are in the index.
    finished = Once::set("src:d", &[Whole]);
    /// `crawlspace`: format, profile, counters.
    meta = META;
    /// `committing`: crawl → `n new known`, for commits under way.
    committing = Once::hash("committing", &[]).cached().bookkeeping();
    /// `removing`: crawl → state, for removals under way.
    removing = Once::hash("removing", &[]).cached().bookkeeping();
    /// `commits`: commit number → crawl.
    commits = Once::hash("commits", &[Measured]).cached().bookkeeping();
    /// `holders`: hash → numbers of the commits that met it after its owner's.
    holders = Once::hash("holders", &[Moved, Measured]).cached().bookkeeping();
    /// `claims`: hash → `token deadline crawl`.
    claims = Once::hash("claims", &[Measured]).cached().bookkeeping();
    /// `sharedwaczs`: names in `src:d` that more than one crawl may have.
    shared = Once::set("sharedwaczs", &[]).bookkeeping();
    /// `packedhashes`: the packed index.
    packed = Once::of("packedhashes", &[Measured]).cached().shared(Shared::Packed);
    /// `moving`: what is left of the merged index to pack.
    moving = Once::of("moving", &[Moved, Measured]).cached();
    /// `to-remove-crawls`: what a purge by Browsertrix has not put back or deleted yet.
    outgoing = Once::set("to-remove-crawls", &[State]).cached().shared(Shared::Outgoing);
    /// `last_update_ts`: when an import ended last.
    last_update = Once::of("last_update_ts", &[]);
    /// `canceledcrawls`: crawls that Browsertrix canceled after it had merged hashes of them.
    canceled = Once::set("canceledcrawls", &[State]);
}

/// Picks one of them.
pub type Pick<N> = fn(&Names<N>) -> &N;

impl<N> Names<N> {
    /// Those of a group.
    pub fn group(&self, group: Group) -> impl Iterator<Item = &N> {
        let wanted = self.all().filter(move |(_, row)| row.is_in(group));
        wanted.map(|(name, _)| name)
    }
}

/// What stands before and after the crawl id in a key's name, and the key's type.
type CrawlRow = (&'static [u8], &'static [u8], KeyType);

/// Declares the keys of a crawl, each with its row of the table.
macro_rules! crawl_keys {
    ($($(#[$doc:meta])* $key:ident = $row:expr;)*) => {
        /// Which key of a crawl.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CrawlKey { $($(#[$doc])* $key,)* }

        const CRAWL_ROWS: &[CrawlRow] = &[$($row),*];

        impl CrawlKey {
            /// Every key that a crawl may have.
            pub const ALL: &[CrawlKey] = &[$(CrawlKey::$key),*];
        }
    };
}

/// Where all keys of crawls begin that are not named by the crawl's id alone.
const RECORDS: &[u8; 2] = b"h:";

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
    /// `h:<crawl>:baseline`: counts as of the last commit, and what it takes to get back to it.
    Baseline = hash(b":baseline");
    /// `h:<crawl>:added`: hashes added since the last commit, or since the start of the one under way.
    Added = hash(b":added");
    /// `h:<crawl>:merging`: hashes of a continued crawl that the commit under way merges.
    Merging = hash(b":merging");
    /// `h:<crawl>:unstored`: marks of the records that were counted since the last commit and are not stored.
    Unstored = hash(b":unstored");
    /// `h:<crawl>:deps`: source crawl → number of revisits.
    Deps = hash(b":deps");
    /// `h:<crawl>:refs`: ids of the WACZ files whose references this crawl wrote.
    Refs = (RECORDS, b":refs", KeyType::Set);
    /// `h:<crawl>:seq`: writer → `n reply`.
    Seq = hash(b":seq");
    /// `h:<crawl>:urls`: hashes by the URL and the minute of their record.
    Urls = (RECORDS, b":urls", KeyType::SortedSet);
}

impl CrawlKey {
    /// Those whose content nobody can restore.
    pub const CONTENT: &[CrawlKey] = CrawlKey::ALL.split_at(3).0;

    /// Those that the documents know.
    pub const DOCUMENTED: &[CrawlKey] = CrawlKey::ALL.split_at(4).0;

    /// Those that the documents do not know.
    pub const OURS: &[CrawlKey] = CrawlKey::ALL.split_at(4).1;

    /// Those that say what a commit took.
    pub const OF_COMMITS: &[CrawlKey] = CrawlKey::OURS.split_at(3).0;

    /// Lists of the hashes that are in no ended commit.
    pub const UNCOMMITTED: &[CrawlKey] = CrawlKey::OF_COMMITS.split_at(1).1;

    /// What stands before and after the crawl id in the key's name.
    pub const fn around(self) -> (&'static [u8], &'static [u8]) {
        let (before, after, _) = CRAWL_ROWS[self as usize];
        (before, after)
    }

    /// The type that the key must have.
    pub const fn kind(self) -> KeyType {
        CRAWL_ROWS[self as usize].2
    }

    /// Whether the documents do not know it.
    pub fn is_ours(self) -> bool {
        CrawlKey::OURS.contains(&self)
    }

    /// Whether it says nothing of anybody's data, so that whoever may run a command may have it read.
    fn is_bookkeeping(self) -> bool {
        self.is_ours() && self != CrawlKey::Refs
    }

    /// The key of a crawl that this is, by its name behind the prefix, and the crawl.
    pub fn parse(name: &[u8]) -> Option<(&[u8], CrawlKey)> {
        // The plainest form last: every `h:<crawl>:counts` also looks like the records of a crawl.
        let (crawl, which) = CrawlKey::ALL.iter().rev().find_map(|&which| {
            let (before, after) = which.around();
            let crawl = name.strip_prefix(before)?.strip_suffix(after)?;
            (!crawl.is_empty()).then_some((crawl, which))
        })?;
        is_crawl_id(crawl).then_some((crawl, which))
    }
}

/// What follows the id of a WACZ in the name of its set of references, in the order of [`Profile::ALL`].
const REFERENCES: [&str; 2] = [":duperefs", ":duperef"];

/// Returns what follows the id of a WACZ in the name of its set of references.
pub(super) const fn references_suffix(profile: Profile) -> &'static [u8] {
    REFERENCES[profile as usize].as_bytes()
}

/// Endings that are kept for keys to come.
const KEPT_ENDINGS: [&str; 1] = [":claims"];

/// Whether a crawl id ends so that `h:<id>` would be a key of another crawl, or `<id>:reqCrawls` and
/// `<uuid>:duperefs` could be read as the hashes of one.
fn has_reserved_ending(crawl: &[u8]) -> bool {
    let of_crawls = CrawlKey::ALL.iter().map(|which| which.around().1);
    let others = REFERENCES.iter().chain(&KEPT_ENDINGS);
    of_crawls
        .chain(others.map(|ending| ending.as_bytes()))
        .any(|ending| !ending.is_empty() && crawl.ends_with(ending))
}

/// Returns whether an id can name a crawl.
pub(super) fn is_crawl_id(crawl: &[u8]) -> bool {
    !crawl.is_empty() && crawl.len() <= CRAWL_BYTES && !has_reserved_ending(crawl)
}

/// Whether a key is book-keeping that says nothing of anybody's data, by its name behind the prefix.
pub fn is_bookkeeping(name: &[u8]) -> bool {
    let mut once = ONCE.iter();
    match once.find(|row| row.prefix_of(name) == Some(b"")) {
        Some(row) => row.bookkeeping,
        None => CrawlKey::parse(name).is_some_and(|(_, which)| which.is_bookkeeping()),
    }
}

/// How keys end that exist once and are cached.
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

/// The cached rows of keys that exist once, one of which a key of this name may be.
fn rows_for(key: &[u8]) -> impl Iterator<Item = &'static Once> {
    let rows: &[Once] = if ENDINGS.may_end(key) { ONCE } else { &[] };
    rows.iter().filter(|row| row.cached)
}

/// The prefixes that a key may have if it is one that exists once and is cached.
fn prefixes_of_once(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    rows_for(key).filter_map(|row| row.prefix_of(key))
}

/// Whether a name is one of a crawl's counts, if it is one of a crawl at all.
fn is_counts(name: &[u8]) -> bool {
    name.ends_with(CrawlKey::Counts.around().1)
}

/// Where in a name a crawl's records may be named from. A crawler writes its counts for each capture, so these are told
/// apart at once.
fn records_in<'a>(name: &'a [u8], lengths: &Lengths) -> impl Iterator<Item = usize> + use<'a> {
    let searched = if is_counts(name) { &[] } else { name };
    lengths.find(searched, RECORDS)
}

/// Whether a key may be one that something is cached of, of an index with a prefix of one of these lengths. Nearly all
/// keys of a server that has other data belong to no index, which shows at once.
pub fn may_be_ours(key: &[u8], lengths: &Lengths) -> bool {
    let may_be_once = ENDINGS.may_end(key) && prefixes_of_once(key).next().is_some();
    may_be_once || lengths.any(key, RECORDS) && !is_counts(key)
}

/// Whether a key is the one that says that there is an index: what plain clients do to its other keys is noted in it.
pub fn marks_an_index(key: &[u8]) -> bool {
    META.prefix_of(key).is_some()
}

/// The prefixes of at most `max_prefix` bytes that a key may belong to, each with the crawl whose records it
/// then holds, if the prefix has one of these `lengths`; `None` for a key that exists once. Names are as long as clients
/// like, prefixes and crawl ids are not.
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

/// The prefix of a key that other programs change, too, in whatever profile.
pub fn prefix_of_shared(key: &[u8]) -> Option<(&[u8], Shared)> {
    let mut shared = rows_for(key).filter_map(|row| Some((row, row.shared?)));
    shared.find_map(|(row, shared)| Some((row.prefix_of(key)?, shared)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_known_by_its_name() {
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
    fn only_book_keeping_may_be_read_by_everybody() {
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
