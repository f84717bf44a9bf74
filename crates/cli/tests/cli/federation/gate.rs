//! What may not be seen stays unseen: every kind of source, by every door, with archives that answer with something else
//! than was asked for.
//!
//! An oracle of its own decides from the URL and the moment of what was sent.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::http::{Answer, get};

use redis_tests::{Asked, Part, Rng, ScriptedHost, Server, TagSpace, answer};

use crate::federation::shelf::{Shelf, iso};
use crate::serving::Stage;

const HOST: &str = "http://example.com";
const PATHS: [&str; 6] = [
    "/open",
    "/law",
    "/secret",
    "/secret/deep",
    "/open/~user",
    "/",
];
const MOMENTS: [&str; 4] = [
    "20140101000000",
    "20160101000000",
    "20180101000000",
    "20200101000000",
];
const SOURCES: [&str; 4] = ["file", "cdx", "memento", "upstream"];
const RULES: [&str; 9] = [
    "exclude", "block", "after", "before", "dates", "default", "staff", "public", "none",
];
/// Number of requests in each test run. `make soak` runs the test again and again.
const CASES: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Shown,
    Blocked,
    Hidden,
}

/// What a reader gets of a capture.
fn verdict(rules: &str, url: &str, moment: &str) -> Verdict {
    let path = url.strip_prefix(HOST).unwrap();
    let hidden = match rules {
        "exclude" => path.starts_with("/secret"),
        "block" if path.starts_with("/law") => return Verdict::Blocked,
        "after" => moment > "20161231235959",
        "before" => moment < "20170101000000",
        "dates" => path.starts_with("/secret") && moment < "20170101000000",
        "default" => !path.starts_with("/open"),
        "staff" => path.starts_with("/secret"),
        "public" => path.starts_with("/law") && moment > "20170101000000",
        _ => false,
    };
    if hidden {
        Verdict::Hidden
    } else {
        Verdict::Shown
    }
}

fn text(url: &str, moment: &str) -> String {
    format!("capture of {url} at {moment}.")
}

/// What the archive does with a request for a capture.
fn deed(source: &str, url: &str, moment: &str) -> usize {
    let mut state = source.len() + 31;
    for byte in url.bytes().chain(moment.bytes()) {
        state = (state * 131 + usize::from(byte)) % 1_000_003;
    }
    state % 6
}

/// The moment of what is sent for a row, by an archive of that kind; `None` if that is no record of the URL.
fn sent(source: &str, url: &str, moment: &str) -> Option<&'static str> {
    let at = MOMENTS.iter().position(|one| *one == moment).unwrap();
    let other = MOMENTS[(at + 1 + url.len() % 3) % MOMENTS.len()];
    let own = MOMENTS[at];
    match (source, deed(source, url, moment)) {
        ("file", _) | (_, 0 | 1) => Some(own),
        (_, 2) => Some(other),
        ("memento" | "cdx", 3) => Some(other),
        ("cdx", 4) => Some(own),
        _ => None,
    }
}

fn http_date(moment: &str) -> String {
    let year: u32 = moment[..4].parse().unwrap();
    let day = ["Wed", "Fri", "Mon", "Wed"][(year as usize - 2014) / 2];
    format!("{day}, 01 Jan {year} 00:00:00 GMT")
}

/// An archive that has all captures, and answers as [`deed`] says.
fn archive() -> ScriptedHost {
    ScriptedHost::start(|asked: &Asked| {
        let target = asked.target.clone();
        let wanted = |text: &str| {
            let url = PATHS.iter().map(|path| format!("{HOST}{path}"));
            url.into_iter().find(|url| *url == text.replace("%7E", "~"))
        };
        let captures = |url: &str| MOMENTS.map(|moment| (url.to_owned(), moment));
        let gate = target.strip_prefix("/gate/");
        if let Some(url) = gate.or(target.strip_prefix("/map/")) {
            let Some(url) = wanted(url) else {
                return answer(404, &[], "");
            };
            let links = captures(&url).map(|(url, moment)| {
                let date = http_date(moment);
                format!("<http://h/web/{moment}/{url}>; rel=\"memento\"; datetime=\"{date}\"")
            });
            if gate.is_some() {
                return answer(
                    302,
                    &[("Link", &links.join(", ")), ("Location", "/nowhere")],
                    "",
                );
            }
            let links = format!("<{url}>; rel=\"original\",\n{}", links.join(",\n"));
            return answer(200, &[("Content-Type", "application/link-format")], links);
        }
        if target.starts_with("/cdx?") || target.starts_with("/coll/index?") {
            let asked = asked.parameter("url");
            let is_prefix = asked.ends_with('*')
                || target.contains("matchType=prefix")
                || target.contains("matchType=domain")
                || target.contains("matchType=host");
            let mut lines: Vec<String> = Vec::new();
            for path in PATHS {
                let url = format!("{HOST}{path}");
                let key = crawlspace_cdx::surt::urlkey(&url).unwrap();
                let is_wanted = crawlspace_cdx::surt::urlkey(&asked).is_ok_and(|own| own == key);
                if !is_prefix && !is_wanted {
                    continue;
                }
                for moment in MOMENTS {
                    lines.push(if target.starts_with("/cdx?") {
                        format!("{key} {moment} {url} text/plain 200 - 100")
                    } else {
                        let more = "\"status\": \"200\", \"filename\": \"x.warc\", \"offset\": \"0\", \"length\": \"9\"";
                        format!("{key} {moment} {{\"url\": \"{url}\", {more}}}")
                    });
                }
            }
            lines.sort_unstable();
            return answer(
                200,
                &[("Content-Type", "text/plain")],
                lines.join("\n") + "\n",
            );
        }
        if target.starts_with("/coll/resource?") {
            let (url, moment) = (asked.parameter("url"), asked.parameter("closest"));
            let Some(at) = sent("upstream", &url, &moment) else {
                return match deed("upstream", &url, &moment) {
                    3 => record(&format!("{HOST}/other"), &moment),
                    _ => answer(404, &[], "no"),
                };
            };
            return record(&url, at);
        }
        // `/web-<kind>/<moment>id_/<url>`.
        let mut parts = target.trim_start_matches('/').splitn(3, '/');
        let (kind, moment, url) = (parts.next(), parts.next(), parts.next());
        let (Some(kind), Some(moment), Some(Some(url))) = (kind, moment, url.map(wanted)) else {
            return answer(404, &[], "");
        };
        let (kind, moment) = (&kind[4..], &moment[..14]);
        let again = kind.strip_suffix("-again");
        if again.is_some() {
            return answer(
                200,
                &[("Memento-Datetime", &http_date(moment))],
                text(&url, moment),
            );
        }
        match (deed(kind, &url, moment), sent(kind, &url, moment)) {
            (3, Some(other)) => {
                let place = format!("/web-{kind}-again/{other}id_/{url}");
                answer(302, &[("Location", &place)], "")
            }
            (4, _) => answer(200, &[], text(&url, moment)),
            (_, Some(at)) => answer(200, &[("Memento-Datetime", &http_date(at))], text(&url, at)),
            (_, None) => answer(404, &[], "no"),
        }
    })
}

/// A record as a server of this kind sends it.
fn record(url: &str, moment: &str) -> Vec<Part> {
    let body = text(url, moment);
    let block = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let record = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n\
         WARC-Date: {}\r\nWARC-Target-URI: {url}\r\nContent-Type: application/http; msgtype=response\r\n\
         Content-Length: {}\r\n\r\n{block}\r\n\r\n",
        iso(moment),
        block.len()
    );
    answer(200, &[("Content-Type", "application/warc-record")], record)
}

struct World {
    stage: Stage,
    _host: ScriptedHost,
    _server: Server,
    _shelf: Shelf,
}

impl World {
    fn new() -> World {
        let (host, server, mut shelf) = (archive(), Server::start(), Shelf::new());
        let mut space = TagSpace::of(&server);
        space.ok("RULESET all urlkey . seen");
        space.ok("POINTSET public 'seen & !private'");
        for path in PATHS {
            let url = format!("{HOST}{path}");
            for moment in MOMENTS {
                let slot = shelf.capture("a.warc", &url, moment, text(&url, moment).as_bytes());
                if verdict("public", &url, moment) == Verdict::Hidden {
                    let key = crawlspace_cdx::surt::urlkey(&url).unwrap();
                    for place in ["- -", "x.warc 0", &format!("{} {}", slot.file, slot.offset)] {
                        space.ok(format!("ADD RECORD '{key} {moment} {place}' private"));
                    }
                }
            }
        }
        let write = |name: &str, text: &str| {
            let path = shelf.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let exclude = write(
            "exclude.aclj",
            "com,example)/secret - {\"access\": \"exclude\"}\n",
        );
        let block = write("block.aclj", "com,example)/law - {\"access\": \"block\"}\n");
        let open = write("open.aclj", "com,example)/open - {\"access\": \"allow\"}\n");
        let policy = |more: &str| {
            format!(
                "{{\"policies\": [{{\"id\": 1, \"name\": \"Staff\", \"accessPoints\": [\"staff\"]}}], \"rules\": [\
                 {{\"id\": 1, \"policyId\": 1, \"urlPatterns\": [\"{HOST}/secret*\"]{more}}}]}}"
            )
        };
        let staff = write("staff.json", &policy(""));
        let until = ", \"captured\": {\"end\": \"2017-01-01T00:00:00+0000\"}";
        let dates = write("dates.json", &policy(until));
        let (index, warcs) = (shelf.write_index("index.cdxj"), shelf.warcs());
        let tags = format!("redis://127.0.0.1:{}/0/tags", server.port());
        let url = host.url("");
        let mut config = "collections:\n".to_owned();
        for source in SOURCES {
            let source_fields = match source {
                "file" => format!("index: {index}, resource: {warcs}"),
                "cdx" => format!(
                    "index: {{type: cdx, api_url: '{url}/cdx', replay_url: '{url}/web-cdx/{{timestamp}}id_/{{url}}'}}, \
                     resource: $live"
                ),
                "memento" => format!(
                    "index: {{type: memento, timegate_url: '{url}/gate/{{url}}', timemap_url: '{url}/map/{{url}}', \
                     replay_url: '{url}/web-memento/{{timestamp}}id_/{{url}}'}}, resource: $live"
                ),
                _ => format!("index: {{type: upstream, url: '{url}/coll'}}, resource: $live"),
            };
            for rules in RULES {
                let more = match rules {
                    "exclude" => format!(", acl_paths: {exclude}"),
                    "block" => format!(", acl_paths: {block}"),
                    "after" => ", embargo: {after: 2016, access: exclude}".to_owned(),
                    "before" => ", embargo: {before: 2016, access: exclude}".to_owned(),
                    "dates" => format!(", acl_paths: {dates}"),
                    "default" => format!(", acl_paths: {open}, default_access: exclude"),
                    "staff" => format!(", acl_paths: {staff}"),
                    "public" => format!(", tags: '{tags}', access_point: public"),
                    _ => String::new(),
                };
                config += &format!("  {source}-{rules}: {{{source_fields}{more}}}\n");
            }
        }
        World {
            stage: Stage::start(&config),
            _host: host,
            _server: server,
            _shelf: shelf,
        }
    }
}

/// What an answer shows: URLs with moments.
fn shown(text: &str) -> BTreeSet<(String, String)> {
    let mut shown = BTreeSet::new();
    for part in text.split("capture of ").skip(1) {
        if let Some((url, rest)) = part.split_once(" at ") {
            shown.insert((url.to_owned(), rest[..14].to_owned()));
        }
    }
    for line in text.lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        if line.starts_with("com,example)") && columns.len() > 2 {
            let path = columns[0].strip_prefix("com,example)").unwrap();
            shown.insert((format!("{HOST}{path}"), columns[1].to_owned()));
        }
        // Links to mementos.
        if let Some((_, place)) = line.split_once("id_/").filter(|_| line.contains("memento")) {
            let moment = &line[..line.find("id_/").unwrap()];
            let url = place
                .split(['>', ' ', '\r', '"'])
                .next()
                .unwrap_or_default();
            shown.insert((url.to_owned(), moment[moment.len() - 14..].to_owned()));
        }
    }
    shown
}

/// The captures of a URL, from the closest to a moment on, the earlier one first.
fn by_distance(moment: &str) -> Vec<&'static str> {
    // Days since the first one: 2016 is a leap year.
    let day = |moment: &str| match &moment[..4] {
        "2014" => 0_i64,
        "2016" => 730,
        "2018" => 1461,
        _ => 2191,
    };
    let mut all = MOMENTS.to_vec();
    all.sort_by_key(|one| ((day(one) - day(moment)).abs(), day(one)));
    all
}

/// The status of a record of a URL that is closest to a moment, and the moment that it is of.
fn expected(source: &str, rules: &str, url: &str, moment: &str) -> (u16, Option<&'static str>) {
    for row in by_distance(moment) {
        match verdict(rules, url, row) {
            Verdict::Hidden => continue,
            Verdict::Blocked => return (451, None),
            Verdict::Shown => {}
        }
        let Some(sent) = sent(source, url, row) else {
            continue;
        };
        match verdict(rules, url, sent) {
            Verdict::Hidden => {}
            Verdict::Blocked => return (451, None),
            Verdict::Shown => return (200, Some(sent)),
        }
    }
    (404, None)
}

/// A request, and what is wrong with the answer to it.
fn check(
    answer: &Answer,
    door: &str,
    source: &str,
    rules: &str,
    url: &str,
    moment: &str,
) -> Result<(), String> {
    let head = answer
        .field("warcserver-cdx")
        .into_iter()
        .chain(answer.field("location"))
        .collect::<Vec<_>>()
        .join("\nmemento ");
    let text = answer.text();
    let all = shown(&format!("memento {head}\n{text}"));
    for (url, moment) in &all {
        let what = verdict(rules, url, moment);
        let is_row = matches!(door, "index" | "prefix" | "cdx" | "timemap" | "timegate");
        if what == Verdict::Hidden || what == Verdict::Blocked && !is_row {
            return Err(format!("it leaks {url} at {moment}"));
        }
    }
    let urls: Vec<String> = match door {
        "prefix" => PATHS.iter().map(|path| format!("{HOST}{path}")).collect(),
        _ => vec![url.to_owned()],
    };
    let rows = |url: &String| {
        let moments = MOMENTS.into_iter();
        let seen = moments.filter(|moment| verdict(rules, url, moment) != Verdict::Hidden);
        seen.map(|moment| (url.clone(), moment.to_owned()))
            .collect::<Vec<_>>()
    };
    let expected_rows: BTreeSet<_> = urls.iter().flat_map(rows).collect();
    match door {
        "index" | "prefix" | "cdx" | "timemap" => {
            if all != expected_rows {
                return Err(format!("rows {all:?}, not {expected_rows:?}"));
            }
        }
        "timegate" => {
            let is_there = !expected_rows.is_empty();
            if (answer.status == 302 || answer.status == 307) != is_there {
                return Err(format!(
                    "status {}, though rows are {expected_rows:?}",
                    answer.status
                ));
            }
        }
        _ => {
            let (status, moment) = expected(source, rules, url, moment);
            let sent = moment.map(|moment| (url.to_owned(), moment.to_owned()));
            let is_right = answer.status == status && sent.is_none_or(|sent| all.contains(&sent));
            if !is_right {
                return Err(format!(
                    "status {} with {all:?}, not {status} with {moment:?}",
                    answer.status
                ));
            }
        }
    }
    Ok(())
}

const DOORS: [&str; 7] = [
    "index", "prefix", "cdx", "timemap", "timegate", "resource", "raw",
];

fn target(door: &str, collection: &str, url: &str, moment: &str) -> String {
    match door {
        "index" => format!("/{collection}/index?url={url}"),
        "prefix" => format!("/{collection}/index?url=example.com/*"),
        "cdx" => format!("/{collection}/cdx?url={url}"),
        "timemap" => format!("/{collection}/timemap/link/{url}"),
        "timegate" => format!("/{collection}/timegate/{url}"),
        "resource" => format!("/{collection}/resource?url={url}&closest={moment}"),
        _ => format!("/{collection}/{moment}id_/{url}"),
    }
}

#[test]
fn nothing_hidden_leaves_by_any_door() {
    let world = World::new();
    let mut rng = Rng::new("nothing_hidden_leaves_by_any_door");
    let mut hidden = BTreeMap::new();
    let (mut wrong, mut found_planted) = (Vec::new(), None);
    let pick = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
    for case in 0..CASES {
        let source = SOURCES[pick(&mut rng, SOURCES.len())];
        let rules = RULES[pick(&mut rng, RULES.len())];
        let mut door = DOORS[pick(&mut rng, DOORS.len())];
        if source == "memento" && door == "prefix" {
            // A TimeMap is of one URL.
            door = "index";
        }
        let url = format!("{HOST}{}", PATHS[pick(&mut rng, PATHS.len())]);
        let moment = MOMENTS[pick(&mut rng, MOMENTS.len())];
        *hidden.entry((source, rules)).or_insert(0) += 1;
        let place = target(door, &format!("{source}-{rules}"), &url, moment);
        let answer = get(world.stage.address(), &place);
        if let Err(why) = check(&answer, door, source, rules, &url, moment) {
            wrong.push(format!("{place}: {why}"));
        }
        // A door without a gate: the collection without rules in place of the one with them.
        if found_planted.is_none() && rules != "none" {
            let place = target(door, &format!("{source}-none"), &url, moment);
            let answer = get(world.stage.address(), &place);
            if check(&answer, door, source, rules, &url, moment).is_err() {
                found_planted = Some(case);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {CASES}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(found_planted.is_some(), "a door without a gate is noticed");
    assert_eq!(hidden.len(), SOURCES.len() * RULES.len());
    assert!(hidden.values().all(|count| *count >= 100), "{hidden:?}");
    let all: Vec<(&str, &str, &str)> = RULES
        .iter()
        .flat_map(|rules| {
            PATHS
                .iter()
                .flat_map(move |path| MOMENTS.map(|moment| (*rules, *path, moment)))
        })
        .collect();
    let excluded = all.iter().filter(|(rules, path, moment)| {
        verdict(rules, &format!("{HOST}{path}"), moment) == Verdict::Hidden
    });
    assert!(
        excluded.count() * 20 >= all.len(),
        "at least 5 % are excluded"
    );
}
