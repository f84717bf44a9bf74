//! A scripted archive with all captures, which also simulates the live web. [`deed`] decides how it answers.

use redis_tests::{Asked, Part, ScriptedHost, answer};

use super::oracle::{Capture, PATHS, captures, deed, sent};
use crate::shelf::iso;

pub fn start() -> ScriptedHost {
    ScriptedHost::start(|asked: &Asked| {
        let base = format!("http://{}", asked.field("host").unwrap());
        let target = asked.target.replace("%7E", "~");
        if target.starts_with("/cdx?") || target.starts_with("/coll/index?") {
            return index(asked, &base);
        }
        if target.starts_with("/coll/resource") {
            return resource(asked, &base);
        }
        let path_of = |url: &str| {
            let path = url.strip_prefix(&base);
            path.and_then(|path| PATHS.iter().position(|one| *one == path))
        };
        if let Some(path) = path_of(&format!("{base}{target}")) {
            return live(Capture::live(path));
        }
        let mut parts = target.trim_start_matches('/').splitn(2, '/');
        let (kind, rest) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        if let ("gate" | "map", Some(path)) = (kind, path_of(rest)) {
            return mementos(&base, path, kind == "gate");
        }
        let parts = rest.split_once("id_/").map(|(moment, url)| {
            let path = path_of(url);
            path.and_then(|path| captures("file", path).find(|one| one.moment() == moment))
        });
        match (kind.strip_prefix("web-"), parts.flatten()) {
            (Some(kind), Some(row)) => replay(&base, kind, row),
            _ => answer(404, &[], ""),
        }
    })
}

/// Answers with a TimeMap, or as a TimeGate that lists all mementos.
fn mementos(base: &str, path: usize, is_gate: bool) -> Vec<Part> {
    let links = captures("memento", path).map(|one| {
        let (moment, date) = (one.moment(), one.http_date());
        let url = format!("{base}{}", one.path());
        format!("<http://h/web/{moment}/{url}>; rel=\"memento\"; datetime=\"{date}\"")
    });
    let links: Vec<String> = links.collect();
    if is_gate {
        let fields = [("Link", &*links.join(", ")), ("Location", "/nowhere")];
        return answer(302, &fields, "");
    }
    let original = format!("<{base}{}>; rel=\"original\",\n", PATHS[path]);
    let fields = [("Content-Type", "application/link-format")];
    answer(200, &fields, original + &links.join(",\n"))
}

fn index(asked: &Asked, base: &str) -> Vec<Part> {
    let (target, url) = (&asked.target, asked.parameter("url"));
    let is_cdx = target.starts_with("/cdx?");
    let is_prefix = url.ends_with('*')
        || ["prefix", "domain", "host"]
            .iter()
            .any(|kind| target.contains(&format!("matchType={kind}")));
    let wanted = crawlspace_cdx::surt::urlkey(&url);
    let mut lines: Vec<String> = Vec::new();
    for (number, path) in PATHS.iter().enumerate() {
        let url = format!("{base}{path}");
        let key = crawlspace_cdx::surt::urlkey(&url).unwrap();
        if !is_prefix && wanted.as_ref() != Ok(&key) {
            continue;
        }
        lines.extend(captures("cdx", number).map(|one| {
            let moment = one.moment();
            if is_cdx {
                return format!("{key} {moment} {url} text/plain 200 - 100\n");
            }
            let place = "\"filename\": \"x.warc\", \"offset\": \"0\", \"length\": \"9\"";
            format!("{key} {moment} {{\"url\": \"{url}\", \"status\": \"200\", {place}}}\n")
        }));
    }
    lines.sort_unstable();
    answer(200, &[("Content-Type", "text/plain")], lines.concat())
}

fn resource(asked: &Asked, base: &str) -> Vec<Part> {
    let url = asked.parameter("url").replace("%7E", "~");
    let moment = asked.parameter("closest");
    let row = PATHS.iter().position(|path| url == format!("{base}{path}"));
    let row = row.and_then(|path| captures("upstream", path).find(|one| one.moment() == moment));
    let Some(row) = row else {
        return answer(404, &[], "no");
    };
    match (sent("upstream", row), deed("upstream", row)) {
        (Some(capture), _) => record(base, capture),
        (None, 3) => record(base, row.elsewhere()),
        (None, _) => answer(404, &[], "no"),
    }
}

fn replay(base: &str, kind: &str, row: Capture) -> Vec<Part> {
    let dated = |capture: Capture| {
        let fields = [("Memento-Datetime", &*capture.http_date())];
        answer(200, &fields, capture.text())
    };
    if kind.ends_with("-again") {
        return dated(row);
    }
    match (deed(kind, row), sent(kind, row)) {
        (3, Some(other)) => {
            let (moment, path) = (other.moment(), other.path());
            let place = format!("/web-{kind}-again/{moment}id_/{base}{path}");
            answer(302, &[("Location", &place)], "")
        }
        (4, _) => answer(200, &[], row.text()),
        (_, Some(capture)) => dated(capture),
        (_, None) => answer(404, &[], "no"),
    }
}

fn live(capture: Capture) -> Vec<Part> {
    match deed("live", capture) {
        4 => answer(302, &[("Location", "/nowhere")], capture.text()),
        5 => answer(404, &[], capture.text()),
        _ => answer(200, &[], capture.text()),
    }
}

/// Answers with a record like a Crawlspace server or pywb's warcserver: for a revisit, with the payload and metadata of
/// its original.
fn record(base: &str, capture: Capture) -> Vec<Part> {
    let (mut more, mut payload) = (String::new(), capture);
    if let Some((original, _)) = capture.original() {
        payload = original;
        let (path, moment) = (original.path(), original.moment());
        more = format!(
            "WARC-Refers-To: <urn:of:{moment}>\r\nWARC-Refers-To-Target-URI: {base}{path}\r\n\
             WARC-Refers-To-Date: {}\r\nWARC-Refers-To-Container: {moment}.wacz\r\n",
            iso(&moment)
        );
    }
    let block = super::world::http(payload) + &payload.text();
    let record = format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n\
         WARC-Date: {}\r\nWARC-Target-URI: {base}{}\r\n{more}Content-Type: application/http; msgtype=response\r\n\
         Content-Length: {}\r\n\r\n{block}\r\n\r\n",
        iso(&capture.moment()),
        capture.path(),
        block.len()
    );
    answer(200, &[("Content-Type", "application/warc-record")], record)
}
