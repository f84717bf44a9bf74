//! Tests how `dedupe index` handles nonconforming records of real tools, and damaged records.

#[path = "../../../serve/tests/federation/deviations/cases/mod.rs"]
#[allow(dead_code, unused_imports)]
mod cases;

use std::path::Path;

use crawlspace_cli::index::{Tally, add_file};
use crawlspace_client::dedupe::Index;
use crawlspace_warc::digest::is_of_nothing;
use redis_tests::Server;

use self::cases::arc::DESCRIPTION;
use self::cases::records::Indexed;
use self::cases::{Case, INFO, TIME, cases, member, pack, store};
use crate::indexer::stage::Indexer;
use crate::shelf::Shelf;

/// Returns the result of `dedupe index` for a record between two others.
fn indexed(
    index: &Index,
    case: &Case,
    folder: &Path,
    crawl: &str,
    is_packed: bool,
) -> Result<Indexed, String> {
    let ending = if is_packed { ".gz" } else { "" };
    let next_of_arc = b"dns:example.com 192.0.2.1 20160102030405 text/dns 3\nA 1\n";
    let (before, after) = match case.arc {
        None => (INFO, INFO),
        Some(_) if case.end.is_empty() => (DESCRIPTION.as_bytes(), &b""[..]),
        Some(_) => (DESCRIPTION.as_bytes(), &next_of_arc[..]),
    };
    let records = [before, &case.bytes(), after];
    let count = records.iter().filter(|record| !record.is_empty()).count();
    let records = records.into_iter().take(count).enumerate();
    let records = records.map(|(number, record)| {
        if is_packed {
            member(record, number)
        } else {
            record.to_vec()
        }
    });
    let path = folder.join(format!("{crawl}{ending}"));
    std::fs::write(&path, records.collect::<Vec<_>>().concat()).unwrap();
    let mut tally = Tally::default();
    let outcome = add_file(&index.clone().into(), crawl.as_bytes(), &path, &mut tally);
    if let Err(error) = outcome {
        return if case.indexed() == Indexed::Unread && tally.unique == 0 {
            Ok(Indexed::Unread)
        } else {
            Err(error.to_string())
        };
    }
    if (tally.records, tally.unique) != (count as u64, 1) {
        return if tally.records == count as u64 && tally.unique == 0 {
            Ok(Indexed::Skipped)
        } else {
            Err(format!("{tally:?}"))
        };
    }
    let Indexed::As(digest) = case.indexed() else {
        return Err(format!("{tally:?}"));
    };
    let found = index
        .lookup(Some(crawl.as_bytes()), &[digest.as_bytes()])
        .unwrap();
    let Some(Some(original)) = found.first() else {
        return Err(format!("it has another digest than {digest}"));
    };
    if !original.date.starts_with(TIME.as_bytes()) || original.url != case.url().as_bytes() {
        return Err(format!("{original:?}"));
    }
    Ok(case.indexed())
}

#[test]
fn payload_digest_of_a_record_is_added_to_a_dedupe_index() {
    let server = Server::start();
    let index = Index::open(&server.url(), "{deviations}:").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for (number, case) in cases().iter().enumerate() {
        for is_packed in [true, false] {
            let crawl = format!("{number}-{is_packed}");
            let made = indexed(&index, case, folder.path(), &crawl, is_packed);
            if made.as_ref() != Ok(&case.indexed()) {
                faults.push(format!(
                    "{} ({}), packed {is_packed}: {made:?}, not {:?}",
                    case.name,
                    case.source,
                    case.indexed()
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn payload_digest_of_a_package_is_added_to_a_dedupe_index() {
    let server = Server::start();
    let (mut shelf, prefix) = (Shelf::new(), "{deviations}:");
    let cases: Vec<Case> = cases()
        .into_iter()
        .filter(|case| case.arc.is_none())
        .collect();
    store(&mut shelf, &cases, "packed", true, true);
    let lines = shelf.write_index("packed.cdxj");
    let package = pack(&shelf, &lines, "packed.warc.gz");
    let report = Indexer::new(&package)
        .redis(&server.url())
        .prefix(prefix)
        .succeeds();
    let index = Index::open(&server.url(), prefix).unwrap();
    let (mut bad, mut others, mut responses) = (0, 0, 0);
    for case in &cases {
        let stated = case.stated().unwrap_or_default().as_bytes();
        if stated.len() < 16 {
            bad += 1;
            continue;
        }
        let is_known = index.lookup(None, &[stated]).unwrap()[0].is_some();
        assert_eq!(is_known, !is_of_nothing(stated), "{}", case.name);
        *(if is_known {
            &mut responses
        } else {
            &mut others
        }) += 1;
    }
    let counts = ["badLines", "other", "responses"].map(|name| report[name].as_u64());
    assert_eq!(counts, [bad, others, responses].map(Some), "{report}");
}
