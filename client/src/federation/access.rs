//! Access points: which rows somebody may see, by the tags of a tag space in Redis.

use std::fmt;

use super::source::Batch;

/// A tag space that is asked about every row. Clones share its connection.
#[derive(Clone)]
pub struct Access {
    url: String,
}

/// Why nobody can say which rows may be seen. None are, then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// There is no access point of that name.
    NoPoint(String),
    /// What the query says of tags is wrong.
    Query(String),
    /// The tag space cannot be asked.
    Unavailable(String),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::NoPoint(what)
            | AccessError::Query(what)
            | AccessError::Unavailable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for AccessError {}

impl Access {
    /// The tag space at `redis://host:port/db/key`, which is asked when it is needed.
    ///
    /// # Errors
    /// When the URL is none, in words.
    pub fn new(url: &str) -> Result<Access, String> {
        Ok(Access {
            url: url.to_owned(),
        })
    }

    /// The rows that pass an access point and filters by tags.
    ///
    /// # Errors
    /// When nobody can say which.
    pub async fn filter(
        &self,
        point: Option<&str>,
        tag_filters: &[String],
        rows: Batch,
    ) -> Result<Batch, AccessError> {
        let _ = (point, tag_filters, rows);
        Err(AccessError::Unavailable(format!(
            "{} cannot be asked",
            self.url
        )))
    }
}
