//! Checks that figures in the documentation equal those of docs/benchmarks/, and that limits and defaults equal the
//! constants in the source.
//!
//! [`MEASURED`] and [`CONSTANTS`] list sentences with a placeholder in braces for each number. A
//! placeholder names the source of the number; the page must contain the sentence with the number in
//! that position, written in one of the usual ways.

use std::collections::BTreeSet;

use super::{cells, files_in, read};

/// Sentences with figures of docs/benchmarks/. A placeholder names the beginning of a row, after `ours`, `theirs`
/// (columns) or `100M` (ours, times a hundred million, in GB).
const MEASURED: &[(&str, &[&str])] = &[
    (
        "README.md",
        &[
            "packed: {ours| D6 | memory per hash, packed: growth of `used_memory` |} bytes per hash \
             ({theirs| D6 | memory per hash, packed: growth of `used_memory` |} with plain keys)",
            "{ours| C1 | pages, one client, no pipeline} pages scheduled per second from one client \
             ({theirs| C1 | pages, one client, no pipeline} with the Lua scripts of the crawler Veidemann)",
            "public or private takes {ours| T2 | toggle of one collection: } µs,",
            "| Memory per hash, packed index | {ours| D6 | memory per hash, packed: growth of `used_memory` |} bytes \
             | {theirs| D6 | memory per hash, packed: growth of `used_memory` |} bytes:",
            "| Committing 500 000 hashes | {ours| D5 | `COMMIT` of 500 k hashes, plain keys | the doc} s \
             | {theirs| D5 | `COMMIT` of 500 k hashes, plain keys | the doc} s:",
            "| Pages scheduled per second, one client | {ours| C1 | pages, one client, no pipeline} \
             | {theirs| C1 | pages, one client, no pipeline}:",
            "| Changing the visibility of one of 10 000 collections | {ours| T2 | toggle of one collection: } µs |",
            "| Index queries per second, local CDXJ | {ours| F1 | index query, local CDXJ, 1 row} \
             | {theirs| F1 | index query, local CDXJ, 1 row}:",
            "beyond the timeout of an unresponsive source | {ours| F4 | first byte after the timeout} ms |",
        ],
    ),
    (
        "docs/guide/operations.md",
        &[
            "| hash of a plain index (64 hex digits, URL of usual length) | {ours|  | memory per hash, plain keys |} \
             | {100M|  | memory per hash, plain keys |} GB |",
            "index | {ours| D6 | memory per hash, packed: growth of `used_memory` |} \
             | {100M| D6 | memory per hash, packed: growth of `used_memory` |} GB |",
            "| … after a restart | {ours| D6 | after a restart: `used_memory` |} \
             | {100M| D6 | after a restart: `used_memory` |} GB |",
            "| … in the RDB file | {ours| D7 | RDB file per hash, packed |} \
             (plain: {ours|  | RDB file per hash, plain keys |}) | {100M| D7 | RDB file per hash, packed |} GB |",
            "a plain frontier that does not store its URIs | {ours|  | memory per group, URIs kept elsewhere |} \
             | {100M|  | memory per group, URIs kept elsewhere |} GB |",
            "stored in a plain frontier, with one URI per group | {ours|  | memory per kept URI, 1 in each group |} \
             | {100M|  | memory per kept URI, 1 in each group |} GB |",
            "| … with ten URIs per group | {ours|  | memory per kept URI, 10 in each group |} \
             | {100M|  | memory per kept URI, 10 in each group |} GB |",
            "| … with a thousand URIs per group | {ours|  | memory per kept URI, 1000 in each group |} \
             | {100M|  | memory per kept URI, 1000 in each group |} GB |",
            "frontier that does not store its URIs | {ours|  | memory per group, URIs kept elsewhere, packed |} \
             | {100M|  | memory per group, URIs kept elsewhere, packed |} GB |",
            "stored in a packed frontier, with one URI per group | {ours|  | memory per kept URI, 1 in each group, packed |} \
             | {100M|  | memory per kept URI, 1 in each group, packed |} GB |",
            "| … packed, with ten URIs per group | {ours|  | memory per kept URI, 10 in each group, packed |} \
             | {100M|  | memory per kept URI, 10 in each group, packed |} GB |",
            "| … packed, with a thousand URIs per group | {ours|  | memory per kept URI, 1000 in each group, packed |} \
             | {100M|  | memory per kept URI, 1000 in each group, packed |} GB |",
            "after it is done | {ours| K1 | memory of a done URL,} | {100M| K1 | memory of a done URL,} GB |",
            "| … remembered, in the RDB file | {ours| K1 | RDB file per done URL,} \
             | {100M| K1 | RDB file per done URL,} GB |",
            "| record with a tag | {ours|  | memory per tagged record |} \
             | {100M|  | memory per tagged record |} GB |",
            "adds {ours|  | append-only file per page |} bytes to the append-only file and the same to the stream to each",
            "replica ({100M|  | replication stream per page |} GB for 100 million)",
            "{ours| D4 | `LOOKUP` of 100 hashes a call, plain keys |} look-ups a second in calls of a hundred \
             ({ours| D4 | `LOOKUP` of 100 hashes a call, packed |} packed)",
        ],
    ),
    (
        "docs/guide/frontier-operating.md",
        &[
            "| a group whose URIs the crawler keeps | {ours|  | memory per group, URIs kept elsewhere |} B \
             | {ours|  | memory per group, URIs kept elsewhere, packed |} B |",
            "| a kept URI, with one URI per group | {ours|  | memory per kept URI, 1 in each group |} B \
             | {ours|  | memory per kept URI, 1 in each group, packed |} B |",
            "| a kept URI, with ten URIs per group | {ours|  | memory per kept URI, 10 in each group |} B \
             | {ours|  | memory per kept URI, 10 in each group, packed |} B |",
            "| a kept URI, with a thousand URIs per group | {ours|  | memory per kept URI, 1000 in each group |} B \
             | {ours|  | memory per kept URI, 1000 in each group, packed |} B |",
        ],
    ),
    (
        "docs/guide/dedupe-index.md",
        &["ten million hashes of {ours| D7 | RDB file per hash, packed |} bytes each (measured;"],
    ),
    (
        "docs/formats/packed-index.md",
        &[
            "takes {ours| D7 | RDB file per hash, packed |} bytes per hash in an RDB file \
             ({ours|  | RDB file per hash, plain keys |} with plain keys).",
        ],
    ),
];

/// Sentences with limits and defaults. A placeholder names a file and in it a constant, a static or a field, or a part
/// of one: `WAIT.1`.
const CONSTANTS: &[(&str, &[&str])] = &[
    (
        "docs/guide/federation.md",
        &[
            "failures of {crates/serve/src/breaker.rs FAILURES} different queries in a row",
            "a source is skipped for {crates/serve/src/breaker.rs FIRST_PAUSE}, then for twice as long each time, up to \
             {crates/serve/src/breaker.rs MAX_PAUSE};",
            "`.idx` of each package in memory, and indexes without one, up to {crates/index/src/index/package.rs MAX_TEXT} \
             each.",
            "sorts up to {crates/index/src/index/files.rs MAX_KEPT} of rows;",
            "Up to {crates/fetch/src/file.rs MAX_KEPT} of fetched data are cached,",
            "`serve` fetches up to {crates/fetch/src/file.rs MAX_AHEAD} more at a time.",
            "the same index; {crates/jobs/src/caches.rs DEFAULT_WAIT} by default |",
            "with the archive](index-cache.md#later-metadata) again; {crates/jobs/src/caches.rs DEFAULT_RETRY_MISSING} |",
            "memory for sorting one index; {crates/jobs/src/caches.rs DEFAULT_MEMORY}. The rest",
            "used within `grace`, {crates/jobs/src/caches.rs DEFAULT_GRACE}",
        ],
    ),
    (
        "docs/guide/federation-apis.md",
        &[
            "| pages of {crates/serve/src/query.rs PAGE} rows, from 0;",
            "sorting takes at most {crates/serve/src/operations.rs SORTED} rows.",
            "Records of up to {crates/serve/src/resource/loader/mod.rs MAX_CHECKED_FIRST} are checked before",
        ],
    ),
    (
        "docs/guide/federation-operating.md",
        &[
            "after {crates/serve/src/server/mod.rs GRACE} at most.",
            "record of each, {crates/serve/src/server/page/search.rs PAGE_SIZE} at a time,",
            "Up to {crates/index/src/index/folder.rs MAX_UNSORTED}, each query reads the whole index and sorts the rows, up to \
             {crates/serve/src/operations.rs SORTED} of them;",
        ],
    ),
    (
        "docs/guide/operations.md",
        &[
            "keeps at most {crates/serve/src/server/plain.rs connections} connections:",
            "the head of its request within {crates/serve/src/server/plain.rs head}.",
        ],
    ),
    (
        "docs/guide/import.md",
        &[
            "Nesting is limited to {crates/wacz/src/nested.rs MAX_DEPTH} levels and \
             {crates/wacz/src/nested.rs MAX_LISTS} manifests;",
            "each response of more than {crates/cli/src/indexer/revisits.rs REVISIT_SIZE} bytes",
        ],
    ),
    (
        "docs/guide/wacz.md",
        &[
            "followed, {crates/fetch/src/lib.rs MAX_REDIRECTS} at most.",
            "sent again, up to {crates/wacz/src/options.rs retries} times in a row",
        ],
    ),
    (
        "docs/guide/records.md",
        &[
            "without `Content-Length`, up to {crates/warc/src/parser.rs MAX_OPEN} |",
            "off by up to {crates/warc/src/parser.rs SLACK} bytes",
            "Records over {crates/serve/src/resource/loader/mod.rs MAX_CHECKED_FIRST}, and those over \
             {crates/serve/src/resource/stored/mod.rs MAX_IN_MEMORY} on other servers,",
            "`serve` reads at most {crates/serve/src/resource/revisit/budget.rs MAX_ROWS} rows and \
             {crates/serve/src/resource/revisit/budget.rs MAX_TRIES} records;",
            "is cached for {crates/serve/src/resource/in_vain.rs REMEMBERED}.",
        ],
    ),
    (
        "docs/guide/index-cache.md",
        &[
            "| `--memory SIZE` | memory for sorting ({crates/jobs/src/caches.rs DEFAULT_MEMORY});",
            "at most every {crates/jobs/src/caches.rs DEFAULT_RETRY_MISSING} (`retry_missing`)",
            "at most every {crates/jobs/src/metadata/mod.rs rescan}.",
            "used in the last {crates/jobs/src/caches.rs DEFAULT_GRACE} (`--grace 10m`)",
            "Lists of more than {crates/serve/src/server/indexes/mod.rs MAX_LIST} are left out, and reasons beyond \
             {crates/serve/src/server/indexes/mod.rs MAX_REASONS}:",
            "names more than {crates/serve/src/server/indexes/mod.rs MAX_JOBS};",
            "more than {crates/serve/src/indexes.rs MAX_WAITING} others wait;",
            "{crates/serve/src/server/indexes/mod.rs WAIT.0} seconds by default, \
             {crates/serve/src/server/indexes/mod.rs WAIT.1} at most.",
            "within {crates/serve/src/indexes.rs OUTCOME_TTL} after its end",
            "the client retries for {crates/jobs/src/request/mod.rs RETRY_TIMEOUT},",
        ],
    ),
    (
        "docs/guide/tags-expressions.md",
        &[
            "Nesting of `(` and `!` is limited to {src/tags/expression/parse.rs MAX_DEPTH} levels,",
            "and an expression to {crates/compact/src/limits.rs tags::EXPRESSION_BYTES}.",
            "Limits are {crates/cdx/src/pattern.rs pattern_bytes} of text and \
             {crates/cdx/src/pattern.rs compiled_bytes} compiled;",
            "A regex of more than {crates/cdx/src/pattern.rs HEAVY_ALTERNATIVES} alternatives",
        ],
    ),
    (
        "docs/guide/tags-sync.md",
        &[
            "a tag of more than {crates/compact/src/limits.rs tags::TAG_BYTES} bytes are errors",
            "have up to {crates/compact/src/limits.rs tags::ID_BYTES} bytes",
            "If more than {crates/cli/src/mirror/follow.rs BURST} ids change at a time",
            "notices a restart within {crates/cli/src/mirror/follow.rs CHECK} |",
        ],
    ),
    (
        "docs/guide/client.md",
        &[
            "sends nothing for {client/src/server/options.rs TIMEOUT} is considered dead",
            "is sent again, up to {client/src/server/options.rs RETRIES} times (`retries(n)`),",
        ],
    ),
    (
        "docs/commands/README.md",
        &[
            "up to {crates/compact/src/limits.rs every::PREFIX_BYTES}, any bytes",
            "any 1 to {crates/compact/src/limits.rs chg::ID_BYTES} bytes, for example",
            "at most {src/chg/past.rs MAX_PAST} |",
            "name up to {crates/host/src/server/info.rs MAX_JOBS} items of each kind",
        ],
    ),
    (
        "docs/commands/chg.release.md",
        &[
            "a computed pause of less than {crates/compact/src/limits.rs chg::BACKOFF_BASE} counts as a second",
            "up to {crates/compact/src/limits.rs chg::MAX_BACKOFF}: after {crates/compact/src/limits.rs chg::MAX_STEPS} of them",
        ],
    ),
    (
        "docs/commands/tags.list.md",
        &["; {crates/compact/src/limits.rs tags::COUNT} by default |"],
    ),
    (
        "docs/commands/tags.scan.md",
        &["; {crates/compact/src/limits.rs tags::COUNT} by default |"],
    ),
    (
        "docs/commands/chg.list.md",
        &["; {crates/compact/src/limits.rs chg::COUNT} by default |"],
    ),
    (
        "docs/commands/chg.uris.md",
        &["; {crates/compact/src/limits.rs chg::COUNT} by default |"],
    ),
    (
        "docs/commands/chg.next.md",
        &["maximum number of groups, 1 to {crates/compact/src/limits.rs chg::MAX_COUNT};"],
    ),
    (
        "docs/commands/chg.check.md",
        &["the first {src/chg/check/mod.rs MAX_PROBLEMS} problems |"],
    ),
    (
        "docs/commands/chg.expired.md",
        &["{crates/compact/src/limits.rs chg::MAX_REPORTS}"],
    ),
    (
        "docs/commands/chg.limit.md",
        &["1 to {crates/compact/src/limits.rs chg::MAX_PARALLEL}"],
    ),
    (
        "docs/commands/chg.adduri.md",
        &["the URI, up to {crates/compact/src/limits.rs chg::URI_BYTES}, any bytes"],
    ),
    (
        "docs/commands/dedupe.begin.md",
        &["At most {crates/compact/src/limits.rs dedupe::MAX_VISIBLE} crawls"],
    ),
    (
        "docs/commands/dedupe.lookupurl.md",
        &[
            "1 to {crates/compact/src/limits.rs dedupe::URL_BYTES} bytes, compared",
            "1 to {crates/compact/src/limits.rs dedupe::MAX_CAPTURES}",
            "{crates/compact/src/limits.rs dedupe::CAPTURES} by default",
        ],
    ),
    (
        "docs/commands/dedupe.waczclose.md",
        &["up to {crates/compact/src/limits.rs dedupe::WACZ_HASH_BYTES} bytes."],
    ),
    (
        "docs/commands/dedupe.waczopen.md",
        &["1 byte to {crates/compact/src/limits.rs dedupe::FILENAME_BYTES};"],
    ),
    (
        "docs/commands/tags.filter.md",
        &[
            "an expression of more than {crates/compact/src/limits.rs tags::EXPRESSION_BYTES}, a condition of more than \
             {src/tags/expression/bounds.rs MAX_CLAUSES} parts (including the parts of its access points), access \
             points nested more than {src/tags/resolve.rs MAX_DEPTH} deep, regexes that are together as large as \
             {src/tags/expression/bounds.rs PATTERN_BYTES} of text;",
            "a batch of more than {src/tags/commands/filtering.rs AT_ONCE_BYTES} or 2 seconds; more than 10 million tags",
            "a regex of more than {crates/cdx/src/pattern.rs HEAVY_ALTERNATIVES} alternatives (including regexes in rules and \
             access points), {src/tags/expression/bounds.rs FEW_PATTERN_BYTES} of filters, or a condition of \
             {src/tags/expression/bounds.rs FEW_CLAUSES} parts",
            "of more than {src/tags/view.rs READERS_LINE_BYTES} bytes ({src/tags/view.rs LINE_BYTES} for the regexes of \
             rules)",
        ],
    ),
    (
        "docs/commands/tags.load.md",
        &["more than {crates/compact/src/limits.rs tags::MAX_TAGS} tags of its own"],
    ),
    (
        "docs/commands/tags.pointset.md",
        &[
            "longer than {crates/compact/src/limits.rs tags::EXPRESSION_BYTES}, or has more than \
             {src/tags/expression/bounds.rs MAX_CLAUSES} parts, so that no filter could use it; or the space already \
             has {crates/compact/src/limits.rs tags::MAX_POINTS} points, or {crates/compact/src/limits.rs tags::MAX_PATTERNS} points whose names \
             are patterns |",
        ],
    ),
    (
        "docs/commands/tags.ruleset.md",
        &["name of the rule, 1 to {crates/compact/src/limits.rs tags::RULE_NAME_BYTES} bytes;"],
    ),
];

/// Splits a sentence into the parts outside of braces, each with the placeholder after it, and the
/// last part.
fn blanks(sentence: &str) -> (Vec<(&str, &str)>, &str) {
    let mut parts: Vec<&str> = sentence.split(['{', '}']).collect();
    let last = parts.pop().expect("a part");
    (
        parts.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
        last,
    )
}

/// Returns true if the page contains the sentence with one of the accepted forms for each placeholder.
fn contains(
    page: &str,
    sentence: &str,
    spellings: impl Fn(&str) -> Vec<String>,
) -> Result<(), String> {
    let (blanks, last) = blanks(sentence);
    let mut sentences = vec![String::new()];
    for (before, blank) in blanks {
        let spellings = spellings(blank);
        let longer = sentences.iter().flat_map(|sentence| {
            let of = move |spelling| format!("{sentence}{before}{spelling}");
            spellings.iter().map(of)
        });
        sentences = longer.collect();
    }
    let is_there = |sentence: &String| page.contains(&format!("{sentence}{last}"));
    if sentences.iter().any(is_there) {
        Ok(())
    } else {
        Err(format!("{}{last}", sentences[0]))
    }
}

/// Fails with a list of the sentences missing from pages.
fn compare(all: &[(&str, &[&str])], spellings: impl Fn(&str) -> Vec<String>) {
    let mut wrong = Vec::new();
    for (page, sentences) in all {
        // Sentences may span several lines.
        let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
        for sentence in *sentences {
            if let Err(sentence) = contains(&text, sentence, &spellings) {
                wrong.push(format!("{page} does not say: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Formats a number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{} {:03}", grouped(thousands), number % 1000),
    }
}

/// Parses the number and the unit in a cell of a table of benchmarks; thousands and millions are multiplied out.
fn figure(cell: &str) -> f64 {
    let (number, unit) = cell.trim().split_once(' ').expect("a number and its unit");
    let factor = match unit.chars().next() {
        Some('k') => 1e3,
        Some('M') => 1e6,
        _ => 1.0,
    };
    number.parse::<f64>().expect("a number") * factor
}

/// The pages of docs/benchmarks/, one after the other.
fn benchmarks() -> String {
    let mut pages = files_in("docs/benchmarks");
    pages.retain(|page| page.ends_with(".md"));
    pages.sort();
    assert!(pages.len() >= 8, "{pages:?}");
    pages.iter().map(|page| read(page)).collect()
}

#[test]
fn figures_equal_those_of_the_benchmarks() {
    let benchmarks = benchmarks();
    compare(MEASURED, |blank| {
        let (column, row) = blank.split_once('|').expect("a column and a row");
        let row = format!("|{row}");
        let mut rows = benchmarks.lines().filter(|line| line.starts_with(&row));
        let (row, other) = (rows.next().expect(blank), rows.next());
        assert_eq!(other, None, "{blank}: one row");
        let cells = cells(row);
        // Accept the number as in the cell, or rounded.
        let spellings = |cell: &str| {
            let as_written = cell.split(' ').next().unwrap_or_default().to_owned();
            vec![grouped(figure(cell).round() as u64), as_written]
        };
        match column {
            "ours" => spellings(cells[3]),
            "theirs" => spellings(cells[4]),
            "100M" => {
                let gigabytes = figure(cells[3]).round() / 10.0;
                vec![gigabytes.to_string()]
            }
            other => panic!("no column {other}"),
        }
    });
}

#[test]
fn commands_readme_lists_the_slices_that_missed_the_goal() {
    let benchmarks = benchmarks();
    let rows = benchmarks.lines().map(cells);
    let missed = rows.filter(|row| {
        row.len() == 8 && row[1].starts_with("longest slice") && row[7].contains("not met")
    });
    let measured: BTreeSet<&str> = missed
        .map(|row| row[3].split(',').next().expect("a figure"))
        .collect();
    let page = read("docs/commands/README.md");
    let (_, table) = page
        .split_once("| job | longest slice |")
        .expect("the table");
    let (table, _) = table.split_once("\n\n").expect("an end");
    let words = table.split_whitespace().filter(|word| *word != "|");
    let words: Vec<&str> = words.collect();
    let said: BTreeSet<String> = words
        .windows(2)
        .filter(|pair| pair[1].trim_end_matches([',', '.']) == "ms")
        .map(|pair| format!("{} ms", pair[0]))
        .collect();
    let measured: BTreeSet<String> = measured.into_iter().map(str::to_owned).collect();
    assert_eq!(
        measured, said,
        "benchmarks (left), commands/README.md (right)"
    );
}

/// Evaluates a constant expression, in milliseconds if it is a duration, and returns true in that case.
fn value(expression: &str) -> Option<(u64, bool)> {
    let expression = expression.trim();
    for (unit, milliseconds) in [("from_secs(", 1000), ("from_millis(", 1)] {
        if let Some((_, number)) = expression.split_once(unit) {
            let (number, _) = value(number.trim_end_matches(')'))?;
            return Some((number * milliseconds, true));
        }
    }
    // Use the value of the release build (the `else` branch).
    if let Some((_, of_release)) = expression.split_once("cfg!(test)") {
        let (_, of_release) = of_release.rsplit_once('{')?;
        return value(of_release.trim_end_matches(['}', ')', ' ']));
    }
    let expression = match expression.split_once("::new(") {
        Some((_, argument)) => argument.trim_end_matches(')'),
        None => expression,
    };
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let product = |text: &str| text.split('*').map(number).product::<Option<u64>>();
    let (factor, bits) = expression.split_once("<<").unwrap_or((expression, "0"));
    Some((product(factor)? << product(bits)?, false))
}

/// Returns the first value that a file assigns to a name, or the requested part of it.
pub(super) fn constant(path: &str, name: &str) -> (u64, bool) {
    let source = read(path);
    let (family, name) = name.split_once("::").unwrap_or(("", name));
    let (_, source) = match family {
        "" => ("", &source[..]),
        _ => source
            .split_once(&format!("pub mod {family} {{"))
            .unwrap_or_else(|| panic!("{path} has no {family}")),
    };
    let (name, part) = name.split_once('.').unwrap_or((name, ""));
    let field = format!("{name}: ");
    let values = source.lines().filter_map(|line| {
        let (before, rest) = line.split_once(&field)?;
        let ends = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let text = rest.rsplit_once(" = ").map_or(rest, |(_, value)| value);
        let text = text.trim_end_matches([';', ',']);
        let text = match part.parse::<usize>() {
            Ok(part) => text
                .trim_matches(['(', ')', '[', ']'])
                .split(',')
                .nth(part)?,
            Err(_) => text,
        };
        let (number, is_duration) = value(text).filter(|_| !ends)?;
        Some((number, is_duration || rest.starts_with("Millis")))
    });
    let mut values = values;
    values
        .next()
        .unwrap_or_else(|| panic!("{path} gives {name} no value"))
}

/// Returns the forms in which the documentation may write a value.
pub(super) fn spellings((number, is_duration): (u64, bool)) -> Vec<String> {
    let word = |number: u64| match number {
        1 => Some("a"),
        2 => Some("two"),
        4 => Some("four"),
        5 => Some("five"),
        10 => Some("ten"),
        20 => Some("twenty"),
        100 => Some("a hundred"),
        1000 => Some("a thousand"),
        10_000 => Some("ten thousand"),
        _ => None,
    };
    let mut spellings = Vec::new();
    if is_duration {
        let units: [(u64, &[&str]); 5] = [
            (86_400_000, &["day"]),
            (3_600_000, &["hour"]),
            (60_000, &["minute"]),
            (1000, &["s", "second"]),
            (1, &["ms"]),
        ];
        for (unit, names) in units {
            if number.is_multiple_of(unit) {
                let number = number / unit;
                for name in names {
                    let plural = if number == 1 || name.len() < 3 {
                        ""
                    } else {
                        "s"
                    };
                    let article = if *name == "hour" { "an" } else { "a" };
                    let word = word(number).map(|word| if word == "a" { article } else { word });
                    spellings.extend(word.map(|word| format!("{word} {name}{plural}")));
                    spellings.extend((number == 1).then(|| name.to_string()));
                    spellings.push(format!("{} {name}{plural}", grouped(number)));
                }
            }
        }
        return spellings;
    }
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if number > 0 && number.is_multiple_of(1 << shift) {
            spellings.push(format!("{} {unit}", number >> shift));
        }
    }
    spellings.extend([grouped(number), number.to_string()]);
    if let Some(word) = word(number) {
        spellings.extend([word, word.trim_start_matches("a ")].map(str::to_owned));
    }
    spellings
}

#[test]
fn limits_and_defaults_equal_those_of_the_source() {
    compare(CONSTANTS, |blank| {
        let (path, name) = blank.split_once(' ').expect("a file and a name");
        spellings(constant(path, name))
    });
}

#[test]
fn constants_are_parsed_in_all_spellings() {
    for (text, expected) in [
        ("64 * 1024", Some((65_536, false))),
        ("256 << 20", Some((268_435_456, false))),
        ("10_000", Some((10_000, false))),
        ("Memory::new(1 << 30)", Some((1 << 30, false))),
        ("Duration::from_secs(15 * 60)", Some((900_000, true))),
        (
            "Duration::from_secs(if cfg!(test) { 3600 } else { 10 })",
            Some((10_000, true)),
        ),
        ("if cfg!(test) { 2 } else { 64 }", Some((64, false))),
        ("OTHER", None),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    assert!(spellings((60_000, true)).contains(&"a minute".to_owned()));
    assert!(spellings((1 << 20, false)).contains(&"1 048 576".to_owned()));
    assert!(
        contains("up to 1 MiB, or", "up to {x}, or", |_| spellings((
            1 << 20,
            false
        )))
        .is_ok()
    );
    assert!(
        contains("up to 2 MiB, or", "up to {x}, or", |_| spellings((
            1 << 20,
            false
        )))
        .is_err()
    );
}
