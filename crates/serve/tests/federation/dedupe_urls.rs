//! Tests of CDX queries for the captures of a URL in a dedupe index.

use crawlspace_client::dedupe::{Added, Adding, Sharded};
use redis_tests::{Cluster, DedupeIndex, assert_contains, rows};

use crate::serving::Stage;

const URL: &str = "http://example.com/a?b=c";
const CDX: &str = "com,example)/a?b=c";

/// Starts an index with three captures of a URL, the last one from a running crawl, and a server that has this index in
/// three collections.
fn start() -> (redis_tests::Server, DedupeIndex, Stage, tempfile::TempDir) {
    let (server, mut index) = DedupeIndex::start("x:");
    index.ok("URLS ON");
    index.ok(format!("ADD c1 {} 0 20240131235959 {URL} 700", digest(1)));
    index.ok(format!(
        "ADD c1 {} 0 20240131235959 http://example.com/ 100",
        digest(9)
    ));
    index.ok("WACZOPEN c2 c2.wacz");
    index.ok(format!(
        "ADD c2 {} 0 2025-02-01T01:59:59.5+02:00 {URL} 800",
        digest(2)
    ));
    index.ok("COMMIT c1");
    index.ok("COMMIT c2");
    index.ok(format!("ADD c3 {} 0 20260131235959 {URL} 900", digest(3)));
    let dir = tempfile::tempdir().unwrap();
    let line = format!(
        "{CDX} 20240601000000 {{\"url\": \"{URL}\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"{}\"}}\n",
        &digest(4)[5..]
    );
    std::fs::write(dir.path().join("a.cdxj"), line).unwrap();
    let url = server.url();
    let source = format!(
        "type: dedupe, redis_url: '{}', prefix: 'x:'",
        url.trim_end_matches('/')
    );
    let stage = Stage::start(&format!(
        "collections:\n  seen: {{index: {{{source}}}}}\n  own: {{index: {{{source}, crawl: c3}}}}\n  \
         both: {{index_group: {{seen: {{{source}}}, files: {}/a.cdxj}}}}\n",
        dir.path().display()
    ));
    (server, index, stage, dir)
}

fn digest(number: u32) -> String {
    let digit = char::from(b'A' + number as u8);
    format!("sha1:{}", String::from(digit).repeat(32))
}

fn ask(stage: &Stage, target: &str) -> String {
    let answer = stage.get(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    assert_eq!(answer.field("source-errors"), None, "{target}");
    answer.text()
}

#[test]
fn captures_of_a_url_become_rows() {
    let (_server, _index, stage, _dir) = start();
    let url = "http://example.com/a%3Fb%3Dc";
    let [a, b, c, d] = [1, 2, 3, 4].map(|n| digest(n)[5..].to_owned());
    for (target, expected) in rows![
        // Queries of warcprox and gowarc.
        format!("/seen/cdx?url={url}&fl=timestamp%2Cdigest&filter=%21mimetype%3Awarc%2Frevisit&limit=-1"),
            format!("20250131235959 {b}\n");
        format!("/seen/web/timemap/cdx?url={url}&limit=-1"), format!("{CDX} 20250131235959 {URL} - - {b} 800\n");
        format!("/own/cdx?url={url}&limit=-1&fl=digest,length,crawl"), format!("{c} 900 c3\n");
        format!("/seen/cdx?url={url}&fl=digest,crawl,wacz"), format!("{a} c1 -\n{b} c2 c2.wacz\n");
        format!("/seen/cdx?url={url}&fl=digest&to=2024"), format!("{a}\n");
        format!("/seen/cdx?url={url}&fl=digest&from=2025"), format!("{b}\n");
        format!("/seen/cdx?url={url}&fl=digest&limit=-1&to=20250131235959"), format!("{b}\n");
        format!("/seen/cdx?url={url}&fl=digest&limit=-1&to=20250131235958"), format!("{a}\n");
        format!("/seen/cdx?url={url}&fl=digest&limit=-1&from=2026"), String::new();
        format!("/seen/cdx?url={url}&fl=digest&closest=202401&limit=1"), format!("{a}\n");
        format!("/both/cdx?url={url}&fl=digest,source"), format!("{a} seen\n{d} files\n{b} seen\n");
        format!("/both/cdx?url={url}&fl=digest&limit=-2"), format!("{d}\n{b}\n");
        "/seen/cdx?url=http://example.com/b".to_owned(), String::new();
        // The URL was added in its normal form.
        "/seen/cdx?url=example.com&fl=length".to_owned(), "100\n".to_owned();
        "/seen/cdx?url=HTTP://Example.com:80&fl=length".to_owned(), "100\n".to_owned();
        format!("/seen/index?url={url}&limit=1&sort=reverse"),
            format!("{CDX} 20250131235959500 {{\"url\": \"{URL}\", \"digest\": \"sha1:{b}\", \"length\": \"800\", \
                \"crawl\": \"c2\", \"wacz\": \"c2.wacz\", \"source\": \"seen\", \"source-coll\": \"seen\", \
                \"source_type\": \"dedupe\"}}\n");
    ] {
        assert_eq!(ask(&stage, &target), expected, "{target}");
    }
    let timemap = ask(&stage, &format!("/seen/timemap/link/{URL}"));
    assert_contains(timemap, "Fri, 31 Jan 2025 23:59:59 GMT");
}

#[test]
fn all_captures_are_returned() {
    let (server, mut index) = DedupeIndex::start("x:");
    index.ok("URLS ON");
    let mut wire = server.wire();
    // Many captures have the same timestamp.
    let number = 25_000_u64;
    let adds = (0..number).map(|n| {
        let (hash, date) = (
            redis_tests::sha256_of(n),
            20_240_101_000_000 + n / 7 % 60 + n / 420 * 100 % 6_000,
        );
        [
            "DEDUPE.ADD",
            "x:",
            "c",
            &hash,
            "0",
            &date.to_string(),
            URL,
            "1",
        ]
        .map(str::to_owned)
        .to_vec()
    });
    wire.pipeline(adds);
    index.ok("COMMIT c");
    let url = server.url();
    let stage = Stage::start(&format!(
        "collections: {{seen: {{index: {{type: dedupe, redis_url: '{}', prefix: 'x:', index_timeout: 60}}}}}}\n",
        url.trim_end_matches('/')
    ));
    let get = |more: &str| {
        let target =
            format!("/seen/cdx?url=http://example.com/a%3Fb%3Dc&fl=timestamp,digest{more}");
        let text = ask(&stage, &target);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = get("");
    assert_eq!(all.len() as u64, number);
    assert!(all.is_sorted_by_key(|line| line[..14].to_owned()));
    let mut once = all.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len() as u64, number, "each capture is returned once");
    let mut newest = get("&sort=reverse");
    assert!(newest.is_sorted_by_key(|line| std::cmp::Reverse(line[..14].to_owned())));
    newest.sort();
    assert_eq!(newest, once);
    for most in [1, 15, 16, 17, 500] {
        let last = get(&format!("&limit=-{most}"));
        assert_eq!(last.len(), most);
        let moments = |lines: &[String]| {
            lines
                .iter()
                .map(|line| line[..14].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(moments(&last), moments(&all[all.len() - most..]), "{most}");
    }
}

#[test]
fn failed_look_up_is_no_empty_answer() {
    let (mut server, mut index, stage, _dir) = start();
    // Other sources answer, and the failed one is reported.
    let answer = stage.get("/both/cdx?url=http://example.com/*&fl=source");
    assert_eq!((answer.status, answer.text()), (200, "files\n".to_owned()));
    assert_eq!(
        answer.field("source-errors"),
        Some("{\"seen\":\"unsupported query\"}")
    );
    index.ok("URLS OFF");
    let target = format!("/seen/cdx?url={URL}");
    let answer = stage.get(&target);
    assert_eq!(answer.status, 502, "{}", answer.text());
    index.ok("URLS ON");
    assert_eq!(ask(&stage, &target).lines().count(), 2);
    server.kill9();
    assert_eq!(stage.get(&target).status, 502);
}

#[test]
fn sharded_index_answers_like_one_index() {
    let cluster = Cluster::start(3);
    let url = cluster.url();
    let index = Sharded::open(&url, "coll-42", 7).unwrap();
    index.set_urls(true).unwrap();
    index.wacz_open("c1", "c1.wacz").unwrap();
    let (dates, digests): (Vec<String>, Vec<String>) = (1..=9)
        .map(|n| (format!("2024013123595{n}"), digest(n)))
        .unzip();
    let records = dates.iter().zip(&digests);
    let records: Vec<Added<'_>> = records
        .map(|(date, hash)| Added::new(hash.as_bytes(), 0, date.as_bytes(), URL.as_bytes(), 700))
        .collect();
    index.add("c1", &Adding::default(), &records).unwrap();
    let at_home = index.shards()[0].crawls(None).unwrap();
    assert_eq!(at_home.len(), 1);
    index.commit("c1").unwrap();
    let url = url.trim_end_matches('/');
    let stage = Stage::start(&format!(
        "collections:\n  seen: {{index: {{type: dedupe, redis_url: '{url}', sharded: coll-42, crawl: c2}}}}\n  \
         none: {{index: {{type: dedupe, redis_url: '{url}', sharded: other}}}}\n",
    ));
    let asked = "http://example.com/a%3Fb%3Dc";
    let lines = |numbers: &mut dyn Iterator<Item = u32>| -> String {
        let line = |n| format!("{} c1.wacz\n", &digest(n)[5..]);
        numbers.map(line).collect()
    };
    for (query, expected) in rows![
        "", lines(&mut (1..=9));
        "&limit=-2", lines(&mut (8..=9));
        "&to=20240131235954", lines(&mut (1..=4));
        "&closest=20240131235955&limit=1", lines(&mut (5..=5));
    ] {
        let target = format!("/seen/cdx?url={asked}&fl=digest,wacz{query}");
        assert_eq!(ask(&stage, &target), expected, "{target}");
    }
    let known = stage.get(format!("/seen/api/records/{}?uri={URL}", &digest(3)[5..]));
    assert_eq!(known.status, 200, "{}", known.text());
    let refused = stage.get(format!("/none/cdx?url={asked}"));
    assert_eq!(refused.status, 502, "{}", refused.text());
}
