//! The pages of a synthetic site and the times of their captures.

use std::collections::HashSet;
use std::io::Write;

use flate2::write::GzEncoder;

use super::Shape;
use super::capture::{Capture, Place, sha1_base32, urlkey};
use crate::rng::Rng;

const HOSTS: [&str; 9] = rows![
    "http://example.com"; "https://www.example.com"; "http://news.example.com";
    "http://static.news.example.com"; "http://example.com:8080"; "http://example.org";
    "https://blog.example.org"; "http://museum.example"; "http://192.0.2.7";
];

const PATHS: [&str; 20] = rows![
    "/"; "/about"; "/about/"; "/about/staff.html"; "/news/2019/index.html"; "/news/2019/summer.html";
    "/news/2020/index.html"; "/NEWS/archive.HTML"; "/img/logo.png"; "/img/photo%201.jpg"; "/style.css";
    "/app.js"; "/search?q=archive"; "/search?q=archive&page=2"; "/search?page=3&q=archive";
    "/search?Q=Web+Archive"; "/old"; "/missing"; "/data.json?x=1"; "/api/items";
];

const POSTED: [&str; 4] = ["a=1&b=2", "a=1&b=3", "query=archive", "q=x"];

/// The first second of 2016.
const FIRST: u64 = 1_451_606_400;

/// Noon of 1 June 2018. Near this time, the first page has several pairs of captures at the same
/// distance from it, one before and one after.
const MIDDLE: u64 = 1_527_854_400;

/// A page that is captured repeatedly.
struct Page {
    url: String,
    posted: Option<&'static str>,
    /// Number of changes of the page's content.
    edition: u64,
    /// URL and timestamp of the capture that stored this edition.
    stored: Option<(String, String)>,
}

/// Generates captures in no particular order and without locations.
pub fn captures(rng: &mut Rng, shape: &Shape) -> Vec<Capture> {
    let mut pages: Vec<Page> = Vec::new();
    for host in HOSTS {
        for path in PATHS {
            let posted = (path == "/api/items").then_some(&POSTED[..]);
            for posted in posted.map_or(vec![None], |all| all.iter().copied().map(Some).collect()) {
                pages.push(Page {
                    url: format!("{host}{path}"),
                    posted,
                    edition: 0,
                    stored: None,
                });
            }
        }
        for number in 0..12 {
            pages.push(Page {
                url: format!("{host}/article/{number}"),
                posted: None,
                edition: 0,
                stored: None,
            });
        }
    }
    let mut captures = Vec::new();
    let mut taken = HashSet::new();
    let all = pages.len() as u64;
    for (number, page) in pages.iter_mut().enumerate() {
        let times = match number {
            0 => shape.most,
            // A few pages have most of the captures.
            _ => 1 + rng.below(1 + 2 * shape.captures.saturating_sub(shape.most) / all),
        };
        let mut moments: Vec<u64> = (0..times).map(|_| moment(rng, shape)).collect();
        if number == 0 {
            let around = |apart| [MIDDLE - apart, MIDDLE + apart];
            let ties = [60, 3_600, 7_200, 86_400].into_iter().flat_map(around);
            moments.extend(ties.filter(|_| !shape.odd));
            moments.push(FIRST);
        }
        moments.sort_unstable();
        moments.dedup();
        for moment in moments {
            let capture = capture(rng, shape, page, moment);
            // Two pages can have the same key. Keep only one capture per key and second, so that
            // the index order is unique.
            if taken.insert((capture.key.clone(), moment)) {
                captures.push(capture);
            }
        }
    }
    captures
}

/// Returns a random time in seconds since 1970. Some times are on the hour, so that several
/// captures have the same distance from a given time.
fn moment(rng: &mut Rng, shape: &Shape) -> u64 {
    let seconds = FIRST + rng.below(5 * 365 * 86_400);
    let seconds = if rng.chance(30) {
        seconds - seconds % 3600
    } else {
        seconds - seconds % 2
    };
    seconds + u64::from(shape.odd)
}

fn digits(seconds: u64) -> String {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!(
        "{year}{:02}{:02}{hour:02}{minute:02}{second:02}",
        month + 1,
        days + 1
    )
}

fn capture(rng: &mut Rng, shape: &Shape, page: &mut Page, moment: u64) -> Capture {
    let timestamp = digits(moment);
    let path = page
        .url
        .splitn(4, '/')
        .nth(3)
        .unwrap_or_default()
        .to_lowercase();
    let status = match &path[..] {
        "old" => [301, 302][rng.below(2) as usize],
        "missing" => 404,
        _ if rng.chance(3) => [404, 500, 503][rng.below(3) as usize],
        _ => 200,
    };
    let mime = match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        _ if status != 200 => "text/html",
        "png" => "image/png",
        "jpg" => "image/jpeg",
        "css" => "text/css",
        "js" => "application/javascript",
        "json?x=1" => "application/json",
        _ if path.starts_with("api/") => "application/json",
        _ => "text/html",
    };
    let location = matches!(status, 301 | 302).then(|| page.url.replace("/old", "/about"));
    if page.stored.is_none() || rng.chance(45) {
        page.edition += 1;
        page.stored = None;
    }
    let edition = if status == 200 { page.edition } else { 0 };
    let (payload, encoding) = payload(shape, page, mime, edition);
    let original = page.stored.clone().filter(|_| status == 200);
    if status == 200 && original.is_none() {
        page.stored = Some((page.url.clone(), timestamp.clone()));
    }
    let key = match page.posted {
        None => urlkey(&page.url),
        Some(posted) => urlkey(&format!("{}?__wb_method=POST&{posted}", page.url)),
    };
    Capture {
        url: page.url.clone(),
        key,
        timestamp,
        status,
        mime,
        digest: sha1_base32(&payload),
        location,
        posted: page.posted.map(str::to_owned),
        payload,
        encoding,
        original,
        place: Place::default(),
    }
}

/// Returns the content of a page in one edition, and its encoding.
fn payload(
    shape: &Shape,
    page: &Page,
    mime: &str,
    edition: u64,
) -> (Vec<u8>, &'static [&'static str]) {
    let name = format!("{} {:?} {} {edition}", page.url, page.posted, shape.name);
    let mut noise = Rng::seeded(name.bytes().fold(7, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    }));
    let words = 20 + noise.below(400);
    let text = |noise: &mut Rng| -> String {
        const WORDS: [&str; 8] = [
            "archive", "capture", "of", "the", "web", "page", "record", "memento",
        ];
        (0..words)
            .map(|_| format!("{} ", noise.pick(&WORDS)))
            .collect()
    };
    let body = match mime {
        "image/png" | "image/jpeg" => (0..words * 8).map(|_| noise.bits() as u8).collect(),
        "application/json" => format!("{{\"name\": \"{}\", \"edition\": {edition}}}\n", page.url).into_bytes(),
        "text/css" => format!("body {{ max-width: {words}px }} /* edition {edition} */\n").into_bytes(),
        "application/javascript" => format!("var edition = {edition}; // {}\n", text(&mut noise)).into_bytes(),
        _ => format!(
            "<!DOCTYPE html>\n<html><head><title>{name}</title><link rel=\"stylesheet\" href=\"/style.css\"></head>\n\
             <body><p>{}</p><a href=\"http://example.com/about\">about</a></body></html>\n",
            text(&mut noise)
        )
        .into_bytes(),
    };
    match (mime, noise.below(10)) {
        ("text/html", 0) => (
            chunks(&gzip(&body)),
            &["Content-Encoding: gzip", "Transfer-Encoding: chunked"],
        ),
        ("text/html", 1) => (gzip(&body), &["Content-Encoding: gzip"]),
        ("text/html", 2) => (chunks(&body), &["Transfer-Encoding: chunked"]),
        _ => (body, &[]),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
    let written = packed.write_all(bytes).and_then(|()| packed.finish());
    written.expect("writing to memory cannot fail")
}

/// Applies the chunked transfer coding (RFC 9112, section 7.1).
fn chunks(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for some in bytes.chunks(500) {
        out.extend_from_slice(format!("{:x}\r\n", some.len()).as_bytes());
        out.extend_from_slice(some);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_digits() {
        for (seconds, expected) in [
            (0, "19700101000000"),
            (1_451_606_400, "20160101000000"),
            (1_456_704_000, "20160229000000"),
            (1_609_459_199, "20201231235959"),
        ] {
            assert_eq!(digits(seconds), expected);
        }
    }
}
