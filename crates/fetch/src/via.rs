//! Detection of request cycles between servers.
//!
//! Every request to another server appends this process to `Via`, after the entries of the request that caused it (RFC
//! 9110, section 7.6.3). A request whose `Via` names this process is part of a cycle.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::VIA;
use http::{HeaderMap, HeaderValue};

/// Maximum number of servers that a request may have passed.
const MAX_HOPS: usize = 8;

tokio::task_local! {
    /// Value of `Via` for requests to other servers that are sent while the current request is handled.
    static OUTGOING_VIA: Option<HeaderValue>;
}

/// The request has passed this server before, or more than `MAX_HOPS` servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle;

/// Returns the `Via` entry of this process.
fn own() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| format!("1.1 crawlspace-{:016x}", RandomState::new().hash_one(0)))
}

/// The servers that a request has passed, this one last.
#[derive(Clone, Debug)]
pub struct Via(Option<HeaderValue>);

impl Via {
    /// Reads the `Via` fields of a request.
    ///
    /// # Errors
    /// Fails if the request has passed this server before, or too many servers.
    pub fn of(headers: &HeaderMap) -> Result<Via, Cycle> {
        if !headers.contains_key(VIA) {
            static ALONE: OnceLock<Option<HeaderValue>> = OnceLock::new();
            let alone = ALONE.get_or_init(|| HeaderValue::from_str(own()).ok());
            return Ok(Via(alone.clone()));
        }
        let mut before = 0;
        let mut all = Vec::new();
        for value in headers.get_all(VIA) {
            for one in value.as_bytes().split(|&byte| byte == b',') {
                let one = one.trim_ascii();
                before += 1;
                if one == own().as_bytes() || before > MAX_HOPS {
                    return Err(Cycle);
                }
                all.extend_from_slice(one);
                all.extend_from_slice(b", ");
            }
        }
        all.extend_from_slice(own().as_bytes());
        Ok(Via(HeaderValue::from_bytes(&all).ok()))
    }

    /// Runs `answer`; requests that it sends to other servers carry this `Via`.
    pub async fn answer<T>(self, answer: impl Future<Output = T>) -> T {
        OUTGOING_VIA.scope(self.0, answer).await
    }
}

/// Returns the value of `Via` for a request that is sent now.
pub fn current() -> Option<HeaderValue> {
    OUTGOING_VIA.try_with(Clone::clone).ok().flatten()
}

/// Appends `Via` to the fields of a request that is sent now.
pub fn mark(fields: &mut Vec<(Bytes, Bytes)>) {
    if let Some(via) = current() {
        let value = Bytes::copy_from_slice(via.as_bytes());
        fields.push((Bytes::from_static(b"Via"), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (VIA, value.parse().unwrap()));
        values.collect()
    }

    #[tokio::test]
    async fn repeated_request_is_recognized() {
        let via = Via::of(&headers(&["1.0 proxy, 1.1 other"])).unwrap();
        let sent = via.answer(async { current() }).await.unwrap();
        let text = sent.to_str().unwrap();
        assert!(
            text.starts_with("1.0 proxy, 1.1 other, 1.1 crawlspace-"),
            "{text}"
        );
        let again = Via::of(&headers(&["1.1 third", text]));
        assert_eq!(again.unwrap_err(), Cycle);
        assert_eq!(current(), None, "outside of a request");
    }

    #[test]
    fn too_many_hops_are_a_cycle() {
        let names = vec!["1.1 a"; MAX_HOPS];
        assert!(Via::of(&headers(&names)).is_ok());
        let more = vec!["1.1 a"; MAX_HOPS + 1];
        assert_eq!(Via::of(&headers(&more)).unwrap_err(), Cycle);
    }
}
