//! Access points: decide which rows a reader may see, by the tags of a tag space in Redis.
//!
//! Access fails closed: if the tag space does not answer, no row is shown; rows that the tag space cannot parse are
//! omitted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;

use crawlspace_client::server::without_password;
use crawlspace_client::tags::{Captures, Dialect, Filter, Format, TagSpace};
use crawlspace_client::{AsyncServer, Code, Error};
use crawlspace_index::row::Row;
use crawlspace_index::source::Batch;

/// Maximum number of rows in one call.
const MAX_ROWS: usize = 1000;
/// Byte limit of one call: once its rows reach this size, no further row is added to the call.
const MAX_BYTES: usize = 1 << 20;
/// Timeout of each reply of the tag space.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of retries after a broken connection.
const RETRIES: u32 = 1;
/// Total timeout of all calls for one batch of rows, retries included.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(15);

/// A client of the tag space that decides which rows a reader may see. Clones share its connections, which are opened
/// on first use.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    /// URL of the server, with the number of the database.
    url: String,
    key: Vec<u8>,
    space: OnceCell<TagSpace<AsyncServer>>,
}

/// The reason why access cannot be decided. In that case, no rows are shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The access point does not exist.
    #[error("{0}")]
    NoPoint(String),
    /// A tag filter of the query is invalid.
    #[error("{0}")]
    Query(String),
    /// The tag space is unavailable.
    #[error("{0}")]
    Unavailable(String),
}

impl Access {
    /// Creates a client of the tag space at `redis://host:port/db/key`, which connects on first use.
    ///
    /// # Errors
    /// Fails if the URL is invalid; the message says why.
    pub fn new(url: &str) -> Result<Access, String> {
        let parts = url.split_once("://").and_then(|(scheme, rest)| {
            let (host, rest) = rest.split_once('/')?;
            let (database, key) = rest.split_once('/')?;
            let is_whole = !host.is_empty()
                && !key.is_empty()
                && !database.is_empty()
                && database.bytes().all(|byte| byte.is_ascii_digit());
            is_whole.then(|| (format!("{scheme}://{host}/{database}"), key))
        });
        let Some((url, key)) = parts else {
            let shown = without_password(url);
            return Err(format!(
                "invalid tag space {shown}: write redis://host:port/db/key"
            ));
        };
        Ok(Access(Arc::new(Inner {
            url,
            key: key.as_bytes().to_vec(),
            space: OnceCell::new(),
        })))
    }

    /// Returns the rows that pass an access point and tag filters (`tag.coll:1068`, in pywb's dialect), in their
    /// original order.
    ///
    /// # Errors
    /// Fails if the tag space is unavailable, or the access point is unknown.
    pub async fn filter(
        &self,
        point: Option<&str>,
        tag_filters: &[String],
        mut rows: Batch,
    ) -> Result<Batch, AccessError> {
        let mut passed = self.passes(point, tag_filters, &rows).await?.into_iter();
        rows.retain(|_| passed.next().unwrap_or(false));
        Ok(rows)
    }

    /// Returns, for each row, whether it passes an access point and tag filters.
    ///
    /// # Errors
    /// The same errors as [`Access::filter`].
    pub async fn passes(
        &self,
        point: Option<&str>,
        tag_filters: &[String],
        rows: &[Row],
    ) -> Result<Vec<bool>, AccessError> {
        let filter = Filter {
            point: point.map(str::as_bytes),
            specs: tag_filters.iter().map(String::as_bytes).collect(),
            dialect: Dialect::Pywb,
            format: Format::Cdxj,
            drop_bad_lines: true,
            ..Filter::default()
        };
        // The tag space would read a line with a line break as two rows, which would shift the answers of all following
        // rows.
        let is_one_line = |row: &Row| !row.line().contains(&b'\n');
        let asked: Batch = rows
            .iter()
            .filter(|row| is_one_line(row))
            .cloned()
            .collect();
        let all = async {
            let mut passed = Vec::with_capacity(asked.len());
            for part in parts(&asked) {
                passed.extend(self.verdicts(&filter, part).await?);
            }
            Ok(passed)
        };
        let passed: Vec<bool> = match tokio::time::timeout(TOTAL_TIMEOUT, all).await {
            Ok(passed) => passed?,
            Err(_) => {
                return Err(self.unavailable(format!(
                    "no answer within {} seconds",
                    TOTAL_TIMEOUT.as_secs()
                )));
            }
        };
        let mut passed = passed.into_iter();
        let answer = |row: &Row| is_one_line(row) && passed.next().unwrap_or(false);
        Ok(rows.iter().map(answer).collect())
    }

    /// Returns the tags of each row.
    ///
    /// # Errors
    /// Fails if the tag space is unavailable.
    pub async fn tags(&self, rows: &[Row]) -> Result<Vec<Vec<Vec<u8>>>, AccessError> {
        let filter = Filter {
            specs: Vec::new(),
            format: Format::Cdxj,
            ..Filter::default()
        };
        let text: Vec<u8> = rows
            .iter()
            .flat_map(|row| [row.line(), &b"\n"[..]].concat())
            .collect();
        let ask = async {
            let space = self.0.space.get_or_try_init(|| self.open()).await;
            let space = space.map_err(|error| self.refused(&filter, &error))?;
            let tagged = space.tagged(&filter, Captures::Blob(&text)).await;
            tagged.map_err(|error| self.refused(&filter, &error))
        };
        let Ok(tagged) = tokio::time::timeout(TOTAL_TIMEOUT, ask).await else {
            return Err(self.unavailable("no answer in time".to_owned()));
        };
        let mut tags = vec![Vec::new(); rows.len()];
        for one in tagged? {
            if let Some(tags) = usize::try_from(one.index)
                .ok()
                .and_then(|at| tags.get_mut(at))
            {
                *tags = one.tags;
            }
        }
        Ok(tags)
    }

    /// Checks an access point and filters against a dummy row. Called when there are no rows, so that an error does not
    /// reveal whether rows exist.
    ///
    /// # Errors
    /// The same errors as [`Access::filter`].
    pub async fn check(
        &self,
        point: Option<&str>,
        tag_filters: &[String],
    ) -> Result<(), AccessError> {
        let none = Row::new(Bytes::from_static(b"nothing 00000101000000 {}"));
        let rows = none.into_iter().collect();
        self.filter(point, tag_filters, rows).await.map(drop)
    }

    /// Returns, for each row, whether it passes; sends one call.
    async fn verdicts(&self, filter: &Filter<'_>, rows: &[Row]) -> Result<Vec<bool>, AccessError> {
        let mut text = Vec::with_capacity(rows.iter().map(|row| row.line().len() + 1).sum());
        for row in rows {
            text.extend_from_slice(row.line());
            text.push(b'\n');
        }
        let space = self.0.space.get_or_try_init(|| self.open());
        let space = space.await.map_err(|error| self.refused(filter, &error))?;
        let bits = space.bits(filter, Captures::Blob(&text)).await;
        let bits = bits.map_err(|error| self.refused(filter, &error))?;
        if bits.len() != rows.len().div_ceil(8) {
            let what = format!(
                "the reply does not have one result for each of the {} requested rows",
                rows.len()
            );
            return Err(self.unavailable(what));
        }
        let bit = |i: usize| {
            bits.get(i / 8)
                .is_some_and(|byte| byte & (0x80 >> (i % 8)) != 0)
        };
        Ok((0..rows.len()).map(bit).collect())
    }

    async fn open(&self) -> Result<TagSpace<AsyncServer>, Error> {
        let options = AsyncServer::options(&self.0.url)
            .timeout(TIMEOUT)
            .job_timeout(TIMEOUT)
            .retries(RETRIES);
        let server = options.open_async().await?;
        Ok(TagSpace::on(&server, self.0.key.clone()))
    }

    /// Converts an error of the server for the client; only errors about the client's own input are passed on in
    /// detail.
    fn refused(&self, filter: &Filter<'_>, error: &Error) -> AccessError {
        let said = |words: &[&[u8]]| {
            let words = words.iter().map(|word| String::from_utf8_lossy(word));
            words.collect::<Vec<_>>().join(" ")
        };
        let has_specs = !filter.specs.is_empty();
        match (error.code(), filter.point) {
            (Some(Code::NoPoint), Some(point)) => {
                AccessError::NoPoint(format!("there is no access point {:?}", said(&[point])))
            }
            // Errors in the definition of an access point are not the client's fault.
            (Some(Code::Syntax | Code::BadRegex | Code::BadField), None) if has_specs => {
                AccessError::Query(format!("filter={}: {error}", said(&filter.specs)))
            }
            _ => self.unavailable(error.to_string()),
        }
    }

    fn unavailable(&self, why: String) -> AccessError {
        let space = without_password(&self.0.url);
        tracing::warn!(%space, key = %String::from_utf8_lossy(&self.0.key), %why, "a tag space cannot be queried");
        AccessError::Unavailable(
            "access to captures cannot be checked, so none are shown: the tag space is unavailable or sent an invalid \
             reply"
                .to_owned(),
        )
    }
}

/// Splits rows into parts within the limits of one call.
fn parts(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(MAX_ROWS).take_while(|row| {
            let fits = bytes < MAX_BYTES;
            bytes += row.line().len();
            fits
        });
        let (part, after) = rest.split_at_checked(fits.count())?;
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}
