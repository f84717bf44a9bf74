//! Tests damaged, missing and mislabelled packages.

use std::fs;

use redis_tests::archive::{Entry, Folder, Layout, Shape, store};
use redis_tests::{
    Options, Rng, assert_contains, assert_starts, but, ok, plain_hash, rows, sha256_of, with,
};
use serde_json::json;

use crate::indexer::stage::{
    COPY, Indexer, LIVE, Outcome, Stage, assert_over, report, unsized_entry,
};

/// Returns a shape of crawls in which no payload is stored twice, so that the order of files does not matter.
fn plain() -> Shape {
    with!(Shape, plain: true, captures: 250)
}

/// A kind of damage, the remaining bytes, and the expected messages. A deleted file has no bytes.
type Damage = (&'static str, Option<Vec<u8>>, &'static [&'static str]);

/// Returns all kinds of damage to a file.
fn damages(bytes: &[u8], rng: &mut Rng) -> [Damage; 15] {
    let cut = rng.below(bytes.len() as u64) as usize;
    let index = |bytes: &[u8]| store(&[("indexes/index.cdx.gz", bytes)]);
    let gzipped = {
        // Write many lines, so that a part of them can be decompressed.
        let lines: Vec<_> = (0..5000).map(|n| good_line(n, 100)).collect();
        let lines = lines.join("\n") + "\n";
        gzip(lines.as_bytes())
    };
    let mut flipped = gzipped.clone();
    let at = flipped.len() - 6;
    flipped[at] ^= 1;
    let mut torn = gzipped.clone();
    let at = torn.len() / 2;
    torn[at..at + 40].fill(0xff);
    let half = gzipped[..gzipped.len() / 2].to_vec();
    let mut headless = bytes.to_vec();
    let end = headless.len() - 22;
    headless[end + 16..end + 20].fill(0xff);
    let bomb = gzip(&vec![b'a'; 400 << 20]);
    let endless = gzip(&[&vec![b'a'; 3 << 20][..], b"\n"].concat());
    let words = b"no line of any index\n".repeat(300);
    let mut of_wget = b" CDX a b a m s k r M V g u\n".to_vec();
    for n in 0..200 {
        let url = format!("http://example.org/{n}");
        let line = format!(
            "{url} 20240101000000 {url} text/html 200 B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - - {n} a.warc.gz <urn:uuid:{n}>\n"
        );
        of_wget.extend(line.bytes());
    }
    let html = b"<html>no zip</html>\n".repeat(100);
    rows![
        "gone", None, &[];
        "empty", Some(Vec::new()), &[];
        "cut off", Some(bytes[..cut].to_vec()), &[];
        "no zip", Some(html), &["not a WACZ file"];
        "a directory that is elsewhere", Some(headless), &[];
        "no index", Some(store(&[("archive/data.warc.gz", b"WARC")])), &["CDX"];
        "index of something else", Some(index(&gzip(&words))), &["line"];
        "columns of wget", Some(index(&gzip(&of_wget))), &["a b a m s k r M V g u"];
        "no gzip", Some(index(b"no gzip at all")), &[];
        "a checksum that is wrong", Some(index(&flipped)), &[];
        "torn", Some(index(&torn)), &[];
        "half", Some(index(&half)), &[];
        "a bomb", Some(index(&bomb)), &["limit", "large", "much", "times"];
        "a line without end", Some(index(&endless)), &["line"];
        "a name that leaves", Some(store(&[("../../etc/index.cdxj", b"x")])), &[".."];
    ]
}

/// Returns a valid index line.
fn good_line(n: u64, length: u64) -> String {
    let hash = sha256_of(1 << 50 | n);
    format!(
        "org,example)/{n} 20240101000000 {{\"url\": \"http://example.org/{n}\", \"digest\": \"{hash}\", \
         \"length\": \"{length}\", \"mime\": \"text/html\"}}"
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("memory takes it");
    packed.finish().expect("memory takes it")
}

#[test]
fn damaged_file_is_reported_and_the_others_are_imported() {
    let mut stage = Stage::with("damaged", Options::new(), 2, plain());
    let mut rng = Rng::seeded(stage.rng.bits());
    let damaged = stage.rng.pick(&stage.folder.entries).clone();
    let file = stage.folder.file(&damaged.path);
    let bytes = fs::read(&file).expect("it is there");
    let entries = stage.folder.entries.iter();
    let resources: Vec<_> = entries.map(unsized_entry).collect();
    let import = stage.import_list("unsized.json", &resources);
    for (n, (damage, instead, why)) in damages(&bytes, &mut rng).into_iter().enumerate() {
        let prefix = format!("{{bad-{n}}}:");
        match instead {
            Some(bytes) => fs::write(&file, bytes),
            None => fs::remove_file(&file),
        }
        .expect("the folder is writable");
        let import = import.clone().prefix(&prefix);
        let failed = import.fails_some();
        let reasons: Vec<(&String, &String)> = failed.iter().collect();
        println!("{damage}: {reasons:?}");
        assert_eq!(reasons.len(), 1, "{damage}: {reasons:?}");
        let (name, reason) = reasons[0];
        assert_eq!(*name, damaged.name, "{damage}");
        let said = why.is_empty() || why.iter().any(|why| reason.contains(why));
        assert!(said, "{damage}: {reason}");
        let mut c = stage.server.wire();
        let done = redis_tests::set_key(&mut c, &format!("{prefix}src:d"));
        assert_eq!(done.len(), stage.folder.entries.len() - 1, "{damage}");
        assert!(!done.contains(&damaged.name), "{damage}: {done:?}");
        let progress = ok!(c, "HGET", format!("{prefix}allcounts"), "updateProgress");
        assert_eq!(progress.text(), "1", "a failed file is finished");
        redis_tests::assert_consistent(&mut c, &prefix);

        // The next run tries the damaged package again, and reports the same errors.
        assert_eq!(import.fails_some(), failed, "{damage}");
        // After the file is repaired, nothing is missing.
        fs::write(&file, &bytes).expect("the folder is writable");
        import.succeeds();
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn file_of_another_size_or_hash_is_refused() {
    let stage = Stage::with("another", Options::new(), 2, plain());
    let entries = &stage.folder.entries;
    let wrong = |n: usize, change: &dyn Fn(&mut Entry)| {
        let mut listed = entries.clone();
        // Every other entry states its size and hash.
        change(&mut listed[n]);
        stage.folder.manifest_of("wrong.json", &listed)
    };
    let source = wrong(2, &|entry| entry.size += 1);
    let failed = stage.import_of(&source).fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&entries[2].name]);
    let reason = &failed[&entries[2].name];
    let sizes = [entries[2].size, entries[2].size + 1].map(|size| size.to_string());
    assert!(sizes.iter().all(|size| reason.contains(size)), "{reason}");
    stage.import().succeeds();
    stage.assert_once();

    let source = wrong(0, &|entry| entry.hash = sha256_of(7));
    let verified = |import: Indexer| import.prefix("{verified}:").flag("--verify");
    let failed = verified(stage.import_of(&source)).fails_some();
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&entries[0].name]);
    let reason = &failed[&entries[0].name];
    for hash in [&sha256_of(7), &entries[0].hash] {
        assert_contains(reason, hash);
    }
    verified(stage.import()).succeeds();
    stage.assert_once_in("{verified}:");

    // Without --verify, the indexer trusts the hash, and writes it to the list of files.
    stage.import_of(&source).prefix("{believed}:").succeeds();
    let mut c = stage.server.wire();
    let key = format!("{{believed}}:c:{}:wacz", entries[0].crawl);
    assert_contains(ok!(c, "LINDEX", key, 0).text(), sha256_of(7));
}

#[test]
fn other_spellings_of_a_hash_are_verified() {
    let stage = Stage::with("spelled", Options::new(), 1, plain());
    for spell in [
        &|hash: &str| hash["sha256:".len()..].to_owned() as String,
        &|hash: &str| hash.replace("sha256:", "sha-256:"),
        &|hash: &str| hash.to_ascii_uppercase(),
    ] as [&dyn Fn(&str) -> String; 3]
    {
        let mut listed = stage.folder.entries.clone();
        for entry in &mut listed {
            entry.hash = spell(&entry.hash);
        }
        let source = stage.folder.manifest_of("spelled.json", &listed);
        let import = stage.import_of(&source).prefix(&spell("sha256:{x}:"));
        import.flag("--verify").succeeds();
    }
}

#[test]
fn invalid_entries_are_reported() {
    let stage = Stage::with("entries", Options::new(), 1, plain());
    let entries = &stage.folder.entries;
    let good: Vec<_> = entries.iter().map(unsized_entry).collect();
    let bad = rows![
        json!(7), "entry 1";
        json!({"name": "no path"}), "no path";
        json!({"path": 7.5, "name": "number"}), "number";
        json!({"path": "ftp://host/a.wacz"}), "a.wacz";
        json!({"path": "a.wacz", "size": "many"}), "a.wacz";
        json!({"path": "b.wacz", "size": -1}), "b.wacz";
        json!({"path": "c.wacz", "crawlId": ["x"]}), "c.wacz";
        json!({"path": "d\u{1}.wacz"}), "entry 1";
        json!({"path": "e.wacz", "crawlId": "crawl:counts"}), "e.wacz";
        json!({"path": entries[0].path, "crawlId": "x:wacz", "name": "f"}), "f";
    ];
    for (entry, name) in bad {
        let resources = [&[entry.clone()][..], &good].concat();
        let mut c = stage.server.wire();
        for key in ok!(c, "KEYS", format!("{COPY}*")).items() {
            ok!(c, "DEL", key.bytes());
        }
        let import = stage.import_list("entries.json", &resources);
        let failed = import.fails_some();
        assert_eq!(failed.len(), 1, "{entry}: {failed:?}");
        let (named, reason) = failed.iter().next().expect("one");
        assert!(named.contains(name), "{entry}: {named}: {reason}");
        stage.assert_once();
    }
}

#[test]
fn unusable_lines_are_counted_and_shown() {
    let stage = Stage::with("lines", Options::new(), 1, plain());
    let digest = sha256_of(1);
    let bad = [
        "org,example)/ 20240101000000 {\"url\": \"http://example.org/\", \"length\": \"100\"}".to_owned(),
        "org,example)/ 20240101000000 {\"url\": \"http://example.org/\", \"digest\": \"sha1:X\", \"length\": \"1\"}".to_owned(),
        format!("org,example)/ 2024 {{\"url\": \"http://example.org/\", \"digest\": \"{digest}\", \"length\": \"1\"}}"),
        format!("org,example)/ 20240101000000 {{\"url\": \"http://example.org/\", \"digest\": \"{digest}\", \"length\": \"-1\"}}"),
        format!("org,example)/ 20240101000000 {{\"url\": \"http://example.org/\", \"digest\": \"{digest}\", \"length\": 1"),
        "garbage".to_owned(),
    ];
    let mut lines: Vec<String> = (0..200).map(|n| good_line(n, 1000 + n)).collect();
    for (n, line) in bad.iter().enumerate() {
        lines.insert(n * 30 + 5, line.clone());
    }
    // A repeated line counts as one capture, and an empty line does not count.
    lines.push(lines[lines.len() - 1].clone());
    lines.push(String::new());
    let mut folder = Folder::new();
    let text = lines.join("\n").into_bytes();
    folder.put("lines.wacz", "lines", &[("indexes/index.cdxj", text)]);
    let import = stage.import_of(folder.manifest()).prefix("{lines}:");
    let ended = import.run();
    assert!(ended.status.success(), "{}", ended.errors);
    let report = report(&ended);
    assert_eq!(report["badLines"], bad.len());
    assert_eq!(report["responses"], 200);
    let examples = report["badLineExamples"].as_array().expect("an array");
    assert_eq!(examples.len(), bad.len());
    for example in examples {
        let example = example.as_str().expect("a text");
        assert_starts(example, "lines.wacz: line ");
    }
    let mut c = stage.server.wire();
    assert_over(&mut c, "{lines}:");
    let outcome = Outcome::of(&mut c, "{lines}:");
    assert_eq!((outcome.hashes(), outcome.count("totalUrls")), (200, 200));
}

#[test]
fn all_index_layouts_give_the_same_result() {
    let stage = Stage::with("layouts", Options::new(), 1, but!(plain(), waczs: 1));
    let records = format!("h:{}", stage.crawls[0].id);
    let of = |prefix: &str| plain_hash(&mut stage.server.wire(), prefix, &records);
    let live = of(LIVE);
    assert!(!live.is_empty());
    for (n, layout) in Layout::ALL.into_iter().enumerate() {
        let mut folder = Folder::new();
        folder.write_as(&stage.crawls[0], layout);
        let prefix = format!("{{layout-{n}}}:");
        let import = stage.import_of(folder.manifest());
        import.prefix(&prefix).succeeds();
        assert_eq!(of(&prefix), live, "{layout:?}");
    }
}
