//! Compression of the URIs of a group. The encoding of a group determines how they are compressed;
//! identifiers call it a "spelling".

use crawlspace_compact::number::{self, Malformed, Reader};
use smallvec::SmallVec;

use crate::texts::{self, Texts};

/// The encoding of the URIs of one group: the number of a symbol table, and the scheme and host with
/// which most of the URIs begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chg) struct Spelling {
    table: u16,
    /// Index in [`SCHEMES`] of the string with which the host begins.
    scheme: u8,
    name: Name,
}

/// The part of the host after its scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// The id of the group.
    Id,
    Other(SmallVec<[u8; 32]>),
}

/// Strings with which hosts may begin. The longest match is split off.
const SCHEMES: [&[u8]; 5] = [
    b"",
    b"http://",
    b"https://",
    b"http://www.",
    b"https://www.",
];

/// Maximum length of a host that is omitted from its URIs, in bytes.
const HOST_BYTES: usize = 255;

/// Marker of a URI that begins with the host; the host itself is not stored.
const WITH_HOST: u8 = 0;
/// Marker of any other URI.
const OTHER: u8 = 1;

impl Spelling {
    /// Creates the encoding of a group with that id, to which a URI is about to be added. The group is
    /// counted as an owner of the symbol table, so the caller must finally call [`Texts::retire`] with this
    /// table.
    pub fn new(texts: &mut Texts, id: &[u8], first_uri: &[u8]) -> Spelling {
        let host = texts::host_of(first_uri);
        let host = if host.len() <= HOST_BYTES { host } else { b"" };
        let split = |(scheme, of): (u8, &&[u8])| Some((scheme, host.strip_prefix(*of)?));
        let splits = (0..).zip(&SCHEMES).filter_map(split);
        let with_id = splits
            .clone()
            .find(|&(_, name)| name == id && !name.is_empty());
        let (scheme, name) = match with_id {
            Some((scheme, _)) => (scheme, Name::Id),
            None => {
                let (scheme, name) = splits.last().unwrap_or((0, host));
                (scheme, Name::Other(name.into()))
            }
        };
        Spelling {
            table: texts.assign(),
            scheme,
            name,
        }
    }

    /// Returns the same encoding with a different symbol table.
    pub fn with_table(&self, table: u16) -> Spelling {
        Spelling {
            table,
            ..self.clone()
        }
    }

    /// Returns the number of the symbol table.
    pub fn table(&self) -> u16 {
        self.table
    }

    fn host<'a>(&'a self, id: &'a [u8]) -> [&'a [u8]; 2] {
        let name = match &self.name {
            Name::Id => id,
            Name::Other(name) => name,
        };
        [SCHEMES[usize::from(self.scheme)], name]
    }

    /// Returns the mark of a URI, and the part of the URI that is compressed.
    fn split<'a>(&self, id: &[u8], uri: &'a [u8]) -> (u8, &'a [u8]) {
        let [scheme, name] = self.host(id);
        let rest = uri.strip_prefix(scheme);
        match rest.and_then(|rest| rest.strip_prefix(name)) {
            Some(rest) => (WITH_HOST, rest),
            None => (OTHER, uri),
        }
    }

    /// Adds a URI of the group to the training sample for the tables of later groups.
    pub fn learn(&self, texts: &mut Texts, id: &[u8], uri: &[u8]) {
        texts.learn(self.split(id, uri).1);
    }

    /// Appends the compressed URI, which is never empty and at most one byte longer than the URI.
    /// With the same encoding and id, two compressed URIs are equal if and only if the URIs are
    /// equal.
    pub fn shorten(&self, texts: &mut Texts, id: &[u8], uri: &[u8], out: &mut Vec<u8>) {
        let (mark, rest) = self.split(id, uri);
        texts.compress(self.table, mark, rest, out);
    }

    /// Expands compressed bytes, and appends the URI.
    pub fn expand(&self, texts: &Texts, id: &[u8], bytes: &[u8], out: &mut Vec<u8>) {
        if Texts::mark(bytes) == WITH_HOST {
            for part in self.host(id) {
                out.extend_from_slice(part);
            }
        }
        texts.expand(self.table, bytes, out);
    }

    /// Appends the serialized encoding. It takes one or two bytes if the host consists of an
    /// optional scheme or `www.` and the id of the group.
    pub fn write(&self, out: &mut Vec<u8>) {
        let is_other = matches!(self.name, Name::Other(_));
        let host = u64::from(self.scheme) * 2 + u64::from(is_other);
        number::put(out, u64::from(self.table) * KINDS + host);
        if let Name::Other(name) = &self.name {
            number::put_bytes(out, name);
        }
    }

    /// Reads a serialized encoding, and returns its length in bytes.
    ///
    /// # Errors
    /// Fails if the bytes do not begin with a serialized encoding.
    pub fn read(bytes: &[u8]) -> Result<(Spelling, usize), Malformed> {
        let mut reader = Reader::new(bytes);
        let number = reader.number()?;
        let table = u16::try_from(number / KINDS).map_err(|_| Malformed::NUMBER)?;
        let host = (number % KINDS) as u8;
        let name = match host % 2 {
            0 => Name::Id,
            _ => {
                let len = reader.number_to(HOST_BYTES as u64)?;
                Name::Other(reader.take(len as usize)?.into())
            }
        };
        let spelling = Spelling {
            table,
            scheme: host / 2,
            name,
        };
        Ok((spelling, reader.at()))
    }
}

/// Number of kinds of hosts.
const KINDS: u64 = 2 * SCHEMES.len() as u64;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::hint::black_box;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn expanded(spelling: &Spelling, texts: &Texts, id: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        spelling.expand(texts, id, bytes, &mut out);
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    fn written(spelling: &Spelling) -> Vec<u8> {
        let mut bytes = Vec::new();
        spelling.write(&mut bytes);
        let behind = [&bytes[..], b"\xffbehind"].concat();
        assert_eq!(Spelling::read(&behind), Ok((spelling.clone(), bytes.len())));
        for end in 0..bytes.len() {
            assert!(Spelling::read(&bytes[..end]).is_err());
        }
        bytes
    }

    fn uri() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            3 => "(https?://(www\\.)?(a|b\\.a)\\.(org|de))?/?(news|[a-z/]{0,9}|[0-9a-f]{4,40}|\\PC{0,5}){0,4}".prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 0..80),
        ]
    }

    proptest! {
        #[test]
        fn uris_come_out_as_they_went_in(
            id in prop_oneof![
                "(https?://)?(www\\.)?(a|b\\.a)\\.(org|de)".prop_map(String::into_bytes),
                vec(any::<u8>(), 0..9),
            ],
            uris in vec(uri(), 1..20),
        ) {
            let mut texts = Texts::default();
            let spelling = Spelling::new(&mut texts, &id, &uris[0]);
            written(&spelling);
            let mut seen = HashMap::new();
            for uri in &uris {
                spelling.learn(&mut texts, &id, uri);
                let mut bytes = Vec::new();
                spelling.shorten(&mut texts, &id, uri, &mut bytes);
                prop_assert!((1..=uri.len() + 1).contains(&bytes.len()));
                prop_assert_eq!(&expanded(&spelling, &texts, &id, &bytes), uri);
                let before = seen.insert(bytes, uri);
                prop_assert!(before.is_none_or(|before| before == uri));
            }
            prop_assert_eq!(seen.len(), uris.iter().collect::<std::collections::HashSet<_>>().len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300), uri in vec(any::<u8>(), 0..100)) {
            if let Ok((spelling, len)) = Spelling::read(&bytes) {
                prop_assert_eq!(written(&spelling), &bytes[..len]);
                expanded(&spelling, &Texts::default(), b"id", &uri);
            }
        }
    }

    #[test]
    fn a_host_made_of_the_id_takes_one_byte() {
        let mut texts = Texts::default();
        for (id, uri) in [
            ("a.org", "http://a.org/x"),
            ("a.org", "https://a.org"),
            ("a.org", "https://www.a.org/"),
            ("www.a.org", "http://www.a.org/"),
            ("http://a.org", "http://a.org/"),
            ("https://www.a.org:80", "https://www.a.org:80?x"),
        ] {
            let (id, uri) = (id.as_bytes(), uri.as_bytes());
            let mut spelling = Spelling::new(&mut texts, id, uri);
            assert_eq!(spelling.split(id, uri).0, WITH_HOST);
            assert_eq!(spelling.name, Name::Id);
            assert_eq!(written(&spelling).len(), 1);
            spelling.table = 255;
            assert_eq!(written(&spelling).len(), 2);
        }
        let other = Spelling::new(&mut texts, b"0123:default", b"https://www.a.org/x");
        assert_eq!(written(&other).len(), 2 + "a.org".len());
        let none = Spelling::new(&mut texts, b"", b"urn:x");
        assert_eq!(written(&none).len(), 2);
    }

    /// Returns the CPU time of this thread.
    fn worked() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes to a local variable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Returns pseudo-random bits that depend only on a number (SplitMix64).
    fn bits(n: u64) -> u64 {
        let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a URI like those in the benchmarks of the frontier.
    fn article(group: u64, i: u64) -> String {
        let bits_of = bits(group * 1_000_003 + i);
        let section = ["news", "culture", "archive", "politics"][(bits_of >> 60 & 3) as usize];
        format!(
            "https://www.h{:010x}.example/{section}/2026/{:02}/article-{:012x}-{i}.html",
            bits(group) >> 24,
            1 + bits_of % 12,
            bits_of >> 16,
        )
    }

    /// Returns a URI like those in the benchmarks of the dedupe index.
    fn page(group: u64, i: u64) -> String {
        const NAMES: [&str; 8] = [
            "archive", "museum", "gazette", "library", "parish", "kommune", "radio", "journal",
        ];
        const FOLDERS: [&str; 6] = [
            "news",
            "images/2026",
            "article",
            "wp-content/uploads/2026",
            "en/about",
            "assets",
        ];
        const KINDS: [&str; 5] = [".html", ".jpg", ".png", "/", ".js"];
        let path = bits(group * 1_000_003 + i);
        let pick = |list: &[&'static str], by: u64| list[(by % list.len() as u64) as usize];
        format!(
            "https://www.{}-{group}.org/{}/{}-{}-{}-{:x}{}",
            pick(&NAMES, group),
            pick(&FOLDERS, path),
            pick(&NAMES, path >> 8),
            pick(&NAMES, path >> 12),
            path >> 16 & 7,
            path >> 24 & 0xffff_ffff,
            pick(&KINDS, path >> 4),
        )
    }

    /// Returns a URI with words and a query, like the URIs of shops and forums.
    fn query(group: u64, i: u64) -> String {
        const WORDS: [&str; 16] = [
            "garden", "chair", "table", "outdoor", "wooden", "blue", "winter", "jacket", "shoes",
            "lamp", "kitchen", "children", "sale", "leather", "cotton", "vintage",
        ];
        let word = |n: u64| WORDS[(bits(group * 1_000_003 + i * 8 + n) % 16) as usize];
        let number = bits(group * 1_000_003 + i);
        format!(
            "https://www.shop-{group}.example/en/products/{}-{}-{}-{}?category={}&sort=price_asc&page={}&sid={:x}",
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            number % 40,
            number >> 32,
        )
    }

    #[test]
    #[ignore = "takes a while, and prints figures"]
    fn figures_of_uris() {
        type Kind = (&'static str, fn(u64, u64) -> String);
        type Group = (Vec<u8>, Spelling);
        let kinds: [Kind; 3] = [("articles", article), ("pages", page), ("queries", query)];
        for (kind, uri) in kinds {
            let mut texts = Texts::default();
            for is_learned in [false, true] {
                let id = |group: u64| format!("{:020x}:default", bits(group)).into_bytes();
                let groups: Vec<Group> = (0..1000)
                    .map(|group| {
                        let first = uri(group, 0).into_bytes();
                        (id(group), Spelling::new(&mut texts, &id(group), &first))
                    })
                    .collect();
                let uris: Vec<(&Group, Vec<u8>)> = (0..100_000)
                    .map(|n| {
                        (
                            &groups[n % 1000],
                            uri(n as u64 % 1000, n as u64).into_bytes(),
                        )
                    })
                    .collect();
                let mut bytes = Vec::with_capacity(200 * uris.len());
                let mut ends = Vec::with_capacity(uris.len());
                let start = worked();
                for ((id, spelling), uri) in &uris {
                    spelling.shorten(&mut texts, id, uri, &mut bytes);
                    ends.push(bytes.len());
                }
                let shorten = (worked() - start) / uris.len() as u32;
                let mut out = Vec::with_capacity(1000);
                let start = worked();
                let mut from = 0;
                for (((id, spelling), _), &end) in uris.iter().zip(&ends) {
                    out.clear();
                    spelling.expand(&texts, id, &bytes[from..end], &mut out);
                    black_box(&out);
                    from = end;
                }
                let expand = (worked() - start) / uris.len() as u32;
                let of_group: usize = groups.iter().map(|(_, of)| written(of).len()).sum();
                let text: usize = uris.iter().map(|(_, uri)| uri.len()).sum();
                println!(
                    "{kind}, learned {is_learned}: {:.1} bytes of {:.1}, a spelling {:.1}, \
                     shorten {shorten:?}, expand {expand:?}, memory {}",
                    bytes.len() as f64 / uris.len() as f64,
                    text as f64 / uris.len() as f64,
                    of_group as f64 / groups.len() as f64,
                    texts.memory(),
                );
                let start = worked();
                for ((id, spelling), uri) in &uris {
                    spelling.learn(&mut texts, id, uri);
                }
                println!("  learn {:?}", (worked() - start) / uris.len() as u32);
            }
        }
    }
}
