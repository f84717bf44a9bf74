//! A large index with all kinds of rows that the measurements query.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::write::GzEncoder;
use redis_tests::Rng;
use redis_tests::archive::collection::{sha1_base32, urlkey};
use tempfile::TempDir;

use crate::Plan;

/// Number of rows of a prefix query.
pub const PREFIX_ROWS: u64 = 171;
/// Number of captures of the URL with the most captures.
pub const CAPTURES: u64 = 300_000;

/// An archive on disk.
pub struct Corpus {
    dir: TempDir,
    /// Number of rows of the index.
    pub rows: u64,
    /// Size of the index in bytes.
    pub bytes: u64,
    /// URLs with one capture.
    pub singles: Vec<String>,
    /// URLs that are prefixes of others.
    pub prefixes: Vec<String>,
    /// URLs whose records are stored.
    pub records: Vec<String>,
    /// Total size of these records in bytes.
    stored: u64,
}

impl Corpus {
    /// Writes the corpus.
    ///
    /// # Panics
    /// Panics if a file cannot be written.
    pub fn new(plan: &Plan) -> Corpus {
        let dir = tempfile::Builder::new().prefix("crawlspace-").tempdir();
        let mut corpus = Corpus {
            dir: dir.expect("a temporary directory"),
            rows: 0,
            bytes: 0,
            singles: Vec::new(),
            prefixes: Vec::new(),
            records: Vec::new(),
            stored: 0,
        };
        let mut rng = Rng::seeded(plan.seed);
        let mut lines = Vec::new();
        corpus.add_records(&mut rng, &mut lines);
        for set in 0..500 {
            let prefix = format!("http://museum.example.org/set/{set:03}/");
            for page in 0..PREFIX_ROWS {
                lines.push(line(&mut rng, &format!("{prefix}page-{page}.html"), None));
            }
            corpus.prefixes.push(prefix);
        }
        let singles = plan.scaled(900_000);
        for number in 0..singles {
            // A few hosts have most of the pages.
            let host = rng.below(70) * rng.below(70);
            let url = format!("http://www.archive-{host}.org/article/{number:x}.html");
            lines.push(line(&mut rng, &url, None));
            if number.is_multiple_of(singles / 4_000) {
                corpus.singles.push(url);
            }
        }
        lines.sort_unstable();
        // Every source caches parts of its own index in memory. Therefore configurations with
        // thousands of sources use this small index, `set.cdxj`, so that the caches fit into
        // memory.
        let some = lines.iter().filter(|line| line.contains("/set/000/"));
        corpus.write("set.cdxj", &some.map(String::as_str).collect::<String>());
        corpus.rows = lines.len() as u64;
        corpus.bytes = corpus.write("index.cdxj", &lines.concat());
        corpus.add_busy_page(plan, &mut rng);
        corpus
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the average size of a stored record.
    pub fn record_bytes(&self) -> u64 {
        self.stored / self.records.len().max(1) as u64
    }

    /// Returns the configuration in pywb's format, which `crawlspace serve` also accepts.
    pub fn config(&self) -> String {
        let dir = self.dir.path().display();
        format!(
            "collections:\n\
             \x20 local:\n    index_paths: {dir}/index.cdxj\n    archive_paths: {dir}/warcs/\n\
             \x20 busy:\n    index_paths: {dir}/busy.cdxj\n    archive_paths: {dir}/warcs/\n"
        )
    }

    pub fn write(&self, name: &str, text: &str) -> u64 {
        std::fs::write(self.path(name), text).expect("the folder is writable");
        text.len() as u64
    }

    /// Adds records that take about 6.6 kB each in their file, including the gzip member.
    fn add_records(&mut self, rng: &mut Rng, lines: &mut Vec<String>) {
        std::fs::create_dir_all(self.path("warcs")).expect("a folder");
        let mut file = Vec::new();
        for number in 0..2_000 {
            let url = format!("http://gazette.example.org/record/{number}.html");
            // Compressed hex digits take half of their original size.
            let noise: String = (0..760).map(|_| format!("{:016x}", rng.bits())).collect();
            let body = format!("<html><title>{number}</title><p>{noise}</p></html>\n");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length";
            let http = format!("{head}: {}\r\n\r\n{body}", body.len());
            let record = format!(
                "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012x}>\r\n\
                 WARC-Date: 2018-06-01T12:00:00Z\r\nWARC-Target-URI: {url}\r\nWARC-Payload-Digest: sha1:{}\r\n\
                 Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{http}\r\n\r\n",
                sha1_base32(body.as_bytes()),
                http.len()
            );
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
            let written = packed.write_all(record.as_bytes());
            let written = written.and_then(|()| packed.finish());
            let packed = written.expect("writing to memory cannot fail");
            lines.push(line(rng, &url, Some((packed.len(), file.len()))));
            self.stored += packed.len() as u64;
            file.extend(packed);
            self.records.push(url);
        }
        std::fs::write(self.path("warcs/records.warc.gz"), file).expect("the folder is writable");
    }

    /// Adds one page with very many captures in a separate index.
    fn add_busy_page(&self, plan: &Plan, rng: &mut Rng) {
        let mut text = String::new();
        let most = plan.scaled(CAPTURES);
        for number in 0..most {
            let seconds = number * (20 * 360 * 86_400 / most);
            let (day, rest) = (seconds / 86_400, seconds % 86_400);
            let date = (2000 + day / 360) * 10_000 + (1 + day / 30 % 12) * 100 + 1 + day % 28;
            let time = rest / 3600 * 10_000 + rest / 60 % 60 * 100 + rest % 60;
            let digest = u128::from(rng.bits());
            let (length, offset) = (2_000 + rng.below(5_000), rng.below(1 << 30));
            let _ = writeln!(
                text,
                "org,example,radio)/live {date}{time:06} {{\"url\": \"http://radio.example.org/live\", \
                 \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"{digest:032X}\", \"length\": \"{length}\", \
                 \"offset\": \"{offset}\", \"filename\": \"RADIO-{number:07}.warc.gz\"}}"
            );
        }
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup_by_key(|line| &line[..38]);
        self.write("busy.cdxj", &(lines.join("\n") + "\n"));
    }
}

fn line(rng: &mut Rng, url: &str, place: Option<(usize, usize)>) -> String {
    let (length, offset, file, timestamp) = match place {
        // The date is equal to the date of the stored record.
        Some((length, offset)) => (
            length as u64,
            offset as u64,
            "records.warc.gz".to_owned(),
            20_180_601_120_000,
        ),
        None => {
            let (collection, serial) = (rng.below(10_000), rng.below(100));
            let file = format!("ARCHIVEIT-{collection}-20190220120000-{serial:05}.warc.gz");
            let (length, offset) = (2_000 + rng.below(9_000), rng.below(1 << 30));
            let date =
                (2010 + rng.below(14)) * 10_000 + (1 + rng.below(12)) * 100 + 1 + rng.below(28);
            let time = rng.below(24) * 10_000 + rng.below(60) * 100 + rng.below(60);
            (length, offset, file, date * 1_000_000 + time)
        }
    };
    let key = urlkey(url);
    let digest = u128::from(rng.bits()) << 32 | u128::from(rng.bits());
    format!(
        "{key} {timestamp} {{\"url\": \"{url}\", \"mime\": \"text/html\", \"status\": \"200\", \
         \"digest\": \"{digest:032X}\", \"length\": \"{length}\", \"offset\": \"{offset}\", \
         \"filename\": \"{file}\"}}\n"
    )
}
