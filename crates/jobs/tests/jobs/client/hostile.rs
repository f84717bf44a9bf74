//! Tests servers that send invalid responses.

use std::io::Write;
use std::time::Duration;

use crawlspace_jobs::{Error, IndexKind, Work};
use flate2::Compression;
use flate2::write::GzEncoder;
use redis_tests::{Part, Rng, ScriptedHost, answer, assert_contains, rows};
use tar::{EntryType, Header};

use crate::client::parcels::{
    Desk, arrives, entry, fill, lines, made, packed, set, tar, tar_of, write,
};

/// Returns the client's error for a response, which must leave no files behind.
fn said(parts: Vec<Part>) -> String {
    let desk = Desk::new();
    let host = ScriptedHost::start(move |_| parts.clone());
    let client = desk.strict(&host.url(""));
    let error = client.get_index(IndexKind::Dedup, &set("1,2"), &Work::default());
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Remote { .. }), "{error:?}");
    assert_eq!(desk.files(), [""; 0], "{error}");
    let text = error.to_string();
    let url = format!("{}: ", host.url("/_indexes/dedup?jobs=1,2"));
    text.strip_prefix(&url).expect(&text).to_owned()
}

#[track_caller]
fn refused(parts: Vec<Part>, what: &str) {
    let said = said(parts);
    assert!(said.contains(what), "{said}\nlacks {what:?}");
}

/// Returns the header of a tar member.
fn head(name: &str, size: u64, kind: EntryType) -> Vec<u8> {
    let mut head = Header::new_gnu();
    head.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    head.set_entry_type(kind);
    head.set_size(size);
    head.set_mode(0o777);
    head.set_cksum();
    head.as_bytes().to_vec()
}

/// Returns a valid tar file with the name and type of its second member replaced.
fn renamed(name: &str, kind: EntryType) -> Vec<u8> {
    let mut bytes = tar_of(IndexKind::Dedup, "1,2");
    let at = second(&bytes);
    let size = Header::from_byte_slice(&bytes[at..at + 512]).entry_size();
    bytes[at..at + 512].copy_from_slice(&head(name, size.unwrap(), kind));
    bytes
}

/// Returns the offset of the member after the manifest.
fn second(bytes: &[u8]) -> usize {
    let size = Header::from_byte_slice(&bytes[..512]).entry_size().unwrap();
    512 + size.next_multiple_of(512) as usize
}

#[test]
fn status_errors_include_the_message_of_the_server() {
    let json = |text: &str| serde_json::json!({ "message": text }).to_string();
    for (status, body, what) in rows![
        500, json("7-metadata-1.warc.gz: at 12: no record"), "500: 7-metadata-1.warc.gz";
        507, json("no room"), "507: no room";
        503, json("by process 7"), "503: by process 7";
        404, json("no indexes here"), "404: no indexes here";
        404, "<h1>Not found</h1>".to_owned(), "check that this is a server of job indexes";
        400, json("jobs: \u{1b}[31m"), "400: jobs:  [31m";
        204, String::new(), "204";
        206, tar_text(), "206";
        301, String::new(), "301";
        401, String::new(), "401";
    ] {
        refused(answer(status, &[], body), what);
    }
}

fn tar_text() -> String {
    "x".repeat(512)
}

#[test]
fn invalid_tar_is_refused() {
    let tar = tar_of(IndexKind::Dedup, "1,2");
    let typed = |media: &str| answer(200, &[("Content-Type", media)], &tar);
    refused(
        typed("text/html"),
        "check that this is a server of job indexes",
    );
    refused(
        typed("application/x-tarx"),
        "check that this is a server of job indexes",
    );
    refused(
        answer(200, &[], &tar),
        "check that this is a server of job indexes",
    );
    refused(arrives("x".repeat(4096)), "the tar header of manifest.json");
    refused(arrives(""), "ends before the end of the tar");
    refused(arrives([0; 2048]), "the tar header of");
}

#[test]
fn broken_connection_leaves_nothing() {
    let tar = tar_of(IndexKind::Dedup, "1,2");
    let mut rng = Rng::new("a connection that breaks");
    for _ in 0..20 {
        let end = rng.below(tar.len() as u64) as usize;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
            tar.len()
        );
        let parts = vec![
            Part::Bytes(head.into_bytes()),
            Part::Bytes(tar[..end].to_vec()),
            Part::Close,
        ];
        let said = said(parts);
        assert!(said.contains("connection lost"), "{end}: {said}");
        // A response without `Content-Length`, which ends when the connection is closed.
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\n\r\n";
        let parts = vec![
            Part::Bytes(head.into()),
            Part::Bytes(tar[..end].to_vec()),
            Part::Close,
        ];
        if end <= tar.len() - 1024 {
            self::refused(parts, "ends before the end of the tar");
        }
    }
}

#[test]
fn silent_server_times_out() {
    let desk = Desk::new();
    let tar = tar_of(IndexKind::Dedup, "1,2");
    let host = ScriptedHost::start(move |asked| {
        if asked.target.contains("jobs=1,2&") {
            let mut parts = arrives(&tar);
            if let Some(Part::Bytes(bytes)) = parts.first_mut() {
                bytes.truncate(bytes.len() - 2000);
            }
            parts.push(Part::Silence);
            parts
        } else {
            vec![Part::Silence]
        }
    });
    let client = desk
        .client(&host.url(""))
        .with_timeouts(Duration::from_millis(300), Duration::ZERO);
    for (jobs, what) in [("1,2", "stopped sending"), ("3", "does not answer")] {
        let error = client.get_index(IndexKind::Dedup, &set(jobs), &Work::default());
        let error = error.unwrap_err();
        assert_contains(&error, what);
    }
    assert_eq!(desk.files(), [""; 0]);
}

#[test]
fn every_changed_byte_is_noticed() {
    let good = tar_of(IndexKind::Dedup, "1,2");
    let mut rng = Rng::new("every byte counts");
    let desk = Desk::new();
    for _ in 0..60 {
        let at = rng.below(good.len() as u64) as usize;
        let mut bytes = good.clone();
        bytes[at] ^= 1 << rng.below(8);
        let host = ScriptedHost::start(move |_| arrives(&bytes));
        let client = desk.strict(&host.url(""));
        match client.get_index(IndexKind::Dedup, &set("1,2"), &Work::default()) {
            // Damage to padding and to unused header fields is harmless.
            Ok(index) => {
                let by_url = std::fs::read_to_string(index.entry.path().join("url.cdxj"));
                assert_eq!(by_url.unwrap(), lines("1,2").0, "byte {at}");
                let path = index.entry.path().to_owned();
                drop(index);
                std::fs::remove_dir_all(path).unwrap();
            }
            Err(error) => assert!(matches!(error, Error::Remote { .. }), "{error:?}"),
        }
        assert_eq!(desk.files(), [""; 0], "byte {at}");
    }
}

#[test]
fn checksums_are_verified() {
    let mut bytes = tar_of(IndexKind::Dedup, "1,2");
    let last = bytes.len() - 1024 - 300;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("url.idx"));
    // The last member is url.idx, which is text.
    let at = memchr::memmem::rfind(&bytes, b"com,example").unwrap();
    assert!(at > last - 1024);
    bytes[at] = b'd';
    refused(arrives(&bytes), "the checksum of url.idx is");
    let mut bytes = tar_of(IndexKind::Dedup, "1,2");
    let at = memchr::memmem::find(&bytes, b"\"jobs\"").unwrap();
    bytes[at + 10] ^= 1;
    refused(arrives(&bytes), "the manifest is damaged");
}

#[test]
fn unexpected_members_are_refused() {
    for name in ["../x", "/etc/passwd", "url.cdxj", "manifest.json", "a/b"] {
        let tar = renamed(name, EntryType::Regular);
        refused(
            arrives(tar),
            &format!("the tar has {name:?} where the file"),
        );
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::GNULongName,
        EntryType::XHeader,
    ] {
        refused(
            arrives(renamed("digest.cdxj.gz", kind)),
            "where the file digest.cdxj.gz",
        );
    }
    let good = tar_of(IndexKind::Dedup, "1,2");
    let mut more = good[..good.len() - 1024].to_vec();
    more.extend(head("x", 0, EntryType::Regular));
    more.extend([0; 1024]);
    refused(arrives(more), "files that its manifest does not list");
    let more = [&good[..], b"something"].concat();
    refused(arrives(more), "bytes after the end of the tar");
    let more = [&good[..], &[0; 1 << 20]].concat();
    refused(arrives(more), "the end of the tar is missing");
}

#[test]
fn sizes_must_match_the_manifest() {
    let mut bytes = tar_of(IndexKind::Dedup, "1,2");
    let at = second(&bytes);
    bytes[at..at + 512].copy_from_slice(&head("digest.cdxj.gz", 1 << 40, EntryType::Regular));
    refused(arrives(&bytes), "in the manifest");
    let manifest = head("manifest.json", 1 << 40, EntryType::Regular);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\n\r\n";
    let parts = vec![
        Part::Bytes([head.as_bytes(), &manifest].concat()),
        Part::Endless(vec![b'x'; 4096]),
    ];
    refused(parts, "the maximum is 67108864");
}

#[test]
fn decompression_bomb_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let entry = made(folder.path(), IndexKind::Dedup, "1,2", |draft| {
        fill(draft, IndexKind::Dedup, "1,2")?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![b'a'; 64 << 20]).unwrap();
        write(draft, "url.cdxj.gz", &gzip.finish().unwrap());
        Ok(())
    });
    refused(arrives(tar(&entry)), "it unpacks to more than");
}

#[test]
fn invalid_gzip_is_refused() {
    for bad in [&b"no gzip"[..], &packed("a\nb\n")[..10], b"\x1f\x8b"] {
        let folder = tempfile::tempdir().unwrap();
        let entry = made(folder.path(), IndexKind::Dedup, "1,2", |draft| {
            fill(draft, IndexKind::Dedup, "1,2")?;
            write(draft, "url.cdxj.gz", bad);
            Ok(())
        });
        refused(arrives(tar(&entry)), "url.cdxj.gz: it is not gzip");
    }
}

#[test]
fn index_of_other_jobs_is_refused() {
    refused(
        arrives(tar_of(IndexKind::Full, "1,2")),
        "instead of an index of kind dedup",
    );
    refused(
        arrives(tar_of(IndexKind::Dedup, "1,3")),
        "jobs that were not requested: 3",
    );
    let told = |found: &str| {
        let fields = [("Content-Type", "application/x-tar"), ("Jobs-Found", found)];
        answer(200, &fields, tar_of(IndexKind::Dedup, "1,2"))
    };
    refused(told("1"), "it reports 1, but sends an index of 1,2");
    refused(told("1,x"), "its list of found jobs");
    let folder = tempfile::tempdir().unwrap();
    let lacks = made(folder.path(), IndexKind::Dedup, "1,2", |draft| {
        write(draft, "url.idx", b"");
        Ok(())
    });
    refused(arrives(tar(&lacks)), "not those of an index of kind dedup");
    let folder = tempfile::tempdir().unwrap();
    let evil = made(folder.path(), IndexKind::Dedup, "1", |draft| {
        fill(draft, IndexKind::Dedup, "1")?;
        write(draft, "evil.sh", b"");
        Ok(())
    });
    refused(arrives(tar(&evil)), "not those of an index of kind dedup");
    // A valid response is accepted.
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::new();
    let good = tar(&entry(folder.path(), IndexKind::Dedup, "1,2"));
    let host = ScriptedHost::start(move |_| arrives(&good));
    let client = desk.strict(&host.url(""));
    assert!(
        client
            .get_index(IndexKind::Dedup, &set("1,2"), &Work::default())
            .is_ok()
    );
}
