//! Loading many tags: each mode is applied completely or not at all, and a staged copy is invisible
//! until a swap activates it.

use crate::stage;
use crawlspace_compact::limits::tags::{ID_BYTES, TAG_BYTES};
use redis_tests::{Server, TagSpace, array, bulk, int, ok};

const NONE: [&str; 0] = [];

fn filled(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    ok!(s.wire, "FLUSHALL");
    s.ok("ADD FILE a x y");
    s.ok("ADD FILE b z");
    s
}

#[test]
fn merge_adds_and_never_removes() {
    let (_server, mut s) = stage(filled);
    assert_eq!(s.ok("LOAD FILE MERGE a 'y new' c 'p q' b ''"), int(3));
    assert_eq!(s.tags("FILE a"), ["new", "x", "y"]);
    assert_eq!(s.tags("FILE b"), ["z"]);
    assert_eq!(s.tags("FILE c"), ["p", "q"]);
    assert_eq!(s.ok("LOAD FILE MERGE"), int(0));
}

#[test]
fn set_gives_an_id_exactly_these_tags() {
    let (_server, mut s) = stage(filled);
    assert_eq!(s.ok("LOAD FILE SET a 'y new' c p d ''"), int(3));
    assert_eq!(s.tags("FILE a"), ["new", "y"]);
    assert_eq!(s.tags("FILE b"), ["z"], "others are untouched");
    assert_eq!(s.tags("FILE c"), ["p"]);
    s.ok("LOAD FILE SET a ''");
    assert_eq!(s.tags("FILE a"), NONE);
    assert_eq!(s.figure("file-ids"), 2);
}

#[test]
fn replace_replaces_a_whole_kind() {
    let (_server, mut s) = stage(filled);
    s.ok("ADD TAG x other-kind");
    s.ok("ADD RECORD r other-kind");
    assert_eq!(s.ok("LOAD FILE REPLACE b 'p q' c ''"), int(2));
    assert_eq!(s.tags("FILE a"), NONE);
    assert_eq!(s.tags("FILE b"), ["p", "q"]);
    assert_eq!(s.tags("FILE c"), NONE);
    assert_eq!(s.tags("TAG x"), ["other-kind"]);
    assert_eq!(s.tags("RECORD r"), ["other-kind"]);
    assert_eq!(s.ok("LOAD FILE REPLACE"), int(0));
    assert_eq!(s.figure("file-ids"), 0);
    assert_eq!(s.figure("record-ids"), 1);
}

#[test]
fn tags_are_separated_by_spaces() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok_with("LOAD FILE MERGE", &["a", "  x  y ", "b", " ", "c", "\tt\n"]);
    assert_eq!(s.tags("FILE a"), ["x", "y"]);
    assert_eq!(s.tags("FILE b"), NONE);
    assert_eq!(s.tags("FILE c"), ["\tt\n"], "only spaces separate");
}

#[test]
fn an_error_changes_nothing_of_the_whole_call() {
    let (_server, mut s) = stage(filled);
    s.ok("LOAD FILE STAGE staged t");
    s.ok("ADD TAG k l");
    let before = s.digest();
    let (long_tag, long_id) = ("t".repeat(TAG_BYTES + 1), "i".repeat(ID_BYTES + 1));
    for mode in ["MERGE", "SET", "REPLACE", "STAGE"] {
        for pairs in [
            &["c", "t", "odd"][..],
            &["c", "t", "", "t"],
            &["c", "t", "d", &long_tag],
            &["c", "t", &long_id, "t"],
        ] {
            s.err_with(&format!("LOAD FILE {mode}"), pairs);
            assert_eq!(s.digest(), before, "{mode} {}", pairs.len());
        }
        s.refused_with(
            &format!("LOAD TAG {mode}"),
            &["m", "n", "l", "k l"],
            "CYCLE ",
        );
        assert_eq!(s.digest(), before, "{mode}");
    }
    for line in [
        "LOAD FILE NOMODE a b",
        "LOAD NOKIND MERGE a b",
        "SWAP NOKIND",
    ] {
        s.err(line);
        assert_eq!(s.digest(), before, "{line}");
    }
}

#[test]
fn a_staged_copy_is_invisible_until_it_is_swapped() {
    let (_server, mut s) = stage(filled);
    s.ok("POINTSET p 'x | new'");
    let seen = |s: &mut TagSpace| {
        let lines = ["a", "b", "c"];
        [
            s.ok("GET FILE a"),
            s.ok("GET FILE c ALL"),
            s.ok("SCAN FILE 0"),
            s.ok("LIST *"),
            s.ok_with("FILTER POINT p FORMAT FILE LINES", &lines),
            s.ok_with("FILTER WHERE * FORMAT FILE RETURN TAGS LINES", &lines),
            s.ok_with("EXPLAIN WHERE new FORMAT FILE LINES", &["c"]),
        ]
    };
    let before = seen(&mut s);
    assert_eq!(s.ok("LOAD FILE STAGE c new"), int(1));
    assert_eq!(s.ok("LOAD FILE STAGE a 'new x' d ''"), int(2));
    assert_eq!(s.ok("LOAD FILE STAGE c more"), int(1));
    assert_eq!(seen(&mut s), before);
    assert_eq!(s.figure("staged-file-ids"), 2);
    assert_eq!(s.figure("file-ids"), 2);
    assert_eq!(s.ok("SWAP FILE"), int(2));
    assert_eq!(s.tags("FILE a"), ["new", "x"]);
    assert_eq!(s.tags("FILE b"), NONE);
    assert_eq!(s.tags("FILE c"), ["more", "new"]);
    assert_eq!(s.figure("staged-file-ids"), 0);
    assert_eq!(s.kept("POINT p FORMAT FILE", &["a", "b", "c"]), ["a", "c"]);
}

#[test]
fn a_staged_copy_of_nothing_empties_the_kind() {
    let (_server, mut s) = stage(filled);
    s.ok("ADD TAG t u");
    assert_eq!(s.ok("LOAD FILE STAGE"), int(0));
    assert_eq!(s.tags("FILE b"), ["z"]);
    assert_eq!(s.ok("SWAP FILE"), int(0));
    assert_eq!(s.tags("FILE b"), NONE);
    assert_eq!(s.tags("TAG t"), ["u"]);
}

#[test]
fn swap_without_a_staged_copy_changes_nothing() {
    let (server, mut s) = stage(TagSpace::of);
    let lines = ["SWAP FILE", "SWAP FILE EXPECT 0", "SWAP FILE EXPECT 3"];
    for line in lines {
        s.refused(line, "NOSTAGE ");
    }
    assert_eq!(s.ok("SWAP FILE DISCARD"), int(0));
    assert!(!s.exists());
    let mut s = filled(&server);
    s.ok("LOAD TAG STAGE k l");
    let before = s.digest();
    for line in lines {
        s.refused(line, "NOSTAGE ");
        assert_eq!(s.digest(), before, "{line}");
    }
    assert_eq!(s.ok("SWAP FILE DISCARD"), int(0));
    assert_eq!(s.digest(), before);
    s.ok("SWAP TAG");
    // The staged copy has been used already.
    s.refused("SWAP TAG", "NOSTAGE ");
}

#[test]
fn swap_can_require_the_number_of_staged_ids() {
    let (_server, mut s) = stage(filled);
    s.ok("LOAD FILE STAGE p t q 't u' empty ''");
    let before = s.digest();
    for n in ["0", "1", "3", "9223372036854775807"] {
        let error = s.refused(format!("SWAP FILE EXPECT {n}"), "NOSTAGE ");
        assert!(error.contains('2') && error.contains(n), "{error}");
        assert_eq!(s.digest(), before);
    }
    for n in ["", "x", "-1", "2.0"] {
        s.err_with("SWAP FILE EXPECT", &[n]);
        assert_eq!(s.digest(), before);
    }
    assert_eq!(s.ok("SWAP FILE EXPECT 2"), int(2));
    assert_eq!(s.tags("FILE q"), ["t", "u"]);
}

#[test]
fn discarded_copies_change_nothing() {
    let (_server, mut s) = stage(filled);
    let before = s.digest();
    s.ok("LOAD FILE STAGE p t q t");
    assert_ne!(s.digest(), before, "a staged copy is part of the value");
    assert_eq!(s.ok("SWAP FILE DISCARD"), int(2));
    assert_eq!(s.digest(), before);
    s.ok("LOAD FILE STAGE r t");
    assert_eq!(s.ok("SWAP FILE"), int(1), "a new one begins empty");
}

#[test]
fn changes_in_place_while_a_copy_is_staged_do_not_mix_with_it() {
    let (_server, mut s) = stage(filled);
    s.ok("LOAD FILE STAGE a staged");
    s.ok("ADD FILE a direct");
    s.ok("LOAD FILE REPLACE n direct");
    assert_eq!(s.figure("staged-file-ids"), 1);
    s.ok("SWAP FILE");
    assert_eq!(s.tags("FILE a"), ["staged"]);
    assert_eq!(s.tags("FILE n"), NONE);
    // Each kind has its own staged copy.
    s.ok("LOAD RECORD STAGE r t");
    s.ok("LOAD TAG STAGE t u");
    assert_eq!(s.ok("SWAP RECORD"), int(1));
    assert_eq!(s.tags("TAG t"), NONE);
    assert_eq!(s.ok("SWAP TAG"), int(1));
    assert_eq!(s.tags("RECORD r"), ["t"]);
}

#[test]
fn a_staged_hierarchy_may_reverse_the_current_one() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD TAG a b");
    s.ok("LOAD TAG STAGE b a");
    s.ok("LOAD TAG STAGE c b");
    s.refused("LOAD TAG STAGE a c", "CYCLE ");
    assert_eq!(s.ok("SWAP TAG EXPECT 2"), int(2));
    assert_eq!(s.ok("GET TAG c ALL"), array([bulk("a"), bulk("b")]));
    assert_eq!(s.tags("TAG a ALL"), NONE);
}

#[test]
fn a_hundred_thousand_ids_are_staged_in_many_calls_and_swapped_in_one() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD FILE old t");
    for call in 0..20 {
        let pairs: Vec<String> = (0..5000)
            .flat_map(|n| {
                let n = call * 5000 + n;
                [format!("file-{n}.warc.gz"), format!("coll:{} own", n % 997)]
            })
            .collect();
        assert_eq!(s.ok_with("LOAD FILE STAGE", &pairs), int(5000));
        assert_eq!(s.tags("FILE old"), ["t"]);
    }
    assert_eq!(s.ok("SWAP FILE EXPECT 100000"), int(100_000));
    assert_eq!(s.figure("file-edges"), 200_000);
    assert_eq!(s.tags("FILE file-99999.warc.gz"), ["coll:299", "own"]);
    assert_eq!(s.tags("FILE old"), NONE);
    assert_eq!(s.ok("LOAD FILE REPLACE"), int(0));
    assert!(!s.exists());
}
