//! Tests the errors of the server, by their codes.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crawlspace_client::dedupe::{Added, Adding, Index, Profile, Revisited, Revisiting, Sequence};
use crawlspace_client::frontier::{Frontier, Held, Next, Pause, Wait};
use crawlspace_client::tags::{Filter, Format, Kind, TagSpace};
use crawlspace_client::{Ask, Call, Code, Error, Server};
use redis_tests::{Options, Server as Redis, assert_contains, but, ok, until, with};

use crate::server::command;

const HASH: &[u8] = b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
const MINUTE: Duration = Duration::from_secs(60);

fn record() -> Added<'static> {
    Added::new(HASH, 0, b"20240501120000", b"https://example.com/", 5120)
}

#[track_caller]
fn assert_code<T: std::fmt::Debug>(outcome: Result<T, Error>, code: Code) {
    let error = outcome.unwrap_err();
    assert_eq!(error.code(), Some(code), "{error}");
    assert_eq!(error.word(), Some(code.word()));
    assert_contains(&error, format!(": {} ", code.word()));
    assert!(!error.is_connection());
}

#[test]
fn each_code_of_the_dedupe_commands_is_known() {
    let redis = Redis::start();
    let server = Server::options(&redis.url()).connections(2).open().unwrap();
    let index = Index::on(&server, "");
    let adding = Adding::default();
    assert_code(index.commit(b"nobody"), Code::NoCrawl);
    assert_code(index.add(b"a:counts", &adding, &[record()]), Code::BadCrawl);
    let short = but!(record(), hash: b"x");
    assert_code(index.add(b"a", &adding, &[short]), Code::BadHash);
    let revisited = Revisited {
        hash: HASH,
        size: 1,
        original: None,
    };
    assert_code(
        index.revisit(b"a", &Revisiting::default(), &[revisited]),
        Code::NoHash,
    );
    index.add(b"a", &adding, &[record()]).unwrap();
    assert_code(index.remove(&[b"a"]), Code::Uncommitted);
    index.commit(b"a").unwrap();
    assert_code(index.cancel(b"a"), Code::Committed);
    assert_code(index.set_profile(Profile::Browsertrix), Code::HasCrawls);
    let undated = but!(record(), date: b"today");
    assert_code(index.add(b"a", &adding, &[undated]), Code::Err);
    let second = Adding {
        sequence: Some(Sequence {
            writer: b"w",
            number: 2,
        }),
        ..adding
    };
    index.add(b"b", &second, &[record()]).unwrap();
    let first = Adding {
        sequence: Some(Sequence {
            writer: b"w",
            number: 1,
        }),
        ..adding
    };
    assert_code(index.add(b"b", &first, &[record()]), Code::Stale);
    let mut c = redis.wire();
    ok!(c, "HSET", "removing", "b", "remove");
    assert_code(index.add(b"b", &adding, &[record()]), Code::Removing);
    assert_code(
        Index::on(&server, "x".repeat(1025)).stats(),
        Code::BadPrefix,
    );
    ok!(c, "SET", "wrong:allhashes", "text");
    assert_code(
        Index::on(&server, "wrong:").lookup(None, &[HASH]),
        Code::WrongType,
    );
    ok!(c, "HSET", "newer:crawlspace", "format", "999");
    assert_code(
        Index::on(&server, "newer:").lookup(None, &[HASH]),
        Code::BadFormat,
    );

    // While a client waits for a claim, the crawl is cancelled.
    let other = Index::on(&server, "other:");
    other.add(b"c", &adding, &[record()]).unwrap();
    let hash = b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
    other.claim(b"d", hash, MINUTE, Duration::ZERO).unwrap();
    let waiting = thread::spawn({
        let other = other.clone();
        move || other.claim(b"c", hash, MINUTE, MINUTE)
    });
    until("it waits", || redis.info_number("blocked_clients") == 1);
    other.cancel(b"c").unwrap();
    assert_code(waiting.join().unwrap(), Code::Canceled);

    ok!(c, "CONFIG", "SET", "maxmemory", 1);
    assert_code(index.add(b"e", &adding, &[record()]), Code::Oom);
}

#[test]
fn each_code_of_the_frontier_commands_is_known() {
    let redis = Redis::start();
    let server = Server::options(&redis.url()).connections(2).open().unwrap();
    let frontier = Frontier::on(&server, "");
    assert_code(frontier.why(b"nowhere"), Code::NoChg);
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    let lease = frontier.next(&Next::default()).unwrap().remove(0);
    assert_code(frontier.move_uris(b"a", b"b"), Code::Leased);
    let mut old = lease.clone();
    old.token -= 1;
    assert_code(frontier.extend(&old, MINUTE), Code::Stale);
    assert_code(frontier.limit(b"a", &Default::default()), Code::Err);
    let now = Pause::For(Duration::ZERO);
    frontier.release(&lease, &now, &lease.done()).unwrap();

    let empty = Frontier::on(&server, "empty:");
    let waiting = thread::spawn(move || empty.next(&with!(Next, wait: Wait::ForEver)));
    until("it waits", || redis.info_number("blocked_clients") == 1);
    let mut c = redis.wire();
    ok!(c, "REPLICAOF", "127.0.0.1", 1);
    assert_code(waiting.join().unwrap(), Code::Unblocked);
    assert_code(frontier.resume(Held::Everything), Code::ReadOnly);
}

#[test]
fn each_code_of_the_tags_commands_is_known() {
    let redis = Redis::start();
    let space = TagSpace::open(&redis.url(), "tags").unwrap();
    assert_code(space.point(b"nowhere"), Code::NoPoint);
    assert_code(space.point_set(b"p", b"a &"), Code::Syntax);
    assert_code(
        space.rule_set(b"r", b"filename", b"(", &[b"x"]),
        Code::BadRegex,
    );
    assert_code(space.rule_set(b"r", b"", b"x", &[b"x"]), Code::BadField);
    assert_code(space.swap(Kind::Tag, None), Code::NoStage);
    space.add(Kind::Tag, b"a", &[b"b"]).unwrap();
    assert_code(space.add(Kind::Tag, b"b", &[b"a"]), Code::Cycle);
    let cdx = with!(Filter, format: Format::Cdx);
    assert_code(space.filter_lines(&cdx, &[b"no such line"]), Code::BadLine);
    let long = vec![b'a'; (1 << 20) + 1];
    assert_code(space.point_set(b"p", &long), Code::TooBig);
}

#[test]
fn missing_permission_is_reported() {
    let redis = Redis::start();
    redis
        .wire()
        .ok_line("ACL SETUSER guest on >secret ~mine:* +@all");
    let url = format!("redis://guest:secret@127.0.0.1:{}/", redis.port());
    let index = Index::open(&url, "yours:").unwrap();
    assert_code(index.lookup(None, &[HASH]), Code::NoPerm);
    Index::on(index.server(), "mine:")
        .lookup(None, &[HASH])
        .unwrap();
}

#[test]
fn missing_module_is_reported() {
    let redis = Options::new().no_module().start();
    let server = Server::open(&redis.url()).unwrap();
    let error = Index::on(&server, "").stats().unwrap_err();
    let sentence = "DEDUPE.STATS: the server has not loaded the Crawlspace module";
    assert_eq!(error.to_string(), sentence);
    // An unknown plain command causes a different error.
    let error = server.ask(Call::<String>::new(command("NO.SUCH x")));
    let error = error.unwrap_err();
    assert_eq!(error.code(), Some(Code::Err), "{error}");
    assert_eq!(
        server.ask(Call::<String>::new(command("PING"))).unwrap(),
        "PONG"
    );
}

#[test]
fn every_code_of_the_documentation_has_a_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands");
    let mut words = BTreeSet::new();
    for page in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        let tables = text.split("\n| code |").skip(1);
        let rows = tables.flat_map(|table| {
            let lines = table.lines().skip(2);
            lines.take_while(|line| line.starts_with('|'))
        });
        for row in rows {
            let cell = row.split('|').nth(1).unwrap_or_default();
            // The detail contains only the first word of the name, in backquotes.
            let codes = cell.split('`').skip(1).step_by(2);
            words.extend(codes.filter_map(|code| Some(code.split(' ').next()?.to_owned())));
        }
    }
    assert!(words.len() > 25, "{words:?}");
    let unknown: Vec<_> = words
        .iter()
        .filter(|word| Code::of(word).is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_command_of_the_documentation_has_a_call() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    let mut folders = vec![
        client.join("src/dedupe"),
        client.join("src/frontier"),
        client.join("src/tags"),
    ];
    let mut files: Vec<_> = folders
        .iter()
        .map(|folder| folder.with_extension("rs"))
        .collect();
    while let Some(folder) = folders.pop() {
        files.extend(
            std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
        files.retain(|path| {
            if path.is_dir() {
                folders.push(path.clone());
            }
            path.is_file()
        });
    }
    for file in files {
        sources.push_str(&std::fs::read_to_string(file).unwrap());
    }
    let pages = std::fs::read_dir(client.join("../docs/commands")).unwrap();
    let mut commands = 0;
    for page in pages {
        let page = page.unwrap();
        let name = page.file_name().into_string().unwrap();
        let command = name.trim_end_matches(".md").to_uppercase();
        // Some commands replace a command of the server; clients send the original command, not the replacement.
        let text = std::fs::read_to_string(page.path()).unwrap();
        let is_sent = !text.contains("Programs do not send this command themselves.");
        if command != "README" && is_sent {
            assert!(sources.contains(&format!("\"{command}\"")), "{command}");
            commands += 1;
        }
    }
    assert!(commands > 50, "{commands}");
}
