//! `TAGS.*` compared with the methods of archives without tags: T1 and T2.

mod corpus;
mod filter;
mod large;
mod peer;
mod records;
mod space;
mod toggle;

use crate::Plan;
use crate::report::Section;
use crate::series::grouped;
use corpus::{Archive, Capture};
use peer::Peer;

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let archive = Archive::new(plan.seed);
    let peer = Peer::compile(&archive, filter::BATCH);
    let found = plan.findings(&[
        ("T1", &|| filter::measure(plan, &archive, peer.as_ref())),
        ("T2", &|| toggle::measure(plan, &archive)),
        ("records", &|| records::measure(plan, &archive)),
        ("large", &|| large::measure(plan, &archive)),
    ]);
    Section {
        title: "TAGS",
        method: method(&archive, peer.as_ref()),
        found,
    }
}

fn method(archive: &Archive, peer: Option<&Peer>) -> String {
    let blob = archive.blob(1_000, Capture::cdx);
    let collections = &archive.collections;
    let private = collections.iter().filter(|c| c.private).count();
    let peer = match peer {
        None => "No JDK is installed, so the figures of the Java program are missing".into(),
        Some(Peer { version, .. }) => format!(
            "The peer is a Java program (JDK {version}) that has the file names in memory and is warmed up before it is \
             measured"
        ),
    };
    format!(
        include_str!("method.md"),
        collections = grouped(collections.len() as u64),
        private = grouped(private as u64),
        batch = grouped(filter::BATCH),
        bytes = blob.len() as f64 / 1_000.0 - 1.0,
        seed = archive.seed,
        peer = peer,
    )
}
