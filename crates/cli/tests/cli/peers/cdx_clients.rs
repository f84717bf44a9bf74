//! Programs that ask CDX servers, as they are on PyPI, in front of `/<coll>/cdx`.

use std::fmt::Write as _;
use std::process::Command;

use redis_tests::packages::{run, sized};

use super::python;
use crate::serving::Stage;

const PACKAGES: [&str; 3] = ["cdx_toolkit==0.9.*", "wayback==0.5.*", "setuptools<81"];

/// Prints a line a capture: by pages, and by keys.
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
fn each_capture_comes_once() {
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
