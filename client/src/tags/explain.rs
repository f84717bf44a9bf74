//! Explanations of filter results.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::{Filter, TagSpace};
use crate::reply::as_text;
use crate::server::Ask;

map_reply! {
    /// The reason why a capture passes a filter or not (`TAGS.EXPLAIN`).
    Explanation as "kebab-case" derive(PartialEq) {
        /// True if the capture passes.
        keep: bool,
        /// The reason, as a sentence.
        why: String,
        /// Format of the line: `CDX`, `CDXJ`, `FILE` or `RECORD`.
        format: String,
        /// Record id of the capture. The tag space stores the capture's own tags under this record
        /// id.
        #[serde(serialize_with = "as_text")]
        record: Vec<u8>,
        /// Tags of the capture, each with its source.
        tags: Vec<Source>,
        /// Conditions that the capture must meet to pass.
        clauses: Vec<Clause>,
    }
}

debug_as_text! { Explanation {
    keep: plain, why: plain, format: plain, record: text, tags: plain, clauses: plain
} }

/// Source of a tag of a capture.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The tag.
    #[serde(serialize_with = "as_text")]
    pub tag: Vec<u8>,
    /// `record`, `file`, `rule NAME`, or `tag T` if tag `T` carries the tag.
    #[serde(serialize_with = "as_text")]
    pub source: Vec<u8>,
}

debug_as_text! { Source { tag: text, source: text } }

impl FromRedisValue for Source {
    fn from_redis_value(value: Value) -> Result<Source, ParsingError> {
        let (tag, source) = FromRedisValue::from_redis_value(value)?;
        Ok(Source { tag, source })
    }
}

/// A condition and its result.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Clause {
    /// Expression as written.
    #[serde(serialize_with = "as_text")]
    pub text: Vec<u8>,
    /// True if the capture meets the condition.
    pub holds: bool,
    /// Subexpressions with their results.
    pub parts: Vec<Clause>,
}

debug_as_text! { Clause { text: text, holds: plain, parts: plain } }

impl FromRedisValue for Clause {
    fn from_redis_value(value: Value) -> Result<Clause, ParsingError> {
        let (text, holds, parts) = FromRedisValue::from_redis_value(value)?;
        Ok(Clause { text, holds, parts })
    }
}

impl<S: Ask> TagSpace<S> {
    /// Explains why a line passes a filter or not (`TAGS.EXPLAIN`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let line = b"com,example)/ 20240501120000 https://example.com/ text/html 200 3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ - - 500 0 a.warc.gz";
    /// println!("{}", space.explain(&all, line)?.why);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn explain(&self, filter: &Filter<'_>, line: impl AsRef<[u8]>) -> S::Answer<Explanation> {
        let line = line.as_ref();
        let mut explain = self.command("TAGS.EXPLAIN");
        filter.write_to(&mut explain);
        explain.arg("LINES").arg(line);
        self.repeat(explain)
    }
}
