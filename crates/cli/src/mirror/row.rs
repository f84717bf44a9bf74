//! A row of a source: an id and its tags.

use std::collections::BTreeSet;

use crawlspace_client::tags::Kind;
use crawlspace_compact::limits::tags::{ID_BYTES, TAG_BYTES};

/// An id with its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub id: Vec<u8>,
    pub tags: BTreeSet<Vec<u8>>,
}

impl Row {
    /// Returns the tags separated by spaces, as a command expects them.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let tags: Vec<&[u8]> = self.tags.iter().map(Vec::as_slice).collect();
        tags.join(&b' ')
    }

    /// Adds the tags of another row with the same id.
    pub(crate) fn unite(&mut self, other: Row) {
        self.tags.extend(other.tags);
    }

    /// Parses a row: an id, and its tags in a single string, separated by spaces.
    pub(crate) fn of_text(kind: Kind, id: &[u8], tags: &[u8]) -> Result<Row, String> {
        let tags = tags.split(|&byte| byte == b' ');
        Row::new(kind, id, tags.filter(|tag| !tag.is_empty()))
    }

    /// Validates an id and its tags.
    pub(crate) fn new<'a>(
        kind: Kind,
        id: &[u8],
        tags: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Row, String> {
        let named = |reason: &str| format!("id '{}': {reason}", shown(id));
        match kind {
            _ if id.is_empty() => return Err("the id is empty".to_owned()),
            Kind::Tag if id.contains(&b' ') => {
                return Err(named("a tag cannot contain a space"));
            }
            Kind::Tag if id.len() > TAG_BYTES => {
                return Err(named(&format!("a tag must have at most {TAG_BYTES} bytes")));
            }
            _ if id.len() > ID_BYTES => {
                return Err(named(&format!("an id must have at most {ID_BYTES} bytes")));
            }
            _ => {}
        }
        let mut row = Row {
            id: id.to_vec(),
            tags: BTreeSet::new(),
        };
        for tag in tags {
            let bad = match tag {
                [] => "a tag is empty".to_owned(),
                _ if tag.contains(&b' ') => "a tag cannot contain a space".to_owned(),
                _ if tag.len() > TAG_BYTES => format!("a tag must have at most {TAG_BYTES} bytes"),
                _ => {
                    row.tags.insert(tag.to_vec());
                    continue;
                }
            };
            return Err(named(&format!("its tag '{}': {bad}", shown(tag))));
        }
        Ok(row)
    }
}

/// Formats bytes for a message: as text, truncated.
pub(super) fn shown(bytes: &[u8]) -> String {
    const MAX_SHOWN: usize = 120;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN)]);
    let more = if bytes.len() > MAX_SHOWN { "…" } else { "" };
    format!("{}{more}", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_sorted_and_deduplicated() {
        let mut row = Row::of_text(Kind::Tag, b"coll:1", b"  org:7 private  org:7 ").unwrap();
        assert_eq!(row.joined(), b"org:7 private");
        row.unite(Row::of_text(Kind::Tag, b"coll:1", b"a org:7").unwrap());
        assert_eq!(row.joined(), b"a org:7 private");
        assert_eq!(Row::of_text(Kind::Tag, b"x", b"").unwrap().joined(), b"");
    }

    #[test]
    fn invalid_tag_is_reported() {
        let long = vec![b'x'; 1025];
        let bad = |id: &[u8], tag: &[u8]| Row::new(Kind::Tag, id, [tag]).unwrap_err();
        assert_eq!(bad(b"", b"a"), "the id is empty");
        assert_eq!(bad(b"a b", b"a"), "id 'a b': a tag cannot contain a space");
        assert!(bad(&long, b"a").ends_with("x…': a tag must have at most 1024 bytes"));
        assert_eq!(bad(b"a", b""), "id 'a': its tag '': a tag is empty");
        assert_eq!(
            bad(b"a", b"b c"),
            "id 'a': its tag 'b c': a tag cannot contain a space"
        );
        assert!(bad(b"a", &long).ends_with("a tag must have at most 1024 bytes"));
        assert!(Row::new(Kind::Tag, &long[1..], [&long[1..]]).is_ok());
    }

    #[test]
    fn id_of_a_capture_may_contain_spaces() {
        let id = b"org,example)/ 20240501120000 a.warc.gz 17";
        assert!(Row::new(Kind::Record, id, [&b"t"[..]]).is_ok());
        assert!(Row::new(Kind::Record, &vec![b'x'; 16_385], [&b"t"[..]]).is_err());
    }
}
