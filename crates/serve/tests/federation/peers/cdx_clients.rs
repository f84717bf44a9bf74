//! Tests of CDX clients from PyPI against `/<coll>/cdx`.

use std::fmt::Write as _;
use std::process::Command;

use redis_tests::packages::{run, sized};

use super::python;
use crate::serving::Stage;

const PACKAGES: [&str; 3] = ["cdx_toolkit==0.9.*", "wayback==0.5.*", "setuptools<81"];

/// Prints one line per capture, fetched by pages and by resume keys.
const CLIENTS: &str = r#"
import sys
url, limit = sys.argv[1], int(sys.argv[2])

import cdx_toolkit
found = [f"{one['urlkey']} {one['timestamp']} {one['digest']}" for one in
         cdx_toolkit.CDXFetcher(source=url).iter('http://example.com/*', filter=['status:200', '!mime:text/css'])]
open('pages', 'w').write('\n'.join(found))

import wayback._client
wayback._client.CDX_SEARCH_URL = url
client = wayback.WaybackClient(wayback.WaybackSession(search_calls_per_second=0))
found = [f'{one.urlkey} {one.timestamp:%Y%m%d%H%M%S} {one.digest}' for one in
         client.search('http://example.com/*', limit=limit, filter_field=['statuscode:200', '!mimetype:text/css'])]
open('keys', 'w').write('\n'.join(found))
print(len(list(client.search('http://example.com/7', limit=-2, fast_latest=True))))
"#;

#[test]
fn each_capture_is_returned_once() {
    let Some(python) = python("cdx-clients", &PACKAGES) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut lines = Vec::new();
    let (rows, limit) = (sized(10_000, 1_000_000), sized("700", "20000"));
    for n in 0..rows {
        let (page, status) = (n % 500, if n % 9 == 0 { 404 } else { 200 });
        let second = n as u64 / 1000;
        lines.push(format!(
            "com,example)/{page} {} {{\"url\": \"http://example.com/{page}\", \"mime\": \"text/html\", \
             \"status\": \"{status}\", \"digest\": \"sha1:{n:032}\", \"length\": \"10\", \"offset\": \"0\", \
             \"filename\": \"a.warc.gz\"}}\n",
            20_140_101_000_000_u64 + second / 60 * 100 + second % 60,
        ));
    }
    lines.sort();
    let half = |rest: usize| {
        lines
            .iter()
            .skip(rest)
            .step_by(2)
            .cloned()
            .collect::<String>()
    };
    std::fs::write(dir.path().join("all.cdxj"), lines.concat()).unwrap();
    for (name, rest) in [("even.cdxj", 0), ("odd.cdxj", 1)] {
        std::fs::write(dir.path().join(name), half(rest)).unwrap();
    }
    let mut config = "collections:\n".to_owned();
    let folder = dir.path().display();
    let _ = writeln!(config, "  one: {folder}/all.cdxj");
    let _ = writeln!(
        config,
        "  two: {{index_group: {{a: {folder}/even.cdxj, b: {folder}/odd.cdxj}}}}"
    );
    let stage = Stage::start(&config);
    let expected = lines.iter().filter(|line| !line.contains("\"404\""));
    let expected = expected.map(|line| {
        let digest = &line[line.find("sha1:").unwrap() + 5..][..32];
        let mut columns = line.split(' ');
        format!(
            "{} {} {digest}",
            columns.next().unwrap(),
            columns.next().unwrap()
        )
    });
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    for collection in ["one", "two"] {
        let url = format!("{}/{collection}/cdx/search/cdx", stage.url());
        let mut clients = Command::new(&python);
        clients
            .args(["-c", CLIENTS, &url, limit])
            .env("CDXT_DEFAULT_MIN_RETRY_INTERVAL", "0")
            .env("NO_PROXY", "*")
            .current_dir(dir.path());
        assert_eq!(run(&mut clients).unwrap().trim(), "2");
        for way in ["pages", "keys"] {
            let text = std::fs::read_to_string(dir.path().join(way)).unwrap();
            let mut found: Vec<&str> = text.lines().collect();
            found.sort_unstable();
            assert!(
                found == expected,
                "{collection} by {way}: {} captures",
                found.len()
            );
        }
    }
}

/// Captures of two pages. The digests of the first two are equal, in different encodings.
const CRAWL: &str = "\
com,example)/ 20240101000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"sha1:0e973b59f476007fd10f87f347c3956065516fc0\", \"length\": \"10\", \"offset\": \"1\", \"filename\": \"a.warc.gz\"}
com,example)/ 20240201000000 {\"url\": \"http://example.com/\", \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\", \"length\": \"11\", \"offset\": \"2\", \"filename\": \"a.warc.gz\"}
com,example)/a 20240301000000 {\"url\": \"http://example.com/a\", \"mime\": \"text/html\", \"status\": \"404\", \"digest\": \"sha1:DDDD\", \"length\": \"12\", \"offset\": \"3\", \"filename\": \"a.warc.gz\"}
";

/// Queries a collection with the clients of the Wayback Machine and of Common Crawl.
const WORDS: &str = r"
import sys
root = sys.argv[1]

from waybackpy import WaybackMachineCDXServerAPI
def wayback(**words):
    api = WaybackMachineCDXServerAPI(url='http://example.com/', user_agent='tests', **words)
    api.endpoint = root + '/CC-MAIN-2024-10/cdx'
    return api
times = lambda captures: ' '.join(one.timestamp[:6] for one in captures)
print(times([wayback().near(wayback_machine_timestamp='20240103000000'), wayback().oldest(), wayback().newest()]))
print(times(wayback(collapses=['digest', 'statuscode']).snapshots()))
print(times(wayback(filters=['=statuscode:200'], sort='reverse').snapshots()))

import requests
import cdx_toolkit
[crawl] = requests.get(root + '/collinfo.json').json()
fetcher = cdx_toolkit.CDXFetcher(source=crawl['cdx-api'])
print(' '.join(one['status'] for one in fetcher.iter('example.com/*')), list(fetcher.iter('example.org/*')))

import comcrawl.utils.search as comcrawl
comcrawl.URL_TEMPLATE = root + '/CC-MAIN-{index}-index?url={url}&output=json'
print([len(comcrawl.search_single_index('2024-10', url)) for url in ['example.com/*', 'example.org/*']])
";

/// Counts the captures that cmoncrawl finds.
const CMONCRAWL: &str = r"
import asyncio, sys
from cmoncrawl.aggregator.gateway_query import GatewayAggregator
from cmoncrawl.common.types import MatchType

async def count():
    crawl = sys.argv[1] + '/CC-MAIN-2024-10-index'
    words = dict(urls=['example.com'], match_type=MatchType.PREFIX, cc_servers=[crawl], max_retry=1)
    async with GatewayAggregator(**words) as captures:
        return len([one async for one in captures])
print(asyncio.run(count()))
";

/// Runs a program against a server with a crawl named like one of Common Crawl's.
fn asked_by(program: &str, name: &str, packages: &[&str]) -> Option<String> {
    let python = python(name, packages)?;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.cdxj"), CRAWL).unwrap();
    let index = dir.path().join("index.cdxj");
    let stage = Stage::start(&format!(
        "collections: {{CC-MAIN-2024-10: {}}}\n",
        index.display()
    ));
    let mut client = Command::new(&python);
    client
        .args(["-c", program, &stage.url()])
        .env("CDXT_DEFAULT_MIN_RETRY_INTERVAL", "0")
        .env("NO_PROXY", "*");
    Some(run(&mut client).unwrap())
}

#[test]
fn clients_of_wayback_machine_and_common_crawl_find_captures() {
    let packages = [
        "waybackpy==3.*",
        "comcrawl==1.*",
        "cdx_toolkit==0.9.*",
        "setuptools<81",
    ];
    let Some(found) = asked_by(WORDS, "crawl-clients", &packages) else {
        return;
    };
    let expected = [
        "202401 202401 202402",
        "202401",
        "202402 202401",
        "200 200 404 []",
        "[3, 0]",
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn cmoncrawl_finds_captures() {
    if let Some(found) = asked_by(CMONCRAWL, "cmoncrawl", &["CmonCrawl==1.1.*"]) {
        assert_eq!(found.trim(), "3");
    }
}
