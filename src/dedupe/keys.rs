//! The keys of an index: one table of what each is called, and of what it is to readers and listeners.

use crawlspace_host::keyspace::KeyType;
use crawlspace_host::once_keys;

use super::error::{Error, Result};
use super::profile::Profile;

/// Maximum length of a crawl id, in bytes.
pub const CRAWL_BYTES: usize = 1024;

/// A key that an index has once.
#[derive(Clone, Copy, Debug)]
pub struct Once {
    /// Its name behind the prefix, in the order of [`Profile::ALL`].
    names: [&'static str; 2],
    /// The type that it must have, unless that depends on the storage.
    pub kind: Option<KeyType>,
    cached: bool,
    bookkeeping: bool,
}

impl Once {
    const fn of(name: &'static str) -> Once {
        Once {
            names: [name, name],
            kind: None,
            cached: false,
            bookkeeping: false,
        }
    }

    const fn hash(name: &'static str) -> Once {
        let kind = Some(KeyType::Hash);
        Once {
            kind,
            ..Once::of(name)
        }
    }

    const fn set(name: &'static str) -> Once {
        let kind = Some(KeyType::Set);
        Once {
            kind,
            ..Once::of(name)
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

    /// Its name behind the prefix.
    pub const fn name(&self, profile: Profile) -> &'static str {
        self.names[profile as usize]
    }

    /// Its names in all profiles, each once.
    fn every_name(&self) -> impl Iterator<Item = &'static str> + use<> {
        let [document, browsertrix] = self.names;
        let other = (browsertrix != document).then_some(browsertrix);
        std::iter::once(document).chain(other)
    }
}

/// The merged index.
pub const MERGED: Once = Once::of("allhashes").in_browsertrix("alldupes").cached();

/// The set of committed crawls.
const COMMITTED: Once = Once::set("allcrawls").cached();

/// The set into which another program's purge renames it.
const OUTGOING: Once = Once::set("to-remove-crawls").cached();

once_keys! { Once:
    /// The merged index: hash → crawl.
    merged = MERGED;
    /// `allcounts`.
    allcounts = Once::hash("allcounts");
    /// `allcrawls`.
    allcrawls = COMMITTED;
    /// `uncommittedcrawls`.
    uncommitted = Once::set("uncommittedcrawls").cached();
    /// `src:d`: names of WACZ files whose hashes are in the index.
    finished = Once::set("src:d");
    /// `crawlspace`: format, profile, counters.
    meta = Once::hash("crawlspace").cached().bookkeeping();
    /// `committing`: crawl → `n new known`, for commits under way.
    committing = Once::hash("committing").cached().bookkeeping();
    /// `removing`: crawl → state, for removals under way.
    removing = Once::hash("removing").cached().bookkeeping();
    /// `commits`: commit number → crawl.
    commits = Once::hash("commits").cached().bookkeeping();
    /// `holders`: hash → numbers of the commits that met it after its owner's.
    holders = Once::hash("holders").cached().bookkeeping();
    /// `claims`: hash → `token deadline crawl`.
    claims = Once::hash("claims").cached().bookkeeping();
    /// `sharedwaczs`: names in `src:d` that more than one crawl may have.
    shared = Once::set("sharedwaczs").bookkeeping();
    /// `moving`: what is left of the storage that the committed part is moving out of.
    moving = Once::of("moving").cached();
    /// `moving:back`: the merged index, for the moment in which a move turns round.
    aside = Once::of("moving:back");
    /// `to-remove-crawls`: what a purge by Browsertrix has not put back or deleted yet.
    outgoing = OUTGOING;
    /// `canceledcrawls`: crawls that Browsertrix canceled after it had merged hashes of them.
    canceled = Once::set("canceledcrawls");
}

/// Which key of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKey {
    /// `h:<crawl>`: hash → record.
    Records,
    /// `h:<crawl>:counts`.
    Counts,
    /// `c:<crawl>:wacz`.
    Waczs,
    /// `<crawl>:reqCrawls`.
    Requires,
    /// `h:<crawl>:baseline`: counts as of the last commit, and what it takes to get back to it.
    Baseline,
    /// `h:<crawl>:added`: hashes added since the last commit, or since the start of the one under way.
    Added,
    /// `h:<crawl>:merging`: hashes of a continued crawl that the commit under way merges.
    Merging,
    /// `h:<crawl>:unstored`: marks of the records that were counted since the last commit and are not stored.
    Unstored,
    /// `h:<crawl>:deps`: source crawl → number of revisits.
    Deps,
    /// `h:<crawl>:refs`: ids of the WACZ files whose references this crawl wrote.
    Refs,
    /// `h:<crawl>:seq`: writer → `n reply`.
    Seq,
}

/// Where all keys of crawls begin that are not named by the crawl's id alone.
pub const RECORDS: &[u8] = b"h:";

/// Where the list of the WACZ files of a crawl begins.
pub const WACZS: &[u8] = b"c:";

impl CrawlKey {
    /// Every key that a crawl may have.
    pub const ALL: [CrawlKey; 11] = [
        CrawlKey::Records,
        CrawlKey::Counts,
        CrawlKey::Waczs,
        CrawlKey::Requires,
        CrawlKey::Baseline,
        CrawlKey::Added,
        CrawlKey::Merging,
        CrawlKey::Unstored,
        CrawlKey::Deps,
        CrawlKey::Refs,
        CrawlKey::Seq,
    ];

    /// Those that the documents know.
    pub const DOCUMENTED: &[CrawlKey] = CrawlKey::ALL.split_at(4).0;

    /// Those that the documents do not know.
    pub const OURS: &[CrawlKey] = CrawlKey::ALL.split_at(4).1;

    /// What stands before and after the crawl id in the key's name, and its type.
    const fn row(self) -> (&'static [u8], &'static [u8], KeyType) {
        match self {
            CrawlKey::Records => (RECORDS, b"", KeyType::Hash),
            CrawlKey::Counts => (RECORDS, b":counts", KeyType::Hash),
            CrawlKey::Waczs => (WACZS, b":wacz", KeyType::List),
            CrawlKey::Requires => (b"", b":reqCrawls", KeyType::Set),
            CrawlKey::Baseline => (RECORDS, b":baseline", KeyType::Hash),
            CrawlKey::Added => (RECORDS, b":added", KeyType::Hash),
            CrawlKey::Merging => (RECORDS, b":merging", KeyType::Hash),
            CrawlKey::Unstored => (RECORDS, b":unstored", KeyType::Hash),
            CrawlKey::Deps => (RECORDS, b":deps", KeyType::Hash),
            CrawlKey::Refs => (RECORDS, b":refs", KeyType::Set),
            CrawlKey::Seq => (RECORDS, b":seq", KeyType::Hash),
        }
    }

    /// What stands before and after the crawl id in the key's name.
    pub const fn around(self) -> (&'static [u8], &'static [u8]) {
        let (before, after, _) = self.row();
        (before, after)
    }

    /// The type that the key must have.
    pub const fn kind(self) -> KeyType {
        self.row().2
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
        let (crawl, which) = CrawlKey::ALL.into_iter().rev().find_map(|which| {
            let (before, after) = which.around();
            let crawl = name.strip_prefix(before)?.strip_suffix(after)?;
            (!crawl.is_empty()).then_some((crawl, which))
        })?;
        check_crawl_id(crawl).is_ok().then_some((crawl, which))
    }
}

/// What follows the id of a WACZ in the name of its set of references, in the order of [`Profile::ALL`].
pub const REFERENCES: [&str; 2] = [":duperefs", ":duperef"];

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

/// Refuses ids that cannot name a crawl.
pub(super) fn check_crawl_id(crawl: &[u8]) -> Result<()> {
    if crawl.is_empty() || crawl.len() > CRAWL_BYTES || has_reserved_ending(crawl) {
        return Err(Error::BadCrawl(crawl.to_vec()));
    }
    Ok(())
}

/// Whether a key is book-keeping that says nothing of anybody's data, by its name behind the prefix.
pub fn is_bookkeeping(name: &[u8]) -> bool {
    let once = |row: &&Once| row.every_name().any(|known| known.as_bytes() == name);
    match ONCE.iter().find(once) {
        Some(row) => row.bookkeeping,
        None => CrawlKey::parse(name).is_some_and(|(_, which)| which.is_bookkeeping()),
    }
}

/// By the last byte of a key, whether one that exists once and is cached may end so.
const LAST_BYTES: [bool; 256] = {
    let mut last = [false; 256];
    let mut row = 0;
    while row < ONCE.len() {
        let mut profile = 0;
        while ONCE[row].cached && profile < ONCE[row].names.len() {
            let name = ONCE[row].names[profile].as_bytes();
            last[name[name.len() - 1] as usize] = true;
            profile += 1;
        }
        row += 1;
    }
    last
};

/// The prefixes that a key may have if it is one that exists once and is cached.
fn prefixes_of_once(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let may_be = key.last().is_some_and(|&last| LAST_BYTES[last as usize]);
    let rows: &[Once] = if may_be { ONCE } else { &[] };
    rows.iter()
        .filter(|row| row.cached)
        .flat_map(Once::every_name)
        .filter_map(|name| key.strip_suffix(name.as_bytes()))
}

/// Whether a key may be one that something is cached of, whatever its prefix. Nearly all keys of a
/// server that has other data belong to no index, which their last byte and their colons show.
pub fn may_be_ours(key: &[u8]) -> bool {
    let [h, colon] = [RECORDS[0], RECORDS[1]];
    prefixes_of_once(key).next().is_some()
        || memchr::memchr_iter(colon, key).any(|at| at > 0 && key[at - 1] == h)
}

/// Whether a key is the one that says that there is an index: what plain clients do to its other keys is noted in it.
pub fn marks_an_index(key: &[u8]) -> bool {
    key.ends_with(b"crawlspace")
}

/// The prefixes of at most `max_prefix` bytes that a key may belong to, each with the crawl whose records it
/// then holds; `None` for a key that exists once. Names are as long as clients like, prefixes and crawl
/// ids are not.
pub fn possible_prefixes(
    key: &[u8],
    max_prefix: usize,
) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let once = prefixes_of_once(key)
        .filter(move |prefix| prefix.len() <= max_prefix)
        .map(|prefix| (prefix, None));
    let too_long = key.len() > max_prefix + RECORDS.len() + CRAWL_BYTES;
    let searched = if too_long { &[] } else { key };
    let records = memchr::memmem::find_iter(searched, RECORDS)
        .take_while(move |&at| at <= max_prefix)
        .map(|at| (&key[..at], Some(&key[at + RECORDS.len()..])));
    once.chain(records)
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
}

/// The prefix of a key that may be one of those, in whatever profile.
pub fn prefix_of_shared(key: &[u8]) -> Option<(&[u8], Shared)> {
    let all = [
        (MERGED, Shared::Merged),
        (COMMITTED, Shared::Committed),
        (OUTGOING, Shared::Outgoing),
    ];
    all.iter().find_map(|(row, role)| {
        let mut names = row.every_name();
        let prefix = names.find_map(|name| key.strip_suffix(name.as_bytes()))?;
        Some((prefix, *role))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_known_by_its_name() {
        for which in CrawlKey::ALL {
            let (before, after) = which.around();
            let key = [before, b"some:crawl", after].concat();
            assert_eq!(CrawlKey::parse(&key), Some((&b"some:crawl"[..], which)));
            let prefixed = [b"p:", &key[..]].concat();
            let mut prefixes = possible_prefixes(&prefixed, 100);
            let heard = prefixes.any(|(prefix, crawl)| prefix == b"p:" && crawl.is_some());
            assert_eq!(heard, before == RECORDS, "{which:?}");
            assert!(!heard || may_be_ours(&prefixed));
        }
        for row in ONCE {
            for name in row.every_name() {
                let key = ["p:", name].concat();
                let mut prefixes = possible_prefixes(key.as_bytes(), 100);
                let heard = prefixes.any(|found| found == (&b"p:"[..], None));
                assert_eq!(heard, row.cached, "{name}");
                assert_eq!(may_be_ours(key.as_bytes()), row.cached, "{name}");
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
            ":claims",
            ":reqCrawls",
            ":duperefs",
            ":duperef",
        ] {
            let id = ["crawl", ending].concat();
            assert!(check_crawl_id(id.as_bytes()).is_err(), "{id}");
        }
        for id in ["crawl", "a:b", ":", "counts", "allcrawls", "h:x"] {
            assert!(check_crawl_id(id.as_bytes()).is_ok(), "{id}");
        }
    }

    #[test]
    fn only_book_keeping_may_be_read_by_everybody() {
        for name in ["h:a:seq", "h:a:deps", "crawlspace", "claims", "sharedwaczs"] {
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
