//! Tests the calls of `CHG.*` commands against a live server.

use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::Code;
use crawlspace_client::frontier::{
    Budget, Discovered, Discovery, DoneLimit, Facts, Fetched, Frontier, Held, Lease, Limits, Next,
    Pause, Selection, Sequence, Settled, Space, State, Storage, Uri, Wait,
};
use redis_tests::{Reply, Server, assert_starts, but, until, with};

use crate::refused;
use crate::server::vandal::{Cut, Vandal};

const MINUTE: Duration = Duration::from_secs(60);
/// A pause of length zero.
const NONE: Pause = Pause::For(Duration::ZERO);
/// Outcome of a lease in a frontier that only counts URIs.
const ONE_DONE: Fetched = Fetched::Done {
    execution: b"crawl",
    count: 1,
};

fn open(server: &Server) -> Frontier {
    Frontier::open(&server.url(), "{f}:").unwrap()
}

fn seed<'a>(chg: &'a str, uri: &'a str) -> Uri<'a> {
    let (chg, uri) = (chg.as_bytes(), uri.as_bytes());
    Uri {
        chg,
        at: 0,
        depth: 0,
        uri,
    }
}

/// Takes a lease of one minute. Fails if none is available.
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
fn page_passes_through_the_frontier_once() {
    let server = Server::start();
    let frontier = open(&server);
    let pages = ["https://a.example/", "https://a.example/2"];
    let uris = pages.map(|page| seed("a.example", page));
    let counts = frontier.add_uris(b"crawl", Some(2), &uris).unwrap();
    assert_eq!(counts, [Some(1), Some(2)]);
    let counts = frontier.add_uris(b"crawl", None, &uris[..1]).unwrap();
    assert_eq!(counts, [Some(2)]);

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
    let next = frontier.release_and_next(&lease, &facts.into(), &lease.done(), &up_to(5000));
    let (due, next) = next.unwrap();
    let next = next.expect("the second page is due after the pause");
    let pause = released.elapsed();
    assert!(pause >= Duration::from_millis(58), "{pause:?}");
    assert_eq!((next.due, next.count), (due, 1));
    assert_eq!(next.uri.as_deref(), Some(&b"https://a.example/2"[..]));

    let due = frontier.release(&next, &NONE, &Fetched::Retry(0));
    due.unwrap();
    let again = take(&frontier);
    assert_eq!(again.uri, next.uri);
    let due = frontier.release(&again, &Pause::Until(0), &again.done());
    due.unwrap();
    let check = frontier.check().unwrap();
    assert!(check.consistent, "{check:?}");
    assert_eq!((check.total, check.sum_groups), (0, 0));
}

#[test]
fn worker_of_one_execution_gets_only_its_pages() {
    let server = Server::start();
    let frontier = open(&server);
    let next = with!(Next, lease: Some(MINUTE), execution: Some(b"mine".to_vec()));
    let refused = frontier.next(&next).unwrap_err();
    assert!(refused.to_string().contains("PLAIN"), "{refused}");
    let frontier = Frontier::open(&server.url(), "{packed}:").unwrap();
    frontier.pack().unwrap();
    for (execution, chg) in [(&b"theirs"[..], "a"), (b"mine", "b"), (b"mine", "c")] {
        let added = frontier.add_uris(execution, None, &[seed(chg, "https://x.example/")]);
        added.unwrap();
    }
    let lease = frontier.next(&next).unwrap().remove(0);
    assert_eq!(&lease.chg, b"b");
    let released = frontier.release_and_next(&lease, &NONE, &lease.done(), &next);
    let (_, lease) = released.unwrap();
    assert_eq!(&lease.unwrap().chg, b"c");
    let wait =
        with!(Next, wait: Wait::UpTo(Duration::from_millis(30)), execution: Some(b"mine".to_vec()));
    assert_eq!(frontier.next(&wait).unwrap(), []);
}

#[test]
fn counting_frontier_needs_the_execution_of_finished_pages() {
    let server = Server::start();
    let frontier = open(&server);
    let three: [(&[u8], u64); 3] = [(b"a", 0), (b"a", 0), (b"b", 0)];
    let expected = [Some(1), Some(2), Some(1)];
    assert_eq!(frontier.add(b"crawl", None, &three).unwrap(), expected);
    let lease = take(&frontier);
    assert_eq!(lease.uri.as_deref(), None);
    assert_eq!(lease.execution.as_deref(), None);
    let (execution, count) = (b"crawl", 2);
    let done = Fetched::Done { execution, count };
    frontier.release(&lease, &NONE, &done).unwrap();
    assert_eq!(frontier.info().unwrap().uris, 1);
}

#[test]
fn endless_wait_returns_a_lease_and_is_not_cut_off() {
    let server = Server::start();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let for_ever = with!(Next, wait: Wait::ForEver);
            open(&server).next(&for_ever).unwrap()
        });
        let mut wire = server.wire();
        let blocked = || -> Vec<String> {
            let list = server.wire().ok_line("CLIENT LIST TYPE normal").text();
            let is_blocked =
                |line: &&str| line.contains("cmd=chg.next") && line.contains(" flags=b");
            let id = |line: &str| Some(line.strip_prefix("id=")?.split(' ').next()?.to_owned());
            list.lines().filter(is_blocked).filter_map(id).collect()
        };
        until("the client is blocked", || !blocked().is_empty());
        // `CLIENT UNBLOCK` makes the server reply. Then the client repeats the call.
        let woken = wire.expect_ok(&["CLIENT", "UNBLOCK", &blocked()[0]]);
        assert_eq!(woken, Reply::Int(1));
        until("the client is blocked again", || !blocked().is_empty());
        let counts = open(&server).add(b"crawl", None, &[(b"late.example", 0)]);
        counts.unwrap();
        let leases = waiter.join().unwrap();
        assert_eq!(leases.len(), 1);
        assert_eq!(&leases[0].chg, b"late.example");
    });
}

#[test]
fn unsuccessful_wait_lasts_as_long_as_requested() {
    let server = Server::start();
    let begun = Instant::now();
    assert_eq!(open(&server).next(&up_to(120)).unwrap(), []);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(120), "{took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn expired_lease_is_stale() {
    let server = Server::start();
    let frontier = open(&server);
    let two: [(&[u8], u64); 2] = [(b"a", 0), (b"a", 0)];
    frontier.add(b"crawl", None, &two).unwrap();
    let first = take(&frontier);
    let release = |lease: &Lease| frontier.release(lease, &NONE, &Fetched::Nothing);
    let due = release(&first).unwrap();
    assert_eq!(release(&first).unwrap(), due);
    take(&frontier);
    refused(release(&first), Code::Stale);
    refused(frontier.extend(&first, MINUTE), Code::Stale);
    let nowhere = but!(first, chg: b"nowhere".to_vec());
    let error = refused(release(&nowhere), Code::NoChg);
    assert_starts(&error, "CHG.RELEASE: NOCHG ");
}

/// Connects to the frontier through a proxy that cuts connections.
fn past(vandal: &Vandal) -> Frontier {
    Frontier::open(&vandal.url(), "{f}:").unwrap()
}

#[test]
fn unrepeatable_call_is_not_sent_twice() {
    let server = Server::start();
    let vandal = Vandal::of(&server, "CHG.ADD", Cut::After, 1);
    let frontier = past(&vandal);
    let error = frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap_err();
    assert!(vandal.is_done());
    assert_eq!(error.code(), None);
    assert_starts(&error, "CHG.ADD at redis://127.0.0.1:");
    // The URI was counted once, and the next call opens a new connection.
    let counts = frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    assert_eq!(counts, [Some(2)]);
}

#[test]
fn repeated_call_counts_once() {
    let server = Server::start();
    let calm = open(&server);

    let vandal = Vandal::of(&server, "CHG.ADD", Cut::After, 2);
    let (writer, number) = (b"writer", 1);
    let sequence = Some(Sequence { writer, number });
    let counts = past(&vandal).add(b"crawl", sequence, &[(b"a", 0)]);
    assert_eq!(counts.unwrap(), [Some(1)]);
    assert!(vandal.is_done());
    assert_eq!(calm.info().unwrap().uris, 1);

    let vandal = Vandal::of(&server, "CHG.ADDURI", Cut::After, 2);
    let uris = [seed("b", "u:1"), seed("b", "u:2")];
    let counts = past(&vandal).add_uris(b"crawl", None, &uris);
    assert_eq!(counts.unwrap(), [Some(2), Some(2)]);
    assert!(vandal.is_done());
    assert_eq!(calm.info().unwrap().uris, 3);

    let (a, b) = (take(&calm), take(&calm));
    let vandal = Vandal::of(&server, "CHG.RELEASE", Cut::After, 2);
    let pause = Pause::For(MINUTE);
    let due = past(&vandal).release(&a, &pause, &ONE_DONE).unwrap();
    assert!(vandal.is_done());
    assert_eq!(calm.release(&a, &pause, &ONE_DONE).unwrap(), due);
    assert_eq!(calm.info().unwrap().uris, 2);

    // The call returns the lease that the server granted in the lost reply.
    let vandal = Vandal::of(&server, "CHG.RELEASE", Cut::After, 1);
    let next = past(&vandal).release_and_next(&b, &NONE, &b.done(), &up_to(3000));
    let next = next.unwrap().1.expect("the other URI of b");
    assert!(vandal.is_done());
    assert_eq!(next.uri.as_deref(), Some(&b"u:2"[..]));
    calm.release(&next, &NONE, &next.done()).unwrap();
    let check = calm.check().unwrap();
    assert_eq!((check.consistent, check.total), (true, 0), "{check:?}");
}

#[test]
fn interrupted_next_leases_nothing_twice() {
    let server = Server::start();
    let calm = open(&server);
    calm.add(b"crawl", None, &[(b"a", 0), (b"b", 0)]).unwrap();
    let vandal = Vandal::of(&server, "CHG.NEXT", Cut::After, 1);
    let leases = past(&vandal).next(&up_to(3000)).unwrap();
    assert!(vandal.is_done());
    assert_eq!(&leases[0].chg, b"b");
    assert_eq!(calm.why(b"a").unwrap().state, "busy");
}

#[test]
fn operators_hold_limit_move_and_drop() {
    let server = Server::start();
    let frontier = open(&server);
    let limits = Limits {
        parallel: Some(2),
        gap: Some(MINUTE),
        delay: Some(Some(MINUTE / 2)),
        budget: Some(Budget::Left(2)),
    };
    frontier.limit(b"a", &limits).unwrap();
    let four: [(&[u8], u64); 4] = [(b"a", 0), (b"a", 0), (b"a", 0), (b"b", 0)];
    let expected = [Some(1), Some(2), None, Some(1)];
    assert_eq!(frontier.add(b"crawl", None, &four).unwrap(), expected);
    let unlimited = with!(Limits, budget: Some(Budget::Unlimited));
    frontier.limit(b"a", &unlimited).unwrap();
    refused(frontier.limit(b"a", &Limits::default()), Code::Err);
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

    refused(frontier.move_uris(b"b", b"c"), Code::Leased);
    frontier.release(&lease, &NONE, &Fetched::Nothing).unwrap();
    assert_eq!(frontier.move_uris(b"b", b"c").unwrap(), (1, 1));
    frontier.share_gate(b"192.0.2.7", &[b"a", b"c"]).unwrap();
    let group = frontier.why(b"c").unwrap().group;
    assert_eq!(group.as_deref(), Some(&b"192.0.2.7"[..]));
    frontier.share_gate(b"", &[b"a", b"c"]).unwrap();
    frontier.block(b"c", 4_102_444_800_000).unwrap_err();
    let in_a_minute = frontier.why(b"c").unwrap().due + 60_000;
    frontier.block(b"c", in_a_minute).unwrap();
    assert_eq!(frontier.why(b"c").unwrap().state, "blocked");
    frontier.block(b"c", 0).unwrap();

    assert_eq!(frontier.drop_execution(b"crawl").unwrap(), (2, 3));
    assert_eq!(frontier.drop_execution(b"crawl").unwrap(), (0, 0));
    refused(frontier.why(b"nowhere"), Code::NoChg);
    assert!(frontier.check().unwrap().consistent);
    assert_eq!(frontier.sweep(None).unwrap(), (0, 0));
    let packed = Frontier::open(&server.url(), "{packed}:").unwrap();
    assert_eq!(packed.pack().unwrap(), 0);
    packed
        .add_uris(b"crawl", None, &[seed("a", "u:1")])
        .unwrap();
    assert_eq!(packed.pack().unwrap(), 0);
    assert_eq!(packed.info().unwrap().storage, Storage::Packed);
    assert_eq!(packed.unpack().unwrap(), 1);
    assert_eq!(packed.info().unwrap().storage, Storage::Plain);
    assert_eq!(packed.unpack().unwrap(), 0);
    assert_eq!(packed.pack().unwrap(), 1);
}

#[test]
fn replies_of_both_protocols_are_parsed() {
    let server = Server::start();
    for protocol in ["resp2", "resp3"] {
        let url = format!("{}?protocol={protocol}", server.url());
        let frontier = Frontier::open(&url, format!("{{{protocol}}}:")).unwrap();
        let uris = [seed("a", "u:1"), seed("b", "u:2")];
        frontier.add_uris(b"crawl", None, &uris).unwrap();
        let lease = take(&frontier);
        let why = frontier.why(b"a").unwrap();
        assert_eq!(why.leases[0].uri, lease.uri, "{protocol}");
        let next = frontier.release_and_next(&lease, &NONE, &lease.done(), &Next::default());
        assert_eq!(next.unwrap().1.unwrap().chg, b"b", "{protocol}");
        let info = frontier.info().unwrap();
        assert_eq!((info.uris, info.smallest_pause_ms), (1, None), "{protocol}");
        assert!(frontier.check().unwrap().consistent, "{protocol}");
    }
}

#[test]
fn expired_leases_are_reported_once() {
    let server = Server::start();
    let frontier = open(&server);
    let uris = [seed("a", "u:1")];
    frontier.add_uris(b"crawl", None, &uris).unwrap();
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
fn repair_fixes_what_plain_clients_left() {
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

#[test]
fn discovered_urls_are_remembered() {
    let server = Server::start();
    let frontier = open(&server);
    let uris = ["https://a.example/", "https://a.example/2"].map(|uri| seed("a.example", uri));
    let new = Discovery::default();
    let refused = frontier.discover(b"crawl", &new, &uris);
    assert_eq!(refused.unwrap_err().code(), Some(Code::Plain));
    frontier.pack().unwrap();
    let found = frontier.discover(b"crawl", &new, &uris).unwrap();
    assert_eq!(found, [Discovered::New(1), Discovered::New(2)]);
    let found = frontier.discover(b"crawl", &new, &uris[..1]).unwrap();
    assert_eq!(found, [Discovered::Known]);
    assert_eq!(frontier.discover(b"crawl", &new, &[]).unwrap(), []);
    let refused = frontier.add(b"crawl", None, &[(b"a.example", 0)]);
    assert_eq!(refused.unwrap_err().code(), Some(Code::Known));

    let lease = take(&frontier);
    let facts = with!(Facts, status: Some(404));
    frontier
        .release(&lease, &facts.into(), &lease.done())
        .unwrap();
    let pages: [&[u8]; 3] = [uris[0].uri, uris[1].uri, b"https://a.example/3"];
    let known = frontier.known(b"crawl", &pages).unwrap();
    let [Some(done), Some(queued), None] = known[..] else {
        panic!("{known:?}");
    };
    assert_eq!(
        (done.state, done.status, done.due),
        (State::Done, Some(404), None)
    );
    assert_eq!(
        (queued.state, queued.status, queued.attempts),
        (State::Queued, None, 0)
    );
    assert!(queued.due.is_some() && queued.changed % 600_000 == 0);
    let counts = frontier.count(b"crawl", None).unwrap();
    assert_eq!((counts.done, counts.queued, counts.known), (1, 1, 2));
    let other = frontier.count(b"crawl", Some(b"b.example")).unwrap();
    assert_eq!(other.known, 0);

    // A fetch that is at most an hour old is fresh enough.
    let old = Discovery {
        fresh: Some(Duration::from_secs(3600)),
        weight: Some(2),
    };
    let found = frontier.discover(b"crawl", &old, &uris[..1]).unwrap();
    assert_eq!(found, [Discovered::Known]);
    let settled = [(uris[1].uri, None), (pages[2], Some(0))].map(|(uri, at)| Settled {
        chg: b"a.example",
        uri,
        at,
    });
    let changed = |urls: &[Settled<'_>]| frontier.settle(b"crawl", Some(410), urls).unwrap();
    assert_eq!(changed(&settled), [Some(true), Some(true)]);
    assert_eq!(changed(&settled), [Some(false), Some(false)]);
    assert_eq!(changed(&[]), []);
    let again = [(settled[1], &b"payload"[..])];
    let changed = |urls: &[_]| frontier.settle_payloads(b"crawl", None, urls).unwrap();
    assert_eq!(changed(&again), [Some(true)]);
    assert_eq!(changed(&again), [Some(false)]);
    assert_eq!(changed(&[]), []);
    let gone = frontier.known(b"crawl", &pages[1..2]).unwrap()[0].unwrap();
    assert_eq!((gone.state, gone.status), (State::Done, Some(410)));
    let given_up = Selection {
        state: Some(State::GivenUp),
        group: Some(b"a.example"),
        before: Some(1),
    };
    assert_eq!(frontier.forget_all(b"crawl", &given_up).unwrap(), 0);
    assert_eq!(frontier.forget(b"crawl", &pages).unwrap(), 3);
    assert_eq!(
        frontier
            .forget_all(b"crawl", &Selection::default())
            .unwrap(),
        0
    );
    assert_eq!(
        frontier.known(b"crawl", &pages).unwrap(),
        [None, None, None]
    );

    frontier.limit_done("a.example", "crawl", 1).unwrap();
    let why = frontier.why("a.example").unwrap();
    let limit = DoneLimit {
        execution: b"crawl".to_vec(),
        limit: 1,
        done: 0,
    };
    assert_eq!((&why.state[..], why.done_limits), ("idle", vec![limit]));
    frontier.limit_done("a.example", "crawl", 0).unwrap();
    let none = frontier.why("a.example").unwrap_err();
    assert_eq!(none.code(), Some(Code::NoChg));

    let shared = Space {
        wide: true,
        text: true,
        share: Some(b"weekly"),
    };
    for crawl in ["one", "two"] {
        frontier.space(crawl, &shared).unwrap();
    }
    frontier.discover("one", &new, &uris[..1]).unwrap();
    let found = frontier.discover("two", &new, &uris[..1]).unwrap();
    assert_eq!(found, [Discovered::Known]);
    let gone = Settled {
        chg: b"b",
        uri: b"gone",
        at: None,
    };
    frontier.settle("one", Some(410), &[gone]).unwrap();
    let page = frontier.urls("one", Some(State::Done), None, 9).unwrap();
    let [done] = &page.entries[..] else {
        panic!("{page:?}")
    };
    assert_eq!((&done.chg[..], &done.uri[..]), (&b"b"[..], &b"gone"[..]));
    let expected = (None, State::Done, None, Some(410));
    assert_eq!((done.depth, done.state, done.due, done.status), expected);
    let page = frontier.urls("one", None, None, 1).unwrap();
    assert_eq!(page.entries[0].state, State::Queued);
    assert_eq!(page.entries[0].depth, Some(uris[0].depth));
    let refused = frontier.space("one", &Space::default()).unwrap_err();
    assert_eq!(refused.code(), Some(Code::Known));
}
