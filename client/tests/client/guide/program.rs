use std::time::{Duration, Instant};

use crawlspace_client::dedupe::{
    Added, Adding, Claim, Index, Revisited, Revisiting, Sequence, Sharded,
};
use crawlspace_client::frontier::{Facts, Frontier, Next, Uri, Wait};
use crawlspace_client::tags::{Kind, TagSpace};
use crawlspace_client::{redis, Ask, AsyncServer, Batch, Call, Code, Error, Server};

fn with_threads(url: &str) -> Result<(), Error> {
    let server = Server::options(url).connections(4).open()?;
    let index = Index::on(&server, "{coll-42}:");
    println!("{} payloads are known", index.stats()?.hashes);
    Ok(())
}

async fn with_tasks(url: &str) -> Result<(), Error> {
    let server = AsyncServer::open(url).await?;
    let index = Index::on(&server, "{coll-42}:");
    println!("{} payloads are known", index.stats().await?.hashes);
    Ok(())
}

fn write_record(index: &Index, digest: &[u8], url: &[u8], number: u64) -> Result<(), Error> {
    let (crawl, date) = (b"crawl-1", b"20240501120000");
    let (lasting, wait) = (Duration::from_secs(60), Duration::from_secs(5));
    match index.claim(crawl, digest, lasting, wait)? {
        Claim::Yours(token) => {
            // Write the response record, and report it.
            let (wacz_index, hash, size) = (0, digest, 5120);
            let record = Added::new(hash, wacz_index, date, url, size);
            index.settle(crawl, &token, &record)
        }
        Claim::Known(original) => {
            // Write a revisit record that refers to these values.
            let _refers_to = (&original.url, &original.date);
            let revisited = Revisited { hash: digest, size: 620, original: Some(&original) };
            let sequence = Some(Sequence { writer: b"worker-1", number });
            let revisiting = Revisiting { sequence, ..Revisiting::default() };
            index.revisit(crawl, &revisiting, &[revisited]).map(drop)
        }
        // Another crawler holds the claim. A payload that is stored twice does no harm.
        Claim::Pending { .. } => {
            let (wacz_index, hash, size) = (0, digest, 5120);
            let record = Added::new(hash, wacz_index, date, url, size);
            let sequence = Some(Sequence { writer: b"worker-1", number });
            let adding = Adding { sequence, ..Adding::default() };
            index.add(crawl, &adding, &[record]).map(drop)
        }
    }
}

async fn work(server: &AsyncServer) -> Result<u32, Error> {
    let frontier = Frontier::on(server, "{web}:");
    let next = Next { wait: Wait::UpTo(Duration::from_secs(1)), ..Next::default() };
    let mut fetched = 0;
    let mut lease = frontier.next(&next).await?.pop();
    while let Some(held) = lease {
        let begun = Instant::now();
        // Fetch `held.uri`, and add the links of the page.
        fetched += 1;
        let facts = Facts {
            elapsed: begun.elapsed(),
            min: Some(Duration::from_millis(10)),
            status: Some(200),
            ..Facts::default()
        };
        // Release the host and lease the next one in one round trip.
        let released = frontier.release_and_next(&held, &facts.into(), &held.done(), &next);
        lease = match released.await {
            Ok((_, lease)) => lease,
            // The fetch took longer than the lease, so another worker may have the page now.
            Err(error) if matches!(error.code(), Some(Code::Stale | Code::NoChg)) => {
                frontier.next(&next).await?.pop()
            }
            Err(error) => return Err(error),
        };
    }
    Ok(fetched)
}

async fn seed(server: &AsyncServer) -> Result<(), Error> {
    let uri = |chg, uri| Uri { chg, at: 0, depth: 0, uri };
    let seeds = [
        uri(b"a.example", b"https://a.example/"),
        uri(b"a.example", b"https://a.example/about"),
        uri(b"b.example", b"https://b.example/"),
    ];
    let frontier = Frontier::on(server, "{web}:");
    frontier.add_uris(b"crawl-1", None, &seeds).await?;
    Ok(())
}

fn look_at_many(server: &Server) -> Result<(), Error> {
    let batch = Batch::new();
    let crawls: Vec<_> = ["{coll-1}:", "{coll-2}:", "{coll-3}:"]
        .into_iter()
        .map(|prefix| Index::on(&batch, prefix).crawls(None))
        .collect();
    let tags = TagSpace::on(&batch, "tags").add(Kind::Tag, b"coll:1068", &[b"org:77"]);
    batch.send(server)?;
    for crawls in crawls {
        println!("{} crawls", crawls.take()?.len());
    }
    println!("{} tags are new", tags.take()?);
    Ok(())
}

fn finish(index: &Index) -> Result<bool, Error> {
    match index.commit(b"crawl-1") {
        Ok(committed) => {
            println!("{} payloads are new, {} were known", committed.new, committed.known);
            Ok(true)
        }
        Err(error) if error.code() == Some(Code::NoCrawl) => Ok(false),
        Err(error) => Err(error),
    }
}

fn note(server: &Server) -> Result<Option<String>, Error> {
    let mut set = redis::cmd("SET");
    set.arg("{coll-42}:note").arg("begun");
    server.ask(Call::<()>::new(set).repeatable())?;
    let mut get = redis::cmd("GET");
    get.arg("{coll-42}:note");
    server.ask(Call::new(get).repeatable())
}

fn spread(url: &str, records: &[Added<'_>]) -> Result<u64, Error> {
    let index = Sharded::open(url, "coll-42", 16)?;
    index.wacz_open(b"crawl-1", b"crawl-1-0.wacz")?;
    let sequence = Some(Sequence { writer: b"worker-1", number: 1 });
    index.add(b"crawl-1", &Adding { sequence, ..Adding::default() }, records)?;
    index.commit(b"crawl-1")?;
    Ok(index.stats()?.hashes)
}
