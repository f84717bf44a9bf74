//! Fuzz targets of inputs to sources: lines, indexes, clusters, TimeMaps, and responses of other servers;
//! also configurations and queries.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crawlspace_cdx::{Field, Format, Line, Read};
use crawlspace_fetch::Net;
use crawlspace_fetch::Network;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::Limits;
use crawlspace_serve::config::{self, Config, Secrets, SourceKind};
use crawlspace_serve::packages::Packages;
use crawlspace_serve::query::Query;
use crawlspace_serve::source::{Lookup, Source};
use crawlspace_serve::sources::{Identity, open};
use futures_util::StreamExt;
use redis_tests::fuzz::Fuzz;
use redis_tests::{ScriptedHost, with};
use tokio::runtime::Runtime;

use crate::fuzz::samples::Samples;
use crate::words::{inputs, list};

fn source(kind: SourceKind, net: &Arc<Net>) -> Arc<dyn Source> {
    let word = kind.word();
    let limits = with!(Limits, rows: 10_000, bytes: 4 << 20, first: Duration::from_secs(20));
    let source = config::Source {
        name: "fuzzed".into(),
        kind,
        timeout: limits.first,
        max_bytes: Some(limits.bytes),
        max_rows: Some(limits.rows),
    };
    let identity = Identity {
        name: "fuzzed".into(),
        kind: word,
        members: format!("\"source\": \"fuzzed\", \"source_type\": \"{word}\"").into(),
        limits,
        live: true,
    };
    open(&source, identity, net, &Packages::new(net)).source
}

fn net() -> Arc<Net> {
    let loopback = Network {
        address: "127.0.0.0".parse().unwrap(),
        bits: 8,
    };
    Net::new(&[loopback]).unwrap()
}

/// Runs queries for a page, for a whole site, and for the closest capture, and checks the rows. Rows that the source
/// reports to be in order must be in order; otherwise, the source must report to the operator that its data is not
/// sorted.
fn ask(runtime: &Runtime, source: &Arc<dyn Source>, queries: &[&str]) -> Result<(), String> {
    for query in queries {
        let parameters = query.split('&').filter_map(|pair| pair.split_once('='));
        let query = Arc::new(Query::parse(parameters, None).map_err(|bad| bad.to_string())?);
        let lookup = Arc::new(Lookup {
            order: query.order,
            query: Arc::clone(&query),
            at_most: None,
            collection: "fuzz".into(),
        });
        runtime.block_on(async {
            let Ok(rows) = source.rows(lookup).await else {
                return Ok(());
            };
            let ordered = rows.ordered && query.order == Order::Ascending;
            let mut batches = rows.batches;
            let mut last: Option<Row> = None;
            while let Some(batch) = batches.next().await {
                let Ok(batch) = batch else { break };
                for row in batch {
                    check(&row, &query)?;
                    let before = last.as_ref().map(|last| last.urlkey() <= row.urlkey());
                    let noted = || {
                        let problem = source.health().err();
                        problem.is_some_and(|why| why.contains("not sorted"))
                    };
                    if ordered && before == Some(false) && !noted() {
                        return Err(format!(
                            "rows are not in order: {:?}, {row:?}",
                            last.map(|row| row.line().clone())
                        ));
                    }
                    last = Some(row);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn check(row: &Row, query: &Query) -> Result<(), String> {
    let text = String::from_utf8_lossy(row.line()).into_owned();
    let wrong = |why: &str| Err(format!("{why}: {text:?}"));
    if Row::new(Bytes::copy_from_slice(row.line())).is_none() || text.contains('\n') {
        return wrong("no row");
    }
    if row.urlkey() < &query.keys.from[..query.keys.from.len().min(row.urlkey().len())] {
        return wrong("not asked for");
    }
    if row.field("source") != "fuzzed" && row.capture().is_some() {
        return wrong("its source is another");
    }
    Ok(())
}

const QUERIES: [&str; 4] = [
    "url=http://example.com/",
    "url=*.example.com",
    "url=http://example.com/&closest=20180601120000",
    "url=http://example.com/*&sort=reverse&from=2017&to=2019",
];

/// Fuzzes single lines.
pub fn lines(fuzz: &mut Fuzz, samples: &Samples) {
    let collection = &samples.collection;
    let mut lines: Vec<Vec<u8>> = collection
        .cdxj()
        .lines()
        .step_by(9)
        .map(|line| line.as_bytes().to_vec())
        .collect();
    lines.extend(
        collection
            .cdx()
            .lines()
            .step_by(9)
            .map(|line| line.as_bytes().to_vec()),
    );
    let fields = [
        "url",
        "status",
        "timestamp",
        "mime",
        "offset",
        "source",
        "requestBody",
    ]
    .map(|name| Field::named(name.as_bytes()));
    fuzz.target("line", &lines, &list("source words"), |input| {
        for format in [Format::Auto, Format::Cdxj, Format::Cdx] {
            if let Ok(Read::Capture(line)) = Line::read(input, format) {
                for field in &fields {
                    let _ = line.field(field);
                }
            }
        }
        if let Some(row) = Row::new(Bytes::copy_from_slice(input)) {
            let with = row.with("\"source\": \"fuzzed\"");
            if row.capture().is_some() && with.capture().is_none() {
                return Err("a member makes it unreadable".into());
            }
        }
        Ok(())
    });
}

/// Fuzzes index files, sorted or not.
pub fn indexes(fuzz: &mut Fuzz, samples: &Samples) {
    let runtime = Runtime::new().unwrap();
    let net = net();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index.cdxj");
    let mut indexes = samples.indexes();
    // An unsorted file, small enough for samples to detect it.
    indexes.push(include_bytes!("corpus/unsorted.cdxj").to_vec());
    fuzz.target("index", &indexes, &list("source words"), |input| {
        put(&path, input);
        let file = SourceKind::File {
            path: path.clone().into(),
        };
        ask(&runtime, &source(file, &net), &QUERIES)
    });
}

/// Replaces a file atomically.
fn put(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Fuzzes each of the three files of a cluster in turn.
pub fn clusters(fuzz: &mut Fuzz, samples: &Samples) {
    let runtime = Runtime::new().unwrap();
    let net = net();
    let dir = tempfile::tempdir().unwrap();
    let index = samples.collection.cluster(dir.path(), 5);
    for name in ["cluster.idx", "cluster.loc", "cdx-00000.gz"] {
        let file = dir.path().join(name);
        let right = std::fs::read(&file).unwrap();
        // A harmful input must be reproducible in another folder.
        let here = format!("{}/", dir.path().display());
        let right = if name.ends_with(".loc") {
            String::from_utf8(right).unwrap().replace(&here, "").into()
        } else {
            right
        };
        fuzz.target(
            &name.replace('.', "_"),
            std::slice::from_ref(&right),
            &list("source words"),
            |input| {
                put(&file, input);
                let cluster = SourceKind::ZipNum {
                    path: index.clone().into(),
                };
                ask(&runtime, &source(cluster, &net), &QUERIES)
            },
        );
        put(&file, &right);
    }
}

/// Fuzzes TimeMaps, and links in the header of a TimeGate's response.
pub fn time_maps(fuzz: &mut Fuzz) {
    let runtime = Runtime::new().unwrap();
    let (net, stub) = (net(), ScriptedHost::answering(""));
    let at = stub.address();
    let memento = SourceKind::Memento {
        timegate_url: format!("http://{at}/{{url}}"),
        timemap_url: format!("http://{at}/timemap/link/{{url}}"),
        replay_url: format!("http://{at}/{{timestamp}}id_/{{url}}"),
    };
    let samples = inputs("TimeMap samples");
    fuzz.target("timemap", &samples, &list("source words"), |input| {
        let line = String::from_utf8_lossy(input).replace(['\r', '\n'], " ");
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/link-format\r\nLink: {line}\r\nContent-Length: {}\r\n\r\n",
            input.len()
        )
        .into_bytes();
        answer.extend_from_slice(input);
        stub.answers(answer);
        let queries = ["url=http://example.com/", "url=http://example.com/&closest=20180601"];
        ask(&runtime, &source(memento.clone(), &net), &queries)
    });
}

/// Fuzzes whole responses of a CDX server.
pub fn http_answers(fuzz: &mut Fuzz, samples: &Samples) {
    let runtime = Runtime::new().unwrap();
    let (net, stub) = (net(), ScriptedHost::answering(""));
    let at = stub.address();
    let cdx = SourceKind::Cdx {
        api_url: format!("http://{at}/a-cdx?url={{url}}"),
        replay_url: Some(format!("http://{at}/a/{{timestamp}}id_/{{url}}")),
        dialect: None,
    };
    let answers: Vec<Vec<u8>> = samples
        .indexes()
        .iter()
        .flat_map(|index| {
            let text = String::from_utf8_lossy(index);
            let length = text.len();
            [
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/x-cdxj\r\nContent-Length: {length}\r\n\r\n{text}"),
                format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{text}\r\n0\r\nA: b\r\n\r\n"),
                format!("HTTP/1.0 200 OK\r\n\r\n{text}"),
            ]
        })
        .map(String::into_bytes)
        .collect();
    fuzz.target("cdxanswer", &answers, &list("source words"), |input| {
        stub.answers(input);
        ask(&runtime, &source(cdx.clone(), &net), &QUERIES[..2])
    });
}

/// Fuzzes configurations.
pub fn configurations(fuzz: &mut Fuzz) {
    let samples = [
        include_bytes!("corpus/config.yaml").to_vec(),
        b"collections:\n  a: $live\n".to_vec(),
    ];
    fuzz.target("config", &samples, &list("configuration words"), |input| {
        let text = String::from_utf8_lossy(input);
        match Config::parse(&text, "config.yaml", Path::new("/srv/archive")) {
            Ok((config, _)) => {
                let shown = config.to_yaml(Secrets::Shown);
                let again = Config::parse(&shown, "shown.yaml", Path::new("/srv/archive"));
                match again {
                    Ok((again, _)) if again == config => Ok(()),
                    other => Err(format!(
                        "what is shown is another configuration:\n{shown}\n{other:?}"
                    )),
                }
            }
            Err(errors) if errors.to_string().is_empty() => Err("an error without a word".into()),
            Err(_) => Ok(()),
        }
    });
}

/// Fuzzes query strings.
pub fn queries(fuzz: &mut Fuzz) {
    let samples = inputs("query samples");

    fuzz.target("query", &samples, &list("query words"), |input| {
        let text = String::from_utf8_lossy(input);
        let parameters = text.split('&').filter_map(|pair| pair.split_once('='));
        match Query::parse(parameters, None) {
            Ok(query) if !query.keys.to.is_empty() && query.keys.from > query.keys.to => {
                Err(format!("an empty range: {:?}", query.keys))
            }
            Ok(_) => Ok(()),
            Err(bad) if bad.to_string().is_empty() => Err("an error without a word".into()),
            Err(_) => Ok(()),
        }
    });
}
