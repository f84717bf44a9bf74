//! Path indexes: files with lines `name<TAB>path[<TAB>path …]`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::resource::record::LoadError;

/// Maximum size of a file that is kept in memory, in bytes.
const MAX_CACHED: u64 = 64 << 20;
/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// A path index, which may change at any time.
pub(super) struct PathIndex {
    path: PathBuf,
    state: Mutex<Option<Arc<Snapshot>>>,
}

/// State of the file when it was last opened.
struct Snapshot {
    version: Version,
    kind: Kind,
}

/// Version of the file: device, inode, size, and mtime.
type Version = (u64, u64, u64, i64, i64);

enum Kind {
    /// Text of the file, and offsets of its lines, sorted by name.
    Memory { text: Vec<u8>, lines: Vec<u32> },
    /// A file whose lines are sorted by name.
    Sorted { file: File, size: u64 },
    /// A file with unsorted lines, which is scanned for each lookup.
    Unsorted,
}

impl PathIndex {
    /// Creates a path index, without opening the file.
    pub(super) fn new(path: PathBuf) -> PathIndex {
        PathIndex {
            path,
            state: Mutex::new(None),
        }
    }

    /// Returns the paths of the file with that name.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub(super) async fn paths(self: &Arc<Self>, name: &str) -> Result<Vec<String>, LoadError> {
        let (index, name) = (Arc::clone(self), name.to_owned());
        let found = tokio::task::spawn_blocking(move || index.paths_now(name.as_bytes())).await;
        match found {
            Ok(Ok(line)) => Ok(paths(&line)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(LoadError::Missing(
                "the list of files does not exist".to_owned(),
            )),
            Ok(Err(error)) => Err(LoadError::Io(format!(
                "the list of files cannot be read: {error}"
            ))),
            Err(_) => Err(LoadError::Io("the server is shutting down".to_owned())),
        }
    }

    /// Returns the lines with that name.
    fn paths_now(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let metadata = std::fs::metadata(&self.path)?;
        let version = version(&metadata);
        let known = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let state = match known.filter(|state| state.version == version) {
            Some(state) => state,
            None => {
                let state = Arc::new(Snapshot::read(&self.path)?);
                *self.state.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Arc::clone(&state));
                state
            }
        };
        match &state.kind {
            Kind::Memory { text, lines } => {
                let line = |at: &u32| {
                    let line = &text[*at as usize..];
                    line.split(|&byte| byte == b'\n').next().unwrap_or_default()
                };
                let from = lines.partition_point(|at| name_of(line(at)) < name);
                let those = lines
                    .iter()
                    .skip(from)
                    .map(line)
                    .take_while(|line| name_of(line) == name);
                Ok(those.collect::<Vec<_>>().join(&b'\n'))
            }
            Kind::Sorted { file, size } => search(file, *size, name),
            Kind::Unsorted => {
                let mut found = Vec::new();
                each_line(&self.path, |line| {
                    if name_of(line) == name {
                        found.extend_from_slice(line);
                        found.push(b'\n');
                    }
                    (found.len() as u64) < MAX_LINE
                })?;
                Ok(found)
            }
        }
    }
}

impl Snapshot {
    fn read(path: &Path) -> io::Result<Snapshot> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a file",
            ));
        }
        let size = metadata.len();
        let kind = if size <= MAX_CACHED {
            let mut text = Vec::new();
            (&mut file).take(MAX_CACHED).read_to_end(&mut text)?;
            let mut starts = vec![0];
            starts.extend(memchr::memchr_iter(b'\n', &text).map(|at| at + 1));
            starts.retain(|&at| at < text.len());
            let mut lines: Vec<u32> = starts
                .into_iter()
                .filter_map(|at| u32::try_from(at).ok())
                .collect();
            lines.sort_by_key(|&at| name_of(&text[at as usize..]));
            Kind::Memory { text, lines }
        } else {
            let mut last = Vec::new();
            let mut sorted = true;
            each_line(path, |line| {
                let name = name_of(line);
                sorted &= *last <= *name;
                last.clear();
                last.extend_from_slice(name);
                sorted
            })?;
            if sorted {
                Kind::Sorted { file, size }
            } else {
                Kind::Unsorted
            }
        };
        Ok(Snapshot {
            version: version(&metadata),
            kind,
        })
    }
}

fn version(metadata: &std::fs::Metadata) -> Version {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )
}

/// Returns the name at the start of a line; further lines may follow.
fn name_of(line: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'\t', b'\n', line).unwrap_or(line.len());
    line.get(..end).unwrap_or_default().trim_ascii_end()
}

/// Returns the paths in lines of one name.
fn paths(lines: &[u8]) -> Vec<String> {
    let columns =
        crawlspace_cdx::lines(lines).flat_map(|line| line.split(|&byte| byte == b'\t').skip(1));
    let paths = columns
        .map(<[u8]>::trim_ascii)
        .filter(|path| !path.is_empty());
    paths
        .filter_map(|path| Some(std::str::from_utf8(path).ok()?.to_owned()))
        .collect()
}

/// Calls `f` with each line of a file, until `f` returns false.
fn each_line(path: &Path, mut f: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut file = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut file).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 || !f(line.trim_ascii_end()) {
            return Ok(());
        }
    }
}

/// Returns the lines with that name in a sorted file, by binary search.
fn search(file: &File, size: u64, name: &[u8]) -> io::Result<Vec<u8>> {
    // Searches for the first line at or after `low` whose name is not less than `name`.
    let (mut low, mut high) = (0, size);
    while low < high {
        let middle = low + (high - low) / 2;
        let (begin, line) = line_after(file, size, middle)?;
        if begin < size && name_of(&line) < name {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let mut found = Vec::new();
    let mut at = low;
    loop {
        let (begin, line) = line_after(file, size, at)?;
        if begin >= size || name_of(&line) != name || found.len() as u64 > MAX_LINE {
            return Ok(found);
        }
        found.extend_from_slice(&line);
        found.push(b'\n');
        // From any offset within this line, the search continues with the next line.
        at = begin + 1;
    }
}

/// Returns the first line that starts at or after an offset, with its start. At the end of the file the line
/// is empty.
fn line_after(file: &File, size: u64, at: u64) -> io::Result<(u64, Vec<u8>)> {
    let begin = match at.checked_sub(1) {
        None => 0,
        Some(before) => match find(file, size, before)? {
            Some(end) => end + 1,
            None => return Ok((size, Vec::new())),
        },
    };
    let end = find(file, size, begin)?
        .unwrap_or(size)
        .min(begin.saturating_add(MAX_LINE));
    let mut line = vec![0; usize::try_from(end.saturating_sub(begin)).unwrap_or(0)];
    file.read_exact_at(&mut line, begin)?;
    Ok((begin, line))
}

/// Returns the offset of the first line feed at or after an offset.
fn find(file: &File, size: u64, mut at: u64) -> io::Result<Option<u64>> {
    let mut buffer = [0; 512];
    while at < size {
        let read = file.read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        if let Some(found) = memchr::memchr(b'\n', &buffer[..read]) {
            return Ok(Some(at + found as u64));
        }
        at += read as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_tests::Rng;

    fn of(path: &Path, kind: Kind) -> PathIndex {
        let metadata = std::fs::metadata(path).unwrap();
        let state = Snapshot {
            version: version(&metadata),
            kind,
        };
        PathIndex {
            path: path.to_owned(),
            state: Mutex::new(Some(Arc::new(state))),
        }
    }

    #[tokio::test]
    async fn all_look_up_methods_find_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.txt");
        let mut rng = Rng::new("path index");
        for size in [0_u64, 1, 2, 3, 10, 300] {
            let mut lines: Vec<String> = (0..size)
                .map(|i| {
                    let name = format!(
                        "{}-{}.warc.gz",
                        "x".repeat(rng.below(40) as usize),
                        rng.below(200)
                    );
                    format!("{name}\t/a/{i}\thttp://h/{i}\n")
                })
                .collect();
            lines.sort_by(|a, b| name_of(a.as_bytes()).cmp(name_of(b.as_bytes())));
            std::fs::write(&path, lines.concat()).unwrap();
            let file = File::open(&path).unwrap();
            let sorted = Arc::new(of(
                &path,
                Kind::Sorted {
                    file,
                    size: lines.concat().len() as u64,
                },
            ));
            let unsorted = Arc::new(of(&path, Kind::Unsorted));
            let memory = Arc::new(PathIndex::new(path.clone()));
            let names = lines
                .iter()
                .map(|line| line.split('\t').next().unwrap().to_owned());
            for name in names.chain(["".into(), "none".into(), "x".into(), "zzz".into()]) {
                let expected = unsorted.paths(&name).await.unwrap();
                assert_eq!(memory.paths(&name).await.unwrap(), expected, "{name}");
                assert_eq!(sorted.paths(&name).await.unwrap(), expected, "{name}");
            }
        }
    }

    #[tokio::test]
    async fn appended_lines_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.txt");
        let index = Arc::new(PathIndex::new(path.clone()));
        assert!(matches!(index.paths("a").await, Err(LoadError::Missing(_))));
        std::fs::write(&path, "b\t/b\r\na\t/1\t/2 \n").unwrap();
        assert_eq!(index.paths("a").await.unwrap(), ["/1", "/2"]);
        assert_eq!(index.paths("b").await.unwrap(), ["/b"]);
        std::fs::write(&path, "a\thttp://h/a").unwrap();
        assert_eq!(index.paths("a").await.unwrap(), ["http://h/a"]);
        assert!(index.paths("b").await.unwrap().is_empty());
    }
}
