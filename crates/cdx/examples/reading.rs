//! Measures the nanoseconds that it takes to read a line and one of its fields, over a batch of 10
//! 000 lines.
//!
//! `cargo run --release -p crawlspace-cdx --example reading`
//!
//! Reading a CDX line searches for its end and for its first space, checks the timestamp, and counts the spaces in two
//! passes. A short search from the right then finds the filename; a search from the left finds fields in the left half
//! of the line. Reading a CDXJ line parses all of its JSON.

use std::hint::black_box;
use std::time::Instant;

use crawlspace_cdx::{
    Collapse, Dialect, Field, Filter, Format, Limits, Line, Pattern, Read, lines,
};

const LINES: usize = 10_000;

fn cdx() -> Vec<u8> {
    let line = |n: usize| {
        format!(
            "org,example)/s/{:02}/page-{n:06} 202401{:02}030405 \
             http://example.org/s/{:02}/page-{n:06} text/html 200 \
             PB3MF6GVD3SVI2HHZJXEWGDNKFZ2MHKB - - {} {} COLL-{}-{:05}.warc.gz\n",
            n % 40,
            1 + n % 28,
            n % 40,
            900 + n % 5000,
            n * 1733,
            n % 500,
            n % 97
        )
    };
    (0..LINES).flat_map(|n| line(n).into_bytes()).collect()
}

fn cdxj() -> Vec<u8> {
    let line = |n: usize| {
        format!(
            "org,example)/page-{n:06} 202401{:02}030405 {{\"url\": \"http://example.org/page-{n:06}\", \
             \"mime\": \"text/html\", \"status\": \"200\", \
             \"digest\": \"PB3MF6GVD3SVI2HHZJXEWGDNKFZ2MHKB\", \"length\": \"{}\", \
             \"offset\": \"{}\", \"filename\": \"COLL-{}-20240101.warc.gz\"}}\n",
            1 + n % 28,
            900 + n % 5000,
            n * 1733,
            n % 500
        )
    };
    (0..LINES).flat_map(|n| line(n).into_bytes()).collect()
}

/// Prints the best of many rounds, in nanoseconds per line.
fn measure(what: &str, blob: &[u8], mut each: impl FnMut(&Line<'_>)) {
    let mut best = f64::MAX;
    for _ in 0..60 {
        let start = Instant::now();
        for raw in lines(black_box(blob)) {
            match Line::read(raw, Format::Auto) {
                Ok(Read::Capture(line)) => each(&line),
                other => panic!("{other:?}"),
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / LINES as f64);
    }
    println!("{best:8.1} ns  {what}");
}

fn main() {
    let (cdx, cdxj) = (cdx(), cdxj());
    println!(
        "{} bytes per CDX line, {} per CDXJ line",
        cdx.len() / LINES,
        cdxj.len() / LINES
    );
    let mut id = Vec::new();
    let filter = |spec: &str| Filter::parse(spec.as_bytes(), Dialect::Outback, Limits::default());
    let status = filter("status:2..").unwrap();
    let files = filter("filename:COLL-(7|8|9)-.*").unwrap();
    let mut days = Collapse::parse(b"timestamp:8").unwrap();

    measure("CDX, read alone", &cdx, |line| {
        black_box(line);
    });
    measure("CDX, filename", &cdx, |line| {
        black_box(line.filename());
    });
    measure("CDX, status", &cdx, |line| {
        black_box(line.field(&Field::Status));
    });
    measure("CDX, RECORD id", &cdx, |line| {
        line.record_id(&mut id);
        black_box(&id);
    });
    measure("CDX, filter status:2..", &cdx, |line| {
        let _ = black_box(status.passes(line, &mut |_| false));
    });
    measure("CDX, filter filename:COLL-(7|8|9)-.*", &cdx, |line| {
        let _ = black_box(files.passes(line, &mut |_| false));
    });
    measure("CDX, collapse timestamp:8", &cdx, |line| {
        let _ = black_box(days.is_new(line));
    });
    measure("CDXJ, filename", &cdxj, |line| {
        black_box(line.filename());
    });

    let ids: Vec<String> = (0..9000).map(|n| n.to_string()).collect();
    for (what, text) in [
        ("11 alternatives", ids[..11].join("|")),
        ("1 000 alternatives", ids[..1000].join("|")),
        ("9 000 alternatives", ids.join("|")),
        ("a repetition of 1 000", "a{1000}".to_owned()),
        (
            "three nested repetitions of 18",
            "((a{18}){18}){18}".to_owned(),
        ),
    ] {
        let start = Instant::now();
        let found = Pattern::compile(
            text.as_bytes(),
            crawlspace_cdx::Anchor::Whole,
            Limits::default(),
        );
        let took = start.elapsed();
        let heavy = Pattern::is_heavy(text.as_bytes());
        println!(
            "{took:>10.1?}  compiling {what}: heavy {heavy}, ok {}",
            found.is_ok()
        );
    }
}
