//! `TAGS.*`: a tag space with every kind of entry.

use super::family::{Family, State};
use crate::server::Options;
use crate::wire::Wire;

pub(super) fn family() -> Family {
    Family {
        name: "TAGS",
        storage: "",
        samples: SAMPLES,
        refused: &[("SWAP TAG", "NOSTAGE"), ("SWAP RECORD", "NOSTAGE")],
        reads: READS,
        without_memory: "rem ruledel pointdel swap",
        keys: "''",
        fields: &[],
        aliases: &rows![
            "id", "tag"; "tags", "tag"; "name", "access point"; "field[:n]", "field";
        ],
        resumed: &[],
        invalid: INVALID,
        limits: LIMITS,
        unbounded: "key line text spec prefix",
        words: WORDS,
        values: VALUES,
        assert_consistent: |_, _| (),
        options: Options::new,
        fill,
    }
}

fn fill(c: &mut Wire, key: &str) -> State {
    let state = State::new("TAGS", key, None);
    for line in rows![
        "ADD RECORD 'k 2020 f 5' of-record"; "ADD FILE f of-file"; "ADD TAG of-file org:1";
        "LOAD FILE STAGE g of-staged"; "RULESET r filename (.) x:$1"; "POINTSET p of-file";
        "POINTSET p-(\\d+) org:$1";
    ] {
        c.expect_ok(&state.words(line));
    }
    state
}

const SAMPLES: &[&str] = &[
    "ADD RECORD 'k 2020 f 5' t",
    "ADD FILE f t u",
    "ADD TAG t u",
    "REM RECORD 'k 2020 f 5' of-record",
    "REM FILE f of-file t",
    "REM TAG of-file org:1",
    "GET FILE f ALL",
    "GET RECORD 'k 2020 f 5'",
    "GET TAG of-file",
    "LOAD FILE MERGE f t g 't u'",
    "LOAD RECORD SET f t",
    "LOAD TAG REPLACE f t",
    "LOAD FILE STAGE f t",
    "LOAD FILE STAGE",
    "SWAP FILE",
    "SWAP FILE EXPECT 1",
    "SWAP FILE DISCARD",
    "SWAP RECORD DISCARD",
    "SWAP TAG DISCARD",
    "RULESET r filename (.)(.) x:$1 $2",
    "RULESET new status (?P<a>.) ${a}",
    "RULESET plain filename x t",
    "RULEDEL r",
    "RULES",
    "POINTSET p 'of-file & !x'",
    "POINTSET q-(.) org:$1",
    "POINTDEL p",
    "POINTS",
    "POINTS p-7",
    "FILTER LINES 'k 2020 u m 200 d 7'",
    "FILTER POINT p-1 WHERE of-file FILTER status:2.. tag.org:1 DIALECT IA COLLAPSE timestamp:4 SKIP 0 LIMIT 5 FORMAT AUTO BADLINES DROP RETURN INDEX LINES 'k 2020 u m 200 d 7' x",
    "FILTER DIALECT OUTBACK FORMAT CDX RETURN LINES LINES 'k 2020 u m 200 d 7'",
    "FILTER FILTER =status:200 DIALECT PYWB LINES 'k 2020 {}'",
    "FILTER WHERE of-file FORMAT FILE RETURN COUNT BLOB f",
    "FILTER FORMAT RECORD RETURN TAGS LINES 'k 2020 f 5'",
    "FILTER FORMAT CDXJ BADLINES ERROR RETURN BITS LINES 'k 2020 {}'",
    "FILTER WHERE 'filename~\"^(f|g)$\" & url*=x | c:{a|b}' FORMAT FILE LINES f",
    "EXPLAIN LINES 'k 2020 u m 200 d 7'",
    "EXPLAIN POINT p WHERE 'of-file | x' FILTER tag.org:1 status:2.. DIALECT OUTBACK COLLAPSE timestamp:4 SKIP 0 LIMIT 5 FORMAT FILE BADLINES ERROR RETURN LINES LINES f",
    "EXPLAIN DIALECT IA FORMAT CDX BADLINES DROP RETURN INDEX LINES 'k 2020 u m 200 d 7'",
    "EXPLAIN DIALECT PYWB FORMAT CDXJ RETURN BITS LINES 'k 2020 {}'",
    "EXPLAIN FORMAT AUTO RETURN COUNT LINES 'k 2020 u m 200 d 7'",
    "EXPLAIN FORMAT RECORD RETURN TAGS LINES 'k 2020 f 5'",
    "LIST 'of-* & org:1' PREFIX of CURSOR 0 COUNT 10",
    "LIST *",
    "SCAN FILE 0 PREFIX f COUNT 5",
    "SCAN TAG 0",
    "SCAN RECORD 0",
    "INFO",
];

const READS: &[&str] = &rows![
    "INFO"; "RULES"; "POINTS"; "SCAN FILE 0"; "SCAN TAG 0"; "SCAN RECORD 0"; "LIST *"; "GET FILE f ALL";
    "FILTER POINT p FORMAT FILE RETURN TAGS LINES f g"; "EXPLAIN POINT p FORMAT FILE LINES f";
];

const INVALID: &[[&str; 4]] = &[
    ["ADD REM LOAD GET", "id", "''", "id tag"],
    ["ADD REM", "tag", "'' 'a b'", "tag"],
    ["RULESET POINTSET", "name", "''", "name"],
    ["RULESET", "field", "'' 'a b'", "field"],
];

const LIMITS: &[[&str; 5]] = &rows![
    ["'ADD FILE' 'ADD RECORD' 'REM FILE' 'REM RECORD' 'GET FILE' 'GET RECORD' 'LOAD FILE' 'LOAD RECORD'",
        "id", "x*{ID_BYTES}", "x*{ID_BYTES+1}", "{ID_BYTES}"];
    ["'ADD TAG' 'REM TAG' 'GET TAG' 'LOAD TAG'", "id", "x*{TAG_BYTES}", "x*{TAG_BYTES+1}", "{TAG_BYTES}"];
    ["ADD REM LOAD", "tag tags", "x*{TAG_BYTES}", "x*{TAG_BYTES+1}", "{TAG_BYTES}"];
    ["RULESET RULEDEL", "name", "x*{RULE_NAME_BYTES}", "x*{RULE_NAME_BYTES+1}", "{RULE_NAME_BYTES}"];
    ["POINTSET POINTDEL", "name", "x*{POINT_NAME_BYTES}", "x*{POINT_NAME_BYTES+1}", "{POINT_NAME_BYTES}"];
    ["RULESET", "field", "x*{FIELD_BYTES}", "x*{FIELD_BYTES+1}", ""];
    ["RULESET", "regex", "x*65536", "x*65537", "BADRE 65536"];
    ["RULESET", "template", "x*{TEMPLATE_BYTES}", "x*{TEMPLATE_BYTES+1}", "TOOBIG 'maximum is {TEMPLATE_BYTES}'"];
    ["POINTSET FILTER EXPLAIN LIST", "expression", "x*{EXPRESSION_BYTES}", "x*{EXPRESSION_BYTES+1}",
        "TOOBIG 'maximum is {EXPRESSION_BYTES}'"];
    ["LIST SCAN", "COUNT", "1 {MAX_COUNT}", "0 {MAX_COUNT+1}", "'1 to {MAX_COUNT}'"];
    ["FILTER EXPLAIN", "SKIP LIMIT", "0 9223372036854775807", "", "'0 to 9223372036854775807'"];
    ["SWAP", "EXPECT", "1", "", "'0 to 9223372036854775807'"];
];

const WORDS: &str = "\
    ' ' 0 1 -1 1.5 1e9 nan x RECORD FILE TAG ALL MERGE SET REPLACE STAGE EXPECT DISCARD POINT \
    WHERE FILTER DIALECT COLLAPSE SKIP LIMIT FORMAT BADLINES RETURN LINES BLOB PREFIX CURSOR \
    COUNT DROP PYWB CDX BITS status:200 tag.a:b a:b:c : status timestamp: * a|b&!c @p-1 @nobody \
    (((( \" ' \\ (a+)+$ ( [a a{1000}{1000} $1 ${ 'k 2020 u m 200 d 7' 'k 2020 {\"a\":1}' ' CDX' \
    \n \r\n a\nb 'k 2020 f 5' (*70000 !*70000";

const VALUES: &[(&str, &str)] = &rows![
    "id", "f g 'k 2020 f 5' of-file"; "tag", "t u of-file org:1 of-record"; "tags", "t 't u' '' of-file";
    "name point", "r new p p-1"; "field", "filename status"; "regex", "(.) (.)(.) ^f$"; "template", "x:$1 y";
    "expression", "of-file 't & !u' * @p 'x:*'"; "spec", "status:2.. tag.org:1 filename:f";
    "field[:n]", "timestamp:4 urlkey"; "line", "f g 'k 2020 u m 200 d 7' 'k 2020 f 5'";
    "cursor skip limit count ids", "0 1 5"; "prefix", "f of";
];
