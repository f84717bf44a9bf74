//! Urlkeys are those of the program that most indexes were written with: the package `surt`, asked as pywb asks it.
//!
//! `URLS=1000000` for more of them, `SEED=` for the same ones again.

mod urls;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crawlspace_cdx::surt::urlkey;
use redis_tests::Rng;
use redis_tests::packages::{self, left_out, run};

const PACKAGE: &str = "surt==0.3.1";

/// What is accepted to be different: host names with a character that came into Unicode after the version that the
/// Python goes by. Whether it is a letter with a lower case, or a mark with a place among others, is known here and
/// not there.
const ACCEPTED: &str = "in the host is a character that is newer than that Python";

/// A URL a line, as JSON, to its key, or null where there is none, and whether it has such a character. Numbers that are no address must not be looked up
/// as names by whoever happens to resolve names for this machine: they are told from addresses as the C library does.
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
fn urlkeys_are_those_of_the_package() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("surt");
    let python = match packages::python(&folder, &[PACKAGE]) {
        Ok(python) => python,
        Err(reason) => return left_out(PACKAGE, &reason),
    };
    let mut rng = Rng::new("urlkeys_are_those_of_the_package");
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
