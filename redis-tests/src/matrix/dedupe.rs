//! `DEDUPE.*`: an index with committed crawls, one of which was continued, a running crawl, and a
//! claim.

use super::family::{Family, State};
use crate::corpus::{DATE, sha256_of};
use crate::crawler::{add, assert_consistent, commit};
use crate::server::Options;
use crate::wire::Wire;

pub(super) fn family(storage: &'static str) -> Family {
    Family {
        name: "DEDUPE",
        storage,
        samples: SAMPLES,
        refused: &[("PROFILE browsertrix", "HASCRAWLS")],
        reads: READS,
        without_memory: "unclaim cancel retain remove pack profile urls",
        keys: KEYS,
        fields: FIELDS,
        aliases: &[("n", "sequence number"), ("revisit-size", "size")],
        resumed: &["COMMIT open"],
        invalid: INVALID,
        limits: LIMITS,
        unbounded: "",
        words: WORDS,
        values: VALUES,
        assert_consistent: |c, state| assert_consistent(c, &state.prefix),
        options: Options::new,
        fill,
    }
}

/// Crawls `a` (hashes 0 to 4, later also 40) and `b` (3 to 8) are committed. `open` (20) is running
/// and has claimed hash 30.
fn fill(c: &mut Wire, p: &str) -> State {
    let mut state = State::new("DEDUPE", p, None).with("date", DATE);
    for (name, n) in [("h1", 1), ("h2", 2), ("h20", 20), ("h30", 30), ("h77", 77)] {
        state = state.with(name, sha256_of(n));
    }
    c.expect_ok(&state.words("URLS ON"));
    for (crawl, hashes) in [("a", 0..5), ("b", 3..9)] {
        add(c, p, crawl, hashes);
        c.expect_ok(&state.words(&format!("WACZOPEN {crawl} {crawl}.wacz")));
        commit(c, p, crawl);
    }
    for line in ["REVISIT b <h1> 5", "COMMIT b"] {
        c.expect_ok(&state.words(line));
    }
    add(c, p, "a", [40]);
    add(c, p, "open", [20]);
    for line in [
        "WACZOPEN open open.wacz",
        "REVISIT open REF u <h1> 5",
        "ADD open SEQ writer 3 <h2> 0 <date> http://e.com/ 5",
    ] {
        c.expect_ok(&state.words(line));
    }
    let claim = c.expect_ok(&state.words("CLAIM open <h30> PX 3600000"));
    state.with("token", claim.items()[1].text())
}

const SAMPLES: &[&str] = &rows![
    "LOOKUP <h1>"; "LOOKUP CRAWL a WITHWACZ <h1> <h2>"; "LOOKUP FORMAT RECORD <h1> <h77>"; "CLAIM a <h77> PX 1000";
    "CLAIM open <h1> PX 1000 FORMAT RECORD";
    "CLAIM a <h30> PX 1000 BLOCK 1"; "CLAIM a <h1> PX 1000 BLOCK 1 WITHWACZ";
    "CLAIM open <h1> PX 1000 WITHWACZ"; "UNCLAIM <h30> <token>"; "ADD new <h77> 0 <date> http://e.com/ 5";
    "ADD open TOKEN <token> SEQ writer 7 EARLIEST <h30> 0 <date> http://e.com/ 5 <h77> 1 <date> http://e.com/2 6";
    "ADD a EARLIEST <h77> 0 <date> http://e.com/ 5"; "ADD a SEQ w 9 <h77> 0 <date> http://e.com/ 5";
    "BEGIN a"; "BEGIN new"; "BEGIN new VISIBLE"; "REVISIT new <h1> 5";
    "REVISIT new <h1> 5 ORIGINAL other 0 9"; "REVISIT new REF uuid SEQ writer 7 <h1> 5 ORIGINAL a 0 9 <h2> 5";
    "REVISIT a NOREF <h1> 5"; "REVISIT a REF u <h1> 5"; "WACZOPEN new new.wacz"; "WACZOPEN a new.wacz";
    "WACZCLOSE a 0 a.wacz sha256:ab 5"; "WACZCLOSE open 0 open.wacz sha256:cd 5";
    "WACZCLOSE open 0 closed.wacz sha256:cd 5 RENAME"; "WACZLIST a"; "COMMIT open"; "COMMIT a"; "COMMIT a open";
    "CANCEL open";
    "CANCEL a"; "RETAIN a"; "RETAIN PURGE a b"; "REMOVE a"; "REQUIRES a"; "REMOVE b a"; "REQUIRES b";
    "REQUIRES b TRANSITIVE"; "REQUIRES REF u"; "REQUIRES REFS 'a 0' 'b 0' FORMAT RESP";
    "REQUIRES a FORMAT JSON"; "REQUIREDBY a"; "STATS"; "STATS a"; "STATS SAMPLES 2"; "CRAWLS"; "CRAWLS COMMITTED";
    "CRAWLS UNCOMMITTED"; "CRAWLS UNLISTED"; "CHECK"; "REPAIR"; "PROFILE"; "PROFILE document"; "PACK";
    "UNPACK"; "URLS OFF"; "URLS ON"; "LOOKUPURL http://example.com/page/1";
    "LOOKUPURL CRAWL open LIMIT 2 BEFORE 2030-01-01T00:00:00Z http://example.com/page/1 http://e.com/";
];

const READS: &[&str] = &rows![
    "LOOKUP <h1> <h2> <h20> <h77>"; "LOOKUP <h1>"; "LOOKUP FORMAT RECORD <h1>"; "LOOKUP CRAWL open WITHWACZ <h1> <h2> <h20>"; "WACZLIST a";
    "WACZLIST open"; "STATS"; "STATS a"; "CRAWLS"; "REQUIRES b"; "REQUIRES REF u"; "REQUIREDBY a"; "CHECK"; "LOOKUPURL http://example.com/page/1 http://example.com/page/20";
];

const KEYS: &str = "\
    h:a h:a:counts c:a:wacz uncommittedcrawls allcrawls allhashes allcounts a:reqCrawls \
    u:duperefs src:d crawlspace committing removing commits holders claims h:a:baseline \
    h:a:added h:a:merging h:a:unstored h:a:deps h:a:refs h:a:seq h:a:urls";

const INVALID: &[[&str; 4]] = &rows![
    ["", "crawl", "'' a:counts a:wacz", "BADCRAWL"];
    ["WACZCLOSE WACZLIST COMMIT CANCEL RETAIN REMOVE REQUIRES REQUIREDBY STATS", "crawl", "unknown", "unknown"];
    ["LOOKUP CLAIM UNCLAIM ADD REVISIT", "hash",
        "'' sha256: short 'a line\nbreak in it' 'sixteen bytes..\0.' 'sixteen bytes..\x7f.'", "BADHASH"];
    ["", "size revisit-size", "-1", "size"];
    ["", "waczIndex index", "-1", "index"];
    ["", "n", "-1 0", "'sequence number'"];
    ["", "PX", "-1", "PX"]; ["", "LIMIT", "-1 0", "LIMIT"];
    ["", "BLOCK", "-1", "BLOCK"];
    ["", "date", "'' yesterday '1 2' 2026-03-19\n", "date BEFORE"];
    ["", "reference", "'' a 'a x'", "reference unexpected"];
];

const LIMITS: &[[&str; 5]] = &rows![
    ["", "prefix", "x*{PREFIX_BYTES}", "x*{PREFIX_BYTES+1}", "BADPREFIX 'maximum is {PREFIX_BYTES}'"];
    ["", "crawl", "x*1 x*{CRAWL_BYTES}", "x*{CRAWL_BYTES+1}", "BADCRAWL '1 to {CRAWL_BYTES} bytes'"];
    ["LOOKUP CLAIM UNCLAIM ADD REVISIT", "hash", "x*{MIN_HASH_BYTES} x*{MAX_HASH_BYTES}",
        "x*15 x*{MAX_HASH_BYTES+1}", "BADHASH '{MIN_HASH_BYTES} to {MAX_HASH_BYTES} bytes'"];
    ["WACZCLOSE", "hash", "'' x*{WACZ_HASH_BYTES}", "x*{WACZ_HASH_BYTES+1}", "'maximum is {WACZ_HASH_BYTES}'"];
    ["ADD REVISIT WACZCLOSE", "size revisit-size waczIndex", "0 9007199254740991", "9007199254740992",
        "'0 to 9007199254740991'"];
    ["WACZCLOSE", "index", "0", "4294967296", "'0 to 4294967295'"];
    ["", "n token", "9223372036854775807", "0", "'1 to 9223372036854775807'"];
    ["", "LIMIT", "1 {MAX_CAPTURES}", "0 {MAX_CAPTURES+1}", "'1 to {MAX_CAPTURES}'"];
    ["", "PX", "1 {CLAIM_MS}", "0 {CLAIM_MS+1}", "'1 to {CLAIM_MS}'"];
    ["", "BLOCK", "0 {CLAIM_MS}", "{CLAIM_MS+1}", "'0 to {CLAIM_MS}'"];
    ["", "date", "2026-03-19T12:00:00.123456+01:00", "2026-03-19T12:00:00.1234567+01:00", "'maximum is {DATE_BYTES}'"];
    ["", "url", "x*{URL_BYTES}", "x*{URL_BYTES+1}", "'maximum is {URL_BYTES}'"];
    ["", "writer uuid", "x*{WRITER_BYTES}", "x*{WRITER_BYTES+1}", "'maximum is {WRITER_BYTES}'"];
    ["", "filename", "x*{FILENAME_BYTES}", "x*{FILENAME_BYTES+1}", "'maximum is {FILENAME_BYTES}'"];
];

/// Hash fields that are always or sometimes missing in the state.
const FIELDS: &[(&str, &str)] = &rows![
    "crawlspace", "profile"; "crawlspace", "format"; "committing", "open"; "committing", "nobody";
    "removing", "a"; "removing", ""; "commits", "1"; "commits", "x"; "holders", "<h1>"; "claims", "<h77>";
    "h:a:baseline", "x"; "h:a:baseline", "commits"; "h:a:deps", "b"; "h:a:added", "<h1>";
    "h:a:merging", "<h1>"; "h:a:unstored", "<h1>"; "h:a:seq", "w"; "allhashes", "<h1>";
];

const WORDS: &str = "\
    VISIBLE ORIGINAL RENAME a b a b c u 0 1 2 -1 x CRAWL WITHWACZ PX BLOCK TOKEN SEQ EARLIEST \
    REF REFS NOREF PURGE TRANSITIVE FORMAT RESP JSON UNCOMMITTED COMMITTED UNLISTED document \
    browsertrix 'a 0' 'b 1' w.wacz http://e.com/ a:counts <date> <date> <h1> <h2> <h20> <h30> \
    <h77> <h1> <h2> <token>";

const VALUES: &[(&str, &str)] = &rows![
    "crawl", "a b a b open"; "hash", "<h1> <h2> <h20> <h30> <h77>";
    "date", "<date> 20200101000000 2030-01-01T00:00:00+01:00"; "url", "http://e.com/";
    "size revisit-size", "0 7 300 899"; "waczIndex index", "0 1";
    "filename", "w.wacz v.wacz a.wacz open.wacz"; "milliseconds", "50"; "token", "1 2 3 4";
    "writer", "writer w"; "n", "1 2 7 9"; "uuid", "u"; "reference", "'a 0' 'b 1'";
];
