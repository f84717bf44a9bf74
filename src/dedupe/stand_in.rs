//! Lets plain clients read and write the hashes of a packed index under their documented names.

use super::digest::Digest;
use super::error::Result;
use super::glob;
use super::index::Index;
use super::index::storage::Storage;
use super::keys::{CrawlKey, MERGED, RECORDS, is_crawl_id};
use super::packed::Part;
use super::store::{Store, Stored};
use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::parse_unsigned;

/// A documented hash of a packed index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document<'a> {
    /// The merged index.
    Merged,
    /// `h:<crawl>`.
    Records(&'a [u8]),
}

impl<'a> Document<'a> {
    /// Returns false if a key name is certainly not the name of a merged index.
    pub fn may_be_merged(key: &[u8]) -> bool {
        key.last() == Some(&b's')
    }

    /// Returns the hashes that a key may name, each with its prefix. `is_prefix` returns true if an
    /// index with this prefix may be packed; `starts` are the positions at which names of records may
    /// begin. Several hashes are possible if the prefix of one index begins with the prefix of
    /// another index.
    pub fn of_key(
        key: &'a [u8],
        starts: impl Iterator<Item = usize>,
        is_prefix: impl Fn(&[u8]) -> bool + Copy,
    ) -> impl Iterator<Item = (&'a [u8], Document<'a>)> {
        let may_be_merged = Document::may_be_merged(key);
        let merged = may_be_merged.then(|| MERGED.prefix_of(key)).flatten();
        let merged = merged.filter(move |prefix| is_prefix(prefix));
        // Skip keys of counts, because crawlers constantly read and write counts.
        let is_counts = key.ends_with(CrawlKey::Counts.around().1);
        let records = starts.filter(move |_| !is_counts).filter_map(move |at| {
            let (prefix, name) = key.split_at(at);
            let crawl = name.strip_prefix(RECORDS)?;
            (is_prefix(prefix) && is_crawl_id(crawl)).then_some((prefix, Document::Records(crawl)))
        });
        let merged = merged.map(|prefix| (prefix, Document::Merged));
        merged.into_iter().chain(records)
    }

    fn part(self) -> Part<'a> {
        match self {
            Document::Merged => Part::Owners,
            Document::Records(crawl) => Part::Records(crawl),
        }
    }
}

impl<K: Store> Index<K> {
    /// Returns true if a part of this hash may be packed. `key` is its name.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub fn stands_in_for(&mut self, ks: &mut K, key: &[u8], of: Document<'_>) -> Result<bool> {
        match of {
            Document::Merged => {
                let may_be_packed = self.is_registered() && self.places.packed_key().is_some();
                Ok(may_be_packed && self.names().merged.as_ref() == key)
            }
            Document::Records(crawl) => self.has_packed_records(ks, crawl),
        }
    }

    /// Returns the value of a field, as `HGET` does. Call this only if
    /// [`stands_in_for`](Index::stands_in_for) returned true.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub fn plain_get(
        &mut self,
        ks: &mut K,
        of: Document<'_>,
        field: &[u8],
    ) -> Result<Option<Stored<K::Value>>> {
        match of {
            Document::Merged => self.places.merged().get(ks, field),
            Document::Records(crawl) => self.all_records(ks, crawl).get(ks, field),
        }
    }

    /// Returns true if a crawl is committed, or has packed records that are not copies of the records in its plain hash.
    fn has_packed_records(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if self.may_be_packed(ks, crawl)? {
            // This call also caches the state of the crawl for the next look-up.
            self.crawls.is_uncommitted(ks, crawl)?;
            return Ok(true);
        }
        // Browsertrix canceled the crawl after its commit, or another program removed the crawl from
        // the sets.
        Ok(self.places.packed_len(ks, crawl)? > 0 && !self.has_copies(ks, crawl)?)
    }

    /// Returns the number of fields, as `HLEN` does.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub fn plain_len(&mut self, ks: &mut K, of: Document<'_>) -> Result<u64> {
        match of {
            Document::Merged => self.places.merged().len(ks),
            Document::Records(crawl) => self.records_len(ks, crawl),
        }
    }

    /// Returns true if the field exists in the packed part of a hash.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub fn is_packed_field(&self, ks: &mut K, of: Document<'_>, field: &[u8]) -> Result<bool> {
        self.places.packed(of.part()).has(ks, field)
    }

    /// Makes a crawl the owner of a hash that has no owner, as `HSETNX` on the merged index does.
    /// Returns false if the hash has an owner.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; errors of the server.
    pub fn plain_own(&mut self, ks: &mut K, field: &[u8], crawl: &[u8]) -> Result<bool> {
        if self.places.merged().has(ks, field)? {
            return Ok(false);
        }
        self.note_purge(ks)?;
        self.places.merged().set(ks, field, crawl)?;
        self.spelling.note_merged(&Digest::of_field(field), field);
        self.refresh_storage(ks)?;
        Ok(true)
    }

    /// Appends the next packed entries of a hash to `out`, starting at a position. Returns the next
    /// position, or `None` at the end.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type.
    pub fn scan_packed(
        &self,
        ks: &mut K,
        of: Document<'_>,
        position: u64,
        out: &mut Batch,
    ) -> Result<Option<u64>> {
        let Some(key) = self.places.packed_key() else {
            return Ok(None);
        };
        let next = ks.packed(key, |packed| packed.scan_at(of.part(), position, out))?;
        Ok(next.flatten())
    }

    /// Returns the key with the plain part of a hash, if there is one, and true if entries are being
    /// moved from the packed part to the plain part.
    pub fn plain_part(&mut self, ks: &mut K, of: Document<'_>) -> Option<(K::Name, bool)> {
        let key = match of {
            Document::Merged => self.places.plain_key().cloned(),
            Document::Records(crawl) => Some(self.crawls.key(ks, crawl, CrawlKey::Records)),
        };
        let unpacks = self.places.storage() == Storage::Plain;
        key.filter(|key| ks.exists(key)).map(|key| (key, unpacks))
    }
}

/// A position in a scan of a hash, as a number that clients pass back.
///
/// A scan reads the plain part of the hash first and then the packed part, so that it does not miss entries that are
/// packed during the scan. While an index is being unpacked, the scan then reads the plain part again. A cursor of the
/// server's own `HSCAN` continues in the plain part, so that a scan may begin before an index is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanPosition {
    /// A position in the plain part: the server's cursor.
    Plain(u64),
    /// A position in the packed part.
    Packed(u64),
    /// A position in the plain part, which is read again after the packed part.
    PlainAgain(u64),
}

/// Bit that marks the cursors of this module. It is the highest bit that every client represents exactly. The
/// server's own cursors do not reach it, because they are less than twice the size of the hash.
const OURS: u64 = 1 << 52;
const AGAIN: u64 = 1 << 51;
/// Bits of a position below the marks. Higher bits are stored above the marks.
const LOW: u32 = 51;

impl ScanPosition {
    /// Parses a cursor: decimal digits. Returns `None` for anything else, because servers differ in
    /// what else they accept.
    pub fn parse(cursor: &[u8]) -> Option<ScanPosition> {
        parse_unsigned(cursor).map(ScanPosition::of_cursor)
    }

    /// Converts a cursor to a position.
    fn of_cursor(cursor: u64) -> ScanPosition {
        if cursor & OURS == 0 {
            return ScanPosition::Plain(cursor);
        }
        let at = cursor & (AGAIN - 1) | cursor >> (LOW + 2) << LOW;
        if cursor & AGAIN == 0 {
            ScanPosition::Packed(at)
        } else {
            ScanPosition::PlainAgain(at)
        }
    }

    /// Converts the position to a cursor. Only the beginning of the scan is 0.
    pub fn cursor(self) -> u64 {
        let ours = |at: u64| OURS | at & (AGAIN - 1) | at >> LOW << (LOW + 2);
        match self {
            ScanPosition::Plain(at) => at,
            ScanPosition::Packed(at) => ours(at),
            ScanPosition::PlainAgain(at) => ours(at) | AGAIN,
        }
    }
}

/// Options of `HSCAN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions<'a> {
    /// Pattern that the fields must match.
    pub pattern: Option<&'a [u8]>,
    /// Minimum number of entries per reply, before entries that do not match the pattern are
    /// dropped.
    pub count: u64,
    /// True if the reply has no values.
    pub without_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// Parses the words after the cursor. Returns `None` if the server might refuse them.
    pub fn parse(words: &[&'a [u8]]) -> Option<ScanOptions<'a>> {
        let mut options = ScanOptions {
            count: 10,
            ..ScanOptions::default()
        };
        let mut rest = words;
        loop {
            rest = match *rest {
                [] => return Some(options),
                [word, pattern, ref rest @ ..] if word.eq_ignore_ascii_case(b"MATCH") => {
                    options.pattern = Some(pattern);
                    rest
                }
                [word, count, ref rest @ ..] if word.eq_ignore_ascii_case(b"COUNT") => {
                    let is_valid = |count: &u64| (1..=i64::MAX as u64).contains(count);
                    options.count = parse_unsigned(count).filter(is_valid)?;
                    rest
                }
                [word, ref rest @ ..] if word.eq_ignore_ascii_case(b"NOVALUES") => {
                    options.without_values = true;
                    rest
                }
                _ => return None,
            };
        }
    }

    /// Returns true if a field matches the pattern.
    pub fn matches(&self, field: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_positions_are_distinct_and_exact() {
        use ScanPosition::{Packed, Plain, PlainAgain};
        for at in [0, 1, 77, (1 << 51) - 1] {
            for position in [Plain(at), Packed(at), PlainAgain(at)] {
                assert_eq!(ScanPosition::of_cursor(position.cursor()), position);
                assert!(position.cursor() < 1 << 53);
            }
        }
        for at in [1 << 51, u64::MAX >> 8] {
            for position in [Packed(at), PlainAgain(at)] {
                assert_eq!(ScanPosition::of_cursor(position.cursor()), position);
            }
        }
        assert_ne!(Packed(0).cursor(), 0);
        assert_eq!(ScanPosition::parse(b"0"), Some(Plain(0)));
        for invalid in ["", "-1", "+1", "01", "x", "1 ", "18446744073709551616"] {
            assert_eq!(ScanPosition::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn options_that_the_server_might_refuse_are_left_to_it() {
        let parse = |words: &str| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let options = ScanOptions::parse(&words)?;
            let pattern = options
                .pattern
                .map(|p| String::from_utf8_lossy(p).into_owned());
            Some((pattern, options.count, options.without_values))
        };
        assert_eq!(
            parse("match a* COUNT 7"),
            Some((Some("a*".into()), 7, false))
        );
        assert_eq!(parse("NOVALUES"), Some((None, 10, true)));
        for refused in [
            "MATCH",
            "COUNT",
            "COUNT 0",
            "COUNT -1",
            "COUNT +1",
            "COUNT 01",
            "COUNT x",
            "TYPE hash",
        ] {
            assert_eq!(parse(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_key_is_recognized_behind_a_packed_prefix_only() {
        let of = |key: &'static str| {
            let at = key.match_indices("h:").map(|(at, _)| at);
            let all = Document::of_key(key.as_bytes(), at, |prefix| {
                [&b"p:"[..], b"p:h:"].contains(&prefix)
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(of("p:allhashes"), [(&b"p:"[..], Document::Merged)]);
        assert_eq!(of("p:alldupes"), [(&b"p:"[..], Document::Merged)]);
        assert_eq!(of("p:h:a"), [(&b"p:"[..], Document::Records(b"a"))]);
        let both = [
            (&b"p:"[..], Document::Records(b"h:a")),
            (&b"p:h:"[..], Document::Records(b"a")),
        ];
        assert_eq!(of("p:h:h:a"), both);
        for other in ["q:allhashes", "h:a", "p:h:a:counts", "p:h:", "p:allcounts"] {
            assert_eq!(of(other), [], "{other}");
        }
        for name in MERGED.every_name() {
            assert!(Document::may_be_merged(name.as_bytes()), "{name}");
        }
    }
}
