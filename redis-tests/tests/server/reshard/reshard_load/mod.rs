//! Load on indexes and frontiers whose slots move key by key. Every reply is compared with that of
//! a reference server, which gets the same commands, but moves no slots.

mod load;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redis_tests::{
    Cluster, Options, Reply, Rng, Server, Snapshot, T0, Wire, Word, assert_consistent, bulk, ok,
    rounds, sha256_of, until_some, words_of,
};

use load::{Frontier, Index, Load};

const INDEXES: [&str; 2] = ["{index-1}:", "{index-2}:"];
const FRONTIERS: [&str; 2] = ["{frontier-1}:", "{frontier-2}:"];

/// Maximum time for which a command may be refused before the test fails.
const REFUSED: Duration = Duration::from_secs(60);

/// The state that all threads share.
struct Progress {
    /// Number of replies that were compared and equal.
    answers: AtomicU64,
    /// Number of replies that redirected a client or asked it to try again later.
    refusals: AtomicU64,
    over: AtomicBool,
}

impl Progress {
    fn seen(&self) -> u64 {
        self.answers.load(Relaxed) + self.refusals.load(Relaxed)
    }

    /// Waits until a number is reached or a thread has failed.
    fn wait(&self, what: &str, reached: impl Fn() -> bool) {
        until_some(what, || {
            (reached() || self.over.load(Relaxed)).then_some(())
        });
    }
}

/// Ends all threads if one of them fails.
struct EndsAll<'a>(&'a Progress);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

/// A refusal.
enum Refused {
    Later,
    Moved(u16),
    Ask(u16),
}

fn refused(reply: &Reply) -> Option<Refused> {
    let Reply::Error(line) = reply else {
        return None;
    };
    let line = String::from_utf8_lossy(line);
    let port = || line.rsplit(':').next()?.parse().ok();
    match line.split(' ').next()? {
        "TRYAGAIN" | "CLUSTERDOWN" => Some(Refused::Later),
        "MOVED" => Some(Refused::Moved(port()?)),
        "ASK" => Some(Refused::Ask(port()?)),
        _ => None,
    }
}

/// A client of the cluster that follows redirects until it gets a reply.
struct Routed<'a> {
    wires: HashMap<u16, Wire>,
    at: u16,
    progress: &'a Progress,
}

impl Routed<'_> {
    fn wire(&mut self, port: u16) -> &mut Wire {
        let connect = || Wire::tcp(port).expect("a node").resp3();
        self.wires.entry(port).or_insert_with(connect)
    }

    /// Returns the reply, and true if the command was refused before. In this case, a job may
    /// already have done a part of its work.
    fn call(&mut self, words: &[Vec<u8>]) -> (Reply, bool) {
        let start = Instant::now();
        let mut refusals = 0;
        let mut ask = None;
        loop {
            let reply = match ask.take() {
                None => {
                    let at = self.at;
                    self.wire(at).call(words)
                }
                Some(port) => {
                    let wire = self.wire(port);
                    ok!(wire, "ASKING");
                    wire.call(words)
                }
            };
            let Some(refused) = refused(&reply) else {
                return (reply, refusals > 0);
            };
            refusals += 1;
            self.progress.refusals.fetch_add(1, Relaxed);
            assert!(
                start.elapsed() < REFUSED,
                "{words:?} is still refused after a minute: {reply:?}"
            );
            match refused {
                Refused::Moved(port) => self.at = port,
                Refused::Ask(port) => ask = Some(port),
                Refused::Later => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }
}

/// Removes the parts of a reply that differ between servers: memory sizes, tokens and remaining
/// times.
fn steady(reply: &Reply) -> Reply {
    // Tokens are at least the simulated time in microseconds.
    let is_token = |n: i64| n >= T0 * 1000;
    let all = |items: &[Reply]| items.iter().map(steady).collect();
    match reply {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(line);
            let words = line
                .split(' ')
                .map(|word| match word.trim_end_matches(':').parse() {
                    Ok(n) if is_token(n) => "a token",
                    _ => word,
                });
            Reply::Error(words.collect::<Vec<_>>().join(" ").into_bytes())
        }
        Reply::Int(n) if is_token(*n) => bulk("a token"),
        Reply::Bulk(text) => match std::str::from_utf8(text).map(str::parse) {
            Ok(Ok(n)) if is_token(n) => bulk("a token"),
            _ => reply.clone(),
        },
        Reply::Array(items) => match &items[..] {
            [pending, holder, _] if *pending == bulk("PENDING") => {
                Reply::Array(vec![pending.clone(), holder.clone()])
            }
            _ => Reply::Array(all(items)),
        },
        Reply::Set(items) => {
            let mut items: Vec<Reply> = all(items);
            items.sort();
            Reply::Set(items)
        }
        Reply::Map(pairs) => {
            let kept = pairs.iter().filter(|(name, _)| *name != bulk("memory"));
            let mut pairs: Vec<_> = kept.map(|(k, v)| (steady(k), steady(v))).collect();
            pairs.sort();
            Reply::Map(pairs)
        }
        _ => reply.clone(),
    }
}

/// Commands whose reply counts their own changes, and not the final state.
const COUNT_THEIR_OWN: [&[u8]; 8] = [
    b"CHG.DROP",
    b"CHG.MOVE",
    b"CHG.PACK",
    b"CHG.SWEEP",
    b"CHG.UNPACK",
    b"DEDUPE.PACK",
    b"DEDUPE.UNPACK",
    b"DEDUPE.REPAIR",
];

/// Runs random commands on the cluster, each until it gets a reply, and on the reference server.
fn compare(mut load: impl Load, mut cluster: Routed<'_>, oracle: &Server) {
    let progress = cluster.progress;
    let _end = EndsAll(progress);
    let mut oracle = oracle.wire3();
    while !progress.over.load(Relaxed) {
        let [words, same] = load.next();
        let right = oracle.call(&same);
        let (reply, again) = cluster.call(&words);
        if again && COUNT_THEIR_OWN.contains(&&words[0][..]) && !right.is_error() {
            assert!(!reply.is_error(), "{reply:?}");
            continue;
        }
        let shown: Vec<_> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        assert_eq!(steady(&reply), steady(&right), "{}", shown.join(" "));
        load.answered([&reply, &right]);
        progress.answers.fetch_add(1, Relaxed);
    }
}

/// A read command whose reply never changes.
struct Fact {
    words: Vec<Vec<u8>>,
    right: Reply,
}

/// Queries one node for facts, with and without `ASKING`. The node may or may not have their keys.
fn probe(node: &Server, facts: &[Fact], progress: &Progress, mut rng: Rng) {
    let _end = EndsAll(progress);
    let mut c = node.wire3();
    while !progress.over.load(Relaxed) {
        let fact = rng.pick(facts);
        if rng.chance(50) {
            ok!(c, "ASKING");
        }
        let reply = c.call(&fact.words);
        if refused(&reply).is_some() {
            progress.refusals.fetch_add(1, Relaxed);
            continue;
        }
        assert_eq!(
            steady(&reply),
            fact.right,
            "{:?}",
            String::from_utf8_lossy(&fact.words[0])
        );
        progress.answers.fetch_add(1, Relaxed);
    }
}

/// Writes data with `call`. Returns read commands for these data, with their correct replies.
fn facts(mut call: impl FnMut(&[Vec<u8>]) -> Reply) -> Vec<Fact> {
    let words = |line: String| -> Vec<Vec<u8>> { line.split(' ').map(Word::word).collect() };
    let mut facts = Vec::new();
    let mut run = |line: String| {
        let reply = call(&words(line));
        assert!(!reply.is_error(), "{reply:?}");
    };
    let mut asked = Vec::new();
    for p in INDEXES {
        let [hash, ..] = words_of(1_000_000).map(|word| String::from_utf8(word).unwrap());
        let record = words_of(1_000_000)
            .map(|word| String::from_utf8(word).unwrap())
            .join(" ");
        run(format!("DEDUPE.WACZOPEN {p} base base.wacz"));
        run(format!("DEDUPE.WACZCLOSE {p} base 0 base.wacz sha256:ab 9"));
        run(format!("DEDUPE.ADD {p} base {record}"));
        run(format!("DEDUPE.COMMIT {p} base"));
        run(format!("DEDUPE.REVISIT {p} dependent REF wacz {hash} 5"));
        run(format!("DEDUPE.COMMIT {p} dependent"));
        asked.extend([
            format!("DEDUPE.LOOKUP {p} WITHWACZ {hash}"),
            format!("DEDUPE.LOOKUP {p} {hash} {}", sha256_of(2_000_000)),
            format!("DEDUPE.REQUIRES {p} dependent"),
            format!("DEDUPE.REQUIRES {p} REF wacz"),
            format!("DEDUPE.REQUIREDBY {p} base"),
            format!("DEDUPE.WACZLIST {p} base"),
            format!("DEDUPE.STATS {p} dependent"),
            format!("DEDUPE.CLAIM {p} dependent {hash} PX 1000"),
        ]);
    }
    for p in FRONTIERS {
        let far = T0 + 10_000_000_000;
        run(format!(
            "CHG.ADDURI {p} NOW {T0} fact far {far} 0 http://far/"
        ));
        asked.push(format!("CHG.WHY {p} NOW {T0} far"));
        asked.push(format!("CHG.URIS {p} NOW {T0} far"));
    }
    for line in asked {
        let words = words(line);
        let right = steady(&call(&words));
        facts.push(Fact { words, right });
    }
    facts
}

/// Moves the slot of a prefix to another node: as a whole, or key by key in random order.
fn move_slot(cluster: &Cluster, prefix: &str, progress: &Progress, rng: &mut Rng, whole: bool) {
    let from = cluster.owner(prefix);
    let others = cluster.nodes().iter();
    let others: Vec<_> = others.filter(|node| node.port() != from.port()).collect();
    let (to, slot) = (*rng.pick(&others), cluster.slot(prefix));
    if whole {
        cluster.move_whole(prefix, to);
        return;
    }
    cluster.begin_move(prefix, to);
    let mut c = from.wire();
    loop {
        let mut keys = ok!(c, "CLUSTER", "GETKEYSINSLOT", slot, 10)
            .items()
            .to_vec();
        if keys.is_empty() {
            break;
        }
        rng.shuffle(&mut keys);
        for key in &keys {
            // A key that already exists on the target would stop the move with an error.
            ok!(c, "MIGRATE", "127.0.0.1", to.port(), key.bytes(), 0, 60_000);
            let seen = progress.seen() + rng.below(8);
            progress.wait("a client asks", || progress.seen() >= seen);
        }
    }
    cluster.finish_move(prefix, to);
}

/// Runs `RESHARDS` moves, until there were `ANSWERS` replies.
pub fn run(test: &str) {
    let (reshards, answers) = (rounds("RESHARDS", 8), rounds("ANSWERS", 4000));
    let mut rng = Rng::new(test);
    let options = Options::new().module_args(&["chg-simulated-time", "yes"]);
    let cluster = Cluster::with(3, options.clone());
    let moves_whole = cluster.moves_whole();
    let oracle = options.start();
    let progress = Progress {
        answers: AtomicU64::new(0),
        refusals: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let client = || Routed {
        wires: HashMap::new(),
        at: cluster.nodes()[0].port(),
        progress: &progress,
    };
    let mut home = client();
    let mut same = oracle.wire3();
    let facts = facts(|words| {
        let right = same.call(words);
        assert_eq!(steady(&home.call(words).0), steady(&right));
        right
    });
    let all: Vec<&str> = INDEXES.into_iter().chain(FRONTIERS).collect();
    std::thread::scope(|threads| {
        let _end = EndsAll(&progress);
        for p in INDEXES {
            let load = Index::new(p, Rng::seeded(rng.bits()));
            threads.spawn(|| compare(load, client(), &oracle));
        }
        for p in FRONTIERS {
            let load = Frontier::new(p, Rng::seeded(rng.bits()));
            threads.spawn(|| compare(load, client(), &oracle));
        }
        for node in cluster.nodes() {
            let rng = Rng::seeded(rng.bits());
            threads.spawn(|| probe(node, &facts, &progress, rng));
        }
        for n in 1..=reshards {
            let prefix = *rng.pick(&all);
            // If the servers support it, every second slot moves as a whole.
            let whole = moves_whole && n % 2 == 0;
            move_slot(&cluster, prefix, &progress, &mut rng, whole);
            let enough = answers * n / reshards;
            progress.wait("answers", || progress.answers.load(Relaxed) >= enough);
        }
    });
    for p in INDEXES {
        let (mut c, mut same) = (cluster.owner(p).wire(), oracle.wire());
        assert_consistent(&mut c, p);
        // A packed index contains commit numbers.
        for c in [&mut c, &mut same] {
            ok!(c, "DEDUPE.UNPACK", p);
        }
        // Claims have deadlines, a commit that starts again gets another number, and the prefix key
        // exists only in a cluster.
        let own = [
            &b"}:claims"[..],
            b"}:commits",
            b"}:holders",
            b":baseline",
            b"}:",
        ];
        let kept = |key: &[u8]| !own.iter().any(|ending| key.ends_with(ending));
        let of = |c: &mut Wire| {
            Snapshot::of_keys(c, |key| key.starts_with(p.as_bytes()) && kept(key))
                .without_counters()
        };
        of(&mut c).assert_same(&of(&mut same), p);
    }
    for p in FRONTIERS {
        let mut f = redis_tests::Frontier::over(cluster.owner(p).wire(), p);
        f.now = Some(T0 + 10_000_000_000);
        f.assert_conserved();
    }
    eprintln!(
        "{test}: {reshards} reshards{}, {} answers, {} refusals",
        if moves_whole {
            ", every other one of a whole slot"
        } else {
            ""
        },
        progress.answers.load(Relaxed),
        progress.refusals.load(Relaxed)
    );
}
