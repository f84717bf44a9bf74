//! Parses the arguments of a command and rejects invalid ones.

use crawlspace_compact::limits::chg;

/// Maximum distance between a time and now, in milliseconds.
pub const TEN_YEARS: i64 = chg::TEN_YEARS as i64;
/// Default maximum of a pause that a host requests, in milliseconds.
pub const MAX_PAUSE: i64 = chg::MAX_PAUSE_MS as i64;

/// The remaining arguments of a command.
pub struct Args<'a> {
    words: &'a [String],
    pub now: i64,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Args<'a> {
    pub fn new(words: &'a [String]) -> Args<'a> {
        Args { words, now: 0 }
    }

    pub fn left(&self) -> usize {
        self.words.len()
    }

    pub fn end(&self) -> Parsed<()> {
        if self.words.is_empty() {
            Ok(())
        } else {
            Err("ERR")
        }
    }

    /// Consumes this word if it is the next argument.
    pub fn keyword(&mut self, word: &str) -> bool {
        let is_next = self
            .words
            .first()
            .is_some_and(|next| next.eq_ignore_ascii_case(word));
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    pub fn text(&mut self) -> Parsed<&'a str> {
        let (first, rest) = self.words.split_first().ok_or("ERR")?;
        self.words = rest;
        Ok(first)
    }

    /// Parses an id of a group or an execution.
    pub fn id(&mut self) -> Parsed<&'a str> {
        let id = self.text()?;
        if (1..=chg::ID_BYTES).contains(&id.len()) {
            Ok(id)
        } else {
            Err("ERR")
        }
    }

    /// Parses a URI to queue: group, time, depth and text.
    pub fn uri(&mut self) -> Parsed<(&'a str, i64, i64, &'a str)> {
        let (chg, at) = (self.id()?, self.time()?);
        let (depth, uri) = (self.number(0, u32::MAX.into())?, self.text()?);
        if (1..=chg::URI_BYTES).contains(&uri.len()) {
            Ok((chg, at, depth, uri))
        } else {
            Err("ERR")
        }
    }

    pub fn number(&mut self, least: i64, most: i64) -> Parsed<i64> {
        let number: i64 = self.text()?.parse().map_err(|_| "ERR")?;
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            Err("ERR")
        }
    }

    /// Parses a point in time.
    pub fn time(&mut self) -> Parsed<i64> {
        self.number(0, self.now + TEN_YEARS)
    }

    /// Parses a duration.
    pub fn span(&mut self, least: i64) -> Parsed<i64> {
        self.number(least, TEN_YEARS)
    }

    /// Parses this word and the number after it, if the word is the next argument.
    pub fn option(&mut self, word: &str, least: i64, most: i64) -> Parsed<Option<i64>> {
        if self.keyword(word) {
            self.number(least, most).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Parses this word and the duration after it, if the word is the next argument.
    pub fn span_option(&mut self, word: &str, least: i64) -> Parsed<Option<i64>> {
        self.option(word, least, TEN_YEARS)
    }

    /// Returns true if the next argument is a number.
    pub fn is_number(&self) -> bool {
        self.words
            .first()
            .is_some_and(|word| word.parse::<u64>().is_ok())
    }
}
