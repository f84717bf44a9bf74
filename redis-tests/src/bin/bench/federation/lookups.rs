//! U1: crawlers that look up a page before they write a record.

use std::fmt::Write as _;

use redis_tests::http::get;
use redis_tests::{Options, Rng};

use super::corpus::Corpus;
use super::serving::{Ours, Peer};
use super::wrk::{self, Load};
use crate::Plan;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped, rate};
use crate::targets;

/// Number of connections that crawlers keep open.
const CONNECTIONS: usize = 400;
/// Number of look-ups per second that the server must answer in time.
const RATE: f64 = 20_000.0;
/// Number of captures per URL. Each capture is from another crawl.
const CRAWLS: u64 = 3;
/// Number of queried URLs.
const ASKED: usize = 2_000;

/// Measures the look-ups.
pub fn measure(plan: &Plan, corpus: &Corpus, peer: Option<&Peer>) -> Findings {
    say("U1: building a dedupe index");
    let urls = plan.scaled(100_000);
    let url = |number: u64| format!("http://host{}.example/page/{number}", number % 5_000);
    let server = Options::new().packed().start();
    let mut wire = server.wire();
    let mut lines = Vec::new();
    for crawl in 0..CRAWLS {
        let name = format!("crawl-{crawl}");
        let date = 20_240_101_000_000 + crawl * 10_000_000_000;
        let mut commands = Vec::new();
        for number in 0..urls {
            let (url, hash) = (url(number), base32(crawl * urls + number));
            lines.push(format!(
                "{} {date} {{\"url\": \"{url}\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"{hash}\", \
                 \"length\": \"5120\", \"offset\": \"0\", \"filename\": \"{name}.warc.gz\"}}\n",
                redis_tests::archive::collection::urlkey(&url)
            ));
            let words = [
                "DEDUPE.ADD",
                "{u1}:",
                &name,
                &format!("sha1:{hash}"),
                "0",
                &date.to_string(),
                &url,
                "5120",
            ];
            commands.push(words.map(str::to_owned).to_vec());
        }
        wire.pipeline(commands);
        wire.expect_ok(&["DEDUPE.COMMIT", "{u1}:", &name]);
    }
    wire.expect_ok(&["DEDUPE.URLS", "{u1}:", "ON"]);
    lines.sort_unstable();
    corpus.write("lookups.cdxj", &lines.concat());
    let file = corpus.path("lookups.cdxj");
    let redis = server.url();
    let config = format!(
        "collections:\n  files: {}\n  seen: {{index: {{type: dedupe, redis_url: '{}', prefix: '{{u1}}:'}}}}\n",
        file.display(),
        redis.trim_end_matches('/')
    );
    let ours = Ours::start(&corpus.path(""), &config);
    let config = format!("collections:\n  files: {}\n", file.display());
    let theirs = peer.map(|peer| peer.start(&config));
    let mut rng = Rng::seeded(plan.seed);
    let asked: Vec<String> = (0..ASKED).map(|_| url(rng.below(urls))).collect();
    // The query that warcprox sends, and the equivalent query for the peer.
    let of_dedupe = |url: &String| {
        format!("/seen/cdx?url={url}&fl=timestamp,digest&filter=!mimetype:warc/revisit&limit=-1")
    };
    let of_files = |url: &String| of_dedupe(url).replace("/seen/", "/files/");
    let of_peer = |url: &String| {
        format!(
            "/files/index?url={url}&fl=timestamp,digest&filter=!mime:warc/revisit&sort=reverse&limit=1&output=text"
        )
    };
    let targets = |of: &dyn Fn(&String) -> String| asked.iter().map(of).collect::<Vec<_>>();
    let (dedupe, files, peers) = (targets(&of_dedupe), targets(&of_files), targets(&of_peer));
    for number in [0, ASKED / 2, ASKED - 1] {
        let found = get(ours.address(), &dedupe[number]).text();
        assert_eq!(found.split(' ').next(), Some("20260101000000"), "{found}");
        assert_eq!(
            get(ours.address(), &files[number]).text(),
            found,
            "{}",
            files[number]
        );
        if let Some(theirs) = &theirs {
            let same = get(theirs.address(), &peers[number]).text();
            assert_eq!(same.trim_end(), found.trim_end(), "{}", peers[number]);
        }
    }
    let folder = corpus.path("");
    let busy = Load {
        connections: CONNECTIONS,
        pause: None,
    };
    // Pause of each connection between two requests, in milliseconds.
    let paced = Load {
        pause: Some((CONNECTIONS as f64 / RATE * 1e3) as u64 - 2),
        ..busy
    };
    let span = wrk::span(plan);
    let (mut most, mut of_file, mut at_rate, mut wait, mut their) = (
        Series::default(),
        Series::default(),
        Series::default(),
        Series::default(),
        Series::default(),
    );
    for _ in plan.repeat("U1: dedupe look-ups") {
        most.push(busy.run(&folder, ours.address(), &dedupe, span).rate);
        of_file.push(busy.run(&folder, ours.address(), &files, span).rate);
        let run = paced.run(&folder, ours.address(), &dedupe, span);
        at_rate.push(run.rate);
        wait.push(run.p99 * 1e3);
        if let Some(theirs) = &theirs {
            their.push(busy.run(&folder, theirs.address(), &peers, span).rate);
        }
    }
    let mut found = Findings::default();
    table! { found;
        "U1", format!("dedupe look-ups over HTTP, {CONNECTIONS} connections kept"), "20 000 a second",
            most.shown(rate), "", most.over_fixed(RATE), targets::HTTP_LOOKUPS;
        "U1", "the same", "pywb's CDX server on the same captures",
            most.shown(rate), their.shown(rate), most.over(&their), targets::HTTP_PYWB;
        "U1", format!("the 99th percentile of {} look-ups a second", grouped(at_rate.median() as u64)), "–",
            wait.shown(|ms| format!("{ms:.1} ms")), "", &wait, targets::HTTP_WAIT;
    }
    note!(found, "lookups.md";
        urls = grouped(urls), crawls = CRAWLS, connections = CONNECTIONS, files = of_file.shown(rate));
    found
}

/// Formats a number as a digest of 32 characters.
fn base32(number: u64) -> String {
    let mut text = String::with_capacity(32);
    let mut rng = Rng::seeded(number);
    for _ in 0..32 {
        let _ = write!(
            text,
            "{}",
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[rng.below(32) as usize])
        );
    }
    text
}
