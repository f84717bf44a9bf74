//! The rules for the input of clients. The guide `docs/guide/urlfrontier.md` lists them.

use crawlspace_client::frontier::Millis;
use crawlspace_compact::limits::chg::TEN_YEARS;
use prost::Message;
use tonic::Status;

use crate::proto::UrlInfo;

/// The crawl of items that name none.
pub(crate) const DEFAULT: &str = "DEFAULT";

/// Maximum length of the key of a queue, in bytes.
const MAX_KEY: usize = 255;
/// Maximum length of the id of a crawl, in bytes.
const MAX_CRAWL: usize = 1024;
/// Maximum length of a URL, and of the metadata of a URL, in bytes.
const MAX_URL: usize = 64 * 1024;

/// A valid item of a client.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) crawl: String,
    pub(crate) key: String,
    pub(crate) url: String,
    /// The metadata, encoded as a `URLInfo` without other fields. Empty without metadata.
    pub(crate) payload: Vec<u8>,
}

impl Item {
    /// Checks an item. Returns `None` if it can never be accepted.
    pub(crate) fn of(info: UrlInfo) -> Option<Item> {
        let UrlInfo {
            url,
            key,
            metadata,
            crawl_id,
        } = info;
        let key = match &key[..] {
            "" => key_of(&url)?.to_owned(),
            _ => key,
        };
        let crawl = crawl_of(crawl_id).ok()?;
        let payload = if metadata.is_empty() {
            Vec::new()
        } else {
            let only = UrlInfo {
                metadata,
                ..UrlInfo::default()
            };
            only.encode_to_vec()
        };
        let fits = key.len() <= MAX_KEY && url.len() <= MAX_URL && payload.len() <= MAX_URL;
        (fits && !url.is_empty()).then_some(Item {
            crawl,
            key,
            url,
            payload,
        })
    }
}

/// Returns the crawl with this id.
///
/// # Errors
/// `INVALID_ARGUMENT` if the id is too long.
pub(crate) fn crawl_of(id: String) -> Result<String, Status> {
    if id.len() > MAX_CRAWL {
        return Err(Status::invalid_argument(format!(
            "crawlID has {} bytes; the maximum is {MAX_CRAWL}",
            id.len()
        )));
    }
    if id.trim().is_empty() {
        return Ok(DEFAULT.to_owned());
    }
    Ok(id)
}

/// Checks the key of a queue.
///
/// # Errors
/// `INVALID_ARGUMENT` if the key is empty or too long.
pub(crate) fn queue_of(key: &str) -> Result<&str, Status> {
    match key.len() {
        0 => Err(Status::invalid_argument("key is empty")),
        1..=MAX_KEY => Ok(key),
        long => Err(Status::invalid_argument(format!(
            "key has {long} bytes; the maximum is {MAX_KEY}"
        ))),
    }
}

/// Returns the key of the queue of a URL that was sent without one: its host.
pub(crate) fn key_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split([':', '/', '?', '#', '&']).next()?;
    (!host.is_empty()).then_some(host)
}

/// Returns a time in seconds since the epoch in milliseconds; `None` if it is more than ten years after `now`.
pub(crate) fn time_of(seconds: u64, now: Millis) -> Option<Millis> {
    let time = seconds.checked_mul(1000)?;
    (time <= now + TEN_YEARS).then_some(time)
}

/// Returns a number of seconds in milliseconds.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is more than ten years.
pub(crate) fn span_of(name: &str, seconds: u32) -> Result<Millis, Status> {
    let span = u64::from(seconds) * 1000;
    if span > TEN_YEARS {
        return Err(Status::invalid_argument(format!(
            "{name} is {seconds} seconds; the maximum is ten years"
        )));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_the_host() {
        for (url, key) in [
            ("https://example.com/a?b", Some("example.com")),
            ("http://example.com:8080/", Some("example.com")),
            ("example.com", Some("example.com")),
            ("https://my_host.example?x", Some("my_host.example")),
            ("https:///a", None),
            ("/a", None),
            ("", None),
        ] {
            assert_eq!(key_of(url), key, "{url}");
        }
    }

    #[test]
    fn blank_crawl_is_the_default() {
        for id in ["", " ", "\t "] {
            assert_eq!(crawl_of(id.to_owned()).unwrap(), DEFAULT);
        }
        assert_eq!(crawl_of(" a".to_owned()).unwrap(), " a");
        assert!(crawl_of("a".repeat(1024)).is_ok());
        assert!(crawl_of("a".repeat(1025)).is_err());
    }

    #[test]
    fn times_end_after_ten_years() {
        assert_eq!(time_of(0, 5), Some(0));
        assert_eq!(time_of(TEN_YEARS / 1000, 0), Some(TEN_YEARS));
        assert_eq!(time_of(TEN_YEARS / 1000 + 1, 0), None);
        assert_eq!(time_of(u64::MAX, 0), None);
    }
}
