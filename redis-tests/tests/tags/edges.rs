//! Tags of records, files and tags. Tests that added tags exist, that removed tags do not, and that
//! no tag can carry itself, not even indirectly.

use crate::stage;
use crawlspace_compact::limits::tags::{ID_BYTES, TAG_BYTES};
use redis_tests::{TagSpace, array, bulk, int, ok, rows};

const NONE: [&str; 0] = [];

#[test]
fn adding_counts_edges_that_were_not_there() {
    let (_server, mut s) = stage(TagSpace::of);
    assert_eq!(s.ok("ADD FILE a.warc coll:1 public"), int(2));
    assert_eq!(s.ok("ADD FILE a.warc coll:1 public"), int(0));
    assert_eq!(s.ok("ADD FILE a.warc public new new"), int(1));
    assert_eq!(s.tags("FILE a.warc"), ["coll:1", "new", "public"]);
}

#[test]
fn removing_counts_edges_that_were_there() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE a.warc c b a");
    assert_eq!(s.ok("REM FILE a.warc a nothing"), int(1));
    assert_eq!(s.ok("REM FILE a.warc a b b"), int(1));
    assert_eq!(s.ok("REM FILE other c"), int(0));
    assert_eq!(s.ok("REM RECORD a.warc c"), int(0), "kinds are apart");
    assert_eq!(s.tags("FILE a.warc"), ["c"]);
}

/// The offsets `007` and `7` are the same position in a file.
#[test]
fn offsets_of_records_are_numbers() {
    let (_server, mut s) = stage(TagSpace::of);
    let record = |offset: &str| format!("org,a)/ 20160101000000 w/a.warc {offset}");
    let lines = ["7", "007", "0", "000", "70", "-"].map(record);
    for (add, kept) in rows![
        "7", &lines[..2];
        "007", &lines[..2];
        "00", &lines[2..4];
    ] {
        assert_eq!(s.ok(format!("ADD RECORD '{}' hidden", record(add))), int(1));
        assert_eq!(s.kept("WHERE hidden FORMAT RECORD", &lines), kept);
        for line in kept {
            assert_eq!(s.tags(&format!("RECORD '{line}'")), ["hidden"]);
            assert_eq!(s.ok(format!("ADD RECORD '{line}' hidden")), int(0));
        }
        assert_eq!(s.ok(format!("REM RECORD '{}' hidden", kept[1])), int(1));
        assert_eq!(s.tags(&format!("RECORD '{}'", kept[0])), NONE);
    }
    s.ok(format!("LOAD RECORD SET '{}' a '{}' b", lines[0], lines[1]));
    assert_eq!(s.tags(&format!("RECORD '{}'", lines[0])), ["a", "b"]);
    // This is the same record, without the folder of its file.
    s.ok("ADD RECORD 'org,a)/ 20160101000000 a.warc 070' c");
    assert_eq!(s.kept("WHERE c FORMAT RECORD", &lines), &lines[4..5]);
}

#[test]
fn the_three_kinds_are_independent() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE x of-file");
    s.ok("ADD RECORD x of-record");
    s.ok("ADD TAG x of-tag");
    assert_eq!(s.tags("FILE x"), ["of-file"]);
    assert_eq!(s.tags("RECORD x"), ["of-record"]);
    assert_eq!(s.tags("TAG x"), ["of-tag"]);
    assert_eq!(s.ok("get file x"), array([bulk("of-file")]), "any case");
}

#[test]
fn tags_come_sorted_by_bytes() {
    let (_server, mut s) = stage(TagSpace::of);
    let tags: [&[u8]; 6] = [b"b", b"B", b"\xff", b"a", b"\x00", b"aa"];
    assert_eq!(s.ok_with("ADD FILE f", &tags), int(6));
    let sorted: [&[u8]; 6] = [b"\x00", b"B", b"a", b"aa", b"b", b"\xff"];
    assert_eq!(s.ok("GET FILE f"), array(sorted.map(bulk)));
}

#[test]
fn an_empty_space_does_not_exist() {
    let (_server, mut s) = stage(TagSpace::of);
    let there_and_gone = rows![
        "ADD FILE f t", "REM FILE f t"; "ADD RECORD f t", "REM RECORD f t"; "ADD TAG f t", "REM TAG f t";
        "RULESET r filename x t", "RULEDEL r"; "POINTSET p t", "POINTDEL p";
        "LOAD FILE MERGE f t", "LOAD FILE REPLACE"; "LOAD FILE MERGE f t", "LOAD FILE SET f ''";
        "LOAD FILE STAGE f t", "SWAP FILE DISCARD"; "LOAD FILE STAGE", "SWAP FILE DISCARD";
        "LOAD FILE STAGE", "SWAP FILE";
    ];
    for (there, gone) in there_and_gone {
        s.ok(there);
        assert!(s.exists(), "{there}");
        s.ok(gone);
        assert!(!s.exists(), "{there}, then {gone}");
    }
    for nothing in ["REM FILE f t", "RULEDEL r", "POINTDEL p", "LOAD FILE MERGE"] {
        s.call(nothing);
        assert!(!s.exists(), "{nothing} creates nothing");
    }
    s.err("ADD FILE f 'a b'");
    assert!(!s.exists(), "an error creates nothing");
}

#[test]
fn missing_ids_have_no_tags() {
    let (_server, mut s) = stage(TagSpace::of);
    for what in ["FILE f", "RECORD r", "TAG t", "FILE f ALL", "TAG t ALL"] {
        assert_eq!(s.tags(what), NONE, "no key: {what}");
    }
    assert!(!s.exists());
    s.ok("ADD FILE other x");
    for what in ["FILE f", "RECORD r", "TAG t", "FILE f ALL", "TAG t ALL"] {
        assert_eq!(s.tags(what), NONE, "{what}");
    }
}

#[test]
fn ids_and_tags_are_bytes() {
    let (_server, mut s) = stage(TagSpace::of);
    let id: Vec<u8> = (0..=255).collect();
    let tag: Vec<u8> = (0..=255).filter(|&b| b != b' ').collect();
    let longest = (vec![b'i'; ID_BYTES], vec![b't'; TAG_BYTES]);
    for (kind, (id, tag)) in [
        ("RECORD", (&id, &tag)),
        ("FILE", (&id, &tag)),
        ("RECORD", (&longest.0, &longest.1)),
        ("FILE", (&longest.0, &longest.1)),
    ] {
        assert_eq!(s.ok_with(&format!("ADD {kind}"), &[id, tag]), int(1));
        let reply = s.ok_with(&format!("GET {kind}"), &[id]);
        assert_eq!(reply, array([bulk(tag)]));
    }
    assert_eq!(s.ok_with("ADD TAG", &[&tag[..], b"\r\n"]), int(1));
    assert_eq!(s.ok_with("GET TAG", &[&tag]), array([bulk("\r\n")]));
}

#[test]
fn get_all_returns_the_closure() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD TAG coll:1068 org:77 private");
    s.ok("ADD TAG org:77 country:nz");
    s.ok("ADD TAG country:nz pacific");
    s.ok("ADD FILE a.warc coll:1068 own");
    assert_eq!(s.tags("TAG coll:1068"), ["org:77", "private"]);
    let carried = ["country:nz", "org:77", "pacific", "private"];
    assert_eq!(
        s.tags("TAG coll:1068 ALL"),
        carried,
        "a tag does not include itself"
    );
    let all = rows![
        "coll:1068"; "country:nz"; "org:77"; "own"; "pacific"; "private";
    ];
    assert_eq!(s.tags("FILE a.warc"), ["coll:1068", "own"]);
    assert_eq!(s.tags("FILE a.warc ALL"), all);
    s.ok("ADD RECORD 'com,example)/ 20200101000000 a.warc 77' record-tag");
    let of_record = s.tags("RECORD 'com,example)/ 20200101000000 a.warc 77' ALL");
    let mut expected = all.to_vec();
    expected.push("record-tag");
    expected.sort_unstable();
    assert_eq!(of_record, expected);
    // A tag that two tags carry is listed once, and remains while one of these edges exists.
    s.ok("ADD TAG own org:77");
    assert_eq!(s.tags("FILE a.warc ALL"), all);
    s.ok("REM TAG coll:1068 org:77");
    assert_eq!(s.tags("FILE a.warc ALL"), all);
    s.ok("REM TAG own org:77");
    assert_eq!(s.tags("FILE a.warc ALL"), ["coll:1068", "own", "private"]);
}

#[test]
fn tags_of_a_base_name_hold_in_every_folder() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE a.warc base");
    s.ok("ADD FILE x/a.warc in-x");
    s.ok("ADD FILE y/ folder");
    assert_eq!(s.tags("FILE x/a.warc"), ["in-x"], "its own");
    assert_eq!(s.tags("FILE x/a.warc ALL"), ["base", "in-x"]);
    assert_eq!(s.tags("FILE a.warc ALL"), ["base"]);
    assert_eq!(s.tags("FILE http://h/y/x/a.warc ALL"), ["base"]);
    assert_eq!(s.tags("FILE y/ ALL"), ["folder"]);
    assert_eq!(s.tags("FILE y/b.warc ALL"), NONE);
    assert_eq!(s.tags("RECORD 'k 1 x/a.warc 0' ALL"), ["base", "in-x"]);
}

#[test]
fn cycles_are_refused_and_nothing_is_written() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD TAG a b");
    s.ok("ADD TAG b c");
    s.ok("ADD TAG c d");
    let before = s.digest();
    for line in rows![
        "ADD TAG a a"; "ADD TAG new new"; "ADD TAG b a"; "ADD TAG d a"; "ADD TAG d new a";
        "ADD TAG d new other b"; "LOAD TAG MERGE d a"; "LOAD TAG MERGE new e e new"; "LOAD TAG MERGE x y d c";
        "LOAD TAG SET d 'q a'"; "LOAD TAG REPLACE x y y z z x"; "LOAD TAG REPLACE x x";
        "LOAD TAG STAGE x y y x"; "LOAD TAG STAGE x x";
    ] {
        s.refused(line, "CYCLE ");
        assert_eq!(s.digest(), before, "{line}");
        assert_eq!(s.figure("staged-tag-ids"), 0, "{line}");
    }
    assert!(
        s.err("ADD TAG d a").contains("'a'"),
        "the error names the tag"
    );
    // The edge that would close a cycle may be removed first, even in the same call.
    s.ok("LOAD TAG SET a ''");
    s.ok("ADD TAG d a");
    assert_eq!(s.tags("TAG b ALL"), ["a", "c", "d"]);
    s.ok("LOAD TAG REPLACE d c c b b a");
    assert_eq!(s.tags("TAG d ALL"), ["a", "b", "c"]);
    s.ok("LOAD TAG SET d '' a b b ''");
    assert_eq!(s.tags("TAG a ALL"), ["b"]);
}

#[test]
fn a_long_chain_and_a_wide_fan_of_tags_are_closed() {
    let (server, mut s) = stage(TagSpace::of);
    let chain: Vec<String> = (0..20_000)
        .flat_map(|n| [format!("t{n}"), format!("t{}", n + 1)])
        .collect();
    assert_eq!(s.ok_with("LOAD TAG MERGE", &chain), int(20_000));
    assert_eq!(s.ok("GET TAG t0 ALL").items().len(), 20_000);
    s.refused("ADD TAG t20000 t0", "CYCLE ");
    s.ok("ADD FILE f t0");
    assert!(s.passes("t20000", "f"));
    s.ok("REM TAG t10000 t10001");
    assert!(!s.passes("t20000", "f"));
    assert!(s.passes("t10000", "f"));
    let fan: Vec<String> = (0..10_000).map(|n| format!("fan{n}")).collect();
    assert_eq!(s.ok_with("ADD TAG wide", &fan), int(10_000));
    assert_eq!(s.ok("GET TAG wide ALL").items().len(), 10_000);
    for line in ["ADD TAG wide one-more", "LOAD TAG MERGE wide one-more"] {
        s.refused(line, "TOOBIG ");
    }
    s.ok("ADD TAG wide fan7");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn a_toggle_applies_to_the_next_call() {
    let (server, mut s) = stage(TagSpace::of);
    let mut reader = TagSpace::of(&server);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("POINTSET all 'coll:* & !private'");
    let file = "ARCHIVEIT-1068-20200101.warc.gz";
    let shown = |s: &mut TagSpace| {
        s.kept("POINT all FORMAT FILE", &[file]).len() == 1
            && s.passes("coll:1068 & !private", file)
    };
    for n in 0..1000 {
        assert_eq!(s.ok("ADD TAG coll:1068 private"), int(1));
        assert!(!shown(&mut reader), "toggle {n}: private, and shown");
        assert_eq!(s.ok("REM TAG coll:1068 private"), int(1));
        assert!(shown(&mut reader), "toggle {n}: public, but not shown");
    }
}

#[test]
fn every_kind_of_edge_can_be_the_toggle() {
    let (_server, mut s) = stage(TagSpace::of);
    let line = "com,example)/ 20200101000000 dir/a.warc 5";
    for (on, off) in rows![
        "ADD FILE dir/a.warc t", "REM FILE dir/a.warc t";
        "ADD FILE a.warc t", "REM FILE a.warc t";
        "ADD RECORD 'com,example)/ 20200101000000 dir/a.warc 5' t",
            "REM RECORD 'com,example)/ 20200101000000 dir/a.warc 5' t";
        "RULESET r filename a\\.warc t", "RULEDEL r";
        "RULESET r filename a\\.warc t", "RULESET r filename b\\.warc t";
        "LOAD FILE REPLACE a.warc t", "LOAD FILE REPLACE";
        "LOAD FILE SET a.warc t", "LOAD FILE SET a.warc ''";
        "ADD TAG always t", "REM TAG always t";
    ] {
        s.ok("ADD FILE a.warc always");
        for _ in 0..20 {
            s.ok(on);
            assert_eq!(s.kept("WHERE t FORMAT RECORD", &[line]), [line], "{on}");
            s.ok(off);
            assert_eq!(s.kept("WHERE t FORMAT RECORD", &[line]), NONE, "{off}");
            s.ok("ADD FILE a.warc always");
        }
        ok!(s.wire, "DEL", "tags");
    }
}
