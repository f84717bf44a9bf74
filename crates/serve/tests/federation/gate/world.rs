//! Collections of every kind of source under every kind of rule.

use std::fs::File;
use std::path::Path;

use crawlspace_cdx::surt::urlkey;
use crawlspace_wacz::{Index, Writer};
use redis_tests::archive::collection::{cluster_of, sha1_base32};
use redis_tests::{ScriptedHost, Server, TagSpace, with};

use super::archive;
use super::oracle::{
    Capture, PATHS, RULES, Reference, SOURCES, Verdict, captures, collection, deed, stored, verdict,
};
use crate::serving::{Setup, Stage};
use crate::shelf::{Shelf, Slot, iso};

pub struct World {
    pub stage: Stage,
    pub archive: ScriptedHost,
    _server: Server,
    _shelf: Shelf,
}

/// Returns the HTTP header of a response, with fields that reveal its URL and date.
pub fn http(capture: Capture) -> String {
    let (date, path, moment) = (capture.http_date(), capture.path(), capture.moment());
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nLast-Modified: {date}\r\n\
         X-Cached: {path} {moment}\r\n\r\n"
    )
}

fn file(capture: Capture) -> String {
    format!("{}.warc", capture.moment())
}

impl World {
    pub fn start() -> World {
        let (archive, server, mut shelf) = (archive::start(), Server::start(), Shelf::new());
        let base = archive.url("");
        let mut space = TagSpace::of(&server);
        space.ok("RULESET all urlkey . seen");
        space.ok("RULESET law urlkey '[)]/law' law");
        space.ok("RULESET live timestamp '^20(2[6-9]|[3-9])' live");
        space.ok("POINTSET public 'seen & !private & !(law & live)'");
        space.ok("POINTSET all seen");
        for capture in stored() {
            let slot = fill(&mut shelf, &base, capture);
            if verdict("public", capture) == Verdict::Hidden {
                let key = urlkey(&format!("{base}{}", capture.path())).unwrap();
                for place in ["- -", "x.warc 0", &format!("{} {}", slot.file, slot.offset)] {
                    let record = format!("{key} {} {place}", capture.moment());
                    space.ok(format!("ADD RECORD '{record}' private"));
                }
            }
        }
        let index = shelf.write_index("index.cdxj");
        let lines = std::fs::read_to_string(&index).unwrap();
        let lines: Vec<String> = lines.split_inclusive('\n').map(str::to_owned).collect();
        for line in &lines {
            redis_tests::ok!(space.wire, "ZADD", "lines", 0, line.trim_end());
        }
        let cluster = cluster_of(&lines, &shelf.path().join("cluster"), 5);
        let package = shelf.path().join("all.wacz");
        pack(&shelf, &lines, &package);
        let redis = format!("redis://127.0.0.1:{}/0", server.port());
        let rules = Rules::write(&shelf, &base, &redis);
        let mut config = "collections:\n".to_owned();
        for source in SOURCES {
            let warcs = shelf.warcs();
            let of_source = match source {
                "file" => format!("index: {index}, resource: {warcs}"),
                "package" => format!("index: 'wacz+{}'", package.display()),
                "zipnum" => format!("index: {}, resource: {warcs}", cluster.display()),
                "redis" => format!("index: '{redis}/lines', resource: {warcs}"),
                "cdx" => format!(
                    "index: {{type: cdx, api_url: '{base}/cdx', \
                     replay_url: '{base}/web-cdx/{{timestamp}}id_/{{url}}'}}, resource: $live"
                ),
                "memento" => format!(
                    "index: {{type: memento, timegate_url: '{base}/gate/{{url}}', \
                     timemap_url: '{base}/map/{{url}}', \
                     replay_url: '{base}/web-memento/{{timestamp}}id_/{{url}}'}}, resource: $live"
                ),
                "upstream" => {
                    format!("index: {{type: upstream, url: '{base}/coll'}}, resource: $live")
                }
                _ => "index: $live, resource: $live".to_owned(),
            };
            for kind in RULES {
                for (lends, more) in [(false, ""), (true, ", hidden_originals: lend")] {
                    let name = collection(source, kind, lends);
                    let of_kind = rules.of(kind);
                    config += &format!("  {name}: {{{of_source}{of_kind}{more}}}\n");
                }
            }
        }
        World {
            stage: Stage::start_with(&config, with!(Setup, is_quiet: true)),
            archive,
            _server: server,
            _shelf: shelf,
        }
    }
}

/// Location of the rule files, and the tag space.
struct Rules {
    folder: String,
    tags: String,
}

impl Rules {
    fn write(shelf: &Shelf, base: &str, redis: &str) -> Rules {
        let key = |path: &str| urlkey(&format!("{base}{path}")).unwrap();
        let write =
            |name: &str, text: String| std::fs::write(shelf.path().join(name), text).unwrap();
        let rule =
            |path: &str, access: &str| format!("{} - {{\"access\": \"{access}\"}}\n", key(path));
        write(
            "exclude.aclj",
            rule("/secret/deep", "allow") + &rule("/secret", "exclude"),
        );
        write("block.aclj", rule("/law", "block"));
        write("default.aclj", rule("/open", "allow"));
        let policy = |more: &str| {
            format!(
                "{{\"policies\": [{{\"id\": 1, \"name\": \"Staff\", \"accessPoints\": [\"staff\"]}}], \"rules\": [\
                 {{\"id\": 1, \"policyId\": 1, \"urlPatterns\": [\"{base}/secret*\"]{more}}}]}}"
            )
        };
        write("staff.json", policy(""));
        let until = ", \"captured\": {\"end\": \"2017-01-01T00:00:00+0000\"}";
        write("dates.json", policy(until));
        Rules {
            folder: shelf.path().display().to_string(),
            tags: format!("{redis}/tags"),
        }
    }

    /// Returns the fields of a collection's configuration.
    fn of(&self, kind: &str) -> String {
        let Rules { folder, tags } = self;
        match kind {
            "exclude" | "block" => format!(", acl_paths: {folder}/{kind}.aclj"),
            "after" => ", embargo: {after: 2016, access: exclude}".to_owned(),
            "before" => ", embargo: {before: 2016, access: exclude}".to_owned(),
            "default" => {
                format!(", acl_paths: {folder}/default.aclj, default_access: exclude")
            }
            "dates" | "staff" => format!(", acl_paths: {folder}/{kind}.json"),
            "member" => format!(", acl_paths: {folder}/staff.json, access_point: staff"),
            "public" => format!(", tags: '{tags}', access_point: public"),
            "point" => format!(", tags: '{tags}', access_point: all"),
            _ => String::new(),
        }
    }
}

/// Writes the record of a capture, or a wrong one at its location, and its row.
fn fill(shelf: &mut Shelf, base: &str, capture: Capture) -> Slot {
    let url = format!("{base}{}", capture.path());
    let Some((original, reference)) = capture.original() else {
        let there = match deed("file", capture) {
            5 if capture.moment().ends_with(['0', '2', '4']) => capture.elsewhere(),
            5 => capture.other(),
            _ => capture,
        };
        let slot = response(shelf, base, &file(capture), there);
        let digest = sha1_base32(capture.text().as_bytes());
        let more =
            format!(", \"status\": \"200\", \"mime\": \"text/plain\", \"digest\": \"{digest}\"");
        shelf.line(&url, &capture.moment(), &slot, &more);
        return slot;
    };
    let is_unmodified = reference == Reference::Unmodified;
    let named = match reference {
        Reference::Lying => captures("file", 0).next().unwrap(),
        _ => original,
    };
    let digest = sha1_base32(original.text().as_bytes());
    let (target, date) = (format!("{base}{}", named.path()), iso(&named.moment()));
    let (own_date, of_payload) = (iso(&capture.moment()), format!("sha1:{digest}"));
    let (id, refers_to) = (id(capture), self::id(named));
    let mut fields = vec![
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", &*id),
        ("WARC-Date", &*own_date),
        ("WARC-Target-URI", &*url),
        ("WARC-Refers-To", &*refers_to),
        ("WARC-Refers-To-Target-URI", &*target),
        ("WARC-Refers-To-Date", &*date),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    let mut more = String::from(", \"mime\": \"warc/revisit\"");
    let block = if is_unmodified {
        let profile = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
        fields.push(("WARC-Profile", profile));
        "HTTP/1.1 304 Not Modified\r\n\r\n"
    } else {
        let profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
        fields.push(("WARC-Profile", profile));
        fields.push(("WARC-Payload-Digest", &*of_payload));
        more += &format!(", \"digest\": \"{digest}\"");
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    };
    let slot = shelf.record(&file(capture), &fields, block.as_bytes());
    if matches!(reference, Reference::InRow | Reference::Lying) {
        let length = response(shelf, base, "length.warc", original).length;
        more += &format!(
            ", \"orig.filename\": \"{}\", \"orig.offset\": \"0\", \"orig.length\": \"{length}\"",
            file(original)
        );
    }
    shelf.line(&url, &capture.moment(), &slot, &more);
    slot
}

fn id(capture: Capture) -> String {
    format!("<urn:of:{}>", capture.moment())
}

/// Writes a response to a file.
fn response(shelf: &Shelf, base: &str, file: &str, capture: Capture) -> Slot {
    let text = capture.text();
    let digest = format!("sha1:{}", sha1_base32(text.as_bytes()));
    let (id, date) = (id(capture), iso(&capture.moment()));
    let url = format!("{base}{}", capture.path());
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", &*id),
        ("WARC-Date", &*date),
        ("WARC-Target-URI", &*url),
        ("WARC-Payload-Digest", &*digest),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    shelf.record(file, &fields, (http(capture) + &text).as_bytes())
}

/// Creates a package of all captures.
fn pack(shelf: &Shelf, lines: &[String], to: &Path) {
    let mut wacz = Writer::create(to, "2026-03-19T10:20:15Z").unwrap();
    for capture in stored() {
        let name = file(capture);
        let warc = File::open(shelf.path().join("warcs").join(&name)).unwrap();
        wacz.warc(&name, warc).unwrap();
    }
    let lines = lines.iter().map(|line| line.trim_end());
    wacz.index(Index::Blocks(5), lines).unwrap();
    wacz.finish().unwrap();
    assert!(PATHS.len() < 60, "a path is a second");
}
