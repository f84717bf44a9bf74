//! Looks up rows in an index of jobs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use crawlspace_cdx::surt::urlkey;

use super::cursor::Cursor;
use super::entry::Entry;
use super::files::Files;
use super::sought::Sought;
use super::span::Span;
use crate::Error;
use crate::row::Row;
use crate::sorted::Order;
use crate::sorted::steps::wait;
use crate::source::SourceError;
use crate::timestamp::Timestamp;

/// An index of jobs: ZipNum clusters (`url.idx`, `digest.idx`), or the plain files of a client (`url.cdxj`,
/// `digest.cdxj`).
///
/// A look-up reads only the blocks that it needs, with the same search as requests over HTTP.
///
/// ```
/// use crawlspace_index::Lookup;
/// let folder = tempfile::tempdir()?;
/// let line = "com,example)/ 20160101000000 {\"url\":\"http://example.com/\",\"digest\":\"D\"}\n";
/// std::fs::write(folder.path().join("url.cdxj"), line)?;
/// std::fs::write(folder.path().join("digest.cdxj"), line.replace("com,example)/", "D"))?;
/// let lookup = Lookup::open(folder.path())?;
/// let row = lookup.closest("http://example.com/", "2020")?;
/// assert_eq!(row.map(|row| row.field("digest")), Some("D".to_owned()));
/// assert_eq!(lookup.by_digest("D")?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lookup {
    folder: PathBuf,
    url: Arc<Entry>,
    digest: Arc<Entry>,
}

/// An iterator over rows, in the order of the index.
pub struct Rows<'a> {
    lookup: &'a Lookup,
    cursor: Option<Cursor>,
    /// Restricts the rows to this URL.
    url: Option<String>,
}

impl Lookup {
    /// Opens the index in a folder.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the folder has no index.
    pub fn open(folder: &Path) -> Result<Lookup, Error> {
        Ok(Lookup {
            folder: folder.to_owned(),
            url: entry(folder, "url")?,
            digest: entry(folder, "digest")?,
        })
    }

    /// Returns the rows of exactly this URL, earliest first.
    ///
    /// # Errors
    /// [`Error::Request`] for an invalid URL; [`Error::Damaged`] if the index is damaged.
    pub fn by_url(&self, url: &str) -> Result<Rows<'_>, Error> {
        let span = Span::of_key(&key(url)?);
        let rows = self.rows(&self.url, span)?;
        Ok(Rows {
            url: Some(url.to_owned()),
            ..rows
        })
    }

    /// Returns the rows of a urlkey, which different URLs may share, earliest first.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the index is damaged.
    pub fn by_urlkey(&self, urlkey: &str) -> Result<Rows<'_>, Error> {
        self.rows(&self.url, Span::of_key(urlkey.as_bytes()))
    }

    /// Returns the rows of a digest, written as in the index, earliest first. The key of these rows is the digest.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the index is damaged.
    pub fn by_digest(&self, digest: &str) -> Result<Rows<'_>, Error> {
        self.rows(&self.digest, Span::of_key(digest.as_bytes()))
    }

    /// Returns the row of exactly this URL whose date is closest to `date` (4 to 14 digits); of two at the same
    /// distance, the earlier one.
    ///
    /// # Errors
    /// [`Error::Request`] for an invalid URL or date; [`Error::Damaged`] if the index is damaged.
    pub fn closest(&self, url: &str, date: &str) -> Result<Option<Row>, Error> {
        let Some(moment) = Timestamp::earliest(date.as_bytes()) else {
            return Err(Error::Request(format!(
                "invalid date {date:?}: write 4 to 14 digits, as in 20160229123000"
            )));
        };
        let key = key(url)?;
        let order = Order::Closest(moment);
        let mut nearest: Option<(u64, Row)> = None;
        // One cursor reads the rows before the date backward; the other cursor reads the rows from
        // the date on.
        for cursor in self.start(&self.url, Span::of_key(&key), order)? {
            let mut rows = Rows {
                lookup: self,
                cursor: Some(cursor),
                url: Some(url.to_owned()),
            };
            let Some(row) = rows.next().transpose()? else {
                continue;
            };
            let distance = rows.cursor.as_ref().map_or(0, Cursor::distance);
            if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
                nearest = Some((distance, row));
            }
        }
        Ok(nearest.map(|(_, row)| row))
    }

    /// Returns all rows, sorted by urlkey and date.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the index is damaged.
    pub fn all(&self) -> Result<Rows<'_>, Error> {
        self.rows(&self.url, Span::all())
    }

    fn rows(&self, entry: &Arc<Entry>, span: Span) -> Result<Rows<'_>, Error> {
        let cursor = self.start(entry, span, Order::Ascending)?.pop();
        Ok(Rows {
            lookup: self,
            cursor,
            url: None,
        })
    }

    fn start(&self, entry: &Arc<Entry>, span: Span, order: Order) -> Result<Vec<Cursor>, Error> {
        let entries: Arc<[_]> = Arc::new([Arc::clone(entry)]);
        let mut files = Files::new(entries, Sought::of(span), order);
        let cursors = self.wait(files.cursors())?;
        cursors.ok_or_else(|| self.damaged(format!("{} is gone", entry.file.path().display())))
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, SourceError>>) -> Result<T, Error> {
        wait(work).map_err(|error| self.damaged(error.to_string()))
    }

    fn damaged(&self, what: String) -> Error {
        // The message usually begins with the path, which `Error::Damaged` adds itself.
        let folder = format!("{}/", self.folder.display());
        Error::Damaged {
            entry: self.folder.clone(),
            what: what.strip_prefix(&folder).unwrap_or(&what).to_owned(),
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let cursor = self.cursor.as_mut()?;
            let lookup = self.lookup;
            match lookup.wait(cursor.next()) {
                Ok(true) => {}
                Ok(false) => {
                    let broken = cursor.broken();
                    self.cursor = None;
                    let what = || lookup.damaged(format!("it has {broken} invalid lines"));
                    return (broken > 0).then(|| Err(what()));
                }
                Err(error) => {
                    self.cursor = None;
                    return Some(Err(error));
                }
            }
            let Some(row) = Row::new(Bytes::copy_from_slice(cursor.line())) else {
                self.cursor = None;
                return Some(Err(lookup.damaged("it has an invalid line".to_owned())));
            };
            if self.url.as_ref().is_none_or(|url| row.field("url") == *url) {
                return Some(Ok(row));
            }
        }
    }
}

/// Opens the index file with this stem in a folder.
fn entry(folder: &Path, stem: &str) -> Result<Arc<Entry>, Error> {
    let (_, idx) = crate::zipnum::files(folder, stem);
    if idx.try_exists().map_err(Error::io(&idx, "open"))? {
        return Ok(Arc::new(Entry::clustered(idx, None)));
    }
    let plain = folder.join(format!("{stem}.cdxj"));
    if plain.try_exists().map_err(Error::io(&plain, "open"))? {
        Ok(Arc::new(Entry::plain(plain)))
    } else {
        Err(Error::Damaged {
            entry: folder.to_owned(),
            what: format!("neither {stem}.idx nor {stem}.cdxj exists"),
        })
    }
}

fn key(url: &str) -> Result<Vec<u8>, Error> {
    let key = urlkey(url).map_err(|error| Error::Request(error.to_string()))?;
    Ok(key.into_bytes())
}
