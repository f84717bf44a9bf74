//! Records as real tools and accidents left them, run through every reader: what is proven intact is served, what is not
//! is never served as whole.

mod arc;
mod bodies;
mod digests;
mod headers;
mod http;
mod lengths;
pub mod parts;
mod records;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crawlspace_cli::index::{Tally, add_file};
use crawlspace_client::dedupe::Index;
use crawlspace_wacz as wacz;
use crawlspace_wacz::Writer;
use crawlspace_warc::Reader;
use crawlspace_warc::digest::is_of_nothing;
use flate2::{Compression, GzBuilder};
use redis_tests::Server;

use self::records::{Case, Indexed, both, cases};
use crate::federation::shelf::{Shelf, Slot};
use crate::indexer::stage::Indexer;
use crate::serving::Stage;

const TIME: &str = "20160102030405";

/// A record between others.
const INFO: &[u8] = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:info>\r\nWARC-Date: 2016-01-02T03:04:05Z\r\n\
    Content-Type: application/warc-fields\r\nContent-Length: 16\r\n\r\nsoftware: test\r\n\r\n\r\n";

/// A gzip member, as wget makes it with the sizes in an extra field, or as others do.
fn member(bytes: &[u8], number: usize) -> Vec<u8> {
    let builder = match number % 3 {
        0 => GzBuilder::new().extra(b"sl\x08\0\x10\0\0\0\x20\0\0\0".to_vec()),
        1 => GzBuilder::new().filename("a.warc").mtime(1_451_703_845),
        _ => GzBuilder::new(),
    };
    let mut member = builder.write(Vec::new(), Compression::fast());
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

/// Writes all records into a file of WARC and one of ARC records, each in a gzip member of its own if `is_packed`, and
/// their lines.
fn store(shelf: &mut Shelf, cases: &[Case], name: &str, is_packed: bool, has_length: bool) {
    for (ending, is_arc) in [("warc", false), ("arc", true)] {
        let file = format!("{name}.{ending}{}", if is_packed { ".gz" } else { "" });
        let put = |into: &mut Vec<u8>, bytes: &[u8], number: usize| {
            if is_packed {
                into.extend(member(bytes, number));
            } else {
                into.extend_from_slice(bytes);
            }
        };
        let mut bytes = Vec::new();
        if is_arc {
            put(&mut bytes, arc::DESCRIPTION.as_bytes(), 0);
        }
        let of_file = cases.iter().filter(|case| case.arc.is_some() == is_arc);
        for (number, case) in of_file.enumerate() {
            if !is_arc && number % 10 == 0 {
                put(&mut bytes, INFO, number);
            }
            let offset = bytes.len() as u64;
            put(&mut bytes, &case.bytes(), number);
            let length = if has_length {
                bytes.len() as u64 - offset
            } else {
                0
            };
            let slot = Slot {
                file: file.clone(),
                offset,
                length,
            };
            let digest = case
                .stated()
                .map(|digest| format!(", \"digest\": \"{digest}\""));
            shelf.line(&case.url(), TIME, &slot, &digest.unwrap_or_default());
        }
        std::fs::write(shelf.path().join("warcs").join(file), bytes).unwrap();
    }
}

/// Makes a package of the WARC file of a container.
fn pack(shelf: &Shelf, index: &str, file: &str) -> PathBuf {
    let lines = std::fs::read_to_string(index).unwrap();
    let lines = lines
        .lines()
        .filter(|line| line.contains(&format!("\"{file}\"")));
    let path = shelf.path().join(format!("{file}.wacz"));
    let mut package = Writer::create(&path, "2016-01-02T03:04:05Z").unwrap();
    let warc = File::open(shelf.path().join("warcs").join(file)).unwrap();
    package.warc(file, warc).unwrap();
    package.index(wacz::Index::Plain, lines).unwrap();
    package.finish().unwrap();
    path
}

#[test]
fn what_is_proven_intact_is_served_from_every_container() {
    let cases = cases();
    let mut shelf = Shelf::new();
    let mut config = String::from("collections:\n");
    for (name, is_packed, has_length) in [
        ("packed", true, true),
        ("plain", false, true),
        ("open", false, false),
    ] {
        store(&mut shelf, &cases, name, is_packed, has_length);
        let (index, warcs) = (shelf.write_index(&format!("{name}.cdxj")), shelf.warcs());
        config += &format!("  {name}: {{index: {index}, resource: {warcs}}}\n");
        if has_length {
            let file = format!("{name}.warc{}", if is_packed { ".gz" } else { "" });
            let package = pack(&shelf, &index, &file);
            config += &format!("  {name}-wacz: wacz+{}\n", package.display());
        }
    }
    let files = Stage::start(&config);
    // Another server that reads all of it from the first one.
    let remote = format!(
        "collections:\n  packed: {{index: {{type: upstream, url: '{}/packed'}}, resource: $live}}\n",
        files.url()
    );
    let remote = Stage::start(&remote);
    let mut faults = Vec::new();
    for case in &cases {
        for (stage, collection) in [
            (&files, "packed"),
            (&files, "plain"),
            (&files, "open"),
            (&files, "packed-wacz"),
            (&files, "plain-wacz"),
            (&remote, "packed"),
        ] {
            // Packages have no ARC files.
            if case.arc.is_some() && collection.ends_with("wacz") {
                continue;
            }
            if let Err(fault) = served(case, stage, collection) {
                faults.push(format!(
                    "{} ({}), {collection}: {fault}",
                    case.name, case.source
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
    assert!(cases.len() > 190, "{}", cases.len());
}

/// Compares what a collection serves with what is right.
fn served(case: &Case, stage: &Stage, collection: &str) -> Result<(), String> {
    let url: String = case
        .url()
        .chars()
        .map(|c| match c {
            '!'..='~' => c.to_string(),
            c => c
                .to_string()
                .bytes()
                .map(|byte| format!("%{byte:02X}"))
                .collect(),
        })
        .collect();
    let answer = stage.get(format!("/{collection}/{TIME}id_/{url}"));
    let must = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    let Some(right) = &case.right else {
        return must(
            answer.status == 404,
            format!("{}: {}", answer.status, answer.text()),
        );
    };
    must(
        answer.status == case.status && answer.body == *right,
        format!("{}: {:?}", answer.status, answer.text()),
    )?;
    let coding = case
        .shows
        .iter()
        .find(|(name, _)| *name == "content-encoding");
    let expected = coding.is_none().then_some(("content-encoding", None));
    let shows = case.shows.iter().map(|(name, value)| (*name, Some(*value)));
    for (name, value) in shows.chain(expected) {
        must(
            answer.field(name) == value,
            format!("{name}: {:?}", answer.field(name)),
        )?;
    }
    let answer = stage.get(format!(
        "/{collection}/resource?url={}",
        url.replace('%', "%25")
            .replace('#', "%23")
            .replace('&', "%26")
            .replace('+', "%2B")
    ));
    let mut reader = Reader::new("the answer", &answer.body[..]);
    let failed = |error: crawlspace_warc::Error| format!("{error}: {}", answer.text());
    let mut stored = reader.next().map_err(failed)?.ok_or("no record")?;
    let (mut block, head) = (Vec::new(), stored.header().clone());
    stored.read_to_end(&mut block).unwrap();
    must(
        stored.finish().map_err(failed)?.deviations.is_empty(),
        "the record deviates".to_owned(),
    )?;
    must(
        block == case.block,
        format!("the block {:?}", String::from_utf8_lossy(&block)),
    )?;
    for ((name, _), states) in both().iter().zip(case.states) {
        must(
            head.get(name).is_some() == states,
            format!("{name}: {:?}", head.get(name)),
        )?;
    }
    Ok(())
}

/// Returns what `dedupe index` made of a record that lies between two others.
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
        Some(_) if case.end.is_empty() => (arc::DESCRIPTION.as_bytes(), &b""[..]),
        Some(_) => (arc::DESCRIPTION.as_bytes(), &next_of_arc[..]),
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
    let outcome = add_file(index, crawl.as_bytes(), &path, &mut tally);
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
fn what_a_record_states_of_its_payload_goes_into_a_dedupe_index() {
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
fn what_a_package_states_of_payloads_goes_into_a_dedupe_index() {
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
