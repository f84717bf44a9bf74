//! Tests of a slot that moves key by key: all replies are correct meanwhile, and no moved key is
//! created again.

mod reshard_load;

use redis_tests::{
    BusyFrontier, Cluster, DATE, Frontier, Options, Reply, Server, Snapshot, T0, Wire, bulk, ok,
    sha256_of, small_index, words_of,
};

const P: &str = "{moving}:";

fn cluster() -> Cluster {
    let simulated = &["chg-simulated-time", "yes"];
    Cluster::with(2, Options::new().module_args(simulated))
}

/// Returns true if the reply redirects a client or asks it to try again later.
fn is_refused(reply: &Reply) -> bool {
    let Reply::Error(line) = reply else {
        return false;
    };
    [&b"TRYAGAIN "[..], b"ASK ", b"MOVED "]
        .iter()
        .any(|word| line.starts_with(word))
}

/// Returns the node that owns the slot of [`P`], and another node.
fn sides(cluster: &Cluster) -> (&Server, &Server) {
    let from = cluster.owner(P);
    let others = cluster.nodes().iter();
    let to = others.clone().find(|node| node.port() != from.port());
    (from, to.expect("two nodes"))
}

fn keys(node: &Server, slot: i64) -> Vec<String> {
    let mut keys = ok!(node.wire(), "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts();
    keys.sort();
    keys
}

fn migrate(from: &mut Wire, to: &Server, key: &str) {
    let moved = ok!(from, "MIGRATE", "127.0.0.1", to.port(), key, 0, 60_000);
    assert_eq!(moved.text(), "OK", "{key}");
}

/// Commands, given as arguments. The first `reads` of them are read commands.
struct Commands {
    all: Vec<Vec<Vec<u8>>>,
    reads: usize,
}

impl Commands {
    fn answers(&self, c: &mut Wire) -> Vec<Reply> {
        let reads = self.all[..self.reads].iter();
        reads.map(|words| steady(c.expect_ok(words))).collect()
    }

    /// Runs all commands on a node that has only some of the keys. Every command may be refused.
    /// Otherwise, a read command must return the right reply.
    fn assert_refused_or_right(&self, c: &mut Wire, asking: bool, right: &[Reply], what: &str) {
        for (i, words) in self.all.iter().enumerate() {
            if asking {
                ok!(c, "ASKING");
            }
            let reply = steady(c.call(words));
            let shown = String::from_utf8_lossy(&words[0]);
            assert!(
                is_refused(&reply) || right.get(i) == Some(&reply),
                "{what}, asking {asking}: {shown} replied {reply:?}"
            );
        }
    }
}

/// Removes memory sizes from a reply, which change with every move.
fn steady(reply: Reply) -> Reply {
    let Reply::Array(items) = &reply else {
        return reply;
    };
    let memory = items.iter().position(|item| *item == bulk("memory"));
    let Some(at) = memory else { return reply };
    let kept = items
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != at && *i != at + 1);
    Reply::Array(kept.map(|(_, item)| item.clone()).collect())
}

/// Moves every key separately to the other node. Checks the replies of both nodes, and that no key
/// is created on the other node.
fn each_key_alone(cluster: &Cluster, commands: &Commands) {
    let (from, to) = sides(cluster);
    let slot = cluster.slot(P);
    let (mut a, mut b) = (from.wire(), to.wire());
    let all = keys(from, slot);
    assert!(all.len() > 5, "{all:?}");
    let before = Snapshot::of(&mut a);
    let right = commands.answers(&mut a);
    for words in &commands.all {
        let there = b.expect_error(words);
        let here = format!("127.0.0.1:{}", from.port());
        assert!(
            there.starts_with("MOVED ") && there.ends_with(&here),
            "{there}"
        );
    }
    for key in &all {
        for stays in [true, false] {
            cluster.begin_move(P, to);
            assert_eq!(commands.answers(&mut a), right, "nothing has left yet");
            let (left, kept): (Vec<_>, Vec<_>) = all
                .iter()
                .cloned()
                .partition(|other| (other == key) != stays);
            left.iter().for_each(|key| migrate(&mut a, to, key));
            let what = format!("{key} {}", if stays { "alone stays" } else { "alone left" });
            commands.assert_refused_or_right(&mut a, false, &right, &what);
            commands.assert_refused_or_right(&mut b, false, &right, &what);
            commands.assert_refused_or_right(&mut b, true, &right, &what);
            assert_eq!(keys(from, slot), kept, "{what}");
            assert_eq!(keys(to, slot), left, "{what}");
            // Move the key back: the owner imports it while the slot is stable.
            ok!(a, "CLUSTER", "SETSLOT", slot, "STABLE");
            left.iter().for_each(|key| migrate(&mut b, from, key));
            ok!(b, "CLUSTER", "SETSLOT", slot, "STABLE");
            assert_eq!(commands.answers(&mut a), right, "all keys are back");
        }
    }
    let after = Snapshot::of(&mut a).without_counters();
    before
        .without_counters()
        .assert_same(&after, "nothing was written");
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

#[test]
fn any_key_of_an_index_may_be_on_the_other_side() {
    let cluster = cluster();
    let mut c = cluster.owner(P).wire();
    small_index(&mut c, P);
    ok!(c, "DEDUPE.CLAIM", P, "open", sha256_of(99), "PX", 3_600_000);
    let h = sha256_of(1);
    let reads = [
        format!("LOOKUP {P} {h} {}", sha256_of(77)),
        format!("LOOKUP {P} CRAWL open WITHWACZ {h} {}", sha256_of(36)),
        format!("REQUIRES {P} open"),
        format!("REQUIRES {P} open TRANSITIVE FORMAT RESP"),
        format!("REQUIRES {P} REF u"),
        format!("REQUIREDBY {P} a"),
        format!("WACZLIST {P} a"),
        format!("STATS {P} b"),
        format!("STATS {P}"),
        format!("CRAWLS {P}"),
        format!("CRAWLS {P} UNCOMMITTED"),
        format!("CHECK {P}"),
    ];
    let writes = [
        format!("PROFILE {P}"),
        format!("CLAIM {P} open {h} PX 1000"),
        format!("CLAIM {P} fresh {} PX 1000 BLOCK 5", sha256_of(99)),
        format!("UNCLAIM {P} {} 1", sha256_of(99)),
        format!("BEGIN {P} fresh"),
        format!("ADD {P} open {h} 0 {DATE} http://e/ 5"),
        format!("ADD {P} fresh SEQ w 1 {h} 0 {DATE} http://e/ 5"),
        format!("REVISIT {P} open {h} 5"),
        format!("REVISIT {P} fresh REF v {h} 5"),
        format!("WACZOPEN {P} open more.wacz"),
        format!("WACZCLOSE {P} a 0 a.wacz sha256:ab 100"),
        format!("COMMIT {P} open"),
        format!("CANCEL {P} open"),
        format!("REMOVE {P} a"),
        format!("RETAIN {P} a"),
        format!("RETAIN {P} PURGE a"),
        format!("REPAIR {P}"),
        format!("PACK {P}"),
        format!("UNPACK {P}"),
        format!("PROFILE {P} document"),
    ];
    let all = reads.iter().chain(&writes);
    let commands = Commands {
        all: all.map(|line| words(&format!("DEDUPE.{line}"))).collect(),
        reads: reads.len(),
    };
    each_key_alone(&cluster, &commands);
}

#[test]
fn any_key_of_a_frontier_may_be_on_the_other_side() {
    for storage in ["plain", "packed", "packing"] {
        any_key_may_be_on_the_other_side(storage);
    }
}

/// Builds a frontier, and packs it, or begins to.
fn busy_frontier(server: &Server, prefix: &str, storage: &str) -> (Frontier, BusyFrontier) {
    let mut f = Frontier::over(server.wire(), prefix);
    f.now = Some(T0);
    let out = BusyFrontier::build(&mut f);
    if storage == "packing" {
        // Each of these groups takes longer than a slice to move.
        for group in 0..4 {
            for thousand in 0..4 {
                let far = T0 + 10_000_000_000;
                let uris = (0..1000)
                    .map(|n| format!(" large-{group} {far} 0 http://large/{thousand}/{n}"));
                f.ok(format!("ADDURI crawl{}", uris.collect::<String>()));
            }
        }
        ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
        while f.ok("INFO").field("storage") != bulk("packing") {
            f.ok("UNPACK");
            let mut mover = Frontier::over(server.wire(), prefix);
            mover.now = f.now;
            mover.send("PACK");
            redis_tests::until("the frontier moves", || {
                f.ok("INFO").field("storage") != bulk("plain")
            });
            // Loading ends the job.
            ok!(f.wire, "DEBUG", "RELOAD");
            mover.wire.recv();
        }
    } else if storage == "packed" {
        f.ok("PACK");
    }
    (f, out)
}

fn any_key_may_be_on_the_other_side(storage: &str) {
    let cluster = cluster();
    let (mut f, out) = busy_frontier(cluster.owner(P), P, storage);
    let (chg, token) = (&out.held.chg, out.held.token);
    let reads = [
        "WHY held",
        "WHY kept",
        "WHY member2",
        "LIST",
        "URIS kept",
        "CHECK",
    ]
    .map(str::to_owned);
    let writes = [
        format!("ADD crawl fresh {T0}"),
        format!("ADDURI crawl fresh {T0} 0 http://fresh/"),
        "NEXT".to_owned(),
        format!("RELEASE {chg} {token} AT {T0} DONE crawl"),
        format!("EXTEND {chg} {token} 1000"),
        "SWEEP".to_owned(),
        "EXPIRED".to_owned(),
        format!("BLOCK waiting UNTIL {T0}"),
        "PAUSE waiting".to_owned(),
        "RESUME paused".to_owned(),
        "PAUSE".to_owned(),
        "LIMIT waiting GAP 5".to_owned(),
        "GROUP shared waiting".to_owned(),
        "DROP crawl".to_owned(),
        "DROP GROUP waiting".to_owned(),
        "MOVE waiting fresh".to_owned(),
        "REPAIR".to_owned(),
        "PACK".to_owned(),
        "UNPACK".to_owned(),
    ];
    let all = reads.iter().chain(&writes);
    let commands = Commands {
        all: all.map(|line| f.words(line)).collect(),
        reads: reads.len(),
    };
    each_key_alone(&cluster, &commands);
    f.assert_conserved();
}

#[test]
fn transactions_and_scripts_are_refused_when_keys_have_moved() {
    let cluster = cluster();
    let (from, to) = sides(&cluster);
    let mut c = from.wire();
    small_index(&mut c, P);
    cluster.begin_move(P, to);
    let lookup = words(&format!("DEDUPE.LOOKUP {P} {}", sha256_of(1)));
    let script = "return redis.pcall('DEDUPE.LOOKUP', KEYS[1], ARGV[1])";
    let right = ok!(c, "EVAL", script, 1, P, sha256_of(1));
    assert_eq!(right, c.expect_ok(&lookup));
    migrate(&mut c, to, &format!("{P}allcrawls"));
    ok!(c, "MULTI");
    c.expect_ok(&lookup);
    let replies = ok!(c, "EXEC");
    assert!(is_refused(&replies.items()[0]), "{replies:?}");
    let reply = c.call(&["EVAL", script, "1", P, &sha256_of(1)]);
    assert!(is_refused(&reply), "{reply:?}");
}

/// Tests that a waiting claim and a waiting lease end when their slot moves away.
#[test]
fn waiters_are_redirected_when_the_first_key_moves() {
    let cluster = cluster();
    let (from, to) = sides(&cluster);
    let mut c = from.wire();
    small_index(&mut c, P);
    let later = redis_tests::server_time(&mut c) + 3_600_000;
    ok!(c, "CHG.ADD", P, "crawl", "host", later);
    let h = sha256_of(99);
    ok!(c, "DEDUPE.CLAIM", P, "open", h, "PX", 3_600_000);
    let (mut claims, mut leases) = (from.wire(), from.wire());
    claims.send(&["DEDUPE.CLAIM", P, "other", &h, "PX", "1000", "BLOCK", "0"]);
    leases.send(&["CHG.NEXT", P, "BLOCK", "0"]);
    redis_tests::until("both wait", || {
        from.info_number("claims_pending") == 1 && from.info_number("chg_waiters") == 1
    });
    cluster.begin_move(P, to);
    migrate(&mut c, to, &format!("{P}claims"));
    assert!(is_refused(&claims.recv()));
    migrate(&mut c, to, &format!("{P}chg_wait"));
    assert!(is_refused(&leases.recv()));
    let left = keys(from, cluster.slot(P));
    assert!(!left.iter().any(|key| key.ends_with("claims")), "{left:?}");
}

/// Tests that waiting clients are redirected when their slot moves as a whole, and that the slot is
/// complete on the new owner and its replica.
#[test]
fn slot_that_moves_as_a_whole_is_complete() {
    let cluster = cluster();
    if !cluster.moves_whole() {
        eprintln!(
            "not tested: this server does not move slots as a whole (Valkey 9 and Redis 8.4 do)"
        );
        return;
    }
    let (from, to) = sides(&cluster);
    let mut c = from.wire();
    small_index(&mut c, P);
    let packed = "{moving}packed:";
    small_index(&mut c, packed);
    // Write more data than the target accepts in one string.
    for thousand in 0..40 {
        let mut add = words(&format!("DEDUPE.ADD {packed} large"));
        add.extend((0..1000).flat_map(|n| words_of(1000 * thousand + n)));
        c.expect_ok(&add);
    }
    ok!(c, "DEDUPE.COMMIT", packed, "large");
    ok!(c, "DEDUPE.PACK", packed);
    let size = ok!(c, "DUMP", format!("{packed}packedhashes"))
        .bytes()
        .len();
    assert!(size > 1 << 20, "{size}");
    ok!(to.wire(), "CONFIG", "SET", "proto-max-bulk-len", 1 << 20);
    busy_frontier(from, P, "plain");
    for storage in ["packed", "packing"] {
        let (mut f, _) = busy_frontier(from, &format!("{{moving}}{storage}-frontier:"), storage);
        for thousand in 0..30 {
            let uris = (0..1000).map(|n| format!(" all {T0} 0 {}", sha256_of(1000 * thousand + n)));
            f.ok(format!("ADDURI crawl{}", uris.collect::<String>()));
        }
        let key = f.key("chg_packed");
        let size = ok!(f.wire, "DUMP", key).bytes().len();
        assert!(size > 1 << 20 || storage == "packing", "{size}");
    }
    let h = sha256_of(99);
    ok!(c, "DEDUPE.CLAIM", P, "open", h, "PX", 3_600_000);
    let (mut claims, mut leases) = (from.wire(), from.wire());
    claims.send(&["DEDUPE.CLAIM", P, "other", &h, "PX", "1000", "BLOCK", "0"]);
    let later = redis_tests::server_time(&mut c) + 3_600_000;
    let quiet = "{moving}quiet:";
    ok!(c, "CHG.ADD", quiet, "crawl", "host", later);
    leases.send(&["CHG.NEXT", quiet, "BLOCK", "0"]);
    redis_tests::until("both wait", || {
        from.info_number("claims_pending") == 1 && from.info_number("chg_waiters") == 1
    });
    let ours = |c: &mut Wire| Snapshot::of(c).without_counters();
    let before = ours(&mut c);
    cluster.move_whole(P, to);
    let there = format!("127.0.0.1:{}", to.port());
    for waiting in [&mut claims, &mut leases] {
        let Reply::Error(line) = waiting.recv() else {
            panic!("the slot has left");
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(
            line.starts_with("MOVED ") && line.ends_with(&there),
            "{line}"
        );
    }
    before.assert_same(&ours(&mut to.wire()), "all has arrived");
    assert_eq!(
        ours(&mut c).names(),
        [] as [String; 0],
        "nothing is left behind"
    );
    for prefix in [P, packed] {
        redis_tests::assert_consistent(&mut to.wire(), prefix);
    }
    for prefix in [P, "{moving}packed-frontier:", "{moving}packing-frontier:"] {
        let mut f = Frontier::over(to.wire(), prefix);
        f.now = Some(T0);
        f.assert_conserved();
    }
    // Moves the slot back while clients send requests.
    cluster.move_whole(P, from);
    before.assert_same(&ours(&mut c), "all keys are back");
}

#[test]
fn replies_are_correct_while_slots_move_under_load() {
    reshard_load::run("replies_are_correct_while_slots_move_under_load");
}
