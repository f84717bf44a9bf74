//! Estimates the size of an index with 10⁹ hashes from measured growth.

use super::Stop;
use super::end::End;
use crate::report::{Findings, note};
use crate::series::{grouped, time};

/// Number of hashes of the estimate.
const MANY: f64 = 1e9;
/// Numbers of cluster nodes.
const NODES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Number of chunks of an index, and bytes per chunk.
const CHUNKS: f64 = 16_777_216.0;
const CHUNK: f64 = 65_536.0;
/// Maximum length of a string in Redis, in bytes. It limits the size of a `DUMP` payload.
const MAX_BYTES: f64 = 512.0 * 1024.0 * 1024.0;

/// A straight line through the first and the last measured point.
struct Line {
    /// Bytes of an index without hashes.
    base: f64,
    /// Bytes per hash.
    each: f64,
    /// Largest deviation of a measured point from the line, as a ratio.
    miss: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Line {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            unreachable!("something was measured");
        };
        let each = (last.1 - first.1) / (last.0 - first.0);
        let base = first.1 - each * first.0;
        let misses = points.iter().map(|(x, y)| (base + each * x - y).abs() / y);
        let miss = misses.fold(0.0, f64::max);
        Line { base, each, miss }
    }

    fn at(&self, hashes: f64) -> f64 {
        self.base + self.each * hashes
    }
}

fn gigabytes(bytes: f64) -> String {
    match bytes / 1e9 {
        g if g >= 20.0 => format!("{g:.0} GB"),
        g => format!("{g:.1} GB"),
    }
}

/// Adds a paragraph with the lines of growth, a table of nodes, and the limits.
pub fn add_to(found: &mut Findings, stops: &[Stop], end: &End) {
    let points = |figure: fn(&Stop) -> f64| -> Vec<(f64, f64)> {
        let point = |stop: &Stop| (stop.hashes as f64, figure(stop));
        stops.iter().map(point).collect()
    };
    let used = Line::through(&points(|stop| stop.grown.used));
    let process = Line::through(&points(|stop| stop.grown.resident));
    let file = end.file / end.hashes as f64;
    let load = end.load / end.hashes as f64;
    let fork = end.fork / end.forked;
    let copied = end.copied / end.forked;
    let line = |nodes: u32| {
        let hashes = MANY / f64::from(nodes);
        let resident = process.at(hashes);
        let cells = [
            nodes.to_string(),
            grouped(hashes as u64),
            gigabytes(used.at(hashes)),
            gigabytes(resident),
            format!(
                "{} to {}",
                gigabytes(resident * (1.0 + copied)),
                gigabytes(resident * 2.0)
            ),
            gigabytes(file * hashes),
            time(load * hashes),
            time(fork * resident),
        ];
        format!("| {} |", cells.join(" | "))
    };
    let whole = MAX_BYTES / file;
    // Prefixes need enough hex digits for each prefix to grow to twice its share.
    let mut digits = 1;
    while MANY / 16f64.powi(digits) > whole / 2.0 {
        digits += 1;
    }
    let shards = 16f64.powi(digits);
    let prefix = |digit: &str| format!("`{{coll-{}}}:`", digit.repeat(digits as usize));
    note!(found, "billion.md";
        used = used.each, process = process.each, used_miss = 100.0 * used.miss, process_miss = 100.0 * process.miss,
        file = file, load = 1e9 * load, fork = time(1e9 * fork), nodes = NODES.map(line).join("\n"),
        meanwhile = grouped(end.meanwhile), copied = 100.0 * copied, first = prefix("0"), last = prefix("f"),
        chunks = gigabytes(CHUNKS * CHUNK), fit = grouped((CHUNKS * CHUNK / used.each / 1e6) as u64),
        whole = whole / 1e6, shards = shards, shard = MANY / shards / 1e6, shard_file = MANY / shards * file / 1e6,
        hashes = end.hashes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_ends_and_has_its_largest_deviation() {
        let line = Line::through(&[(1.0, 110.0), (2.0, 150.0), (3.0, 210.0)]);
        assert_eq!((line.base, line.each), (60.0, 50.0));
        assert!((line.miss - 10.0 / 150.0).abs() < 1e-9);
        assert_eq!(line.at(10.0), 560.0);
    }
}
