//! Records as real tools and accidents left them: what is proven intact is served, what is not is never served as whole.

mod parts;
mod records;

use std::io::{Read as _, Write as _};

use crawlspace_warc::Reader;

use self::records::{Case, both, cases};
use crate::federation::shelf::{Shelf, Slot};
use crate::serving::Stage;

const TIME: &str = "20160102030405";

/// Writes all records into a file, each in a gzip member of its own if `is_packed`, and their lines.
fn store(shelf: &mut Shelf, cases: &[Case], file: &str, is_packed: bool, has_length: bool) {
    let mut bytes = Vec::new();
    for case in cases {
        let offset = bytes.len() as u64;
        if is_packed {
            let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            member.write_all(&case.bytes()).unwrap();
            bytes.extend(member.finish().unwrap());
        } else {
            bytes.extend(case.bytes());
        }
        let length = if has_length {
            bytes.len() as u64 - offset
        } else {
            0
        };
        let slot = Slot {
            file: file.to_owned(),
            offset,
            length,
        };
        shelf.line(&case.url(), TIME, &slot, "");
    }
    std::fs::write(shelf.path().join("warcs").join(file), bytes).unwrap();
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
        store(
            &mut shelf,
            &cases,
            &format!("{name}.warc"),
            is_packed,
            has_length,
        );
        let (index, warcs) = (shelf.write_index(&format!("{name}.cdxj")), shelf.warcs());
        config += &format!("  {name}: {{index: {index}, resource: {warcs}}}\n");
    }
    let files = Stage::start(&config);
    // Another server that reads all of it from the first one.
    let remote = format!(
        "collections:\n  packed: {{index: {{type: upstream, url: '{}/packed'}}, resource: $live}}\n",
        files.url()
    );
    let remote = Stage::start(&remote);
    let mut served = 0;
    for case in &cases {
        for (stage, collection) in [
            (&files, "packed"),
            (&files, "plain"),
            (&files, "open"),
            (&remote, "packed"),
        ] {
            let shown = format!("{}: {collection}", case.name);
            let answer = stage.get(format!("/{collection}/{TIME}id_/{}", case.url()));
            let Some(right) = &case.right else {
                assert_eq!(answer.status, 404, "{shown}");
                continue;
            };
            assert_eq!(answer.status, 200, "{shown}: {}", answer.text());
            assert!(answer.body == *right, "{shown}: {}", answer.text());
            assert_eq!(answer.field("content-encoding"), None, "{shown}");
            let answer = stage.get(format!("/{collection}/resource?url={}", case.url()));
            let mut reader = Reader::new(&*shown, &answer.body[..]);
            let mut stored = reader.next().unwrap().unwrap();
            let (mut block, head) = (Vec::new(), stored.header().clone());
            stored.read_to_end(&mut block).unwrap();
            assert!(stored.finish().unwrap().deviations.is_empty(), "{shown}");
            assert!(block == case.block, "{shown}");
            for ((name, _), states) in both().iter().zip(case.states) {
                assert_eq!(head.get(name).is_some(), states, "{shown}: {name}");
            }
            served += 1;
        }
    }
    assert!(served > 200, "{served}");
}
