//! A server with the data of a family. The data are restored before each sample.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use redis_tests::matrix::{Family, Grammar, State, split};
use redis_tests::{Reply, Server, Snapshot, Wire, bulk, frontier_view, int, ok, rows};

/// The reply and the effects of a sample, without the parts that depend on the clock or on memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub reply: Reply,
    pub data: Snapshot,
}

impl Outcome {
    /// Collects a reply and the database that `wire` has selected.
    pub fn of(reply: &Reply, wire: &mut Wire) -> Outcome {
        Outcome {
            reply: steady(reply),
            data: steady_data(wire),
        }
    }

    #[track_caller]
    pub fn assert_same(&self, other: &Outcome, what: &str) {
        assert_eq!(self.reply, other.reply, "{what}");
        self.data.assert_same(&other.data, what);
    }
}

/// Returns the selected database without times of the server's clock. For a packed frontier, it contains the plain keys.
pub fn steady_data(wire: &mut Wire) -> Snapshot {
    let data = Snapshot::of(wire);
    let names = data.names().into_iter();
    let packed = names.filter_map(|name| name.strip_suffix("chg_packed").map(str::to_owned));
    let views: Vec<_> = packed
        .map(|prefix| {
            let view = frontier_view(wire, &prefix, Snapshot::of);
            (
                format!("{prefix}chg_packed").into_bytes(),
                format!("{view:?}"),
            )
        })
        .collect();
    data.map_lines(|key, line| {
        if let Some((_, view)) = views.iter().find(|(packed, _)| packed == key) {
            *line = view.clone().into_bytes();
        }
        let mut steady = Vec::new();
        let by_digits = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
        for run in line.chunk_by(by_digits) {
            let number = str::from_utf8(run).ok().and_then(|run| run.parse().ok());
            let is_time = number.is_some_and(is_of_the_clock);
            steady.extend_from_slice(if is_time { b"-" } else { run });
        }
        *line = steady;
    })
}

/// Returns true if a number is a time from the server's clock, within a few days.
fn is_of_the_clock(number: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after 1970").as_millis() as i64;
    (number - now).abs() < 2 * 24 * 3_600_000
}

/// Fields of `CHG.INFO` that count events of this process.
const OF_THE_PROCESS: &str = "leases releases expired rate-leases pauses-observed smallest-pause-ms \
                              smallest-pause-asked-ms smallest-margin-ms token";

/// Removes times from the server's clock, memory sizes and process metrics from a reply.
pub fn steady(reply: &Reply) -> Reply {
    let items = match reply {
        Reply::Array(items) => items,
        Reply::Int(n) if is_of_the_clock(*n) => return int(0),
        other => return other.clone(),
    };
    let mut steady: Vec<Reply> = items.iter().map(steady).collect();
    match items.first() {
        Some(first) if *first == bulk("PENDING") => steady[2] = int(0),
        // Sort the names on a page, because they are in the order of a hash table.
        Some(Reply::Bulk(cursor)) if cursor.iter().all(u8::is_ascii_digit) => {
            if let Some(Reply::Array(names)) = steady.get_mut(1)
                && names.iter().all(|name| matches!(name, Reply::Bulk(_)))
            {
                names.sort();
            }
        }
        _ => {}
    }
    let metrics = match items.first() {
        Some(first) if *first == bulk("groups-waiting") => OF_THE_PROCESS,
        _ => "",
    };
    for at in 1..items.len() {
        let mut fields = metrics.split(' ').chain(["memory"]);
        if fields.any(|field| items[at - 1] == bulk(field)) {
            steady[at] = int(0);
        }
        // `TAGS.EXPLAIN` lists the tags in no particular order.
        if items[at - 1] == bulk("tags")
            && let Reply::Array(tags) = &mut steady[at]
        {
            tags.sort();
        }
    }
    Reply::Array(steady)
}

/// A server with the data of a family.
pub struct Stage {
    pub family: Family,
    pub server: Server,
    pub wire: Wire,
    pub state: State,
    grammars: BTreeMap<String, Grammar>,
    /// The data before each sample.
    pub before: Snapshot,
    /// True if the module's caches are emptied before each sample.
    pub cold: bool,
}

impl Stage {
    pub fn of(family: &Family) -> Stage {
        let server = family.options().start();
        let mut wire = server.wire();
        Stage {
            grammars: family.grammars(&mut wire),
            state: family.refill(&mut wire),
            before: steady_data(&mut wire),
            family: family.clone(),
            server,
            wire,
            cold: false,
        }
    }

    pub fn reset(&mut self) {
        self.state = self.family.refill(&mut self.wire);
        if self.cold {
            self.empty_caches();
        }
    }

    /// Restores the data, runs the lines before the last `; `, and returns the rest.
    pub fn prepare<'a>(&mut self, lines: &'a str) -> &'a str {
        self.reset();
        let mut lines: Vec<&str> = lines.split("; ").collect();
        let last = lines.pop().expect("a line");
        for line in lines {
            self.wire.expect_ok(&self.state.words(line));
        }
        last
    }

    /// Empties the module's caches.
    pub fn empty_caches(&mut self) {
        empty_caches(&mut self.wire);
    }

    pub fn words(&self, line: &str) -> Vec<Vec<u8>> {
        self.state.words(line)
    }

    /// Returns the reply and the effects of a single line.
    #[track_caller]
    pub fn alone(&mut self, line: &str) -> Outcome {
        self.reset();
        let reply = self.wire.expect_ok(&self.state.words(line));
        Outcome::of(&reply, &mut self.wire)
    }

    /// Returns the server's description of the command of a line.
    pub fn grammar(&self, line: &str) -> &Grammar {
        &self.grammars[&self.family.command(line)]
    }

    /// Returns true if the command of a line writes, according to the server.
    pub fn writes(&self, line: &str) -> bool {
        self.grammar(line).writes()
    }

    /// Returns the replies of the lines that read the whole state.
    pub fn reads(&self, wire: &mut Wire) -> Vec<(&'static str, Reply)> {
        reads(&self.family, &self.state, wire)
    }
}

/// Empties the module's caches.
pub fn empty_caches(wire: &mut Wire) {
    for _ in 0..2 {
        ok!(wire, "SWAPDB", 0, 15);
    }
}

/// Returns the keys that exist in only one of the snapshots, or differ.
pub fn changed(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut names = [before.names(), after.names()].concat();
    names.sort();
    names.dedup();
    let only = |s: &Snapshot, name: &str| s.clone().without(|key| key != name.as_bytes());
    names.retain(|name| only(before, name) != only(after, name));
    names
}

/// Returns the replies of the lines that read the whole state.
pub fn reads(family: &Family, state: &State, wire: &mut Wire) -> Vec<(&'static str, Reply)> {
    let replies = state.replies(wire, family.reads);
    let steadied = |(line, reply): (_, Reply)| (line, steady(&reply));
    replies.into_iter().map(steadied).collect()
}

/// Fills two indexes in an empty database, for [`goes_on`].
pub fn prepare_to_go_on(family: &Family, wire: &mut Wire) -> [State; 2] {
    ["{samples}:", "{time}:"].map(|prefix| family.fill(wire, prefix))
}

/// Returns the replies of an undisturbed server as it continues, and its data at the end.
fn gone_on(family: &Family) -> (Vec<String>, Snapshot) {
    let mut stage = Stage::of(family);
    ok!(stage.wire, "FLUSHALL");
    let states = prepare_to_go_on(family, &mut stage.wire);
    stage.empty_caches();
    let told = goes_on(&states, family, &mut stage.wire);
    (told, steady_data(&mut stage.wire))
}

/// Fails unless an index continues like the one in [`gone_on`].
#[track_caller]
pub fn assert_goes_on(states: &[State; 2], family: &Family, wire: &mut Wire) {
    let (should, data) = gone_on(family);
    let told = goes_on(states, family, wire);
    for (is, should) in told.iter().zip(&should) {
        assert_eq!(is, should);
    }
    steady_data(wire).assert_same(&data, "in the end");
}

/// Commands on a frontier before the time advances.
const FIRST: &[&str] = &rows![
    "ADD crawl SEQ writer 2 numbered 0"; "ADD crawl SEQ writer 3 numbered 0"; "ADD crawl idle 0";
    "EXTEND kept <kept> 9000"; "RESUME paused"; "RESUME EXECUTION held-back";
];

/// Runs all samples one after the other on the first index, and other commands on the second while
/// simulated time advances, so that leases expire, groups become due, and gates open. Returns all
/// replies.
fn goes_on([samples, time]: &[State; 2], family: &Family, wire: &mut Wire) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |state: &State, lines: &[&str]| {
        for (line, reply) in state.replies(wire, lines) {
            told.push(format!("{:?} {line}: {:?}", state.now, steady(&reply)));
        }
    };
    tell(samples, family.samples);
    tell(samples, family.reads);
    if let Some(start) = time.now {
        tell(time, FIRST);
        let mut time = time.clone();
        let soon = (0..11_000).step_by(500);
        for passed in soon.chain((15_000..=615_000).step_by(15_000)) {
            time.now = Some(start + passed);
            tell(&time, &["SWEEP", "EXPIRED", "NEXT LEASE 900 COUNT 9"]);
            tell(&time, family.reads);
        }
        let leases: Vec<&String> = told
            .iter()
            .filter(|line| line.contains("NEXT LEASE 900"))
            .collect();
        for chg in split("held kept parallel member waiting blocked paused of-a-paused-crawl idle")
        {
            let came = leases.iter().any(|line| line.contains(chg));
            assert!(came, "{chg} was never leased");
        }
    }
    told
}

/// Returns lines of write commands that do not change the data: they add existing items, remove
/// missing items, or are refused. The lines before the last `; ` prepare the data.
pub fn idle(family: &Family) -> &'static [&'static str] {
    match family.name {
        "DEDUPE" => &rows![
            "ADD open <h20> 0 <date> http://example.com/page/20 1020";
            "ADD open SEQ writer 3 <h77> 0 <date> http://e.com/ 5"; "REVISIT open SEQ writer 3 <h1> 5";
            "REVISIT open <h77> 5"; "BEGIN open"; "WACZOPEN open open.wacz";
            "WACZCLOSE open 0 open.wacz sha256:ab 7; WACZCLOSE open 0 open.wacz sha256:ab 7";
            "WACZCLOSE open 0 open.wacz sha256:ab 7; WACZCLOSE open 0 open.wacz sha256:ab 7 RENAME";
            "COMMIT b"; "CANCEL b"; "CANCEL nobody"; "REMOVE nobody"; "RETAIN nobody"; "RETAIN a; RETAIN a";
            "CLAIM open <h1> PX 1000"; "CLAIM a <h30> PX 1000"; "UNCLAIM <h77> 1"; "UNCLAIM <h30> 99";
        ],
        "CHG" => &rows![
            "RELEASE held <held> AT <soon> DONE crawl; RELEASE held <held> AT <soon> DONE crawl";
            "RELEASE held 5 AT 0"; "RELEASE nobody 5 AT 0"; "EXTEND held 5 1000";
            "ADD crawl SEQ writer 3 numbered 0"; "ADD crawl SEQ writer 2 numbered 0"; "ADD crawl host soon";
            "ADDURI other kept 4000000000000 1 http://kept/2"; "BLOCK nobody UNTIL 0";
            "BLOCK waiting UNTIL 0"; "PAUSE paused"; "RESUME waiting"; "PAUSE EXECUTION held-back";
            "RESUME EXECUTION nobody"; "RESUME"; "LIMIT parallel PARALLEL 2"; "GROUP shared member1 member2";
            "DROP nobody"; "DROP GROUP nobody"; "MOVE held waiting"; "NEXT COUNT 9; NEXT";
            "NEXT COUNT 9; NEXT COUNT 5"; "SWEEP; SWEEP"; "EXPIRED; EXPIRED";
        ],
        _ => &rows![
            "ADD FILE f of-file"; "ADD FILE f 'a b'"; "ADD TAG org:1 of-file"; "ADD TAG org:1 org:1";
            "REM FILE f nothing"; "REM FILE nobody t"; "LOAD FILE MERGE"; "LOAD FILE STAGE; LOAD FILE STAGE";
            "LOAD RECORD REPLACE; LOAD RECORD REPLACE"; "RULEDEL nobody"; "POINTDEL nobody"; "POINTSET p (";
            "SWAP FILE EXPECT 5"; "SWAP RECORD"; "SWAP FILE DISCARD; SWAP FILE DISCARD";
            "SWAP FILE DISCARD; SWAP FILE";
        ],
    }
}
