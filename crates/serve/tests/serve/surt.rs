//! Tests that urlkeys equal those of the Python package `surt` as pywb uses it; most indexes were written
//! with it.
//!
//! `URLS=1000000` tests more URLs, `SEED=` repeats the same ones.

mod urls;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crawlspace_cdx::surt::urlkey;
use redis_tests::Rng;
use redis_tests::packages::{self, left_out, run};

const PACKAGE: &str = "surt==0.3.1";

/// Accepted difference: host names with a character that is newer than the Unicode version of that Python. Crawlspace
/// knows whether such a character is a letter with a lower case or a combining mark; that Python does not.
const ACCEPTED: &str = "in the host is a character that is newer than that Python";

/// Reads lines of JSON, each with a URL, and prints for each the key (null for an invalid URL) and whether
/// the URL contains such a character. The system must not resolve invalid numeric hosts as names, so
/// addresses are recognized as in the C library.
const PROGRAM: &str = r#"
import json, re, socket, sys, unicodedata
from urllib.parse import unquote
from surt import surt

def address(name):
    text = name.decode("ascii") if isinstance(name, bytes) else name
    if not re.fullmatch(r"[0-9.]+", text):
        raise socket.gaierror("no such name")
    try:
        return name, [], [socket.inet_ntoa(socket.inet_aton(text))]
    except OSError:
        raise socket.gaierror("no such name")

socket.gethostbyname_ex = address
with open(sys.argv[1], encoding="utf-8") as urls, open(sys.argv[2], "w", encoding="utf-8") as keys:
    for line in urls:
        url = json.loads(line)
        try:
            key = surt(url)
        except Exception:
            key = url if url.startswith("urn:") else None
        newer = any(unicodedata.category(c) == "Cn" for c in unquote(url))
        keys.write(json.dumps([key, newer]) + "\n")
"#;

#[test]
fn urlkeys_equal_those_of_the_package() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("surt");
    let python = match packages::python(&folder, &[PACKAGE]) {
        Ok(python) => python,
        Err(reason) => return left_out(PACKAGE, &reason),
    };
    let mut rng = Rng::new("urlkeys_equal_those_of_the_package");
    let count =
        std::env::var("URLS").map_or(200_000, |text| text.parse().expect("URLS is a number"));
    let urls = urls::some(&mut rng, count);

    let work = tempfile::tempdir().unwrap();
    let [program, asked, answered] =
        ["program.py", "urls", "keys"].map(|name| work.path().join(name));
    std::fs::write(&program, PROGRAM).unwrap();
    let mut lines = std::io::BufWriter::new(std::fs::File::create(&asked).unwrap());
    for url in &urls {
        serde_json::to_writer(&mut lines, url).unwrap();
        lines.write_all(b"\n").unwrap();
    }
    lines.into_inner().unwrap();
    run(Command::new(python).args([&program, &asked, &answered])).unwrap();

    let answers = std::fs::read_to_string(&answered).unwrap();
    let mut found = Vec::new();
    let (mut accepted, mut count) = (0, 0);
    for (url, answer) in urls.iter().zip(answers.lines()) {
        count += 1;
        let (theirs, newer): (Option<String>, bool) = serde_json::from_str(answer).unwrap();
        let ours = urlkey(url).ok();
        if ours == theirs {
            continue;
        }
        if newer && theirs.as_ref().is_some_and(|key| key.contains("xn--")) {
            accepted += 1;
        } else {
            found.push(format!("{url:?}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    assert_eq!(count, urls.len(), "an answer for each URL");
    eprintln!("accepted {accepted} times: {ACCEPTED}");
    let (total, all) = (found.len(), urls.len());
    found.truncate(40);
    assert!(total == 0, "{total} of {all} differ:\n{}", found.join("\n"));
}
