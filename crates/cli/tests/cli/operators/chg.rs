//! Tests `crawlspace chg …`.

use redis_tests::{
    Options, Outcome, Server, Wire, assert_contains, assert_starts, int, ok, rows, server_time,
};
use serde_json::json;

use crate::operators::stage::{FRONTIER, crawlspace, frontier};

pub fn chg(server: &Server, words: &str) -> Outcome {
    crawlspace(server, FRONTIER, &format!("chg {words}"))
}

#[test]
fn old_command_name_still_works() {
    let server = Server::start();
    frontier(&server);
    let new = chg(&server, "info --json").object();
    let old = crawlspace(&server, FRONTIER, "frontier info --json").object();
    assert_eq!((&new["uris"], &old["uris"]), (&json!(4), &json!(4)));
}

#[test]
fn groups_crawls_and_the_frontier_are_paused_and_resumed() {
    let server = Server::start();
    let mut c = frontier(&server);
    for (what, shown, told) in rows![
        "a.example", "group a.example", json!({"state": "paused", "chg": "a.example"});
        "--execution crawl-1", "crawl crawl-1", json!({"state": "paused", "execution": "crawl-1"});
        "", "frontier '{web}:'", json!({"state": "paused"});
    ] {
        let paused = chg(&server, &format!("pause --json {what}"));
        assert_eq!((paused.status, paused.object()), (0, told));
        let why = chg(&server, "why a.example --json").object();
        assert_eq!(why["state"], "paused", "{what:?}");
        let resumed = chg(&server, &format!("resume {what}"));
        assert_eq!(resumed.out, format!("{shown}: resumed\n"), "{resumed:?}");
        let why = chg(&server, "why a.example --json").object();
        assert_ne!(why["state"], "paused", "{what:?}");
    }
    let unknown = chg(&server, "pause nowhere.example").exits(1);
    assert_contains(&unknown.errors, "NOCHG");
    chg(&server, "pause a --execution b").exits(2);

    // The end of a block is a time of the server's clock.
    let before = server_time(&mut c);
    let blocked = chg(&server, "block a.example --for 2h --json").object();
    let until = blocked["blocked-until"].as_u64().unwrap();
    let wanted = before as u64 + 7_200_000..=server_time(&mut c) as u64 + 7_200_000;
    assert!(wanted.contains(&until), "{blocked}");
    let why = chg(&server, "why a.example --json").object();
    assert_eq!(why["state"], "blocked");
    assert_eq!(why["blocked-until"], json!(until));
    let expected = "group a.example: not blocked\n";
    assert_eq!(chg(&server, "block a.example --off").out, expected);
    let exact = chg(&server, "block a.example --until 2030-01-01");
    assert_eq!(
        exact.out,
        "group a.example: blocked until 2030-01-01T00:00:00Z\n"
    );
    for wrong in [
        "block a.example",
        "block a.example --for 7",
        "block a.example --until tomorrow",
        "block a.example --off --for 1s",
    ] {
        chg(&server, wrong).exits(2);
    }
}

/// Returns a row of a table without its name.
#[track_caller]
fn row(table: &str, name: &str) -> String {
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect();
    let mut rows = table.lines().map(words);
    let row = rows.find(|row: &Vec<String>| row.first().is_some_and(|first| first == name));
    let row = row.unwrap_or_else(|| panic!("no row {name:?}: {table}"));
    row[1..].join(" ")
}

#[test]
fn limit_of_done_urls_is_set() {
    let server = Options::new().packed().start();
    let set = chg(
        &server,
        "limit a.example --done 9 --gap 1s --execution crawl-1",
    );
    assert_eq!(
        set.out, "group a.example: 1.0 s apart, 9 done URLs of crawl-1\n",
        "{set:?}"
    );
    let settle = "crawl-1 ITEMS 1 a.example https://a.example/ NEVER";
    server
        .wire()
        .ok_line(format!("CHG.SETTLE {FRONTIER} {settle}"));
    let why = chg(&server, "why a.example --json").object();
    let limits = json!([{"execution": "crawl-1", "limit": 9, "done": 1}]);
    assert_eq!(why["done-limits"], limits);
    let why = row(&chg(&server, "why a.example").out, "done");
    assert_eq!(why, "1 of at most 9 URLs of crawl crawl-1");
    let set = chg(
        &server,
        "limit a.example --done none --execution crawl-1 --json",
    );
    let expected = json!({"chg": "a.example", "done": null, "execution": "crawl-1"});
    assert_eq!(set.object(), expected);
    let why = chg(&server, "why a.example --json").object();
    assert_eq!(why["done-limits"], json!([]));
}

#[test]
fn limits_and_shared_gates_are_set() {
    let server = Server::start();
    frontier(&server);
    let limits = "--parallel 4 --gap 250ms --delay 30s --budget 7";
    let set = chg(&server, &format!("limit a.example {limits}"));
    assert_eq!(
        set.out, "group a.example: 4 at a time, 250 ms apart, a pause of 30.0 s, 7 more URIs\n",
        "{set:?}"
    );
    let why = chg(&server, "why a.example --json").object();
    assert_eq!(why["parallel"], 4);
    assert_eq!(why["gap"], 250);
    assert_eq!(why["budget"], 7);
    assert_eq!(why["delay"], json!(30_000));
    let why = chg(&server, "why a.example").out;
    for (name, shown) in [
        ("parallel", "4 fetches at a time"),
        ("gap", "250 ms between the starts of two fetches"),
        (
            "delay",
            "30.0 s after a fetch, if the worker does not set the pause",
        ),
        ("budget", "7 more URIs are accepted"),
    ] {
        assert_eq!(row(&why, name), shown, "{why}");
    }
    let why = chg(&server, "why b.example").out;
    for name in ["parallel", "gap", "delay", "budget", "done"] {
        assert!(!why.contains(&format!("  {name} ")), "{why}");
    }
    let set = chg(&server, "limit a.example --delay none --json");
    assert_eq!(set.object(), json!({"chg": "a.example", "delay": null}));
    let set = chg(&server, "limit a.example --budget none --json");
    assert_eq!(set.object(), json!({"chg": "a.example", "budget": null}));
    chg(&server, "limit a.example --done 9").exits(2);
    chg(&server, "limit a.example --done 0 --execution crawl-1").exits(2);
    chg(&server, "limit a.example").exits(2);
    chg(&server, "limit a.example --budget -1").exits(2);

    let gate = chg(&server, "group 192.0.2.7 a.example b.example");
    assert_eq!(gate.out, "2 groups: shared gate 192.0.2.7\n", "{gate:?}");
    let why = chg(&server, "why b.example --json").object();
    assert_eq!(why["group"], "192.0.2.7");
    let none = chg(&server, "group '' b.example --json");
    assert_eq!(none.object(), json!({"group": "", "chgs": ["b.example"]}));
    let why = chg(&server, "why b.example --json").object();
    assert_eq!(why["group"], json!(null));
}

#[test]
fn queues_are_moved_swept_and_dropped() {
    // The test reads and writes documented keys.
    let server = Options::new().plain().start();
    let mut c = frontier(&server);
    let moved = chg(&server, "move b.example a.example");
    assert_eq!(
        moved.out, "1 URI moved; group a.example has 3\n",
        "{moved:?}"
    );
    let again = chg(&server, "move b.example a.example").exits(1);
    assert_contains(&again.errors, "NOCHG");
    let moved = chg(&server, "move c.example d.example --json").object();
    let expected = json!({"from": "c.example", "to": "d.example", "moved": 1, "count": 1});
    assert_eq!(moved, expected);

    let swept = chg(&server, "sweep --limit 1 --json").object();
    assert_eq!(swept, json!({"from-wait": 1, "from-busy": 0}));
    assert_eq!(
        chg(&server, "sweep").out,
        "1 group came due, 0 leases expired\n"
    );

    let refused = chg(&server, "drop crawl-1").exits(2);
    assert_starts(&refused.errors, "crawl crawl-1: 3 URIs queued\n");
    assert_eq!(ok!(c, "GET", format!("{FRONTIER}QCT")).text(), "4");
    let dropped = chg(&server, "drop crawl-1 --yes");
    assert_eq!(
        dropped.out, "crawl crawl-1: 3 URIs of 1 group dropped\n",
        "{dropped:?}"
    );
    let dropped = chg(&server, "drop crawl-2 --yes --json").object();
    assert_eq!(
        dropped,
        json!({"execution": "crawl-2", "groups": 1, "uris": 1})
    );
}

#[test]
fn emptying_a_group_keeps_other_groups() {
    let server = Server::start();
    let mut c = frontier(&server);
    c.ok_line(format!(
        "CHG.ADDURI {FRONTIER} crawl-2 a.example 0 0 https://a.example/2"
    ));
    let refused = chg(&server, "drop --group a.example").exits(2);
    assert_starts(&refused.errors, "group a.example: 3 URIs queued\n");
    let uris = |c: &mut Wire| ok!(c, "CHG.INFO", FRONTIER).field("uris").int();
    assert_eq!(uris(&mut c), 5);
    let dropped = chg(&server, "drop --group a.example --yes");
    assert_eq!(dropped.out, "group a.example: 3 URIs of 2 crawls dropped\n");
    let dropped = chg(&server, "drop --group b.example --yes --json");
    let expected = json!({"group": "b.example", "executions": 1, "uris": 1});
    assert_eq!(dropped.object(), expected);
    assert_eq!(uris(&mut c), 1);
    let unknown = chg(&server, "drop --group nowhere.example --yes").exits(1);
    assert_contains(&unknown.errors, "NOCHG");
    for wrong in ["drop --yes", "drop crawl-2 --group c.example"] {
        chg(&server, wrong).exits(2);
    }
}

#[test]
fn groups_and_uris_are_listed() {
    let server = Server::start();
    let mut c = frontier(&server);
    let far = server_time(&mut c) as u64 + 86_400_000;
    for page in 0..1500 {
        let uri = format!("https://d.example/{page:04}");
        c.ok_line(format!(
            "CHG.ADDURI {FRONTIER} crawl-2 d.example {far} 1 {uri}"
        ));
    }
    ok!(c, "CHG.NEXT", FRONTIER, "LEASE", 3_600_000);
    let of = |words: &str| chg(&server, &format!("groups --json {words}"));
    let all = of("").json();
    let names: Vec<_> = all.iter().map(|one| one["chg"].as_str().unwrap()).collect();
    assert_eq!(names, ["b.example", "c.example", "d.example", "a.example"]);
    let expected = json!({"chg": "d.example", "state": "waiting", "due": far, "count": 1500});
    assert_eq!(all[2], expected);
    assert_eq!(all[3]["state"], "busy");
    assert_eq!(all[3]["count"], 2);
    assert_eq!(of("--state busy").object(), all[3]);
    assert_eq!(of("--state ready").out, "");
    let first = of("--count 2");
    assert_eq!(first.json(), all[..2]);
    assert_eq!(first.errors, "there may be more: increase --count\n");
    assert_eq!(of("--state idle").status, 2);
    let table = chg(&server, "groups --state waiting").out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(
        lines[0].starts_with("group") && lines[0].ends_with("URIs"),
        "{table}"
    );
    let of_d: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(of_d[..2], ["d.example", "waiting"]);
    assert!(
        of_d[2].ends_with('Z') && of_d[3..].concat() == "1500",
        "{table}"
    );

    // List more URIs than the server returns at once.
    let uris = chg(&server, "uris d.example --count 5000 --json");
    assert_eq!(uris.errors, "");
    let uris = uris.json();
    assert_eq!(uris.len(), 1500);
    for (page, one) in uris.iter().enumerate() {
        assert_eq!(one["uri"], format!("https://d.example/{page:04}"));
    }
    let expected = json!({
        "execution": "crawl-2", "depth": 1, "due": far, "attempts": 0, "uri": "https://d.example/0000",
    });
    assert_eq!(uris[0], expected);
    let few = chg(&server, "uris d.example");
    assert_eq!(few.out.lines().count(), 101, "{few:?}");
    assert_eq!(few.errors, "there may be more: increase --count\n");
    let of_a = chg(&server, "uris a.example --json").object();
    assert_eq!(of_a["uri"], "https://a.example/about");
    let unknown = chg(&server, "uris nowhere.example").exits(1);
    assert_contains(&unknown.errors, "NOCHG");
    let empty = Server::start();
    let nothing = chg(&empty, "groups").exits(1);
    assert_contains(
        &nothing.errors,
        "no frontier was used since the server started",
    );
    ok!(empty.wire(), "CHG.ADD", FRONTIER, "crawl-1", "a.example", 0);
    let counted = chg(&empty, "uris a.example");
    assert_eq!(counted.status, 0);
    assert_eq!(&*counted.errors, "no URI is queued for this group\n");
}

#[test]
fn expired_leases_and_faults_are_shown() {
    // The test reads and writes documented keys.
    let server = Options::new().plain().start();
    let mut c = frontier(&server);
    assert_eq!(chg(&server, "expired").errors, "no lease expired\n");
    ok!(c, "CHG.NEXT", FRONTIER, "LEASE", 1);
    let expired = redis_tests::until_some("the lease has run out", || {
        let expired = chg(&server, "expired --json");
        (!expired.out.is_empty()).then_some(expired)
    });
    let report = expired.object();
    assert_eq!(report["chg"], "a.example");
    assert_eq!(report["uri"], "https://a.example/");
    assert_eq!(report["times"], 1);

    chg(&server, "check").exits(0);
    ok!(c, "HINCRBY", format!("{FRONTIER}EIDC"), "crawl-1", 7);
    chg(&server, "check").exits(1);
    let mended = chg(&server, "repair --json");
    assert_eq!(mended.status, 0);
    assert_eq!(mended.object()["consistent"], false);
    chg(&server, "check").exits(0);
    let sound = chg(&server, "repair");
    assert_starts(&sound.out, "The frontier is consistent.\n");
    assert_eq!(
        ok!(c, "HGET", format!("{FRONTIER}EIDC"), "crawl-1").text(),
        "3"
    );
    assert_eq!(ok!(c, "EXISTS", format!("{FRONTIER}QCT")), int(1));
}

#[test]
fn urls_of_a_file_are_queued() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seeds.txt");
    let many: String = (0..2500)
        .map(|n| format!("https://many.example/{n}\n"))
        .collect();
    let seeds = format!(
        "# seeds\n\nhttps://A.example/\r\nhttps://a.example:8443/x\tignored\t3\nno URL\n{many}mailto:a@b\nhttp://b.example:80/"
    );
    std::fs::write(&file, seeds).unwrap();
    let add = format!("add crawl-1 --file {}", file.display());
    let added = chg(&server, &add).exits(2);
    assert_eq!(
        added.out,
        "crawl crawl-1: 2 503 URIs queued, 2 invalid lines\n"
    );
    assert_starts(&added.errors, "crawlspace: line 5: invalid URL 'no URL': ");
    assert_contains(
        &added.errors,
        "\ncrawlspace: line 2506: invalid URL 'mailto:a@b': it has no host",
    );
    let uris = |c: &mut Wire| ok!(c, "CHG.INFO", FRONTIER).field("uris").int();
    assert_eq!(uris(&mut c), 2503);
    // The URIs are stored unchanged.
    let listed = chg(&server, "uris a.example --json").object();
    assert_eq!(listed["uri"], "https://A.example/");
    let listed = chg(&server, "uris a.example:8443 --json").object();
    assert_eq!(
        (&listed["uri"], &listed["depth"]),
        (&json!("https://a.example:8443/x"), &json!(3))
    );

    // The command can be repeated.
    let again = chg(&server, &format!("{add} --json")).exits(2);
    let expected = json!({
        "execution": "crawl-1", "accepted": 2503, "known": null, "refused": 0, "invalid": 2,
    });
    assert_eq!(again.object(), expected);
    assert_eq!(uris(&mut c), 2503);

    std::fs::write(
        &file,
        "https://c.example/\t192.0.2.7\t2\t4000000000000\nhttps://d.example/\t192.0.2.7\n",
    )
    .unwrap();
    chg(&server, "limit 192.0.2.7 --budget 1").exits(0);
    let added = chg(&server, &format!("{add} --group column --weight 3")).exits(1);
    assert_contains(&added.errors, "ten years");
    std::fs::write(
        &file,
        "https://c.example/\t192.0.2.7\t2\t1\nhttps://d.example/\t192.0.2.7\n",
    )
    .unwrap();
    let added = chg(&server, &format!("{add} --group column --weight 3"));
    assert_eq!(
        added.out,
        "crawl crawl-1: 1 URI queued, 1 refused because a budget is used up or the crawl is being dropped\n"
    );
    for (wrong, status) in [
        ("add", 2),
        ("add crawl-1 --group ip", 2),
        ("add crawl-1 --weight 0", 2),
        ("add crawl-1 --file /nowhere/seeds.txt", 1),
        ("add crawl-1 --file /", 1),
    ] {
        chg(&server, wrong).exits(status);
    }
}

#[test]
fn urls_of_a_file_are_discovered_in_a_packed_frontier() {
    let server = Options::new().packed().start();
    let mut c = server.wire();
    let discover = |c: &mut Wire, execution: &str, url: &str| {
        let url = format!("a.example 0 1 https://a.example/{url}");
        let line = format!("CHG.DISCOVER {FRONTIER} {execution} URI ITEMS 1 {url}");
        c.call(&line.split(' ').collect::<Vec<_>>())
    };
    let uris = |c: &mut Wire| ok!(c, "CHG.INFO", FRONTIER).field("uris").int();
    c.ok_line(format!(
        "CHG.SETTLE {FRONTIER} crawl-1 ITEMS 1 a.example https://a.example/done NEVER"
    ));
    chg(&server, "limit full.example --budget 0").exits(0);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seeds.txt");
    let many: String = (0..1500)
        .map(|n| format!("https://many.example/{n}\n"))
        .collect();
    let seeds = format!(
        "https://a.example/done\nhttps://a.example/\nhttps://full.example/\n{many}https://a.example/\n"
    );
    std::fs::write(&file, seeds).unwrap();
    let file = file.display();

    // The workers can discover further URLs of the crawl.
    let refused = "1 refused because a budget is used up or the crawl is being dropped";
    let added = chg(&server, &format!("add crawl-1 --weight 3 --file {file}")).exits(0);
    assert_eq!(
        added.out,
        format!("crawl crawl-1: 1 501 URIs queued, 2 known already, {refused}\n")
    );
    assert_eq!(uris(&mut c), 1501);
    let why = chg(&server, "why a.example --json").object();
    assert_eq!(why["executions"][0]["weight"], 3);
    assert_eq!(discover(&mut c, "crawl-1", "about").items(), [int(2)]);
    assert_eq!(discover(&mut c, "crawl-1", "done").items(), [int(0)]);

    // The second run queues nothing.
    let again = chg(&server, &format!("add crawl-1 --file {file} --json")).exits(0);
    let expected = json!({
        "execution": "crawl-1", "accepted": 0, "known": 1503, "refused": 1, "invalid": 0,
    });
    assert_eq!(again.object(), expected);
    let again = chg(&server, &format!("add crawl-1 --file {file}")).exits(0);
    let expected = format!("crawl crawl-1: 0 URIs queued, 1 503 known already, {refused}\n");
    assert_eq!(again.out, expected);
    assert_eq!(uris(&mut c), 1502);

    // A crawl with URIs that were queued before it remembered its URLs stays as it is.
    let old = format!("CHG.ADDURI {FRONTIER} old a.example 0 0 https://a.example/");
    c.ok_line(old);
    let added = chg(&server, &format!("add old --file {file} --json")).exits(0);
    let expected = json!({
        "execution": "old", "accepted": 1503, "known": null, "refused": 1, "invalid": 0,
    });
    assert_eq!(added.object(), expected);
    assert_contains(format!("{:?}", discover(&mut c, "old", "about")), "KNOWN");
}

#[test]
fn dump_of_a_crawl_can_be_added_again() {
    let server = Options::new().packed().start();
    let mut c = frontier(&server);
    let soon = server_time(&mut c) + 3_600_000;
    for line in [
        format!("a.example 0 0 https://a.example/ a.example {soon} 3 https://a.example/3"),
        "192.0.2.7 0 1 https://b.example/\u{e9} gated 0 0 https://gated/".to_owned(),
        "gated-too 0 2 https://gated/2 gated-too 0 2 https://gated/3".to_owned(),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        c.expect_ok(&[&["CHG.ADDURI", FRONTIER, "dumped"], &words[..]].concat());
    }
    ok!(c, "CHG.GROUP", FRONTIER, "gate", "gated", "gated-too");
    ok!(
        c,
        "CHG.NEXT",
        FRONTIER,
        "COUNT",
        9,
        "URIS",
        1,
        "EXECUTION",
        "dumped"
    );
    let dumped = chg(&server, "dump dumped").exits(0);
    let mut lines: Vec<&str> = dumped.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 6, "{dumped:?}");
    assert_eq!(
        lines[1],
        format!("https://a.example/3\ta.example\t3\t{soon}")
    );
    let json = chg(&server, "dump dumped --json").exits(0);
    assert_contains(&json.out, "\"state\":\"leased\"");

    let empty = Options::new().packed().start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dump.txt");
    std::fs::write(&file, &dumped.out).unwrap();
    let add = format!("add dumped --group column --file {}", file.display());
    let added = chg(&empty, &add);
    assert_eq!(added.out, "crawl dumped: 6 URIs queued\n", "{added:?}");
    let added = chg(&empty, &add);
    let expected = "crawl dumped: 0 URIs queued, 6 known already\n";
    assert_eq!(added.out, expected, "{added:?}");
    let plain = Options::new().plain().start();
    let added = chg(&plain, &add);
    assert_eq!(added.out, "crawl dumped: 6 URIs queued\n", "{added:?}");
    let listed = |server: &Server| {
        let uris = chg(server, "uris a.example --json").json();
        let fields = |uri: &serde_json::Value| (uri["uri"].clone(), uri["depth"].clone());
        uris.iter().map(fields).collect::<Vec<_>>()
    };
    assert_eq!(listed(&plain).len(), 2);
    assert_eq!(listed(&plain), listed(&empty));
    let places = |out: &str| {
        let mut places: Vec<Vec<String>> = out
            .lines()
            .map(|line| line.split('\t').take(3).map(str::to_owned).collect())
            .collect();
        places.sort();
        places
    };
    let again = chg(&empty, "dump dumped").exits(0);
    assert_eq!(places(&again.out), places(&dumped.out));
    assert_contains(
        &again.out,
        format!("https://a.example/3\ta.example\t3\t{soon}\n"),
    );

    // Lines that would be read differently are left out.
    let words = [
        "CHG.ADDURI",
        FRONTIER,
        "odd",
        "h",
        "0",
        "0",
        "a\tb",
        "h",
        "0",
        "0",
        "u",
    ];
    c.expect_ok(&words);
    let odd = chg(&server, "dump odd").exits(2);
    assert!(odd.out.starts_with("u\th\t0\t"), "{odd:?}");
    assert_contains(
        &odd.errors,
        "the URL 'a\\tb' of group 'h' cannot be written as a line",
    );
}

#[test]
fn dump_prints_done_urls_if_their_texts_are_kept() {
    let server = Options::new().packed().start();
    let mut c = frontier(&server);
    let refused = chg(&server, "dump crawl-1 --done").exits(1);
    assert_contains(&refused.errors, "TEXT");
    ok!(c, "CHG.SPACE", FRONTIER, "kept", "TEXT", "YES");
    ok!(
        c,
        "CHG.SETTLE",
        FRONTIER,
        "kept",
        "ITEMS",
        1,
        "h",
        "https://h/",
        "NEVER"
    );
    let done = chg(&server, "dump kept --done").exits(0);
    assert_eq!(done.out, "https://h/\th\n");
    assert_eq!(chg(&server, "dump kept").exits(0).out, "");
}
