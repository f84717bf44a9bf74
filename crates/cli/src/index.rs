//! Imports the records of WARC and ARC files into a dedupe index, with the same result as a crawler that deduplicated
//! while writing them.
//!
//! A `response` record with a new payload is added by `DEDUPE.ADD`. A response with a known payload could have been a
//! `revisit` record; it is counted as a revisit of the size that it would have had ([`warc::Revisit`]). A `revisit`
//! record is counted with its own size.
//!
//! Importing a file into the same crawl again counts nothing twice, because the calls carry the id
//! of the file's first record as the writer's name, and the number of the batch. So an import can
//! always be repeated after a failure. A file must be complete before it is imported: if it grows
//! later, its batches change.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::any_index::AnyIndex;
use crawlspace_client::dedupe::{self, Added, Original, Revisited, Sequence};
use crawlspace_index::capture::is_hash;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::digest::{Algorithm, Digest, Digester, is_of_nothing, of};
use crawlspace_warc::http::is_response;
use crawlspace_warc::{self as warc, Date, Header, Reader, RecordType, Revisit};

/// Records in a batch. This number must not change: repeated imports rely on identical batches, and
/// would otherwise count earlier files again.
const BATCH: usize = 500;

/// Counts of the records of some WARC files, and of the effect of deduplication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Files read completely.
    pub files: u64,
    /// Records of all types.
    pub records: u64,
    /// `response` records among them.
    pub responses: u64,
    /// `revisit` records among them.
    pub revisits: u64,
    /// Responses whose payload was not in the index.
    pub unique: u64,
    /// Responses and revisits whose payload was in the index.
    pub duplicates: u64,
    /// Unusable responses and revisits: without a valid payload digest, URL or date, or with an empty payload.
    pub skipped: u64,
    /// Records that deviate from the standard but could be read.
    pub deviating: u64,
    /// Revisits of a payload that is not in the index.
    pub unresolved: u64,
    /// Size of all records in the files, in bytes.
    pub bytes: u64,
    /// Bytes saved by storing `revisit` records for the duplicates, including existing `revisit` records.
    pub bytes_saved: u64,
    /// Part of `bytes_saved` that existing `revisit` records save.
    pub bytes_saved_already: u64,
}

impl Tally {
    /// Returns the size that the files would have without deduplication, in bytes.
    pub fn bytes_undeduplicated(&self) -> u64 {
        self.bytes + self.bytes_saved_already
    }
}

/// Error while importing a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read; the import of other files can continue.
    #[error("{0}")]
    Warc(#[from] warc::Error),
    /// The index returns an error, or cannot be reached.
    #[error("{0}")]
    Dedupe(#[from] dedupe::Error),
}

/// Imports a WARC file into the crawl, and adds its counts to the tally. After an error in the file, all records before
/// the error are in the index.
///
/// # Errors
/// [`Error::Warc`] if the file cannot be read to its end, [`Error::Dedupe`] if the server returns an error or
/// cannot be reached.
pub fn add_file(
    index: &AnyIndex,
    crawl: &[u8],
    path: &Path,
    tally: &mut Tally,
) -> Result<(), Error> {
    let mut warc = Reader::open(path)?;
    add_records(index, crawl, path, &mut warc, tally)?;
    tally.files += 1;
    Ok(())
}

fn add_records<R: Read>(
    index: &AnyIndex,
    crawl: &[u8],
    path: &Path,
    warc: &mut Reader<R>,
    tally: &mut Tally,
) -> Result<(), Error> {
    let mut pass = Pass {
        index,
        crawl,
        path,
        tally,
        writer: Vec::new(),
        sequence: 1,
        batch: Vec::new(),
    };
    let outcome = pass.read(warc);
    // Flush after an error as well: the records before it are valid.
    pass.flush()?;
    outcome
}

/// A capture that waits for its batch to be sent.
struct Capture {
    header: Header,
    date: Vec<u8>,
    /// Payload digest in normal form, so that all encodings of a digest are equal.
    digest: Vec<u8>,
    /// The status line and header fields of a response.
    http_head: Vec<u8>,
    extent: warc::Extent,
}

struct Pass<'a> {
    index: &'a AnyIndex,
    crawl: &'a [u8],
    path: &'a Path,
    tally: &'a mut Tally,
    writer: Vec<u8>,
    sequence: u64,
    batch: Vec<Capture>,
}

impl Pass<'_> {
    fn read<R: Read>(&mut self, warc: &mut Reader<R>) -> Result<(), Error> {
        while let Some(mut record) = warc.next()? {
            let kind = record.header().record_type();
            if self.writer.is_empty() {
                let header = record.header();
                let made = || made_id(self.path, header);
                self.writer = header.record_id().map_or_else(made, <[u8]>::to_vec);
            }
            let is_capture = matches!(kind, RecordType::Response | RecordType::Revisit);
            let http_head = if is_capture {
                record.http_head()?
            } else {
                Vec::new()
            };
            let made = match kind {
                RecordType::Response if record.is_arc() => {
                    Some(payload_digest(&mut record, &http_head)?)
                }
                _ => None,
            };
            let (mut header, extent) = record.into_header()?;
            if let Some(digest) = made {
                header.set("WARC-Payload-Digest", digest.text().as_bytes());
            }
            self.tally.records += 1;
            self.tally.deviating += u64::from(!extent.deviations.is_empty());
            self.tally.bytes += extent.size;
            match kind {
                RecordType::Response => self.tally.responses += 1,
                RecordType::Revisit => self.tally.revisits += 1,
                _ => continue,
            }
            let is_empty = kind == RecordType::Response
                && is_response(&http_head)
                && header.content_length() == http_head.len() as u64;
            let usable = !is_empty
                && header.payload_digest().is_some_and(is_usable)
                && header.target_uri().is_some_and(|uri| !uri.is_empty());
            match timestamp(&header) {
                Some(date) if usable => self.batch.push(Capture {
                    digest: normal(header.payload_digest().unwrap_or_default()),
                    header,
                    date,
                    http_head,
                    extent,
                }),
                _ => self.tally.skipped += 1,
            }
            if self.batch.len() == BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        let hashes: Vec<&[u8]> = batch.iter().map(Capture::hash).collect();
        let known = self.index.lookup(Some(self.crawl), &hashes)?;

        // The first capture of each new hash in this batch. Later captures of the hash refer to it as their
        // original.
        let mut here: HashMap<&[u8], &Capture> = HashMap::new();
        let mut added = Vec::new();
        let mut revisited = Vec::new();
        let (mut unresolved, mut bytes_saved, mut already) = (0, 0, 0);
        for (capture, known) in batch.iter().zip(&known) {
            let is_response = capture.header.record_type() == RecordType::Response;
            let original = match (known, here.get(&capture.digest[..])) {
                // An earlier run added this record: the record is its own original and is not counted again.
                (Some(original), _) if is_response && self.is_itself(capture, original) => None,
                (Some(original), _) => Some((&original.url[..], &original.date[..], original.size)),
                (None, Some(first)) => Some((first.uri(), &first.date[..], first.extent.size)),
                (None, None) => None,
            };
            match original {
                None if is_response => {
                    here.entry(&capture.digest).or_insert(capture);
                    added.push(Added::new(
                        capture.hash(),
                        0,
                        &capture.date,
                        capture.uri(),
                        capture.extent.size,
                    ));
                }
                None => unresolved += 1,
                Some((uri, date, size)) => {
                    let revisit = capture.size_as_revisit(uri, date);
                    revisited.push(Revisited {
                        hash: capture.hash(),
                        size: revisit,
                        original: None,
                    });
                    let saved = size.saturating_sub(revisit);
                    bytes_saved += saved;
                    already += if is_response { 0 } else { saved };
                }
            }
        }
        let sequence = Sequence {
            writer: &self.writer,
            number: self.sequence,
        };
        self.index.write(self.crawl, sequence, &added, &revisited)?;
        self.sequence += 1;
        self.tally.unique += added.len() as u64;
        self.tally.duplicates += revisited.len() as u64;
        self.tally.unresolved += unresolved;
        self.tally.bytes_saved += bytes_saved;
        self.tally.bytes_saved_already += already;
        Ok(())
    }

    fn is_itself(&self, capture: &Capture, original: &Original) -> bool {
        original.crawl == self.crawl
            && original.date == capture.date
            && original.url == capture.uri()
    }
}

/// Returns an id for a file whose first record has no identifier. The id distinguishes the file from all others, which
/// makes retries safe.
fn made_id(path: &Path, header: &Header) -> Vec<u8> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let size = path.metadata().map_or(0, |file| file.len()).to_string();
    let whole = [name, size.as_bytes(), header.raw()].join(&b'\n');
    of(Algorithm::Sha1, &whole).text().into_bytes()
}

/// Returns true if the digest identifies a non-empty payload and is valid in the index.
fn is_usable(digest: &[u8]) -> bool {
    is_hash(digest) && !is_of_nothing(digest)
}

/// Returns the date of a record in UTC: 14 digits, or 17 if it has fractions of a second.
fn timestamp(header: &Header) -> Option<Vec<u8>> {
    header.timestamp().or_else(|| {
        let date = header.date()?;
        let mut digits = Timestamp::from_iso(date)?.to_string().into_bytes();
        // Fractions are the same in all time zones.
        digits.extend(
            Date::parse(date)?
                .timestamp()
                .into_iter()
                .skip(digits.len()),
        );
        Some(digits)
    })
}

/// Returns a digest in normal form, which is the same for all encodings of the digest.
fn normal(digest: &[u8]) -> Vec<u8> {
    Digest::parse(digest).map_or_else(|| digest.to_vec(), |digest| digest.text().into_bytes())
}

/// Computes the payload digest of a record that states none. If the block does not begin with an HTTP header, the whole
/// block is the payload.
fn payload_digest<R: Read>(
    record: &mut warc::Record<'_, R>,
    read: &[u8],
) -> Result<Digest, warc::Error> {
    let mut digester = Digester::new(Algorithm::Sha1);
    if !is_response(read) {
        digester.update(read);
    }
    record.for_each_piece(|piece| digester.update(piece))?;
    Ok(digester.finish())
}

impl Capture {
    fn hash(&self) -> &[u8] {
        self.header.payload_digest().unwrap_or_default()
    }

    fn uri(&self) -> &[u8] {
        self.header.target_uri().unwrap_or_default()
    }

    fn size_as_revisit(&self, refers_to_uri: &[u8], refers_to_date: &[u8]) -> u64 {
        if self.header.record_type() == RecordType::Revisit {
            return self.extent.size;
        }
        let revisit = Revisit {
            response: &self.header,
            http_head: &self.http_head,
            refers_to_uri,
            refers_to_date,
        };
        // `size` cannot fail, because a field read from a header line contains no line break. If it failed,
        // the response would count as saving nothing.
        revisit
            .size(self.extent.compression)
            .unwrap_or(self.extent.size)
    }
}
