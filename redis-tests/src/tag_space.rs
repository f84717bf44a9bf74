//! A test connection to a tag space: one `TAGS.*` command per line.
//!
//! ```no_run
//! use redis_tests::{Server, TagSpace};
//! let server = Server::start();
//! let mut s = TagSpace::of(&server);
//! s.ok("ADD FILE a.warc.gz coll:1 public");
//! assert_eq!(s.kept("WHERE 'coll:1 & public' FORMAT FILE", &["a.warc.gz", "b"]), ["a.warc.gz"]);
//! ```

use crate::matrix::split;
use crate::server::Server;
use crate::wire::{Reply, Wire, assert_error, runs_lines};

/// A connection that uses one tag space.
pub struct TagSpace {
    /// The connection, for plain commands.
    pub wire: Wire,
    /// The key of the space.
    pub key: String,
}

impl TagSpace {
    /// Connects to the tag space `tags`.
    pub fn of(server: &Server) -> TagSpace {
        TagSpace::over(server.wire(), "tags")
    }

    /// Creates a handle for the tag space at this key over an existing connection.
    pub fn over(wire: Wire, key: &str) -> TagSpace {
        TagSpace {
            wire,
            key: key.to_owned(),
        }
    }

    /// Parses a line into the arguments of a command: `ADD FILE 'a b' x` is `TAGS.ADD <key> FILE "a
    /// b" x`. An argument in single quotes ends at the next single quote.
    pub fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let words = split(line).into_iter();
        let mut words: Vec<Vec<u8>> = words.map(|word| word.as_bytes().to_vec()).collect();
        words[0].splice(0..0, *b"TAGS.");
        words.insert(1, self.key.clone().into_bytes());
        words
    }

    fn words_with(&self, line: &str, more: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
        let mut words = self.words(line);
        words.extend(more.iter().map(|word| word.as_ref().to_vec()));
        words
    }

    runs_lines!();

    /// Runs a line, followed by more arguments that are not parsed.
    pub fn call_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> Reply {
        self.wire.call(&self.words_with(line, more))
    }

    /// Runs a line, followed by more arguments that are not parsed; the command must succeed.
    #[track_caller]
    pub fn ok_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> Reply {
        let words = self.words_with(line, more);
        self.wire.expect_ok(&words)
    }

    /// Runs a line, followed by more arguments that are not parsed; the command must fail.
    #[track_caller]
    pub fn err_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> String {
        let words = self.words_with(line, more);
        self.wire.expect_error(&words)
    }

    /// Sends a line like [`TagSpace::refused`], followed by more arguments that are not parsed.
    #[track_caller]
    pub fn refused_with(&mut self, line: &str, more: &[impl AsRef<[u8]>], words: &str) -> String {
        let reply = self.wire.call(&self.words_with(line, more));
        assert_error(&reply, words, line)
    }

    /// Returns the lines that pass `TAGS.FILTER` with these arguments.
    #[track_caller]
    pub fn kept(&mut self, arguments: &str, lines: &[impl AsRef<[u8]>]) -> Vec<String> {
        let line = format!("FILTER {arguments} LINES");
        self.ok_with(&line, lines).texts()
    }

    /// Returns true if a WARC file with this name passes an expression.
    #[track_caller]
    pub fn passes(&mut self, expression: &str, file: &str) -> bool {
        let words = ["WHERE", expression, "FORMAT", "FILE", "RETURN", "COUNT"];
        let words = [&words[..], &["LINES", file]].concat();
        self.ok_with("FILTER", &words).int() == 1
    }

    /// Returns the tags from `TAGS.GET`.
    #[track_caller]
    pub fn tags(&mut self, what: &str) -> Vec<String> {
        self.ok(format!("GET {what}")).texts()
    }

    /// Returns a number of `TAGS.INFO`.
    #[track_caller]
    pub fn figure(&mut self, name: &str) -> i64 {
        self.ok("INFO").field(name).int()
    }

    /// Returns the digest of the key's value.
    pub fn digest(&mut self) -> String {
        let key = self.key.clone();
        let reply = self.wire.expect_ok(&["DEBUG", "DIGEST-VALUE", &key]);
        reply.texts().remove(0)
    }

    /// Returns true if the key exists.
    pub fn exists(&mut self) -> bool {
        let key = self.key.clone();
        self.wire.expect_ok(&["EXISTS", &key]).int() == 1
    }
}
