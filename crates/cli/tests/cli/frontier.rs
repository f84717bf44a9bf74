//! The calls of `CHG.*` commands and `crawlspace chg`, against a live server.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::Code;
use crawlspace_client::frontier::{
    Budget, Facts, Fetched, Frontier, Held, Lease, Limits, Next, Pause, Sequence, Uri, Wait,
};
use redis_tests::{
    Options, Outcome, Reply, Server, assert_contains, assert_starts, outcome, until, with,
};
use serde_json::Value;

use crate::tool::tool;

const MINUTE: Duration = Duration::from_secs(60);

fn open(server: &Server) -> Frontier {
    Frontier::open(&server.url(), "{f}:").unwrap()
}

fn seed<'a>(chg: &'a str, uri: &'a str) -> Uri<'a> {
    Uri {
        chg: chg.as_bytes(),
        at: 0,
        depth: 0,
        uri: uri.as_bytes(),
    }
}

/// One lease of a minute, which must be there.
fn take(frontier: &Frontier) -> Lease {
    let next = with!(Next, lease: Some(MINUTE));
    let mut leases = frontier.next(&next).unwrap();
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

fn up_to(ms: u64) -> Next {
    with!(Next, lease: Some(MINUTE), wait: Wait::UpTo(Duration::from_millis(ms)))
}

#[test]
fn a_page_goes_through_the_frontier_once() {
    let server = Server::start();
    let frontier = open(&server);
    let uris = [
        seed("a.example", "https://a.example/"),
        seed("a.example", "https://a.example/2"),
    ];
    assert_eq!(
        frontier.add_uris(b"crawl", Some(2), &uris).unwrap(),
        [Some(1), Some(2)]
    );
    assert_eq!(
        frontier.add_uris(b"crawl", None, &uris[..1]).unwrap(),
        [Some(2)]
    );

    let lease = take(&frontier);
    assert_eq!(&lease.chg, b"a.example");
    assert_eq!(lease.uri.as_deref(), Some(&b"https://a.example/"[..]));
    assert_eq!(lease.execution.as_deref(), Some(&b"crawl"[..]));
    assert_eq!((lease.count, lease.deadline > lease.due), (2, true));
    assert_eq!(frontier.next(&Next::default()).unwrap(), []);

    let deadline = frontier.extend(&lease, 2 * MINUTE).unwrap();
    assert!(deadline > lease.deadline + 50_000);
    let facts = Facts {
        elapsed: Duration::from_millis(3),
        factor: Some(2.5),
        min: Some(Duration::from_millis(40)),
        max: Some(Duration::from_millis(90)),
        crawl_delay: Some(Duration::from_millis(50)),
        retry_after: Some(Duration::from_millis(60)),
        status: Some(200),
    };
    let released = Instant::now();
    let (due, next) = frontier
        .release_and_next(&lease, &facts.into(), &lease.done(), &up_to(5000))
        .unwrap();
    let next = next.expect("the second page is due after the pause");
    assert!(
        released.elapsed() >= Duration::from_millis(58),
        "{:?}",
        released.elapsed()
    );
    assert_eq!((next.due, next.count), (due, 1));
    assert_eq!(next.uri.as_deref(), Some(&b"https://a.example/2"[..]));

    frontier
        .release(&next, &Pause::For(Duration::ZERO), &Fetched::Retry(0))
        .unwrap();
    let again = take(&frontier);
    assert_eq!(again.uri, next.uri);
    frontier
        .release(&again, &Pause::Until(0), &again.done())
        .unwrap();
    let check = frontier.check().unwrap();
    assert!(check.consistent, "{check:?}");
    assert_eq!((check.total, check.sum_groups), (0, 0));
}

#[test]
fn a_frontier_that_only_counts_is_told_whose_pages_are_done() {
    let server = Server::start();
    let frontier = open(&server);
    let three: [(&[u8], u64); 3] = [(b"a", 0), (b"a", 0), (b"b", 0)];
    let expected = [Some(1), Some(2), Some(1)];
    assert_eq!(frontier.add(b"crawl", None, &three).unwrap(), expected);
    let lease = take(&frontier);
    assert_eq!(lease.uri.as_deref(), None);
    assert_eq!(lease.execution.as_deref(), None);
    let done = Fetched::Done {
        execution: b"crawl",
        count: 2,
    };
    frontier
        .release(&lease, &Pause::For(Duration::ZERO), &done)
        .unwrap();
    assert_eq!(frontier.info().unwrap().uris, 1);
}

#[test]
fn who_waits_for_ever_gets_what_comes_and_is_not_sent_away() {
    let server = Server::start();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let for_ever = with!(Next, wait: Wait::ForEver);
            open(&server).next(&for_ever).unwrap()
        });
        let mut wire = server.wire();
        let blocked = || -> Vec<String> {
            let list = server.wire().ok_line("CLIENT LIST TYPE normal").text();
            let blocked = list
                .lines()
                .filter(|line| line.contains("cmd=chg.next") && line.contains(" flags=b"));
            blocked
                .filter_map(|line| Some(line.strip_prefix("id=")?.split(' ').next()?.to_owned()))
                .collect()
        };
        until("the client is blocked", || !blocked().is_empty());
        // Somebody sends it home; it stays.
        assert_eq!(
            wire.expect_ok(&["CLIENT", "UNBLOCK", &blocked()[0]]),
            Reply::Int(1)
        );
        until("the client is blocked again", || !blocked().is_empty());
        open(&server)
            .add(b"crawl", None, &[(b"late.example", 0)])
            .unwrap();
        let leases = waiter.join().unwrap();
        assert_eq!(leases.len(), 1);
        assert_eq!(&leases[0].chg, b"late.example");
    });
}

#[test]
fn a_wait_in_vain_takes_as_long_as_was_said() {
    let server = Server::start();
    let begun = Instant::now();
    assert_eq!(open(&server).next(&up_to(120)).unwrap(), []);
    assert!(
        begun.elapsed() >= Duration::from_millis(120),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_lease_that_is_over_is_stale() {
    let server = Server::start();
    let frontier = open(&server);
    frontier
        .add(b"crawl", None, &[(b"a", 0), (b"a", 0)])
        .unwrap();
    let first = take(&frontier);
    let now = Pause::For(Duration::ZERO);
    let due = frontier.release(&first, &now, &Fetched::Nothing).unwrap();
    assert_eq!(
        frontier.release(&first, &now, &Fetched::Nothing).unwrap(),
        due
    );
    take(&frontier);
    for error in [
        frontier
            .release(&first, &now, &Fetched::Nothing)
            .unwrap_err(),
        frontier.extend(&first, MINUTE).unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(Code::Stale), "{error}");
    }
    let nowhere = Lease {
        chg: b"nowhere".to_vec(),
        ..first
    };
    let error = frontier
        .release(&nowhere, &now, &Fetched::Nothing)
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::NoChg));
    assert_starts(&error, "CHG.RELEASE: NOCHG ");
}

/// Stands between a client and a server, and cuts the connection some times when this command has been
/// carried out: the client does not see the reply.
struct Vandal {
    port: u16,
    cuts: Arc<AtomicU32>,
}

impl Vandal {
    fn before(server: &Server, command: &'static str, times: u32) -> Vandal {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let vandal = Vandal {
            port: listener.local_addr().unwrap().port(),
            cuts: Arc::new(AtomicU32::new(times)),
        };
        let (to, cuts) = (server.port(), Arc::clone(&vandal.cuts));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let cuts = Arc::clone(&cuts);
                thread::spawn(move || forward(&client, &server, command, &cuts));
            }
        });
        vandal
    }

    fn open(&self) -> Frontier {
        Frontier::open(&format!("redis://127.0.0.1:{}/", self.port), "{f}:").unwrap()
    }

    fn is_done(&self) -> bool {
        self.cuts.load(Ordering::SeqCst) == 0
    }
}

/// Request by request: a client of ours sends the next one when it has the reply.
fn forward(mut client: &TcpStream, mut server: &TcpStream, command: &str, cuts: &AtomicU32) {
    let mut replies = server.try_clone().unwrap();
    let mut back = client.try_clone().unwrap();
    let cut = Arc::new(AtomicU32::new(0));
    let is_cut = Arc::clone(&cut);
    let backwards = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = replies.read(&mut bytes) {
            if is_cut.load(Ordering::SeqCst) == 1 || back.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    while let Ok(n @ 1..) = client.read(&mut bytes) {
        let is_it = bytes[..n]
            .windows(command.len())
            .any(|w| w == command.as_bytes());
        if is_it && cuts.load(Ordering::SeqCst) > 0 {
            cuts.fetch_sub(1, Ordering::SeqCst);
            cut.store(1, Ordering::SeqCst);
        }
        if server.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = backwards.join();
}

#[test]
fn what_may_not_arrive_twice_is_not_sent_twice() {
    let server = Server::start();
    let vandal = Vandal::before(&server, "CHG.ADD", 1);
    let frontier = vandal.open();
    let error = frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap_err();
    assert!(vandal.is_done());
    assert_eq!(error.code(), None);
    assert_starts(&error, "CHG.ADD at redis://127.0.0.1:");
    // It was counted, once, and the next call finds a way.
    assert_eq!(
        frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap(),
        [Some(2)]
    );
}

#[test]
fn what_is_sent_again_counts_once() {
    let server = Server::start();
    let calm = open(&server);

    let vandal = Vandal::before(&server, "CHG.ADD", 2);
    let counts = vandal.open().add(
        b"crawl",
        Some(Sequence {
            writer: b"writer",
            number: 1,
        }),
        &[(b"a", 0)],
    );
    assert_eq!(counts.unwrap(), [Some(1)]);
    assert!(vandal.is_done());
    assert_eq!(calm.info().unwrap().uris, 1);

    let vandal = Vandal::before(&server, "CHG.ADDURI", 2);
    let counts = vandal
        .open()
        .add_uris(b"crawl", None, &[seed("b", "u:1"), seed("b", "u:2")]);
    assert_eq!(counts.unwrap(), [Some(2), Some(2)]);
    assert!(vandal.is_done());
    assert_eq!(calm.info().unwrap().uris, 3);

    let (a, b) = (take(&calm), take(&calm));
    let vandal = Vandal::before(&server, "CHG.RELEASE", 2);
    let done = Fetched::Done {
        execution: b"crawl",
        count: 1,
    };
    let due = vandal
        .open()
        .release(&a, &Pause::For(MINUTE), &done)
        .unwrap();
    assert!(vandal.is_done());
    assert_eq!(calm.release(&a, &Pause::For(MINUTE), &done).unwrap(), due);
    assert_eq!(calm.info().unwrap().uris, 2);

    // The lease that went down with the connection is the one that comes.
    let vandal = Vandal::before(&server, "CHG.RELEASE", 1);
    let next =
        vandal
            .open()
            .release_and_next(&b, &Pause::For(Duration::ZERO), &b.done(), &up_to(3000));
    let next = next.unwrap().1.expect("the other URI of b");
    assert!(vandal.is_done());
    assert_eq!(next.uri.as_deref(), Some(&b"u:2"[..]));
    calm.release(&next, &Pause::For(Duration::ZERO), &next.done())
        .unwrap();
    let check = calm.check().unwrap();
    assert_eq!((check.consistent, check.total), (true, 0), "{check:?}");
}

#[test]
fn a_next_that_was_cut_off_leases_nothing_twice() {
    let server = Server::start();
    let calm = open(&server);
    calm.add(b"crawl", None, &[(b"a", 0), (b"b", 0)]).unwrap();
    let vandal = Vandal::before(&server, "CHG.NEXT", 1);
    let leases = vandal.open().next(&up_to(3000)).unwrap();
    assert!(vandal.is_done());
    assert_eq!(&leases[0].chg, b"b");
    assert_eq!(calm.why(b"a").unwrap().state, "busy");
}

#[test]
fn operators_hold_and_limit_and_move_and_drop() {
    let server = Server::start();
    let frontier = open(&server);
    frontier
        .limit(
            b"a",
            &Limits {
                parallel: Some(2),
                gap: Some(MINUTE),
                delay: Some(Some(MINUTE / 2)),
                budget: Some(Budget::Left(2)),
            },
        )
        .unwrap();
    let four: [(&[u8], u64); 4] = [(b"a", 0), (b"a", 0), (b"a", 0), (b"b", 0)];
    let expected = [Some(1), Some(2), None, Some(1)];
    assert_eq!(frontier.add(b"crawl", None, &four).unwrap(), expected);
    frontier
        .limit(b"a", &with!(Limits, budget: Some(Budget::Unlimited)))
        .unwrap();
    let error = frontier.limit(b"a", &Limits::default()).unwrap_err();
    assert_eq!(error.code(), Some(Code::Err), "{error}");
    let why = frontier.why(b"a").unwrap();
    assert_eq!((why.parallel, why.gap, why.budget), (2, 60_000, None));
    assert_eq!((why.delay, why.more_executions), (Some(30_000), false));
    assert_eq!(why.executions[0].execution, b"crawl");
    assert_eq!((why.count, why.executions[0].uris), (2, 2));

    for held in [Held::Everything, Held::Execution(b"crawl")] {
        frontier.pause(held).unwrap();
        assert_eq!(frontier.next(&Next::default()).unwrap(), [], "{held:?}");
        frontier.resume(held).unwrap();
    }
    frontier.pause(Held::Group(b"a")).unwrap();
    assert!(frontier.why(b"a").unwrap().paused);
    let lease = take(&frontier);
    assert_eq!(&lease.chg, b"b");
    let why = frontier.why(b"b").unwrap();
    assert_eq!((&why.state[..], why.leases.len()), ("busy", 1));
    assert_eq!(why.leases[0].token, lease.token);
    assert_eq!(why.leases[0].deadline, lease.deadline);
    frontier.resume(Held::Group(b"a")).unwrap();

    assert_eq!(
        frontier.move_uris(b"b", b"c").unwrap_err().code(),
        Some(Code::Leased)
    );
    frontier
        .release(&lease, &Pause::For(Duration::ZERO), &Fetched::Nothing)
        .unwrap();
    assert_eq!(frontier.move_uris(b"b", b"c").unwrap(), (1, 1));
    frontier.share_gate(b"192.0.2.7", &[b"a", b"c"]).unwrap();
    assert_eq!(
        frontier.why(b"c").unwrap().group.as_deref(),
        Some(&b"192.0.2.7"[..])
    );
    frontier.share_gate(b"", &[b"a", b"c"]).unwrap();
    frontier.block(b"c", 4_102_444_800_000).unwrap_err();
    let in_a_minute = frontier.why(b"c").unwrap().due + 60_000;
    frontier.block(b"c", in_a_minute).unwrap();
    assert_eq!(frontier.why(b"c").unwrap().state, "blocked");
    frontier.block(b"c", 0).unwrap();

    assert_eq!(frontier.drop_execution(b"crawl").unwrap(), (2, 3));
    assert_eq!(frontier.drop_execution(b"crawl").unwrap(), (0, 0));
    assert_eq!(
        frontier.why(b"nowhere").unwrap_err().code(),
        Some(Code::NoChg)
    );
    assert!(frontier.check().unwrap().consistent);
    assert_eq!(frontier.sweep(None).unwrap(), (0, 0));
}

#[test]
fn replies_of_either_protocol_are_understood() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let url = format!("{}?protocol={protocol}", server.url());
        let frontier = Frontier::open(&url, format!("{{{protocol}}}:")).unwrap();
        frontier
            .add_uris(b"crawl", None, &[seed("a", "u:1"), seed("b", "u:2")])
            .unwrap();
        let lease = take(&frontier);
        let why = frontier.why(b"a").unwrap();
        assert_eq!(why.leases[0].uri, lease.uri, "{protocol}");
        let now = Pause::For(Duration::ZERO);
        let (_, next) = frontier
            .release_and_next(&lease, &now, &lease.done(), &Next::default())
            .unwrap();
        assert_eq!(next.unwrap().chg, b"b", "{protocol}");
        let info = frontier.info().unwrap();
        assert_eq!((info.uris, info.smallest_pause_ms), (1, None), "{protocol}");
        assert!(frontier.check().unwrap().consistent, "{protocol}");
    }
}

#[test]
fn leases_that_ran_out_are_reported_once() {
    let server = Server::start();
    let frontier = open(&server);
    frontier
        .add_uris(b"crawl", None, &[seed("a", "u:1")])
        .unwrap();
    let short = with!(Next, lease: Some(Duration::from_millis(1)));
    assert_eq!(frontier.next(&short).unwrap().len(), 1);
    let mut reports = Vec::new();
    until("the lease has run out", || {
        reports = frontier.expired(10).unwrap();
        !reports.is_empty()
    });
    assert_eq!((&reports[0].chg[..], reports[0].times), (&b"a"[..], 1));
    assert_eq!(reports[0].uri.as_deref(), Some(&b"u:1"[..]));
    assert_eq!(frontier.expired(10).unwrap(), []);
    assert_eq!(frontier.info().unwrap().expired, 1);
}

#[test]
fn what_plain_clients_left_behind_is_found_and_mended() {
    let server = Server::start();
    let frontier = open(&server);
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    server.wire().ok_line("HINCRBY {f}:CHG:a c 3");
    let check = frontier.check().unwrap();
    assert!(!check.consistent);
    assert_eq!((check.total, check.sum_groups), (1, 4));
    assert!(!check.problems.is_empty());
    assert!(frontier.repair().unwrap().mended.is_some_and(|n| n > 0));
    assert!(frontier.check().unwrap().consistent);
}

/// Exit status, standard output and standard error of `crawlspace chg …`.
fn crawlspace(server: &Server, arguments: &str) -> (i32, String, String) {
    let url = server.url();
    let Outcome {
        status,
        out,
        errors,
    } = outcome(tool(format!(
        "chg {arguments} --redis {url} --prefix {{f}}:"
    )));
    (status, out, errors)
}

#[test]
fn the_command_line_shows_what_an_operator_asks() {
    let server = Server::start();
    let frontier = open(&server);
    frontier
        .add_uris(
            b"crawl",
            None,
            &[seed("a.example", "u:1"), seed("b.example", "u:2")],
        )
        .unwrap();
    let lease = take(&frontier);

    let (status, why, _) = crawlspace(&server, "why a.example");
    assert_eq!(status, 0);
    assert_starts(&why, "a.example: busy\n");
    assert_contains(&why, "u:1");
    let (status, json, _) = crawlspace(&server, "why a.example --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status, 0);
    assert_eq!(json["state"], "busy");
    assert_eq!(json["leases"][0]["uri"], "u:1");
    assert_eq!(json["leases"][0]["token"], lease.token);
    assert_eq!(json["blocked-until"], 0);

    let (status, info, _) = crawlspace(&server, "info");
    assert_eq!(status, 0);
    assert_starts(&info, "frontier '{f}:'\n  URIs ");
    assert!(!info.contains('\x1b'), "no colours in a pipe");
    let (_, json, _) = crawlspace(&server, "info --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["uris"], 2);
    assert_eq!(json["groups-busy"], 1);

    let (status, expired, _) = crawlspace(&server, "expired --json");
    assert_eq!((status, &expired[..]), (0, ""));
    let (status, check, _) = crawlspace(&server, "check");
    assert_eq!(status, 0, "{check}");
    server.wire().ok_line("HINCRBY {f}:EIDC crawl 7");
    let (status, check, _) = crawlspace(&server, "check");
    assert_eq!(status, 1, "{check}");
    assert_starts(&check, "The frontier is NOT consistent");
    let (status, json, _) = crawlspace(&server, "check --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status, 1);
    assert_eq!(json["consistent"], false);
    assert_eq!(json["sum-executions"], 9);

    let (status, out, errors) = crawlspace(&server, "why nowhere.example");
    assert_eq!((status, &out[..]), (1, ""));
    assert_starts(&errors, "crawlspace: CHG.WHY: NOCHG ");
    for wrong in ["why", "expired --count 0", "nonsense"] {
        assert_eq!(crawlspace(&server, wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn a_server_without_the_module_is_named_as_the_reason() {
    let server = Options::new().no_module().start();
    let (status, _, errors) = crawlspace(&server, "info");
    assert_eq!(status, 1);
    assert_contains(&errors, "the server has not loaded the Crawlspace module");
}
