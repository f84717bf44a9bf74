//! Tests of every collection as a Memento endpoint (RFC 7089).

use std::path::Path;

use crawlspace_serve::config::Config;
use crawlspace_serve::reload::Current;
use crawlspace_serve::{Federation, server};
use redis_tests::assert_contains;
use redis_tests::http::{Answer, ask, get};
use tokio::net::TcpListener;

use crate::index_api::archive;
use crate::serving::Stage;

const TIMEMAP: &str = "/both/timemap/link/http://example.com/";
const TIMEGATE: &str = "/both/timegate/http://example.com/";

/// Parses the links in `text`: URL, relation and all parameters.
fn links(text: &str) -> Vec<(String, String, String)> {
    let links = text.split(",\n").flat_map(|links| links.split(", <"));
    let link = |link: &str| {
        let (url, parameters) = link.split_once(">; rel=\"")?;
        let (relation, parameters) = parameters.split_once('"')?;
        Some((
            url.trim_start_matches('<').to_owned(),
            relation.to_owned(),
            parameters.trim().to_owned(),
        ))
    };
    links
        .map(|text| link(text).unwrap_or_else(|| panic!("no link: {text}")))
        .collect()
}

fn asked(stage: &Stage, target: &str, fields: &[(&str, &str)]) -> Answer {
    ask(stage.address(), "GET", target, fields, b"").unwrap()
}

#[test]
fn rows_with_impossible_dates_are_omitted_from_timemaps() {
    let dir = tempfile::tempdir().unwrap();
    let line = "com,a)/ 20169999000000 {\"url\": \"http://a.com/\"}\n";
    std::fs::write(dir.path().join("a.cdxj"), line).unwrap();
    let stage = Stage::start(&format!("collections:\n  c: {}\n", dir.path().display()));
    assert_eq!(stage.get("/c/index?url=a.com").text().lines().count(), 1);
    for target in ["/c/timemap/link/http://a.com/", "/c/timegate/http://a.com/"] {
        let answer = stage.get(target);
        assert_eq!(answer.status, 404, "{target}: {}", answer.text());
    }
}

#[test]
fn timemap_links_to_all_mementos() {
    let (_dir, stage) = archive();
    let base = stage.url();
    let answer = stage.get(TIMEMAP);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.field("content-type"),
        Some("application/link-format")
    );
    let links = links(&answer.text());
    let relations: Vec<&str> = links.iter().map(|(_, relation, _)| &relation[..]).collect();
    let expected = [
        "original",
        "timegate",
        "first memento",
        "memento",
        "last memento",
        "self",
    ];
    assert_eq!(relations, expected);
    assert_eq!(links[0].0, "http://example.com/");
    assert_eq!(links[1].0, format!("{base}{TIMEGATE}"));
    assert_eq!(links[5].0, format!("{base}{TIMEMAP}"));
    let span = "from=\"Wed, 01 Jan 2014 00:00:00 GMT\"; until=\"Fri, 01 Jan 2016 00:00:00 GMT\"";
    assert!(links[5].2.ends_with(span), "{:?}", links[5]);
    for (i, source) in [(2, "north"), (3, "south"), (4, "north")] {
        let collection = format!("; collection=\"{source}\"");
        assert!(links[i].2.ends_with(&collection), "{:?}", links[i]);
    }
    assert_eq!(stage.get(&links[1].0[base.len()..]).status, 302);

    let missing = stage.get("/both/timemap/link/http://example.org/");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.field("content-type"), Some("application/json"));
}

#[test]
fn redirect_to_itself_is_no_memento() {
    let dir = tempfile::tempdir().unwrap();
    let line = |year: &str, to: &str| {
        format!(
            "com,example)/ {year}0101000000 {{\"url\": \"http://example.com/\", \"status\": \"301\", \"redirect\": \"{to}\"}}\n"
        )
    };
    let lines = [
        line("2014", "https://www.example.com/"),
        line("2015", "http://example.com/elsewhere"),
        line("2016", "/"),
    ];
    std::fs::write(dir.path().join("all.cdxj"), lines.concat()).unwrap();
    std::fs::write(dir.path().join("itself.cdxj"), &lines[0]).unwrap();
    let folder = dir.path().display();
    let stage = Stage::start(&format!(
        "collections: {{all: {folder}/all.cdxj, itself: {folder}/itself.cdxj}}"
    ));
    let map = stage.get("/all/timemap/link/http://example.com/").text();
    assert_eq!(map.matches("datetime=").count(), 1, "{map}");
    assert_contains(&map, "/all/20150101000000id_/");
    assert_contains(&map, "rel=\"first last memento\"");
    let none = stage.get("/itself/timemap/link/http://example.com/");
    assert_eq!(none.status, 404);
    let rows = stage.get("/all/timemap/cdxj/http://example.com/").text();
    assert_eq!(rows, lines_with_source(&lines.concat()));
}

/// Returns rows as the collection `all` returns them.
fn lines_with_source(lines: &str) -> String {
    let more = ", \"source\": \"all\", \"source-coll\": \"all\", \"source_type\": \"file\"}";
    lines.replace('}', more)
}

#[test]
fn index_is_also_a_timemap() {
    let (_dir, stage) = archive();
    let target = "/both/index?url=http://example.com/&output=link";
    let answer = stage.get(target);
    let expected = Some("application/link-format");
    assert_eq!(answer.field("content-type"), expected);
    let found = links(&answer.text());
    assert_eq!(found.len(), 6);
    assert_eq!(found[5].0, format!("{}{target}", stage.url()));
    let none = stage.get("/both/index?url=http://example.org/&output=link");
    assert_eq!((none.status, none.text()), (200, String::new()));
}

#[test]
fn replay_tool_may_set_the_memento_prefix() {
    let (_dir, stage) = archive();
    let target = "/both/index?url=http://example.com/&output=link&memento_format=http://r/{timestamp}mp_/{url}";
    let found = links(&stage.get(target).text());
    let urls: Vec<&str> = found.iter().map(|(url, _, _)| &url[..]).collect();
    let expected =
        [2014, 2015, 2016].map(|year| format!("http://r/{year}0101000000mp_/http://example.com/"));
    assert_eq!(urls, expected);
}

#[test]
fn timegate_redirects_to_the_closest_memento() {
    let (_dir, stage) = archive();
    for (wanted, time) in [
        (None, "20160101000000"),
        (Some("Wed, 01 Jan 2014 00:00:00 GMT"), "20140101000000"),
        (Some("Sat, 01 Jan 2000 00:00:00 GMT"), "20140101000000"),
        (Some("Tue, 02 Jun 2015 00:00:00 GMT"), "20150101000000"),
        (Some("Fri, 01 Jan 2100 00:00:00 GMT"), "20160101000000"),
    ] {
        let fields: Vec<(&str, &str)> = wanted
            .into_iter()
            .map(|date| ("Accept-Datetime", date))
            .collect();
        let answer = asked(&stage, TIMEGATE, &fields);
        assert_eq!(answer.status, 302, "{}", answer.text());
        assert_eq!(answer.field("vary"), Some("accept-datetime"));
        let memento = format!("{}/both/{time}id_/http://example.com/", stage.url());
        assert_eq!(answer.field("location"), Some(&memento[..]));
        let found = links(answer.field("link").unwrap());
        let relations: Vec<&str> = found.iter().map(|(_, relation, _)| &relation[..]).collect();
        assert_eq!(relations, ["original", "timemap", "memento"]);
        assert_eq!(found[2].0, memento);
    }
    let wrong = asked(&stage, TIMEGATE, &[("Accept-Datetime", "yesterday")]);
    assert_eq!(wrong.status, 400);
    assert_contains(wrong.text(), "yesterday");
    assert_eq!(stage.get("/both/timegate/http://example.org/").status, 404);
    assert_eq!(stage.get("/both/timegate/").status, 400);
    // The TimeGate of a URL is also the URL below the collection.
    for scheme in ["http", "HTTP"] {
        let appended = stage.get(format!("/both/{scheme}://example.com/"));
        assert_eq!(appended.status, 302, "{scheme}");
    }
    let head = ask(stage.address(), "HEAD", TIMEGATE, &[], b"").unwrap();
    assert_eq!((head.status, head.body.len()), (302, 0));
    let posted = ask(stage.address(), "POST", TIMEGATE, &[], b"").unwrap();
    assert_eq!(posted.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_use_the_public_address_of_the_server() {
    let text = "collections: {live: $live}";
    let (config, _) = Config::parse(text, "config.yaml", Path::new("/")).unwrap();
    let public = "https://archive.example/old/".to_owned();
    let federation = Federation::open_at(&config, Some(public)).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(server::serve(
        Current::new(federation),
        listener,
        server::Options::default(),
        async {
            let _ = stopped.await;
        },
    ));
    let asked = tokio::task::spawn_blocking(move || get(address, "/live/timegate/example.com"));
    let answer = asked.await.unwrap();
    assert_eq!(answer.status, 302, "{}", answer.text());
    let location = answer.field("location").unwrap();
    let moment = location.strip_prefix("https://archive.example/old/live/");
    let (moment, url) = moment.unwrap().split_once("id_/").unwrap();
    assert_eq!((moment.len(), url), (14, "http://example.com/"));
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
}

#[test]
fn forwarded_headers_are_ignored_by_default() {
    let (_dir, stage) = archive();
    let fields = [
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", "host=evil.example"),
    ];
    let answer = asked(&stage, TIMEGATE, &fields);
    assert!(answer.field("location").unwrap().starts_with(&stage.url()));
    assert!(!answer.field("link").unwrap().contains("evil"));
}
