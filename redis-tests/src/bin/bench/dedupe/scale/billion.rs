//! What a thousand million hashes would take, calculated from measured growth.

use std::fmt::Write as _;

use super::Stop;
use super::end::End;
use crate::series::{grouped, time};

/// Hashes that it is calculated for.
const MANY: f64 = 1e9;
/// Nodes of a cluster.
const NODES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Numbers of chunks in an index, and bytes of a chunk.
const CHUNKS: f64 = 16_777_216.0;
const CHUNK: f64 = 65_536.0;
/// Bytes of the longest string that Redis takes, and so of a payload of `DUMP`.
const MAX_BYTES: f64 = 512.0 * 1024.0 * 1024.0;

/// A straight line through the first and the last of measured points.
struct Line {
    /// Bytes of an index without hashes.
    base: f64,
    /// Bytes of each hash.
    each: f64,
    /// The furthest that a measured point lies from it, as a share.
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

/// The paragraph: lines of growth, a table of nodes, and the limits.
pub fn paragraph(stops: &[Stop], end: &End) -> String {
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
    let mut text = format!(
        "Calculated, not measured: the line through the first and the last size above is {:.1} B a hash by `used_memory` and \
         {:.1} B by the process, and misses what was measured between them by at most {:.1} % and {:.1} %. File, time to \
         load and time to fork grow with it: {file:.1} B and {:.0} ns a hash, {} a GB of the process. Nodes are servers that \
         share the hashes evenly.\n\n\
         | nodes | hashes each | `used_memory` each | process each | while a child saves | RDB file each | time to load | fork |\n\
         |---|---|---|---|---|---|---|---|\n",
        used.each,
        process.each,
        100.0 * used.miss,
        100.0 * process.miss,
        1e9 * load,
        time(1e9 * fork),
    );
    for nodes in NODES {
        let hashes = MANY / f64::from(nodes);
        let resident = process.at(hashes);
        let _ = writeln!(
            text,
            "| {nodes} | {} | {} | {} | {} to {} | {} | {} | {} |",
            grouped(hashes as u64),
            gigabytes(used.at(hashes)),
            gigabytes(resident),
            gigabytes(resident * (1.0 + copied)),
            gigabytes(resident * 2.0),
            gigabytes(file * hashes),
            time(load * hashes),
            time(fork * resident),
        );
    }
    let whole = MAX_BYTES / file;
    // Prefixes by so many hex digits that each could grow to twice its share.
    let mut digits = 1;
    while MANY / 16f64.powi(digits) > whole / 2.0 {
        digits += 1;
    }
    let shards = 16f64.powi(digits);
    let prefix = |digit: &str| format!("`{{coll-{}}}:`", digit.repeat(digits as usize));
    let _ = write!(
        text,
        "\nWhile a child saves (`BGSAVE`, a rewrite of the append-only file, a replica that joins), pages that change exist \
         twice: a commit of {} hashes in the middle of a save copied {:.0} % of the process; the second figure is the bound, \
         when every page changes. A server stands still while it forks.\n\n\
         One index lies on one node, whatever the cluster: its keys share a hash tag. To spread a thousand million hashes, \
         clients choose among prefixes by the first digits of the hash, {} to {}, and add, commit and look up there. Limits of one index: its records lie in chunks of at most 64 KiB with numbers of 24 bits, \
         {} in all, enough for {} million hashes of the measured size even if they took all of its memory. \
         A value above 512 MiB cannot be sent by `DUMP`, `RESTORE` and `MIGRATE`, so that its slot cannot move to another \
         node; that is some {:.0} million hashes at {file:.1} B each. Larger indexes work, are saved, loaded and replicated. \
         Who wants slots to move takes prefixes enough that each stays well below: {shards:.0} of them have {:.1} million hashes, \
         {:.0} MB each.",
        grouped(end.meanwhile),
        100.0 * copied,
        prefix("0"),
        prefix("f"),
        gigabytes(CHUNKS * CHUNK),
        grouped((CHUNKS * CHUNK / used.each / 1e6) as u64),
        whole / 1e6,
        MANY / shards / 1e6,
        MANY / shards * file / 1e6,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_ends_and_knows_what_it_misses() {
        let line = Line::through(&[(1.0, 110.0), (2.0, 150.0), (3.0, 210.0)]);
        assert_eq!((line.base, line.each), (60.0, 50.0));
        assert!((line.miss - 10.0 / 150.0).abs() < 1e-9);
        assert_eq!(line.at(10.0), 560.0);
    }
}
