//! Tests every call, blocking and async, in both protocol versions.

use std::time::Duration;

use crawlspace_client::dedupe::{
    Added, Adding, Claim, Committed, CrawlState, Index, Listed, Of, Profile, Reference, Revisited,
    Revisiting, Sequence, Storage,
};
use crawlspace_client::frontier::{
    Budget, Facts, Fetched, Frontier, Held, Limits, ListedGroup, ListedUri, Next, Pause, Queue,
    Uri, Wait,
};
use crawlspace_client::tags::{Captures, Collapse, Dialect, Filter, Format, Kind, Mode, TagSpace};
use crawlspace_client::{AsyncServer, Server};
use redis_tests::{Options, Server as Redis, assert_starts};

use crate::server::run;

const HASH: &[u8] = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
const OTHER: &[u8] = b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
const MINUTE: Duration = Duration::from_secs(60);

fn redis() -> Redis {
    let options = Options::new().plain();
    options.module_args(&["chg-simulated-time", "yes"]).start()
}

fn urls(redis: &Redis) -> [(String, &'static str); 2] {
    ["resp2", "resp3"].map(|protocol| (format!("{}?protocol={protocol}", redis.url()), protocol))
}

/// Index calls for the async and the blocking client. The macro appends `.await` to each call of
/// the async client only.
macro_rules! dedupe_calls {
    ($index:expr, $other:expr $(, $await:ident)?) => {{
        let (index, other) = ($index, $other);
        let first = Added::new(HASH, 0, b"20240501120000", b"https://example.com/a b", 5120);
        assert_eq!(index.profile()$(.$await)?.unwrap(), Profile::Document);
        other.set_profile(Profile::Browsertrix)$(.$await)?.unwrap();
        assert_eq!(other.profile()$(.$await)?.unwrap(), Profile::Browsertrix);
        assert_eq!(index.wacz_open(b"a", b"a-0.wacz")$(.$await)?.unwrap(), 0);
        assert_eq!(index.wacz_open(b"a", b"a-1.wacz")$(.$await)?.unwrap(), 1);
        for begins in [true, false] {
            assert_eq!(index.begin(b"begun")$(.$await)?.unwrap(), begins);
        }
        for begins in [true, false] {
            assert_eq!(index.begin_visible(b"begun")$(.$await)?.unwrap(), begins);
        }
        assert_eq!(index.wacz_open(b"begun", b"open.wacz")$(.$await)?.unwrap(), 0);
        for _ in 0..2 {
            index.wacz_close_as(b"begun", 0, b"closed.wacz", b"", 5)$(.$await)?.unwrap();
        }
        assert_eq!(index.wacz_list(b"begun")$(.$await)?.unwrap()[0].filename, b"closed.wacz");
        index.cancel(b"begun")$(.$await)?.unwrap();
        index.wacz_close(b"a", 0, b"a-0.wacz", b"sha256:00", 7000)$(.$await)?.unwrap();
        let files = index.wacz_list(b"a")$(.$await)?.unwrap();
        assert_eq!((files[0].size, files[0].hash.as_deref()), (Some(7000), Some(&b"sha256:00"[..])));
        assert_eq!((&files[1].filename[..], files[1].size), (&b"a-1.wacz"[..], None));

        let claim = index.claim(b"a", HASH, MINUTE, Duration::ZERO)$(.$await)?.unwrap();
        let Claim::Yours(token) = claim else { panic!("{claim:?}") };
        let wait = Duration::from_millis(1);
        let claim = index.claim(b"b", HASH, MINUTE, wait)$(.$await)?.unwrap();
        let Claim::Pending { holder, left } = claim else { panic!("{claim:?}") };
        assert_eq!((&holder[..], left <= MINUTE), (&b"a"[..], true));
        assert!(index.unclaim(HASH, &token)$(.$await)?.unwrap());
        assert!(!index.unclaim(HASH, &token)$(.$await)?.unwrap());
        let claim = index.claim(b"a", HASH, MINUTE, Duration::ZERO)$(.$await)?.unwrap();
        let Claim::Yours(token) = claim else { panic!("{claim:?}") };
        index.settle(b"a", &token, &first)$(.$await)?.unwrap();
        let claim = index.claim(b"a", HASH, MINUTE, Duration::ZERO)$(.$await)?.unwrap();
        assert!(matches!(claim, Claim::Known(original) if original.size == 5120));
        for wait in [Duration::ZERO, wait] {
            let claim = index.claim_with_wacz(b"a", HASH, MINUTE, wait)$(.$await)?.unwrap();
            assert!(matches!(claim, Claim::Known(at) if at.filename.as_deref() == Some(b"a-0.wacz")));
            let claim = index.claim_text(b"a", HASH, MINUTE, wait)$(.$await)?.unwrap();
            assert!(matches!(claim, Claim::Known(text) if text.starts_with(b"a 0 ") && text.ends_with(b" 5120")));
        }

        let sequence = Some(Sequence { writer: b"w", number: 1 });
        let adding = Adding { sequence, earliest: true, ..Adding::default() };
        let second = Added { hash: OTHER, wacz_index: 1, ..first };
        for _ in 0..2 {
            assert_eq!(index.add(b"a", &adding, &[second])$(.$await)?.unwrap(), 1);
        }
        let earlier = Added { date: b"20230501120000", ..second };
        let adding = Adding { earliest: true, ..Adding::default() };
        index.add(b"a", &adding, &[earlier])$(.$await)?.unwrap();
        assert_eq!(index.lookup(None, &[HASH])$(.$await)?.unwrap(), [None]);
        assert_eq!(index.commit(b"a")$(.$await)?.unwrap(), Committed { new: 2, known: 0 });
        let found = index.lookup_with_wacz(None, &[OTHER, HASH])$(.$await)?.unwrap();
        let located = found[0].as_ref().unwrap();
        assert_eq!(located.filename.as_deref(), Some(&b"a-1.wacz"[..]));
        assert_eq!(located.original.date, b"20230501120000", "the earlier record was kept");
        assert_eq!(found[1].as_ref().unwrap().original.url, b"https://example.com/a b");
        let unknown = b"sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let texts = index.lookup_text(None, &[OTHER, unknown])$(.$await)?.unwrap();
        let text = &b"a 1 20230501120000 https://example.com/a b 5120"[..];
        assert_eq!(texts, [Some(text.to_vec()), None]);

        let original = &found[1].as_ref().unwrap().original;
        let revisited = Revisited { hash: HASH, size: 300, original: Some(original) };
        for (reference, number) in [(Reference::Crawl, 1), (Reference::Wacz(b"uuid"), 2), (Reference::None, 3)] {
            let sequence = Some(Sequence { writer: b"r", number });
            let revisiting = Revisiting { reference, sequence };
            assert_eq!(index.revisit(b"b", &revisiting, &[revisited])$(.$await)?.unwrap(), 1);
        }
        let sequence = Sequence { writer: b"both", number: 1 };
        index.write(b"b", sequence, &[first], &[revisited])$(.$await)?.unwrap();
        for of in [Of::Crawl(b"b"), Of::Wacz(b"uuid"), Of::References(&[b"a 0"])] {
            for transitive in [false, true] {
                let required = index.requires(of, transitive)$(.$await)?.unwrap();
                assert_eq!((&required[0].filename[..], &required[0].crawl[..]), (&b"a-0.wacz"[..], &b"a"[..]));
                assert_eq!(required[0].size, Some(7000));
                let json = index.requires_json(of, transitive)$(.$await)?.unwrap();
                assert_starts(&json, "[{\"filename\":\"a-0.wacz\"");
            }
        }
        assert_eq!(index.requires(Of::References(&[]), true)$(.$await)?.unwrap(), []);
        let dependents = index.required_by(b"a")$(.$await)?.unwrap();
        assert_eq!((&dependents[0].crawl[..], dependents[0].revisits), (&b"b"[..], Some(4)));

        let stats = index.stats()$(.$await)?.unwrap();
        assert_eq!((stats.crawls, stats.uncommitted, stats.hashes), (1, 1, 2));
        assert_eq!((stats.total_crawl_size, stats.update_progress), (7000, None));
        assert_eq!(index.sampled_stats(2)$(.$await)?.unwrap(), stats);
        let stats = index.crawl_stats(b"b")$(.$await)?.unwrap();
        assert_eq!((stats.state, stats.dupe_urls, stats.requires), (CrawlState::Uncommitted, 4, 1));
        for (listed, names) in [
            (None, &[&b"a"[..], b"b"][..]),
            (Some(Listed::Committed), &[b"a"]),
            (Some(Listed::Uncommitted), &[b"b"]),
        ] {
            let crawls = index.crawls(listed)$(.$await)?.unwrap();
            let ids: Vec<&[u8]> = crawls.iter().map(|one| &one.crawl[..]).collect();
            assert_eq!(ids, names);
        }
        assert_eq!(index.stats()$(.$await)?.unwrap().storage, Storage::Plain);
        let moved = index.pack()$(.$await)?.unwrap();
        assert_eq!((moved.storage, moved.hashes, moved.records), (Storage::Packed, 2, 2));
        assert!(moved.memory > 0);
        assert_eq!(index.stats()$(.$await)?.unwrap().storage, Storage::Packed);
        let moved = index.pack()$(.$await)?.unwrap();
        assert_eq!((moved.storage, moved.hashes, moved.records), (Storage::Packed, 0, 0));
        assert_eq!(index.lookup_with_wacz(None, &[OTHER, HASH])$(.$await)?.unwrap(), found);
        assert!(index.check()$(.$await)?.unwrap().ok);
        assert_eq!(index.repair()$(.$await)?.unwrap().repaired, Some(0));
        assert_eq!(index.cancel(b"b")$(.$await)?.unwrap(), 1);
        index.add(b"c", &Adding::default(), &[first])$(.$await)?.unwrap();
        index.commit(b"c")$(.$await)?.unwrap();
        assert_eq!(index.retain(false, &[b"c"])$(.$await)?.unwrap().crawls, 1);
        assert_eq!(index.stats()$(.$await)?.unwrap().removed_crawls, 1);
        let removed = index.remove(&[b"a"])$(.$await)?.unwrap();
        assert_eq!((removed.crawls, removed.dropped, removed.reowned), (1, 1, 1));
        index.add(b"d", &Adding::default(), &[second])$(.$await)?.unwrap();
        index.commit(b"d")$(.$await)?.unwrap();
        let retained = index.retain(true, &[b"d"])$(.$await)?.unwrap();
        assert_eq!((retained.crawls, retained.dropped), (1, 1));
        let moved = index.unpack()$(.$await)?.unwrap();
        assert_eq!((moved.storage, moved.hashes, moved.records), (Storage::Plain, 1, 1));
    }};
}

macro_rules! frontier_calls {
    ($frontier:expr $(, $await:ident)?) => {{
        const T: u64 = 1_700_000_000_000;
        let frontier = $frontier.at(T);
        let uri = |chg, uri| Uri { chg, at: 0, depth: 1, uri };
        let uris = [uri(b"a", b"u:1"), uri(b"a", b"u:2"), uri(b"b", b"u:3")];
        let counts = frontier.add_uris(b"crawl", Some(3), &uris)$(.$await)?.unwrap();
        assert_eq!(counts, [Some(1), Some(2), Some(1)]);
        let sequence = Some(Sequence { writer: b"w", number: 1 });
        for _ in 0..2 {
            let counts = frontier.add(b"other", sequence, &[(b"c", T + 5)])$(.$await)?.unwrap();
            assert_eq!(counts, [Some(1)]);
        }
        let limits = Limits { parallel: Some(2), gap: Some(MINUTE), delay: Some(None), budget: Some(Budget::Left(0)) };
        frontier.limit(b"c", &limits)$(.$await)?.unwrap();
        assert_eq!(frontier.add(b"other", None, &[(b"c", 0)])$(.$await)?.unwrap(), [None]);
        let next = Next { lease: Some(MINUTE), count: 5, wait: Wait::UpTo(MINUTE), ..Next::default() };
        let mut leases = frontier.next(&next)$(.$await)?.unwrap();
        assert_eq!(leases.len(), 2);
        let (second, first) = (leases.pop().unwrap(), leases.pop().unwrap());
        assert_eq!((first.deadline, first.uri.as_deref()), (T + 60_000, Some(&b"u:1"[..])));
        assert_eq!(frontier.extend(&first, 2 * MINUTE)$(.$await)?.unwrap(), T + 120_000);
        let why = frontier.why(b"a")$(.$await)?.unwrap();
        assert_eq!((&why.state[..], why.leases[0].deadline), ("busy", T + 120_000));
        assert_eq!(why.executions[0].weight, Some(3));
        let page = frontier.list(None, None, 2)$(.$await)?.unwrap();
        let waiting = ListedGroup { chg: b"c".to_vec(), state: Queue::Waiting, due: T + 5, count: 1 };
        let busy = |chg: &[u8], due, count| ListedGroup { chg: chg.to_vec(), state: Queue::Busy, due, count };
        assert_eq!(page.entries, [waiting, busy(b"b", T + 60_000, 1)]);
        assert!(page.next.is_some());
        let page = frontier.list(Some(Queue::Busy), page.next.as_deref(), 2)$(.$await)?.unwrap();
        assert_eq!((page.next, page.entries), (None, vec![busy(b"a", T + 120_000, 2)]));
        let page = frontier.uris(b"a", None, 2)$(.$await)?.unwrap();
        let uri = |uri: &[u8]| ListedUri { execution: b"crawl".to_vec(), depth: 1, due: T, attempts: 0, uri: uri.to_vec(), key: None };
        assert_eq!((page.next, page.entries), (None, vec![uri(b"u:2")]));
        let facts = Facts {
            elapsed: Duration::from_millis(300),
            factor: Some(2.0),
            min: Some(Duration::from_secs(1)),
            max: Some(Duration::from_secs(9)),
            crawl_delay: Some(Duration::from_secs(3)),
            retry_after: Some(Duration::from_secs(2)),
            status: Some(200),
        };
        let (due, none) = frontier
            .release_and_next(&first, &facts.into(), &first.done(), &next)
            $(.$await)?
            .unwrap();
        assert_eq!((due, none), (T + 3000, None));
        let until = Pause::Until(T + 10);
        let due = frontier.release(&second, &until, &Fetched::Retry(T))$(.$await)?.unwrap();
        assert_eq!(due, T + 10);
        frontier.block(b"b", T + 500)$(.$await)?.unwrap();
        frontier.block(b"b", 0)$(.$await)?.unwrap();
        for held in [Held::Everything, Held::Group(b"b"), Held::Execution(b"crawl")] {
            frontier.pause(held)$(.$await)?.unwrap();
            frontier.resume(held)$(.$await)?.unwrap();
        }
        frontier.share_gate(b"gate", &[b"b", b"c"])$(.$await)?.unwrap();
        assert_eq!(frontier.why(b"b")$(.$await)?.unwrap().group.as_deref(), Some(&b"gate"[..]));
        assert_eq!(frontier.move_uris(b"b", b"d")$(.$await)?.unwrap(), (1, 1));
        let later = frontier.at(T + 100_000);
        assert_eq!(later.sweep(Some(1))$(.$await)?.unwrap(), (1, 0));
        assert_eq!(later.sweep(None)$(.$await)?.unwrap(), (2, 0));
        assert_eq!(later.next(&Next { lease: Some(MINUTE), ..Next::default() })$(.$await)?.unwrap().len(), 1);
        let reports = frontier.at(T + 200_000).expired(5)$(.$await)?.unwrap();
        assert_eq!((reports.len(), reports[0].times), (1, 1));
        let info = frontier.at(T + 200_000).info()$(.$await)?.unwrap();
        assert_eq!((info.uris, info.groups_gated, &info.paused[..]), (3, 0, "0"));
        assert_eq!((info.known, info.next_due_ms), (0, T as i64 + 200_000));
        let execution = frontier.info_of(b"crawl")$(.$await)?.unwrap();
        assert_eq!((execution.uris, execution.paused, execution.known), (2, false, None));
        let check = frontier.check()$(.$await)?.unwrap();
        assert_eq!((check.consistent, check.mended), (true, None), "{check:?}");
        assert_eq!(frontier.repair()$(.$await)?.unwrap().mended, Some(0));
        assert_eq!(frontier.drop_group(b"d")$(.$await)?.unwrap(), (1, 1));
        assert_eq!(frontier.drop_execution(b"crawl")$(.$await)?.unwrap(), (1, 1));
    }};
}

macro_rules! tags_calls {
    ($space:expr $(, $await:ident)?) => {{
        let space = $space;
        assert_eq!(space.info()$(.$await)?.unwrap().tags, 0);
        let regex = br"(?:^|/)ARCHIVEIT-(\d+)-";
        space.rule_set(b"coll", b"filename", regex, &[b"coll:$1"])$(.$await)?.unwrap();
        assert_eq!(space.rules()$(.$await)?.unwrap()[0].regex, regex);
        space.point_set(b"all", b"coll:* & !private")$(.$await)?.unwrap();
        space.point_set(br"org-(\d+)", b"org:$1")$(.$await)?.unwrap();
        assert_eq!(space.points()$(.$await)?.unwrap().len(), 2);
        assert_eq!(space.point(b"org-7")$(.$await)?.unwrap().expression, b"org:7");
        assert_eq!(space.add(Kind::Tag, b"coll:2", &[b"private", b"org:7"])$(.$await)?.unwrap(), 2);
        assert_eq!(space.rem(Kind::Tag, b"coll:2", &[b"org:7", b"org:8"])$(.$await)?.unwrap(), 1);
        assert_eq!(space.get(Kind::Tag, b"coll:2")$(.$await)?.unwrap(), [b"private"]);
        assert_eq!(space.get_all(Kind::File, b"ARCHIVEIT-2-A.warc.gz")$(.$await)?.unwrap().len(), 2);
        for mode in [Mode::Merge, Mode::Set, Mode::Replace, Mode::Stage] {
            let loaded = space.load(Kind::Record, mode, &[(&b"com,a)/ 2024 f 0"[..], &b"x y"[..])]);
            assert_eq!(loaded$(.$await)?.unwrap(), 1);
        }
        assert_eq!(space.info()$(.$await)?.unwrap().staged(Kind::Record), 1);
        assert_eq!(space.swap(Kind::Record, Some(1))$(.$await)?.unwrap(), 1);
        assert_eq!(space.discard(Kind::Record)$(.$await)?.unwrap(), 0);
        let page = space.scan(Kind::Record, 0, b"com,", Some(10))$(.$await)?.unwrap();
        assert_eq!((page.next, &page.items[0].1[..]), (0, &b"x y"[..]));
        let page = space.list(b"private", b"coll", 0, Some(10))$(.$await)?.unwrap();
        assert_eq!(page.items, [b"coll:2"]);

        let files: [&[u8]; 3] = [b"ARCHIVEIT-1-A.warc.gz", b"ARCHIVEIT-2-B.warc.gz", b"other"];
        let all = Filter { point: Some(b"all"), format: Format::File, ..Filter::default() };
        let captures = Captures::Lines(&files);
        assert_eq!(space.filter_lines(&all, &files)$(.$await)?.unwrap(), [files[0]]);
        let text = files.join(&b'\n');
        let kept = space.filter_blob(&all, &text)$(.$await)?.unwrap();
        assert_eq!(kept, [files[0], b"\n"].concat());
        assert_eq!(space.indices(&all, captures)$(.$await)?.unwrap(), [0]);
        assert_eq!(space.bits(&all, captures)$(.$await)?.unwrap(), [0b1000_0000]);
        assert_eq!(space.count(&all, captures)$(.$await)?.unwrap(), 1);
        assert_eq!(space.tagged(&all, captures)$(.$await)?.unwrap()[0].tags, [b"coll:1"]);
        let everything = Filter {
            condition: Some(b"coll:*"),
            specs: vec![b"filename:ARCHIVEIT.*"],
            dialect: Dialect::Ia,
            collapse: Some(Collapse { field: b"filename", first: Some(9) }),
            limit: Some(5),
            drop_bad_lines: true,
            format: Format::File,
            ..Filter::default()
        };
        assert_eq!(space.count(&everything, captures)$(.$await)?.unwrap(), 1);
        let why = space.explain(&all, files[1])$(.$await)?.unwrap();
        assert_eq!((why.keep, &why.format[..], why.tags.len()), (false, "FILE", 2));
        assert!(!why.clauses[0].holds);
        assert!(space.rule_delete(b"coll")$(.$await)?.unwrap());
        assert!(space.point_delete(b"all")$(.$await)?.unwrap());
        assert!(!space.point_delete(b"all")$(.$await)?.unwrap());
    }};
}

#[test]
fn every_dedupe_call_works_in_both_protocols() {
    let redis = redis();
    for (url, protocol) in urls(&redis) {
        let server = Server::open(&url).unwrap();
        let (index, other) = (format!("{protocol}:"), format!("{protocol}-field:"));
        dedupe_calls!(Index::on(&server, index), Index::on(&server, other));
        run(async {
            let server = AsyncServer::open(&url).await.unwrap();
            let (index, other) = (
                format!("async-{protocol}:"),
                format!("async-{protocol}-field:"),
            );
            dedupe_calls!(Index::on(&server, index), Index::on(&server, other), await);
        });
    }
}

#[test]
fn every_frontier_call_works_in_both_protocols() {
    let redis = redis();
    for (url, protocol) in urls(&redis) {
        let server = Server::open(&url).unwrap();
        frontier_calls!(Frontier::on(&server, format!("{protocol}:")));
        run(async {
            let server = AsyncServer::open(&url).await.unwrap();
            frontier_calls!(Frontier::on(&server, format!("async-{protocol}:")), await);
        });
    }
}

#[test]
fn every_tags_call_works_in_both_protocols() {
    let redis = redis();
    for (url, protocol) in urls(&redis) {
        let server = Server::open(&url).unwrap();
        tags_calls!(TagSpace::on(&server, protocol));
        run(async {
            let server = AsyncServer::open(&url).await.unwrap();
            tags_calls!(TagSpace::on(&server, format!("async-{protocol}")), await);
        });
    }
}

#[test]
fn requested_protocol_is_used() {
    use crawlspace_client::{Ask, Call};
    let redis = redis();
    for (url, version) in urls(&redis).into_iter().zip([2, 3]) {
        let hello = Call::<std::collections::HashMap<String, crawlspace_client::redis::Value>>::new(
            crate::server::command("HELLO"),
        );
        let said = Server::open(&url.0).unwrap().ask(hello).unwrap();
        assert_eq!(said["proto"], crawlspace_client::redis::Value::Int(version));
    }
}
