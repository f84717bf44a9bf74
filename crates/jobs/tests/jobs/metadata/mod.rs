//! Tests reading of metadata files: the `crawl.log` and the CDX of a job are returned exactly as
//! stored, or not at all. An unreadable file is never reported as a missing job.

mod damage;
mod places;
mod records;
mod web;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crawlspace_jobs::metadata::{Archive, JobContents, Kind, Options};
use crawlspace_jobs::{Error, JobId, JobSet, Missing, Work};
use crawlspace_wacz as wacz;
use redis_tests::with;

const CRAWL_LOG: &[u8] = b"2013-05-22T08:29:58.123Z 200 1 http://a.example/ - - text/html #1 20130522082957456+5 sha1:A - -\n";
const CDX: &[u8] = b"http://a.example/ 10.0.0.1 20130522082957 text/html 1 7-3-0.warc 0\n";

/// Records of a job in the order of arrival.
type Records = Vec<(Kind, Vec<u8>)>;

/// Returns options without a rescan interval, and with few retries.
fn options() -> Options {
    Options {
        rescan: Duration::ZERO,
        http: with!(wacz::Options, retries: 1, pause: Duration::ZERO),
    }
}

fn archive(places: &[&str]) -> Archive {
    let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
    Archive::open_with(&places, options()).expect("places")
}

fn archive_at(folder: &Path) -> Archive {
    archive(&[folder.to_str().expect("a path of text")])
}

fn read(archive: &Archive, job: u64) -> Result<(JobContents, Records), Error> {
    let mut records = Vec::new();
    let found = archive.read(JobId(job), &Work::default(), &mut |kind, mut record| {
        let mut block = Vec::new();
        match record.read_to_end(&mut block) {
            Ok(_) => {
                assert_eq!(block.len() as u64, record.length);
                records.push((kind, block));
                Ok(())
            }
            Err(error) => Err(Error::Request(format!("of the reader: {error}"))),
        }
    })?;
    for kind in Kind::ALL {
        let came = records.iter().filter(|(of, _)| *of == kind).count();
        assert_eq!(found.count(kind), came as u64);
        assert_eq!(found.missing(kind).is_none(), came > 0);
    }
    Ok((found, records))
}

/// Returns the error message.
fn failure(archive: &Archive, job: u64) -> String {
    match read(archive, job) {
        Err(error) => error.to_string(),
        Ok((found, _)) => panic!("it was read: {found:?}"),
    }
}

fn files(found: &JobContents) -> Vec<&str> {
    found.files.iter().map(|file| &*file.name).collect()
}

fn both() -> Records {
    vec![
        (Kind::CrawlLog, CRAWL_LOG.to_vec()),
        (Kind::Cdx, CDX.to_vec()),
    ]
}

fn no_record(files: &[&str]) -> Option<Missing> {
    let files = files.iter().map(|&file| file.to_owned()).collect();
    let others = JobSet::default();
    Some(Missing::NoRecord { files, others })
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
}
