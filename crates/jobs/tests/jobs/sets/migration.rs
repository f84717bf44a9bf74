//! Tests archives that were compressed after their jobs, and truncated logs.

use crawlspace_jobs::{Index, IndexKind};
use redis_tests::assert_contains;
use redis_tests::metadata::{Form, cdx_url, crawl_log_url, write_metadata};

use crate::stage::{Stage, count, get, lines, members, write_records};

const DUPLICATES: &str = "\
    2016-12-05T10:11:12.147Z   200       2026 http://a.example/a.png E http://a.example/ image/png #048 \
    20161205101111667+248 sha1:C3PH3IWTSURQ7XILQRHDIDDGAD2ORRPH - \
    duplicate:\"2-1-20161205100306320-00000-4320~h~8173.arc,138604,20161205100310645\",content-size:2494,3t\n\
    2016-12-05T10:11:13.147Z   200       2026 http://a.example/b.png E http://a.example/ image/png #048 \
    20161205101112667+248 sha1:YEX3QI4MLIW3EPJCYCA2OZWT4ZEQGA36 - duplicate:\"2-1-other.arc,9132\",content-size:2494\n\
    2016-12-05T10:11:14.147Z   200       2026 http://a.example/c.png E http://a.example/ image/png #048 \
    20161205101113667+248 sha1:7WSXRDYAC7LQOMXF5SLVAC27YITWZHNH - content-size:2494\n";
/// Lines of NetarchiveSuite's compression tools, which may include the time of the record.
const MIGRATION: &[u8] = b"\
    2-1-20161205100306320-00000-4320~h~8173.arc 9132 4434\n\
    2-1-20161205100306320-00000-4320~h~8173.arc 138604 133943 1480932191000\n\
    not one of them\n";
const MIGRATION_URL: &str =
    "metadata://crawl/index/deduplicationmigration?majorversion=0&minorversion=0";

/// Returns the file and offset of each URL.
fn places(index: &Index) -> Vec<(String, String)> {
    let rows = lines(&index.entry, "url");
    let place = |line: &String| {
        let members = members(line);
        let of = |name: &str| members.get(name).cloned().unwrap_or_default();
        (of("filename"), of("offset"))
    };
    rows.iter().map(place).collect()
}

#[test]
fn duplicates_have_the_locations_of_the_compressed_archive() {
    let of_old = "http://a.example/c.png 10.0.0.1 20161205101113 image/png 2494 7-1.arc 5000\n";
    let of_new = "http://a.example/c.png 10.0.0.1 20161205101113 image/png 2494 7-1.arc.gz 3000\n";
    let new = [
        ("2-1-20161205100306320-00000-4320~h~8173.arc.gz", "133943"),
        // The migration record does not mention this file.
        ("2-1-other.arc", "9132"),
        ("7-1.arc.gz", "3000"),
    ];
    let new = new.map(|(file, offset)| (file.to_owned(), offset.to_owned()));
    // The name also has the number of the harvest, so the name alone does not prove that the file belongs to
    // the job; other records do.
    for name in ["7-metadata-2.warc.gz", "7-1-metadata-2.warc.gz"] {
        let stage = Stage::new();
        let migrated = stage.archive().join(name);
        let (log_url, cdx_url) = (crawl_log_url(7, 1), cdx_url(7, 1));
        let setup = "metadata://netarkivet.dk/crawl/setup/seeds.txt?jobid=7";
        let records: [(&str, &str, &[u8]); 4] = [
            (setup, "text/plain", b"x"),
            (MIGRATION_URL, "text/plain", MIGRATION),
            (&log_url, "text/plain", DUPLICATES.as_bytes()),
            (&cdx_url, "application/x-cdx", of_new.as_bytes()),
        ];
        write_records(&migrated, &records);
        let caches = stage.caches();
        let index = get(&caches, IndexKind::Full, "7");
        assert_eq!(places(&index), new, "{name}");
        let notes = index.entry.manifest().notes.join("\n");
        assert_contains(&notes, "line 3: its offset is not a number");
        assert_eq!(lines(&index.entry, "url").len(), 3);

        // If the earlier metadata file is also in the folder, each line occurs once, and a note
        // reports this.
        let first = stage.archive().join("7-metadata-1.arc");
        write_metadata(
            &first,
            7,
            1,
            DUPLICATES.as_bytes(),
            Some(of_old.as_bytes()),
            Form::Arc,
        );
        let caches = stage.caches_in(&stage.path().join("both"));
        let index = get(&caches, IndexKind::Full, "7");
        assert_eq!(places(&index), new, "{name}");
        let notes = index.entry.manifest().notes.join("\n");
        assert_contains(
            &notes,
            "job 7: 3 lines of the crawl.log occur in several metadata files",
        );
    }
}

#[test]
fn digest_truncated_with_the_log_is_ignored() {
    let stage = Stage::new();
    let line = DUPLICATES.lines().last().expect("a line");
    let digest = "7WSXRDYAC7LQOMXF5SLVAC27YITWZHNH";
    let digest_begins = line.find(digest).expect("a digest");
    let first = DUPLICATES.lines().next().expect("a line");
    for cut in [
        digest_begins + 1,
        digest_begins + 31,
        digest_begins + 32,
        line.len(),
    ] {
        let log = format!("{first}\n{}", &line[..cut]);
        stage.add_logs(7, log.as_bytes(), None, Form::Arc);
        let caches = stage.caches_in(&stage.path().join(cut.to_string()));
        let index = get(&caches, IndexKind::Full, "7");
        let is_whole = cut >= digest_begins + digest.len();
        let found = lines(&index.entry, "digest").join("\n");
        assert_eq!(
            found.contains("\"url\":\"http://a.example/c.png\""),
            is_whole,
            "{cut}"
        );
        assert_eq!(count(&index, "badLines"), u64::from(!is_whole), "{cut}");
    }
}
