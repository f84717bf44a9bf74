//! Named access points: a literal name takes precedence over patterns, which are tried in the order
//! in which they were set. Text from a name that a client sends is data, and never part of the
//! expression.

use crate::stage;
use redis_tests::{Server, TagSpace, array, bulk, int, rows, simple};

const NONE: [&str; 0] = [];

/// Creates a tag space with files `1`, `2`, … tagged with these organizations, and `0` without
/// tags.
fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    for n in 1..5 {
        s.ok(format!("ADD FILE {n} org:{n} coll:{n}"));
    }
    s.ok("ADD TAG org:4 private");
    s
}

const FILES: [&str; 5] = ["0", "1", "2", "3", "4"];

fn by(s: &mut TagSpace, point: &str) -> Vec<String> {
    let reply = s.ok_with(
        "FILTER POINT",
        &[&[point, "FORMAT", "FILE", "LINES"][..], &FILES].concat(),
    );
    reply.texts()
}

fn no(s: &mut TagSpace, point: &[u8]) -> String {
    let words = [point, b"FORMAT", b"FILE", b"LINES", b"1"];
    s.err_with("FILTER POINT", &words)
}

/// Returns the point for a name, and the expression to which it expands.
fn meant(s: &mut TagSpace, name: &[u8]) -> Vec<String> {
    let reply = s.ok_with("POINTS", &[name]);
    assert_eq!(reply.items().len(), 1, "{reply:?}");
    reply.items()[0].texts()
}

#[test]
fn points_of_the_specification() {
    let (_server, mut s) = stage(space);
    assert_eq!(s.ok("POINTSET all 'coll:* & !private'"), simple("OK"));
    s.ok("POINTSET org-(\\d+) org:$1");
    assert_eq!(by(&mut s, "all"), ["1", "2", "3"]);
    assert_eq!(by(&mut s, "org-2"), ["2"]);
    assert_eq!(by(&mut s, "org-4"), ["4"]);
    assert_eq!(by(&mut s, "org-99"), NONE);
    for name in [
        "org-", "org-x", "xorg-2", "org-2x", "ALL", "al", "", " all", "all\n",
    ] {
        let error = no(&mut s, name.as_bytes());
        assert!(error.starts_with("NOPOINT "), "{name:?}: {error}");
    }
}

#[test]
fn literal_name_comes_before_patterns_and_these_in_the_order_set() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET o.*|x org:1");
    s.ok("POINTSET org-. org:2");
    s.ok("POINTSET org-(\\d) org:$1");
    assert_eq!(
        by(&mut s, "org-3"),
        ["1"],
        "the pattern that was set first matches"
    );
    s.ok("POINTSET org-3 org:4");
    assert_eq!(by(&mut s, "org-3"), ["4"], "the literal name");
    assert_eq!(
        by(&mut s, "x"),
        ["1"],
        "an alternative must match the whole name"
    );
    assert!(no(&mut s, b"xx").starts_with("NOPOINT "));
    // A dot does not make a name a pattern, so this is a literal name.
    s.ok("POINTDEL o.*|x");
    assert_eq!(by(&mut s, "org-4"), ["4"]);
    s.ok("POINTSET org-. org:1");
    assert_eq!(by(&mut s, "org-."), ["1"]);
    assert_eq!(by(&mut s, "org-2"), ["2"]);
    // The pattern is replaced and keeps its position.
    s.ok("POINTSET o(.*) org:1");
    s.ok("POINTSET org-(\\d) org:3");
    assert_eq!(by(&mut s, "org-1"), ["3"]);
    assert_eq!(s.ok("POINTDEL org-(\\d)"), int(1));
    assert_eq!(s.ok("POINTDEL org-(\\d)"), int(0));
    assert_eq!(by(&mut s, "org-1"), ["1"]);
}

#[test]
fn a_pattern_is_not_matched_by_its_own_text() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET org-(\\d+) org:$1");
    s.ok("POINTSET 'a*' org:2");
    s.ok("POINTSET [ab]c org:3");
    assert!(no(&mut s, b"org-(\\d+)").starts_with("NOPOINT "));
    assert!(no(&mut s, b"a*").starts_with("NOPOINT "));
    assert_eq!(by(&mut s, "aaa"), ["2"]);
    assert_eq!(by(&mut s, "ac"), ["3"]);
    // `POINTS` finds the pattern by its own text.
    assert_eq!(meant(&mut s, b"org-(\\d+)"), ["org-(\\d+)", "org:$1"]);
}

#[test]
fn text_of_a_name_is_literal() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET org-(.*) org:$1");
    s.ok("POINTSET re-(.*) filename~^$1$$");
    s.ok("POINTSET starts-(.*) $1*");
    s.ok("POINTSET has-(.*) filename*=$1");
    s.ok("POINTSET is-(.*) filename=$1");
    s.ok("POINTSET one-(.*)-(.*) 'org:{$1|$2}'");
    s.ok("POINTSET quoted-(.*) '\"org:$1\"'");
    let hostile = [
        "1|*", "1 | *", "*", "1*", "1&!x", "1)|(*", "!1", "\"|*|\"", "'|*|'", "1}|*|{", "@all",
        "1\\", "$1", "${1}", "$$", ".*", "|", "^", "$", "(", "[", "~.", "=", "\0", "\r", "x=y",
        "1\"|*", "{1|2}", "", "org:1",
    ];
    for text in hostile {
        for kind in ["org-", "re-", "has-", "is-", "quoted-"] {
            let name = format!("{kind}{text}");
            let expected = if text.is_empty() && kind == "has-" {
                FILES.to_vec()
            } else {
                vec![]
            };
            assert_eq!(by(&mut s, &name), expected, "{name:?}");
        }
        let one = format!("one-{text}-3");
        assert_eq!(by(&mut s, &one), ["3"], "{one:?}");
    }
    // The text is data and must match literally.
    for text in hostile {
        let tag = format!("org:{text}");
        if tag.contains(' ') || text.is_empty() {
            continue;
        }
        s.ok_with("ADD FILE", &["0", &tag]);
        for kind in ["org-", "quoted-"] {
            let kept = by(&mut s, &format!("{kind}{text}"));
            assert_eq!(kept, ["0"], "{kind}{text:?}");
        }
        assert_eq!(by(&mut s, &format!("one-{text}-x")), ["0"], "{text:?}");
        assert_eq!(by(&mut s, &format!("starts-{tag}")), ["0"], "{text:?}");
        s.ok_with("REM FILE", &["0", &tag]);
    }
    // In a regex, the text is quoted.
    let kept = |s: &mut TagSpace, point: &str, file: &str| {
        let words = [point, "FORMAT", "FILE", "LINES", file];
        s.ok_with("FILTER POINT", &words).items().len()
    };
    for text in hostile.into_iter().filter(|text| !text.trim().is_empty()) {
        for kind in ["re-", "is-", "has-"] {
            assert_eq!(
                kept(&mut s, &format!("{kind}{text}"), text),
                1,
                "{kind}{text:?}"
            );
        }
    }
}

#[test]
fn groups_are_filled_in_by_number_and_by_name() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET (?P<ns>\\w+)-(?P<n>\\d)(x)? '${ns}:$2 & !$$5'");
    assert_eq!(by(&mut s, "org-2"), ["2"]);
    let [name, expression] = &meant(&mut s, b"coll-3")[..] else {
        panic!("two texts")
    };
    assert_eq!(name, "(?P<ns>\\w+)-(?P<n>\\d)(x)?");
    // In any notation, the result is an expression with the same meaning.
    for file in FILES {
        assert_eq!(s.passes(expression, file), file == "3", "{expression}");
    }
    s.ok("POINTSET opt-(a)?(b)? 'org:$1 | org:$2'");
    for name in ["opt-", "opt-a", "opt-b"] {
        let error = no(&mut s, name.as_bytes());
        assert!(error.starts_with("NOPOINT "), "{name}: {error}");
    }
    assert_eq!(by(&mut s, "opt-ab"), NONE);
}

#[test]
fn in_a_regex_a_dollar_sign_is_the_regex_s_own() {
    let (_server, mut s) = stage(space);
    let files = ["$1", "\\d", "7", "ad", "$d", "d", "x$"];
    for (regex, kept) in rows![
        "a$1$", &["ad"][..]; "^$1$", &["d"]; "^${1}$", &["d"]; "\\$$", &["x$"]; "\\$1", &["$1"];
        "^\\\\$1$", &["\\d"]; "^[$]$1$", &["$d"];
    ] {
        s.ok_with("POINTSET", &["v-(.)", &format!("filename~{regex}")]);
        let kept_by = s.kept("POINT v-d FORMAT FILE", &files);
        assert_eq!(kept_by, kept, "{regex}");
    }
    s.ok_with("POINTSET", &["literal", "filename~\\$1$"]);
    assert_eq!(s.kept("POINT literal FORMAT FILE", &files), ["$1"]);
    // In other text, a dollar sign is doubled.
    s.ok("POINTSET v-(.) filename=$$1|filename*=x$$|x$1");
    assert_eq!(s.kept("POINT v-d FORMAT FILE", &files), ["$1", "x$"]);
}

#[test]
fn an_expanded_point_is_shown_as_an_equivalent_expression() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET org-(.*) '(org:$1 | @p) & !\"a b\" & filename~^.$$ & coll:{1|x$1}'");
    s.ok("POINTSET p none");
    for text in [
        "1", "1|*", "a b", "\"", "'", "\\", "\"'\\", "*", "{", "", "$1", "\u{fc}",
    ] {
        let shown = meant(&mut s, format!("org-{text}").as_bytes()).remove(1);
        let reply = s.call_with(
            "FILTER WHERE",
            &[&[&shown, "FORMAT", "FILE", "LINES"][..], &FILES].concat(),
        );
        assert!(!reply.is_error(), "{text:?} gave {shown:?}: {reply:?}");
        let expected = by(&mut s, &format!("org-{text}"));
        assert_eq!(reply.texts(), expected, "{text:?} gave {shown:?}");
    }
}

#[test]
fn bad_points_are_refused() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET kept org:1");
    let before = s.digest();
    for (name, expression, code) in rows![
        "a", "org:$1", "SYNTAX "; "a", "org:${x}", "SYNTAX "; "a-(\\d)", "org:$2", "SYNTAX ";
        "a-(\\d)", "org:${x}", "SYNTAX "; "a-(\\d)", "org:$", "SYNTAX "; "a", "", "SYNTAX ";
        "a", "x &", "SYNTAX "; "a", "(x", "SYNTAX "; "a", "filename~(", ""; "a", "filename~\"(\"", "BADRE ";
        "a(", "x", "BADRE "; "[a", "x", "BADRE "; "(?P<n>a)(?P<n>b)", "x", "BADRE "; "*", "x", "BADRE ";
        "a\\", "x", "BADRE "; "a", "@a", "CYCLE "; "", "x", "";
    ] {
        let error = s.refused_with("POINTSET", &[name, expression], code);
        if code == "SYNTAX " {
            assert!(error.contains(" at byte "), "{name} {expression}: {error}");
        }
        assert_eq!(s.digest(), before, "{name} {expression}");
    }
    s.refused("POINTS nobody", "NOPOINT ");
    assert_eq!(s.ok("POINTDEL nobody"), int(0));
}

#[test]
fn points_refer_to_points() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET public 'coll:* & !private'");
    s.ok("POINTSET two-(\\d)-(\\d) '@public & (@org-$1 | @org-$2)'");
    s.ok("POINTSET pub-(.*) '@org-$1 & @public'");
    let error = no(&mut s, b"two-1-4");
    assert!(
        error.starts_with("NOPOINT "),
        "the point is not defined yet: {error}"
    );
    s.ok("POINTSET org-(\\d) org:$1");
    assert_eq!(by(&mut s, "two-1-4"), ["1"]);
    assert_eq!(by(&mut s, "two-2-3"), ["2", "3"]);
    assert_eq!(by(&mut s, "pub-2"), ["2"]);
    assert_eq!(by(&mut s, "pub-4"), NONE);
    let error = no(&mut s, b"pub-x");
    assert!(error.starts_with("NOPOINT "), "{error}");
    let where_point =
        |s: &mut TagSpace, e: &str| s.kept(&format!("WHERE '{e}' FORMAT FILE"), &FILES);
    assert_eq!(where_point(&mut s, "@org-2 | @org-3"), ["2", "3"]);
    assert_eq!(where_point(&mut s, "!@public"), ["0", "4"]);
    assert_eq!(where_point(&mut s, "@\"org-2\""), ["2"]);
    for unknown in ["@nobody", "* | @nobody", "!@nobody", "@org-x"] {
        let words = [unknown, "FORMAT", "FILE", "LINES", "1"];
        s.refused_with("FILTER WHERE", &words, "NOPOINT ");
    }
    // A changed point takes effect immediately in the points that refer to it.
    s.ok("POINTSET public coll:4");
    assert_eq!(by(&mut s, "two-1-4"), ["4"]);
}

#[test]
fn cycles_are_refused() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET a '@b | org:1'");
    s.ok("POINTSET b @c");
    let before = s.digest();
    for line in rows![
        "POINTSET c @a"; "POINTSET c '!(x & @b)'"; "POINTSET b @b"; "POINTSET b @a";
    ] {
        s.refused(line, "CYCLE ");
        assert_eq!(s.digest(), before, "{line}");
    }
    s.ok("POINTSET c org:2");
    assert_eq!(by(&mut s, "a"), ["1", "2"]);
    // This cycle can only be detected when the point is used.
    s.ok("POINTSET loop-(\\d*) @loop-$1$1");
    s.ok("POINTSET ping-(\\d) @pong-$1");
    let set = s.call("POINTSET pong-(\\d) @ping-$1");
    for name in ["loop-1", "loop-", "ping-1", "pong-1"] {
        if set.is_error() && name.starts_with('p') {
            continue;
        }
        let error = no(&mut s, name.as_bytes());
        // `loop-1` grows with each step. Therefore its name may become too long, or the points too
        // many, before a name occurs again.
        let grown = ["NOPOINT ", "TOOBIG "]
            .iter()
            .any(|code| error.starts_with(code));
        let grown = name == "loop-1" && grown;
        assert!(error.starts_with("CYCLE ") || grown, "{name}: {error}");
    }
}

#[test]
fn depth_of_references_is_limited() {
    let (server, mut s) = stage(space);
    s.ok("POINTSET p0 org:1");
    for n in 1..=15 {
        s.ok(format!("POINTSET p{n} @p{}", n - 1));
        assert_eq!(by(&mut s, &format!("p{n}")), ["1"]);
    }
    for n in 16..=40 {
        s.call(format!("POINTSET p{n} @p{}", n - 1));
    }
    let error = no(&mut s, b"p40");
    let codes = ["TOOBIG ", "CYCLE ", "NOPOINT "];
    assert!(codes.iter().any(|code| error.starts_with(code)), "{error}");
    // Each point is twice as large as the previous one, so the limit counts references like other
    // parts.
    for n in 0..15 {
        let one = format!("POINTSET d{} '@d{n} | @d{n}'", n + 1);
        s.ok(&one);
    }
    s.ok("POINTSET d0 org:2");
    assert_eq!(by(&mut s, "d12"), ["2"]);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn points_are_listed_in_the_order_set() {
    let (_server, mut s) = stage(TagSpace::of);
    assert_eq!(s.ok("POINTS"), array([]));
    s.ok("POINTSET z org:1");
    s.ok("POINTSET y-(\\d) org:$1");
    s.ok_with("POINTSET", &[&b"\xff"[..], b"\"\xfe\""]);
    s.ok("POINTSET z ' org:2 | x '");
    let pair = |a: &[u8], b: &[u8]| array([bulk(a), bulk(b)]);
    let points = s.ok("POINTS");
    assert_eq!(points.items()[0].items()[0], bulk("z"));
    assert_eq!(points.items()[0].items()[1].text().trim(), "org:2 | x");
    assert_eq!(points.items()[1], pair(b"y-(\\d)", b"org:$1"));
    assert_eq!(points.items()[2], pair(b"\xff", b"\"\xfe\""));
    assert_eq!(s.figure("points"), 3);
    s.ok("POINTDEL z");
    assert_eq!(s.ok("POINTS").items(), &points.items()[1..]);
}

#[test]
fn many_points_are_found_quickly() {
    let (_server, mut s) = stage(space);
    let set = (0..100_000).map(|n| {
        let name = format!("p{n}");
        vec![
            "TAGS.POINTSET".to_owned(),
            "tags".into(),
            name,
            format!("org:{n}"),
        ]
    });
    let replies = s.wire.pipeline(set.collect::<Vec<_>>());
    assert!(replies.iter().all(|reply| *reply == simple("OK")));
    s.refused("POINTSET one-more x", "TOOBIG ");
    for n in [1, 2, 3] {
        assert_eq!(by(&mut s, &format!("p{n}")), [n.to_string()]);
    }
    assert_eq!(by(&mut s, "p99999"), NONE);
    assert!(no(&mut s, b"p100000").starts_with("NOPOINT "));
}

#[test]
fn point_that_no_filter_can_use_is_refused() {
    let (_server, mut s) = stage(space);
    let most = 262_144;
    // The limit counts a list and each of its members, or several tags and their common prefix.
    let list = |n: usize| vec!["a"; n].join("|");
    let choices = |n: usize| format!("coll:{{{}}}", vec!["1"; n].join("|"));
    for (fits, exceeds) in [
        (list(most - 1), list(most)),
        (choices(most - 1), choices(most)),
        (format!("!({})", list(most - 2)), list(500_000)),
    ] {
        let error = s.refused_with("POINTSET big", &[&exceeds], "TOOBIG ");
        assert_eq!(s.ok("POINTS"), array([]));
        // This must be exactly the error of a filter that uses the point.
        assert_eq!(
            s.err_with(
                "FILTER WHERE",
                &[&exceeds[..], "FORMAT", "FILE", "LINES", "1"]
            ),
            error
        );
        s.ok_with("POINTSET big", &[&fits]);
        by(&mut s, "big");
        s.ok("POINTDEL big");
    }
}
