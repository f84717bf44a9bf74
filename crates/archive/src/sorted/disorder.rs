//! Whether a file is sorted, as far as samples of it tell. In one that is not, searches find nothing where there is
//! something, and nobody notices.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sorted::file::FileVersion;
use crate::sorted::line::Shape;

/// Number of samples of a file, from its beginning to its end.
const SAMPLES: u64 = 8;
/// Size of a sample, in bytes.
const SAMPLE: usize = 16 << 10;

/// A file that a query found to be out of order, where samples did not show it.
#[derive(Debug, Default)]
pub struct Disorder(Mutex<Option<(PathBuf, Option<FileVersion>)>>);

impl Disorder {
    /// Notes a file whose lines came in another order than that of a sorted file.
    pub(crate) fn note(&self, path: &Path) {
        let mut noted = self.lock();
        if noted.as_ref().is_none_or(|(other, _)| other != path) {
            tracing::warn!(path = %path.display(), "an index is not sorted: sort it by LC_ALL=C sort");
            *noted = Some((path.to_owned(), version(path)));
        }
    }

    /// What is wrong, in words, as long as the file is as it was then.
    pub fn problem(&self) -> Option<String> {
        let mut noted = self.lock();
        noted.take_if(|(path, seen)| version(path) != *seen);
        let (path, _) = noted.as_ref()?;
        let shown = path.display();
        Some(format!(
            "{shown}: it is not sorted: sort it by LC_ALL=C sort"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(PathBuf, Option<FileVersion>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(path: &Path) -> Option<FileVersion> {
    fs::metadata(path).ok().as_ref().map(FileVersion::of)
}

/// What is wrong with the order of a file, in words. `None` when nothing is, or it cannot be read, which others tell.
pub(crate) fn disorder(path: &Path) -> Option<String> {
    let found = samples(path).ok().flatten()?;
    Some(format!("{}: {found}", path.display()))
}

fn samples(path: &Path) -> io::Result<Option<String>> {
    // To open some things is to wait for somebody at their other end.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut sample = vec![0; SAMPLE];
    let mut before: Vec<u8> = Vec::new();
    let mut read_to = 0;
    for number in 0..SAMPLES {
        let from = (size / SAMPLES * number).max(read_to);
        let length = file.read_at(&mut sample, from)?;
        read_to = from + length as u64;
        let text = &sample[..length];
        if from == 0 && text.starts_with(b"\xef\xbb\xbf") {
            return Ok(Some(
                "it begins with a byte order mark, which hides its first line".to_owned(),
            ));
        }
        let mut at = from;
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        for (n, line) in lines.enumerate() {
            let begin = at;
            at += line.len() as u64;
            // What a sample begins and ends with may be parts of lines.
            if n == 0 && from > 0 || !line.ends_with(b"\n") {
                continue;
            }
            let line = line.trim_ascii_end();
            let Some(shape) = Shape::of(line) else {
                continue;
            };
            let both = shape.both(line);
            if both < &before[..] {
                return Ok(Some(format!(
                    "it is not sorted: the line at byte {begin} comes before one that is in front of it; sort it by \
                     LC_ALL=C sort"
                )));
            }
            before = both.to_vec();
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.cdxj");
        std::fs::write(&path, text).unwrap();
        disorder(&path)
    }

    fn line(n: u32) -> String {
        format!("com,example)/{n:06} 20200101000000 {{\"url\": \"http://example.com/{n:06}\"}}\n")
    }

    #[test]
    fn sorted_files_are() {
        assert_eq!(found(""), None);
        assert_eq!(found(" CDX N b a m s k r M S V g\n\nnonsense\n"), None);
        for count in [1, 10, 1_000, 20_000] {
            let text: String = (0..count).flat_map(|n| [line(n), line(n)]).collect();
            assert_eq!(found(&text), None, "{count}");
        }
    }

    #[test]
    fn others_are_told() {
        let few = found(&[line(2), line(1)].concat()).unwrap();
        assert!(few.contains("not sorted: the line at byte 72 "), "{few}");
        let halves: String = (5_000..10_000).chain(0..5_000).map(line).collect();
        assert!(found(&halves).unwrap().contains("not sorted"));
        let marked = format!("\u{feff}{}", line(1));
        assert!(found(&marked).unwrap().contains("byte order mark"));
    }
}
