//! Tests collections that clients write to as to OutbackCDX.

use std::io::Write as _;
use std::net::TcpStream;

use crawlspace_serve::config::{Config, Secrets};
use redis_tests::http::{Answer, ask};
use redis_tests::packages::sized;
use redis_tests::{Options, Reply, Server, assert_contains, until, with};

use crate::serving::{Setup, Stage};

const TOKEN: &str = "0123456789abcdef-token";
const KEY: &str = "web:cdxj";

/// A Redis server, and the folder with the token.
struct Rows {
    redis: Server,
    folder: tempfile::TempDir,
}

impl Rows {
    fn new() -> Rows {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Rows {
            redis: Server::with(Options::new().no_module()),
            folder,
        }
    }

    fn config(&self) -> String {
        format!(
            "collections:\n  web:\n    writable: {{redis_url: '{}', key: '{{coll}}:cdxj', token_file: {}}}\n    \
             resource: {}\n  other: $live\n",
            self.redis.url().trim_end_matches('/'),
            self.folder.path().join("token").display(),
            self.folder.path().display(),
        )
    }

    fn count(&self) -> i64 {
        match self.redis.wire().ok_line(format!("ZCARD {KEY}")) {
            Reply::Int(count) => count,
            other => panic!("{}", other.text()),
        }
    }
}

fn post(stage: &Stage, target: &str, fields: &[(&str, &str)], lines: &str) -> Answer {
    ask(stage.address(), "POST", target, fields, lines.as_bytes()).unwrap()
}

/// Sends lines with the token.
fn write(stage: &Stage, target: &str, lines: &str) -> Answer {
    let token = format!("Bearer {TOKEN}");
    post(stage, target, &[("Authorization", &token)], lines)
}

/// Returns the URLs and years of the captures of a URL.
fn found(stage: &Stage, query: &str) -> String {
    let answer = stage.get(format!("/web/index?{query}&fl=timestamp,url&output=text"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let rows = text.lines().map(|row| {
        let (time, url) = row.split_once(' ').unwrap();
        format!("{} {url}", &time[..4])
    });
    rows.collect::<Vec<_>>().join(", ")
}

const LINES: &str = " CDX N b a m s k r M S V g\n\
    - 20160102030405 http://a.example/ text/html 200 AAAA - - 100 0 a.warc.gz\n\
    - 20180102030405 http://a.example/ text/html 200 BBBB - - 100 100 a.warc.gz\n\
    - 20170102030405 http://b.example/page text/html 200 CCCC - - 100 200 a.warc.gz\n";

#[test]
fn lines_are_added_and_deleted() {
    let rows = Rows::new();
    let stage = Stage::start(&rows.config());
    assert_eq!(found(&stage, "url=a.example"), "");
    let added = write(&stage, "/web", LINES);
    assert_eq!((added.status, &*added.text()), (200, "Added 3 records\n"));
    assert_eq!(
        found(&stage, "url=a.example"),
        "2016 http://a.example/, 2018 http://a.example/"
    );
    // The read API of OutbackCDX answers as well.
    let outback = stage.get("/web?url=http://b.example/page").text();
    assert_eq!(
        outback,
        "example,b)/page 20170102030405 http://b.example/page text/html 200 CCCC - - 100 200 a.warc.gz\n"
    );
    // Again, as CDXJ, and without a line end.
    let row = r#"x 20180102030405 {"url": "http://a.example/", "mime": "text/html", "status": "200", "digest": "BBBB", "length": "100", "offset": "100", "filename": "a.warc.gz"}"#;
    assert_eq!(write(&stage, "/web/", row).status, 200);
    assert_eq!(write(&stage, "/web", LINES).status, 200);
    assert_eq!(rows.count(), 3);
    let deleted = write(&stage, "/web/delete", row);
    assert_eq!(
        (deleted.status, &*deleted.text()),
        (200, "Deleted 1 records\n")
    );
    assert_eq!(found(&stage, "url=a.example"), "2016 http://a.example/");
    // An invalid line is refused with its number, or skipped.
    let wrong = format!("{LINES}three columns only\n{row}\n");
    let refused = write(&stage, "/web", &wrong);
    assert_eq!(refused.status, 400);
    assert_contains(refused.text(), "line 5: ");
    let skipped = write(&stage, "/web?badLines=skip", &wrong);
    assert_eq!(
        (skipped.status, &*skipped.text()),
        (200, "Added 4 records\n")
    );
}

#[test]
fn aliases_lead_to_the_captures_of_another_url() {
    let rows = Rows::new();
    let stage = Stage::start(&rows.config());
    assert_eq!(write(&stage, "/web", LINES).status, 200);
    let alias = "@alias http://a.example/ http://b.example/page\n";
    assert_eq!(write(&stage, "/web", alias).status, 200);
    let all = "2016 http://a.example/, 2017 http://b.example/page, 2018 http://a.example/";
    for url in ["a.example", "b.example/page"] {
        assert_eq!(found(&stage, &format!("url={url}")), all, "{url}");
    }
    // Captures that are added later are found as well, and each line can still be deleted.
    let later = "- 20190102030405 http://a.example/ text/html 200 DDDD - - 100 300 a.warc.gz\n";
    assert_eq!(write(&stage, "/web", later).status, 200);
    let more = format!("{all}, 2019 http://a.example/");
    assert_eq!(found(&stage, "url=b.example/page"), more);
    assert_eq!(write(&stage, "/web/delete", later).status, 200);
    assert_eq!(write(&stage, "/web/delete", alias).status, 200);
    assert_eq!(found(&stage, "url=a.example"), "");
    assert_eq!(found(&stage, "url=b.example/page"), all);
}

#[test]
fn alias_of_an_alias_is_refused() {
    let rows = Rows::new();
    let stage = Stage::start(&rows.config());
    assert_eq!(write(&stage, "/web", LINES).status, 200);
    let alias =
        |from: &str, to: &str| format!("@alias http://{from}.example/ http://{to}.example/\n");
    let [ab, bc, ca, ba] =
        [("a", "b"), ("b", "c"), ("c", "a"), ("b", "a")].map(|(from, to)| alias(from, to));
    assert_eq!(write(&stage, "/web", &ab).status, 200);
    let later = "- 20190102030405 http://b.example/ text/html 200 DDDD - - 100 300 a.warc.gz\n";
    for cycle in [&ba, &ca] {
        let refused = write(&stage, "/web", &format!("{later}{cycle}{later}"));
        assert_eq!(refused.status, 400, "{cycle}");
        assert_contains(
            refused.text(),
            "line 2: the target of the alias, example,a)/, is an alias of example,b)/",
        );
    }
    // The lines before it are written, and the alias still works.
    let all = "2016 http://a.example/, 2018 http://a.example/, 2019 http://b.example/";
    for url in ["a.example", "b.example"] {
        assert_eq!(found(&stage, &format!("url={url}")), all, "{url}");
    }
    let skipped = write(&stage, "/web?badLines=skip", &format!("{ba}{later}{later}"));
    assert_eq!(
        (skipped.status, &*skipped.text()),
        (200, "Added 2 records\n")
    );
    // A request can be sent again, although the target has become an alias.
    for _ in 0..2 {
        assert_eq!(write(&stage, "/web", &format!("{ab}{bc}")).status, 200);
    }
    for closing in [&ca, &alias("c", "b")] {
        assert_eq!(write(&stage, "/web", closing).status, 400, "{closing}");
    }
    assert_eq!(found(&stage, "url=b.example"), all);
    // The alias gets the new target.
    assert_eq!(write(&stage, "/web", &alias("a", "c")).status, 200);
    assert_eq!(found(&stage, "url=a.example"), all);
    // A deleted alias can be a target. A URL whose alias is itself is not an alias.
    assert_eq!(
        write(&stage, "/web/delete", &format!("{bc}{ab}")).status,
        200
    );
    for line in [&ca, &alias("a", "a"), &alias("d", "a")] {
        assert_eq!(write(&stage, "/web", line).status, 200, "{line}");
    }
    for url in ["a.example", "c.example", "d.example"] {
        assert_eq!(found(&stage, &format!("url={url}")), all, "{url}");
    }
}

#[test]
fn concurrent_writes_lose_no_row_to_an_alias() {
    let rows = Rows::new();
    let stage = Stage::start(&rows.config());
    let line = |host: &str, n: usize| {
        format!(
            "- 2016010203{:02}{:02} http://{host}.example/ text/html 200 AAAA - - 100 {n} a.warc.gz\n",
            n / 60,
            n % 60
        )
    };
    for round in 0..20 {
        let [p, q, s, t] = ["p", "q", "s", "t"].map(|host| format!("{host}{round}"));
        let alias =
            |from: &str, to: &str| format!("@alias http://{from}.example/ http://{to}.example/\n");
        let both: String = (0..60).map(|n| line(&p, n) + &line(&q, n + 60)).collect();
        assert_eq!(write(&stage, "/web", &both).status, 200);
        let send = |lines: String| write(&stage, "/web", &lines).status;
        let (refused, added) = std::thread::scope(|scope| {
            let aliases = [(&p, &q), (&q, &p)].map(|(a, b)| scope.spawn(move || send(alias(a, b))));
            let added = scope.spawn(|| {
                (0..40)
                    .map(|n| send(line(&s, n)))
                    .all(|status| status == 200)
            });
            let moved = scope.spawn(|| send(alias(&s, &t)));
            assert_eq!(moved.join().unwrap(), 200);
            let statuses = aliases.map(|alias| alias.join().unwrap());
            (
                statuses.into_iter().filter(|&status| status == 400).count(),
                added.join().unwrap(),
            )
        });
        // One of two aliases that name each other is refused.
        assert!(refused == 1 && added, "round {round}: {refused}");
        let many = |url: &str| {
            found(&stage, &format!("url={url}.example"))
                .split(", ")
                .count()
        };
        assert_eq!(
            [many(&p), many(&q), many(&s), many(&t)],
            [120, 120, 40, 40],
            "round {round}"
        );
    }
}

#[test]
fn nothing_is_written_without_the_token() {
    let rows = Rows::new();
    let stage = Stage::start(&rows.config());
    let short = format!("Bearer {}", &TOKEN[1..]);
    let long = format!("Bearer {TOKEN}x");
    let basic = format!("Basic {TOKEN}");
    for (name, value) in [
        ("X-Other", ""),
        ("Authorization", ""),
        ("Authorization", "Bearer"),
        ("Authorization", "Bearer "),
        ("Authorization", TOKEN),
        ("Authorization", &*basic),
        ("Authorization", &*short),
        ("Authorization", &*long),
    ] {
        for target in ["/web", "/web/delete"] {
            let refused = post(&stage, target, &[(name, value)], LINES);
            assert_eq!(refused.status, 401, "{name}: {value}");
        }
    }
    assert_eq!(rows.count(), 0);
    let token = format!("Bearer {TOKEN}");
    for media in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
    ] {
        let fields = [("Authorization", &*token), ("Content-Type", media)];
        assert_eq!(post(&stage, "/web", &fields, LINES).status, 200, "{media}");
    }
    // Other collections are not writable, and other methods are refused.
    assert_eq!(
        post(&stage, "/other", &[("Authorization", &token)], LINES).status,
        405
    );
    assert_eq!(rows.count(), 3);
}

#[test]
fn interrupted_request_is_repeated_without_duplicates() {
    let rows = Rows::new();
    let count = sized(20_000, 1_000_000);
    let lines: String = (0..count)
        .map(|n| {
            format!(
                "- 20160102030405 http://a.example/{n} text/html 200 AAAA - - 100 {n} a.warc.gz\n"
            )
        })
        .collect();
    let apart = || Stage::start_with(&rows.config(), with!(Setup, is_apart: true));
    let stage = apart();
    let mut connection = TcpStream::connect(stage.address()).unwrap();
    let head = format!(
        "POST /web HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n",
        stage.address(),
        lines.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection
        .write_all(&lines.as_bytes()[..lines.len() / 2])
        .unwrap();
    until("rows are written while the body arrives", || {
        rows.count() > 0
    });
    // Kills the server.
    drop(stage);
    assert!(rows.count() < count);
    let stage = apart();
    for _ in 0..2 {
        let added = write(&stage, "/web", &lines);
        assert_eq!(added.text(), format!("Added {count} records\n"));
        assert_eq!(rows.count(), count);
    }
}

#[test]
fn configuration_is_checked() {
    let rows = Rows::new();
    let parsed = |text: &str| {
        Config::parse(text, "config.yaml", rows.folder.path()).map(|(config, _)| config)
    };
    let whole = parsed(&rows.config()).unwrap();
    let shown = whole.to_yaml(Secrets::Shown);
    assert_eq!(parsed(&shown).unwrap(), whole, "{shown}");
    for (config, message) in [
        (
            "{writable: {redis_url: 'redis://h', key: k}}",
            "the field token_file is missing",
        ),
        (
            "{writable: {redis_url: 'redis://h', key: k, token_file: none}}",
            "none: cannot read",
        ),
        (
            "{writable: {redis_url: 'redis://h', key: '', token_file: token}}",
            "key is empty",
        ),
        (
            "{index: a.cdxj, writable: {redis_url: 'redis://h', key: k, token_file: token}}",
            "exclude each other",
        ),
    ] {
        let error = parsed(&format!("collections:\n  web: {config}\n")).unwrap_err();
        assert_contains(error.to_string(), message);
    }
    std::fs::write(rows.folder.path().join("token"), "short").unwrap();
    assert_contains(
        parsed(&rows.config()).unwrap_err().to_string(),
        "invalid token",
    );
}
