//! Parses lists of metadata files: text with one name per line, or JSON.

use std::io::{self, Read};

use serde::Deserialize;

use super::name;

/// Maximum size of a list in bytes.
const MAX_LIST: u64 = 256 << 20;
/// Maximum length of a line of a list in bytes.
const MAX_LINE: usize = 64 * 1024;

/// The kind of an entry of a list, judging by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A WARC or ARC file.
    File,
    /// Possibly a folder: the name is empty, or has no extension.
    Folder,
    /// Another kind of file, which is ignored.
    Other,
}

/// Returns the kind of the last component of a path.
pub(super) fn kind_of(name: &str) -> Named {
    match name {
        name if name::is_archive_file(name) => Named::File,
        name if !name.contains('.') => Named::Folder,
        _ => Named::Other,
    }
}

/// Reads a list.
///
/// # Errors
/// Fails if the list is too long.
pub(super) fn read(input: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than the limit detects a list that is too long.
    if input.take(MAX_LIST + 1).read_to_end(&mut text)? as u64 > MAX_LIST {
        Err(io::Error::other(format!(
            "the list has more than {MAX_LIST} bytes"
        )))
    } else {
        Ok(text)
    }
}

/// Returns the names in a list, unchanged: paths or URLs, relative to the list; a folder ends with `/`.
///
/// Blank lines and lines that begin with `#` are skipped. A list that begins with `[` or `{` is JSON, with an
/// array at the top level or in `files`. The elements of the array are names, or objects with a `name`,
/// `path` or `url` (as nginx lists folders).
///
/// # Errors
/// Fails with the reason why the list is invalid.
pub(super) fn names(text: &[u8]) -> Result<Vec<String>, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if matches!(text.trim_ascii_start().first(), Some(b'[' | b'{')) {
        return json(text);
    }
    let mut names = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let number = number + 1;
        if line.len() > MAX_LINE {
            return Err(format!("line {number} is longer than {MAX_LINE} bytes"));
        }
        let line = std::str::from_utf8(line)
            .ok()
            .filter(|line| !line.contains(char::is_control));
        match line {
            Some(line) => names.push(line.to_owned()),
            None => {
                return Err(format!(
                    "line {number} is neither a path nor a URL: the file is not a list of files"
                ));
            }
        }
    }
    Ok(names)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum List {
    Bare(Vec<Item>),
    Within { files: Vec<Item> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Name(String),
    File {
        #[serde(alias = "path", alias = "url")]
        name: String,
        #[serde(rename = "type", default)]
        kind: Option<String>,
    },
}

fn json(text: &[u8]) -> Result<Vec<String>, String> {
    let list: List = serde_json::from_slice(text).map_err(|error| {
        format!("invalid JSON, expected an array of names or of objects with a name: {error}")
    })?;
    let (List::Bare(items) | List::Within { files: items }) = list;
    let names = items.into_iter().map(|item| match item {
        Item::Name(name) => name,
        Item::File { mut name, kind } => {
            if kind.is_some_and(|kind| kind == "directory") && !name.ends_with('/') {
                name.push('/');
            }
            name
        }
    });
    Ok(names.collect())
}

/// Returns the links of an HTML page, unchanged, except links within the page and to the same listing in another order
/// (`?C=N;O=D`).
pub(super) fn links(page: &[u8]) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = page;
    while let Some(at) = memchr::memchr_iter(b'=', rest).find(|at| is_href(rest, *at)) {
        rest = rest.get(at + 1..).unwrap_or_default().trim_ascii_start();
        let (end, skip): (&[u8], usize) = match rest.first() {
            Some(b'"') => (b"\"", 1),
            Some(b'\'') => (b"'", 1),
            _ => (b" >\t\r\n", 0),
        };
        let value = rest.get(skip..).unwrap_or_default();
        let length = value.iter().position(|byte| end.contains(byte));
        let (value, after) = value.split_at(length.unwrap_or(value.len()));
        rest = after;
        let value = String::from_utf8_lossy(value).trim().replace("&amp;", "&");
        let bare = value.split(['?', '#']).next().unwrap_or_default();
        if !bare.is_empty() && bare.len() <= MAX_LINE {
            links.push(bare.to_owned());
        }
    }
    links
}

/// Returns whether a `=` belongs to a `href` attribute.
fn is_href(page: &[u8], equals: usize) -> bool {
    let before = page.get(..equals).unwrap_or_default().trim_ascii_end();
    let Some((before, name)) = before.split_last_chunk::<4>() else {
        return false;
    };
    name.eq_ignore_ascii_case(b"href") && before.last().is_some_and(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {

        #[test]
        fn every_link_of_a_listing_is_found(names in proptest::collection::vec("[a-zA-Z0-9%/._-]{1,12}", 0..8)) {
            let page: String = names
                .iter()
                .map(|name| format!("<tr><td><A  HREF = \"{name}\" title=\"href\">{name}</a> 2013=x\n"))
                .collect();
            prop_assert_eq!(links(page.as_bytes()), names);
        }

        #[test]
        fn any_bytes_may_be_a_page_or_a_list(text in proptest::collection::vec(any::<u8>(), 0..300), html in "(<a href=['\"]?[a-c&;=]{0,5}['\"]?>| href|=|<){0,20}") {
            let _ = (names(&text), links(&text), links(html.as_bytes()), names(html.as_bytes()));
        }
    }

    #[test]
    fn list_has_one_entry_per_line() {
        let list =
            b"# jobs\r\n\r\n 1-metadata-1.warc \r\nold/\nhttp://a.example/2-metadata-1.warc.gz";
        let expected = [
            "1-metadata-1.warc",
            "old/",
            "http://a.example/2-metadata-1.warc.gz",
        ];
        assert_eq!(names(list).unwrap(), expected);
        assert_eq!(names(b"").unwrap(), [""; 0]);
        assert!(names(b"a\n\xff\xfe\n").unwrap_err().contains("line 2"));
        assert!(names(b"\x1f\x8b\x08\0").is_err());
        assert!(names(&[b'a'; MAX_LINE + 1]).is_err());
    }

    #[test]
    fn json_may_contain_names_or_objects() {
        let expected = ["1-metadata-1.warc", "old/"];
        for json in [
            r#"["1-metadata-1.warc", "old/"]"#,
            r#" {"files": ["1-metadata-1.warc", {"path": "old/"}]}"#,
            r#"[{"name": "1-metadata-1.warc", "type": "file", "size": 3}, {"name": "old", "type": "directory"}]"#,
        ] {
            assert_eq!(names(json.as_bytes()).unwrap(), expected, "{json}");
        }
        for json in ["[1]", "{}", "[", r#"{"error": "no such folder"}"#] {
            assert!(names(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn links_are_found_in_any_html_spelling() {
        let page = br##"<html><head><link rel=x HREF = style.css></head>
            <a href="?C=N;O=D">Name</a> <a href='../'>Up</a> <a data-href="x" href="old/">old/</a>
            <a href=1-metadata-1.warc.gz>1</a><a href="a&amp;b-2-metadata-1.warc">2</a><a href="#top">top</a> href"##;
        let expected = [
            "style.css",
            "../",
            "old/",
            "1-metadata-1.warc.gz",
            "a&b-2-metadata-1.warc",
        ];
        assert_eq!(links(page), expected);
        assert_eq!(links(b"<a href=\"never closed"), ["never closed"]);
        assert_eq!(links(b"href="), [""; 0]);
    }
}
