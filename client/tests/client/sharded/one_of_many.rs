//! Tests that calls to a sharded index return the same results as calls to a single index.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlspace_client::dedupe::{
    Adding, Claim, CrawlStats, Index, Listed, Moved, Of, Profile, Reference, Revisiting, Sequence,
    Sharded, Stats,
};
use crawlspace_client::{AsyncServer, Code, Error, Server};
use redis_tests::{Rng, Server as Redis, assert_contains, but, ok, with};

use super::{Record, added, hashes, records};

/// Reduces an error to its code word.
fn word<T>(outcome: Result<T, Error>) -> Result<T, String> {
    outcome.map_err(|error| error.word().unwrap_or("broken").to_owned())
}

/// Returns the id of the WACZ file that a crawl writes.
fn wacz_of(crawl: &[u8]) -> Vec<u8> {
    [b"uuid of ", crawl].concat()
}

const CRAWLS: [&[u8]; 4] = [b"a", b"b", b"c d", b"\xff"];

/// Makes the same call on both indexes, and compares the results.
macro_rules! compare {
    ($twins:expr, $what:expr, $it:ident => $call:expr) => {
        $twins.compare($what, |$it| $call, |$it| $call)
    };
}

struct Twins {
    one: Index,
    many: Sharded,
    step: u64,
}

impl Twins {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        one: impl FnOnce(&Index) -> Result<T, Error>,
        many: impl FnOnce(&Sharded) -> Result<T, Error>,
    ) {
        let (one, many) = (word(one(&self.one)), word(many(&self.many)));
        assert_eq!(one, many, "step {}: {what}", self.step);
    }

    fn compare_all(&self) {
        let numbers = records(0..60);
        let hashes = hashes(&numbers);
        for crawl in [None].into_iter().chain(CRAWLS.map(Some)) {
            compare!(self, "lookup", it => it.lookup(crawl, &hashes));
            compare!(self, "lookup of texts", it => it.lookup_text(crawl, &hashes));
        }
        compare!(self, "lookup with WACZ", it => it.lookup_with_wacz(None, &hashes));
        compare!(self, "stats", it => stats(it.stats()));
        for listed in [None, Some(Listed::Committed), Some(Listed::Uncommitted)] {
            compare!(self, "crawls", it => it.crawls(listed));
        }
        for crawl in CRAWLS {
            compare!(self, "crawl stats", it => memoryless(it.crawl_stats(crawl)));
            for transitive in [false, true] {
                let of = Of::Crawl(crawl);
                compare!(self, "requires", it => it.requires(of, transitive));
                let uuid = wacz_of(crawl);
                let of = Of::Wacz(&uuid);
                compare!(self, "requires of a WACZ", it => it.requires(of, transitive));
                let of: &[&[u8]] = &[b"a 0", b"c d 1", b"b 7", b"nobody 0"];
                let of = Of::References(of);
                compare!(self, "requires of references", it => it.requires(of, transitive));
            }
            compare!(self, "required by", it => it.required_by(crawl));
        }
        let check = self.many.check().unwrap();
        assert!(check.ok, "step {}: {check:?}", self.step);
        assert_eq!(self.many.unfinished().unwrap(), [], "step {}", self.step);
    }
}

fn stats(stats: Result<Stats, Error>) -> Result<String, Error> {
    let stats = but!(stats?, memory: 0);
    Ok(format!("{stats:?}"))
}

fn memoryless(stats: Result<CrawlStats, Error>) -> Result<CrawlStats, Error> {
    Ok(but!(stats?, memory: 0))
}

fn memoryless_move(moved: Result<Moved, Error>) -> Result<Moved, Error> {
    Ok(but!(moved?, memory: 0))
}

#[test]
fn random_calls_have_the_same_results() {
    let redis = Redis::start();
    let mut rng = Rng::new("random_calls_have_the_same_results");
    for round in 0..12 {
        let server = Server::open(&redis.url()).unwrap();
        let shards = 1 + rng.below(7) as u16;
        let mut twins = Twins {
            one: Index::on(&server, format!("{{one-{round}}}:")),
            many: Sharded::on(&server, format!("many-{round}"), shards).unwrap(),
            step: 0,
        };
        for step in 0..60 {
            twins.step = step;
            random_call(&twins, &mut rng);
            if step % 10 == 9 {
                twins.compare_all();
            }
        }
    }
}

fn random_call(twins: &Twins, rng: &mut Rng) {
    let crawl = CRAWLS[rng.below(4) as usize];
    let numbers: BTreeSet<u64> = (0..1 + rng.below(8)).map(|_| rng.below(60)).collect();
    let records = records(numbers);
    match rng.below(14) {
        0..4 => {
            let wacz_index = rng.below(3);
            let of = |record: &Record| record.hash.clone();
            let spelled: Vec<String> = records.iter().map(of).collect();
            let records = records.iter().zip(&spelled);
            let added =
                records.map(|(record, hash)| but!(record.added(wacz_index), hash: hash.as_bytes()));
            let added: Vec<_> = added.collect();
            let adding = Adding::default();
            compare!(twins, "add", it => it.add(crawl, &adding, &added));
        }
        4 => {
            // Settle one claim at a time: one index refuses a call as a whole, but each shard
            // refuses only its own part.
            let uuid = wacz_of(crawl);
            let reference = match rng.below(3) {
                0 => Reference::Crawl,
                1 => Reference::Wacz(&uuid),
                _ => Reference::None,
            };
            let revisiting = with!(Revisiting, reference);
            let given = rng.below(2) == 0;
            for record in &records {
                let known = twins.one.lookup(Some(crawl), &[record.hash.as_bytes()]);
                let known = known.unwrap().pop().flatten().filter(|_| given);
                let revisited = but!(record.revisited(), original: known.as_ref());
                compare!(twins, "revisit", it => it.revisit(crawl, &revisiting, &[revisited]));
            }
        }
        5 => {
            let file = format!("file-{}.wacz", rng.below(3));
            let file = file.as_bytes();
            compare!(twins, "WACZ begun", it => it.wacz_open(crawl, file));
            let size = 1000 + rng.below(5);
            if let Ok(index) = twins.one.wacz_open(crawl, file) {
                let hash = b"sha256:0";
                compare!(twins, "WACZ finished", it => it.wacz_close(crawl, index, file, hash, size));
                let file = b"all.wacz";
                compare!(twins, "WACZ renamed", it => it.wacz_close_as(crawl, index, file, hash, size));
            }
        }
        13 if rng.below(2) == 0 => {
            compare!(twins, "begin", it => it.begin(crawl));
        }
        13 => compare!(twins, "begin visibly", it => it.begin_visible(crawl)),
        6 | 7 => compare!(twins, "commit", it => it.commit(crawl)),
        8 => compare!(twins, "cancel", it => it.cancel(crawl)),
        9 => compare!(twins, "remove", it => it.remove(&[crawl])),
        10 => {
            let other = CRAWLS[rng.below(4) as usize];
            let crawls = [crawl, other];
            compare!(twins, "remove", it => it.remove(&crawls));
        }
        11 => {
            let pack = rng.below(2) == 0;
            compare!(twins, "change of storage", it => {
                memoryless_move(if pack { it.pack() } else { it.unpack() })
            });
        }
        _ => {
            let purge = rng.below(2) == 0;
            let kept: Vec<&[u8]> = CRAWLS.into_iter().filter(|_| rng.below(2) == 0).collect();
            compare!(twins, "retain", it => it.retain(purge, &kept));
        }
    }
}

#[test]
fn all_spellings_of_a_hash_find_it() {
    let redis = Redis::start();
    let many = Sharded::open(&redis.url(), "coll", 16).unwrap();
    let spellings: [&[&str]; 4] = [
        &[
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "SHA-256:9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
            "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08",
        ],
        &[
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "SHA1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj",
        ],
        &[
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "D41D8CD98F00B204E9800998ECF8427E",
        ],
        &["blake3:0123456789abcdef0123"],
    ];
    for (profile, crawl) in [(None, &b"first"[..]), (Some(()), b"second")] {
        let many = match profile {
            None => many.clone(),
            Some(()) => {
                let other = Sharded::open(&redis.url(), "field", 16).unwrap();
                other.set_profile(Profile::Browsertrix).unwrap();
                assert_eq!(other.profile().unwrap(), Profile::Browsertrix);
                other
            }
        };
        for same in spellings {
            let record = Record::of(1);
            let added = but!(record.added(0), hash: same[0].as_bytes());
            many.add(crawl, &Adding::default(), &[added]).unwrap();
            for spelling in same {
                let found = many.lookup(Some(crawl), &[spelling.as_bytes()]).unwrap();
                assert!(found[0].is_some(), "{spelling}");
            }
        }
    }
}

/// Returns a hash in a random encoding, or a string that resembles a hash.
fn odd_hash(rng: &mut Rng) -> Vec<u8> {
    let labels = "  sha256: SHA-256: sha1: Sha-1: md5: urn:sha1: blake3: :: a:b:";
    let labels: Vec<&str> = labels.split(' ').collect();
    let alphabets: [&[u8]; 5] = [
        b"0123456789abcdef",
        b"0123456789ABCDEF",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        b"abcdefghijklmnopqrstuvwxyz234567",
        b"0123456789abcdefABCDEF:-_ \xff",
    ];
    let lengths = [16, 26, 31, 32, 33, 40, 52, 56, 64, 65, 100];
    let mut hash = rng.pick(&labels).as_bytes().to_vec();
    let alphabet = *rng.pick(&alphabets);
    for _ in 0..*rng.pick(&lengths) {
        hash.push(*rng.pick(alphabet));
    }
    if rng.below(8) == 0 {
        hash.extend(std::iter::repeat_n(b'=', rng.below(7) as usize));
    }
    hash
}

#[test]
fn hash_maps_to_the_shard_of_its_stored_spelling() {
    let redis = Redis::start();
    let mut rng = Rng::new("hash_maps_to_the_shard_of_its_stored_spelling");
    for profile in [Profile::Document, Profile::Browsertrix] {
        let name = format!("{profile:?}");
        let many = Sharded::open(&redis.url(), &name[..], 64).unwrap();
        many.set_profile(profile).unwrap();
        let odd: Vec<Vec<u8>> = (0..3000).map(|_| odd_hash(&mut rng)).collect();
        let record = Record::of(1);
        let of = |hash| but!(record.added(0), hash);
        let added: Vec<_> = odd.iter().map(|hash| of(&hash[..])).collect();
        many.add(b"crawl", &Adding::default(), &added).unwrap();
        let mut there = 0;
        for shard in many.shards() {
            let key = [shard.prefix(), b"h:crawl"].concat();
            for field in ok!(redis.wire(), "HKEYS", key).items() {
                let hash = field.bytes();
                let shown = hash.escape_ascii();
                assert_eq!(many.shard_of(hash).prefix(), shard.prefix(), "{shown}");
                there += 1;
            }
        }
        assert!(there > 2000, "{there}");
    }
}

#[test]
fn number_of_shards_cannot_be_changed() {
    let redis = Redis::start();
    let many = Sharded::open(&redis.url(), "coll", 3).unwrap();
    let error = Sharded::open(&redis.url(), "coll", 4).unwrap_err();
    assert_eq!(error.code(), Some(Code::Sharded), "{error}");
    assert_contains(&error, "has 3 shards, not 4");
    Sharded::open(&redis.url(), "coll", 3).unwrap();
    Sharded::open(&redis.url(), "other", 4).unwrap();
    // A read-only user can also open the index.
    let mut c = redis.wire();
    c.ok_line("ACL SETUSER reader on >secret ~* +@read +dedupe.lookup");
    let url = format!("redis://reader:secret@127.0.0.1:{}/", redis.port());
    let reader = Sharded::open(&url, "coll", 3).unwrap();
    let unknown = reader.lookup(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"]);
    assert_eq!(unknown.unwrap(), [None]);
    assert_eq!(many.shards().len(), 3);
    for name in ["", "a{b"] {
        let error = Sharded::open(&redis.url(), name, 2).unwrap_err();
        assert_eq!(error.code(), Some(Code::BadPrefix), "{error}");
    }
}

#[test]
fn sequence_counts_once_in_every_shard() {
    let redis = Redis::start();
    let many = Sharded::open(&redis.url(), "coll", 5).unwrap();
    let (new, old) = (records(0..50), records(50..80));
    many.add(b"old", &Adding::default(), &added(&old)).unwrap();
    many.commit(b"old").unwrap();
    let (writer, number) = (b"w", 1);
    let sequence = Sequence { writer, number };
    let revisited: Vec<_> = old.iter().map(Record::revisited).collect();
    for _ in 0..3 {
        let counts = many.write(b"crawl", sequence, &added(&new), &revisited);
        counts.unwrap();
    }
    let stats = many.crawl_stats(b"crawl").unwrap();
    assert_eq!(stats.hashes, 50);
    assert_eq!(stats.total_urls, 80);
    assert_eq!(stats.dupe_urls, 30);
    assert_eq!(stats.requires, 1);
    let adding = with!(Adding, sequence: Some(Sequence { writer: b"x", number: 7 }));
    for _ in 0..2 {
        let new = many.add(b"crawl", &adding, &added(&records(100..120)));
        assert_eq!(new.unwrap(), 20);
    }
}

#[test]
fn claim_is_unique_in_the_whole_index() {
    let redis = Redis::start();
    let many = Sharded::open(&redis.url(), "coll", 5).unwrap();
    let minute = Duration::from_secs(60);
    for record in records(0..10) {
        let hash = record.hash.as_bytes();
        let claim = |crawl| many.claim(crawl, hash, minute, Duration::ZERO).unwrap();
        let Claim::Yours(token) = claim(b"a") else {
            panic!("it is new");
        };
        assert!(matches!(claim(b"b"), Claim::Pending { .. }));
        assert!(many.unclaim(hash, &token).unwrap());
        let Claim::Yours(token) = claim(b"b") else {
            panic!("the claim was given up, so it is free");
        };
        many.settle(b"b", &token, &record.added(0)).unwrap();
        assert!(matches!(claim(b"b"), Claim::Known(_)));
        many.wacz_open(b"b", b"b.wacz").unwrap();
        let claim = many.claim_with_wacz(b"b", hash, minute, Duration::ZERO);
        let Ok(Claim::Known(located)) = claim else {
            panic!("it is known");
        };
        assert_eq!(located.filename.as_deref(), Some(&b"b.wacz"[..]));
    }
}

#[test]
fn crawl_without_records_in_the_home_shard_is_committed() {
    let redis = Redis::start();
    let many = Sharded::open(&redis.url(), "coll", 4).unwrap();
    for (number, shard) in many.shards().iter().enumerate() {
        let of_shard =
            |record: &Record| many.shard_of(record.hash.as_bytes()).prefix() == shard.prefix();
        let record = (0..).map(Record::of).find(of_shard).unwrap();
        let crawl = format!("crawl-{number}");
        let crawl = crawl.as_bytes();
        let new = many.add(crawl, &Adding::default(), &[record.added(0)]);
        new.unwrap();
        let committed = many.commit(crawl).unwrap();
        assert_eq!((committed.new, committed.known), (1, 0));
        let home = ok!(redis.wire(), "SISMEMBER", "{coll-0}:allcrawls", crawl);
        assert_eq!(home.int(), 1, "shard {number}");
        assert!(many.check().unwrap().ok);
    }
    assert_eq!(many.stats().unwrap().crawls, 4);
    let error = many.commit(b"nobody").unwrap_err();
    assert_eq!(error.code(), Some(Code::NoCrawl), "{error}");
    let error = many.commit(b"x:counts").unwrap_err();
    assert_ne!(error.code(), Some(Code::Sharded), "{error}");
    assert_eq!(many.unfinished().unwrap(), []);
}

#[test]
fn crawls_committed_together_have_the_results_of_single_commits() {
    let redis = Redis::start();
    let fill = |name: &str| {
        let many = Sharded::open(&redis.url(), name, 4).unwrap();
        let crawls = [&b"a"[..], b"b", b"c"];
        for (crawl, numbers) in crawls.into_iter().zip([0..60, 30..90, 0..1]) {
            let records = records(numbers);
            let added = added(&records);
            many.add(crawl, &Adding::default(), &added).unwrap();
        }
        many
    };
    let ids: [&[u8]; 5] = [b"b", b"none", b"a", b"x:counts", b"c"];
    let (single, together) = (fill("single"), fill("together"));
    let expected = ids.map(|crawl| single.commit(crawl).map_err(|error| error.code()));
    let committed = together.commit_each(&ids).unwrap().into_iter();
    let committed: Vec<_> = committed
        .map(|one| one.map_err(|error| error.code()))
        .collect();
    assert_eq!(committed, expected);
    assert_eq!(committed.iter().filter(|one| one.is_ok()).count(), 3);
    assert_eq!(together.crawls(None).unwrap(), single.crawls(None).unwrap());
    assert_eq!(together.unfinished().unwrap(), []);
    assert_eq!(together.commit_each(&[]).unwrap().len(), 0);
}

#[test]
fn async_calls_have_the_same_results() {
    let redis = Redis::start();
    crate::server::run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let many = Sharded::on(&server, "coll", 6).await.unwrap();
        let all = records(0..100);
        many.wacz_open(b"a", b"a.wacz").await.unwrap();
        let new = many.add(b"a", &Adding::default(), &added(&all)).await;
        assert_eq!(new.unwrap(), 100);
        assert_eq!(many.commit(b"a").await.unwrap().new, 100);
        let found = many.lookup_with_wacz(None, &hashes(&all)).await.unwrap();
        for one in found {
            assert_eq!(one.unwrap().filename.as_deref(), Some(&b"a.wacz"[..]));
        }
        assert_eq!(many.remove(&[b"a"]).await.unwrap().dropped, 100);
        assert!(many.check().await.unwrap().ok);
    });
}
