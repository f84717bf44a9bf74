//! Bad input that only a tag space can receive: hostile lines and regular expressions.

use std::time::{Duration, Instant};

use crate::stage;
use redis_tests::{Reply, Server, TagSpace, err, int, ok, rows};

/// Creates a tag space with every kind of content.
fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    ok!(s.wire, "FLUSHALL");
    s.ok("ADD RECORD 'k 2020 f 5' of-record");
    s.ok("ADD FILE f of-file");
    s.ok("ADD TAG of-file org:1");
    s.ok("LOAD FILE STAGE g of-staged");
    s.ok("RULESET r filename (.) x:$1");
    s.ok("POINTSET p of-file");
    s.ok("POINTSET p-(\\d+) org:$1");
    s
}

#[test]
fn lines_of_ten_megabytes_and_of_any_bytes() {
    let (server, mut s) = stage(space);
    let long = vec![b'x'; 10 << 20];
    let reply = s.ok_with("FILTER FORMAT FILE LINES", &[&long[..], b"f"]);
    assert_eq!(reply.items().len(), 2);
    assert_eq!(reply.items()[0].bytes(), long);
    s.refused_with("FILTER LINES", &[&long], "BADLINE line 1");
    let spaces = vec![b' '; 10 << 20];
    s.call_with("FILTER LINES", &[&spaces]);
    s.call_with("FILTER FORMAT RECORD LINES", &[&spaces]);
    let newlines = vec![b'\n'; 10 << 20];
    assert_eq!(s.ok_with("FILTER RETURN COUNT BLOB", &[&newlines]), int(0));
    let deep = [b"k 2020 {\"a\":".as_slice(), &vec![b'['; 1 << 20]].concat();
    s.refused_with("FILTER LINES", &[&deep], "BADLINE line 1");
    let closed = [
        b"k 2020 {\"a\":".as_slice(),
        &vec![b'['; 100_000],
        &vec![b']'; 100_000],
        b"}",
    ]
    .concat();
    let reply = s.call_with("FILTER RETURN COUNT LINES", &[&closed]);
    assert!(reply == int(1) || reply.is_error(), "{reply:?}");
    let fields = format!(
        "k 2020 {{{}}}",
        (0..100_000)
            .map(|n| format!("\"f{n}\":{n}"))
            .collect::<Vec<_>>()
            .join(",")
    );
    assert_eq!(
        s.ok_with("FILTER WHERE f99999=99999 RETURN COUNT LINES", &[&fields]),
        int(1)
    );
    let cdx = [
        b"k 2020 \x00 \xff\xfe \x01 d 7".as_slice(),
        b"k 2020 u m 200 d \x00",
    ];
    assert_eq!(s.ok_with("FILTER RETURN COUNT LINES", &cdx), int(2));
    let tags = s.ok_with("FILTER FORMAT FILE RETURN TAGS LINES", &[b"\xff\x00"]);
    assert_eq!(tags.items()[0].items()[1].items()[0].bytes(), b"x:\xff");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn hostile_regexes_are_refused_or_run_in_linear_time() {
    let (server, mut s) = stage(space);
    let victim = format!("{}!", "a".repeat(20_000));
    let run = |s: &mut TagSpace, regex: &str| {
        let started = Instant::now();
        let filter = format!("filename:{regex}");
        let replies = [
            s.call_with(
                "FILTER FORMAT FILE RETURN COUNT FILTER",
                &[&filter[..], "LINES", &victim],
            ),
            s.call_with(
                "FILTER FORMAT FILE RETURN COUNT WHERE",
                &[&format!("filename~'{regex}'"), "LINES", &victim],
            ),
            s.call_with("RULESET hostile filename", &[regex, "t"]),
        ];
        let took = started.elapsed();
        assert!(took < Duration::from_secs(10), "{regex} took {took:?}");
        s.call("RULEDEL hostile");
        replies
    };
    for regex in rows![
        "(a+)+$"; "(a|a)*$"; "(a|aa)+$"; "(.*a){20}$"; "(a*)*b"; "((a+)+)+x"; ".*.*.*.*.*b";
        "(?:a?){500}a{500}"; "^(a+)+!$";
    ] {
        for reply in run(&mut s, regex) {
            assert!(!reply.is_error(), "{regex}: {reply:?}");
        }
    }
    for regex in rows![
        "(x{1000}){1000}"; "((x{100}){100}){100}"; "[\\s\\S]{1000000}"; "(((a{99}){99}){99}){99}";
        "\\pL{1000}{1000}";
    ] {
        for reply in run(&mut s, regex) {
            let Reply::Error(line) = &reply else {
                panic!("{regex}: {reply:?}");
            };
            assert!(line.starts_with(b"BADRE "), "{regex}: {reply:?}");
        }
    }
    for regex in rows![
        "(".repeat(60_000); "[".repeat(60_000); "(?:".repeat(20_000); "a*".repeat(3_000); "a?".repeat(3_000);
        "|".repeat(60_000);
    ] {
        run(&mut s, &regex);
    }
    assert_eq!(server.info_number("panics"), 0);
}

/// Returns `(a|b|…)` with this number of alternatives.
fn alternatives(count: usize) -> String {
    let all: Vec<String> = (0..count).map(|n| format!("{n}")).collect();
    format!("ARCHIVEIT-({})-.*", all.join("|"))
}

#[test]
fn regex_of_64_kib_is_accepted_and_a_longer_one_is_refused_with_advice() {
    let (_server, mut s) = stage(space);
    let limit = 64 << 10;
    let padded = |len: usize| {
        let mut regex = alternatives(10_000);
        assert!(regex.len() < len);
        let more = len - regex.len();
        regex.insert_str(11, &format!("{}|", "9".repeat(more - 1)));
        assert_eq!(regex.len(), len);
        regex
    };
    let files = rows![
        "ARCHIVEIT-7-a"; "ARCHIVEIT-9999-a"; "ARCHIVEIT-10000-a"; "x";
    ];
    for regex in [alternatives(10_000), padded(limit)] {
        let filter = format!("filename:{regex}");
        let words = [&[&filter[..], "LINES"], &files[..]].concat();
        for _ in 0..3 {
            let kept = s.ok_with("FILTER FORMAT FILE FILTER", &words).texts();
            assert_eq!(kept, files[..2]);
        }
        let test = format!(
            "filename~'^{}'",
            &regex[..regex.len().min(limit - 1)].trim_end_matches(".*")
        );
        let words = [&[&test[..], "LINES"], &files[..]].concat();
        assert_eq!(
            s.ok_with("FILTER FORMAT FILE WHERE", &words).texts(),
            files[..2]
        );
        s.ok_with("RULESET big filename", &[&regex, "big:$1"]);
        assert_eq!(s.tags("FILE ARCHIVEIT-9999-a ALL"), ["big:9999", "x:A"]);
    }
    let filter = format!("filename:{}", padded(limit + 1));
    let error = s.err_with("FILTER FORMAT FILE FILTER", &[&filter[..], "LINES", "x"]);
    assert!(
        error.starts_with("BADRE ") && error.contains("tag"),
        "{error}"
    );
    let regex = padded(limit + 1);
    s.refused_with("RULESET big filename", &[&regex, "t"], "BADRE ");
    s.refused_with(
        "FILTER FORMAT FILE WHERE",
        &[&format!("filename~'{regex}'"), "LINES", "x"],
        "BADRE ",
    );
    s.refused_with("POINTSET big", &[&format!("filename~'{regex}'")], "BADRE ");
    // The alternative that the error recommends accepts any number of collections.
    let many: Vec<String> = (0..200_000).map(|n| n.to_string()).collect();
    let filter = format!("tag.big:{}", many.join("|"));
    let words = [&[&filter[..], "LINES"], &files[..]].concat();
    let kept = s.ok_with("FILTER FORMAT FILE FILTER", &words).texts();
    assert_eq!(kept, files[..2]);
}

#[test]
fn a_big_regex_is_compiled_once_and_not_in_the_main_thread() {
    let (server, mut s) = stage(space);
    let regexes: Vec<String> = (0..10)
        .map(|n| format!("filename:{n}-{}", alternatives(10_000)))
        .collect();
    let mut run = || {
        let before = (ticks(&server), ticks_of_main_thread(&server));
        for (n, regex) in regexes.iter().enumerate() {
            let file = format!("{n}-ARCHIVEIT-1-x");
            let words = ["FILTER", regex, "LINES", &file, "x"];
            assert_eq!(s.ok_with("FILTER FORMAT FILE", &words).texts(), [file]);
        }
        let after = (ticks(&server), ticks_of_main_thread(&server));
        (after.0 - before.0, after.1 - before.1)
    };
    let (all, main) = run();
    assert!(main * 3 < all, "{main} of {all} ticks in the main thread");
    let (again, _) = run();
    assert!(again * 3 < all, "{all} ticks, and then {again} ticks");
}

/// Returns the CPU time of all threads of the server in hundredths of a second.
fn ticks(server: &Server) -> u64 {
    ticks_of(&format!("/proc/{}/stat", server.pid()))
}

/// Returns the CPU time of the server's main thread in hundredths of a second. Unlike the
/// time of a `PING`, it does not depend on the load of the machine.
fn ticks_of_main_thread(server: &Server) -> u64 {
    let pid = server.pid();
    ticks_of(&format!("/proc/{pid}/task/{pid}/stat"))
}

fn ticks_of(path: &str) -> u64 {
    let stat = std::fs::read_to_string(path).expect("the server runs");
    let after_name = stat.rsplit_once(") ").expect("a name in parentheses").1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = |n: usize| fields[n].parse::<u64>().expect("a number of ticks");
    ticks(11) + ticks(12)
}

/// Runs a call. The call must succeed without blocking the main thread.
#[track_caller]
fn assert_main_thread_is_free(server: &Server, s: &mut TagSpace, call: &[&str]) {
    let before = ticks_of_main_thread(server);
    s.ok_with(call[0], &call[1..]);
    let ticks = ticks_of_main_thread(server) - before;
    let told = [call[0], call[2], call[3]];
    assert!(ticks < 15, "{told:?}: {ticks} ticks in the main thread");
}

#[test]
fn others_are_served_while_a_big_regex_runs() {
    let (server, mut s) = stage(space);
    // The regex has as many states as the text has bytes, so the time is at most their product.
    let regex = format!("^{}$", "a?".repeat(10_000));
    let line = format!("{}!", "a".repeat(1000));
    s.ok_with(
        "POINTSET heavy",
        &[&format!("filename~{}", regex.replace('$', "$$"))],
    );
    s.ok_with("RULESET heavy filename", &[&regex[..], "t"]);
    let (filter, test) = (format!("filename:{regex}"), format!("filename~{regex}"));
    let calls: [&[&str]; 6] = [
        &[
            "FILTER", "FORMAT", "FILE", "FILTER", &filter, "LINES", &line,
        ],
        &["FILTER", "FORMAT", "FILE", "WHERE", &test, "LINES", &line],
        &["FILTER", "FORMAT", "FILE", "POINT", "heavy", "LINES", &line],
        &["FILTER", "FORMAT", "FILE", "WHERE", "t", "LINES", &line],
        &["EXPLAIN", "FORMAT", "FILE", "LINES", &line],
        &["GET", "FILE", &line, "ALL"],
    ];
    for call in calls {
        assert_main_thread_is_free(&server, &mut s, call);
    }
}

#[test]
fn a_small_regex_or_many_tests_on_long_text_do_not_block_other_clients() {
    let (server, mut s) = stage(space);
    let text: String = (0..120_000_u64)
        .map(|n| {
            if (n * n / 7 + n / 3) % 2 == 0 {
                'a'
            } else {
                'b'
            }
        })
        .collect();
    let many: Vec<String> = (0..2000).map(|n| format!("filename*=zz{n}")).collect();
    let (many, lines) = (many.join("|"), "a\n".repeat(20_000));
    let calls: [&[&str]; 4] = rows![
        &["FILTER", "FORMAT", "FILE", "WHERE", "filename~'a[ab]{1000}c'", "LINES", &text];
        &["EXPLAIN", "FORMAT", "FILE", "WHERE", "filename~'a[ab]{1000}c'", "LINES", &text];
        &["FILTER", "FORMAT", "FILE", "FILTER", "filename:.*a[ab]{300}c.*", "LINES", &text];
        &["FILTER", "FORMAT", "FILE", "WHERE", &many, "RETURN", "COUNT", "BLOB", &lines];
    ];
    for call in calls {
        assert_main_thread_is_free(&server, &mut s, call);
    }
}

#[test]
fn keys_are_any_bytes() {
    let server = Server::start();
    let mut c = server.wire();
    for key in [&b""[..], b"\x00\xff", b"a b", b"{", b"*", b"\r\n"] {
        assert_eq!(ok!(c, "TAGS.ADD", key, "FILE", "f", "t"), int(1));
        let rest = "WHERE t FORMAT FILE LINES f g"
            .split(' ')
            .map(str::as_bytes);
        let words: Vec<&[u8]> = [b"TAGS.FILTER", key].into_iter().chain(rest).collect();
        let kept = c.expect_ok(&words);
        assert_eq!(kept.texts(), ["f"]);
        ok!(c, "TAGS.REM", key, "FILE", "f", "t");
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
    assert!(err!(c, "TAGS.NOTHING", "k").starts_with("ERR unknown"));
}
