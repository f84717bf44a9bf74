//! Storage format of the committed part of an index: plain keys or one packed value.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Index;
use crate::server::{Ask, Call};

/// Storage format of the committed part of an index: the merged index and the records of committed crawls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// The documented plain keys, which any client can read.
    Plain,
    /// A packed value, which takes a fraction of the memory.
    Packed,
    /// Being packed, or interrupted while it was packed. [`Index::pack`] resumes.
    Packing,
    /// Being unpacked, or interrupted while it was unpacked. [`Index::unpack`] resumes.
    Unpacking,
}

impl Storage {
    /// Returns the keyword of the storage format in replies.
    pub fn word(self) -> &'static str {
        match self {
            Storage::Plain => "plain",
            Storage::Packed => "packed",
            Storage::Packing => "packing",
            Storage::Unpacking => "unpacking",
        }
    }
}

impl FromRedisValue for Storage {
    fn from_redis_value(value: Value) -> Result<Storage, ParsingError> {
        match &String::from_redis_value(value)?[..] {
            "plain" => Ok(Storage::Plain),
            "packed" => Ok(Storage::Packed),
            "packing" => Ok(Storage::Packing),
            "unpacking" => Ok(Storage::Unpacking),
            other => Err(format!("unknown storage {other}").into()),
        }
    }
}

map_reply! {
    /// Result of a storage conversion (`DEDUPE.PACK`, `DEDUPE.UNPACK`).
    Moved as "camelCase" {
        /// Storage format of the index now.
        storage: Storage,
        /// Number of hashes of the merged index that this call moved.
        hashes: u64,
        /// Number of records of committed crawls that this call moved.
        records: u64,
        /// Memory of the packed value or of the plain merged index, in bytes. For the plain index,
        /// this is an estimate that includes the lists of further holders.
        memory: u64,
    }
}

impl<S: Ask> Index<S> {
    /// Packs the committed part of the index into one value, which takes a fraction of the memory
    /// (`DEDUPE.PACK`). All calls return the same results as before, but plain clients can no
    /// longer read the keys. The server serves other clients during the conversion.
    ///
    /// An interrupted conversion resumes where it stopped. If the connection breaks and the client
    /// retries the command, the reply counts only the entries that the second attempt moved, which
    /// is usually none.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let Moved { hashes, memory, .. } = index.pack()?;
    /// println!("{hashes} hashes moved, {memory} bytes in all");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `WRONGTYPE` when a key of the index has another type (nothing is moved), or a connection
    /// error.
    pub fn pack(&self) -> S::Answer<Moved> {
        let pack = self.command("DEDUPE.PACK");
        self.server.ask(Call::new(pack).repeatable().waits())
    }

    /// Unpacks the committed part into the documented plain keys, byte for byte (`DEDUPE.UNPACK`).
    /// The plain keys take several times as much memory.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} records are in plain keys again", index.unpack()?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`pack`](Index::pack), and `OOM` if the server has reached `maxmemory`: free
    /// memory and call `unpack` again, or call `pack`.
    pub fn unpack(&self) -> S::Answer<Moved> {
        let unpack = self.command("DEDUPE.UNPACK");
        self.server.ask(Call::new(unpack).repeatable().waits())
    }
}
