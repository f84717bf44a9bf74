//! `kill -9` in the middle of PACK and UNPACK, and of a commit and a removal on a packed index: the
//! same command again finishes it, and the index is that of an undisturbed run.

use redis_tests::{
    Crawl, Options, Reply, Server, Snapshot, Wire, add, assert_consistent, begin_change, commit,
    indexed, int, moved, ok, owners, plain_view, storage_of, until,
};

const P: &str = "p:";
/// Hashes of each committed crawl, of which half are in both, and of the index.
const A: u64 = 16_000;
const ALL: u64 = 24_000;
/// Hashes of the index when the open crawl is committed, too.
const WHOLE: u64 = 28_000;

/// Two committed crawls that share hashes, and one that is open.
fn build(c: &mut Wire) {
    for (id, first) in [("a", 0), ("b", 8_000)] {
        Crawl::of(P, id, first..first + A).add(c);
        commit(c, P, id);
    }
    Crawl::of(P, "open", 12_000..28_000).add(c);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
}

/// The owner of a hash while `a` and `b` are committed and nothing else is.
fn owner(n: u64) -> &'static str {
    match n {
        0..A => "a",
        A..ALL => "b",
        _ => "-",
    }
}

fn assert_nothing_is_missed(c: &mut Wire, when: &str) {
    let sample = || (0..WHOLE).step_by(199);
    let seen = owners(c, P, sample());
    assert!(seen.iter().eq(sample().map(owner)), "{when}: {seen:?}");
    assert_eq!(indexed(c, P), ALL as i64, "{when}");
}

/// What an undisturbed run of `commands` leaves, as plain keys.
fn undisturbed(storage: Options, commands: &[&[&str]]) -> (Snapshot, Vec<Reply>) {
    let server = storage.start();
    let mut c = server.wire();
    build(&mut c);
    let replies = commands.iter().map(|words| c.expect_ok(words)).collect();
    let view = plain_view(&mut c, P);
    (view.without_storage(), replies)
}

fn killed(server: &mut Server, waiting: &mut Wire) {
    server.kill_under(waiting);
    ok!(server.wire(), "CONFIG", "SET", "crawlspace.slice-us", 50);
}

/// The hashes that are in plain keys while the storage changes.
fn plain_part(c: &mut Wire, name: &str) -> i64 {
    match name {
        "DEDUPE.PACK" => ok!(c, "HLEN", "p:moving").int(),
        _ => match c.call(&["HLEN", "p:allhashes"]) {
            Reply::Int(n) => n,
            _ => 0,
        },
    }
}

/// Kills a change of storage again and again; a little further each time.
fn change_survives_kill9(preamble: bool) {
    let server_options = Options::new().plain().aof_unsynced(preamble);
    let mut server = server_options.start();
    build(&mut server.wire());
    let before = plain_view(&mut server.wire(), P).without_storage();
    for (name, storage) in [("DEDUPE.PACK", "packed"), ("DEDUPE.UNPACK", "plain")] {
        let mut total = 0;
        for quarter in 1..4 {
            let mut c = server.wire();
            let mut changer = begin_change(&server, name, P);
            let done = ALL as i64 * quarter / 4;
            until("a part has moved", || {
                assert!(
                    !changer.has_reply(),
                    "{name} was over too soon for this test"
                );
                let plain = plain_part(&mut c, name);
                let moved = if name == "DEDUPE.PACK" {
                    ALL as i64 - plain
                } else {
                    plain
                };
                moved >= done
            });
            if quarter == 2 {
                ok!(c, "BGREWRITEAOF");
                server.until_rewritten();
                if changer.has_reply() {
                    // It ended during the rewrite, which is well tested by that.
                    total = moved(&changer.recv()).1;
                    server.restart();
                    break;
                }
            }
            killed(&mut server, &mut changer);
            let mut c = server.wire();
            assert!(
                storage_of(&mut c, P).ends_with("ing"),
                "{}",
                storage_of(&mut c, P)
            );
            assert_nothing_is_missed(&mut c, &format!("{name} cut short"));
        }
        let mut c = server.wire();
        let reply = moved(&ok!(c, name, P));
        assert_eq!(reply.0, storage);
        assert!(reply.1 > 0 || total > 0, "{reply:?}");
        assert_nothing_is_missed(&mut c, &format!("{name} run again"));
        assert_eq!(ok!(c, "EXISTS", "p:moving"), int(0));
        let after = plain_view(&mut c, P).without_storage();
        after.assert_same(&before, &format!("{name} with interruptions"));
        assert_consistent(&mut c, P);
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
fn a_change_cut_short_can_be_turned_round() {
    let mut server = Options::new().plain().aof_unsynced(true).start();
    build(&mut server.wire());
    let before = plain_view(&mut server.wire(), P).without_storage();
    let mut packer = begin_change(&server, "DEDUPE.PACK", P);
    killed(&mut server, &mut packer);
    let mut c = server.wire();
    assert_nothing_is_missed(&mut c, "PACK cut short");
    assert_eq!(moved(&ok!(c, "DEDUPE.UNPACK", P)).0, "plain");
    let after = server.snapshot().without_storage();
    after.assert_same(&before, "UNPACK after half a PACK");
    ok!(c, "DEDUPE.PACK", P);
    let mut unpacker = begin_change(&server, "DEDUPE.UNPACK", P);
    killed(&mut server, &mut unpacker);
    let mut c = server.wire();
    assert_nothing_is_missed(&mut c, "UNPACK cut short");
    assert_eq!(moved(&ok!(c, "DEDUPE.PACK", P)).0, "packed");
    assert_nothing_is_missed(&mut c, "PACK after half an UNPACK");
    let after = plain_view(&mut c, P).without_storage();
    after.assert_same(&before, "PACK after half an UNPACK");
    assert_consistent(&mut c, P);
}

#[test]
fn commands_work_on_an_index_whose_change_was_cut_short() {
    let commands: [&[&str]; 2] = [&["DEDUPE.COMMIT", P, "open"], &["DEDUPE.REMOVE", P, "a"]];
    let (expected, replies) = undisturbed(Options::new().plain(), &commands);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let mut server = Options::new().plain().aof_unsynced(true).start();
        let mut c = server.wire();
        build(&mut c);
        if name == "DEDUPE.UNPACK" {
            ok!(c, "DEDUPE.PACK", P);
        }
        let mut changer = begin_change(&server, name, P);
        killed(&mut server, &mut changer);
        let mut c = server.wire();
        for (words, expected) in commands.iter().zip(&replies) {
            assert_eq!(
                c.expect_ok(words),
                *expected,
                "{words:?} after half a {name}"
            );
        }
        // Nothing is wrong but that it is not done.
        let repair = ok!(c, "DEDUPE.REPAIR", P);
        assert_eq!(repair.field("repaired"), int(0), "{repair:?}");
        assert_eq!(repair.field("interrupted"), int(1), "{repair:?}");
        let view = plain_view(&mut c, P).without_storage();
        view.assert_same(&expected, &format!("after half a {name}"));
        ok!(c, name, P);
        let view = plain_view(&mut c, P).without_storage();
        view.assert_same(&expected, &format!("after the other half of a {name}"));
        assert_consistent(&mut c, P);
    }
}

fn job_survives_kill9(words: &[&str], is_half_way: impl Fn(&mut Wire) -> bool, preamble: bool) {
    let (expected, replies) = undisturbed(Options::new().plain(), &[words]);
    let mut server = Options::new().packed().aof_unsynced(preamble).start();
    let mut c = server.wire();
    build(&mut c);
    let mut waiting = server.wire();
    waiting.send(words);
    until("the job is half way", || {
        assert!(
            !waiting.has_reply(),
            "{words:?} was over too soon for this test"
        );
        is_half_way(&mut c)
    });
    killed(&mut server, &mut waiting);
    let mut c = server.wire();
    let seen = owners(&mut c, P, (0..WHOLE).step_by(199));
    for (n, seen) in (0..WHOLE).step_by(199).zip(seen) {
        let right = match words[0] {
            "DEDUPE.REMOVE" => {
                owner(n) == seen || [("a", "b"), ("a", "-")].contains(&(owner(n), &seen))
            }
            _ => owner(n) == seen,
        };
        assert!(right, "{n} is {seen}'s after half a {words:?}");
    }
    // A removal that was cut short says all of its figures in the end.
    assert_eq!(c.expect_ok(words), replies[0], "{words:?} again");
    let view = plain_view(&mut c, P);
    let view = view.without_counters();
    view.assert_same(&expected.without_counters(), &format!("{words:?}"));
    assert_consistent(&mut c, P);
    server.restart();
    assert_consistent(&mut server.wire(), P);
}

#[test]
fn killed_commit_on_a_packed_index_finishes_when_run_again() {
    let half = |c: &mut Wire| indexed(c, P) > 25_600;
    job_survives_kill9(&["DEDUPE.COMMIT", P, "open"], half, false);
}

#[test]
fn killed_removal_on_a_packed_index_finishes_when_run_again() {
    let half = |c: &mut Wire| indexed(c, P) < 20_000;
    job_survives_kill9(&["DEDUPE.REMOVE", P, "a"], half, true);
}

#[test]
fn killed_commit_on_a_packed_index_can_be_canceled() {
    let mut server = Options::new().packed().aof_unsynced(true).start();
    let mut c = server.wire();
    build(&mut c);
    let before = plain_view(&mut c, P).without(|key| key.starts_with(b"p:h:open"));
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "open"]);
    until("the commit is under way", || indexed(&mut c, P) > 24_800);
    killed(&mut server, &mut committer);
    let mut c = server.wire();
    assert_nothing_is_missed_after_cancel(&mut c);
    let after = plain_view(&mut c, P).without_counters();
    let open = |key: &[u8]| key.ends_with(b"uncommittedcrawls");
    after
        .without(open)
        .assert_same(&before.without_counters().without(open), "CANCEL");
    assert_consistent(&mut c, P);
}

fn assert_nothing_is_missed_after_cancel(c: &mut Wire) {
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "open"), int(16_000));
    assert_nothing_is_missed(c, "after CANCEL");
}

#[test]
fn a_change_survives_a_reload_and_a_shutdown() {
    let mut server = Options::new().plain().rdb().start();
    let mut c = server.wire();
    build(&mut c);
    let before = plain_view(&mut c, P).without_storage();
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        begin_change(&server, name, P).hang_up();
        server.shutdown();
        server.restart();
        let mut c = server.wire();
        ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        assert_nothing_is_missed(&mut c, "after a shutdown");
        let mut changer = begin_change(&server, name, P);
        ok!(c, "DEBUG", "RELOAD");
        changer.recv();
        server.until_idle();
        assert_nothing_is_missed(&mut c, "after a reload");
        ok!(c, name, P);
        let after = plain_view(&mut c, P).without_storage();
        after.assert_same(&before, name);
    }
    add(&mut server.wire(), P, "more", 120_000..120_010);
    assert_eq!(commit(&mut server.wire(), P, "more"), (10, 0));
    assert_consistent(&mut server.wire(), P);
}
