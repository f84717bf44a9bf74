//! `crawlspace cdxj` compared with cdxj-indexer and FastWARC (I4).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use redis_tests::archive::collection::sha1_base32;
use redis_tests::packages::{self, left_out};
use redis_tests::{Program, Rng};
use tempfile::TempDir;

use crate::packages::kept;
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, grouped, rate};
use crate::{Plan, targets, tool};

const PACKAGES: [&str; 2] = ["cdxj-indexer==1.5.0", "fastwarc==2.0.1"];
/// Number of WARC files, and of captures in all of them.
const FILES: u64 = 4;
const CAPTURES: u64 = 40_000;
/// Fields of cdxj-indexer's rows, as FastWARC names them. It writes no keys and no method.
const FIELDS: &str = "warc-type,warc-target-uri,warc-date,http:content-type,http:status,\
                      warc-payload-digest,length,offset,filename";

/// Measures the indexing of WARC files.
pub fn measure(plan: &Plan) -> Findings {
    let mut found = Findings::default();
    let python = match packages::python(&kept("cdxj-python"), &PACKAGES) {
        Ok(python) => python,
        Err(reason) => {
            left_out("cdxj-indexer", &reason);
            return found;
        }
    };
    let corpus = Corpus::new(plan);
    let theirs = |name: &str| Command::new(python.with_file_name(name));
    let ours = |threads: &str| {
        let mut command = Command::new(tool());
        command.args(["cdxj", "--threads", threads, "--output"]);
        command.arg(corpus.path("ours.cdxj")).args(corpus.files());
        command
    };
    let ways: [&dyn Fn() -> Command; 4] = [
        &|| ours("1"),
        &|| ours("2"),
        &|| {
            let mut command = theirs("cdxj-indexer");
            command.args(["--sort", "--post-append", "--output"]);
            command.arg(corpus.path("theirs.cdxj")).args(corpus.files());
            command
        },
        &|| {
            let mut command = Command::new("bash");
            command.args(["-c", r#"set -o pipefail; "$@" | LC_ALL=C sort"#, "-"]);
            command.arg(python.with_file_name("fastwarc"));
            command.args(["index", "--fields", FIELDS]);
            command.args(corpus.files());
            command
        },
    ];
    let mut rates: [Series; 4] = Default::default();
    let mut peak = 0;
    for _ in plan.repeat("I4: WARC files") {
        for (number, way) in ways.iter().enumerate() {
            let start = Instant::now();
            let ended = Program::start(way()).end_at_last();
            rates[number].push(corpus.captures as f64 / start.elapsed().as_secs_f64());
            assert!(ended.status.success(), "{}", ended.errors);
            if number == 0 {
                peak = peak.max(ended.peak);
            }
        }
        assert_eq!(
            corpus.read("ours.cdxj"),
            corpus.read("theirs.cdxj"),
            "the index of cdxj-indexer"
        );
    }
    let [one, two, indexer, fastwarc] = &rates;
    let told = |series: &Series| series.shown(rate);
    table! { found;
        "I4", "captures of WARC files indexed a second, one thread", "cdxj-indexer", told(one),
            told(indexer), one.over(indexer), targets::CDXJ;
        "I4", "captures of WARC files indexed a second, one thread", "FastWARC and `sort`", told(one),
            told(fastwarc), one.over(fastwarc), targets::CDXJ_FASTWARC;
        "I4", "captures of WARC files indexed a second, two threads", "one thread", told(two),
            told(one), two.over(one), targets::CDXJ_THREADS;
        "", "largest memory of the program", "–", "", "", Series(vec![peak as f64 / 1e6]),
            Goal::Told("MB");
    }
    note!(found, "cdxj.md"; captures = grouped(corpus.captures), files = FILES,
        packed = corpus.packed as f64 / 1e6, plain = corpus.plain as f64 / 1e6);
    found
}

/// WARC files of captures and their requests.
struct Corpus {
    dir: TempDir,
    captures: u64,
    /// Size of the records in bytes, and of the files.
    plain: u64,
    packed: u64,
}

impl Corpus {
    fn new(plan: &Plan) -> Corpus {
        let dir = tempfile::Builder::new().prefix("crawlspace-").tempdir();
        let mut corpus = Corpus {
            dir: dir.expect("a temporary directory"),
            captures: plan.scaled(CAPTURES),
            plain: 0,
            packed: 0,
        };
        let mut rng = Rng::seeded(plan.seed);
        let words = words(&mut rng);
        for file in 0..FILES {
            let path = corpus.path(&format!("{file}.warc.gz"));
            let mut out = BufWriter::new(File::create(path).expect("the folder is writable"));
            for number in 0..corpus.captures / FILES {
                for record in exchange(&mut rng, &words, file, number) {
                    let mut member = GzEncoder::new(Vec::new(), Compression::default());
                    let written = member.write_all(&record).and_then(|()| member.finish());
                    let member = written.expect("writing to memory cannot fail");
                    out.write_all(&member).expect("the disk has room");
                    corpus.plain += record.len() as u64;
                    corpus.packed += member.len() as u64;
                }
            }
            out.flush().expect("the disk has room");
        }
        corpus
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        (0..FILES).map(|file| self.path(&format!("{file}.warc.gz")))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the program wrote its output")
    }
}

/// Returns words of a made-up language.
fn words(rng: &mut Rng) -> Vec<String> {
    let word = |rng: &mut Rng| {
        let letters = 2 + rng.below(9);
        let letter = |_| *rng.pick(b"eeetttaaoinshrdlucmfwypvbgk") as char;
        (0..letters).map(letter).collect()
    };
    (0..4_000).map(|_| word(rng)).collect()
}

/// Returns the records of a response and of its request.
fn exchange(rng: &mut Rng, words: &[String], file: u64, number: u64) -> [Vec<u8>; 2] {
    let url = format!(
        "https://www.site-{}.example.org/{}/{file}-{number:x}.html",
        rng.below(70) * rng.below(70),
        rng.pick(words)
    );
    let most = 1_000 + rng.below(150) * rng.below(150);
    let mut body = String::from("<html><body><p>");
    while (body.len() as u64) < most {
        // Some words are much more frequent than others.
        body += &words[(rng.below(64) * rng.below(64)) as usize % words.len()];
        body += if rng.chance(3) { "</p>\n<p>" } else { " " };
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let id = file << 32 | number << 1;
    let record = |kind: &str, id: u64, more: &str, block: &str| {
        let text = format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{id:012x}>\r\n\
             WARC-Date: 2026-06-01T12:00:{:02}Z\r\nWARC-Target-URI: {url}\r\n{more}\
             Content-Type: application/http; msgtype={kind}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            number % 60,
            block.len(),
        );
        text.into_bytes()
    };
    let digest = format!(
        "WARC-Payload-Digest: sha1:{}\r\n",
        sha1_base32(body.as_bytes())
    );
    let to = format!("WARC-Concurrent-To: <urn:uuid:00000000-0000-4000-8000-{id:012x}>\r\n");
    let host = url.split('/').nth(2).unwrap_or_default();
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: crawler\r\n\r\n");
    [
        record("response", id, &digest, &answer),
        record("request", id + 1, &to, &request),
    ]
}
