//! Tests packages of all programs that write them: the server replays all captures that wabac.js replays from
//! them by itself.

use std::collections::HashMap;
use std::fmt::Write as _;

use redis_tests::{ScriptedHost, answer, parse_range};
use serde::Deserialize;
use serde_json::json;

use super::worker;
use crate::browser::said;
use crate::makers::corpus::{many, odd, payload};
use crate::makers::maker::MAKERS;
use crate::serving::Stage;

/// Page that loads packages into wabac.js, and requests the same captures from wabac.js and from a server with the same
/// packages.
const HOST: &str = r#"<!doctype html><script>
const say = (what) => fetch("/say", {method: "POST", body: JSON.stringify(what)});
const seen = async (url) => {
  try {
    const answer = await fetch(url);
    return [answer.status, await answer.text()];
  } catch (error) {
    return [0, String(error)];
  }
};
(async () => {
  const workers = navigator.serviceWorker;
  const claimed = new Promise((done) => workers.addEventListener("controllerchange", done));
  await workers.register("/sw.js");
  const worker = (await workers.ready).active;
  await (workers.controller || claimed);
  const {server, packages, captures} = await (await fetch("/wanted.json")).json();
  const found = {};
  for (const name of packages) {
    await new Promise((done, failed) => {
      workers.onmessage = ({data}) => {
        if (data.name !== name) return;
        if (data.msg_type === "collAdded") done();
        if (data.error) failed(name + ": " + data.error);
      };
      workers.startMessages();
      worker.postMessage({msg_type: "addColl", name, file: {sourceUrl: location.origin + "/" + name + ".wacz"}});
    });
    found[name] = [];
    while (found[name].length < captures.length) {
      const some = captures.slice(found[name].length, found[name].length + 10);
      found[name].push(...await Promise.all(some.map(async ([time, url]) => {
        const what = "/" + name + "/" + time + "id_/" + url;
        return {theirs: await seen("/w" + what), ours: await seen(server + what)};
      })));
    }
  }
  await say(found);
})().catch((error) => say({failed: String(error)}));
</script>"#;

/// Status and text of a capture, as a page sees them.
type Seen = (u16, String);

/// A capture as returned by wabac.js and by the server.
#[derive(Debug, Deserialize)]
struct Both {
    theirs: Seen,
    ours: Seen,
}

/// Serves files by path, and ranges of them.
fn host(files: HashMap<String, (&'static str, Vec<u8>)>) -> ScriptedHost {
    ScriptedHost::start(move |asked| {
        let Some((media, bytes)) = files.get(&asked.target) else {
            return answer(404, &[], "");
        };
        let fields = [("Content-Type", *media), ("Accept-Ranges", "bytes")];
        if asked.method == "HEAD" {
            return answer(405, &[], "");
        }
        let size = bytes.len() as u64;
        match asked.field("range").map(|range| parse_range(range, size)) {
            None => answer(200, &fields, bytes),
            Some(None) => answer(416, &fields, ""),
            Some(Some((from, length))) => {
                let range = format!("bytes {from}-{}/{size}", from + length - 1);
                let fields = [&fields[..], &[("Content-Range", &range)]].concat();
                let end = (from + length) as usize;
                answer(206, &fields, &bytes[from as usize..end])
            }
        }
    })
}

#[test]
fn packages_that_wabac_js_replays_are_replayed() {
    let Some(worker) = worker() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut corpus = odd("data.warc.gz");
    // Two captures of each URL suffice to detect a wrong choice.
    corpus.rows.retain(|row| !row.time.starts_with("2016"));
    // Add rows without records before and after the captures, so that each index has several blocks.
    let mut rows = many(3000);
    rows.extend_from_slice(&corpus.rows);
    let mut files = HashMap::from([
        ("/".to_owned(), ("text/html", HOST.as_bytes().to_vec())),
        ("/sw.js".to_owned(), ("text/javascript", worker)),
        ("/say".to_owned(), ("text/plain", Vec::new())),
    ]);
    let mut config = "collections:\n".to_owned();
    let mut names = Vec::new();
    for maker in MAKERS.iter().filter(|maker| !maker.loose) {
        let name = maker.slug();
        let package = maker.package(&rows, &corpus.files());
        let path = dir.path().join(format!("{name}.wacz"));
        std::fs::write(&path, &package).unwrap();
        let _ = writeln!(config, "  {name}: {}", path.display());
        files.insert(format!("/{name}.wacz"), ("application/wacz", package));
        names.push(name);
    }
    let stage = Stage::start_for("*", &config);
    let captures = corpus.rows.iter().map(|row| (&row.time, &row.url));
    let wanted = json!({
        "server": stage.url(),
        "packages": names,
        "captures": captures.collect::<Vec<_>>(),
    });
    let wanted = wanted.to_string().into_bytes();
    files.insert("/wanted.json".to_owned(), ("application/json", wanted));
    let host = host(files);
    let Some(seen) = said(&host, &host.url("/")) else {
        return;
    };
    assert_eq!(seen.get("failed"), None, "{seen}");
    let seen: HashMap<String, Vec<Both>> = serde_json::from_value(seen).unwrap();
    for name in &names {
        assert_eq!(seen[name].len(), corpus.rows.len(), "{name}");
        let mut replayed = 0;
        for (row, both) in corpus.rows.iter().zip(&seen[name]) {
            let right = (200, payload(&row.url, &row.time));
            assert_eq!(both.ours, right, "{name}");
            replayed += usize::from(both.theirs == right);
        }
        // wabac.js misses URLs that a browser writes differently from their rows. Until it has read the block of a
        // row, it also misses the row if the key was not written by warcio.js, or if the keys of many earlier blocks
        // start with the path of the row.
        let least = corpus.rows.len() * 3 / 4;
        assert!(replayed >= least, "{name}: {replayed} of {least}");
    }
}
