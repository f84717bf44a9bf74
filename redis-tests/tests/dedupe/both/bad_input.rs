//! Every command, every argument position, every mutation: an error that names what is wrong, a
//! data set that did not change, a server that lives.

use redis_tests::{
    DATE, Reply, Server, Wire, add, assert_consistent, commit, ok, plain_hash, plainly, sha256_of,
};

const P: &str = "p:";

/// What an argument is, and so what may be wrong with it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// The prefix: any bytes up to 1 KiB.
    Prefix,
    /// A crawl that must exist.
    Crawl,
    /// A crawl that is started if it is new.
    NewCrawl,
    /// A hash.
    Hash,
    /// A whole number of 0 or more.
    Number,
    /// A whole number of 1 or more.
    Positive,
    /// A date.
    Date,
    /// A URL, a name or another free text, with its longest length.
    Text(usize),
    /// A keyword, or one of a few words.
    Word,
    /// A claim's token.
    Token,
    /// `crawl index`.
    Reference,
}
use Kind::*;

/// A good call of a command: each word with its kind and the name that an error gives it.
struct Call {
    name: &'static str,
    args: Vec<(String, Kind, &'static str)>,
}

fn calls() -> Vec<Call> {
    let h = |n: u64| (sha256_of(n), Hash, "hash");
    let w = |word: &str, kind: Kind, name: &'static str| (word.to_owned(), kind, name);
    let p = || w(P, Prefix, "prefix");
    let url = || w("http://e.com/", Text(1 << 20), "url");
    let table = vec![
        ("DEDUPE.LOOKUP", vec![p(), h(1)]),
        (
            "DEDUPE.LOOKUP",
            vec![
                p(),
                w("CRAWL", Word, ""),
                w("a", NewCrawl, "crawl"),
                w("WITHWACZ", Word, ""),
                h(1),
                h(2),
            ],
        ),
        (
            "DEDUPE.CLAIM",
            vec![
                p(),
                w("a", NewCrawl, "crawl"),
                h(1),
                w("PX", Word, "PX"),
                w("1000", Positive, "PX"),
            ],
        ),
        (
            "DEDUPE.CLAIM",
            vec![
                p(),
                w("a", NewCrawl, "crawl"),
                h(1),
                w("PX", Word, "PX"),
                w("1000", Positive, "PX"),
                w("BLOCK", Word, "BLOCK"),
                w("1", Number, "BLOCK"),
            ],
        ),
        ("DEDUPE.UNCLAIM", vec![p(), h(1), w("1", Token, "token")]),
        (
            "DEDUPE.ADD",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                h(1),
                w("0", Number, "waczIndex"),
                w(DATE, Date, "date"),
                url(),
                w("5", Number, "size"),
            ],
        ),
        (
            "DEDUPE.ADD",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                w("TOKEN", Word, ""),
                w("1", Token, "token"),
                w("SEQ", Word, ""),
                w("writer", Text(1 << 10), "writer"),
                w("7", Positive, "n"),
                w("EARLIEST", Word, ""),
                h(1),
                w("0", Number, "waczIndex"),
                w(DATE, Date, "date"),
                url(),
                w("5", Number, "size"),
            ],
        ),
        (
            "DEDUPE.BEGIN",
            vec![p(), w("new", NewCrawl, "crawl"), w("VISIBLE", Word, "")],
        ),
        (
            "DEDUPE.REVISIT",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                h(1),
                w("5", Number, "size"),
            ],
        ),
        (
            "DEDUPE.REVISIT",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                h(1),
                w("5", Number, "size"),
                w("ORIGINAL", Word, ""),
                w("other", NewCrawl, "crawl"),
                w("0", Number, "waczIndex"),
                w("9", Number, "size"),
            ],
        ),
        (
            "DEDUPE.REVISIT",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                w("REF", Word, ""),
                w("uuid", Text(1 << 10), "uuid"),
                h(1),
                w("5", Number, "size"),
                h(2),
                w("5", Number, "size"),
            ],
        ),
        (
            "DEDUPE.WACZOPEN",
            vec![
                p(),
                w("new", NewCrawl, "crawl"),
                w("new.wacz", Text(4 << 10), "filename"),
            ],
        ),
        (
            "DEDUPE.WACZCLOSE",
            vec![
                p(),
                w("open", Crawl, "crawl"),
                w("0", Number, "index"),
                w("open.wacz", Text(4 << 10), "filename"),
                w("sha256:cd", Text(256), "hash"),
                w("5", Number, "size"),
            ],
        ),
        (
            "DEDUPE.WACZCLOSE",
            vec![
                p(),
                w("open", Crawl, "crawl"),
                w("0", Number, "index"),
                w("closed.wacz", Text(4 << 10), "filename"),
                w("sha256:cd", Text(256), "hash"),
                w("5", Number, "size"),
                w("RENAME", Word, ""),
            ],
        ),
        ("DEDUPE.WACZLIST", vec![p(), w("a", Crawl, "crawl")]),
        ("DEDUPE.COMMIT", vec![p(), w("open", Crawl, "crawl")]),
        ("DEDUPE.CANCEL", vec![p(), w("open", Crawl, "crawl")]),
        ("DEDUPE.RETAIN", vec![p(), w("a", Crawl, "crawl")]),
        (
            "DEDUPE.RETAIN",
            vec![p(), w("PURGE", Word, ""), w("a", Crawl, "crawl")],
        ),
        (
            "DEDUPE.REMOVE",
            vec![p(), w("a", Crawl, "crawl"), w("b", Crawl, "crawl")],
        ),
        (
            "DEDUPE.REQUIRES",
            vec![p(), w("a", Crawl, "crawl"), w("TRANSITIVE", Word, "")],
        ),
        (
            "DEDUPE.REQUIRES",
            vec![
                p(),
                w("REFS", Word, ""),
                w("a 0", Reference, "reference"),
                w("FORMAT", Word, ""),
                w("RESP", Word, ""),
            ],
        ),
        ("DEDUPE.REQUIREDBY", vec![p(), w("a", Crawl, "crawl")]),
        ("DEDUPE.STATS", vec![p(), w("a", Crawl, "crawl")]),
        (
            "DEDUPE.CRAWLS",
            vec![p(), w("COMMITTED", Word, "COMMITTED")],
        ),
        ("DEDUPE.CHECK", vec![p()]),
        ("DEDUPE.REPAIR", vec![p()]),
        ("DEDUPE.PACK", vec![p()]),
        ("DEDUPE.UNPACK", vec![p()]),
        (
            "DEDUPE.PROFILE",
            vec![p(), w("browsertrix", Word, "profile")],
        ),
    ];
    table
        .into_iter()
        .map(|(name, args)| Call { name, args })
        .collect()
}

/// Bad values for an argument of this kind, with what the error must say (any of these words).
fn mutations(kind: Kind, name: &str) -> Vec<(Vec<u8>, Vec<String>)> {
    let says = |words: &[&str]| {
        words
            .iter()
            .map(|w| (*w).to_owned())
            .collect::<Vec<String>>()
    };
    let huge = vec![b'x'; 10 << 20];
    match kind {
        Prefix => vec![(huge, says(&["prefix"]))],
        Crawl => vec![
            (b"".to_vec(), says(&["BADCRAWL"])),
            (b"unknown".to_vec(), says(&["unknown"])),
            (b"a:counts".to_vec(), says(&["BADCRAWL"])),
            (huge, says(&["crawl"])),
        ],
        NewCrawl => vec![
            (b"".to_vec(), says(&["BADCRAWL"])),
            (b"a:counts".to_vec(), says(&["BADCRAWL"])),
            (b"a:wacz".to_vec(), says(&["BADCRAWL"])),
            (huge, says(&["crawl"])),
        ],
        Hash => vec![
            (b"".to_vec(), says(&["BADHASH"])),
            (b"short".to_vec(), says(&["BADHASH"])),
            (vec![b'x'; 257], says(&["BADHASH"])),
            (b"control\nbytes in a hash".to_vec(), says(&["BADHASH"])),
            (huge, says(&["BADHASH"])),
        ],
        Number | Positive => {
            let bad = [
                "",
                "x",
                "-1",
                "1.5",
                "1e3",
                " 1",
                "9223372036854775808",
                "0x10",
            ];
            let mut all: Vec<_> = bad.map(|b| (b.as_bytes().to_vec(), says(&[name]))).to_vec();
            all.push((huge, says(&[name])));
            all.push((b"5\0".to_vec(), says(&[name])));
            if kind == Positive {
                all.push((b"0".to_vec(), says(&[name])));
            }
            all
        }
        Date => {
            let bad = ["", "yesterday", "1 2", "2026-03-19\n"];
            let mut all: Vec<_> = bad
                .map(|b| (b.as_bytes().to_vec(), says(&["date"])))
                .to_vec();
            all.push((huge, says(&["date"])));
            all
        }
        Text(longest) => vec![
            (vec![b'x'; longest + 1], says(&[name])),
            (huge, says(&[name])),
        ],
        Word => vec![
            (b"".to_vec(), vec![]),
            (
                b"NONSENSE".to_vec(),
                says(&["NONSENSE", "BADHASH", "PX", "unexpected"]),
            ),
            (b"\0\r\n\xff".to_vec(), vec![]),
            (huge, vec![]),
        ],
        Token => vec![
            (b"".to_vec(), says(&["token"])),
            (b"not a number".to_vec(), says(&["token", "STALE"])),
            (huge, says(&["token"])),
        ],
        Reference => vec![
            (b"".to_vec(), says(&["reference"])),
            (b"a".to_vec(), says(&["reference"])),
            (b"a x".to_vec(), says(&["reference"])),
            (huge, vec![]),
        ],
    }
}

fn index(c: &mut Wire) {
    ok!(c, "FLUSHALL");
    for (id, hashes) in [("a", 0..5), ("b", 3..9)] {
        add(c, P, id, hashes);
        ok!(c, "DEDUPE.WACZOPEN", P, id, format!("{id}.wacz"));
        commit(c, P, id);
    }
    add(c, P, "open", [20]);
    ok!(c, "DEDUPE.WACZOPEN", P, "open", "open.wacz");
    ok!(c, "DEDUPE.REVISIT", P, "open", "REF", "u", sha256_of(1), 5);
}

fn digest(c: &mut Wire) -> String {
    ok!(c, "DEBUG", "DIGEST").text()
}

#[test]
fn bad_arguments_are_named_and_change_nothing() {
    let mut server = Server::start();
    let mut c = server.wire();
    index(&mut c);
    let before = digest(&mut c);
    let mut faults = Vec::new();
    for call in calls() {
        for (position, (_, kind, name)) in call.args.iter().enumerate() {
            for (bad, says) in mutations(*kind, name) {
                let mut words: Vec<&[u8]> = vec![call.name.as_bytes()];
                words.extend(call.args.iter().map(|(word, ..)| word.as_bytes()));
                words[position + 1] = &bad;
                let told = bad[..bad.len().min(20)].escape_ascii().to_string();
                let what = format!("{} argument {} = '{told}'", call.name, position + 1);
                let reply = c.call(&words);
                let changed = digest(&mut c) != before;
                if changed {
                    faults.push(format!("{what}: changed the data set, said {reply:?}"));
                    index(&mut c);
                    assert_eq!(digest(&mut c), before, "the index is built the same again");
                }
                match reply {
                    Reply::Error(line) => {
                        let line = String::from_utf8_lossy(&line).into_owned();
                        let code = line.split(' ').next().unwrap();
                        if !code.bytes().all(|b| b.is_ascii_uppercase())
                            || line.len() < code.len() + 5
                        {
                            faults.push(format!("{what}: no code word first: {line}"));
                        }
                        if !line.is_ascii() || line.len() > 1000 {
                            faults.push(format!("{what}: not short ASCII: {line}"));
                        }
                        let lower = line.to_lowercase();
                        let said = says.iter().any(|s| lower.contains(&s.to_lowercase()));
                        if !says.is_empty() && !said {
                            faults.push(format!("{what}: does not name {says:?}: {line}"));
                        }
                    }
                    other => faults.push(format!("{what}: no error but {other:?}")),
                }
            }
        }
    }
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn cut_and_overlong_calls_are_refused() {
    let server = Server::start();
    let mut c = server.wire();
    index(&mut c);
    let before = digest(&mut c);
    let mut faults = Vec::new();
    for call in calls() {
        let words: Vec<&str> = call.args.iter().map(|(word, ..)| word.as_str()).collect();
        let repeats = [
            "DEDUPE.REMOVE",
            "DEDUPE.RETAIN",
            "DEDUPE.LOOKUP",
            "DEDUPE.REQUIRES",
        ];
        let optional = [
            "DEDUPE.BEGIN",
            "DEDUPE.CLAIM",
            "DEDUPE.STATS",
            "DEDUPE.CRAWLS",
            "DEDUPE.PROFILE",
        ];
        if !repeats.contains(&call.name)
            && !optional.contains(&call.name)
            && words.len() != 5
            && call.name != "DEDUPE.REVISIT"
        {
            for n in 0..words.len() {
                let mut cut = vec![call.name];
                cut.extend(&words[..n]);
                let reply = c.call(&cut);
                if !reply.is_error() {
                    faults.push(format!("{cut:?} said {reply:?}"));
                }
            }
        }
        let mut long = vec![call.name];
        long.extend(&words);
        long.push("and more");
        let reply = c.call(&long);
        if !reply.is_error() {
            faults.push(format!("{long:?} said {reply:?}"));
        }
        if digest(&mut c) != before {
            faults.push(format!(
                "{} cut or lengthened changed the data set",
                call.name
            ));
            index(&mut c);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn documented_keys_of_another_type_are_named() {
    let server = Server::start();
    let mut c = server.wire();
    let keys = [
        "h:a",
        "h:a:counts",
        "c:a:wacz",
        "uncommittedcrawls",
        "allcrawls",
        "allhashes",
        "allcounts",
        "a:reqCrawls",
        "u:duperefs",
        "src:d",
        "crawlspace",
        "committing",
        "removing",
        "commits",
        "holders",
        "claims",
        "h:a:baseline",
        "h:a:added",
        "h:a:merging",
        "h:a:unstored",
        "h:a:deps",
        "h:a:refs",
        "h:a:seq",
    ];
    let h = sha256_of(1);
    let h_new = sha256_of(77);
    let calls: Vec<Vec<&str>> = vec![
        vec!["DEDUPE.LOOKUP", P, &h],
        vec!["DEDUPE.LOOKUP", P, "CRAWL", "a", "WITHWACZ", &h],
        vec!["DEDUPE.CLAIM", P, "a", &h_new, "PX", "1000"],
        vec!["DEDUPE.UNCLAIM", P, &h_new, "1"],
        vec![
            "DEDUPE.ADD",
            P,
            "a",
            "SEQ",
            "w",
            "9",
            &h_new,
            "0",
            DATE,
            "http://e.com/",
            "5",
        ],
        vec![
            "DEDUPE.ADD",
            P,
            "a",
            "EARLIEST",
            &h_new,
            "0",
            DATE,
            "http://e.com/",
            "5",
        ],
        vec!["DEDUPE.BEGIN", P, "a"],
        vec!["DEDUPE.BEGIN", P, "new", "VISIBLE"],
        vec!["DEDUPE.REVISIT", P, "a", "REF", "u", &h, "5"],
        vec!["DEDUPE.WACZOPEN", P, "a", "new.wacz"],
        vec!["DEDUPE.WACZCLOSE", P, "a", "0", "a.wacz", "sha256:ab", "5"],
        vec!["DEDUPE.WACZLIST", P, "a"],
        vec!["DEDUPE.COMMIT", P, "a"],
        vec!["DEDUPE.CANCEL", P, "a"],
        vec!["DEDUPE.RETAIN", P, "a"],
        vec!["DEDUPE.REMOVE", P, "a"],
        vec!["DEDUPE.REQUIRES", P, "a"],
        vec!["DEDUPE.REQUIRES", P, "REF", "u"],
        vec!["DEDUPE.REQUIREDBY", P, "a"],
        vec!["DEDUPE.STATS", P],
        vec!["DEDUPE.STATS", P, "a"],
        vec!["DEDUPE.CRAWLS", P],
        vec!["DEDUPE.CHECK", P],
        vec!["DEDUPE.REPAIR", P],
        vec!["DEDUPE.PACK", P],
        vec!["DEDUPE.UNPACK", P],
    ];
    let mut faults = Vec::new();
    let mut named = std::collections::BTreeSet::new();
    for key in keys {
        let key = format!("{P}{key}");
        for wrong in [
            &["SET", &key, "x"][..],
            &["RPUSH", &key, "x"],
            &["HSET", &key, "f", "v"],
        ] {
            index(&mut c);
            add(&mut c, P, "a", [40]);
            ok!(c, "DEL", key);
            c.expect_ok(wrong);
            let before = digest(&mut c);
            for call in &calls {
                let reply = c.call(call);
                let after = digest(&mut c);
                if let Reply::Error(line) = &reply {
                    let line = String::from_utf8_lossy(line).into_owned();
                    if line.starts_with("WRONGTYPE") {
                        if line.contains(&key) {
                            named.insert(key.clone());
                        } else {
                            faults
                                .push(format!("{wrong:?}, {call:?}: does not name {key}: {line}"));
                        }
                    }
                    if after != before {
                        faults.push(format!("{wrong:?}, {call:?}: half written, said {line}"));
                    }
                }
                if after != before {
                    index(&mut c);
                    add(&mut c, P, "a", [40]);
                    ok!(c, "DEL", key);
                    c.expect_ok(wrong);
                    assert_eq!(digest(&mut c), before);
                }
            }
        }
    }
    for key in keys {
        let key = format!("{P}{key}");
        if !named.contains(&key) {
            faults.push(format!("no command names {key} when it has a wrong type"));
        }
    }
    assert_eq!(server.info_number("panics"), 0);
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn garbage_in_our_own_keys_does_no_harm() {
    let mut server = Server::start();
    let mut c = server.wire();
    let (h, h_new) = (sha256_of(1), sha256_of(77));
    let garbage: [&[u8]; 6] = [
        b"",
        b"x",
        b"-1 -2 -3",
        b"99999999999999999999",
        b"\xff\0 \r\n",
        b"1 2 3 4 5 6",
    ];
    let hashes = [
        ("crawlspace", "commits"),
        ("crawlspace", "tokens"),
        ("crawlspace", "profile"),
        ("crawlspace", "format"),
        ("committing", "open"),
        ("committing", "nobody"),
        ("removing", "a"),
        ("removing", ""),
        ("commits", "1"),
        ("commits", "x"),
        ("holders", &h),
        ("claims", &h_new),
        ("h:a:baseline", "x"),
        ("h:a:baseline", "commits"),
        ("h:a:counts", "totalUrls"),
        ("allcounts", "totalUrls"),
        ("h:a:deps", "b"),
        ("h:a:added", &h),
        ("h:a:merging", &h),
        ("h:a:unstored", &h),
        ("h:a:seq", "w"),
        ("allhashes", &h),
    ];
    for (key, field) in hashes {
        for value in garbage {
            index(&mut c);
            let spoil = |c: &mut Wire| drop(ok!(c, "HSET", format!("{P}{key}"), field, value));
            match key {
                "allhashes" | "holders" => plainly(&mut c, P, spoil),
                _ => spoil(&mut c),
            }
            let calls: Vec<Vec<&str>> = vec![
                vec!["DEDUPE.LOOKUP", P, "CRAWL", "a", "WITHWACZ", &h, &h_new],
                vec!["DEDUPE.CLAIM", P, "a", &h_new, "PX", "1000"],
                vec![
                    "DEDUPE.ADD",
                    P,
                    "a",
                    "SEQ",
                    "w",
                    "9",
                    &h_new,
                    "0",
                    DATE,
                    "http://e.com/",
                    "5",
                ],
                vec![
                    "DEDUPE.ADD",
                    P,
                    "a",
                    "EARLIEST",
                    &h,
                    "0",
                    "20200101000000",
                    "http://e.com/",
                    "5",
                ],
                vec!["DEDUPE.REVISIT", P, "a", &h, "5"],
                vec!["DEDUPE.STATS", P],
                vec!["DEDUPE.CRAWLS", P],
                vec!["DEDUPE.REQUIREDBY", P, "b"],
                vec!["DEDUPE.CHECK", P],
                vec!["DEDUPE.UNPACK", P],
                vec!["DEDUPE.PACK", P],
                vec!["DEDUPE.COMMIT", P, "open"],
                vec!["DEDUPE.CANCEL", P, "a"],
                vec!["DEDUPE.REMOVE", P, "a"],
                vec!["DEDUPE.REPAIR", P],
            ];
            for call in calls {
                c.call(&call);
            }
            let panics = server.info_number("panics");
            assert_eq!(panics, 0, "{key} {field} = {}", value.escape_ascii());
        }
    }
    assert!(server.is_alive());
    index(&mut c);
    assert_consistent(&mut c, P);
    assert_eq!(plain_hash(&mut c, P, "h:a").len(), 5);
}

#[test]
fn log_takes_client_bytes_as_they_are() {
    let mut server = Server::start();
    let mut c = server.wire();
    for text in ["%s%s%s%n%n", "%1000000d", "\u{0}%n"] {
        add(&mut c, text, text, [1]);
        ok!(c, "DEDUPE.WACZOPEN", text, text, text);
        ok!(c, "DEDUPE.COMMIT", text, text);
        c.call(&["DEDUPE.COMMIT", text, "nobody%n"]);
        c.call(&["DEDUPE.PROFILE", text, "%n%n"]);
        ok!(c, "DEDUPE.CHECK", text);
        ok!(c, "DEDUPE.REMOVE", text, text);
    }
    assert!(server.is_alive());
}

#[test]
fn one_call_with_very_many_hashes_is_served() {
    let server = Server::start();
    let mut c = server.wire();
    let hashes: Vec<String> = (0..100_000).map(sha256_of).collect();
    let mut words = vec!["DEDUPE.LOOKUP", P];
    words.extend(hashes.iter().map(String::as_str));
    let found = c.expect_ok(&words);
    assert_eq!(found.items().len(), 100_000);
    assert!(found.items().iter().all(Reply::is_nil));
}
