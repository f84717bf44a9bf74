//! Tests damaged files.

use std::fs;

use proptest::prelude::*;
use redis_tests::metadata::{Form, metadata};
use redis_tests::rows;

use super::*;

/// Returns a log that is larger than the buffers.
fn log() -> Vec<u8> {
    redis_tests::harvest::logs(7, 5, 400).0
}

fn whole() -> Records {
    vec![(Kind::CrawlLog, log()), (Kind::Cdx, CDX.to_vec())]
}

fn bytes(form: Form) -> Vec<u8> {
    metadata("7-metadata-1", 7, 3, &log(), Some(CDX), form)
}

/// Reads a file with these bytes; returns its records or the error.
fn outcome(form: Form, bytes: &[u8]) -> Result<Records, String> {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("7-metadata-1{}", form.ending());
    fs::write(folder.path().join(&name), bytes).unwrap();
    match read(&archive_at(folder.path()), 7) {
        Ok((_, records)) => Ok(records),
        Err(error) => {
            let text = error.to_string();
            assert_says(&text, &[&name, "offset"]);
            Err(text)
        }
    }
}

fn forms() -> impl Strategy<Value = Form> {
    proptest::sample::select(&Form::ALL[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn truncated_file_yields_whole_records_or_none(
        form in forms(),
        at in any::<proptest::sample::Index>(),
    ) {
        let bytes = bytes(form);
        let cut = &bytes[..at.index(bytes.len())];
        if let Ok(records) = outcome(form, cut) {
            // A file that was cut between two records is read without an error.
            prop_assert!(whole().starts_with(&records), "{records:?}");
        }
    }

    #[test]
    fn changed_bytes_are_harmless_and_found_in_gzip_members(
        form in forms(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes(form);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let outcome = outcome(form, &bytes);
        if matches!(form, Form::WarcGz | Form::ArcGz)
            && let Ok(records) = outcome {
                prop_assert_eq!(records, whole());
            }
    }

    #[test]
    fn arbitrary_bytes_are_harmless(form in forms(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(outcome(form, &bytes).is_err());
    }
}

#[test]
fn truncated_log_is_an_error_at_its_offset() {
    for form in Form::ALL {
        let bytes = bytes(form);
        let packed = matches!(form, Form::WarcGz | Form::ArcGz);
        // The log is by far the largest record, so the middle of the file is in it.
        let text = outcome(form, &bytes[..bytes.len() / 2]).unwrap_err();
        assert_says(&text, &["the record is truncated"]);
        let offset: usize = text
            .split("offset ")
            .nth(1)
            .and_then(|rest| rest.split(':').next()?.parse().ok())
            .expect("an offset");
        let record = &bytes[offset..];
        let begins: &[u8] = match form {
            _ if packed => b"\x1f\x8b",
            Form::Warc => b"WARC/1.0\r\n",
            _ => b"metadata://netarkivet.dk/crawl/logs/crawl.log?",
        };
        assert!(record.starts_with(begins));
    }
}

#[test]
fn damage_at_the_end_of_a_member_is_found() {
    let member = |block: &[u8]| {
        let mut file =
            redis_tests::metadata::Metadata::begin(Vec::new(), "x", Form::WarcGz).unwrap();
        let begin = file.finish().unwrap().len();
        file = redis_tests::metadata::Metadata::begin(Vec::new(), "x", Form::WarcGz).unwrap();
        let url = redis_tests::metadata::crawl_log_url(7, 3);
        file.record(&url, "text/plain", block).unwrap();
        (begin, file.finish().unwrap())
    };
    let (begin, mut bytes) = member(CRAWL_LOG);
    let crc = bytes.len() - 8;
    bytes[crc] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("7-metadata-1.warc.gz"), &bytes).unwrap();
    let mut came = Vec::new();
    let outcome =
        archive_at(folder.path()).read(JobId(7), &Work::default(), &mut |_, mut record| {
            record
                .read_to_end(&mut came)
                .map_err(|error| Error::Request(error.to_string()))?;
            Ok(())
        });
    let text = outcome.unwrap_err().to_string();
    assert_says(
        &text,
        &["7-metadata-1.warc.gz", &format!("offset {begin}"), "gzip"],
    );
    assert_eq!(came, CRAWL_LOG, "the whole log was read before the error");
}

#[test]
fn invalid_warc_file_is_reported() {
    for (bytes, why) in rows![
        &b""[..], "empty";
        b"<html>not found</html>", "no WARC record begins here";
        b"filedesc", "truncated";
        b"filedesc://x\n", "its columns";
        b"\x1f\x8b\x08", "truncated";
        b"\0\0\0\0", "no WARC record begins here";
    ] {
        assert_says(&outcome(Form::Warc, bytes).unwrap_err(), &["offset 0", why]);
    }
}
