//! Tests of access rules by URL, over HTTP.

use redis_tests::archive::collection::sha1_base32;
use redis_tests::http::Answer;
use redis_tests::{ScriptedHost, answer, assert_contains, assert_lacks, rows, until};

use crate::serving::Stage;
use crate::shelf::{HTTP, Shelf, iso};

const OPEN: &str = "http://example.com/open";
const LAW: &str = "http://example.com/law";
const SECRET: &str = "http://example.com/secret";

const RULES: &str = "com,example)/secret - {\"access\": \"exclude\"}\n\
                     com,example)/law - {\"access\": \"block\"}\n";

/// Creates three pages with two captures each.
fn served() -> (Shelf, Stage) {
    let mut shelf = Shelf::new();
    for url in [OPEN, LAW, SECRET] {
        shelf.capture("a.warc", url, "20160102030405", url.as_bytes());
        shelf.capture("a.warc", url, "20200102030405", url.as_bytes());
    }
    let index = shelf.write_index("index.cdxj");
    let rules = shelf.path().join("rules.aclj");
    std::fs::write(&rules, RULES).unwrap();
    let (warcs, rules) = (shelf.warcs(), rules.display().to_string());
    let stage = Stage::start(&format!(
        "collections:\n  \
         c: {{index: {index}, resource: {warcs}, acl_paths: {rules}}}\n  \
         young: {{index: {index}, resource: {warcs}, acl_paths: {rules}, embargo: {{before: 2018}}}}\n  \
         shut: {{index: {index}, resource: {warcs}, default_access: block}}\n"
    ));
    (shelf, stage)
}

fn index(stage: &Stage, collection: &str, more: &str) -> String {
    let answer = stage.get(format!(
        "/{collection}/index?url=example.com&matchType=domain{more}"
    ));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

fn record(stage: &Stage, collection: &str, url: &str) -> Answer {
    stage.get(format!(
        "/{collection}/resource?url={url}&closest=20160102030405"
    ))
}

#[test]
fn excluded_captures_do_not_exist() {
    let (_shelf, stage) = served();
    let rows = index(&stage, "c", "");
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert_lacks(&rows, "secret");
    // A limit counts visible rows only.
    let last = index(&stage, "c", "&limit=4&sort=reverse");
    assert_eq!(last.lines().count(), 4, "{last}");
    for target in [
        format!("/c/resource?url={SECRET}"),
        format!("/c/20160102030405id_/{SECRET}"),
        format!("/c/timemap/link/{SECRET}"),
        format!("/c/timegate/{SECRET}"),
    ] {
        let answer = stage.get(&target);
        assert_eq!(answer.status, 404, "{target}: {}", answer.text());
        let other = stage.get(target.replace("secret", "absent"));
        assert_eq!(other.text().replace("absent", "secret"), answer.text());
    }
    assert_eq!(record(&stage, "c", OPEN).status, 200);
    let dialect = stage.get("/c/cdx?url=example.com&matchType=domain&showNumPages=true");
    assert_eq!(dialect.text().trim(), "1");
}

#[test]
fn blocked_captures_are_listed_and_refused() {
    let (_shelf, stage) = served();
    let rows = index(&stage, "c", "&filter=url:law");
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(
        rows.lines().all(|row| row.contains(r#""access": "block""#)),
        "{rows}"
    );
    for target in [
        format!("/c/resource?url={LAW}"),
        format!("/c/20160102030405id_/{LAW}"),
    ] {
        let answer = stage.get(&target);
        assert_eq!(answer.status, 451, "{target}: {}", answer.text());
        assert_contains(
            answer.text(),
            "an access rule of the collection blocks this capture",
        );
    }
    assert_eq!(record(&stage, "shut", OPEN).status, 451);
}

#[test]
fn changed_rules_apply_without_a_restart() {
    let (shelf, stage) = served();
    assert_eq!(record(&stage, "c", LAW).status, 451);
    std::fs::write(
        shelf.path().join("rules.aclj"),
        RULES.replace("block", "allow"),
    )
    .unwrap();
    until("the rules are reloaded", || {
        record(&stage, "c", LAW).status == 200
    });
    assert_eq!(record(&stage, "c", SECRET).status, 404);
    // Invalid rules change nothing.
    std::fs::write(shelf.path().join("rules.aclj"), "com,example) - {}\n").unwrap();
    until("the failed reload is counted", || {
        let figures = redis_tests::http::get(stage.operator(), "/_metrics").text();
        figures.contains("crawlspace_config_reloads_total{result=\"failure\"} 1")
    });
    assert_eq!(record(&stage, "c", SECRET).status, 404);
    assert_eq!(record(&stage, "c", LAW).status, 200);
}

#[test]
fn embargo_hides_captures_by_date() {
    let (_shelf, stage) = served();
    let rows = index(&stage, "young", "");
    let dates: Vec<&str> = rows
        .lines()
        .map(|row| row.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(dates, ["20200102030405"; 2], "{rows}");
    let answer = record(&stage, "young", OPEN);
    assert_eq!(answer.status, 200);
    assert_contains(answer.text(), iso("20200102030405"));
}

#[test]
fn revisit_does_not_disclose_a_hidden_original() {
    const AGAIN: &str = "http://example.com/again";
    let mut shelf = Shelf::new();
    for url in [LAW, SECRET] {
        let original = shelf.capture("a.warc", url, "20160102030405", url.as_bytes());
        let digest = sha1_base32(url.as_bytes());
        let again = url.replace("example.com/", "example.com/again/");
        let fields = rows![
            "WARC-Type", "revisit";
            "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000001>";
            "WARC-Date", &iso("20180102030405");
            "WARC-Target-URI", &again;
            "WARC-Refers-To-Target-URI", url;
            "WARC-Refers-To-Date", &iso("20160102030405");
            "WARC-Payload-Digest", &format!("sha1:{digest}");
            "WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
            "Content-Type", "application/http; msgtype=response";
        ];
        let slot = shelf.record("a.warc", &fields, HTTP.as_bytes());
        // The row locates the original, so no lookup is needed.
        let more = format!(
            ", \"digest\": \"{digest}\", \"mime\": \"warc/revisit\", \"orig.filename\": \"a.warc\", \
             \"orig.offset\": \"{}\", \"orig.length\": \"{}\"",
            original.offset, original.length
        );
        shelf.line(&again, "20180102030405", &slot, &more);
    }
    let index = shelf.write_index("index.cdxj");
    let rules = shelf.path().join("rules.aclj");
    std::fs::write(&rules, RULES).unwrap();
    let (warcs, rules) = (shelf.warcs(), rules.display().to_string());
    let stage = Stage::start(&format!(
        "collections:\n  \
         c: {{index: {index}, resource: {warcs}, acl_paths: {rules}}}\n  \
         lending: {{index: {index}, resource: {warcs}, acl_paths: {rules}, hidden_originals: lend}}\n  \
         free: {{index: {index}, resource: {warcs}}}\n"
    ));
    // Rows do not reveal the original's file, and filters do not match it.
    for (filter, count) in [("", 4), ("&filter=orig.filename:a.warc", 2)] {
        assert_eq!(self::index(&stage, "free", filter).lines().count(), count);
    }
    for collection in ["c", "lending"] {
        assert_lacks(self::index(&stage, collection, ""), "orig.");
        assert_eq!(
            self::index(&stage, collection, "&filter=orig.filename:a.warc"),
            ""
        );
    }
    for name in ["law", "secret"] {
        let url = format!("{AGAIN}/{name}");
        let free = record(&stage, "free", &url);
        assert_eq!(free.status, 200, "{}", free.text());
        assert_contains(free.text(), format!("http://example.com/{name}"));
        // The other collection may show the original, but this collection must not.
        let answer = record(&stage, "c", &url);
        assert_eq!(answer.status, 404, "{}", answer.text());
        // A record with another collection's payload does not reveal the origin of the payload.
        let lent = record(&stage, "lending", &url);
        assert_eq!(lent.status, 200, "{}", lent.text());
        assert!(
            lent.text().contains("\r\n\r\nhttp://example.com/"),
            "{}",
            lent.text()
        );
        let (head, _) = lent
            .text()
            .rsplit_once("\r\n\r\nhttp://")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        assert_lacks(&head, "WARC-Refers-To");
        assert_lacks(&head, iso("20160102030405"));
        assert_lacks(&head, format!("example.com/{name}\r"));
    }
    // Repeat the test with an upstream server that resolves revisits itself.
    let free = format!("upstream+{}/free", stage.url());
    let above = Stage::start_apart(&format!(
        "collections:\n  \
         c: {{index: '{free}', acl_paths: {rules}}}\n  \
         lending: {{index: '{free}', acl_paths: {rules}, hidden_originals: lend}}\n  \
         open: {{index: '{free}'}}\n"
    ));
    for name in ["law", "secret"] {
        let url = format!("{AGAIN}/{name}");
        let open = record(&above, "open", &url);
        assert_eq!(open.status, 200, "{}", open.text());
        assert_contains(open.text(), "WARC-Refers-To-Target-URI");
        let hidden = record(&above, "c", &url);
        assert_eq!(hidden.status, 404, "{}", hidden.text());
        let lent = record(&above, "lending", &url);
        assert_eq!(lent.status, 200, "{}", lent.text());
        assert_lacks(lent.text(), "WARC-Refers-To");
    }
}

#[test]
fn payload_of_a_hidden_original_is_lent_without_its_header() {
    let mut shelf = Shelf::new();
    let http = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Disposition: inline; filename=secret\r\n\
                X-Cached: http://example.com/secret 20160102030405\r\n\r\nthe payload";
    let fields = rows![
        "WARC-Type", "response";
        "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000001>";
        "WARC-Date", &iso("20160102030405");
        "WARC-Target-URI", SECRET;
        "Content-Type", "application/http; msgtype=response";
    ];
    let slot = shelf.record("a.warc", &fields, http.as_bytes());
    shelf.line(SECRET, "20160102030405", &slot, "");
    let fields = rows![
        "WARC-Type", "revisit";
        "WARC-Record-ID", "<urn:uuid:00000000-0000-4000-8000-000000000002>";
        "WARC-Date", &iso("20180102030405");
        "WARC-Target-URI", OPEN;
        "WARC-Refers-To-Target-URI", SECRET;
        "WARC-Refers-To-Date", &iso("20160102030405");
        "WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
        "Content-Type", "application/http; msgtype=response";
    ];
    let slot = shelf.record("b.warc", &fields, b"HTTP/1.1 304 Not Modified\r\n\r\n");
    shelf.line(
        OPEN,
        "20180102030405",
        &slot,
        ", \"mime\": \"warc/revisit\"",
    );
    let index = shelf.write_index("index.cdxj");
    let rules = shelf.path().join("rules.aclj");
    std::fs::write(&rules, RULES).unwrap();
    let (warcs, rules) = (shelf.warcs(), rules.display().to_string());
    let lends = format!("acl_paths: {rules}, hidden_originals: lend");
    let stage = Stage::start(&format!(
        "collections:\n  \
         free: {{index: {index}, resource: {warcs}}}\n  \
         lending: {{index: {index}, resource: {warcs}, {lends}}}\n"
    ));
    let above = Stage::start_apart(&format!(
        "collections: {{lending: {{index: 'upstream+{}/free', {lends}}}}}\n",
        stage.url()
    ));
    assert_contains(record(&stage, "free", OPEN).text(), "X-Cached");
    for stage in [&stage, &above] {
        let lent = record(stage, "lending", OPEN);
        assert_eq!(lent.status, 200, "{}", lent.text());
        let expected =
            "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nthe payload\r\n\r\n";
        assert_contains(lent.text(), expected);
        assert_lacks(lent.text(), "secret");
        assert_lacks(lent.text(), "WARC-Refers-To");
    }
}

#[test]
fn outbackcdx_policies_hide_captures_and_give_the_reason() {
    let mut shelf = Shelf::new();
    for url in [OPEN, LAW, SECRET] {
        shelf.capture("a.warc", url, "20160102030405", url.as_bytes());
        shelf.capture("a.warc", url, "20200102030405", url.as_bytes());
    }
    let index = shelf.write_index("index.cdxj");
    let rules = shelf.path().join("access.json");
    let text = r#"{"policies": [{"id": 1, "name": "Staff", "accessPoints": ["staff"]}], "rules": [
        {"id": 1, "policyId": 1, "urlPatterns": ["http://example.com/secret*"]},
        {"id": 2, "policyId": 1, "urlPatterns": ["http://example.com/law"], "publicMessage": "a \"court\" <order>",
         "captured": {"end": "2018-01-01T00:00:00+0000"}}]}"#;
    std::fs::write(&rules, text).unwrap();
    let (warcs, rules) = (shelf.warcs(), rules.display().to_string());
    let stage = Stage::start(&format!(
        "collections:\n  \
         c: {{index: {index}, resource: {warcs}, acl_paths: {rules}}}\n  \
         staff: {{index: {index}, resource: {warcs}, acl_paths: {rules}, access_point: staff}}\n"
    ));
    let rows = self::index(&stage, "c", "");
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert_lacks(&rows, "secret");
    assert_eq!(self::index(&stage, "staff", "").lines().count(), 6);
    assert_eq!(record(&stage, "c", OPEN).status, 200);
    assert_eq!(record(&stage, "staff", SECRET).status, 200);
    assert_eq!(record(&stage, "c", SECRET).status, 404);
    // The server returns another capture instead of the hidden one.
    let answer = record(&stage, "c", LAW);
    assert_eq!(answer.status, 200);
    assert_contains(answer.text(), iso("20200102030405"));
    let answer = stage.get(format!(
        "/c/resource?url={LAW}&closest=20160102030405&to=2017"
    ));
    assert_eq!(answer.status, 451);
    assert_contains(answer.text(), r#"blocks this capture: a \"court\" <order>"#);
    // Invalid rules change nothing, and hidden captures stay hidden.
    std::fs::write(shelf.path().join("access.json"), "{}").unwrap();
    until("the failed reload is counted", || {
        let figures = redis_tests::http::get(stage.operator(), "/_metrics").text();
        figures.contains("crawlspace_config_reloads_total{result=\"failure\"} 1")
    });
    assert_eq!(record(&stage, "c", SECRET).status, 404);
    std::fs::write(
        shelf.path().join("access.json"),
        text.replace("example.com/secret", "example.com/open"),
    )
    .unwrap();
    until("the rules are reloaded", || {
        record(&stage, "c", SECRET).status == 200
    });
    assert_eq!(record(&stage, "c", OPEN).status, 404);
}

/// Tests notations of URLs that parsers interpret differently.
#[test]
fn rules_apply_to_the_fetched_url() {
    let web = ScriptedHost::start(|_| answer(200, &[], "the page"));
    let shelf = Shelf::new();
    let place = web.address();
    let key = |path: &str| crawlspace_cdx::surt::urlkey(&format!("http://{place}{path}")).unwrap();
    let write = |name: &str, text: String| {
        let path = shelf.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let hidden = write(
        "hidden.aclj",
        format!("{} - {{\"access\": \"exclude\"}}\n", key("/hid")),
    );
    let allowed = write(
        "allowed.aclj",
        "example,allowed)/ - {\"access\": \"allow\"}\n".to_owned(),
    );
    let stage = Stage::start(&format!(
        "collections:\n  \
         open: {{index: $live, acl_paths: {hidden}}}\n  \
         shut: {{index: $live, acl_paths: {allowed}, default_access: exclude}}\n"
    ));
    let escaped = |url: &str| {
        percent_encoding::utf8_percent_encode(url, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let get = |collection: &str, url: &str| {
        stage.get(format!("/{collection}/resource?url={}", escaped(url)))
    };
    assert_eq!(get("open", &format!("http://{place}/seen")).status, 200);
    assert_eq!(web.asked().len(), 1);
    for path in [
        "/hid/x",
        "/../hid/x",
        "/a/../../hid/x",
        "/./hid/x",
        "/%2e%2e/hid/x",
        "/a/%2E./hid/x",
        "\\hid\\x",
        "/a\\..\\hid/x",
        "/h\tid/x",
    ] {
        let answer = get("open", &format!("http://{place}{path}"));
        assert!(
            matches!(answer.status, 400 | 404),
            "{path:?}: {}",
            answer.text()
        );
    }
    for url in [
        format!("http://{place}\\@allowed.example/"),
        format!("http://{place}/@allowed.example/"),
        format!("http://{place}#@allowed.example/"),
        format!("http:\\\\{place}\\@allowed.example/"),
        format!("http://allowed.example@{place}/"),
        format!("http://allowed.example:80@{place}/"),
    ] {
        let answer = get("shut", &url);
        assert_ne!(answer.status, 200, "{url:?}: {}", answer.text());
    }
    assert_eq!(web.asked().len(), 1, "no hidden URL is requested");
}

#[test]
fn short_timestamp_may_mean_a_hidden_time() {
    let mut shelf = Shelf::new();
    for (url, moment, digits) in [
        (OPEN, "20170701000000", "2017"),
        (LAW, "20150701000000", "2015"),
        (SECRET, "20170501000000", "201705"),
    ] {
        let slot = shelf.response("a.warc", url, moment, url.as_bytes());
        shelf.line(url, digits, &slot, "");
    }
    let (index, warcs) = (shelf.write_index("index.cdxj"), shelf.warcs());
    let stage = Stage::start(&format!(
        "collections:\n  \
         c: {{index: {index}, resource: {warcs}, embargo: {{after: 201706, access: exclude}}}}\n"
    ));
    for (url, status) in [(OPEN, 404), (LAW, 200), (SECRET, 200)] {
        let answer = stage.get(format!("/c/resource?url={url}"));
        assert_eq!(answer.status, status, "{url}: {}", answer.text());
        let rows = stage.get(format!("/c/index?url={url}")).text();
        assert_eq!(rows.lines().count(), usize::from(status == 200), "{rows}");
    }
}

/// Tests rows with ambiguous URLs, of which the access decision and the client could use different
/// ones.
#[test]
fn row_with_an_uncertain_url_is_hidden_by_rules() {
    let mut shelf = Shelf::new();
    shelf.capture("a.warc", OPEN, "20160102030405", OPEN.as_bytes());
    let place = "\"filename\": \"a.warc\", \"offset\": \"0\"";
    for members in [
        format!("\"url\": \"{OPEN}\", \"url\": \"{SECRET}\", {place}"),
        format!("\"url\": \"{SECRET}\", \"original\": \"{OPEN}\", {place}"),
        format!("\"url\": \"{SECRET}\", {place}, \"no value\""),
    ] {
        shelf.index += &format!("com,example)/open 20170102030405 {{{members}}}\n");
    }
    let index = shelf.write_index("index.cdxj");
    let rules = shelf.path().join("rules.aclj");
    std::fs::write(&rules, RULES).unwrap();
    let (warcs, rules) = (shelf.warcs(), rules.display().to_string());
    let stage = Stage::start(&format!(
        "collections:\n  \
         c: {{index: {index}, resource: {warcs}, acl_paths: {rules}}}\n  \
         free: {{index: {index}, resource: {warcs}}}\n"
    ));
    let rows = self::index(&stage, "c", "");
    assert_eq!(rows.lines().count(), 1, "{rows}");
    assert_lacks(rows, "secret");
    // A row with two URLs is never shown.
    let rows = self::index(&stage, "free", "");
    assert_eq!(rows.lines().count(), 2, "{rows}");
    let metrics = redis_tests::http::get(stage.operator(), "/_metrics").text();
    let counted = "crawlspace_source_broken_lines_total";
    let is_counted = |line: &str| line.starts_with(counted) && !line.ends_with(" 0");
    assert!(metrics.lines().any(is_counted), "{metrics}");
}

/// Tests captures whose indexers kept the trailing slash in the key, and a request with a body.
#[test]
fn rules_for_a_urlkey_apply_to_its_other_keys() {
    let shelf = Shelf::new();
    let url = "http://example.com/w/";
    let slot = shelf.response("a.warc", url, "20160101000000", b"w");
    let members = |url: &str| {
        format!(
            "{{\"url\": \"{url}\", \"filename\": \"a.warc\", \"offset\": \"{}\", \"length\": \"{}\"}}",
            slot.offset, slot.length
        )
    };
    let posted = "http://example.com/p";
    let lines = [
        format!(
            "com,example)/p?__wb_method=post&a=1 20160101000000 {}\n",
            members(posted)
        ),
        format!("com,example)/w/ 20160101000000 {}\n", members(url)),
    ];
    let write = |name: &str, text: &str| {
        let path = shelf.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let index = write("index.cdxj", &lines.concat());
    let allow = write(
        "allow.aclj",
        "com,example)/w### - {\"access\": \"allow\"}\n\
         com,example)/p?__wb_method=post - {\"access\": \"allow\"}\n",
    );
    let hide = write(
        "hide.aclj",
        "com,example)/w### - {\"access\": \"exclude\"}\n",
    );
    let maker = write(
        "maker.aclj",
        "com,example)/w/ - {\"access\": \"exclude\"}\n",
    );
    let common = format!("index: {index}, resource: {}", shelf.warcs());
    let stage = Stage::start(&format!(
        "collections:\n  \
         allowed: {{{common}, acl_paths: {allow}, default_access: exclude}}\n  \
         hidden: {{{common}, acl_paths: {hide}}}\n  \
         maker: {{{common}, acl_paths: {maker}}}\n"
    ));
    let rows = |collection: &str, url: &str| {
        let answer = stage.get(format!("/{collection}/index?url={url}"));
        answer.text().lines().count()
    };
    assert_eq!(rows("allowed", url), 1);
    assert_eq!(rows("allowed", "http://example.com/p*"), 1);
    assert_eq!(rows("hidden", url), 0);
    assert_eq!(rows("maker", url), 0);
    assert_eq!(record(&stage, "allowed", url).status, 200);
}
