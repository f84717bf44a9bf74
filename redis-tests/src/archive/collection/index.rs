//! Indexes of a collection.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

use super::Collection;
use super::capture::Capture;
use crate::archive::json_text;

impl Collection {
    /// Returns the index as CDXJ: one line per capture, sorted by bytes.
    pub fn cdxj(&self) -> String {
        self.cdxj_lines().concat()
    }

    /// Returns the lines of the index, each with its line feed.
    pub fn cdxj_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.captures.iter().map(cdxj).collect();
        lines.sort_unstable();
        lines
    }

    /// Returns the index as CDX with eleven columns and a header, sorted by bytes.
    pub fn cdx(&self) -> String {
        let mut lines: Vec<String> = self.captures.iter().map(cdx).collect();
        lines.sort_unstable();
        format!(" CDX N b a m s k r M S V g\n{}", lines.concat())
    }

    /// Writes a ZipNum cluster into a folder: CDXJ in gzip members of `lines` lines, in two parts.
    /// Returns the secondary index of the cluster.
    ///
    /// # Panics
    /// Panics if a file cannot be written.
    pub fn cluster(&self, folder: &Path, lines: usize) -> PathBuf {
        cluster_of(&self.cdxj_lines(), folder, lines)
    }
}

/// Writes a ZipNum cluster of these sorted lines, each with its line feed; see
/// [`Collection::cluster`].
///
/// # Panics
/// Panics if a file cannot be written.
pub fn cluster_of(all: &[String], folder: &Path, lines: usize) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut parts = [Vec::new(), Vec::new()];
    let (mut secondary, mut number) = (String::new(), 0);
    let half = all.len().div_ceil(2 * lines).max(1);
    for (block, some) in all.chunks(lines).enumerate() {
        let part = usize::from(block >= half);
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
        let written = packed
            .write_all(some.concat().as_bytes())
            .and_then(|()| packed.finish());
        let packed = written.expect("writing to memory cannot fail");
        let key = some[0].split(" {").next().unwrap_or_default();
        let (from, length) = (parts[part].len(), packed.len());
        number += 1;
        let _ = writeln!(
            secondary,
            "{key}\tcdx-{part:05}.gz\t{from}\t{length}\t{number}"
        );
        parts[part].extend(packed);
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("the folder is writable");
        path
    };
    let mut places = String::new();
    for (part, bytes) in parts.iter().enumerate() {
        let name = format!("cdx-{part:05}.gz");
        let path = write(&name, bytes);
        let _ = writeln!(places, "{name}\t{}", path.display());
    }
    write("cluster.loc", places.as_bytes());
    write("cluster.idx", secondary.as_bytes())
}

fn cdxj(capture: &Capture) -> String {
    let Capture {
        key,
        timestamp,
        status,
        digest,
        place,
        ..
    } = capture;
    let (url, mime) = (json_text(&capture.url), capture.indexed_mime());
    let more = match &capture.posted {
        Some(posted) => format!(
            ", \"method\": \"POST\", \"requestBody\": {}",
            json_text(posted)
        ),
        None => String::new(),
    };
    let redirect = match &capture.location {
        Some(location) => format!(", \"redirect\": {}", json_text(location)),
        None => String::new(),
    };
    format!(
        "{key} {timestamp} {{\"url\": {url}, \"mime\": \"{mime}\", \"status\": \"{status}\", \"digest\": \"{digest}\"\
         {redirect}, \"length\": \"{}\", \"offset\": \"{}\", \"filename\": \"{}\"{more}}}\n",
        place.length, place.offset, place.file
    )
}

fn cdx(capture: &Capture) -> String {
    let Capture {
        key,
        timestamp,
        url,
        status,
        digest,
        place,
        ..
    } = capture;
    let (mime, location) = (
        capture.indexed_mime(),
        capture.location.as_deref().unwrap_or("-"),
    );
    format!(
        "{key} {timestamp} {url} {mime} {status} {digest} {location} - {} {} {}\n",
        place.length, place.offset, place.file
    )
}
