//! Tests that pywb replays captures in WACZ files through our APIs as it replays them itself from WARC files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crawlspace_wacz::{Index, Writer};
use redis_tests::archive as zip;
use redis_tests::archive::collection::Capture;
use redis_tests::http::get;
use redis_tests::packages::{at_full_size, left_out, python, run};
use redis_tests::pywb::{App, Pywb};
use redis_tests::{FileHost, Manners};

use crate::pywb::both_ways::samples;
use crate::pywb::data::{Data, pywb};
use crate::pywb::replay::same;
use crate::serving::Stage;

/// Number of replayed captures at full size.
const MANY: usize = 1_000;

/// Returns the captures to replay: a few of every kind, or many.
fn replayed(data: &Data) -> Vec<&Capture> {
    if !at_full_size() {
        return samples(&data.north.captures);
    }
    let all = data.north.captures.iter();
    let all: Vec<_> = all.filter(|capture| capture.posted.is_none()).collect();
    assert!(all.len() >= MANY);
    all.into_iter().take(MANY).collect()
}

/// Returns the WARC files of the archive, each with its index lines.
fn files(data: &Data) -> Vec<(PathBuf, Vec<String>)> {
    let lines = data.north.cdxj_lines();
    let files = std::fs::read_dir(data.warcs("north")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let with_lines = files.into_iter().map(|path| {
        let name = format!("\"{}\"", path.file_name().unwrap().to_str().unwrap());
        let own = lines.iter().filter(|line| line.contains(&name));
        let own = own.map(|line| line.trim_end().to_owned()).collect();
        (path, own)
    });
    with_lines.collect()
}

/// Creates packages as Browsertrix writes them: streamed members whose sizes follow them, small indexes as text and
/// large ones in blocks.
fn browsertrix(data: &Data, folder: &Path) {
    for (number, (path, lines)) in files(data).into_iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let ours = folder.join("ours");
        let how = if number % 2 == 0 {
            Index::Blocks(64)
        } else {
            Index::Plain
        };
        let mut wacz = Writer::create(&ours, "2026-03-19T10:20:15Z").unwrap();
        wacz.warc(name, std::fs::File::open(&path).unwrap())
            .unwrap();
        wacz.index(how, &lines).unwrap();
        wacz.finish().unwrap();
        let archive = format!("archive/{name}");
        let indexes = match how {
            Index::Plain => &["indexes/index.cdxj"][..],
            Index::Blocks(_) => &["indexes/index.cdx.gz", "indexes/index.idx"],
        };
        let mut names = vec![&*archive];
        names.extend(indexes);
        names.extend(["datapackage.json", "datapackage-digest.json"]);
        let members: Vec<_> = names
            .iter()
            .map(|name| (*name, zip::member(&ours, name)))
            .collect();
        // Browsertrix names the text index index.cdx.
        let members: Vec<(String, Vec<u8>)> = members
            .into_iter()
            .map(|(name, bytes)| (name.replace("index.cdxj", "index.cdx"), bytes))
            .collect();
        let members: Vec<_> = members
            .iter()
            .map(|(name, bytes)| (&**name, &**bytes))
            .collect();
        std::fs::write(folder.join(format!("{number}.wacz")), zip::stream(&members)).unwrap();
        std::fs::remove_file(ours).unwrap();
    }
}

/// Asserts that pywb replays the packages through our APIs as it replays the WARC files alone.
fn replays_the_same(pywb: &Pywb, data: &Data, packages: &str) {
    let config = format!("framed_replay: false\n{}", data.config());
    let alone = pywb.start(App::Wayback, &config, 1);
    let ours = Stage::start(&format!("collections: {{north: wacz+{packages}}}\n"));
    let turned = pywb.start_before(&ours.url(), &config);
    for capture in replayed(data) {
        let path = format!("/north/{}id_/{}", capture.timestamp, capture.url);
        let expected = get(alone.address(), &path);
        same(&get(turned.address(), &path), &expected, &path);
    }
}

#[test]
fn pywb_replays_browsertrix_packages_like_their_files() {
    let Some(pywb) = pywb() else { return };
    let data = Data::new("pywb_replays_browsertrix_packages_like_their_files");
    let folder = tempfile::tempdir().unwrap();
    browsertrix(&data, folder.path());
    replays_the_same(&pywb, &data, &folder.path().display().to_string());
}

#[test]
fn pywb_replays_remote_py_wacz_packages_like_their_files() {
    let Some(pywb) = pywb() else { return };
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("py-wacz");
    let python = match python(&venv, &["wacz==0.6.*", "setuptools<81"]) {
        Ok(python) => python,
        Err(reason) => return left_out("wacz", &reason),
    };
    let data = Data::new("pywb_replays_remote_py_wacz_packages_like_their_files");
    let folder = tempfile::tempdir().unwrap();
    let host = FileHost::start();
    let mut entries = Vec::new();
    for (number, some) in files(&data).chunks(4).enumerate() {
        let path = folder.path().join(format!("{number}.wacz"));
        let mut create = Command::new(python.with_file_name("wacz"));
        create.args(["create", "-o"]).arg(&path);
        run(create.args(some.iter().map(|(path, _)| path))).unwrap();
        let name = format!("{number}.wacz");
        host.put(
            &format!("/{name}"),
            &std::fs::read(path).unwrap(),
            Manners::default(),
        );
        entries.push(serde_json::json!({"path": name}));
    }
    let list = serde_json::json!({"profile": "multi-wacz-package", "resources": entries});
    host.put(
        "/collection.json",
        list.to_string().as_bytes(),
        Manners::default(),
    );
    replays_the_same(&pywb, &data, &host.url("/collection.json"));
}
