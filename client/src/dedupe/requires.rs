//! What a crawl needs for replay, and who needs it.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Index;
use crate::reply::{as_optional_text, as_text, shown, take};
use crate::server::{Ask, Call};

/// Whose requirements are asked for.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    /// All WACZ files of all crawls that this crawl depends on.
    Crawl(&'a [u8]),
    /// Exactly the files that the revisits of the WACZ of this id refer to.
    Wacz(&'a [u8]),
    /// Exactly these files: each is `crawl waczIndex`.
    References(&'a [&'a [u8]]),
}

impl std::fmt::Debug for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crawl(bytes) => f.debug_tuple("Crawl").field(&shown::text(bytes)).finish(),
            Self::Wacz(bytes) => f.debug_tuple("Wacz").field(&shown::text(bytes)).finish(),
            Self::References(bytes) => f
                .debug_tuple("References")
                .field(&shown::texts(bytes))
                .finish(),
        }
    }
}

/// A WACZ file that is needed.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Required {
    /// The name of the WACZ file.
    #[serde(serialize_with = "as_text")]
    pub filename: Vec<u8>,
    /// The hash of the WACZ file, if it is finished.
    #[serde(serialize_with = "as_optional_text")]
    pub hash: Option<Vec<u8>>,
    /// The size of the WACZ file in bytes, if it is finished.
    pub size: Option<u64>,
    /// The crawl that it is part of.
    #[serde(rename = "crawlId", serialize_with = "as_text")]
    pub crawl: Vec<u8>,
}

debug_as_text! { Required { filename: text, hash: optional, size: plain, crawl: text } }

impl FromRedisValue for Required {
    fn from_redis_value(value: Value) -> Result<Required, ParsingError> {
        let mut map = FromRedisValue::from_redis_value(value)?;
        Ok(Required {
            filename: take(&mut map, "filename")?,
            hash: take(&mut map, "hash")?,
            size: take(&mut map, "size")?,
            crawl: take(&mut map, "crawl_id")?,
        })
    }
}

/// A crawl that could not be replayed without another one.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Dependent {
    /// The crawl's id.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// How many of its revisits have their originals there. `None` when they were not counted.
    pub revisits: Option<u64>,
}

debug_as_text! { Dependent { crawl: text, revisits: plain } }

impl FromRedisValue for Dependent {
    fn from_redis_value(value: Value) -> Result<Dependent, ParsingError> {
        let (crawl, revisits) = FromRedisValue::from_redis_value(value)?;
        Ok(Dependent { crawl, revisits })
    }
}

impl<S: Ask> Index<S> {
    /// `DEDUPE.REQUIRES`: the WACZ files that are needed besides one's own for replay; with `transitive`, also
    /// what their crawls depend on, and so on.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// for wacz in index.requires(Of::Crawl(b"crawl-2"), false)? {
    ///     println!("needs {}", String::from_utf8_lossy(&wacz.filename));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl, `ERR` for an invalid reference; or when the server cannot
    /// be reached.
    pub fn requires(&self, of: Of<'_>, transitive: bool) -> S::Answer<Vec<Required>> {
        if let Of::References([]) = of {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut requires = self.requirements(of, transitive);
        requires.arg("FORMAT").arg("RESP");
        self.server.ask(Call::new(requires).repeatable().waits())
    }

    /// `DEDUPE.REQUIRES … FORMAT JSON`: the same as an array in JSON, ready for `relation.requires` of
    /// `datapackage.json`. What is not UTF-8 in a name is replaced.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let requires = index.requires_json(Of::Wacz(b"5c0a2b7e"), false)?;
    /// println!("{{\"relation\": {{\"requires\": {requires}}}}}");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`requires`](Index::requires).
    pub fn requires_json(&self, of: Of<'_>, transitive: bool) -> S::Answer<String> {
        if let Of::References([]) = of {
            return self.server.ask(Call::known("[]".to_owned()));
        }
        let requires = self.requirements(of, transitive);
        self.server.ask(Call::new(requires).repeatable().waits())
    }

    fn requirements(&self, of: Of<'_>, transitive: bool) -> Cmd {
        let mut requires = self.command("DEDUPE.REQUIRES");
        match of {
            Of::Crawl(crawl) => requires.arg(crawl),
            Of::Wacz(uuid) => requires.arg("REF").arg(uuid),
            Of::References(references) => requires.arg("REFS").arg(references),
        };
        if transitive {
            requires.arg("TRANSITIVE");
        }
        requires
    }

    /// `DEDUPE.REQUIREDBY`: the crawls that could not be replayed fully without this one.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// for dependent in index.required_by(b"crawl-1")? {
    ///     println!("{} would lose originals", String::from_utf8_lossy(&dependent.crawl));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL` when there is no such crawl; or when the server cannot be reached.
    pub fn required_by(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Vec<Dependent>> {
        let crawl = crawl.as_ref();
        let mut required = self.command("DEDUPE.REQUIREDBY");
        required.arg(crawl);
        self.server.ask(Call::new(required).repeatable().waits())
    }
}
