//! Tests interoperation with the tools of the format: the tools accept packages that this crate writes, and
//! this crate reads packages that the tools write.

use std::path::{Path, PathBuf};
use std::process::Command;

use crawlspace_cdx::{Field, Format, Line, Read};
use crawlspace_wacz::package::{Signature, set_requires};
use crawlspace_wacz::{Index, Options};
use redis_tests::packages::{left_out, python, run};
use redis_tests::{FileHost, Manners, with};

use crate::packages::members;
use crate::writing::{lines, required, write};
use crate::zipped::{Part, zip};
use crate::{all_lines, index_names, open};

/// Returns the program `wacz` of the PyPI package of that name, or `None` if it cannot be downloaded.
fn wacz_tool() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wacz-tool");
    match python(&folder, &["wacz"]) {
        Ok(_) => Some(folder.join("bin").join("wacz")),
        Err(reason) => {
            left_out("wacz", &reason);
            None
        }
    }
}

fn must_be_valid(tool: &Path, package: &Path) {
    let validate = run(Command::new(tool).args(["validate", "-f"]).arg(package));
    validate.unwrap_or_else(|reason| panic!("{}: {reason}", package.display()));
}

#[test]
fn reference_tools_accept_our_packages_after_changes() {
    let Some(tool) = wacz_tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    for index in [Index::Plain, Index::Blocks(100)] {
        write(&path, index, &lines(500), &[required(1)]).unwrap();
        must_be_valid(&tool, &path);
        for list in [vec![required(2), required(3)], vec![]] {
            assert!(set_requires(&path, &list, Signature::Refuse, &Options::default()).unwrap());
            must_be_valid(&tool, &path);
        }
    }
    // Check that the tools report faults: the list of pages gets an invalid line.
    let parts: Vec<Part> = members(&path)
        .into_iter()
        .map(|(name, bytes)| match &name[..] {
            "pages/pages.jsonl" => {
                Part::stored(&name, &[&bytes[..], b"{\"title\": \"x\"}\n"].concat())
            }
            _ => Part::stored(&name, &bytes),
        })
        .collect();
    std::fs::write(&path, zip(&parts)).unwrap();
    run(Command::new(&tool).args(["validate", "-f"]).arg(&path)).unwrap_err();
}

#[test]
fn packages_of_the_reference_tools_have_all_captures_of_wget() {
    let Some(tool) = wacz_tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let host = FileHost::start();
    let pages: Vec<String> = (0..40).map(|i| format!("/page-{i}.html")).collect();
    for (i, page) in pages.iter().enumerate() {
        let manners = with!(Manners, content_type: Some("text/html".into()));
        host.put(
            page,
            format!("<title>Page {i}</title>{}", "text ".repeat(i)).as_bytes(),
            manners,
        );
    }
    let mut wget = Command::new("wget");
    wget.args([
        "--quiet",
        "--warc-file=crawl",
        "--warc-max-size=4k",
        "--delete-after",
    ]);
    wget.args(pages.iter().map(|page| host.url(page)))
        .current_dir(folder.path());
    if let Err(reason) = run(&mut wget) {
        left_out("wget", &reason);
        return;
    }
    let warcs = || {
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().ends_with(".warc.gz"))
            .collect::<Vec<_>>()
    };
    assert!(warcs().len() > 2);
    let path = folder.path().join("crawl.wacz");
    run(Command::new(&tool)
        .args(["create", "--detect-pages", "-o"])
        .arg(&path)
        .args(warcs()))
    .unwrap();

    let wacz = open(&path).unwrap();
    assert_eq!(
        index_names(&wacz),
        ["indexes/index.cdx.gz"],
        "and not the index of its blocks"
    );
    let mut urls = Vec::new();
    for raw in all_lines(&wacz).unwrap() {
        let Ok(Read::Capture(line)) = Line::read(raw.as_bytes(), Format::Auto) else {
            panic!("{raw}");
        };
        assert_eq!(line.format(), Format::Cdxj);
        let text = |field: &str| {
            let value = line.field(&Field::named(field.as_bytes())).unwrap();
            String::from_utf8(value.into_owned()).unwrap()
        };
        assert!(text("digest").starts_with("sha1:"), "{raw}");
        assert!(text("length").parse::<u64>().unwrap() > 100, "{raw}");
        urls.push(text("url"));
    }
    let mut expected: Vec<String> = pages.iter().map(|page| host.url(page)).collect();
    expected.sort_unstable();
    urls.sort_unstable();
    // wget adds records about itself (`metadata://gnu.org/`).
    urls.retain(|url| !url.starts_with("metadata://gnu.org/"));
    assert_eq!(urls, expected);

    // A package made by the tools stays valid when its list changes.
    assert!(
        set_requires(
            &path,
            &[required(1)],
            Signature::Refuse,
            &Options::default()
        )
        .unwrap()
    );
    must_be_valid(&tool, &path);
    assert!(all_lines(&open(&path).unwrap()).unwrap().len() > pages.len());
}
