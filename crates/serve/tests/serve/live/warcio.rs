//! Validation of records by warcio, the library behind most WARC tools.

use std::path::Path;
use std::process::Command;

use redis_tests::packages::{left_out, python, run};
use serde::Deserialize;

/// Runs `warcio check` on each file, and reads it.
const PROGRAM: &str = r#"
import contextlib, hashlib, io, json, sys
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main

def digest(stream):
    hasher, length = hashlib.sha256(), 0
    while True:
        piece = stream.read(65536)
        if not piece:
            return hasher.hexdigest(), length
        hasher.update(piece)
        length += len(piece)

for path in sys.argv[1:]:
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said):
        try:
            main(['check', '-v', path])
        except SystemExit as end:
            code = end.code or 0
    reads = []
    for way in ('raw', 'content'):
        with open(path, 'rb') as file:
            records = ArchiveIterator(file)
            record = next(records)
            stream = record.raw_stream if way == 'raw' else record.content_stream()
            try:
                reads.append(digest(stream))
            except Exception as error:
                reads.append((str(error), -1))
            more = sum(1 for _ in records)
    print(json.dumps({'code': code, 'said': said.getvalue(), 'more': more, 'raw': reads[0], 'content': reads[1]}))
"#;

/// Result of the validation.
#[derive(Debug, Deserialize)]
pub struct Verdict {
    code: i32,
    said: String,
    more: u32,
    /// SHA-256 and length of the payload.
    pub raw: (String, i64),
    /// SHA-256 and length of the payload without its content coding.
    pub content: (String, i64),
}

impl Verdict {
    /// Asserts that there is a single record with correct digests.
    #[track_caller]
    pub fn must_be_valid(&self, name: &str) {
        let valid = self.code == 0 && self.more == 0 && self.said.contains("digest pass");
        assert!(valid, "{name}: {self:?}");
    }
}

/// Returns SHA-256 and length, as in a verdict.
pub fn digest(bytes: &[u8]) -> (String, i64) {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    (digits.collect(), i64::try_from(bytes.len()).unwrap())
}

/// Returns warcio's verdicts on the files, in their order; `None` if warcio cannot be installed.
pub fn verdicts<P: AsRef<Path>>(files: &[P]) -> Option<Vec<Verdict>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warcio");
    std::fs::create_dir_all(&folder).unwrap();
    let python = match python(&folder, &["warcio==1.8.*", "setuptools<81"]) {
        Ok(python) => python,
        Err(reason) => {
            left_out("warcio", &reason);
            return None;
        }
    };
    let files = files.iter().map(|file| file.as_ref().as_os_str());
    let said = run(Command::new(python).args(["-c", PROGRAM]).args(files)).unwrap();
    let verdicts: Vec<Verdict> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    Some(verdicts)
}
