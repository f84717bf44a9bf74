//! The targets of all rows in one table.

use crate::report::Goal::{self, AtLeast, AtMost, Never};

/// Defines a constant for each line, so that a row can name its target, and the list of all
/// targets.
macro_rules! targets {
    ($($name:ident $id:literal $what:literal $goal:expr;)+) => {
        $(
            #[doc = concat!("Target of ", $id, ": ", $what, ".")]
            pub const $name: Goal = $goal;
        )+

        /// The id of the rows and the target, for each line of the table.
        #[cfg(test)]
        pub const ALL: &[(&str, Goal)] = &[$(($id, $name)),+];
    };
}

// The columns are: constant, id of the rows, measured quantity, kind and value of the target.
// `AtLeast` is a ratio to the peer; higher is better.
targets! {
    KNOWN_LOOKUP         "D0" "instructions of `LOOKUP` of a known hash, packed"      AtMost(10_400.0, "instructions");
    RECORD_LOOKUP        "D0" "instructions of `LOOKUP … FORMAT RECORD`, packed"      AtMost(9_200.0, "instructions");
    UNKNOWN_LOOKUP       "D0" "instructions of `LOOKUP` of an unknown hash, packed"   AtMost(7_500.0, "instructions");
    LOOKUP_PLAIN         "D1" "rate of `LOOKUP` on plain keys against `HGET`"         AtLeast(0.45);
    LOOKUP_PACKED        "D1" "rate of `LOOKUP` on a packed index against `HGET`"     AtLeast(0.65);
    LOOKUP_RECORD        "D1" "rate of `LOOKUP … FORMAT RECORD` against `HGET`"       AtLeast(0.75);
    LOOKUP_PACKED_LARGE  "D1" "the same at 10 million hashes"                         AtLeast(1.2);
    SCRIPT_PLAIN         "D2" "rate of `LOOKUP` on plain keys against a script"       AtLeast(1.4);
    SCRIPT_PACKED        "D2" "rate of `LOOKUP` on a packed index against a script"   AtLeast(2.8);
    SCRIPT_RECORD        "D2" "rate of `LOOKUP … FORMAT RECORD` on a packed index"      AtLeast(3.5);
    ONE_BY_ONE           "D3" "rate of one connection against two look-ups"           AtLeast(1.9);
    HUNDRED_PLAIN        "D4" "rate of 100 hashes per call on plain keys"             AtLeast(1.2);
    HUNDRED_PACKED       "D4" "rate of 100 hashes per call on a packed index"         AtLeast(3.0);
    COMMIT_CLIENT        "D5" "speed of `COMMIT` against the client loop"             AtLeast(12.0);
    COMMIT_SCRIPT        "D5" "speed of `COMMIT` against a script, server idle"       AtLeast(1.0);
    COMMIT_LOADED        "D5" "speed of `COMMIT` against a script under load"         AtLeast(0.6);
    COMMIT_PACKED        "D5" "speed of `COMMIT` on a packed index against plain keys" AtLeast(1.0);
    COMMIT_SLICE         "D5" "longest slice of `COMMIT`"                             Never(1.0, "ms");
    COMMIT_OTHERS        "D5" "waits of other clients during `COMMIT`"                AtMost(3.0, "ms");
    MEMORY               "D6" "memory per hash in a packed index"                     AtMost(80.0, "B");
    FILE                 "D7" "size of the RDB file of a packed index"                AtLeast(3.0);
    LOAD                 "D7" "time to load a packed index"                           AtLeast(6.0);
    REMOVE_CLIENT        "D8" "speed of `REMOVE` against a rebuild by the client loop" AtLeast(40.0);
    REMOVE_SCRIPT        "D8" "speed of `REMOVE` against a rebuild by a script"       AtLeast(4.0);
    REMOVE_SLICE         "D8" "longest slice of `REMOVE`"                             Never(1.0, "ms");
    REMOVE_OTHERS        "D8" "waits of other clients during `REMOVE`"                AtMost(3.0, "ms");
    UNUSED               "D9" "rate of other commands, module loaded but not used"    AtLeast(0.98);
    USED                 "D9" "rate of other commands, module in use"                 AtLeast(0.85);
    USED_COUNTS          "D9" "rate of `HINCRBY` of a crawl's counts, module in use"  AtLeast(0.78);
    SLICE                "D10" "longest slice of a job"                               Never(1.0, "ms");
    PLAIN_COMMANDS       "D11" "rate of plain look-ups on a packed index"             AtLeast(0.95);
    COPY                 "D12" "hashes copied against 100 000 per second"              AtLeast(1.0);
    PACKING_SLICE        "" "longest slice of `PACK` and `UNPACK`"                    Never(1.0, "ms");
    PACKING_OTHERS       "" "waits of other clients during `PACK` and `UNPACK`"       AtMost(3.0, "ms");
    PAGE_INSTRUCTIONS    "C0" "instructions of `RELEASE … DONE … NEXT`, packed"      AtMost(20_000.0, "instructions");
    NEW_INSTRUCTIONS     "C0" "instructions of `ADDURI` of a new URI, packed"         AtMost(14_000.0, "instructions");
    KNOWN_INSTRUCTIONS   "C0" "instructions of `ADDURI` of a known URI, packed"       AtMost(9_000.0, "instructions");
    NEXT_INSTRUCTIONS    "C0" "instructions of `NEXT`, packed"                        AtMost(13_000.0, "instructions");
    PAGES                "C1" "pages of one client against Veidemann's sequence"      AtLeast(8.0);
    ADD_SEED             "C2" "processor time of `ADD` against Veidemann's script"     AtMost(0.95, "×");
    ADD_SCRIPT           "C2" "time of `ADD` against an atomic script"                AtMost(0.95, "×");
    NEXT_SEED            "C2" "processor time of `NEXT` against Veidemann's script"    AtMost(0.5, "×");
    NEXT_SCRIPT          "C2" "time of `NEXT` against an atomic script"               AtMost(0.65, "×");
    RELEASE_SEED         "C2" "processor time of `RELEASE` against Veidemann's commands" AtMost(0.25, "×");
    RELEASE_SCRIPT       "C2" "time of `RELEASE` against an atomic script"            AtMost(0.8, "×");
    GROWTH               "C2" "time added by a larger frontier against a script's"    AtMost(1.0, "×");
    SWEEP_SLICE          "C3" "longest slice of `SWEEP`"                              Never(1.0, "ms");
    SWEEP_OTHERS         "C3" "waits of other clients during `SWEEP`"                 AtMost(3.0, "ms");
    WITHOUT_SWEEP        "C3" "time of `NEXT` with many groups due against few"       AtMost(1.2, "×");
    WAKEUP               "C4" "99th percentile from the due time to the lease"        AtMost(2.0, "ms");
    PAGES_PACKED         "C1" "pages of one client of a packed frontier"              AtLeast(12.0);
    SATURATED_PACKED     "C5" "pages of a saturated packed frontier against an atomic script" AtLeast(6.0);
    SATURATED_PACKED_SEQUENCE "C5" "pages of a saturated packed frontier against Veidemann's sequence" AtLeast(25.0);
    SATURATED_SCRIPT     "C5" "pages of a saturated server against an atomic script"  AtLeast(1.4);
    SATURATED_SEQUENCE   "C5" "pages of a saturated server against Veidemann's sequence" AtLeast(7.0);
    FRONTIER_MEMORY      "C6" "memory per kept URI against a small frontier"          AtMost(1.05, "×");
    FRONTIER_PAGE        "C6" "time per page against a small frontier"                AtMost(2.0, "×");
    FRONTIER_URI         "C6" "memory per kept URI of a packed frontier"              AtMost(70.0, "B");
    FRONTIER_FILE        "C6" "size of the RDB file of a packed frontier against plain keys" AtMost(0.6, "×");
    FRONTIER_LOAD        "C6" "time to load a packed frontier against plain keys"     AtMost(0.3, "×");
    PACKING_RATE         "C7" "URIs moved by `PACK` and `UNPACK` against 500 000 per second" AtLeast(1.0);
    FRONTIER_PACKING_SLICE "C7" "longest slice of `PACK` and `UNPACK`"                Never(1.0, "ms");
    PACKING_MEMORY       "C7" "peak memory above that of the plain frontier"          AtMost(5.0, "%");
    KNOWN_MEMORY         "K1" "memory of a done URL"                                  AtMost(22.0, "B");
    KNOWN_FILE           "K1" "RDB file per done URL"                                 AtMost(18.0, "B");
    KNOWN_TIME           "K1" "time of `DISCOVER` of a known URL"                     AtMost(2.0, "µs");
    NEW_TIME             "K1" "time of `DISCOVER` of a new URL against `ADDURI`"      AtMost(1.15, "×");
    NEXT_EXECUTION       "K1" "time of `NEXT … EXECUTION` behind due groups of other executions" AtMost(50.0, "µs");
    GRPC_KNOWN           "G1" "PutDiscovered of known URLs against 150 000 per second" AtLeast(1.0);
    GRPC_NEW             "G1" "PutDiscovered of new URLs against 70 000 per second"   AtLeast(1.0);
    GRPC_SINGLE          "G1" "PutURLs of new URLs against 40 000 per second"         AtLeast(1.0);
    GRPC_GET             "G1" "URLs of GetURLs against 50 000 per second"             AtLeast(1.0);
    GRPC_CLOSED          "G1" "99th percentile of GetURLs with many closed queues"    AtMost(50.0, "ms");
    COMMAND              "commands" "longest call of a command"                       AtMost(1.0, "ms");
    LOGGED_BYTES         "log" "bytes that a page of a packed frontier adds to a log" AtMost(200.0, "B");
    LOGGED_TIME          "log" "processor time that both logs add, packed"            AtMost(15.0, "%");
    AFTER_PAUSE          "pauses" "first `NEXT` after a pause"                        AtMost(1000.0, "µs");
    FILTER               "T1" "time per capture of a filter for public captures"      AtMost(100.0, "ns");
    TOGGLE               "T2" "time of a change of visibility"                        AtMost(10.0, "µs");
    AFTER_TOGGLE         "T2" "time of a filter right after a change"                 AtMost(1.2, "×");
    BATCH_OTHERS         "" "waits of other clients during a large batch"             AtMost(3.0, "ms");
    IMPORT               "I1" "lines per second of one indexer"                       AtLeast(20.0);
    TWO_IMPORTS          "I2" "lines per second of two indexers against one"          AtLeast(1.6);
    SMALL_FILE           "I3" "server time per small file"                            AtMost(0.3, "ms");
    SMALL_COMMANDS       "" "commands per small file"                                 AtMost(15.0, "commands");
    CDXJ                 "I4" "captures indexed against cdxj-indexer"                 AtLeast(10.0);
    CDXJ_FASTWARC        "I4" "captures indexed against FastWARC and a sort"          AtLeast(1.5);
    CDXJ_THREADS         "I4" "captures indexed by two threads against one"           AtLeast(1.8);
    INDEX_QUERY          "F1" "index queries against pywb"                            AtLeast(10.0);
    PREFIX_QUERY         "F2" "prefix queries against pywb"                           AtLeast(20.0);
    GROUP_QUERY          "F2" "queries of a group against pywb"                       AtLeast(20.0);
    RESOURCE             "F3" "resources against pywb"                                AtLeast(10.0);
    HANGING              "F4" "first byte after the timeout"                          Never(50.0, "ms");
    HANGING_MEMORY       "F4" "growth over the second half of 10 000 queries"         AtMost(2.0, "MB");
    CLOSEST              "F5" "speed of `closest` against pywb"                       AtLeast(50.0);
    CLOSEST_OTHERS       "F5" "waits of other clients during `closest`"               AtMost(10.0, "ms");
    HTTP_LOOKUPS         "U1" "look-ups over HTTP against 20 000 per second"          AtLeast(1.0);
    HTTP_PYWB            "U1" "look-ups over HTTP against pywb"                       AtLeast(10.0);
    HTTP_WAIT            "U1" "99th percentile at 20 000 look-ups per second"         AtMost(5.0, "ms");
    PACKAGE              "U2" "requests to a package against plain files"             AtLeast(0.8);
    RULES_ROW            "U3" "time that rules add to a row of a prefix query"        AtMost(150.0, "ns");
    RULES_QUERY          "U3" "time that rules add to a query with one row"           AtMost(2000.0, "ns");
    MANY_PACKAGES        "U4" "processor time per query of a folder of packages"      AtMost(1.5, "×");
    MANY_FILES           "U4" "processor time per query of a folder of CDX files"     AtMost(3.0, "×");
    HIT                  "X1" "a hit"                                                 AtMost(50.0, "µs");
    COLD                 "X2" "time of a cold index against a sort"                   AtMost(3.0, "× its time");
    ONE_MORE             "X3" "speed of adding a job against a rebuild"               AtLeast(20.0);
    PYTHON               "P1" "processor time of calls against redis-py"              AtMost(1.1, "×");
    SCRAPY               "S1" "processor time of crawlers against scrapy-redis"       AtMost(1.05, "×");
    SCRAPY_PAGES         "S1" "pages per second against scrapy-redis"                 AtLeast(1.0);
    SCRAPY_SERVER        "S1" "processor time of the server per page"                 AtMost(60.0, "µs");
    JAVASCRIPT           "P2" "processor time of calls against ioredis and node-redis" AtMost(1.1, "×");
}
