//! Records of WARC and ARC files.

use std::io::Write;

use flate2::write::GzEncoder;

use super::capture::{Capture, sha1_base32};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// WARC with one gzip member per record.
    Gzip,
    /// Uncompressed WARC.
    Plain,
    /// ARC with one gzip member per record.
    Arc,
}

impl Storage {
    /// Returns the extension of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Storage::Gzip => "warc.gz",
            Storage::Plain => "warc",
            Storage::Arc => "arc.gz",
        }
    }
}

/// Returns the first record of a file.
pub fn beginning(storage: Storage, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match storage {
        Storage::Arc => {
            let about = "1 0 Nobody\nURL IP-address Archive-date Content-type Archive-length\n\n";
            let head = format!(
                "filedesc://{name} 0.0.0.0 20160101000000 text/plain {}\n",
                about.len()
            );
            member(&mut out, storage, &[head.as_bytes(), about.as_bytes()]);
        }
        _ => {
            let about = "software: made up\r\nformat: WARC File Format 1.0\r\n";
            let head = format!(
                "WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:{}>\r\nWARC-Filename: {name}\r\n\
                 WARC-Date: 2016-01-01T00:00:00Z\r\nContent-Type: application/warc-fields\r\nContent-Length: {}\r\n\r\n",
                uuid(name),
                about.len()
            );
            member(
                &mut out,
                storage,
                &[head.as_bytes(), about.as_bytes(), b"\r\n\r\n"],
            );
        }
    }
    out
}

/// Appends the record of a capture.
pub fn append(out: &mut Vec<u8>, storage: Storage, capture: &mut Capture) {
    let http = capture.http_head();
    if storage == Storage::Arc {
        // ARC records cannot refer to other records.
        capture.original = None;
        let length = http.len() + capture.payload.len();
        let (url, time, mime) = (&capture.url, &capture.timestamp, capture.mime);
        let head = format!("{url} 192.0.2.1 {time} {mime} {length}\n");
        return member(
            out,
            storage,
            &[head.as_bytes(), http.as_bytes(), &capture.payload, b"\n"],
        );
    }
    let payload: &[u8] = if capture.is_revisit() {
        b""
    } else {
        &capture.payload
    };
    let mut block = http.clone().into_bytes();
    block.extend_from_slice(payload);
    let mut head = String::from("WARC/1.0\r\n");
    let mut field = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
    field(
        "WARC-Type",
        if capture.is_revisit() {
            "revisit"
        } else {
            "response"
        },
    );
    let id = uuid(&format!(
        "{} {} {:?}",
        capture.url, capture.timestamp, capture.posted
    ));
    field("WARC-Record-ID", &format!("<urn:uuid:{id}>"));
    field("WARC-Date", &iso(&capture.timestamp));
    field("WARC-Target-URI", &capture.url);
    field("WARC-IP-Address", "192.0.2.1");
    field("WARC-Payload-Digest", &format!("sha1:{}", capture.digest));
    field(
        "WARC-Block-Digest",
        &format!("sha1:{}", sha1_base32(&block)),
    );
    if let Some((url, timestamp)) = &capture.original {
        field(
            "WARC-Profile",
            "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest",
        );
        field("WARC-Refers-To-Target-URI", url);
        field("WARC-Refers-To-Date", &iso(timestamp));
    }
    field("Content-Type", "application/http; msgtype=response");
    field("Content-Length", &block.len().to_string());
    head.push_str("\r\n");
    member(out, storage, &[head.as_bytes(), &block, b"\r\n\r\n"]);
}

fn member(out: &mut Vec<u8>, storage: Storage, parts: &[&[u8]]) {
    if storage == Storage::Plain {
        return out.extend(parts.concat());
    }
    let mut packed = GzEncoder::new(out, flate2::Compression::default());
    let written = packed
        .write_all(&parts.concat())
        .and_then(|()| packed.finish());
    written.expect("writing to memory cannot fail");
}

/// Formats `20160101000000` as `2016-01-01T00:00:00Z`.
fn iso(timestamp: &str) -> String {
    let part = |from: usize, to: usize| &timestamp[from..to];
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

/// Computes a UUID from a string.
fn uuid(text: &str) -> String {
    let hex = sha1_smol::Sha1::from(text.as_bytes()).digest().to_string();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..32]
    )
}
