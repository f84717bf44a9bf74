//! Urlkeys are those of the program that most indexes were written with: the package `surt`, asked as pywb asks it.
//!
//! `URLS=1000000` for more of them, `SEED=` for the same ones again.

#[path = "federation_surt/urls.rs"]
mod urls;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crawlspace_cdx::surt::urlkey;
use redis_tests::packages::{self, left_out, run};
use redis_tests::Rng;

const PACKAGE: &str = "surt==0.3.1";

/// What is accepted to be different, and how it is told.
const ACCEPTED: [(fn(&str) -> bool, &str); 1] = [(
    has_new_letter,
    "The host has a letter that got its case after Unicode 14, which that Python goes by: \
     here it is put into lower case too.",
)];

/// A URL a line, as JSON, to its key, or null where there is none. Numbers that are no address must not be looked up
/// as names by whoever happens to resolve names for this machine: they are told from addresses as the C library does.
const PROGRAM: &str = r#"
import json, re, socket, sys
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
        keys.write(json.dumps(key) + "\n")
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
    let mut seen = [0_usize; ACCEPTED.len()];
    let mut count = 0;
    for (url, answer) in urls.iter().zip(answers.lines()) {
        count += 1;
        let theirs: Option<String> = serde_json::from_str(answer).unwrap();
        let ours = urlkey(url).ok();
        if ours == theirs {
            continue;
        }
        match ACCEPTED.iter().position(|(is_it, _)| is_it(url)) {
            Some(at) => seen[at] += 1,
            None => found.push(format!("{url:?}\n  ours   {ours:?}\n  theirs {theirs:?}")),
        }
    }
    assert_eq!(count, urls.len(), "an answer for each URL");
    for ((_, why), times) in ACCEPTED.iter().zip(seen) {
        eprintln!("{times} times: {why}");
    }
    let (total, all) = (found.len(), urls.len());
    found.truncate(40);
    assert!(total == 0, "{total} of {all} differ:\n{}", found.join("\n"));
}

fn has_new_letter(url: &str) -> bool {
    let is_new = |c: char| matches!(c, '\u{1c89}' | '\u{a7cb}'..='\u{a7dc}' | '\u{10d50}'..='\u{10d65}' | '\u{16ea0}'..='\u{16eb8}');
    url.chars().any(is_new)
}
