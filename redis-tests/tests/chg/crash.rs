//! A client or the server may crash at any time: no group and no URI is lost.

mod known;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use crate::stage::real_stage;
use redis_tests::{Frontier, LEASE, Lease, Options, Rng, Server, release, rounds, until};

/// Creates a frontier of twenty hosts with five URIs each.
fn filled(server: &Server) -> Frontier {
    let mut f = Frontier::real(server);
    for host in 0..20 {
        let uris = format!(" host-{host} 0").repeat(5);
        assert_eq!(f.ok(format!("ADD crawl{uris}")).items().len(), 5);
    }
    f
}

/// Fetches all queued URIs, and waits for the leases of dead workers to expire. Returns the number
/// of URIs.
fn finish(f: &mut Frontier) -> i64 {
    let mut fetched = 0;
    while f.total() > 0 {
        let reply = f.ok("NEXT BLOCK 10000");
        assert!(!reply.is_nil(), "{} URIs are lost", f.total());
        let lease = Lease::only(&reply);
        f.release(&lease, "AT 0 DONE crawl");
        fetched += 1;
    }
    fetched
}

#[test]
fn connections_cut_at_any_byte_lose_nothing() {
    let mut rng = Rng::new("connections_cut_at_any_byte_lose_nothing");
    let server = Server::start();
    let mut f = filled(&server);
    let mut sent = 0;
    for _ in 0..150 {
        let mut dying = Frontier::real(&server);
        let next = ["NEXT LEASE 60", "NEXT LEASE 60 BLOCK 0"][rng.below(2) as usize];
        let mut part = Vec::new();
        match rng.below(4) {
            // The client dies while it sends `NEXT`, before it reads the reply, or while it sends
            // the release.
            0 => part = encoded(&dying.words(next)),
            1 => dying.send(next),
            _ => {
                let reply = dying.ok("NEXT LEASE 60 BLOCK 10000");
                let lease = Lease::only(&reply);
                let words = dying.words(release(&lease, "AT 0 DONE crawl NEXT LEASE 60"));
                part = encoded(&words);
            }
        }
        let cut = rng.below(part.len() as u64 + 1) as usize;
        let release = part.windows(7).any(|word| word == b"RELEASE");
        sent += i64::from(release && cut == part.len());
        dying.wire.send_bytes(&part[..cut]);
        dying.wire.hang_up();
    }
    until("all of them are gone", || {
        server.info_number("connected_clients") == 2 && server.info_number("blocked_clients") == 0
    });
    f.assert_conserved();
    // If the release was sent completely, the server may still have processed it.
    let left = f.total();
    assert!(
        left >= 100 - sent && left <= 100,
        "{left} after {sent} releases"
    );
    assert_eq!(finish(&mut f), left);
    f.assert_conserved();
}

fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend_from_slice(word);
        out.extend(b"\r\n");
    }
    out
}

/// Starts a process that requests leases as fast as possible and never releases one.
fn greedy(server: &Server, lease: u32) -> Child {
    Command::new("redis-cli")
        .arg("-s")
        .arg(server.unix_path())
        .args(["-r", "-1", "CHG.NEXT", "{f}:", "BLOCK", "0", "LEASE"])
        .arg(lease.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-cli is there")
}

#[test]
fn killed_worker_processes_lose_nothing() {
    let mut rng = Rng::new("killed_worker_processes_lose_nothing");
    let server = Server::start();
    let mut f = filled(&server);
    for _ in 0..12 {
        let leases = f.figure("leases");
        let mut worker = greedy(&server, 40);
        let wanted = 1 + rng.below(25) as i64;
        until("it has taken some", || {
            f.figure("leases") >= leases + wanted
        });
        worker.kill().expect("it runs");
        worker.wait().expect("it ends");
    }
    assert_eq!(finish(&mut f), 100);
    f.assert_conserved();
}

#[test]
fn worker_killed_between_its_commands_is_replaced_at_the_deadline() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let mut worker = greedy(&server, 300);
    until("it has the lease", || f.place("host") == "busy");
    let deadline = f.busy()[0].1;
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
    let lease = Lease::only(&f.ok("NEXT BLOCK 0"));
    assert!(lease.deadline - LEASE >= deadline);
    f.release(&lease, "AT 0 DONE crawl");
    assert_eq!(f.total(), 0);
}

/// Adds two kept URIs and one that is only counted to each of these hosts.
fn add_to(f: &mut Frontier, hosts: std::ops::Range<u64>, round: u64) {
    let (mut kept, mut counted) = (String::new(), String::new());
    for host in hosts {
        for page in 0..2 {
            kept += &format!(" host-{host} 0 {page} http://host-{host}/{round}/{page}");
        }
        counted += &format!(" host-{host} 0");
    }
    f.ok(format!("ADDURI crawl{kept}"));
    f.ok(format!("ADD counted{counted}"));
}

/// Kills a server while clients work, mostly in the middle of `PACK` or `UNPACK`: `KILLS` times, or the given number.
fn server_killed_in_the_middle_loses_nothing(preamble: bool, kills: u64) {
    let mut rng = Rng::new("server_killed_in_the_middle_loses_nothing");
    let options = Options::new().module_args(&["slice-us", "50"]);
    let mut server = options.aof_unsynced(preamble).start();
    let mut f = Frontier::real(&server);
    let (mut fetched, mut added, mut cut_short) = (0, 0, 0);
    let mut seen = BTreeSet::new();
    for some in 0..10 {
        add_to(&mut f, 60 * some..60 * some + 60, 0);
        added += 180;
    }
    let kills = rounds("KILLS", kills);
    let mut round = 0;
    // On a slow machine, a conversion may end before the kill. Go on until one was cut short.
    while round < kills || cut_short == 0 && round < 20 * kills {
        round += 1;
        let mut mover = Frontier::real(&server);
        let moves = rng.chance(80);
        if moves {
            mover.send(["PACK", "UNPACK"][rng.below(2) as usize]);
            until("the storage changes", || {
                f.ok("INFO").field("storage").text().ends_with("ing") || mover.wire.has_reply()
            });
        }
        if rng.chance(10) {
            f.wire.call(&["BGREWRITEAOF"]);
        }
        let from = rng.below(590);
        add_to(&mut f, from..from + 10, round);
        added += 30;
        let mut held = Vec::new();
        let done = |lease: &Lease| match &lease.execution {
            Some(execution) => release(lease, format!("AT 0 DONE {execution}")),
            None => release(lease, "AT 0 DONE counted"),
        };
        for _ in 0..rng.below(20) {
            let Some(lease) = f.try_take() else { break };
            if rng.chance(60) {
                fetched += 1;
                let is_new = lease.uri.clone().is_none_or(|uri| seen.insert(uri));
                assert!(is_new, "fetched twice: {lease:?}");
                f.ok(done(&lease));
            } else {
                held.push(lease);
            }
        }
        // The server may or may not have applied the last release before it died. Sent again, it
        // counts once.
        let in_flight = held.pop();
        if let Some(lease) = &in_flight {
            f.send(done(lease));
        }
        server.kill9();
        cut_short += u64::from(moves && mover.wire.try_recv().is_err());
        server.restart();
        f = Frontier::real(&server);
        held.extend(in_flight);
        for lease in held {
            let is_new = lease.uri.clone().is_none_or(|uri| seen.insert(uri));
            assert!(is_new, "fetched twice: {lease:?}");
            f.ok(done(&lease));
            fetched += 1;
        }
        if round % 4 == 0 || round >= kills {
            f.assert_conserved();
            assert_eq!(f.total() + fetched, added, "after {round} kills");
        }
    }
    eprintln!("{round} kills, {cut_short} of them in the middle of a conversion");
    assert!(cut_short > 0);
    while let Some(lease) = f.try_take() {
        let is_new = lease.uri.clone().is_none_or(|uri| seen.insert(uri));
        assert!(is_new, "fetched twice: {lease:?}");
        let execution = lease.execution.clone().unwrap_or("counted".to_owned());
        f.release(&lease, format!("AT 0 DONE {execution}"));
        fetched += 1;
    }
    assert_eq!(fetched, added);
    f.assert_conserved();
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn killed_server_with_an_append_only_file_loses_nothing() {
    server_killed_in_the_middle_loses_nothing(false, 6);
}

#[test]
fn killed_server_with_a_preamble_in_its_append_only_file_loses_nothing() {
    server_killed_in_the_middle_loses_nothing(true, 6);
}

#[test]
fn numbered_add_sent_again_after_a_crash_counts_once() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut f = Frontier::real(&server);
    let line = "ADD crawl SEQ writer 1 a 0 b 0";
    f.send(line);
    server.kill9();
    server.restart();
    let mut f = Frontier::real(&server);
    assert_eq!(f.ok(line).ints(), [1, 1]);
    assert_eq!(f.ok(line).ints(), [1, 1]);
    assert_eq!(f.total(), 2);
    f.assert_conserved();
}
