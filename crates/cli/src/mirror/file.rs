//! Source of a mirror: a CSV file of ids and their tags.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::time::Instant;

use super::row::Row;
use super::{Difference, Error, Event, Loaded, Rows, Space, Target, Tell, reader};
use crawlspace_client::tags::Kind;

/// Loads a CSV file of ids and tags, atomically. Messages call the file `name`.
///
/// # Errors
/// Fails if the load fails; readers then see the previous state.
///
/// ```no_run
/// use crawlspace_cli::mirror::{load_csv, Target};
/// use crawlspace_client::tags::Kind;
/// let target = Target {
///     redis: "redis://127.0.0.1/".to_owned(),
///     key: b"tags".to_vec(),
///     kind: Kind::Tag,
///     allow_empty: false,
/// };
/// let file = &b"id,tags\ncoll:1068,org:77 private\n"[..];
/// let loaded = load_csv(&target, file, "collections.csv", &mut |_| {})?;
/// assert_eq!(loaded.ids, 1);
/// # Ok::<(), crawlspace_cli::mirror::Error>(())
/// ```
pub fn load_csv(
    target: &Target,
    file: impl Read,
    name: &str,
    tell: Tell<'_>,
) -> Result<Loaded, Error> {
    let begun = Instant::now();
    let mut space = Space::open(target)?;
    space.begin()?;
    // Rows with the same id may be anywhere in the file. The staged copy merges their tags; this set only
    // counts the ids. If two ids had the same hash, the count would be wrong and the load would be refused.
    let hasher = RandomState::new();
    let mut known = HashSet::new();
    let mut read = 0;
    let staged = each(file, name, target.kind, |row| {
        let new = !row.tags.is_empty() && known.insert(hasher.hash_one(&row.id));
        space.stage(&row, new)?;
        read += 1;
        if read % 1000 == 0 {
            tell(Event::Staged(known.len() as u64));
        }
        Ok(())
    });
    let placed = staged.and_then(|()| space.publish(&[]));
    let (info, _) = placed.inspect_err(|_| space.discard())?;
    Ok(Loaded {
        ids: info.ids(target.kind),
        tags: info.edges(target.kind),
        ms: begun.elapsed().as_millis() as u64,
    })
}

/// Returns the differences between the space and the file, without writing.
///
/// # Errors
/// Fails if the file or the space cannot be read.
pub fn compare_csv(target: &Target, file: impl Read, name: &str) -> Result<Difference, Error> {
    let mut rows = Rows::default();
    each(file, name, target.kind, |row| {
        rows.take(row);
        Ok(())
    })?;
    rows.compare(&reader(target)?, target.kind)
}

/// Reads a CSV file (RFC 4180) with two columns, `id` and `tags` (separated by spaces), and calls `take` for each row.
/// The first line may be a header with these names.
fn each(
    file: impl Read,
    name: &str,
    kind: Kind,
    mut take: impl FnMut(Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |cause| Error::File {
        name: name.to_owned(),
        cause,
    };
    let mut lines = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(file);
    let mut line = csv::ByteRecord::new();
    let mut first = true;
    while lines.read_byte_record(&mut line).map_err(failed)? {
        if first {
            first = false;
            // Spreadsheets write a byte order mark.
            let id = line
                .get(0)
                .map(|id| id.strip_prefix(b"\xef\xbb\xbf").unwrap_or(id));
            let is = |text: Option<&[u8]>, word: &[u8]| {
                text.is_some_and(|text| text.eq_ignore_ascii_case(word))
            };
            if is(id, b"id") && is(line.get(1), b"tags") && line.len() == 2 {
                continue;
            }
        }
        let number = line.position().map_or(0, csv::Position::line);
        let bad = |reason: String| Error::Row(format!("{name} line {number}: {reason}"));
        if line.len() != 2 {
            let reason = format!("{} columns, not two: id and tags", line.len());
            return Err(bad(reason));
        }
        take(Row::of_text(kind, &line[0], &line[1]).map_err(bad)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<String>, String> {
        let mut rows = Vec::new();
        let read = each(text.as_bytes(), "t.csv", Kind::Tag, |row| {
            let tags = String::from_utf8(row.joined()).unwrap();
            rows.push(format!("{}={tags}", String::from_utf8(row.id).unwrap()));
            Ok(())
        });
        read.map(|()| rows).map_err(|error| error.to_string())
    }

    #[test]
    fn header_is_optional() {
        let expected = Ok(vec![
            "coll:1=org:7 private".to_owned(),
            "coll:2=".to_owned(),
        ]);
        assert_eq!(
            rows("id,tags\r\ncoll:1,private org:7\r\ncoll:2,\r\n"),
            expected
        );
        assert_eq!(
            rows("\u{feff}Id,Tags\ncoll:1,private org:7\ncoll:2,"),
            expected
        );
        assert_eq!(rows("coll:1,private org:7\ncoll:2,\n"), expected);
        assert_eq!(rows(""), Ok(Vec::new()));
    }

    #[test]
    fn quotes_follow_rfc_4180() {
        let expected = Ok(vec!["a,\"b=t,u".to_owned()]);
        assert_eq!(rows("\"a,\"\"b\",\"t,u\"\r\n"), expected);
    }

    #[test]
    fn bad_line_is_reported_with_its_number() {
        assert_eq!(
            rows("a,b\nc\n"),
            Err("t.csv line 2: 1 columns, not two: id and tags".to_owned())
        );
        assert_eq!(
            rows("id,tags\na,b\na b,c\n"),
            Err("t.csv line 3: id 'a b': a tag cannot contain a space".to_owned())
        );
    }
}
