//! A tag space on the stage: one `TAGS.*` command a line.
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

/// A connection that works on one tag space.
pub struct TagSpace {
    /// The connection, for plain commands.
    pub wire: Wire,
    /// The key of the space.
    pub key: String,
}

impl TagSpace {
    /// The space `tags`.
    pub fn of(server: &Server) -> TagSpace {
        TagSpace::over(server.wire(), "tags")
    }

    /// The space at this key, over this connection.
    pub fn over(wire: Wire, key: &str) -> TagSpace {
        TagSpace {
            wire,
            key: key.to_owned(),
        }
    }

    /// The words of a line: `ADD FILE 'a b' x` is `TAGS.ADD <key> FILE "a b" x`. A word in single
    /// quotes ends at the next one.
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

    /// Runs a line, then these words as they are.
    pub fn call_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> Reply {
        self.wire.call(&self.words_with(line, more))
    }

    /// Runs a line, then these words as they are, which must succeed.
    #[track_caller]
    pub fn ok_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> Reply {
        let words = self.words_with(line, more);
        self.wire.expect_ok(&words)
    }

    /// Runs a line, then these words as they are, which must fail.
    #[track_caller]
    pub fn err_with(&mut self, line: &str, more: &[impl AsRef<[u8]>]) -> String {
        let words = self.words_with(line, more);
        self.wire.expect_error(&words)
    }

    /// Sends a line like [`TagSpace::refused`], followed by more words unchanged.
    #[track_caller]
    pub fn refused_with(&mut self, line: &str, more: &[impl AsRef<[u8]>], words: &str) -> String {
        let reply = self.wire.call(&self.words_with(line, more));
        assert_error(&reply, words, line)
    }

    /// The lines that `TAGS.FILTER` with these arguments keeps.
    #[track_caller]
    pub fn kept(&mut self, arguments: &str, lines: &[impl AsRef<[u8]>]) -> Vec<String> {
        let line = format!("FILTER {arguments} LINES");
        self.ok_with(&line, lines).texts()
    }

    /// Returns true if a WARC of this name passes an expression.
    #[track_caller]
    pub fn passes(&mut self, expression: &str, file: &str) -> bool {
        let words = ["WHERE", expression, "FORMAT", "FILE", "RETURN", "COUNT"];
        let words = [&words[..], &["LINES", file]].concat();
        self.ok_with("FILTER", &words).int() == 1
    }

    /// The tags that `TAGS.GET` gives.
    #[track_caller]
    pub fn tags(&mut self, what: &str) -> Vec<String> {
        self.ok(format!("GET {what}")).texts()
    }

    /// A figure of `TAGS.INFO`.
    #[track_caller]
    pub fn figure(&mut self, name: &str) -> i64 {
        self.ok("INFO").field(name).int()
    }

    /// The digest of the space's value.
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
