//! `TAGS.*` against what archives do without tags: T1 and T2.

mod corpus;
mod filter;
mod large;
mod peer;
mod records;
mod space;
mod toggle;

use crate::Plan;
use crate::report::{Findings, Section};
use crate::series::grouped;
use corpus::{Archive, Capture};
use peer::Peer;

/// What can be measured alone.
pub const PIECES: [&str; 4] = ["T1", "T2", "records", "large"];

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let archive = Archive::new(plan.seed);
    let peer = Peer::compile(&archive, filter::BATCH);
    let mut found = Findings::default();
    if plan.wants(&["T1"]) {
        found.extend(filter::measure(plan, &archive, peer.as_ref()));
    }
    if plan.wants(&["T2"]) {
        found.extend(toggle::measure(plan, &archive));
    }
    if plan.wants(&["records"]) {
        found.extend(records::measure(plan, &archive));
    }
    if plan.wants(&["large"]) {
        found.extend(large::measure(plan, &archive));
    }
    Section {
        title: "TAGS",
        method: method(&archive, peer.as_ref()),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn method(archive: &Archive, peer: Option<&Peer>) -> String {
    let blob = archive.blob(1_000, Capture::cdx);
    let collections = &archive.collections;
    let private = collections.iter().filter(|c| c.private).count();
    let peer = match peer {
        Some(peer) => format!(
            "The peer is a Java program (JDK {}) that has the file names in memory and is warmed up before it is measured",
            peer.version
        ),
        None => {
            "There is no JDK here, and so no peer: figures of the Java program are missing".into()
        }
    };
    format!(
        "The archive of the seed: {} collections of 1 000 organisations, {} of them private; {} captures a call as CDX lines \
         of 11 fields, {:.0} bytes on average, in files named `ARCHIVEIT-1068-20190220120000-00001.warc.gz` or with a \
         path, a crawl or a job in the name, `BLOB` in, `BITS` out; seed {}. A rule makes `coll:1068` of the name; \"all \
         public\" is the point `coll:* & !private`. Server time is what `INFO commandstats` says, with the work that a \
         call leaves to a thread in the background. {peer}.",
        grouped(collections.len() as u64),
        grouped(private as u64),
        grouped(filter::BATCH),
        blob.len() as f64 / 1_000.0 - 1.0,
        archive.seed,
    )
}
