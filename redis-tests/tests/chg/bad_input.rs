//! Every `CHG.*` command, every argument position: an error that names what is wrong, a data set
//! that did not change, a server that lives.

use redis_tests::{
    BusyFrontier, Frontier, Lease, Reply, Server, T0, TEN_YEARS, Wire, ok, simulated,
};

/// What an argument is, and so what may be wrong with it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// The prefix.
    Prefix,
    /// A group that must be there.
    Known,
    /// An execution, a writer, or a group that need not be there.
    Id,
    /// A group's name, which may be empty.
    Shared,
    /// A point in time.
    Time,
    /// A length of time: at least 0, or at least 1.
    Length(i64),
    /// An integer in this range.
    Number(i64, i64),
    /// A factor.
    Factor,
    /// A status code.
    Status,
    /// A lease's token.
    Token,
    /// A URI.
    Uri,
    /// A keyword.
    Word,
}
use Kind::*;

/// A good call: each word with its kind and the name that an error gives it.
type Call = Vec<(String, Kind, &'static str)>;

fn calls(out: &BusyFrontier) -> Vec<(&'static str, Call)> {
    let w = |word: &str, kind: Kind, name: &'static str| (word.to_owned(), kind, name);
    let p = || w("{f}:", Prefix, "prefix");
    let now = || w("NOW", Word, "NOW");
    let at = |name| w(&(T0 + 5000).to_string(), Time, name);
    let known = || w("waiting", Known, "chg");
    let id = |name| w("new", Id, name);
    let tokens = [out.held.token, out.kept.token].map(|t| t.to_string());
    let held = || vec![p(), w("held", Known, "chg"), w(&tokens[0], Token, "token")];
    let kept = || vec![p(), w("kept", Known, "chg"), w(&tokens[1], Token, "token")];
    let with = |mut words: Call, more: Vec<(String, Kind, &'static str)>| {
        words.extend(more);
        words
    };
    vec![
        ("CHG.ADD", vec![p(), id("execution"), id("chg"), at("at")]),
        (
            "CHG.ADD",
            vec![
                p(),
                now(),
                w(&(T0 + 9).to_string(), Number(1, i64::MAX), ""),
                id("execution"),
                w("SEQ", Word, ""),
                w("writer", Id, "writer"),
                w("7", Number(1, i64::MAX), "n"),
                id("chg"),
                at("at"),
                id("chg"),
                at("at"),
            ],
        ),
        (
            "CHG.ADDURI",
            vec![
                p(),
                id("execution"),
                w("WEIGHT", Word, ""),
                w("3", Number(1, 1_000_000), "WEIGHT"),
                id("chg"),
                at("at"),
                w("1", Number(0, u32::MAX as i64), "depth"),
                w("http://e.com/", Uri, "uri"),
            ],
        ),
        (
            "CHG.NEXT",
            vec![
                p(),
                w("LEASE", Word, ""),
                w("1000", Length(1), "LEASE"),
                w("COUNT", Word, ""),
                w("1", Number(1, 1000), "COUNT"),
                w("BLOCK", Word, ""),
                w("1", Length(0), "BLOCK"),
            ],
        ),
        (
            "CHG.RELEASE",
            with(
                held(),
                vec![
                    w("AT", Word, ""),
                    // It waits, so it goes by the server's own time.
                    w("0", Time, "AT"),
                    w("DONE", Word, ""),
                    w("crawl", Id, "execution"),
                    w("1", Number(1, i64::MAX), ""),
                    w("NEXT", Word, ""),
                    w("LEASE", Word, ""),
                    w("1000", Length(1), "LEASE"),
                    w("BLOCK", Word, ""),
                    w("1", Length(0), "BLOCK"),
                ],
            ),
        ),
        (
            "CHG.RELEASE",
            with(
                kept(),
                vec![
                    w("DELAY", Word, ""),
                    w("1000", Length(0), "DELAY"),
                    w("RETRY", Word, ""),
                    at("RETRY"),
                ],
            ),
        ),
        (
            "CHG.RELEASE",
            with(
                held(),
                vec![
                    w("ELAPSED", Word, ""),
                    w("1000", Length(0), "ELAPSED"),
                    w("FACTOR", Word, ""),
                    w("1.5", Factor, "FACTOR"),
                    w("MIN", Word, ""),
                    w("10", Length(0), "MIN"),
                    w("MAX", Word, ""),
                    w("5000", Length(0), "MAX"),
                    w("CRAWLDELAY", Word, ""),
                    w("10", Length(0), "CRAWLDELAY"),
                    w("RETRYAFTER", Word, ""),
                    w("10", Length(0), "RETRYAFTER"),
                    w("STATUS", Word, ""),
                    w("200", Status, "STATUS"),
                ],
            ),
        ),
        (
            "CHG.EXTEND",
            with(held(), vec![w("1000", Length(1), "milliseconds")]),
        ),
        (
            "CHG.SWEEP",
            vec![
                p(),
                w("LIMIT", Word, ""),
                w("5", Number(1, i64::MAX), "LIMIT"),
            ],
        ),
        (
            "CHG.EXPIRED",
            vec![p(), w("COUNT", Word, ""), w("5", Number(1, 1000), "COUNT")],
        ),
        (
            "CHG.BLOCK",
            vec![p(), known(), w("UNTIL", Word, ""), at("UNTIL")],
        ),
        ("CHG.PAUSE", vec![p(), known()]),
        ("CHG.RESUME", vec![p(), known()]),
        (
            "CHG.PAUSE",
            vec![p(), w("EXECUTION", Word, "syntax"), id("execution")],
        ),
        (
            "CHG.RESUME",
            vec![p(), w("EXECUTION", Word, "syntax"), id("execution")],
        ),
        (
            "CHG.LIMIT",
            vec![
                p(),
                id("chg"),
                w("PARALLEL", Word, ""),
                w("2", Number(1, 1000), "PARALLEL"),
                w("GAP", Word, ""),
                w("10", Length(0), "GAP"),
                w("DELAY", Word, ""),
                w("10", Number(-1, i64::MAX), "DELAY"),
                w("BUDGET", Word, ""),
                w("10", Number(-1, i64::MAX), "BUDGET"),
            ],
        ),
        (
            "CHG.GROUP",
            vec![p(), w("shared", Shared, "group"), id("chg"), id("chg")],
        ),
        ("CHG.DROP", vec![p(), id("execution")]),
        ("CHG.DROP", vec![p(), w("GROUP", Word, ""), id("chg")]),
        ("CHG.MOVE", vec![p(), known(), id("to")]),
        ("CHG.WHY", vec![p(), known()]),
        ("CHG.INFO", vec![p()]),
        (
            "CHG.LIST",
            vec![
                p(),
                w("STATE", Word, ""),
                w("waiting", Word, "STATE"),
                w("CURSOR", Word, ""),
                w("0", Word, "CURSOR"),
                w("COUNT", Word, ""),
                w("5", Number(1, 1000), "COUNT"),
            ],
        ),
        (
            "CHG.URIS",
            vec![
                p(),
                known(),
                w("CURSOR", Word, ""),
                w("0", Word, "CURSOR"),
                w("COUNT", Word, ""),
                w("5", Number(1, 1000), "COUNT"),
            ],
        ),
        ("CHG.CHECK", vec![p()]),
        ("CHG.REPAIR", vec![p()]),
    ]
}

/// Bad values for an argument of this kind, with what the error must say (any of these words; none
/// when anything will do).
fn mutations(kind: Kind, name: &'static str) -> Vec<(Vec<u8>, Vec<&'static str>)> {
    let huge = vec![b'x'; 2 << 20];
    let no_numbers = [
        "",
        "x",
        "1.5",
        "1e3",
        " 1",
        "9223372036854775808",
        "0x10",
        "+1",
        "5\0",
        "soon",
        "--1",
    ];
    let bad = |values: &[&str], says: &[&'static str]| -> Vec<(Vec<u8>, Vec<&'static str>)> {
        let pair = |v: &&str| (v.as_bytes().to_vec(), says.to_vec());
        values.iter().map(pair).collect()
    };
    let too_far = (T0 + TEN_YEARS + 10 * 86_400_000).to_string();
    let too_long = (TEN_YEARS + 10 * 86_400_000).to_string();
    // An optional number that is none is taken for something else, and that is named.
    let named = |says: &'static str| -> Vec<&'static str> {
        [says].into_iter().filter(|says| !says.is_empty()).collect()
    };
    let mut all = match kind {
        Prefix => bad(&[], &[]),
        Known => [
            bad(&[""], &[name, "chg", "from"]),
            bad(&["nobody", "%n%s", "\u{e9}\r\n"], &["NOCHG"]),
            vec![(vec![b'x'; 1025], vec![name, "from"])],
        ]
        .concat(),
        Id => [bad(&[""], &[name]), vec![(vec![b'x'; 1025], vec![name])]].concat(),
        Shared => vec![(vec![b'x'; 1025], vec![name])],
        Time => [
            bad(&no_numbers, &[name]),
            bad(&["-1", &too_far, "9223372036854775807"], &[name]),
        ]
        .concat(),
        Length(least) => {
            let below = (least - 1).to_string();
            [
                bad(&no_numbers, &[name]),
                bad(&[&below, "-1", &too_long, "9223372036854775807"], &[name]),
            ]
            .concat()
        }
        Number(least, most) => {
            let mut all = bad(&no_numbers, &named(name));
            all.extend(bad(&[&(least - 1).to_string()], &named(name)));
            if most < i64::MAX {
                all.extend(bad(&[&(most + 1).to_string()], &named(name)));
            }
            all
        }
        Factor => bad(
            &[
                "", "x", "-1", "1001", "nan", "inf", "1e400", "1,5", " 1", "1.5.5",
            ],
            &[name],
        ),
        Status => bad(&["", "x", "1000", "-10000", "20.0", "2e2"], &[name]),
        Token => [
            bad(&["", "x", "1.5", "-1"], &[name, "STALE"]),
            bad(&["1", "9223372036854775807"], &["STALE"]),
        ]
        .concat(),
        Uri => [bad(&[""], &[name]), vec![(vec![b'x'; 65_537], vec![name])]].concat(),
        Word => bad(&["", "NONSENSE", "\0\r\n"], &[]),
    };
    // Whatever it is: two megabytes are too many.
    all.push((huge, vec![]));
    all
}

fn digest(c: &mut Wire) -> String {
    ok!(c, "DEBUG", "DIGEST").text()
}

/// A frontier with a group in every state. Built twice, it is the same.
fn stage(server: &Server) -> (Frontier, BusyFrontier) {
    let mut f = Frontier::at(server, T0);
    ok!(f.wire, "FLUSHALL");
    let out = BusyFrontier::build(&mut f);
    (f, out)
}

/// The words of a call at the simulated time of `f`, unless it brings its own or waits.
fn words(f: &Frontier, name: &str, args: &Call) -> Vec<Vec<u8>> {
    let mut words = vec![name.as_bytes().to_vec()];
    words.extend(args.iter().map(|(word, ..)| word.clone().into_bytes()));
    let timed = args
        .iter()
        .any(|(word, ..)| word == "NOW" || word == "BLOCK");
    if !timed {
        let now = f.now.expect("simulated").to_string();
        words.splice(2..2, [b"NOW".to_vec(), now.into_bytes()]);
    }
    words
}

#[test]
fn good_calls_are_good() {
    let server = simulated().start();
    let (_, out) = stage(&server);
    for (name, args) in calls(&out) {
        let (mut f, _) = stage(&server);
        let words = words(&f, name, &args);
        f.wire.expect_ok(&words);
    }
}

#[test]
fn bad_arguments_are_named_and_change_nothing() {
    let mut server = simulated().start();
    let (mut f, out) = stage(&server);
    let mut before = digest(&mut f.wire);
    let mut faults = Vec::new();
    for (name, args) in calls(&out) {
        for (position, (_, kind, called)) in args.iter().enumerate() {
            for (bad, says) in mutations(*kind, called) {
                let mut words = words(&f, name, &args);
                let offset = words.len() - args.len();
                let at = if position == 0 { 1 } else { position + offset };
                words[at] = bad.clone();
                let told = bad[..bad.len().min(20)].escape_ascii().to_string();
                let what = format!("{name} {called} {kind:?} (argument {at}) = '{told}'");
                let reply = f.wire.call(&words);
                if digest(&mut f.wire) != before {
                    faults.push(format!("{what}: changed the data set, said {reply:?}"));
                    (f, _) = stage(&server);
                    before = digest(&mut f.wire);
                }
                match reply {
                    Reply::Error(line) => {
                        let line = String::from_utf8_lossy(&line).into_owned();
                        faults.extend(not_an_error_line(&line).map(|why| format!("{what}: {why}")));
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
    let count = faults.len();
    assert!(faults.is_empty(), "{count} faults\n{}", faults.join("\n"));
}

/// What is wrong with the form of this error line.
fn not_an_error_line(line: &str) -> Option<String> {
    let code = line.split(' ').next().unwrap_or_default();
    let coded = !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase());
    if !coded || line.len() < code.len() + 5 {
        return Some(format!("no code word and sentence: {line}"));
    }
    (!line.is_ascii() || line.len() > 1000).then(|| format!("not short ASCII: {line}"))
}

#[test]
fn cut_and_overlong_calls_are_refused_or_do_no_harm() {
    let server = simulated().start();
    let (mut f, out) = stage(&server);
    let mut faults = Vec::new();
    for (name, args) in calls(&out) {
        let good = words(&f, name, &args);
        let mut before = digest(&mut f.wire);
        let mut longer = good.clone();
        longer.push(b"and more".to_vec());
        let mut variants = vec![longer];
        variants.extend((1..good.len()).map(|n| good[..n].to_vec()));
        for (n, words) in variants.into_iter().enumerate() {
            let reply = f.wire.call(&words);
            let shown: Vec<_> = words.iter().map(|w| w.escape_ascii().to_string()).collect();
            let changed = digest(&mut f.wire) != before;
            if reply.is_error() && changed {
                faults.push(format!(
                    "{shown:?} said {reply:?}, but changed the data set"
                ));
            }
            let lists = ["CHG.GROUP"].contains(&name);
            if n == 0 && !lists && !reply.is_error() {
                faults.push(format!("{shown:?} said {reply:?}"));
            }
            if changed {
                (f, _) = stage(&server);
                before = digest(&mut f.wire);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn contradictory_options_are_refused() {
    let server = simulated().start();
    let (mut f, out) = stage(&server);
    let before = digest(&mut f.wire);
    let (held, kept) = (out.held.token, out.kept.token);
    let own = out.kept.execution.expect("kept");
    let other = if own == "crawl" { "other" } else { "crawl" };
    for line in [
        format!("RELEASE held {held}"),
        format!("RELEASE held {held} AT 0 DELAY 5"),
        format!("RELEASE held {held} DELAY 5 MIN 3"),
        format!("RELEASE held {held} ELAPSED 5 MIN 30 MAX 20"),
        format!("RELEASE held {held} AT 0 DONE crawl RETRY 0"),
        format!("RELEASE held {held} AT 0 RETRY 0 DONE crawl"),
        format!("RELEASE held {held} AT 0 NEXT DONE crawl"),
        format!("RELEASE held {held} AT 0 NEXT BLOCK 5"),
        format!("RELEASE kept {kept} AT 0 DONE {other}"),
        format!("RELEASE kept {kept} AT 0 DONE {own} 2"),
        "NEXT BLOCK 5".to_owned(),
        "NEXT LEASE 5 LEASE 6 LEASE 7 COUNT".to_owned(),
        "LIMIT held".to_owned(),
        "NEXT GROUP".to_owned(),
        "NEXT GROUP nowhere".to_owned(),
        "NEXT GROUP held COUNT 1".to_owned(),
        "NEXT BLOCK 0 GROUP held".to_owned(),
        format!("RELEASE held {held}"),
        format!("RELEASE held {held} DONE crawl"),
        "MOVE waiting waiting".to_owned(),
        "ADD crawl".to_owned(),
        "ADD crawl host".to_owned(),
        "ADD crawl SEQ w 1".to_owned(),
        "ADDURI crawl WEIGHT 3".to_owned(),
        "ADDURI crawl host 0 0".to_owned(),
        "GROUP shared".to_owned(),
        "BLOCK waiting".to_owned(),
        "PAUSE EXECUTION".to_owned(),
    ] {
        let error = f.err(&line);
        assert_eq!(not_an_error_line(&error), None, "{line}");
        assert_eq!(digest(&mut f.wire), before, "{line}: {error}");
    }
}

#[test]
fn moving_a_leased_group_is_refused() {
    let server = simulated().start();
    let (mut f, _) = stage(&server);
    let before = digest(&mut f.wire);
    let error = f.err("MOVE held elsewhere");
    assert!(
        error.starts_with("LEASED ") && error.contains("held"),
        "{error}"
    );
    assert_eq!(digest(&mut f.wire), before);
}

#[test]
fn simulated_time_is_refused_by_default() {
    let server = Server::start();
    let mut f = Frontier::at(&server, T0);
    for line in [
        "ADD crawl host 0",
        "NEXT",
        "SWEEP",
        "EXPIRED",
        "WHY host",
        "INFO",
        "LIST",
        "URIS host",
        "CHECK",
        "REPAIR",
        "DROP crawl",
        "PAUSE host",
    ] {
        let error = f.err(line);
        assert!(
            error.starts_with("ERR ") && error.contains("NOW"),
            "{line}: {error}"
        );
        assert!(error.contains("chg-simulated-time"), "{line}: {error}");
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
    let setting = ok!(f.wire, "CONFIG", "GET", "crawlspace.chg-simulated-time");
    assert_eq!(setting.pairs()[0].1.text(), "no");
    ok!(
        f.wire,
        "CONFIG",
        "SET",
        "crawlspace.chg-simulated-time",
        "yes"
    );
    f.add("crawl", "host", T0);
    f.take("host");
}

#[test]
fn execution_called_now_is_an_execution() {
    let server = Server::start();
    let mut f = Frontier::real(&server);
    // Only NOW and an integer are the time.
    assert_eq!(f.ok("ADD NOW host 0").ints(), [1]);
    assert_eq!(f.queued("NOW"), 1);
    let lease = f.take("host");
    f.release(&lease, "AT 0 DONE NOW");
    f.assert_conserved();
}

#[test]
fn ids_are_any_bytes() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![b'y'; 1024];
    let odd: [&[u8]; 9] = [
        b"\0",
        b"\r\n",
        b" ",
        b"EXECUTION",
        b"NEXT",
        b"SEQ",
        b"chg_wait",
        &all,
        &long,
    ];
    for id in odd {
        let now = T0.to_string().into_bytes();
        let add: [&[u8]; 7] = [b"CHG.ADD", b"{f}:", b"NOW", &now, id, id, b"0"];
        assert_eq!(f.wire.expect_ok(&add).ints(), [1], "{}", id.escape_ascii());
        let reply = f.ok("NEXT");
        let lease = &reply.items()[0];
        assert_eq!(lease.items()[0].bytes(), id);
        let token = lease.items()[1].int().to_string().into_bytes();
        let done: [&[u8]; 10] = [
            b"CHG.RELEASE",
            b"{f}:",
            b"NOW",
            &now,
            id,
            &token,
            b"AT",
            b"0",
            b"DONE",
            id,
        ];
        f.wire.expect_ok(&done);
        f.assert_conserved();
        assert_eq!(f.total(), 0);
    }
}

#[test]
fn times_as_far_as_ten_years_are_taken() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let far = TEN_YEARS - 86_400_000;
    f.add("crawl", "far", T0 + far);
    assert_eq!(f.due("far"), Some(T0 + far));
    f.add("crawl", "host", T0);
    let lease = Lease::only(&f.ok(format!("NEXT LEASE {far}")));
    assert_eq!(lease.deadline, T0 + far);
    assert_eq!(f.release(&lease, format!("DELAY {far}")), T0 + far);
}

#[test]
fn keys_of_another_type_are_named_and_nothing_is_half_written() {
    let server = simulated().start();
    let (mut f, out) = stage(&server);
    let keys = [
        "CHG:waiting",
        "CHG:held",
        "CHG:kept",
        "chg_wait",
        "chg_busy",
        "chg_ready",
        "EIDC",
        "QCT",
        "chg_uris:kept",
        "chg_idle",
        "chg_token",
        "chg_past",
        "chg_paused",
        "chg_seq:crawl",
        "chg_expired",
        "chg_gate:shared",
        "chg_gated:shared",
    ];
    let mut faults = Vec::new();
    let mut named = std::collections::BTreeSet::new();
    for key in keys {
        let key = f.key(key);
        for wrong in [
            &["SET", &key, "x"][..],
            &["RPUSH", &key, "x"],
            &["HSET", &key, "f", "v"],
            &["SADD", &key, "x"],
        ] {
            let spoil = |f: &mut Frontier| {
                ok!(f.wire, "DEL", key);
                f.wire.expect_ok(wrong);
            };
            (f, _) = stage(&server);
            spoil(&mut f);
            let mut before = digest(&mut f.wire);
            for (name, args) in calls(&out) {
                let words = words(&f, name, &args);
                let reply = f.wire.call(&words);
                let changed = digest(&mut f.wire) != before;
                if let Reply::Error(line) = &reply {
                    let line = String::from_utf8_lossy(line).into_owned();
                    if line.starts_with("WRONGTYPE ") {
                        if line.contains(&key) {
                            named.insert(key.clone());
                        } else {
                            faults.push(format!("{wrong:?}, {name}: does not name {key}: {line}"));
                        }
                    }
                    if changed {
                        faults.push(format!("{wrong:?}, {name}: half written, said {line}"));
                    }
                }
                if changed {
                    (f, _) = stage(&server);
                    spoil(&mut f);
                    before = digest(&mut f.wire);
                }
            }
        }
    }
    for key in &keys[..9] {
        let key = f.key(key);
        if !named.contains(&key) {
            faults.push(format!("no command names {key} when it has a wrong type"));
        }
    }
    assert_eq!(server.info_number("panics"), 0);
    let count = faults.len();
    assert!(faults.is_empty(), "{count} faults\n{}", faults.join("\n"));
}

#[test]
fn garbage_in_fields_does_no_harm() {
    let mut server = simulated().start();
    let garbage: [&[u8]; 8] = [
        b"",
        b"x",
        b"-1",
        b"-9223372036854775808",
        b"99999999999999999999",
        b"\xff\0 \r\n",
        b"1 2 3 4 5 6 7 8",
        b"1e308",
    ];
    let (mut f, _) = stage(&server);
    let mut fields = Vec::new();
    for key in ok!(f.wire, "KEYS", "*").texts() {
        if ok!(f.wire, "TYPE", key).text() == "hash" {
            let names = ok!(f.wire, "HKEYS", key).texts();
            fields.extend(names.into_iter().map(|field| (key.clone(), field)));
        }
    }
    assert!(fields.len() > 20, "{fields:?}");
    for (key, field) in fields {
        for value in garbage {
            let (mut f, out) = stage(&server);
            ok!(f.wire, "HSET", key, field, value);
            for (name, args) in calls(&out) {
                let words = words(&f, name, &args);
                if let Reply::Error(line) = f.wire.call(&words) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    assert_eq!(not_an_error_line(&line), None, "{key} {field} {name}");
                }
            }
            let panics = server.info_number("panics");
            assert_eq!(panics, 0, "{key} {field} = {}", value.escape_ascii());
        }
    }
    assert!(server.is_alive());
    let (mut f, _) = stage(&server);
    f.assert_conserved();
}

#[test]
fn scores_and_members_that_make_no_sense_do_no_harm() {
    let mut server = simulated().start();
    for (queue, score, member) in [
        ("chg_wait", "-inf", "waiting"),
        ("chg_wait", "inf", "waiting"),
        ("chg_wait", "-5", ""),
        ("chg_wait", "1e300", "nobody"),
        ("chg_busy", "-inf", "held"),
        ("chg_busy", "inf", "held"),
        ("chg_busy", "0", "nobody"),
        ("chg_busy", "0", ""),
        ("chg_idle", "-inf", "idle"),
        ("chg_idle", "0", "waiting"),
        ("chg_idle", "0", ""),
        ("chg_past", "0", "waiting"),
    ] {
        let (mut f, out) = stage(&server);
        let key = f.key(queue);
        ok!(f.wire, "ZADD", key, score, member);
        for (name, args) in calls(&out) {
            let words = words(&f, name, &args);
            f.wire.call(&words);
        }
        assert_eq!(server.info_number("panics"), 0, "{queue} {score} {member}");
        f.ok("REPAIR");
        f.assert_conserved();
    }
    let long = "z".repeat(5000);
    let (mut f, _) = stage(&server);
    ok!(f.wire, "LPUSH", "{f}:chg_ready", "", long, "\0");
    for _ in 0..5 {
        f.call("NEXT");
    }
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
}
