//! How many questions to servers a core can ask: `cargo run --release --example remote_speed`.
//!
//! A server in this process answers at once; the time is that of the thread that asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crawlspace_archive::net::Network;
use crawlspace_archive::net::{Net, Request};
use crawlspace_archive::source::Limits;
use crawlspace_serve::query::Query;
use crawlspace_serve::source::{Lookup, Source};
use crawlspace_serve::sources::{CdxSource, Identity};
use futures_util::{StreamExt, TryStreamExt};
use redis_tests::{ScriptedHost, answer};

const AT_ONCE: usize = 16;
const FOR: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let here = Network {
        address: [127, 0, 0, 1].into(),
        bits: 32,
    };
    let net = Net::new(&[here]).expect("TLS");
    let limits = Limits::default();
    for rows in [0, 1, 171] {
        let line = |i: usize| {
            format!(
                "com,example)/page/{i:04} 20160102030405 {{\"url\": \"http://example.com/page/{i:04}\", \
                 \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH\", \
                 \"length\": \"1234\", \"offset\": \"56789\", \"filename\": \"example-2016.warc.gz\"}}\n"
            )
        };
        let text: String = (0..rows).map(line).collect();
        let host = ScriptedHost::start(move |_| answer(200, &[], &text));
        let url = host.url("/cdx");
        let asked = runtime.block_on(run(|| {
            let (net, url) = (net.clone(), url.parse().expect("a URL"));
            async move {
                let answer = net
                    .send(Request::get(url), &limits)
                    .await
                    .expect("an answer");
                let _: Vec<Bytes> = answer.body.try_collect().await.expect("a body");
            }
        }));
        println!("{rows} rows, net: {asked}");
        let identity = Identity {
            name: "far".into(),
            kind: "cdx",
            members: r#""source": "far", "source_type": "cdx""#.into(),
            limits,
            live: false,
        };
        let source = Arc::new(CdxSource::new(
            net.clone(),
            identity,
            &host.url("/cdx"),
            None,
            None,
        ));
        let query = Query::parse([("url", "http://example.com/*")], None).expect("a query");
        let lookup = Arc::new(Lookup {
            order: query.order,
            at_most: None,
            query: Arc::new(query),
            collection: "all".into(),
        });
        let asked = runtime.block_on(run(|| {
            let (source, lookup) = (source.clone(), lookup.clone());
            async move {
                let found = source.rows(lookup).await.expect("rows");
                let batches: Vec<_> = found.batches.try_collect().await.expect("rows");
                assert_eq!(batches.concat().len(), rows);
            }
        }));
        println!("{rows} rows, source: {asked}");
    }
}

/// Asks for some seconds, and says how often in a second, and in a second of the processor.
async fn run<F: std::future::Future<Output = ()>>(question: impl Fn() -> F) -> String {
    let (begin, before) = (Instant::now(), processor());
    let questions = futures_util::stream::iter(0u64..)
        .take_while(|_| std::future::ready(begin.elapsed() < FOR))
        .map(|_| question());
    let asked = questions.buffer_unordered(AT_ONCE).count().await as f64;
    let (took, worked) = (begin.elapsed().as_secs_f64(), processor() - before);
    format!(
        "{:.0}/s, {:.0} per second of processor",
        asked / took,
        asked / worked
    )
}

/// Seconds that this thread has run.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
