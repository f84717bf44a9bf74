//! Runs records, as real tools write them and as accidents damage them, through every reader.
//! Records proven to be intact are served, and others are never served completely.

#[allow(dead_code)] // the tests of the tool use the rest of the module
pub mod cases;
pub mod parts;

use std::io::Read as _;

use crawlspace_warc::Reader;

use self::cases::{Case, TIME, both, cases, pack, store};
use crate::serving::Stage;
use crate::shelf::Shelf;

#[test]
fn records_proven_intact_are_served_from_every_container() {
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
    // A second server that gets all records from the first one.
    let remote = format!(
        "collections:\n  packed: {{index: {{type: upstream, url: '{}/packed'}}, resource: $live}}\n",
        files.url()
    );
    let remote = Stage::start_apart(&remote);
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
            // Packages do not contain ARC files.
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

/// Compares the record that a collection serves with the expected one.
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
