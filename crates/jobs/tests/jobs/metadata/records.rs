//! Tests the assignment of records to jobs.

use std::fs;
use std::io::Write;

use redis_tests::metadata::{Form, Metadata, cdx_url, crawl_log_url, metadata, write_metadata};
use redis_tests::{harvest, rows};

use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns a file with these records.
fn file_of(form: Form, records: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut file = Metadata::begin(Vec::new(), "x", form).unwrap();
    for (url, media_type, block) in records {
        file.record(url, media_type, block).unwrap();
    }
    file.finish().unwrap()
}

/// Returns a WARC record with these fields.
fn record(fields: &str, block: &[u8]) -> Vec<u8> {
    let length = block.len();
    let head = format!("WARC/1.0\r\n{fields}\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), block, b"\r\n\r\n"].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    member.write_all(bytes).unwrap();
    member.finish().unwrap()
}

#[test]
fn both_records_are_read_in_one_pass_from_every_form() {
    let (crawl_log, cdx) = harvest::logs(117, 1, 3_000);
    for form in Form::ALL {
        let folder = folder();
        let name = format!("117-metadata-1{}", form.ending());
        let path = folder.path().join(&name);
        write_metadata(&path, 117, 3, &crawl_log, Some(&cdx), form);
        let (found, records) = read(&archive_at(folder.path()), 117).unwrap();
        let expected = [(Kind::CrawlLog, &crawl_log), (Kind::Cdx, &cdx)];
        assert_eq!(records, expected.map(|(kind, text)| (kind, text.clone())));
        assert_eq!(files(&found), [&name]);
        assert_eq!(found.files[0].size, fs::metadata(&path).unwrap().len());
        assert_eq!(found.notes, [""; 0]);
    }
}

#[test]
fn wholly_compressed_file_is_read() {
    for form in [Form::Warc, Form::Arc] {
        let folder = folder();
        let bytes = metadata("x", 7, 3, CRAWL_LOG, Some(CDX), form);
        let name = format!("7-metadata-1{}.gz", form.ending());
        fs::write(folder.path().join(name), gzip(&bytes)).unwrap();
        assert_eq!(read(&archive_at(folder.path()), 7).unwrap().1, both());
    }
}

#[test]
fn version_block_of_old_arc_files_may_count_its_line_end() {
    let folder = folder();
    let names = "URL IP-address Archive-date Content-type Archive-length";
    let version = format!("1 0 InternetArchive\n{names}\n\n");
    let (log, cdx, length) = (crawl_log_url(4, 2), cdx_url(4, 2), version.len());
    // The last record may lack its line end.
    let bytes = format!(
        "filedesc://4-metadata-1.arc 0.0.0.0 20130522091849 text/plain {length}\n{version}\
         {log} 172.16.13.127 20130522091849 text/plain 1\n3\n\
         {cdx} 172.16.13.127 20130522091849 application/x-cdx 2\nab"
    );
    fs::write(folder.path().join("4-metadata-1.arc"), bytes).unwrap();
    let expected = [(Kind::CrawlLog, b"3".to_vec()), (Kind::Cdx, b"ab".to_vec())];
    assert_eq!(read(&archive_at(folder.path()), 4).unwrap().1, expected);
}

#[test]
fn job_without_files_differs_from_one_without_records() {
    let folder = folder();
    let path = folder.path().join("7-metadata-1.warc");
    write_metadata(&path, 7, 3, CRAWL_LOG, None, Form::Warc);
    let url = "metadata://a.example/crawl/reports/x";
    let reports = file_of(Form::Warc, &[(url, "text/plain", b"x")]);
    for name in ["8-metadata-1.warc", "8-metadata-2.warc"] {
        fs::write(folder.path().join(name), &reports).unwrap();
    }
    let archive = archive_at(folder.path());

    let (found, _) = read(&archive, 7).unwrap();
    assert_eq!(found.missing(Kind::CrawlLog), None);
    assert_eq!(found.missing(Kind::Cdx), no_record(&["7-metadata-1.warc"]));
    let (found, _) = read(&archive, 8).unwrap();
    let files = ["8-metadata-1.warc", "8-metadata-2.warc"];
    assert_eq!(found.missing(Kind::CrawlLog), no_record(&files));
    let (found, _) = read(&archive, 9).unwrap();
    assert_eq!(found.missing(Kind::CrawlLog), Some(Missing::NoJob));
}

#[test]
fn url_of_a_record_determines_its_job() {
    let folder = folder();
    for (job, name) in [
        (117, "coll-117-3-metadata-2.warc"),
        (118, "12-harvest-118-metadata-1.warc"),
    ] {
        let path = folder.path().join(name);
        write_metadata(&path, job, 3, CRAWL_LOG, Some(CDX), Form::Warc);
    }
    let path = folder.path().join("5-metadata-1.warc");
    write_metadata(&path, 6, 3, CRAWL_LOG, Some(CDX), Form::Warc);
    let archive = archive_at(folder.path());
    assert_eq!(read(&archive, 117).unwrap().1, both());
    assert_eq!(read(&archive, 118).unwrap().1, both());
    // These numbers belong to harvests and to other jobs, so no such job is found.
    for job in [3, 12, 6] {
        let (found, _) = read(&archive, job).unwrap();
        assert_eq!(found.missing(Kind::CrawlLog), Some(Missing::NoJob), "{job}");
    }
    // The file is assigned to the job by its name only, not by a record.
    let (found, _) = read(&archive, 5).unwrap();
    let missing = found.missing(Kind::CrawlLog).unwrap();
    let others = [JobId(6)].into_iter().collect();
    let files = vec!["5-metadata-1.warc".to_owned()];
    assert_eq!(missing, Missing::NoRecord { files, others });
    let text = "no such record in 5-metadata-1.warc, whose records belong to job 6 according to their jobid=";
    assert_eq!(missing.to_string(), text);
}

#[test]
fn file_name_determines_the_job_if_the_url_does_not() {
    for form in [Form::Warc, Form::ArcGz] {
        let folder = folder();
        let log = "metadata://a.example/crawl/logs/crawl.log";
        let cdx = "metadata://a.example/crawl/index/cdx?x=1";
        let records = rows![log, "text/plain", CRAWL_LOG; cdx, "application/x-cdx", CDX];
        let bytes = file_of(form, &records);
        for name in ["coll-7-metadata-1", "8-3-metadata-1"] {
            let path = folder.path().join(format!("{name}{}", form.ending()));
            fs::write(path, &bytes).unwrap();
        }
        let archive = archive_at(folder.path());
        assert_eq!(read(&archive, 7).unwrap().1, both());
        for job in [8, 3] {
            let text = failure(&archive, job);
            assert_says(&text, &["8-3-metadata-1", "offset", "the job is ambiguous"]);
        }
    }
}

#[test]
fn invalid_job_number_is_ignored() {
    let folder = folder();
    let jobs = ["x", "", "+7", "7x", "99999999999999999999"];
    for (n, job) in jobs.iter().enumerate() {
        let url = format!("metadata://a.example/crawl/logs/crawl.log?jobid={job}");
        let bytes = file_of(Form::Warc, &[(&url, "text/plain", CRAWL_LOG)]);
        fs::write(folder.path().join(format!("7-metadata-{n}.warc")), bytes).unwrap();
    }
    assert_eq!(read(&archive_at(folder.path()), 7).unwrap().1, []);
}

#[test]
fn records_of_other_urls_and_types_are_skipped() {
    let folder = folder();
    let records = rows![
        "metadata://a.example/crawl/logs/crawl.logs", "text/plain; charset=UTF-8", &b"1"[..];
        "METADATA://a.example/crawl/logs/crawl.log?jobid=7", "TEXT/PLAIN", b"2";
        "metadata://a.example/crawl/logs/crawl.log?a=b&jobid=7&c", "text/html", b"3";
        "metadata://a.example/x/crawl/logs/crawl.log?jobid=7", "text/plain", b"4";
        "http://a.example/crawl/logs/crawl.log?jobid=7", "text/plain", b"5";
        "metadata://a.example/crawl/logs/xcrawl.log?jobid=7", "text/plain", b"6";
        "metadata://a.example/crawl/index/cdx?jobid=7", "text/plain", b"7";
        "metadata://a.example/crawl/index/cdx?jobid=8", "application/x-cdx", b"8";
        "metadata://a.example", "application/x-cdx", b"9";
        "metadata://a.example/crawl/index/cdx?jobid=7", "application/x-cdx", b"";
    ];
    let bytes = file_of(Form::Warc, &records);
    fs::write(folder.path().join("7-metadata-1.warc"), bytes).unwrap();
    let (found, records) = read(&archive_at(folder.path()), 7).unwrap();
    let expected = [
        (Kind::CrawlLog, b"1".to_vec()),
        (Kind::CrawlLog, b"2".to_vec()),
        (Kind::Cdx, Vec::new()),
    ];
    assert_eq!(records, expected);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    let parts = ["7-metadata-1.warc", "offset", "text/html", "text/plain"];
    assert_says(&found.notes[0], &parts);
}

#[test]
fn http_header_is_no_part_of_the_log() {
    let url = "WARC-Target-URI: metadata://a.example/crawl/logs/crawl.log?jobid=7";
    let media_type = "Content-Type: application/http; msgtype=response";
    let fields = format!("WARC-Type: response\r\n{url}\r\n{media_type}");
    let folder = folder();
    let plain = &b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"[..];
    let block = [plain, b"\r\n", CRAWL_LOG].concat();
    let coded = [plain, b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"].concat();
    for (job, block) in [("7", block), ("8", coded)] {
        let bytes = record(&fields.replace("=7", &format!("={job}")), &block);
        let name = format!("{job}-metadata-1.warc");
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let archive = archive_at(folder.path());
    let expected = [(Kind::CrawlLog, CRAWL_LOG.to_vec())];
    assert_eq!(read(&archive, 7).unwrap().1, expected);
    let parts = ["8-metadata-1.warc", "offset 0", "coding"];
    assert_says(&failure(&archive, 8), &parts);
}

#[test]
fn stated_digest_is_compared_to_the_block() {
    let url = "WARC-Target-URI: metadata://a.example/crawl/logs/crawl.log?jobid=7";
    let digest = sha1_smol::Sha1::from(CRAWL_LOG).digest();
    let fields = format!("WARC-Type: resource\r\n{url}\r\nContent-Type: text/plain");
    let fields = format!("{fields}\r\nWARC-Block-Digest: sha1:{digest}");
    let folder = folder();
    let path = folder.path().join("7-metadata-1.warc");
    fs::write(&path, record(&fields, CRAWL_LOG)).unwrap();
    let archive = archive_at(folder.path());
    assert_eq!(read(&archive, 7).unwrap().1.len(), 1);

    let mut changed = CRAWL_LOG.to_vec();
    changed[30] ^= 1;
    fs::write(&path, record(&fields, &changed)).unwrap();
    let parts = ["7-metadata-1.warc", "offset 0", "WARC-Block-Digest"];
    assert_says(&failure(&archive, 7), &parts);
    // The digest is checked even if the record is not read.
    let unread = archive.read(JobId(7), &Work::default(), &mut |_, _| Ok(()));
    assert_says(&unread.unwrap_err().to_string(), &["WARC-Block-Digest"]);
}

#[test]
fn segment_of_a_record_is_refused() {
    let url = "WARC-Target-URI: metadata://a.example/crawl/logs/crawl.log?jobid=7";
    let fields = format!("WARC-Type: resource\r\n{url}\r\nContent-Type: text/plain\r\n");
    let folder = folder();
    let path = folder.path().join("7-metadata-1.warc");
    let bytes = record(&format!("{fields}WARC-Segment-Number: 1"), CRAWL_LOG);
    fs::write(&path, bytes).unwrap();
    let archive = archive_at(folder.path());
    assert_says(
        &failure(&archive, 7),
        &["offset 0", "a segment of a record"],
    );
    let bytes = record(&format!("{fields}WARC-Truncated: length"), CRAWL_LOG);
    fs::write(&path, bytes).unwrap();
    let (found, _) = read(&archive, 7).unwrap();
    assert_says(&found.notes.concat(), &["WARC-Truncated"]);
}

#[test]
fn files_of_a_job_are_read_in_numeric_order() {
    let folder = folder();
    for n in [10, 2, 1] {
        let path = folder.path().join(format!("7-metadata-{n}.warc"));
        write_metadata(&path, 7, 3, format!("{n}\n").as_bytes(), None, Form::Warc);
    }
    let (_, records) = read(&archive_at(folder.path()), 7).unwrap();
    let blocks: Vec<&[u8]> = records.iter().map(|(_, block)| &block[..]).collect();
    assert_eq!(blocks, [&b"1\n"[..], b"2\n", b"10\n"]);
}

#[test]
fn return_value_of_the_consumer_is_passed_on() {
    let folder = folder();
    let path = folder.path().join("7-metadata-1.warc");
    write_metadata(&path, 7, 3, CRAWL_LOG, Some(CDX), Form::Warc);
    let archive = archive_at(folder.path());
    let mut came = Vec::new();
    let refused = archive.read(JobId(7), &Work::default(), &mut |kind, _| {
        came.push(kind);
        Err(Error::Request("no".to_owned()))
    });
    assert_eq!(refused.unwrap_err().to_string(), "no");
    assert_eq!(came, [Kind::CrawlLog]);

    let work = Work::default();
    work.cancel();
    let stopped = archive.read(JobId(7), &work, &mut |_, _| panic!("it goes on"));
    assert!(matches!(stopped, Err(Error::Cancelled)));
}
