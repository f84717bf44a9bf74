//! Long jobs run in slices. The server serves other clients meanwhile. Events that affect the
//! server or the client between two slices must do no harm.

use std::time::Duration;

use redis_tests::{
    DATE, DedupeIndex, Options, array, assert_replicated, bulk, cmd, err, int, ok, record_of, rows,
    until,
};

const P: &str = "p:";

#[test]
fn others_are_served_while_jobs_run() {
    let (server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..120_000);
    for line in ["COMMIT a", "REMOVE a"] {
        let mut asker = c.sent(line);
        let mut served = 0;
        while !asker.has_reply() {
            c.plain("PING");
            served += 1;
        }
        asker.recv();
        assert!(served > 50, "only {served} PINGs during {line}");
    }
    assert!(server.info_number("slices") > 100);
    assert!(server.info_number("jobs_done") >= 2);
}

#[test]
fn progress_of_a_running_job_is_visible() {
    const RECORDS: u64 = 40_000;
    let (server, mut c) = DedupeIndex::in_slices("p,\u{e9}:");
    c.add("a", 0..RECORDS);
    let change = if c.storage() == "packed" {
        "UNPACK"
    } else {
        "PACK"
    };
    for line in ["COMMIT a", change, "REMOVE a"] {
        let mut asker = c.begun(line);
        let (work, of) = line.split_once(' ').unwrap_or((line, ""));
        let job = format!(
            "db=0,prefix=p\\x2c\\xc3\\xa9:,kind=index,work={},of={of},done=",
            work.to_lowercase()
        );
        let (mut of_info, mut of_crawls) = (Vec::new(), Vec::new());
        while !asker.has_reply() {
            if let Some(field) = server
                .info("job_0")
                .filter(|field| field.starts_with("db=0,prefix=p"))
            {
                let figures = field
                    .strip_prefix(&job)
                    .unwrap_or_else(|| panic!("{field}"));
                let (done, total) = figures.split_once(",total=").expect("of how many");
                of_info.push([done, total].map(|n| n.parse::<u64>().expect("a number")));
            }
            let crawl = c.call("CRAWLS").find("a");
            let progress = crawl.and_then(|crawl| crawl.find("progress"));
            of_crawls.extend(progress.map(|part| part.text().parse::<f64>().expect("a part")));
        }
        assert!(!asker.recv().is_error());
        let met = of_info
            .iter()
            .filter(|[done, total]| *total == RECORDS && done < total);
        assert!(met.count() > 5, "{line}: {of_info:?}");
        assert!(of_info.is_sorted(), "{line}: {of_info:?}");
        assert!(of_crawls.is_sorted(), "{line}: {of_crawls:?}");
        assert_eq!(of_crawls.len() > 5, line != change, "{line}: {of_crawls:?}");
        assert_eq!(server.info("job_0"), None);
    }
}

#[test]
fn jobs_of_two_indexes_run_at_the_same_time() {
    let (server, p) = DedupeIndex::in_slices(P);
    let mut both = [p, DedupeIndex::of(&server, "q:")];
    for c in &mut both {
        c.add("a", 0..24_000);
    }
    let mut jobs = both.each_ref().map(|c| c.sent("COMMIT a"));
    for (c, job) in both.iter_mut().zip(&mut jobs) {
        assert_eq!(job.recv().ints(), [24_000, 0]);
        assert_eq!(c.owners([0, 23_999]), ["a", "a"]);
        c.assert_consistent();
    }
}

#[test]
fn small_commit_beside_a_large_one_is_not_lost() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("large", 0..40_000);
    c.add("small", 39_995..40_005);
    let mut large = c.begun("COMMIT large");
    let small = c.commit("small");
    let large = large.recv().ints();
    let outcome = (small, large);
    let serial = [((5, 5), vec![40_000, 0]), ((10, 0), vec![39_995, 5])];
    assert!(serial.contains(&outcome), "{outcome:?}");
    c.assert_consistent();
}

#[test]
fn killed_connection_does_not_end_the_job() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..40_000);
    let mut committer = c.another();
    let id = committer.plain("CLIENT ID").int();
    committer.send("COMMIT a");
    until("the commit is under way", || {
        c.plain("EXISTS p:committing") == int(1)
    });
    c.plain(format!("CLIENT KILL ID {id}"));
    until("the commit is done", || c.set("allcrawls") == ["a"]);
    assert_eq!(c.commit("a"), (0, 0));
    c.assert_consistent();
}

#[test]
fn append_only_file_rewritten_during_a_job_is_whole() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(false), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("a", 0..60_000);
    let mut committer = c.begun("COMMIT a");
    c.plain("BGREWRITEAOF");
    assert_eq!(committer.recv().ints(), [60_000, 0]);
    server.until_rewritten();
    let digest = server.digest();
    server.restart();
    assert_eq!(server.digest(), digest);
    DedupeIndex::of(&server, P).assert_consistent();
}

#[test]
fn shutdown_during_a_job_leaves_a_state_that_can_be_completed() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().rdb(), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("a", 0..60_000);
    let _committer = c.begun("COMMIT a");
    server.shutdown();
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([0, 59_999]), ["-", "-"]);
    assert_eq!(c.commit("a"), (60_000, 0));
    c.assert_consistent();
}

#[test]
fn reload_during_a_job_harms_nothing() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..40_000);
    let mut committer = c.begun("COMMIT a");
    c.plain("DEBUG RELOAD");
    let reply = committer.recv();
    server.until_idle();
    let again = c.commit("a");
    let all = reply.is_error() && again == (40_000, 0);
    assert!(all || again == (0, 0), "{reply:?} {again:?}");
    assert_eq!(c.owners([0, 39_999]), ["a", "a"]);
    assert_eq!(c.plain("HGET p:allcounts totalUrls").text(), "40000");
    c.assert_consistent();
}

#[test]
fn lookups_and_adds_of_other_crawls_go_on_during_a_removal() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.committed("a", 0..40_000);
    c.committed("keep", 36_000..36_010);
    let mut remover = c.begun("REMOVE a");
    let mut added = 0;
    while !remover.has_reply() {
        c.add("new", [500_000 + added]);
        let seen = c.owners([36_005]);
        assert!(seen == ["a"] || seen == ["keep"], "{seen:?}");
        added += 1;
    }
    assert_eq!(remover.recv().ints(), [1, 39_990, 10]);
    assert_eq!(c.commit("new"), (added as i64, 0));
    c.assert_consistent();
}

#[test]
fn jobs_pause_while_a_script_runs() {
    // During a long script, the server replies to other clients with `BUSY`. Jobs must not write
    // then.
    let (server, mut c) = DedupeIndex::in_slices(P);
    let mut runner = server.wire();
    c.plain("CONFIG SET lua-time-limit 20");
    c.add("a", 0..80_000);
    let mut committer = c.begun("COMMIT a");
    let script = "local function hashes() \
                      local stats = redis.call('DEDUPE.STATS', KEYS[1]) \
                      for i = 1, #stats, 2 do \
                          if stats[i] == 'hashes' then return stats[i + 1] end \
                      end \
                  end \
                  local before = hashes() \
                  for i = 1, 100000000 do end \
                  return {before, hashes()}";
    runner.send(&["EVAL", script, "1", P]);
    until("other clients get BUSY while the script runs", || {
        assert!(!runner.has_reply(), "the script was too short");
        cmd!(c.wire(), "PING").is_error()
    });
    let lengths = runner.recv().ints();
    assert_eq!(lengths[0], lengths[1], "the script saw a concurrent change");
    assert!(lengths[0] < 80_000, "the commit had already ended");
    assert_eq!(committer.recv().ints(), [80_000, 0]);
    c.assert_consistent();
}

#[test]
fn module_cannot_be_unloaded_under_a_job() {
    let options = Options::new().args(&["--enable-module-command", "yes"]);
    let (_server, mut c) = DedupeIndex::on(options, P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("a", 0..40_000);
    c.begun("COMMIT a").hang_up();
    err!(c, "MODULE", "UNLOAD", "crawlspace");
    assert_eq!(c.commit("a"), (40_000, 0));
    err!(c, "MODULE", "UNLOAD", "crawlspace");
    c.assert_consistent();
}

/// Creates one crawl and its keys with a plain client, so that the module has no cached data of the
/// index.
fn cold(c: &mut DedupeIndex, p: &str, committed: bool) {
    let (set, hash) = if committed {
        ("allcrawls", "#1")
    } else {
        ("uncommittedcrawls", "#2")
    };
    c.plain(format!("HSET {p}h:c {hash} '0 {DATE} http://e.com/ 7'"));
    c.plain(format!("HSET {p}h:c:counts totalUrls 1"));
    c.plain(format!(r#"RPUSH {p}c:c:wacz {{"filename":"c.wacz"}}"#));
    c.plain(format!("SADD {p}{set} c"));
    if committed {
        c.plain(format!("HSET {p}allhashes {hash} c"));
        c.plain(format!("HSET {p}allcounts totalUrls 1"));
        c.plain(format!("SADD {p}src:d c.wacz"));
    }
}

#[test]
fn jobs_that_end_in_their_first_slice_harm_nothing() {
    // These commands delete keys that they have just read.
    let (server, mut c) = DedupeIndex::start(P);
    for round in 0..150 {
        for (command, committed, expected) in rows![
            "DEDUPE.CANCEL", false, int(1);
            "DEDUPE.COMMIT", false, array([int(1), int(0)]);
            "DEDUPE.REMOVE", true, array([int(1), int(1), int(0)]);
        ] {
            let mut prefix = |way: &str| {
                let p = format!("{command}-{round}-{way}:");
                cold(&mut c, &p, committed);
                p
            };
            let [direct, multi, script] = ["direct", "multi", "script"].map(&mut prefix);
            assert_eq!(ok!(c, command, direct, "c"), expected);
            c.plain("MULTI");
            ok!(c, command, multi, "c");
            assert_eq!(c.plain("EXEC").items()[0], expected);
            let call = "return redis.call(ARGV[1], KEYS[1], 'c')";
            assert_eq!(ok!(c, "EVAL", call, 1, script, command), expected);
        }
        c.plain("FLUSHALL");
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn work_on_thousands_of_small_crawls_runs_in_slices() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    let crawls = 3000;
    for n in 0..crawls {
        c.committed(&format!("crawl-{n}"), [n]);
    }
    let kept = (0..crawls).step_by(2).map(|n| format!(" crawl-{n}"));
    let retain = format!("RETAIN PURGE{}", kept.collect::<String>());
    for line in ["CHECK", "REPAIR", "CRAWLS", &retain, "CHECK"] {
        let before = server.info_number("slices");
        c.ok(line);
        let slices = server.info_number("slices") - before;
        assert!(slices > 20, "{line:.20} went in {slices} slices");
    }
    c.assert_consistent();
}

#[test]
fn large_jobs_run_through_inside_a_transaction() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..12_000);
    c.plain("MULTI");
    c.ok("COMMIT a");
    c.ok("LOOKUP #11999");
    let committed = array([int(12_000), int(0)]);
    let found = array([record_of("a", 11_999)]);
    assert_eq!(c.plain("EXEC"), array([committed, found]));
    c.plain("MULTI");
    c.ok("REMOVE a");
    assert_eq!(c.plain("EXEC").items()[0].ints(), [1, 12_000, 0]);
    c.assert_consistent();
}

#[test]
fn transaction_during_a_running_job_ends_in_a_serial_outcome() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..24_000);
    let mut committer = c.begun("COMMIT a");
    c.plain("MULTI");
    c.ok("COMMIT a");
    let inside = c.plain("EXEC").items()[0].clone();
    let outside = committer.recv();
    let full = array([int(24_000), int(0)]);
    assert!(inside == full || outside == full, "{inside:?} {outside:?}");
    assert_eq!(c.plain("HGET p:allcounts totalUrls"), bulk("24000"));
    assert_eq!(c.owners([0, 23_999]), ["a", "a"]);
    c.assert_consistent();
}

#[test]
fn jobs_notify_the_keys_of_their_slices() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..12_000);
    c.plain("CONFIG SET notify-keyspace-events KA");
    let mut listener = c.another();
    listener.plain("SUBSCRIBE __keyspace@0__:p:allhashes");
    c.commit("a");
    assert!(!listener.is_silent_for(Duration::from_secs(5)));
}

#[test]
fn sliced_jobs_replicate_like_small_ones() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new().aof_unsynced(false), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    for (id, first) in [("a", 0), ("b", 8_000), ("c", 4_000)] {
        c.add(id, first..first + 16_000);
    }
    c.commit("a");
    c.commit("b");
    c.ok("CANCEL c");
    c.ok("REMOVE a");
    assert_replicated(&server, &replica);
    assert_eq!(DedupeIndex::of(&replica, P).indexed(), 16_000);
}
