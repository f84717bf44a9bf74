//! Replay dependencies between crawls, in both directions.

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Index;
use crate::reply::{as_optional_text, as_text, shown, take};
use crate::server::{Ask, Call};

/// The object whose requirements are requested.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    /// Every WACZ file of each crawl on which this crawl depends.
    Crawl(&'a [u8]),
    /// Exactly the files to which the revisits of the WACZ file with this id refer.
    Wacz(&'a [u8]),
    /// Exactly these files, each given as `crawl waczIndex`.
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

/// A WACZ file that is required for replay.
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
    /// The crawl to which the file belongs.
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

/// A crawl that depends on another crawl for replay.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Dependent {
    /// Id of the crawl.
    #[serde(serialize_with = "as_text")]
    pub crawl: Vec<u8>,
    /// Number of its revisits whose originals are in the other crawl. `None` if the revisits were
    /// not counted.
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
    /// Lists the WACZ files that are required for replay in addition to the crawl's own files
    /// (`DEDUPE.REQUIRES`). With `transitive`, also lists the files that those crawls require, and
    /// so on.
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
    /// `NOCRAWL` when the crawl does not exist, `ERR` for an invalid reference; or a connection
    /// error.
    pub fn requires(&self, of: Of<'_>, transitive: bool) -> S::Answer<Vec<Required>> {
        if let Of::References([]) = of {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut requires = self.requirements(of, transitive);
        requires.arg("FORMAT").arg("RESP");
        self.server.ask(Call::new(requires).repeatable().waits())
    }

    /// Lists the same files as [`requires`](Index::requires) as a JSON array, ready for `relation.requires`
    /// of `datapackage.json` (`DEDUPE.REQUIRES … FORMAT JSON`). Invalid UTF-8 in names is replaced.
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
    /// The errors of [`requires`](Index::requires).
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

    /// Lists the crawls that cannot be replayed completely without this one (`DEDUPE.REQUIREDBY`).
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
    /// `NOCRAWL` when the crawl does not exist, or a connection error.
    pub fn required_by(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Vec<Dependent>> {
        let crawl = crawl.as_ref();
        let mut required = self.command("DEDUPE.REQUIREDBY");
        required.arg(crawl);
        self.server.ask(Call::new(required).repeatable().waits())
    }
}
