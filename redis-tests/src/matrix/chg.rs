//! `CHG.*`: a frontier with a group in every state.

use std::sync::LazyLock;

use crawlspace_compact::limits::chg::TEN_YEARS;

use super::family::{Family, State};
use crate::busy_frontier::BusyFrontier;
use crate::frontier::{Frontier, T0, simulated};
use crate::wire::Wire;

/// Returns the family. Without a storage, frontiers start in plain keys, and the samples include PACK.
pub(super) fn family(storage: &'static str) -> Family {
    Family {
        name: "CHG",
        storage,
        samples: if storage == "packed" {
            &PACKED_SAMPLES
        } else {
            SAMPLES
        },
        refused: if storage == "packed" {
            &PACKED_REFUSED
        } else {
            &PLAIN_REFUSED
        },
        reads: READS,
        without_memory: "next release extend sweep expired block pause resume drop forget done",
        keys: if storage == "packed" {
            PACKED_KEYS
        } else {
            KEYS
        },
        fields: &[],
        aliases: &[("now", ""), ("count", ""), ("n", "sequence number")],
        resumed: &["DROP crawl"],
        invalid: INVALID,
        limits: LIMITS,
        unbounded: "",
        words: WORDS,
        values: VALUES,
        assert_consistent,
        options: simulated,
        fill,
    }
}

fn fill(c: &mut Wire, prefix: &str) -> State {
    let mut f = Frontier::over(c.handle(), prefix);
    f.now = Some(T0);
    let out = BusyFrontier::build(&mut f);
    f.ok("LIMIT parallel DELAY 50");
    // The gap of `parallel` has passed, so `SWEEP` finds a group.
    f.pass(600);
    let now = f.time();
    let own = out.kept.execution.expect("a kept URI");
    let other = if own == "crawl" { "other" } else { "crawl" };
    State::new("CHG", prefix, Some(now))
        .with("now", now)
        .with("soon", now + 5000)
        .with("ten-years", now + TEN_YEARS as i64)
        .with("later", now + TEN_YEARS as i64 + 1)
        .with("held", out.held.token)
        .with("kept", out.kept.token)
        .with("parallel", out.parallel.token)
        .with("execution-of-kept", own)
        .with("no-execution-of-kept", other)
}

fn assert_consistent(c: &mut Wire, state: &State) {
    let mut f = Frontier::over(c.handle(), &state.prefix);
    f.now = state.now;
    f.assert_conserved();
}

const SAMPLES: &[&str] = &rows![
    "ADD new new <soon>"; "ADD crawl SEQ writer 7 new <soon> waiting <soon>";
    "ADDURI new new <soon> 1 http://e.com/";
    "ADDURI crawl WEIGHT 3 new <soon> 1 http://e.com/ kept <soon> 0 http://kept/9"; "NEXT";
    "NEXT LEASE 1000 COUNT 2"; "NEXT LEASE 1000 COUNT 1 BLOCK 1"; "NEXT LEASE 1000 GROUP ready";
    // A blocking command uses the server's own clock.
    "RELEASE held <held> AT 0 DONE crawl 1 NEXT LEASE 1000 BLOCK 1";
    "RELEASE held <held> AT <soon> DONE crawl 2 NEXT"; "RELEASE held <held> DELAY 1000 DONE crawl";
    "RELEASE parallel <parallel>"; "RELEASE kept <kept> DELAY 1000 RETRY <soon>";
    "RELEASE kept <kept> DELAY 1000 RETRY <soon> NEXT";
    "RELEASE kept <kept> ELAPSED 5 DONE <execution-of-kept>";
    "RELEASE held <held> ELAPSED 1000 FACTOR 1.5 MIN 10 MAX 5000 CRAWLDELAY 10 RETRYAFTER 10 STATUS 200";
    "RELEASE held <held> ELAPSED 1000 STATUS 503 DONE crawl NEXT LEASE 5"; "EXTEND held <held> 1000"; "SWEEP";
    "SWEEP LIMIT 5"; "EXPIRED"; "EXPIRED COUNT 5"; "BLOCK waiting UNTIL <soon>"; "PAUSE"; "PAUSE waiting";
    "PAUSE EXECUTION crawl"; "RESUME"; "RESUME paused"; "RESUME EXECUTION held-back"; "LIMIT new PARALLEL 2";
    "LIMIT waiting PARALLEL 2 GAP 10 DELAY 10 BUDGET 10"; "GROUP shared new"; "GROUP shared waiting ready";
    "DROP crawl"; "DROP GROUP waiting"; "MOVE waiting new"; "WHY waiting"; "WHY held"; "INFO"; "INFO EXECUTION crawl"; "LIST";
    "LIST STATE WAITING CURSOR 0 COUNT 5"; "LIST STATE READY"; "LIST STATE BUSY"; "LIST STATE FREED";
    "URIS kept"; "URIS kept CURSOR 0 COUNT 5"; "CHECK"; "REPAIR"; "EXTEND kept <kept> 1000"; "MOVE ready later";
    "PACK"; "UNPACK";
];

/// Commands that need a packed frontier, but do not make an execution remember its URLs.
const KNOWN_SAMPLES: &[&str] = &rows![
    "KNOWN fresh http://e.com/"; "COUNT fresh"; "COUNT fresh GROUP waiting"; "FORGET fresh";
    "FORGET fresh URIS 2 http://e.com/ http://e.com/2"; "FORGET fresh GROUP waiting BEFORE <soon> STATE DONE";
    "FORGET fresh STATE GIVENUP"; "NEXT LEASE 1000 COUNT 2 URIS 1"; "NEXT GROUP ready URIS 1";
    "DONE held <held> crawl"; "DONE kept <kept> <execution-of-kept> nothing";
    "RELEASE kept <kept> DELAY 1000 DONE <execution-of-kept> NEXT LEASE 5 URIS 1";
    "NEXT LEASE 1000 COUNT 2 EXECUTION crawl"; "NEXT BLOCK 1 EXECUTION fresh";
    "RELEASE held <held> AT 0 NEXT LEASE 1000 BLOCK 1 EXECUTION crawl"; "LIMIT waiting DONE 0 EXECUTION crawl";
    "URIS EXECUTION crawl"; "URIS EXECUTION crawl STATE QUEUED CURSOR 0 COUNT 5"; "URIS EXECUTION fresh STATE LEASED";
    "LIMIT new PARALLEL 2 GAP 10 DELAY 10 BUDGET 10 DONE 0 EXECUTION crawl";
];

/// Commands that make an execution remember its URLs, or that need such an execution. The frontier refuses
/// these commands, because the execution has URIs already. If it accepted them, the frontier could not be
/// unpacked, and its plain keys could not be compared.
const REMEMBERING: &[&str] = &rows![
    "SPACE crawl"; "SPACE crawl BITS 96"; "SPACE crawl BITS 128 SHARE weekly"; "SPACE crawl TEXT YES"; "SPACE crawl TEXT NO";
    "URIS EXECUTION crawl STATE DONE"; "URIS EXECUTION crawl STATE GIVENUP";
    "DISCOVER crawl URI ITEMS 1 new <soon> 1 http://e.com/";
    "SETTLE crawl ITEMS 1 new http://e.com/ <soon>";
    "SETTLE crawl STATUS 200 ITEMS 2 new http://e.com/ NEVER waiting http://e.com/2 <soon>";
    "SETTLE crawl STATUS 200 PAYLOAD ITEMS 2 new http://e.com/ NEVER none waiting http://e.com/2 <soon> payload";
    "DISCOVER crawl URI FRESH 1000 WEIGHT 2 ITEMS 2 new <soon> 1 http://e.com/ waiting <soon> 0 http://e.com/2";
    "DISCOVER crawl KEY FRESH 1000 WEIGHT 2 ITEMS 1 new <soon> 1 http://e.com/ key";
    "DISCOVER crawl PAYLOAD FRESH 1000 WEIGHT 2 ITEMS 1 new <soon> 1 http://e.com/ payload";
    "DISCOVER crawl KEYPAYLOAD FRESH 1000 WEIGHT 2 ITEMS 1 new <soon> 1 http://e.com/ key payload";
    "RELEASE kept <kept> DELAY 1000 RETRY <soon> PAYLOAD p";
];

/// Commands whose leases free their group. The state refuses these commands, because a frontier with such a
/// lease cannot be unpacked.
const FREEING: &[(&str, &str)] = &rows![
    "NEXT GROUP nowhere GATE 5", "NOCHG";
    "RELEASE kept 1 DELAY 5 LATER 5 NEXT GATE 5", "STALE";
];

static PACKED_SAMPLES: LazyLock<Vec<&str>> = LazyLock::new(|| [SAMPLES, KNOWN_SAMPLES].concat());

static PACKED_REFUSED: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let remembering = REMEMBERING.iter().map(|line| (*line, "KNOWN"));
    let all = REFUSED.iter().chain(FREEING).copied();
    all.chain(remembering).collect()
});

static PLAIN_REFUSED: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let freeing = FREEING.iter().map(|(line, _)| line);
    let known = KNOWN_SAMPLES.iter().chain(REMEMBERING).chain(freeing);
    let known = known.map(|line| (*line, "PLAIN"));
    REFUSED.iter().copied().chain(known).collect()
});

/// Options that contradict each other or are incomplete, and commands that the state does not
/// allow.
const REFUSED: &[(&str, &str)] = &rows![
    "RELEASE held <held>", "ERR";
    "RELEASE held <held> AT 0 DELAY 5", "ERR";
    "RELEASE held <held> DELAY 5 MIN 3", "ERR";
    "RELEASE held <held> ELAPSED 5 MIN 30 MAX 20", "ERR";
    "RELEASE held <held> AT 0 DONE crawl RETRY 0", "ERR";
    "RELEASE held <held> AT 0 RETRY 0 DONE crawl", "ERR";
    "RELEASE held <held> AT 0 NEXT DONE crawl", "ERR";
    "RELEASE NOW <now> held <held> AT 0 NEXT BLOCK 5", "ERR";
    "RELEASE kept <kept> AT 0 DONE <no-execution-of-kept>", "ERR";
    "RELEASE kept <kept> AT 0 DONE <execution-of-kept> 2", "ERR";
    "RELEASE held <held> DONE crawl", "ERR";
    "NEXT NOW <now> BLOCK 5", "ERR";
    "NEXT LEASE 5 LEASE 6 LEASE 7 COUNT", "ERR";
    "NEXT GROUP", "ERR";
    "NEXT GROUP nowhere", "NOCHG";
    "NEXT GROUP held COUNT 1", "ERR";
    "NEXT BLOCK 0 GROUP held", "ERR";
    "LIMIT held", "ERR";
    "LIMIT held DONE 1", "ERR";
    "URIS kept STATE DONE", "ERR";
    "URIS EXECUTION crawl STATE DONE CURSOR queued:1:0:0-0-0-0", "ERR";
    "MOVE waiting waiting", "ERR";
    "MOVE held elsewhere", "LEASED";
    "ADD crawl", "ERR";
    "ADD crawl host", "ERR";
    "ADD crawl SEQ w 1", "ERR";
    "ADDURI crawl WEIGHT 3", "ERR";
    "ADDURI crawl host 0 0", "ERR";
    "GROUP shared", "ERR";
    "BLOCK waiting", "ERR";
    "PAUSE EXECUTION", "NOCHG";
];

const READS: &[&str] = &rows![
    "INFO"; "LIST"; "LIST STATE WAITING"; "LIST STATE READY"; "LIST STATE BUSY";
    "LIST STATE FREED"; "WHY held"; "WHY blocked";
    "WHY of-a-paused-crawl"; "WHY member2"; "WHY parallel"; "URIS kept"; "CHECK";
];

const KEYS: &str = "\
    CHG:waiting CHG:held CHG:kept chg_wait chg_busy chg_ready EIDC QCT chg_uris:kept chg_idle \
    chg_token chg_past chg_paused chg_seq:crawl chg_expired chg_gate:shared chg_gated:shared";

const PACKED_KEYS: &str = "chg_wait chg_busy chg_ready EIDC QCT chg_packed";

const INVALID: &[[&str; 4]] = &rows![
    ["", "chg from", "''", "chg from GROUP"];
    ["RELEASE EXTEND BLOCK PAUSE RESUME MOVE WHY URIS", "chg from", "nobody %n%s \u{e9}\r\n", "NOCHG"];
    ["", "execution writer to uri key", "''", "execution writer 'to ' uri key"];
    ["ADD ADDURI BLOCK RELEASE", "at time", "-1 9223372036854775807", "at UNTIL RETRY"];
    ["NEXT RELEASE EXTEND", "LEASE COUNT", "0", "LEASE COUNT"];
    ["NEXT RELEASE EXTEND", "LEASE BLOCK DELAY ELAPSED MIN MAX milliseconds",
        "-1 9223372036854775807", "LEASE BLOCK DELAY ELAPSED MIN MAX milliseconds"];
    ["", "CRAWLDELAY RETRYAFTER", "1.5 x - ''", "CRAWLDELAY RETRYAFTER"];
    ["", "GAP", "-1 9223372036854775807", "GAP"];
    ["NEXT EXPIRED LIST URIS", "COUNT", "-1", "COUNT"];
    ["", "PARALLEL WEIGHT depth", "-1", "PARALLEL WEIGHT depth"];
    ["LIMIT", "DELAY BUDGET", "-2", "DELAY BUDGET"];
    ["SWEEP", "LIMIT", "-1", "LIMIT"];
    ["ADD", "n", "-1", "'sequence number'"];
    ["ADD", "now", "0 -1", ""];
    ["RELEASE", "count", "0 -1", ""];
    ["", "factor", "'' x -1 nan inf 1e400 1,5 ' 1' 1.5.5", "FACTOR"];
    ["", "status", "20.0 2e2", "STATUS"];
    ["", "token", "-1 1 9223372036854775807", "STALE token"];
    ["", "cursor", "'' NONSENSE \0\r\n", "CURSOR"];
];

const LIMITS: &[[&str; 5]] = &rows![
    ["", "prefix", "x*{PREFIX_BYTES}", "x*{PREFIX_BYTES+1}", "BADPREFIX 'maximum is {PREFIX_BYTES}'"];
    ["", "chg from to execution writer group", "x*{ID_BYTES}", "x*{ID_BYTES+1}", "'maximum is {ID_BYTES}'"];
    ["ADDURI DISCOVER SETTLE KNOWN FORGET", "uri", "x*{URI_BYTES}", "x*{URI_BYTES+1}", "'maximum is {URI_BYTES}'"];
    ["DISCOVER", "key", "", "x*{KEY_BYTES+1}", "'maximum is {KEY_BYTES}'"];
    ["DISCOVER RELEASE SETTLE", "payload PAYLOAD", "", "x*{PAYLOAD_BYTES+1}", "'maximum is {PAYLOAD_BYTES}'"];
    ["NEXT RELEASE", "GATE", "", "{TEN_YEARS+1}", "'ten years'"];
    ["NEXT RELEASE", "URIS", "", "0 {MAX_LEASED+1}", "'1 to {MAX_LEASED}'"];
    ["ADD ADDURI DISCOVER SETTLE BLOCK 'RELEASE held <held> AT <soon>' 'RELEASE kept'", "at time", "0 <ten-years>", "<later>",
        "'ten years'"];
    ["NEXT RELEASE EXTEND LIMIT", "LEASE BLOCK DELAY ELAPSED MIN MAX milliseconds GAP",
        "{TEN_YEARS}", "{TEN_YEARS+1}", "'ten years'"];
    ["NEXT EXPIRED LIST URIS", "COUNT", "1 {MAX_COUNT}", "0 {MAX_COUNT+1}", "'1 to {MAX_COUNT}'"];
    ["", "PARALLEL", "1 {MAX_PARALLEL}", "0 {MAX_PARALLEL+1}", "'1 to {MAX_PARALLEL}'"];
    ["", "CRAWLDELAY RETRYAFTER", "-1 0 {TEN_YEARS+1} 9223372036854775808 99999999999999999999999", "", ""];
    ["", "WEIGHT", "1 {MAX_WEIGHT}", "0 {MAX_WEIGHT+1}", "'1 to {MAX_WEIGHT}'"];
    ["", "depth", "0 4294967295", "4294967296", "'0 to 4294967295'"];
    ["ADD", "n", "9223372036854775807", "0", "'1 to 9223372036854775807'"];
    ["RELEASE", "count", "1 9223372036854775807", "", ""];
    ["SWEEP", "LIMIT", "1 9223372036854775807", "0", "'1 to 9223372036854775807'"];
    ["LIMIT", "BUDGET", "-1 0 9223372036854775807", "", "'0 to 9223372036854775807'"];
    ["", "factor", "0 0.001 1000", "1001 1000.001 0.0001", "'0 to 1000'"];
    ["RELEASE", "status", "-9999 999", "-10000 1000", "'-9999 to 999'"];
];

const WORDS: &str = "\
    0 1 2 3 -1 9 100 1000 60000 0.5 1e9 nan -9223372036854775808 4000000000000 4000000000500 \
    4000000000000000 host-0 host-0 host-1 host-2 host-3 crawl-0 crawl-0 crawl-1 crawl-2 shared \
    NOW SEQ WEIGHT LEASE COUNT BLOCK AT DELAY ELAPSED FACTOR MIN MAX CRAWLDELAY RETRYAFTER \
    STATUS DONE RETRY NEXT LIMIT UNTIL EXECUTION PARALLEL GAP BUDGET GROUP STATE waiting CURSOR NEVER \
    ready:9 busy:inf:x 0-1-2-3 429 503 http://e.com/ all e:crawl-0 n";

const VALUES: &[(&str, &str)] = &rows![
    "chg from to", "host-0 host-1 host-2 waiting ready held kept parallel member1";
    "execution", "crawl crawl-0 crawl-1 other held-back";
    "at time", "0 4000000000000 4000000000500 <soon>";
    "token", "<held> <kept> <parallel>";
    "group", "shared '' another";
    "writer", "writer w";
    "n count fetches uris groups weight depth status", "1 2 3 9";
    "milliseconds elapsed min max delay-milliseconds", "1 5 60 1000";
    "uri", "http://e.com/ http://kept/9";
];
