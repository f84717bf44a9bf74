//! The ids and names under which the record and the file of a line may have tags.

use super::index::padding;

/// Returns the ids under which a record may have tags: the id with the filename as in the line, and
/// the id with the filename without its folders. If the offset has leading zeroes, returns each id
/// with the zeroes (as in files that earlier versions saved) and without them.
pub fn ids_of_record(id: &mut Vec<u8>) -> impl Iterator<Item = &[u8]> {
    let whole = id.len();
    // Timestamps and offsets never contain a slash, but urlkeys may.
    let space = memchr::memrchr(b' ', id).unwrap_or(0);
    let file = memchr::memrchr(b' ', &id[..space]).map_or(0, |at| at + 1);
    let base = memchr::memrchr(b'/', &id[file..space]).map(|slash| file + slash + 1);
    let zeroes = id.get(space + 1..).map_or(0, padding);
    let mut ends = [whole; 4];
    if let Some(base) = base {
        id.extend_from_within(..file);
        id.extend_from_within(base..whole);
    }
    ends[1] = id.len();
    if zeroes > 0 {
        let digits = space + 1 + zeroes..whole;
        id.extend_from_within(..=space);
        id.extend_from_within(digits.clone());
        ends[2] = id.len();
        if let Some(base) = base {
            id.extend_from_within(..file);
            id.extend_from_within(base..=space);
            id.extend_from_within(digits);
        }
    } else {
        ends[2] = id.len();
    }
    ends[3] = id.len();
    let mut rest = &id[..];
    let mut begin = 0;
    let ids = ends.into_iter().map(move |end| {
        let (one, others) = rest.split_at(end - begin);
        (begin, rest) = (end, others);
        one
    });
    ids.filter(|one| !one.is_empty())
}

/// Returns the names under which a file may have tags: the name as in the line, and the name
/// without its folders.
pub fn names_of_file(filename: &[u8]) -> impl Iterator<Item = &[u8]> {
    let base = memchr::memrchr(b'/', filename).map(|at| &filename[at + 1..]);
    std::iter::once(filename).chain(base)
}
