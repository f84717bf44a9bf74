//! Tests of the page at `/`, `/_status` and `/_metrics`.

mod browser;
mod captures;
mod figures;

use std::path::Path;

use redis_tests::http::{Answer, Connection, ask};
use redis_tests::{assert_contains, assert_lacks, assert_starts, rows};
use tempfile::TempDir;

use crate::index_api::archive;
use crate::serving::Stage;

/// Text that harms a page without proper escaping.
const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;";

/// Creates an archive with hostile values in its captures, next to a missing file and a source that does not
/// answer.
fn hostile_archive() -> (TempDir, Stage) {
    let dir = tempfile::tempdir().unwrap();
    let capture = |time: &str, url: &str, mime: &str| {
        let json = serde_json::json!({
            "url": url, "mime": mime, "status": "200\u{202e}", "digest": "X", "length": "10", "offset": "0",
            "filename": "a.warc.gz", "live_url": "javascript:alert(3)", "source": "<b>",
        });
        format!("com,example)/ {time} {json}\n")
    };
    let lines = [
        capture("20140131235959", "http://example.com/", "text/html"),
        capture(
            "20140305120000",
            &format!("http://example.com/#{HOSTILE}"),
            HOSTILE,
        ),
        capture("20160229000000", "javascript:alert(4)", "text/html"),
    ];
    std::fs::write(dir.path().join("a.cdxj"), lines.concat()).unwrap();
    // Nothing listens on this privileged port, so connections are refused.
    let stage = Stage::start(&config(dir.path(), "redis://127.0.0.1:1/0/key"));
    (dir, stage)
}

fn config(folder: &Path, dead: &str) -> String {
    let folder = folder.display();
    format!(
        "collections:\n  good: {{index: {folder}/a.cdxj, resource: {folder}}}\n  both:\n    index_group:\n      \
         good: {folder}/a.cdxj\n      '<i>&\"': {dead}\n    resource: {folder}\n  \
         missing: {{index: {folder}/none.cdxj, resource: {folder}}}\n"
    )
}

/// Returns the target of a search.
fn search(collection: &str, url: &str, when: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::for_suffix("/?".to_owned(), 2);
    for (name, value) in [("coll", collection), ("url", url), ("when", when)] {
        query.append_pair(name, value);
    }
    query.finish()
}

/// Requests a page, and asserts its status and that it contains nothing active.
#[track_caller]
fn page(stage: &Stage, target: &str, status: u16) -> String {
    let answer = stage.get(target);
    assert_eq!(answer.status, status, "{target}: {}", answer.text());
    assert_eq!(answer.media_type(), "text/html");
    let html = answer.text();
    harmless(&html);
    html
}

#[track_caller]
fn harmless(html: &str) {
    assert_lacks(html, "<script");
    assert_lacks(html, "<img");
    assert_lacks(html, "<b><");
    assert_lacks(html, "<i>");
    assert_lacks(html, "href=\"javascript:");
    assert_lacks(html, "style=");
    assert_starts(html, "<!DOCTYPE html><html lang=\"en\">");
    assert!(html.ends_with("</html>"), "{html}");
}

/// Returns the targets of all links, resolved as a browser does.
fn links(html: &str) -> Vec<String> {
    let page = url::Url::parse("http://page.example/").unwrap();
    let links = html.split("<a href=\"").skip(1);
    let links = links.map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&"));
    links
        .map(|link| {
            let link = page.join(&link).unwrap();
            let target = &link[url::Position::BeforePath..];
            match link.host_str() {
                Some("page.example") => target.to_owned(),
                _ => link.to_string(),
            }
        })
        .collect()
}

#[track_caller]
fn link_with(html: &str, end: &str) -> String {
    let found = links(html).into_iter().find(|link| link.ends_with(end));
    found.unwrap_or_else(|| panic!("no link with {end}: {html}"))
}

#[test]
fn page_lists_collections_and_the_state_of_their_sources() {
    let (_dir, stage) = hostile_archive();
    let html = page(&stage, "/", 200);
    for expected in [
        "<option value=\"good\">good</option>".to_owned(),
        "<th scope=\"row\">both</th><td>good</td><td>file</td><td class=\"note\">not queried so far</td>"
            .to_owned(),
        "<td>&lt;i&gt;&amp;&quot;</td><td>redis</td><td class=\"note\">not queried so far</td>"
            .to_owned(),
        "<td>missing</td><td>file</td><td class=\"bad\">unavailable</td>".to_owned(),
    ] {
        assert!(html.contains(&expected), "{expected} in {html}");
    }
    // The location of files is not public.
    assert_lacks(&html, "none.cdxj");
    assert!(
        !html.contains("id=\"found\""),
        "nothing was searched for: {html}"
    );
}

#[test]
fn source_is_ok_if_its_last_answer_was() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.cdxj"), "").unwrap();
    // Nothing listens on this privileged port, so connections are refused.
    let stage = Stage::start(&format!(
        "collections:\n  c:\n    index_group:\n      near: {}/a.cdxj\n      far: cdx+http://127.0.0.1:1/all-cdx\n",
        dir.path().display()
    ));
    let state = |name: &str| {
        let html = page(&stage, "/", 200);
        let row = html.split(&format!("<td>{name}</td>")).nth(1).unwrap();
        let row = row.split("</tr>").next().unwrap();
        row.split_once("</td>").unwrap().1.to_owned()
    };
    for name in ["near", "far"] {
        let expected = "<td class=\"note\">not queried so far</td><td class=\"number\">0</td>\
                        <td class=\"number\">0</td><td class=\"number\"></td>";
        assert_eq!(state(name), expected);
    }
    stage.get("/c/index?url=example.com");
    let counts = |errors: u64| {
        format!(
            "<td class=\"number\">1</td><td class=\"number\">{errors}</td><td class=\"number\">≤ "
        )
    };
    let good = format!("<td class=\"good\">ok</td>{}", counts(0));
    assert_starts(state("near"), &good);
    let bad = format!(
        "<td class=\"bad\">failed at the last query</td>{}",
        counts(1)
    );
    assert_starts(state("far"), &bad);
}

#[test]
fn browser_gets_an_error_page() {
    let (_dir, stage) = archive();
    let browser = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for target in [
        "/many",
        "/many/",
        "/both/a/b?c",
        "/both/",
        "/_status/x",
        "//x",
        "/%3Cb%3E",
    ] {
        let asked = |fields: &[(&str, &str)]| ask(stage.address(), "GET", target, fields, b"");
        let json = asked(&[]).unwrap();
        assert_eq!((json.status, json.media_type()), (404, "application/json"));
        assert_eq!(json.field("vary"), Some("accept"));
        let html = asked(&browser).unwrap();
        assert_eq!((html.status, html.media_type()), (404, "text/html"));
        assert_eq!(html.field("vary"), Some("accept"));
        assert!(html.field("content-security-policy").is_some());
        harmless(&html.text());
        assert_contains(html.text(), "<h2>Not found</h2>");
        // The style sheet and the links of the "not found" page are resolved correctly.
        let here = url::Url::parse("http://page.example/")
            .unwrap()
            .join(target);
        let here = here.unwrap();
        if here.host_str() == Some("page.example") {
            for place in html.text().split("href=\"").skip(1) {
                let place = here.join(place.split('"').next().unwrap()).unwrap();
                let known = ["/", "/static/page.css", "/static/icon.svg"];
                assert!(known.contains(&place.path()), "{place}");
            }
        }
    }
}

#[test]
fn search_is_narrowed_down_from_years_to_days() {
    let (_dir, stage) = archive();
    let years = page(&stage, &search("both", "example.com/*", ""), 200);
    assert_contains(
        &years,
        "5 captures of <span class=\"url\">example.com/*</span>",
    );
    for year in ["2014", "2015", "2016"] {
        link_with(&years, &format!("when={year}"));
    }
    assert!(years.contains("3 captures"), "three are of 2015: {years}");
    assert_contains(&years, "<option value=\"both\" selected>");
    assert_contains(&years, "value=\"example.com/*\"");

    let months = page(&stage, &link_with(&years, "when=2015"), 200);
    assert_contains(&months, "3 captures of");
    let days = page(&stage, &link_with(&months, "when=201501"), 200);
    assert_contains(&days, "<caption>Captures of January 2015</caption>");
    // 1 January 2015 was a Thursday.
    assert_contains(&days, "<tr><td></td><td></td><td></td><td class=\"has\">");
    let day = page(&stage, &link_with(&days, "when=20150101"), 200);
    assert_contains(&day, ", 1 January 2015</h2>");
    assert_eq!(
        day.matches("<td class=\"time\">2015-01-01 00:00:00</td>")
            .count(),
        3,
        "{day}"
    );
    // The links also lead back to the month.
    let again = page(&stage, &link_with(&day, "when=201501"), 200);
    let found = |html: &str| {
        html.split("<h2 id=\"collections\">")
            .next()
            .map(str::to_owned)
    };
    assert_eq!(found(&again), found(&days));
}

#[test]
fn empty_answer_links_to_wider_searches() {
    let (_dir, stage) = archive();
    for (url, prefix) in [
        ("example.org", Some("example.org/*")),
        ("https://example.org/a/", Some("https://example.org/a/*")),
        ("example.org/a?b=c#d", Some("example.org/a/*")),
        ("example.org/a/*", None),
        ("*.example.org", None),
    ] {
        let html = page(&stage, &search("both", url, "2015"), 200);
        assert_contains(&html, "0 captures of");
        let (_, wider) = html.split_once("has no matching captures").unwrap();
        let prefix = prefix.map(|prefix| search("both", prefix, "2015"));
        let others = ["north", "seq"].map(|other| search(other, url, "2015"));
        let expected: Vec<String> = prefix.into_iter().chain(others).collect();
        assert_eq!(links(wider), expected, "{url}: {html}");
        for link in expected {
            page(&stage, &link, 200);
        }
    }
    // Wider searches are not offered next to captures, nor in a server with a single collection.
    let some = page(&stage, &search("both", "example.com", ""), 200);
    assert_lacks(&some, "coll=north");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.cdxj"), "").unwrap();
    let stage = Stage::start(&format!(
        "collections:\n  only: {}/a.cdxj\n",
        dir.path().display()
    ));
    let html = page(&stage, &search("only", "example.org/*", ""), 200);
    let (_, wider) = html.split_once("has no matching captures").unwrap();
    assert_eq!(links(wider), [""; 0]);
}

#[test]
fn capture_links_to_its_record() {
    let (_dir, stage) = archive();
    let html = page(&stage, &search("north", "example.com", "2014"), 200);
    let expected = "/north/index?url=example.com&from=2014&to=2014";
    assert_eq!(link_with(&html, "&to=2014"), expected);
    let record = link_with(&html, "&filter=%3Dstatus%3A200");
    let begin = "/north/resource?url=http%3A%2F%2Fexample.com%2F&from=20140101000000&to=20140101000000&filter=";
    assert_starts(&record, begin);
}

#[test]
fn hostile_text_is_escaped() {
    let (_dir, stage) = hostile_archive();
    let html = page(&stage, &search("both", "example.com", ""), 200);
    assert_contains(&html, "3 captures");
    assert_contains(&html, "&lt;script&gt;alert(1)&lt;/script&gt;");
    // The name of a missing source is escaped as well.
    assert_contains(&html, "<li><b>&lt;i&gt;&amp;&quot;</b>: ");
    for link in links(&html) {
        assert!(link.starts_with('/'), "{link}");
    }
    for target in [
        search("good", HOSTILE, ""),
        search("good", &format!("http://example.com/{HOSTILE}"), ""),
        search("good", "javascript:alert(1)", ""),
        search("good", "http://example.com:99999/", ""),
        search("good", "\u{0}\u{1b}[31m\u{202e}\u{ffff}", ""),
        search("good", &"http://a/".repeat(1000), ""),
    ] {
        let answer = stage.get(&target);
        assert!(
            matches!(answer.status, 200 | 400),
            "{}: {}",
            answer.status,
            answer.text()
        );
        harmless(&answer.text());
        assert!(answer.text().contains("id=\"url\""));
    }
}

#[test]
fn search_errors_are_shown_on_the_page() {
    let (_dir, stage) = hostile_archive();
    for (target, status, why) in rows![
        search(HOSTILE, "example.com", ""), 404, "There is no collection";
        search("", "example.com", ""), 404, "There is no collection";
        search("good", "example.com", "2014131"), 400, "when=2014131: must be a year";
        search("good", "example.com", HOSTILE), 400, "when=&quot;";
    ] {
        let html = page(&stage, &target, status);
        let begin = format!("<p class=\"error\" role=\"alert\">{why}");
        assert!(html.contains(&begin), "{target}: {html}");
        assert!(
            html.contains("<h2 id=\"collections\">"),
            "the rest is there: {html}"
        );
    }
    // An empty form is not a search.
    page(&stage, &search("good", "  ", ""), 200);
}

#[test]
fn content_policy_allows_no_other_origin() {
    let (_dir, stage) = archive();
    for target in ["/", "/static/page.css", "/static/icon.svg"] {
        let answer = stage.get(target);
        assert_eq!(answer.status, 200, "{target}");
        let policy = answer.field("content-security-policy").unwrap();
        assert_starts(policy, "default-src 'none'; style-src 'self'");
        assert_lacks(policy, "unsafe");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("referrer-policy"), Some("no-referrer"));
    }
    let html = page(&stage, "/", 200);
    for place in html
        .split("src=\"")
        .skip(1)
        .chain(html.split("href=\"").skip(1))
    {
        let relative = place.starts_with("./") || place.starts_with('?');
        assert!(relative, "{place}");
    }
    assert_eq!(stage.get("/static/../Cargo.toml").status, 404);
    assert_eq!(stage.get("/static/").status, 404);
    assert_eq!(stage.get("//x").status, 404);
}

#[test]
fn page_is_read_only() {
    let (_dir, stage) = archive();
    let mut connection = Connection::open(stage.address()).unwrap();
    for target in ["/", "/static/page.css"] {
        let posted: Answer = connection.ask("POST", target, &[], b"url=x").unwrap();
        assert_eq!(posted.status, 405);
        assert_eq!(posted.field("allow"), Some("GET, HEAD"));
        let head = connection.ask("HEAD", target, &[], b"").unwrap();
        assert_eq!(head.status, 200, "{target}");
    }
}
