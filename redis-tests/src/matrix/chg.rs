//! `CHG.*`: a frontier with a group in every state.

use super::family::{Family, Invalid, State};
use crate::busy_frontier::BusyFrontier;
use crate::frontier::{Frontier, T0, simulated};
use crate::wire::Wire;

pub(super) fn family() -> Family {
    Family {
        name: "CHG",
        storage: "",
        samples: SAMPLES,
        refused: &[],
        reads: READS,
        without_memory: "next release extend sweep expired block pause resume drop",
        keys: KEYS,
        invalid: INVALID,
        words: WORDS,
        options: simulated,
        fill,
    }
}

fn fill(c: &mut Wire, prefix: &str) -> State {
    let mut f = Frontier::over(c.handle(), prefix);
    f.now = Some(T0);
    let out = BusyFrontier::build(&mut f);
    let now = f.time();
    State::new("CHG", prefix, Some(now))
        .with("now", now)
        .with("soon", now + 5000)
        .with("held", out.held.token)
        .with("kept", out.kept.token)
        .with("execution-of-kept", out.kept.execution.expect("a kept URI"))
}

const SAMPLES: &[&str] = &[
    "ADD new new <soon>",
    "ADD crawl SEQ writer 7 new <soon> waiting <soon>",
    "ADDURI new new <soon> 1 http://e.com/",
    "ADDURI crawl WEIGHT 3 new <soon> 1 http://e.com/ kept <soon> 0 http://kept/9",
    "NEXT",
    "NEXT LEASE 1000 COUNT 2",
    "NEXT LEASE 1000 COUNT 1 BLOCK 1",
    "NEXT LEASE 1000 GROUP ready",
    // It waits, so it goes by the server's own time.
    "RELEASE held <held> AT 0 DONE crawl 1 NEXT LEASE 1000 BLOCK 1",
    "RELEASE held <held> AT <soon> DONE crawl 2 NEXT",
    "RELEASE held <held> DELAY 1000 DONE crawl",
    "RELEASE kept <kept> DELAY 1000 RETRY <soon>",
    "RELEASE kept <kept> ELAPSED 5 DONE <execution-of-kept>",
    "RELEASE held <held> ELAPSED 1000 FACTOR 1.5 MIN 10 MAX 5000 CRAWLDELAY 10 RETRYAFTER 10 STATUS 200",
    "RELEASE held <held> ELAPSED 1000 STATUS 503 DONE crawl NEXT LEASE 5",
    "EXTEND held <held> 1000",
    "SWEEP",
    "SWEEP LIMIT 5",
    "EXPIRED",
    "EXPIRED COUNT 5",
    "BLOCK waiting UNTIL <soon>",
    "PAUSE",
    "PAUSE waiting",
    "PAUSE EXECUTION crawl",
    "RESUME",
    "RESUME paused",
    "RESUME EXECUTION held-back",
    "LIMIT new PARALLEL 2",
    "LIMIT waiting PARALLEL 2 GAP 10 DELAY 10 BUDGET 10",
    "GROUP shared new",
    "GROUP shared waiting ready",
    "DROP crawl",
    "DROP GROUP waiting",
    "MOVE waiting new",
    "WHY waiting",
    "WHY held",
    "INFO",
    "LIST",
    "LIST STATE WAITING CURSOR 0 COUNT 5",
    "LIST STATE READY",
    "LIST STATE BUSY",
    "URIS kept",
    "URIS kept CURSOR 0 COUNT 5",
    "CHECK",
    "REPAIR",
    "EXTEND kept <kept> 1000",
    "MOVE ready later",
];

const READS: &[&str] = &[
    "INFO",
    "LIST",
    "LIST STATE WAITING",
    "LIST STATE READY",
    "LIST STATE BUSY",
    "WHY held",
    "WHY blocked",
    "WHY of-a-paused-crawl",
    "WHY member2",
    "WHY parallel",
    "URIS kept",
    "CHECK",
];

const KEYS: &[&str] = &[
    "CHG:waiting",
    "CHG:held",
    "CHG:kept",
    "chg_wait",
    "chg_busy",
    "chg_ready",
    "EIDC",
    "QCT",
    "chg_uris:kept",
    "chg_idle",
    "chg_token",
    "chg_past",
    "chg_paused",
    "chg_seq:crawl",
    "chg_expired",
    "chg_gate:shared",
    "chg_gated:shared",
];

const INVALID: &[Invalid] = &[];

const WORDS: &[&str] = &["x"];
