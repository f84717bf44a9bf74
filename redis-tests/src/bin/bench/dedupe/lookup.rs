//! D1 to D4: look-ups.

use std::time::Duration;

use redis_tests::{ok, Server};

use super::corpus::{Corpus, HASH_LEN};
use super::{documented, Scene, PREFIX};
use crate::load::{encode, saturate, Batches, Connection, Item, Throughput, Watch};
use crate::report::{say, Findings, Goal, Row};
use crate::series::{rate, Series};
use crate::Plan;

/// Measures look-ups on an index of `hashes` hashes.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    check_records(scene, corpus, hashes);
    let mut found = Findings::default();
    pipelined(plan, scene, corpus, hashes, &mut found);
    one_by_one(plan, scene, corpus, hashes, &mut found);
    hundred_a_call(plan, scene, corpus, hashes, &mut found);
    found
}

/// Draws hashes below a limit; the same draws for the same seed.
struct Draws<'a> {
    corpus: &'a Corpus,
    limit: u64,
    offset: u64,
    drawn: u64,
}

impl Draws<'_> {
    fn hash(&mut self) -> [u8; HASH_LEN] {
        self.drawn += 1;
        let n = self.corpus.bits(self.drawn, 3) % self.limit;
        self.corpus.hash(self.offset + n)
    }
}

fn draws(corpus: &Corpus, limit: u64) -> Draws<'_> {
    Draws {
        corpus,
        limit,
        offset: 0,
        drawn: 0,
    }
}

/// A sample of records is what was written, in full.
fn check_records(scene: &Scene, corpus: &Corpus, hashes: u64) {
    let mut wire = scene.ours.wire();
    for i in 0..1_000 {
        let n = corpus.bits(i, 3) % hashes;
        let crawl = n / (hashes / 10);
        let record = corpus.record(n, crawl);
        let got = ok!(wire, "DEDUPE.LOOKUP", PREFIX, corpus.hash(n));
        let fields = got.items()[0].items();
        let got = format!(
            "{} {} {} {}",
            fields[1].int(),
            fields[2].text(),
            fields[3].text(),
            fields[4].int()
        );
        assert_eq!(got, record.value(), "record of hash {n}");
    }
}

/// Many runs of one kind.
#[derive(Default)]
struct Runs {
    rate: Series,
    busy: Series,
}

impl Runs {
    fn push(&mut self, run: Throughput) {
        self.rate.0.push(run.rate);
        self.busy.0.push(run.busy);
    }

    /// `2.06 M/s`, and how busy the server was.
    fn text(&self) -> String {
        format!(
            "{} (busy {:.0} %)",
            rate(self.rate.median()),
            100.0 * self.busy.median()
        )
    }
}

fn pipelined(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D1, D2: look-ups pipelined by 32");
    let sha = ok!(
        scene.plain.wire(),
        "SCRIPT",
        "LOAD",
        documented::LOOKUP_SCRIPT
    )
    .bytes()
    .to_vec();
    let count = plan.scaled(20_000) as usize;
    let batches = |head: &[&[u8]], unknown: bool| {
        let mut draws = draws(corpus, hashes);
        draws.offset = if unknown { hashes } else { 0 };
        Batches::new(count, 32, |out| {
            let hash = draws.hash();
            encode(out, &[head, &[&hash]].concat());
        })
    };
    let lookup: &[&[u8]] = &[b"DEDUPE.LOOKUP", PREFIX];
    let hget: &[&[u8]] = &[b"HGET", b"allhashes"];
    let kinds = [
        (&scene.ours, batches(lookup, false), false),
        (&scene.plain, batches(hget, false), false),
        (
            &scene.plain,
            batches(&[b"EVALSHA", &sha, b"0"], false),
            false,
        ),
        (&scene.ours, batches(lookup, true), true),
        (&scene.plain, batches(hget, true), true),
    ];
    let mut runs = [(); 5].map(|()| Runs::default());
    for rep in 0..plan.reps {
        for ((server, batches, unknown), runs) in kinds.iter().zip(&mut runs) {
            let first = rep * batches.len() / plan.reps;
            let run = saturate(server, batches, plan.span(), first);
            assert_eq!(
                run.nils > 0,
                *unknown,
                "null replies to known hashes, or none to unknown"
            );
            runs.push(run);
        }
    }
    let [ours, hget, lua, ours_missing, hget_missing] = &runs;
    let what = "`LOOKUP` of one hash, pipelined by 32";
    found.rows.push(Row {
        id: "D1",
        what: what.into(),
        against: "one plain `HGET`".into(),
        ours: ours.text(),
        theirs: hget.text(),
        result: ours.rate.over(&hget.rate),
        goal: Goal::AtLeast(0.45),
    });
    found.rows.push(Row {
        id: "D1",
        what: "the same, unknown hashes".into(),
        against: "`HGET` of an unknown field".into(),
        ours: ours_missing.text(),
        theirs: hget_missing.text(),
        result: ours_missing.rate.over(&hget_missing.rate),
        goal: Goal::Known,
    });
    found.rows.push(Row {
        id: "D2",
        what: what.into(),
        against: "both look-ups in Lua, `EVALSHA`".into(),
        ours: ours.text(),
        theirs: lua.text(),
        result: ours.rate.over(&lua.rate),
        goal: Goal::AtLeast(1.7),
    });
    let each = |runs: &Runs| 1e6 / runs.rate.median();
    found.note("D1.", format!(
        "An `HGET` answered with the crawl's name is the least that Redis can do for a request; it takes {:.2} µs of \
         the server here. `LOOKUP` takes {:.2} µs: it spells the hash, finds it in `allhashes`, sees that the owner's \
         commit is finished, checks the caller's ACL for the keys, finds the record in `h:<crawl>`, and answers with \
         five fields in place of one. Two tables in place of one, with hashes drawn at random, are twice the cache \
         misses, and the reply is five times as long: that is why the goal is 0.45 and not 1; measured is {:.2}. An \
         unknown hash ends after the first table: {} against {} for an unknown `HGET`.",
        each(hget), each(ours), ours.rate.over(&hget.rate).median(),
        rate(ours_missing.rate.median()), rate(hget_missing.rate.median()),
    ));
    found.note("D2.", format!(
        "A script is the way to do both look-ups in one round trip without a module. It takes {:.2} µs, of which the \
         two look-ups are the smaller part: the rest is entering Lua, two calls back into Redis through its command \
         table, and the conversion of values both ways. The record of the script is still one string that the client \
         has to take apart; ours comes in fields.",
        each(lua),
    ));
}

fn one_by_one(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D3: one connection, no pipeline");
    let (mut ours, mut theirs) = (Runs::default(), Runs::default());
    for _ in 0..plan.reps {
        ours.push(lookups_one_by_one(
            &scene.ours,
            draws(corpus, hashes),
            plan.span(),
        ));
        theirs.push(documented_one_by_one(
            &scene.plain,
            draws(corpus, hashes),
            plan.span(),
        ));
    }
    found.rows.push(Row {
        id: "D3",
        what: "one connection, no pipeline".into(),
        against: "the two documented look-ups, one after the other".into(),
        ours: ours.text(),
        theirs: theirs.text(),
        result: ours.rate.over(&theirs.rate),
        goal: Goal::AtLeast(1.9),
    });
    found.note("D3.", format!(
        "A client that waits for each reply pays for round trips, not for look-ups: {:.0} µs for one `LOOKUP`, {:.0} µs \
         for two `HGET` of which the second needs the reply of the first. This is over a unix socket; the more a round \
         trip costs, the nearer the ratio comes to 2.",
        1e6 / ours.rate.median(), 1e6 / theirs.rate.median(),
    ));
}

fn lookups_one_by_one(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    let mut connection = Connection::unix(server);
    let mut request = Vec::new();
    let watch = Watch::start(server);
    let mut done = 0;
    let mut nils = 0;
    while watch.elapsed() < span {
        request.clear();
        encode(&mut request, &[b"DEDUPE.LOOKUP", PREFIX, &draws.hash()]);
        connection.send(&request);
        connection.read(1, |item| nils += u64::from(matches!(item, Item::Nil)));
        done += 1;
    }
    assert_eq!(nils, 0, "every hash is known");
    watch.stop(done, nils)
}

fn documented_one_by_one(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    let mut connection = Connection::unix(server);
    let (mut request, mut key) = (Vec::new(), Vec::new());
    let watch = Watch::start(server);
    let mut done = 0;
    let mut records = 0;
    while watch.elapsed() < span {
        let hash = draws.hash();
        request.clear();
        encode(&mut request, &[b"HGET", b"allhashes", &hash]);
        connection.send(&request);
        key.clear();
        key.extend_from_slice(b"h:");
        connection.read(1, |item| {
            if let Item::Bulk(crawl) = item {
                key.extend_from_slice(crawl);
            }
        });
        request.clear();
        encode(&mut request, &[b"HGET", &key, &hash]);
        connection.send(&request);
        connection.read(1, |item| {
            records += usize::from(matches!(item, Item::Bulk(_)))
        });
        done += 1;
    }
    assert_eq!(records, done, "every hash is known");
    watch.stop(done, 0)
}

fn hundred_a_call(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64, found: &mut Findings) {
    say("D4: 100 hashes a call");
    let mut draw = draws(corpus, hashes);
    let batches = Batches::new(plan.scaled(6_000) as usize, 1, |out| {
        let hashes: Vec<_> = (0..100).map(|_| draw.hash()).collect();
        let mut words: Vec<&[u8]> = vec![b"DEDUPE.LOOKUP", PREFIX];
        words.extend(hashes.iter().map(|hash| &hash[..]));
        encode(out, &words);
    });
    let batches = batches.weighing(100);
    let (mut ours, mut theirs) = (Runs::default(), Runs::default());
    for rep in 0..plan.reps {
        let first = rep * batches.len() / plan.reps;
        let run = saturate(&scene.ours, &batches, plan.span(), first);
        assert_eq!(run.nils, 0, "every hash is known");
        ours.push(run);
        theirs.push(documented_by_hundred(
            &scene.plain,
            draws(corpus, hashes),
            plan.span(),
        ));
    }
    found.rows.push(Row {
        id: "D4",
        what: "`LOOKUP` of 100 hashes a call".into(),
        against: "the documented sequence, pipelined by 100".into(),
        ours: ours.text(),
        theirs: theirs.text(),
        result: ours.rate.over(&theirs.rate),
        goal: Goal::AtLeast(1.2),
    });
    found.note("D4.", format!(
        "The unit is a hash. With 100 in a call the cost of a request is shared, and what is left is the two table \
         look-ups and the reply: {:.2} µs a hash. A hundred `HGET allhashes` in one pipeline and then a hundred `HGET \
         h:<crawl>` in another take {:.2} µs a hash. Both servers were busy {:.0} % and {:.0} % of the time.",
        1e6 / ours.rate.median(), 1e6 / theirs.rate.median(),
        100.0 * ours.busy.median(), 100.0 * theirs.busy.median(),
    ));
}

/// A client that looks up 100 hashes by the documented sequence in two pipelines.
struct Hundred {
    connection: Connection,
    hashes: Vec<[u8; HASH_LEN]>,
    owners: Vec<Vec<u8>>,
    /// The second pipeline is under way.
    second: bool,
}

/// Several such clients at once, so that the server always has something to do.
fn documented_by_hundred(server: &Server, mut draws: Draws, span: Duration) -> Throughput {
    // Drawn beforehand, as ours were.
    let pool: Vec<Vec<_>> = (0..2_000)
        .map(|_| (0..100).map(|_| draws.hash()).collect())
        .collect();
    let mut next = 0;
    let mut request = Vec::new();
    let mut clients: Vec<Hundred> = (0..8)
        .map(|_| Hundred {
            connection: Connection::unix(server),
            hashes: Vec::new(),
            owners: Vec::new(),
            second: true,
        })
        .collect();
    let watch = Watch::start(server);
    let (mut done, mut records) = (0, 0);
    loop {
        let over = watch.elapsed() >= span;
        let mut idle = 0;
        for client in &mut clients {
            if client.second {
                if !client.hashes.is_empty() {
                    client.connection.read(100, |item| {
                        records += usize::from(matches!(item, Item::Bulk(_)));
                    });
                    done += 100;
                }
                client.second = over;
                client.hashes.clear();
                if over {
                    idle += 1;
                    continue;
                }
                client.hashes.extend_from_slice(&pool[next % pool.len()]);
                next += 1;
                request.clear();
                for hash in &client.hashes {
                    encode(&mut request, &[b"HGET", b"allhashes", hash]);
                }
            } else {
                client.owners.clear();
                let owners = &mut client.owners;
                client.connection.read(100, |item| {
                    if let Item::Bulk(crawl) = item {
                        owners.push([b"h:", crawl].concat());
                    }
                });
                assert_eq!(client.owners.len(), 100, "every hash is known");
                client.second = true;
                request.clear();
                for (hash, key) in client.hashes.iter().zip(&client.owners) {
                    encode(&mut request, &[b"HGET", key, hash]);
                }
            }
            client.connection.send(&request);
        }
        if idle == clients.len() {
            break;
        }
    }
    assert_eq!(records, done, "every hash is known");
    watch.stop(done, 0)
}
