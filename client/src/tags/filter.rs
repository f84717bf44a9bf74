//! Filters: select the captures of a batch that a reader may see.

use redis::{Cmd, FromRedisValue, ParsingError, ToRedisArgs, Value};

use super::TagSpace;
use crate::reply::shown;
use crate::server::{Ask, Call};

/// Maximum size in bytes of a batch that is sent over the connection for fast calls.
const MAX_QUICK: usize = 64 * 1024;

/// Conditions on captures. A capture passes if it meets every condition. Without conditions, every
/// capture passes if the space exists.
#[derive(Clone, Default)]
pub struct Filter<'a> {
    /// Access point that the capture must pass.
    pub point: Option<&'a [u8]>,
    /// Expression that the capture must satisfy: `coll:* & !private`.
    pub condition: Option<&'a [u8]>,
    /// Filter specs in the syntax of CDX servers: `!statuscode:404`, `tag.coll:1068`.
    pub specs: Vec<&'a [u8]>,
    /// Dialect of the filter specs.
    pub dialect: Dialect,
    /// Keeps only the first of consecutive captures with the same value of a field.
    pub collapse: Option<Collapse<'a>>,
    /// Number of passing captures to skip at the start.
    pub skip: u64,
    /// Maximum number of captures to return.
    pub limit: Option<u64>,
    /// Format of the lines.
    pub format: Format,
    /// Drops invalid lines instead of failing.
    pub drop_bad_lines: bool,
}

debug_as_text! { Filter<'_> { point: optional, condition: optional, specs: texts, dialect: plain, collapse: plain, skip: plain, limit: plain, format: plain, drop_bad_lines: plain } }

/// Dialect of filter specs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// OutbackCDX.
    #[default]
    Outback,
    /// The CDX server of the Internet Archive.
    Ia,
    /// pywb.
    Pywb,
}

impl Dialect {
    fn word(self) -> &'static str {
        match self {
            Dialect::Outback => "OUTBACK",
            Dialect::Ia => "IA",
            Dialect::Pywb => "PYWB",
        }
    }
}

/// Line format of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// CDX or CDXJ, detected line by line.
    #[default]
    Auto,
    /// CDX of 7, 9, 10, 11, 12, 13 or 14 fields.
    Cdx,
    /// `urlkey timestamp {json}`.
    Cdxj,
    /// Names of WARC files.
    File,
    /// `urlkey timestamp filename offset`.
    Record,
}

impl Format {
    fn word(self) -> &'static str {
        match self {
            Format::Auto => "AUTO",
            Format::Cdx => "CDX",
            Format::Cdxj => "CDXJ",
            Format::File => "FILE",
            Format::Record => "RECORD",
        }
    }
}

/// Decides which consecutive captures are treated as equal.
#[derive(Clone, Copy)]
pub struct Collapse<'a> {
    /// The field to compare.
    pub field: &'a [u8],
    /// Number of leading bytes to compare. With `None`, the whole value is compared.
    pub first: Option<u64>,
}

debug_as_text! { Collapse<'_> { field: text, first: plain } }

/// A batch of lines to filter.
#[derive(Clone, Copy)]
pub enum Captures<'a> {
    /// A list with one element per line.
    Lines(&'a [&'a [u8]]),
    /// A single string with all lines, each terminated by a newline.
    Blob(&'a [u8]),
}

impl std::fmt::Debug for Captures<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lines(bytes) => f.debug_tuple("Lines").field(&shown::texts(bytes)).finish(),
            Self::Blob(bytes) => f.debug_tuple("Blob").field(&shown::text(bytes)).finish(),
        }
    }
}

impl Captures<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Captures::Lines(lines) => lines.is_empty(),
            Captures::Blob(text) => text.is_empty(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Captures::Lines(lines) => lines.iter().map(|line| line.len()).sum(),
            Captures::Blob(text) => text.len(),
        }
    }
}

/// A capture that passed, and all of its tags.
#[derive(Clone, PartialEq, Eq)]
pub struct Tagged {
    /// Index of the line, starting at 0.
    pub index: u64,
    /// Tags of the capture, sorted.
    pub tags: Vec<Vec<u8>>,
}

debug_as_text! { Tagged { index: plain, tags: texts } }

impl FromRedisValue for Tagged {
    fn from_redis_value(value: Value) -> Result<Tagged, ParsingError> {
        let (index, tags) = FromRedisValue::from_redis_value(value)?;
        Ok(Tagged { index, tags })
    }
}

impl Filter<'_> {
    /// Appends all conditions to the command. The lines must follow.
    pub(crate) fn write_to(&self, command: &mut Cmd) {
        let said = |command: &mut Cmd, word: &str, value: Option<&[u8]>| {
            if let Some(value) = value {
                command.arg(word).arg(value);
            }
        };
        said(command, "POINT", self.point);
        said(command, "WHERE", self.condition);
        for &spec in &self.specs {
            said(command, "FILTER", Some(spec));
        }
        if self.dialect != Dialect::default() {
            command.arg("DIALECT").arg(self.dialect.word());
        }
        if let Some(Collapse { field, first }) = self.collapse {
            let mut by = field.to_vec();
            if let Some(first) = first {
                by.extend_from_slice(format!(":{first}").as_bytes());
            }
            command.arg("COLLAPSE").arg(by);
        }
        if self.skip > 0 {
            command.arg("SKIP").arg(self.skip);
        }
        if let Some(limit) = self.limit {
            command.arg("LIMIT").arg(limit);
        }
        if self.format != Format::default() {
            command.arg("FORMAT").arg(self.format.word());
        }
        if self.drop_bad_lines {
            command.arg("BADLINES").arg("DROP");
        }
    }
}

impl<S: Ask> TagSpace<S> {
    fn filter<T: FromRedisValue + Send + 'static>(
        &self,
        filter: &Filter<'_>,
        returned: &str,
        batch: Captures<'_>,
    ) -> S::Answer<T> {
        let mut command = self.command("TAGS.FILTER");
        filter.write_to(&mut command);
        command.arg("RETURN").arg(returned);
        match batch {
            Captures::Lines(lines) => put(&mut command, "LINES", lines),
            Captures::Blob(text) => put(&mut command, "BLOB", text),
        }
        let call = Call::new(command).repeatable();
        // The server filters large batches in the background.
        self.server.ask(if batch.size() > MAX_QUICK {
            call.waits()
        } else {
            call
        })
    }

    /// Returns the lines that pass (`TAGS.FILTER … LINES`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let files = Filter { point: Some(b"all"), format: Format::File, ..Filter::default() };
    /// let public = space.filter_lines(&files, &[b"ARCHIVEIT-1068-A.warc.gz"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOPOINT`, `SYNTAX`, `BADFIELD`, `BADRE` or `BADLINE`, or another server or connection
    /// error. The other filter calls have the same errors.
    pub fn filter_lines(&self, filter: &Filter<'_>, lines: &[&[u8]]) -> S::Answer<Vec<Vec<u8>>> {
        if lines.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.filter(filter, "LINES", Captures::Lines(lines))
    }

    /// Returns the lines of a string that pass, each terminated by a newline (`TAGS.FILTER … BLOB`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let cdx = std::fs::read("captures.cdx").unwrap_or_default();
    /// let public = space.filter_blob(&all, &cdx)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn filter_blob(&self, filter: &Filter<'_>, text: impl AsRef<[u8]>) -> S::Answer<Vec<u8>> {
        let text = text.as_ref();
        self.filter(filter, "LINES", Captures::Blob(text))
    }

    /// Returns the indexes of the lines that pass, starting at 0 (`RETURN INDEX`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let cdx = std::fs::read("captures.cdx").unwrap_or_default();
    /// let which = space.indices(&all, Captures::Blob(&cdx))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn indices(&self, filter: &Filter<'_>, batch: Captures<'_>) -> S::Answer<Vec<u64>> {
        if batch.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.filter(filter, "INDEX", batch)
    }

    /// Returns one bit per line, starting with the highest bit of the first byte (`RETURN BITS`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let cdx = std::fs::read("captures.cdx").unwrap_or_default();
    /// let bits = space.bits(&all, Captures::Blob(&cdx))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn bits(&self, filter: &Filter<'_>, batch: Captures<'_>) -> S::Answer<Vec<u8>> {
        if batch.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.filter(filter, "BITS", batch)
    }

    /// Returns the number of lines that pass (`RETURN COUNT`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let cdx = std::fs::read("captures.cdx").unwrap_or_default();
    /// println!("{} may be seen", space.count(&all, Captures::Blob(&cdx))?);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn count(&self, filter: &Filter<'_>, batch: Captures<'_>) -> S::Answer<u64> {
        if batch.is_empty() {
            return self.server.ask(Call::known(0));
        }
        self.filter(filter, "COUNT", batch)
    }

    /// Returns the lines that pass with their tags (`RETURN TAGS`).
    ///
    /// ```no_run
    /// # use crawlspace_client::tags::*;
    /// # let space = TagSpace::open("redis://127.0.0.1/", "tags")?;
    /// let all = Filter { point: Some(b"all"), ..Filter::default() };
    /// let cdx = std::fs::read("captures.cdx").unwrap_or_default();
    /// for capture in space.tagged(&all, Captures::Blob(&cdx))? {
    ///     println!("line {} has {} tags", capture.index, capture.tags.len());
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`filter_lines`](TagSpace::filter_lines).
    pub fn tagged(&self, filter: &Filter<'_>, batch: Captures<'_>) -> S::Answer<Vec<Tagged>> {
        if batch.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        self.filter(filter, "TAGS", batch)
    }
}

fn put(command: &mut Cmd, word: &str, what: impl ToRedisArgs) {
    command.arg(word).arg(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(filter: &Filter<'_>) -> String {
        let mut command = Cmd::new();
        filter.write_to(&mut command);
        let words: Vec<_> = command
            .args_iter()
            .map(|word| match word {
                redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                _ => unreachable!("no cursor"),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn unset_options_are_not_sent() {
        assert_eq!(words(&Filter::default()), "");
    }

    #[test]
    fn every_option_is_sent() {
        let filter = Filter {
            point: Some(b"all"),
            condition: Some(b"coll:1"),
            specs: vec![b"!status:404", b"tag.org:7"],
            dialect: Dialect::Pywb,
            collapse: Some(Collapse {
                field: b"timestamp",
                first: Some(4),
            }),
            skip: 2,
            limit: Some(0),
            format: Format::Cdxj,
            drop_bad_lines: true,
        };
        assert_eq!(
            words(&filter),
            "POINT all WHERE coll:1 FILTER !status:404 FILTER tag.org:7 DIALECT PYWB \
             COLLAPSE timestamp:4 SKIP 2 LIMIT 0 FORMAT CDXJ BADLINES DROP"
        );
    }
}
