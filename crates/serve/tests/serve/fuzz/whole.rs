//! Fuzz targets of the whole server, in this process: records of damaged files, strange requests, and strange responses
//! of the live web.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crawlspace_serve::config::Config;
use crawlspace_serve::reload::Current;
use crawlspace_serve::{Federation, server};
use crawlspace_warc::Reader;
use redis_tests::ScriptedHost;
use redis_tests::fuzz::Fuzz;
use redis_tests::http::{Answer, ask, get};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::fuzz::samples::Samples;
use crate::words::{inputs, list};

/// A server that runs until it is dropped.
struct Server {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    fn start(config: &str, folder: &Path) -> Server {
        let config = format!("allow_private: [127.0.0.0/8]\n{config}");
        let (config, _) = Config::parse(&config, "config.yaml", folder).unwrap();
        let federation = Federation::open(&config).unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(server::serve(
            Current::new(federation),
            listener,
            server::Options::default(),
            std::future::pending(),
        ));
        Server {
            address,
            _runtime: runtime,
        }
    }
}

/// Checks that a returned record is valid for every input, and that an error is JSON with a message.
fn check(answer: &Answer) -> Result<(), String> {
    match (answer.status, answer.media_type()) {
        (200, "application/warc-record") => {
            let mut reader = Reader::new("the answer", &answer.body[..]);
            let valid = reader
                .next()
                .and_then(|record| record.map(|record| record.finish()).transpose());
            match valid {
                Ok(Some(_)) => Ok(()),
                other => Err(format!("no valid record: {other:?}: {}", answer.text())),
            }
        }
        (400..=599, "application/json") if answer.text().contains("message") => Ok(()),
        (200, "text/x-cdxj" | "text/html" | "application/json" | "text/plain") => Ok(()),
        _ => Err(format!(
            "a strange answer: {} {}",
            answer.status,
            answer.text()
        )),
    }
}

/// Checks that captured headers and content have no effect on the server that replays them.
fn check_replay(answer: &Answer) -> Result<(), String> {
    let is_own = (400..=599).contains(&answer.status)
        && answer.media_type() == "application/json"
        && answer.text().contains("message");
    let is_sandboxed = answer.field("content-security-policy") == Some("sandbox");
    let acts = ["set-cookie", "refresh", "clear-site-data", "server"]
        .into_iter()
        .find(|name| answer.field(name).is_some());
    match (is_own || is_sandboxed, acts) {
        (true, None) => Ok(()),
        _ => Err(format!("what was captured acts here: {answer:?}")),
    }
}

/// Fuzzes files of WARC and ARC records, compressed and uncompressed.
pub fn records(fuzz: &mut Fuzz, samples: &Samples) {
    let words = list("record words");
    for ending in [".warc.gz", ".warc", ".arc.gz"] {
        let (file, places) = samples.file(ending);
        let dir = tempfile::tempdir().unwrap();
        let name = format!("fuzzed{ending}");
        // The index stays correct; only the first few records are requested.
        let mut index = String::new();
        for (number, (offset, length)) in places.iter().take(4).enumerate() {
            let _ = writeln!(
                index,
                "com,example)/{number} 20180601120000 {{\"url\": \"http://example.com/{number}\", \"mime\": \"text/html\", \
                 \"status\": \"200\", \"digest\": \"A\", \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{name}\"}}"
            );
        }
        std::fs::write(dir.path().join("index.cdxj"), index).unwrap();
        let server = Server::start(
            "collections:\n  a:\n    index: index.cdxj\n    resource: ./\n",
            dir.path(),
        );
        // The part of the file that contains these records.
        let enough = places
            .iter()
            .take(4)
            .map(|(offset, length)| (offset + length) as usize)
            .max()
            .unwrap();
        let sample = file[..enough].to_vec();
        fuzz.target(&ending[1..].replace('.', "_"), &[sample], &words, |input| {
            let new = dir.path().join("new");
            std::fs::write(&new, input).unwrap();
            std::fs::rename(new, dir.path().join(&name)).unwrap();
            for number in 0..4 {
                // If a record turns out to be damaged after much of it was sent, the connection is cut.
                let path = format!("/a/resource?url=http://example.com/{number}");
                let replay = format!("/a/20180601id_/http://example.com/{number}");
                type Check = fn(&Answer) -> Result<(), String>;
                for (path, check) in [(path, check as Check), (replay, check_replay)] {
                    match ask(server.address, "GET", &path, &[], b"") {
                        Ok(answer) => check(&answer)?,
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                            return Err("no answer".into());
                        }
                        Err(_) => {}
                    }
                }
            }
            Ok(())
        });
    }
}

/// Fuzzes requests on the wire, and posted messages.
pub fn requests(fuzz: &mut Fuzz) {
    let dir = tempfile::tempdir().unwrap();
    let row =
        "com,example)/ 20180601120000 {\"url\": \"http://example.com/\", \"status\": \"200\"}\n";
    std::fs::write(dir.path().join("index.cdxj"), row).unwrap();
    let server = Server::start(
        "collections:\n  a:\n    index: index.cdxj\n    resource: ./\n",
        dir.path(),
    );
    let samples = inputs("request samples");
    let words = list("request words");
    fuzz.target("request", &samples, &words, |input| {
        let mut stream = TcpStream::connect(server.address).map_err(|why| why.to_string())?;
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .map_err(|why| why.to_string())?;
        let _ = stream.write_all(input);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                Err("the connection stays open".into())
            }
            _ => Ok(()),
        }
    });

    let messages = inputs("message samples");
    fuzz.target("message", &messages, &words, |input| {
        match ask(
            server.address,
            "POST",
            "/a/resource-post?url=http://example.com/",
            &[],
            input,
        ) {
            Ok(answer) => check(&answer),
            Err(error) => Err(format!("no answer: {error}")),
        }
    });
    let alive = get(server.address, "/a/index?url=http://example.com/");
    assert_eq!(alive.status, 200);
}

/// Fuzzes responses from the live web that become records.
pub fn live(fuzz: &mut Fuzz) {
    let stub = ScriptedHost::answering("");
    let server = Server::start("collections:\n  live: $live\n", Path::new("/nowhere"));
    let samples = inputs("live answer samples");
    let words = list("live answer words");
    let target = format!("/live/resource?url=http://{}/page", stub.address());
    fuzz.target("answer", &samples, &words, |input| {
        stub.answers(input);
        match ask(server.address, "GET", &target, &[], b"") {
            Ok(answer) => check(&answer),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err("no answer".into()),
            Err(_) => Ok(()),
        }
    });
}
