//! `docs/benchmarks.md`: the headline results, taken from the pages of the sections.

use std::fs;
use std::path::Path;

use crate::PARTS;
use crate::pages::{self, Page};

/// A headline result.
struct Headline {
    /// The page with the row.
    page: &'static str,
    /// The first three cells of the row.
    row: [&'static str; 3],
    /// The measurement and the peer, as the summary describes them.
    what: &'static str,
    against: &'static str,
    /// The meaning of the result for readers.
    meaning: &'static str,
}

/// Creates the list of [`Headline`]s, two lines each.
macro_rules! headlines {
    ($($page:literal [$($row:literal),+] $what:literal, $against:literal, $meaning:literal;)+) => {
        &[$(Headline { page: $page, row: [$($row),+], what: $what, against: $against, meaning: $meaning }),+]
    };
}

const HEADLINES: &[Headline] = headlines! {
    "dedupe" ["", "memory per hash, packed: ratio", "the documented layout by plain commands"]
        "Memory per hash, packed index", "the same records in plain hashes",
        "The index of an archive fits on a much smaller server.";
    "dedupe" ["D4", "`LOOKUP` of 100 hashes a call, packed", "the documented sequence, pipeline depth 100"]
        "Look-ups, 100 hashes per call, packed index", "the documented commands, pipelined",
        "Crawlers that send batches get more look-ups from one server.";
    "dedupe" ["D1", "`LOOKUP` of one hash, pipeline depth 32, packed", "one plain `HGET`"]
        "Look-ups, one hash per call, packed index", "one `HGET`, which does half the work",
        "A single look-up costs more than the cheapest command of Redis.";
    "dedupe-jobs" ["D5", "`COMMIT` of 500 k hashes, plain keys", "the documented client loop, loopback TCP"]
        "Commit of a crawl with 500 000 hashes", "the documented client loop",
        "A finished crawl is visible after seconds, in one step.";
    "dedupe-jobs" ["D8", "`REMOVE` of 1 crawl of 10, packed", "rebuild by the documented client loop, loopback TCP"]
        "Removal of one crawl of ten, packed index", "a rebuild by the client loop",
        "The index stays complete while a crawl is removed.";
    "dedupe" ["D7", "time to load it, packed", "the documented layout by plain commands"]
        "Restart: loading a million hashes, packed index", "the same records in plain hashes",
        "A restarted server is available sooner.";
    "dedupe-scale" ["D6", "memory per hash at 10 000 000, packed: growth of `used_memory`", "at 1 000 000"]
        "Memory per hash at 10 million hashes", "at 1 million hashes",
        "Memory grows in proportion to the index.";
    "chg" ["C1", "pages, one client, no pipeline: `RELEASE … DONE … NEXT`", "Veidemann's sequence, 14 round trips"]
        "Pages per second, one client", "Veidemann's scripts, 14 round trips",
        "A worker waits for one round trip per page.";
    "chg" ["C5", "pages, 64 connections: `RELEASE … DONE … NEXT`", "one atomic Lua script for release and lease"]
        "Pages per second, 64 connections", "one atomic Lua script",
        "One server serves more workers than with scripts.";
    "chg" ["C4", "`NEXT BLOCK`, from the due time to the lease: p50 / p99 / max; p99", "a worker that polls every 50 ms, `BRPOP`"]
        "Wait from due time to lease, p50 / p99 / max", "polling every 50 ms",
        "A host is fetched from as soon as its pause is over.";
    "chg" ["K1", "memory of a done URL, 10 000 000 of them", "`SADD` of fingerprints"]
        "Memory per known URL", "a set of fingerprints, as with scrapy-redis",
        "A crawl remembers 100 million URLs in 2 GB.";
    "tags" ["T1", "any of 10 000 collections, by tag: `coll:*`", "Java regex of 10 000 alternatives"]
        "Filter by 10 000 collections, time per capture", "a Java regex of 10 000 alternatives",
        "A rule by tag costs far less than a list of collections in a regex.";
    "tags" ["T2", "toggle of one collection: `ADD` or `REM` of an edge", "–"]
        "Changing the visibility of a collection", "reindexing",
        "The next query uses the new tags.";
    "import" ["I1", "lines imported a second, one indexer", "plain commands one by one, one connection"]
        "CDXJ lines imported per second", "plain commands, one by one",
        "An import is limited by the server, not by round trips.";
    "import" ["I4", "captures of WARC files indexed a second, one thread", "cdxj-indexer"]
        "Captures of WARC files indexed per second", "cdxj-indexer",
        "An archive is ready for replay sooner.";
    "federation" ["F1", "index query, local CDXJ, 1 row", "pywb, 2 workers"]
        "Index queries per second, local CDXJ", "pywb, 2 workers",
        "One process replaces several of pywb.";
    "federation" ["F3", "resource, record of 6.9 kB", "pywb, 2 workers"]
        "Records per second", "pywb, 2 workers",
        "Replay is faster, although every digest is checked.";
    "federation" ["F4", "first byte after the timeout (300 ms), one source of a group hangs", "–"]
        "Delay by an unresponsive source, beyond its timeout", "–",
        "One dead archive does not hold up the others.";
    "index-cache" ["X3", "1 000 jobs, all cached, and one more", "building all of it"]
        "Index of 1 000 jobs after one more job", "building all of it",
        "A new harvest does not trigger a rebuild.";
};

/// Returns the text of the page.
///
/// # Panics
/// Panics if a page has no row of a headline.
fn markdown(pages: &[(&str, Page)]) -> String {
    let results = HEADLINES.iter().filter_map(|headline| {
        let (name, page) = pages.iter().find(|(name, _)| *name == headline.page)?;
        let row = page.rows.iter().find(|row| row[..3] == headline.row);
        let row = row.unwrap_or_else(|| panic!("{name} has the row {:?}", headline.row));
        // Remove the CPU usage of the server and the range, which are in parentheses.
        let figure = |cell: &str| match cell.split(" (").next() {
            None | Some("") => "–".to_owned(),
            Some(figure) => figure.to_owned(),
        };
        let [ours, theirs, result] = [3, 4, 5].map(|cell| figure(&row[cell]));
        let ratio = if result.ends_with('×') {
            result
        } else {
            "–".into()
        };
        let (what, against, meaning) = (headline.what, headline.against, headline.meaning);
        let theirs = match (&theirs[..], against) {
            (_, "–") => theirs,
            ("–", _) => against.to_owned(),
            _ => format!("{theirs}: {against}"),
        };
        Some(format!(
            "| [{what}](benchmarks/{name}.md) | {ours} | {theirs} | {ratio} | {meaning} |"
        ))
    });
    let results: Vec<String> = results.collect();
    let list = pages.iter().map(|(name, page)| {
        let judged = page.rows.iter().filter(|row| row[7] != "–");
        let met = judged.clone().filter(|row| row[7] == "met").count();
        let machine = page
            .machine
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let (title, machine) = (&page.title, machine.trim_end_matches('.'));
        format!(
            "| [{title}](benchmarks/{name}.md) | {met} of {} | {machine} |",
            judged.count()
        )
    });
    let list: Vec<String> = list.collect();
    let charts = pages.iter().flat_map(|(_, page)| &page.notes);
    let charts = charts.filter(|note| note.starts_with("!["));
    let charts: Vec<String> = charts
        .map(|chart| chart.replace("](", "](benchmarks/"))
        .collect();
    format!(
        include_str!("summary.md"),
        results = results.join("\n"),
        list = list.join("\n"),
        charts = charts.join("\n").trim_end()
    )
}

/// Writes `benchmarks.md` below `docs` from the existing pages.
///
/// # Panics
/// Panics if the file cannot be written.
pub fn write(docs: &Path) {
    fs::write(docs.join("benchmarks.md"), of(docs)).expect("docs/benchmarks.md can be written");
}

fn of(docs: &Path) -> String {
    let folder = docs.join("benchmarks");
    let pages = PARTS
        .iter()
        .filter_map(|part| Some((part.page, pages::read(&folder, part)?)));
    markdown(&pages.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headline_results_are_those_of_the_pages() {
        let docs = crate::root().join("docs");
        let text = fs::read_to_string(docs.join("benchmarks.md")).expect("docs/benchmarks.md");
        for (written, line) in of(&docs).lines().zip(text.lines()) {
            assert_eq!(
                written, line,
                "make bench ONLY=summary writes the page again"
            );
        }
        assert_eq!(
            text.matches("](benchmarks/").count(),
            HEADLINES.len() + PARTS.len() + 4
        );
    }
}
