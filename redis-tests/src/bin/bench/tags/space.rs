//! The archive as a tag space on a server, and the time of queries.

use std::time::Instant;

use redis_tests::{Server, TagSpace};

use super::corpus::Archive;
use crate::load::{Connection, Feeder, Item, encode};
use crate::series::Series;
use crate::told::Spent;

/// Key of the tag space.
pub const KEY: &str = "tags";

/// Writes the rule, the points and the collections of the archive.
pub fn fill(server: &Server, archive: &Archive) {
    let mut space = TagSpace::of(server);
    space.ok(r"RULESET collection filename (?:^|/)ARCHIVEIT-(\d+)- coll:$1");
    space.ok("POINTSET all 'coll:* & !private'");
    space.ok(r"POINTSET coll-(\d+) coll:$1");
    space.ok(r"POINTSET org-(\d+) org:$1");
    let mut feeder = Feeder::new(server);
    for some in archive.collections.chunks(1_000) {
        let pairs = some.iter().flat_map(|c| {
            let private = if c.private { " private" } else { "" };
            [
                format!("coll:{}", c.id),
                format!("org:{}{private}", c.organisation),
            ]
        });
        feeder.request_with("TAGS.LOAD tags TAG MERGE", &pairs.collect::<Vec<_>>());
    }
    feeder.finish();
}

/// The most frequent arguments of `FILTER`, without the reply format.
pub const ALL_PUBLIC: [&str; 5] = ["POINT", "all", "FORMAT", "CDX", "RETURN"];

/// Encodes a `FILTER` request for a blob.
pub fn filter(conditions: &[impl AsRef<str>], form: &str, blob: &[u8]) -> Vec<u8> {
    let mut words: Vec<&[u8]> = vec![b"TAGS.FILTER", KEY.as_bytes()];
    words.extend(conditions.iter().map(|word| word.as_ref().as_bytes()));
    words.extend([form.as_bytes(), b"BLOB", blob]);
    let mut out = Vec::with_capacity(blob.len() + 1_000);
    encode(&mut out, &words);
    out
}

/// The time of a call.
#[derive(Clone, Copy)]
pub struct Cost {
    /// Seconds as reported by the server, including background work.
    pub server: f64,
    /// Seconds that the client waited.
    pub seen: f64,
}

/// Sends a request and reads its reply, which is a single string. Returns the seconds and the
/// reply.
pub fn call(connection: &mut Connection, request: &[u8]) -> (f64, Vec<u8>) {
    let mut reply = Vec::new();
    let start = Instant::now();
    connection.send(request);
    connection.read(1, |item| {
        if let Item::Bulk(bytes) = item {
            reply.extend_from_slice(bytes);
        }
    });
    (start.elapsed().as_secs_f64(), reply)
}

/// Returns the time of one `FILTER`, and its reply.
pub fn cost_of_one(
    server: &Server,
    connection: &mut Connection,
    request: &[u8],
) -> (Cost, Vec<u8>) {
    Spent::reset(server);
    let (seen, reply) = call(connection, request);
    let told = Spent::since_reset(server).micros(&["TAGS.FILTER"]) / 1e6;
    let cost = Cost {
        // On a busy machine, the background thread may start before the main thread has finished
        // the call; in this case, the overlap is counted twice.
        server: told.min(seen),
        seen,
    };
    (cost, reply)
}

/// Returns the median time of `calls` repetitions of a `FILTER`, and the reply.
pub fn cost(server: &Server, request: &[u8], calls: usize) -> (Cost, Vec<u8>) {
    let mut connection = Connection::unix(server);
    let (_, first) = call(&mut connection, request);
    let mut costs = Vec::new();
    for _ in 0..calls {
        let (cost, reply) = cost_of_one(server, &mut connection, request);
        assert!(reply == first, "equal requests get equal replies");
        costs.push(cost);
    }
    let median = |of: fn(&Cost) -> f64| costs.iter().map(of).collect::<Series>().median();
    let cost = Cost {
        server: median(|c| c.server),
        seen: median(|c| c.seen),
    };
    (cost, first)
}

/// Returns the number of set bits.
pub fn kept(bits: &[u8]) -> u32 {
    bits.iter().map(|byte| byte.count_ones()).sum()
}
