//! Samples index files to check that they are sorted and in a supported format. In an unsorted or
//! unsupported file, a search would silently miss captures.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crawlspace_cdx::{Format, Line, Read};

use crate::sorted::file::FileVersion;
use crate::sorted::line::{Shape, is_no_capture};
use crate::spelling::canonical;
use crate::zipnum::cluster::block::{Block, part_of_header};

/// Number of samples of a file, evenly distributed.
const SAMPLES: u64 = 8;
/// Size of a sample, in bytes.
const SAMPLE: usize = 16 << 10;

/// A file whose samples were in order, but in which a query found unsorted lines.
#[derive(Debug, Default)]
pub struct Disorder(Mutex<Option<(PathBuf, Option<FileVersion>)>>);

impl Disorder {
    /// Records a file whose lines were out of order.
    pub(crate) fn note(&self, path: &Path) {
        let mut noted = self.lock();
        if noted.as_ref().is_none_or(|(other, _)| other != path) {
            tracing::warn!(path = %path.display(), "an index is not sorted: sort it with LC_ALL=C sort");
            *noted = Some((path.to_owned(), version(path)));
        }
    }

    /// Returns the message of the problem, until the file changes.
    pub fn problem(&self) -> Option<String> {
        let mut noted = self.lock();
        noted.take_if(|(path, seen)| version(path) != *seen);
        let (path, _) = noted.as_ref()?;
        let shown = path.display();
        Some(format!(
            "{shown}: it is not sorted: sort it with LC_ALL=C sort"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(PathBuf, Option<FileVersion>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(path: &Path) -> Option<FileVersion> {
    fs::metadata(path).ok().as_ref().map(FileVersion::of)
}

/// The result of inspecting samples of an index file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspection {
    /// The reason why the file cannot be searched, if any.
    pub flaw: Option<Flaw>,
    /// True if keys differ from the urlkeys of their lines.
    pub is_respelled: bool,
    /// True for a secondary index in JSON, as in packages.
    pub is_hinted: bool,
    /// The name of the file that contains the blocks, if the first line has it.
    pub part: Option<Box<str>>,
}

/// The reason why an index file cannot be searched, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The lines are not sorted, so each query has to read the whole file.
    Unsorted(String),
    /// The format is not supported.
    Unread(String),
}

/// Minimum number of columns of a CDX file.
const COLUMNS: usize = 6;

/// Inspects samples of a file. Reports no flaw for an unreadable file, because opening the file
/// reports the error.
pub(crate) fn inspect(path: &Path, is_secondary: bool) -> Inspection {
    let mut inspection = Inspection::default();
    if let Some(flaw) = sampled(path, is_secondary, &mut inspection).ok().flatten() {
        let said = |what: String| format!("{}: {what}", path.display());
        inspection.flaw = Some(match flaw {
            Flaw::Unsorted(what) => Flaw::Unsorted(said(what)),
            Flaw::Unread(what) => Flaw::Unread(said(what)),
        });
    }
    inspection
}

/// Counts of the sampled lines.
#[derive(Default)]
struct Seen {
    lines: u64,
    captures: u64,
    /// Captures whose key is a URL.
    urls: u64,
}

fn sampled(
    path: &Path,
    is_secondary: bool,
    inspection: &mut Inspection,
) -> io::Result<Option<Flaw>> {
    // Opening a pipe would block.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut sample = vec![0; SAMPLE];
    let mut before: Vec<u8> = Vec::new();
    let mut read_to = 0;
    let mut seen = Seen::default();
    let mut unsorted = None;
    for number in 0..SAMPLES {
        let from = (size / SAMPLES * number).max(read_to);
        let length = file.read_at(&mut sample, from)?;
        read_to = from + length as u64;
        let text = &sample[..length];
        if from == 0 && text.starts_with(b"\xef\xbb\xbf") {
            let what =
                "it begins with a byte order mark, which hides its first line: remove the mark";
            return Ok(Some(Flaw::Unsorted(what.to_owned())));
        }
        let mut at = from;
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        for (n, line) in lines.enumerate() {
            let begin = at;
            at += line.len() as u64;
            // The first and the last line of a sample may be incomplete.
            if n == 0 && from > 0 || !line.ends_with(b"\n") && at < size {
                continue;
            }
            let line = line.trim_ascii_end();
            if begin == 0
                && let Some(flaw) = header(line).filter(|_| !is_secondary)
            {
                return Ok(Some(flaw));
            }
            if is_secondary && begin == 0 {
                inspection.part = part_of_header(line);
            }
            if is_no_capture(line) || is_secondary && line.starts_with(b"!") {
                continue;
            }
            seen.lines += 1;
            if is_secondary {
                seen.captures += u64::from(Block::read(line).is_some());
                inspection.is_hinted |= line.ends_with(b"}");
                continue;
            }
            let Some(shape) = Shape::of(line) else {
                continue;
            };
            let (key, rest) = (&line[..shape.key], &line[shape.second + 1..]);
            let is_capture = rest.starts_with(b"{")
                || matches!(Line::read(line, Format::Cdx), Ok(Read::Capture(_)));
            seen.captures += u64::from(is_capture);
            seen.urls += u64::from(key.starts_with(b"http://") || key.starts_with(b"https://"));
            inspection.is_respelled |= *canonical(key, rest) != *key;
            let both = shape.both(line);
            if both < &before[..] && unsorted.is_none() {
                unsorted = Some(Flaw::Unsorted(format!(
                    "it is not sorted: the line at byte {begin} sorts before an earlier line; sort it with LC_ALL=C sort"
                )));
            }
            before = both.to_vec();
        }
    }
    let unread = |what: &str| Ok(Some(Flaw::Unread(what.to_owned())));
    match seen {
        Seen {
            lines: 1..,
            captures: 0,
            ..
        } if is_secondary => unread(
            "none of its lines describes a block: it is not a secondary index of a ZipNum cluster",
        ),
        Seen {
            lines: 1..,
            captures: 0,
            ..
        } => unread(
            "none of its lines is a capture: expected CDXJ, or CDX with 7 or 9 to 14 columns in the order N b a m s k",
        ),
        Seen { captures, urls, .. } if urls > 0 && urls == captures => unread(
            "its keys are URLs instead of urlkeys: index the WARC files with an indexer that writes SURTs",
        ),
        _ => Ok(unsorted),
    }
}

/// Returns the flaw of a file whose first line is a CDX header with unsupported columns.
fn header(line: &[u8]) -> Option<Flaw> {
    let letters = line
        .strip_prefix(b" CDX ")
        .or_else(|| line.strip_prefix(b"CDX "))?;
    let letters = String::from_utf8_lossy(letters).into_owned();
    let is_unread = Line::read(line, Format::Cdx).is_err_and(|bad| bad.is_order());
    let is_short = letters.split_ascii_whitespace().count() < COLUMNS;
    (is_unread || is_short).then(|| {
        Flaw::Unread(format!(
            "its header names the columns {letters:?}, but only the order N b a m s k is supported: index the \
             WARC files with an indexer that writes CDXJ"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.cdxj");
        std::fs::write(&path, text).unwrap();
        match inspect(&path, false).flaw {
            Some(Flaw::Unsorted(what) | Flaw::Unread(what)) => Some(what),
            None => None,
        }
    }

    fn line(n: u32) -> String {
        format!("com,example)/{n:06} 20200101000000 {{\"url\": \"http://example.com/{n:06}\"}}\n")
    }

    #[test]
    fn sorted_files_are_accepted() {
        assert_eq!(found(""), None);
        assert_eq!(found(" CDX N b a m s k r M S V g\n\n"), None);
        for count in [1, 10, 1_000, 20_000] {
            let text: String = (0..count).flat_map(|n| [line(n), line(n)]).collect();
            assert_eq!(found(&text), None, "{count}");
        }
    }

    #[test]
    fn unsorted_files_are_reported() {
        let few = found(&[line(2), line(1)].concat()).unwrap();
        assert!(few.contains("not sorted: the line at byte 72 "), "{few}");
        let halves: String = (5_000..10_000).chain(0..5_000).map(line).collect();
        assert!(found(&halves).unwrap().contains("not sorted"));
        let marked = format!("\u{feff}{}", line(1));
        assert!(found(&marked).unwrap().contains("byte order mark"));
    }

    #[test]
    fn unsupported_format_is_reported() {
        for (text, what) in [
            (
                " CDX a b a m s k r M V g u\nhttp://example.com/ 20200101000000 http://example.com/ text/html 200 D - - 1 a.warc.gz <urn:uuid:1>\n",
                "its header names the columns \"a b a m s k r M V g u\"",
            ),
            (
                " CDX N b a m s k V g r\ncom,example)/ 20200101000000 http://example.com/ text/html 200 D 1 a.warc.gz -\n",
                "its header names the columns \"N b a m s k V g r\"",
            ),
            (" CDX N b a\n", "its header names the columns \"N b a\""),
            ("nonsense\n", "none of its lines is a capture"),
            (
                "<!DOCTYPE html>\n<p>not found</p>",
                "none of its lines is a capture",
            ),
            (
                "http://example.com/ 20200101000000 {\"url\": \"http://example.com/\"}\n",
                "its keys are URLs",
            ),
        ] {
            let found = found(text).unwrap_or_default();
            assert!(found.contains(what), "{text}: {found}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.idx");
        for (text, flaw, is_hinted) in [
            ("com,a)/ 2016\tx.gz\t0\t10\t1\n", false, false),
            (
                "!meta 0 {\"format\": \"cdxj-gzip-1.0\"}\ncom,a)/ 2016 {\"offset\": 0, \"length\": 10}\n",
                false,
                true,
            ),
            ("com,a)/ 2016 x.gz 0 10\n", true, false),
            ("", false, false),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = inspect(&path, true);
            assert_eq!(
                (found.flaw.is_some(), found.is_hinted),
                (flaw, is_hinted),
                "{text}"
            );
        }
    }

    #[test]
    fn foreign_key_formats_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.cdxj");
        let line = "com,example)/a/ 20200101000000 {\"url\": \"http://example.com/a/\"}\n";
        std::fs::write(&path, line).unwrap();
        assert!(inspect(&path, false).is_respelled);
        std::fs::write(&path, line.replace("/a/ ", "/a ")).unwrap();
        assert_eq!(inspect(&path, false), Inspection::default());
    }
}
