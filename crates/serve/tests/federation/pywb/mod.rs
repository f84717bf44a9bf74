//! Comparison with pywb (PyPI): the same answers from the same data, and each server as a client of the other. If pywb
//! cannot be installed, these tests report this and are skipped.

mod answer;
pub(crate) mod both_ways;
pub(crate) mod data;
mod equal;
mod jobs;
mod outback;
mod peers;
mod record;
mod replay;
mod table;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;

use data::{Data, pywb};

/// Tests that other tools accept the generated archive, on which all comparisons are based.
#[test]
fn reference_tools_accept_the_generated_archive() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("reference_tools_accept_the_generated_archive");
    let files = std::fs::read_dir(data.warcs("north")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    // The tool supports only WARC.
    let files: Vec<_> = files
        .filter(|path| !path.to_string_lossy().contains(".arc"))
        .collect();
    assert!(files.len() > 3);
    pywb.warcio_check(&files)
        .unwrap_or_else(|why| panic!("{why}"));

    let urls: BTreeMap<String, &str> = (data.north.captures.iter())
        .map(|capture| {
            let posted = capture.posted.as_ref();
            let more = posted.map(|posted| format!("?__wb_method=POST&{posted}"));
            let url = format!("{}{}", capture.url, more.unwrap_or_default());
            (url, &capture.key[..])
        })
        .collect();
    let program = "import sys, surt\nfor line in sys.stdin: print(surt.surt(line.rstrip('\\n')))";
    let mut python = std::process::Command::new(pywb.python())
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = urls.keys().map(|url| format!("{url}\n")).collect();
    python
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let keys = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(keys.lines().count(), urls.len());
    for (key, (url, expected)) in keys.lines().zip(urls) {
        assert_eq!(key, expected, "{url}");
    }
}
