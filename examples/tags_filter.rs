//! What a capture costs: 10 000 CDX lines of 10 000 collections held against "all public".
//!
//! `cargo run --release --no-default-features --example tags_filter`

use std::time::Instant;

use crawlspace::tags::filter::{Batch, Request, Returns};
use crawlspace::tags::index::Tagged;
use crawlspace::tags::point::Point;
use crawlspace::tags::rule::Rule;
use crawlspace::tags::space::Space;
use crawlspace::tags::task::Task;
use crawlspace::tags::view::Asked;
use crawlspace_cdx::{Dialect, Format, Line, Read};

const COLLECTIONS: u64 = 10_000;
const LINES: usize = 10_000;
const ROUNDS: usize = 200;

/// An archive's space: a third of its collections is private.
fn space() -> Space {
    let mut space = Space::default();
    for n in 0..COLLECTIONS {
        let org = format!("org:{}", n % 1000);
        let tags = [org.as_bytes(), b"private"];
        let tags = if n % 3 == 0 { &tags[..] } else { &tags[..1] };
        let collection = format!("coll:{}", 1000 + n);
        let added = space.add(Tagged::Tag, collection.as_bytes(), tags);
        added.expect("tags that can be");
    }
    let regex = b"(?:^|/)ARCHIVEIT-(\\d+)-";
    let rule = Rule::new(b"collection", b"filename", regex, &[b"coll:$1"]);
    let set = rule.and_then(|rule| space.set_rule(rule));
    set.expect("a rule that can be");
    let point = Point::new(b"all", b"coll:* & !private");
    let set = point.and_then(|point| space.set_point(point));
    set.expect("a point that can be");
    space
}

fn lines() -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut blob = Vec::new();
    for _ in 0..LINES {
        let (host, path) = (next(1000), next(1 << 32));
        let line = format!(
            "org,example{host})/path/{path:x}/page.html 20190220{:06} http://example{host}.org/path/{path:x}/page.html text/html 200 {:032X} - - {} {} ARCHIVEIT-{}-DAILY-JOB-20190220120000-00001.warc.gz\n",
            next(1_000_000),
            next(u64::MAX),
            next(100_000),
            next(1_000_000_000),
            1000 + next(COLLECTIONS)
        );
        blob.extend_from_slice(line.as_bytes());
    }
    blob
}

/// Nanoseconds a capture.
fn round(space: &Space, request: &Request, blob: &[u8]) -> f64 {
    let start = Instant::now();
    let view = space.view();
    let (conditions, lent) = (space.conditions(), space.lend_cache());
    let batch = Batch::Blob(blob);
    let mut task = Task::new(request.clone(), view, conditions, lent, None, batch);
    let reply = task.at_once(batch);
    std::hint::black_box(reply.expect("lines that can be read"));
    start.elapsed().as_nanos() as f64 / LINES as f64
}

/// Tags the record of every line, and as many others as are asked for.
fn tag_records(space: &mut Space, blob: &[u8], more: usize) {
    let mut id = Vec::new();
    for raw in crawlspace_cdx::lines(blob) {
        if let Ok(Read::Capture(line)) = Line::read(raw, Format::Cdx) {
            line.record_id(&mut id);
            let added = space.add(Tagged::Record, &id, &[b"coll:1000", b"seen"]);
            added.expect("tags that can be");
        }
    }
    for n in 0..more {
        let id = format!(
            "org,example{})/other/{n:x} 20190220000000 ARCHIVEIT-1-{}.warc.gz {n}",
            n % 1000,
            n / 500
        );
        let added = space.add(Tagged::Record, id.as_bytes(), &[b"coll:1000"]);
        added.expect("tags that can be");
    }
}

/// With a number: so many records are tagged, too.
fn main() {
    let mut space = space();
    let blob = lines();
    if let Some(records) = std::env::args().nth(1) {
        tag_records(&mut space, &blob, records.parse().expect("a number"));
    }
    let request = Request {
        asked: Asked {
            point: Some(b"all".to_vec()),
            expression: None,
            filters: Vec::new(),
            dialect: Dialect::Outback,
        },
        collapse: None,
        skip: 0,
        limit: None,
        format: Format::Cdx,
        drop_bad_lines: false,
        returns: Returns::Bits,
    };
    let first = round(&space, &request, &blob);
    let mut again: Vec<f64> = (0..ROUNDS)
        .map(|_| round(&space, &request, &blob))
        .collect();
    again.sort_by(f64::total_cmp);
    let mut toggled = Vec::new();
    for n in 0..ROUNDS {
        let collection = format!("coll:{}", 1000 + 3 * n);
        space.remove(Tagged::Tag, collection.as_bytes(), &[b"private"]);
        toggled.push(round(&space, &request, &blob));
    }
    toggled.sort_by(f64::total_cmp);
    println!(
        "{} bytes a line; ns a capture: {first:.0} the first time, then {:.0} (at least {:.0}), after a toggle {:.0} (at least {:.0})",
        blob.len() / LINES,
        again[ROUNDS / 2],
        again[0],
        toggled[ROUNDS / 2],
        toggled[0],
    );
}
