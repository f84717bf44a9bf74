//! `kill -9` during `PACK` and `UNPACK`, and during a commit and a removal on a packed index: the
//! same command completes the interrupted job, and the index equals that of an undisturbed run.

use redis_tests::{DedupeIndex, Options, Reply, Server, Snapshot, Wire, cmd, int, moved, until};

const P: &str = "p:";
/// Number of hashes of each committed crawl (half of them are in both crawls), and of the index.
const A: u64 = 16_000;
const ALL: u64 = 24_000;
/// Number of hashes of the index after the uncommitted crawl is committed, too.
const WHOLE: u64 = 28_000;

/// Creates two committed crawls that share hashes, and an uncommitted crawl.
fn build(c: &mut DedupeIndex) {
    for (id, first) in [("a", 0), ("b", 8_000)] {
        c.committed(id, first..first + A);
    }
    c.add("open", 12_000..28_000);
    c.plain("CONFIG SET crawlspace.slice-us 50");
}

/// Returns the owner of a hash while only `a` and `b` are committed.
fn owner(n: u64) -> &'static str {
    match n {
        0..A => "a",
        A..ALL => "b",
        _ => "-",
    }
}

fn assert_nothing_is_missed(c: &mut DedupeIndex, when: &str) {
    let sample = || (0..WHOLE).step_by(199);
    let seen = c.owners(sample());
    assert!(seen.iter().eq(sample().map(owner)), "{when}: {seen:?}");
    assert_eq!(c.indexed(), ALL as i64, "{when}");
}

/// Returns the plain keys and the replies of an undisturbed run of these lines.
fn undisturbed(lines: &[&str]) -> (Snapshot, Vec<Reply>) {
    let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    build(&mut c);
    let replies = lines.iter().map(|line| c.ok(line)).collect();
    (c.plain_view(), replies)
}

fn killed(server: &mut Server, mut waiting: Wire) -> DedupeIndex {
    server.kill_under(&mut waiting);
    let mut c = DedupeIndex::of(server, P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c
}

/// Returns the number of hashes in plain keys during a storage conversion.
fn plain_part(c: &mut DedupeIndex, name: &str) -> i64 {
    match name {
        "PACK" => c.plain("HLEN p:moving").int(),
        _ => match cmd!(c.wire(), "HLEN", "p:allhashes") {
            Reply::Int(n) => n,
            _ => 0,
        },
    }
}

/// Kills the server several times during a storage conversion, each time a little later.
fn change_survives_kill9(preamble: bool) {
    let options = Options::new().plain().aof_unsynced(preamble);
    let (mut server, mut c) = DedupeIndex::on(options, P);
    build(&mut c);
    let before = c.plain_view();
    for (name, storage) in [("PACK", "packed"), ("UNPACK", "plain")] {
        let (mut total, mut kills) = (0, 0);
        for quarter in 1..4 {
            let mut c = DedupeIndex::of(&server, P);
            let mut changer = c.begun(name);
            let done = ALL as i64 * quarter / 4;
            until("a part has moved", || {
                let plain = plain_part(&mut c, name);
                let packed = ALL as i64 - plain;
                changer.has_reply() || done <= if name == "PACK" { packed } else { plain }
            });
            if quarter == 2 {
                c.plain("BGREWRITEAOF");
                server.until_rewritten();
            }
            if changer.has_reply() {
                // The conversion ended during the rewrite, or before this process was scheduled
                // again.
                total = moved(&changer.recv()).1;
                server.restart();
                break;
            }
            kills += 1;
            let mut c = killed(&mut server, changer);
            assert!(c.storage().ends_with("ing"), "{}", c.storage());
            assert_nothing_is_missed(&mut c, &format!("{name} cut short"));
        }
        assert!(
            kills > 0,
            "{name} ended before its first quarter was observed"
        );
        let mut c = DedupeIndex::of(&server, P);
        let reply = c.change(name);
        assert_eq!(reply.0, storage);
        assert!(reply.1 > 0 || total > 0, "{reply:?}");
        assert_nothing_is_missed(&mut c, &format!("{name} run again"));
        assert_eq!(c.plain("EXISTS p:moving"), int(0));
        let after = c.plain_view();
        after.assert_same(&before, &format!("{name} with interruptions"));
        c.assert_consistent();
    }
}

#[test]
fn killed_changes_finish_after_an_append_only_file_with_preamble() {
    change_survives_kill9(true);
}

#[test]
fn killed_changes_finish_after_an_append_only_file_without_preamble() {
    change_survives_kill9(false);
}

#[test]
fn commands_work_on_an_index_whose_change_was_cut_short() {
    let lines = ["COMMIT open", "REMOVE a"];
    let (expected, replies) = undisturbed(&lines);
    for name in ["PACK", "UNPACK"] {
        let (mut server, mut c) = DedupeIndex::on(Options::new().plain().aof_unsynced(true), P);
        build(&mut c);
        if name == "UNPACK" {
            c.ok("PACK");
        }
        let changer = c.begun(name);
        let mut c = killed(&mut server, changer);
        for (line, expected) in lines.iter().zip(&replies) {
            assert_eq!(c.ok(line), *expected, "{line} after half a {name}");
        }
        // The only problem is that the conversion is incomplete.
        if name == "PACK" {
            c.tells("CHECK", "interrupted 1");
            c.tells("REPAIR", "interrupted 0");
        } else {
            c.tells("REPAIR", "repaired 0 interrupted 1");
        }
        let view = c.plain_view();
        view.assert_same(&expected, &format!("after half a {name}"));
        c.ok(name);
        let view = c.plain_view();
        view.assert_same(&expected, &format!("after the other half of a {name}"));
        c.assert_consistent();
    }
}

/// Kills the server during the job of a line, when this many hashes are indexed, and runs the line
/// again.
fn job_survives_kill9(line: &str, half_way: std::ops::Range<i64>, preamble: bool) {
    let (expected, replies) = undisturbed(&[line]);
    let (mut server, mut c) = DedupeIndex::on(Options::new().packed().aof_unsynced(preamble), P);
    build(&mut c);
    let mut waiting = c.sent(line);
    until("the job is half way", || {
        assert!(!waiting.has_reply(), "{line} ended too early");
        half_way.contains(&c.indexed())
    });
    let mut c = killed(&mut server, waiting);
    let seen = c.owners((0..WHOLE).step_by(199));
    for (n, seen) in (0..WHOLE).step_by(199).zip(seen) {
        let left = [("a", "b"), ("a", "-")].contains(&(owner(n), &seen));
        let right = owner(n) == seen || line.starts_with("REMOVE") && left;
        assert!(right, "{n} is {seen}'s after half a {line}");
    }
    // At the end, an interrupted removal reports its complete counts.
    assert_eq!(c.ok(line), replies[0], "{line} again");
    let view = c.plain_view().without_counters();
    view.assert_same(&expected.without_counters(), line);
    c.assert_consistent();
    server.restart();
    DedupeIndex::of(&server, P).assert_consistent();
}

#[test]
fn killed_commit_on_a_packed_index_finishes_when_run_again() {
    job_survives_kill9("COMMIT open", 25_601..i64::MAX, false);
}

#[test]
fn killed_removal_on_a_packed_index_finishes_when_run_again() {
    job_survives_kill9("REMOVE a", 0..20_000, true);
}

#[test]
fn killed_commit_on_a_packed_index_can_be_canceled() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().packed().aof_unsynced(true), P);
    build(&mut c);
    let before = c.plain_view().without_counters();
    let open = |key: &[u8]| key.starts_with(b"p:h:open") || key.ends_with(b"uncommittedcrawls");
    let committer = c.sent("COMMIT open");
    until("the commit is under way", || c.indexed() > 24_800);
    let mut c = killed(&mut server, committer);
    assert_eq!(c.ok("CANCEL open"), int(16_000));
    assert_nothing_is_missed(&mut c, "after CANCEL");
    let after = c.plain_view().without_counters();
    assert!(!after.names().iter().any(|key| key.starts_with("p:h:open")));
    after
        .without(open)
        .assert_same(&before.without(open), "CANCEL");
    c.assert_consistent();
}
