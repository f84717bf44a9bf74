//! Synthetic harvester jobs: their crawl.log as Heritrix 3 writes it, and the CDX of the stored
//! records as NetarchiveSuite writes it.
//!
//! Equal job numbers and seeds result in equal lines. Jobs share pages, so that a job finds many
//! pages that another job has stored.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::Rng;

/// Number of captures that a job keeps, so that it can fetch them again.
const REMEMBERED: usize = 512;
/// Number of records per archive file of a job.
const PER_FILE: u64 = 20_000;
/// 2013-05-22, in seconds since 1970.
const BEGIN: u64 = 1_369_180_800;
const HOSTS: [&str; 8] = rows![
    "www.example.dk"; "example.dk"; "nyheder.example.org"; "WWW.Example.COM"; "static.example.net";
    "xn--blbrgrd-fxac5u.example"; "shop.example.dk:8080"; "bilder.example.se";
];
const TYPES: [(&str, &str); 10] = rows![
    "text/html", ".html"; "text/html", "/"; "TEXT/HTML", ".htm"; "text/css", ".css"; "image/png", ".png";
    "image/jpeg", ".jpg"; "application/pdf", ".pdf"; "application/javascript", ".js";
    "application/octet-stream", ".bin"; "no-type", "?x";
];

/// A job, which is generated fetch by fetch.
pub struct Harvest {
    job: u64,
    writes_arc: bool,
    rng: Rng,
    /// Number of lines so far.
    lines: u64,
    /// Start of the next fetch, in milliseconds since the start of the job.
    at: u64,
    /// Number of records in archive files so far.
    stored: u64,
    /// Offset of the next record in its archive file.
    offset: u64,
    recent: VecDeque<Capture>,
}

/// The fetch of a URL by a job.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Line of the crawl.log, without a line feed.
    pub crawl_log: String,
    /// Line of the CDX, without a line feed; `None` if the fetch was not stored.
    pub cdx: Option<String>,
}

#[derive(Clone, Debug)]
struct Capture {
    url: String,
    via: String,
    mime: &'static str,
    digest: String,
    size: u64,
    file: String,
    offset: u64,
    date: String,
}

impl Harvest {
    /// Creates a job. Jobs with the same number but different seeds have different lines.
    pub fn new(job: u64, seed: u64) -> Harvest {
        Harvest {
            job,
            writes_arc: false,
            rng: Rng::seeded(seed ^ job.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            lines: 0,
            at: 0,
            stored: 0,
            offset: 1_500,
            recent: VecDeque::new(),
        }
    }

    /// Switches the job to ARC files. NetarchiveSuite then logs the length of every record as in
    /// the CDX (`content-size:`).
    #[must_use]
    pub fn writing_arc(self) -> Harvest {
        Harvest {
            writes_arc: true,
            ..self
        }
    }

    /// Generates the next fetch. A job never ends.
    pub fn fetch(&mut self) -> Fetch {
        let kind = match self.lines {
            0 => 0,
            _ => self.rng.below(100),
        };
        self.lines += 1;
        self.at += 1 + self.rng.below(400);
        match kind {
            0..=2 => self.look_up(),
            3..=7 => self.fail(),
            8..=17 if !self.recent.is_empty() => self.again(),
            18..=34 => self.known_elsewhere(),
            _ => self.store(),
        }
    }

    /// Generates a DNS look-up, which is also stored.
    fn look_up(&mut self) -> Fetch {
        let host = *self.rng.pick(&HOSTS);
        let host = host.split(':').next().unwrap_or(host);
        let capture = Capture {
            url: format!("dns:{}", host.to_ascii_lowercase()),
            via: format!("http://{host}/"),
            mime: "text/dns",
            digest: digest(self.rng.below(1 << 40)),
            size: 50 + self.rng.below(30),
            file: String::new(),
            offset: 0,
            date: String::new(),
        };
        self.keep(capture, 1, "P")
    }

    /// Generates a failed fetch.
    fn fail(&mut self) -> Fetch {
        let (url, mime) = self.page();
        let status = *self.rng.pick(&[-1i64, -2, -4, -6, -50, -61, -5003, -9998]);
        let mut line = String::with_capacity(200);
        self.begin(&mut line, status, None);
        let via = format!("http://{}/", self.rng.pick(&HOSTS));
        let _ = if self.rng.chance(50) {
            write!(
                line,
                "{url} LL {via} no-type #{:03} - - {via} -",
                self.lines % 50
            )
        } else {
            write!(
                line,
                "{url} LLE {via} {mime} #{:03} {} - - le:SocketTimeoutException@HTTP,2t",
                self.lines % 50,
                self.start(30),
            )
        };
        Fetch {
            crawl_log: line,
            cdx: None,
        }
    }

    /// Generates another fetch of a page of this job. Sometimes the page has changed.
    fn again(&mut self) -> Fetch {
        let at = self.rng.below(self.recent.len() as u64) as usize;
        let Some(mut capture) = self.recent.get(at).cloned() else {
            return self.store();
        };
        if self.rng.chance(60) {
            return self.duplicate(&capture);
        }
        capture.digest = digest(self.rng.below(1 << 40));
        self.keep(capture, 200, "LLR")
    }

    /// Generates a fetch of a page that an earlier job has stored.
    fn known_elsewhere(&mut self) -> Fetch {
        let (url, mime) = self.page();
        let job = self.job.saturating_sub(1 + self.rng.below(3));
        let offset = self.rng.below(1 << 30);
        let capture = Capture {
            via: format!("http://{}/", self.rng.pick(&HOSTS)),
            digest: digest_of(&url),
            url,
            mime,
            size: 300 + self.rng.below(60_000),
            file: file_name(job, self.rng.below(9), BEGIN - 86_400),
            offset,
            date: date(BEGIN - 86_400 + offset % 3_600),
        };
        self.duplicate(&capture)
    }

    /// Generates the log line of a duplicate, which is not stored again.
    fn duplicate(&mut self, capture: &Capture) -> Fetch {
        let mut line = String::with_capacity(300);
        self.begin(&mut line, 200, Some(capture.size));
        let took = 5 + self.rng.below(900);
        let _ = write!(
            line,
            "{} LL {} {} #{:03} {} sha1:{} - duplicate:\"{},{}",
            capture.url,
            capture.via,
            capture.mime,
            self.lines % 50,
            self.start(took),
            capture.digest,
            capture.file,
            capture.offset,
        );
        line.push_str(match self.rng.below(3) {
            0 => "\"",
            1 => "\",content-size:4711",
            _ => "\",3t",
        });
        if self.rng.chance(30) {
            line.truncate(line.rfind('"').unwrap_or(line.len()));
            let _ = write!(line, ",{}\"", capture.date);
        }
        Fetch {
            crawl_log: line,
            cdx: None,
        }
    }

    /// Generates a fetch of new content.
    fn store(&mut self) -> Fetch {
        let (url, mime) = self.page();
        let status = match self.rng.below(20) {
            0 => 404,
            1 => 302,
            2 => 500,
            _ => 200,
        };
        let capture = Capture {
            via: format!("http://{}/", self.rng.pick(&HOSTS)),
            digest: digest_of(&url),
            url,
            mime,
            size: 200 + self.rng.below(100_000),
            file: String::new(),
            offset: 0,
            date: String::new(),
        };
        self.keep(capture, status, "LLE")
    }

    fn keep(&mut self, mut capture: Capture, status: i64, path: &str) -> Fetch {
        let begun = BEGIN + self.at / 1_000;
        if self.stored.is_multiple_of(PER_FILE) {
            self.offset = 1_500;
        }
        capture.file = file_name(self.job, self.stored / PER_FILE, BEGIN);
        if self.writes_arc {
            capture.file = capture.file.replace(".warc.gz", ".arc");
        }
        capture.offset = self.offset;
        capture.date = date(begun);
        self.stored += 1;
        self.offset += capture.size / 2 + 400;
        let mut line = String::with_capacity(300);
        self.begin(&mut line, status, Some(capture.size));
        let took = 5 + self.rng.below(900);
        let _ = write!(
            line,
            "{} {path} {} {} #{:03} {} sha1:{} {} ",
            capture.url,
            capture.via,
            capture.mime,
            self.lines % 50,
            self.start(took),
            capture.digest,
            if self.rng.chance(50) {
                "-"
            } else {
                "http://www.example.dk/"
            },
        );
        let notes = self.rng.below(4);
        let length = if self.writes_arc {
            capture.size + 300
        } else {
            capture.size
        };
        let _ = match notes {
            _ if self.writes_arc => write!(line, "content-size:{length},3t"),
            0 => write!(line, "content-size:{},3t", capture.size + 300),
            1 => write!(
                line,
                "3t {{\"contentSize\":{},\"warcFilename\":\"{}\",\"warcFileOffset\":{}}}",
                capture.size, capture.file, capture.offset
            ),
            2 => line.write_str("le:IOException@ExtractorPDF, with words"),
            _ => line.write_str("-"),
        };
        let mut cdx = String::with_capacity(200);
        let _ = write!(
            cdx,
            "{} 10.0.{}.{} {} {} {} {} {}",
            capture.url,
            self.stored % 200,
            self.lines % 250,
            capture.date,
            capture.mime,
            length,
            capture.file,
            capture.offset
        );
        if self.rng.chance(70) {
            let _ = write!(
                cdx,
                " {:032x}",
                u128::from(self.rng.bits()) << 64 | u128::from(self.stored)
            );
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(capture);
        Fetch {
            crawl_log: line,
            cdx: Some(cdx),
        }
    }

    /// Writes the first columns: the time of the line, the status and the size.
    fn begin(&self, line: &mut String, status: i64, size: Option<u64>) {
        let ms = self.at + 950;
        let when = date(BEGIN + ms / 1_000);
        let part = |from: usize, to: usize| when.get(from..to).unwrap_or_default();
        let _ = write!(
            line,
            "{}-{}-{}T{}:{}:{}.{:03}Z {status:>5} ",
            part(0, 4),
            part(4, 6),
            part(6, 8),
            part(8, 10),
            part(10, 12),
            part(12, 14),
            ms % 1_000
        );
        let _ = match size {
            Some(size) => write!(line, "{size:>10} "),
            None => write!(line, "{:>10} ", "-"),
        };
    }

    /// Returns the start time and duration of a fetch: `20130522082957456+512`.
    fn start(&self, took: u64) -> String {
        format!(
            "{}{:03}+{took}",
            date(BEGIN + self.at / 1_000),
            self.at % 1_000
        )
    }

    fn page(&mut self) -> (String, &'static str) {
        let host = *self.rng.pick(&HOSTS);
        // Popular content occurs again, even in other jobs.
        let number = if self.rng.chance(20) {
            self.rng.below(1_000)
        } else {
            self.rng.below(5_000_000)
        };
        let (mime, ending) = *self.rng.pick(&TYPES);
        let scheme = if number % 3 == 0 { "https" } else { "http" };
        let url = match number % 7 {
            0 => format!("{scheme}://{host}/side?id={number}&b=2&a=1"),
            1 => format!("{scheme}://{host}/s%C3%B8g/{number}{ending}"),
            _ => format!("{scheme}://{host}/p/{}/{number}{ending}", number % 97),
        };
        (url, mime)
    }
}

/// Writes `lines` lines of a job's crawl.log, and the CDX of the stored captures.
///
/// # Errors
/// Returns the errors of the writers.
pub fn write(
    job: u64,
    seed: u64,
    lines: u64,
    crawl_log: &mut impl Write,
    cdx: &mut impl Write,
) -> io::Result<()> {
    let mut harvest = Harvest::new(job, seed);
    for _ in 0..lines {
        let fetch = harvest.fetch();
        crawl_log.write_all(fetch.crawl_log.as_bytes())?;
        crawl_log.write_all(b"\n")?;
        if let Some(line) = fetch.cdx {
            cdx.write_all(line.as_bytes())?;
            cdx.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Generates the logs of a job in memory: the crawl.log and the CDX.
pub fn logs(job: u64, seed: u64, lines: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut crawl_log, mut cdx) = (Vec::new(), Vec::new());
    write(job, seed, lines, &mut crawl_log, &mut cdx).expect("memory");
    (crawl_log, cdx)
}

fn file_name(job: u64, number: u64, begun: u64) -> String {
    format!("{job}-3-{}-{number:05}-host.warc.gz", date(begun))
}

/// Returns the payload digest of a page, which is the same in all jobs.
fn digest_of(url: &str) -> String {
    let hash = url.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    digest(hash)
}

/// Returns 32 base32 letters that depend on a number.
fn digest(of: u64) -> String {
    let mut rng = Rng::seeded(of);
    let mut text = String::with_capacity(32);
    for _ in 0..3 {
        let bits = rng.bits();
        for n in 0..12 {
            let letter = bits >> (5 * n) & 31;
            if text.len() < 32 {
                text.push(char::from(
                    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[letter as usize],
                ));
            }
        }
    }
    text
}

/// Formats seconds since 1970 as 14 digits.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years (the usual algorithm for the Gregorian calendar).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, later) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = era * 400 + year + later;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{of_month:02}{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_depends_only_on_its_number_and_seed() {
        assert_eq!(logs(7, 1, 2_000), logs(7, 1, 2_000));
        assert_ne!(logs(7, 1, 200), logs(8, 1, 200));
        assert_ne!(logs(7, 1, 200), logs(7, 2, 200));
    }

    #[test]
    fn every_line_has_its_columns() {
        let mut harvest = Harvest::new(7, 3);
        let (mut stored, mut repeated, mut failed, mut names) = (0, 0, 0, 0);
        for _ in 0..5_000 {
            let fetch = harvest.fetch();
            let columns: Vec<&str> = fetch.crawl_log.split_ascii_whitespace().collect();
            assert!(columns.len() >= 12, "{}", fetch.crawl_log);
            assert!(columns[0].len() == 24 && columns[0].ends_with('Z'));
            let status: i64 = columns[1].parse().unwrap();
            failed += u32::from(status < 0 && columns[9] == "-");
            names += u32::from(columns[3].starts_with("dns:"));
            repeated += u32::from(fetch.crawl_log.contains(" duplicate:\""));
            if let Some(cdx) = fetch.cdx {
                stored += 1;
                let cdx: Vec<&str> = cdx.split(' ').collect();
                assert!(matches!(cdx.len(), 7 | 8));
                assert_eq!(cdx[0], columns[3]);
                assert_eq!(cdx[2], &columns[8][..14]);
            }
        }
        assert!(stored > 1_000 && repeated > 500 && failed > 50 && names > 50);
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "19700101000000");
        assert_eq!(date(BEGIN), "20130522000000");
        assert_eq!(date(951_782_400 + 86_399), "20000229235959");
        assert_eq!(date(1_735_689_599), "20241231235959");
    }
}
