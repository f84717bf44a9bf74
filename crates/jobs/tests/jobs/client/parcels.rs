//! Hand-made responses of a server.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlspace_jobs::{
    Draft, Entry, Error, FileBasedCache, IndexKind, IndexRequestClient, JobSet, Options, Parcel,
    Work,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use redis_tests::{Part, answer, with};

/// Returns the text of a set's lines by URL, and by digest.
pub fn lines(jobs: &str) -> (String, String) {
    let of = |key: &str| format!("{key} 20260102030405 {{\"job\":\"{jobs}\"}}\n").repeat(500);
    (of("com,example)/"), of("AAAA"))
}

pub fn set(jobs: &str) -> JobSet {
    jobs.parse().unwrap()
}

/// Builds an entry like a server's.
pub fn entry(folder: &Path, kind: IndexKind, jobs: &str) -> Entry {
    made(folder, kind, jobs, |draft| fill(draft, kind, jobs))
}

/// Builds an entry of any kind.
pub fn made(
    folder: &Path,
    kind: IndexKind,
    jobs: &str,
    fill: impl FnOnce(&mut Draft) -> Result<(), Error>,
) -> Entry {
    let cache = FileBasedCache::<JobSet>::open(folder, kind.folder(), kind.form()).unwrap();
    cache.cache(&set(jobs), &Work::default(), fill).unwrap()
}

pub fn fill(draft: &mut Draft, kind: IndexKind, jobs: &str) -> Result<(), Error> {
    let (by_url, by_digest) = lines(jobs);
    if kind == IndexKind::Cdx {
        write(draft, "cdx", by_url.as_bytes());
        return Ok(());
    }
    write(
        draft,
        "url.idx",
        b"com,example)/ 2026\turl.cdxj.gz\t0\t1\t1\n",
    );
    write(draft, "digest.idx", b"");
    write(draft, "url.cdxj.gz", &packed(&by_url));
    write(draft, "digest.cdxj.gz", &packed(&by_digest));
    draft.count("lines", 500);
    draft.note("3 lines were none".to_owned());
    Ok(())
}

pub fn write(draft: &mut Draft, name: &str, bytes: &[u8]) {
    let (_, mut file) = draft.create(name).unwrap();
    file.write_all(bytes).unwrap();
}

/// Compresses text as two gzip members, like blocks.
pub fn packed(text: &str) -> Vec<u8> {
    let half = text.len() / 2;
    let half = text[half..].find('\n').map_or(half, |at| half + at + 1);
    let mut packed = Vec::new();
    for part in [&text[..half], &text[half..]] {
        let mut gzip = GzEncoder::new(&mut packed, Compression::fast());
        gzip.write_all(part.as_bytes()).unwrap();
        gzip.finish().unwrap();
    }
    packed
}

/// Returns the bytes of the tar file of an entry.
pub fn tar(entry: &Entry) -> Vec<u8> {
    let mut parcel = Parcel::of(entry).unwrap();
    let mut bytes = Vec::new();
    while let Some(part) = parcel.part().unwrap() {
        bytes.extend(part);
    }
    assert_eq!(bytes.len() as u64, parcel.length());
    bytes
}

/// Returns the tar file of a set.
pub fn tar_of(kind: IndexKind, jobs: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    tar(&entry(folder.path(), kind, jobs))
}

/// Returns a response with a tar file.
pub fn arrives(bytes: impl AsRef<[u8]>) -> Vec<Part> {
    answer(200, &[("Content-Type", "application/x-tar")], bytes)
}

/// A client folder, and clients that share it.
pub struct Desk {
    _folder: tempfile::TempDir,
    pub options: Options,
}

impl Desk {
    pub fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let options = with!(Options, cache_dir: folder.path().join("cache"));
        Desk {
            _folder: folder,
            options,
        }
    }

    /// Returns a client that does not retry failures, and has long timeouts.
    pub fn strict(&self, server: &str) -> IndexRequestClient {
        self.client(server)
            .with_timeouts(Duration::from_secs(60), Duration::ZERO)
    }

    pub fn client(&self, server: &str) -> IndexRequestClient {
        IndexRequestClient::open(server, self.options.clone()).unwrap()
    }

    /// Returns the files in the folder, except lock files.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders: Vec<PathBuf> = vec![self.options.cache_dir.clone()];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(&folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                let name = path.strip_prefix(&self.options.cache_dir).unwrap();
                let name = name.to_str().unwrap().to_owned();
                let is_own = ["DEDUP_CRAWL_LOG", "FULL_CRAWL_LOG", "CDX"].contains(&&*name);
                if !is_own && !name.ends_with(".working") && !name.ends_with(".seen") {
                    files.push(name);
                }
            }
        }
        files.sort();
        files
    }
}
