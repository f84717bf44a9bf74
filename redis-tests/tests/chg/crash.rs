//! A client or the server may crash at any time: no group and no URI is lost.

use std::process::{Child, Command, Stdio};

use crate::stage::real_stage;
use redis_tests::{Frontier, LEASE, Lease, Options, Rng, Server, release, until};

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

fn server_killed_in_the_middle_loses_nothing(preamble: bool) {
    let mut rng = Rng::new("server_killed_in_the_middle_loses_nothing");
    let mut server = Options::new().aof_unsynced(preamble).start();
    let mut f = filled(&server);
    let mut fetched = 0;
    for _ in 0..4 {
        let mut held = Vec::new();
        for _ in 0..rng.below(20) {
            let Some(lease) = f.try_take() else { break };
            if rng.chance(60) {
                fetched += 1;
                f.release(&lease, "AT 0 DONE crawl");
            } else {
                held.push(lease);
            }
        }
        // The server may have applied the last release before it died. If the release is sent
        // again, it is counted once.
        let in_flight = held.pop().map(|lease| release(&lease, "AT 0 DONE crawl"));
        if let Some(line) = &in_flight {
            f.send(line);
        }
        server.kill9();
        server.restart();
        f = Frontier::real(&server);
        if let Some(line) = in_flight {
            f.ok(line);
            fetched += 1;
        }
        f.assert_conserved();
        for lease in held {
            f.release(&lease, "AT 0 DONE crawl");
            fetched += 1;
        }
    }
    fetched += finish(&mut f);
    assert_eq!(fetched, 100);
    f.assert_conserved();
}

#[test]
fn killed_server_with_an_append_only_file_loses_nothing() {
    server_killed_in_the_middle_loses_nothing(false);
}

#[test]
fn killed_server_with_a_preamble_in_its_append_only_file_loses_nothing() {
    server_killed_in_the_middle_loses_nothing(true);
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
