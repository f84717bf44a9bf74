//! How the committed part of an index is kept.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

use super::Index;
use crate::server::{Ask, Call};

/// How the committed part of an index is kept: the merged index, and the records of committed crawls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// The documented keys, which any client can read.
    Plain,
    /// One value, which takes a fraction of the memory.
    Packed,
    /// On its way into one value, or cut short there: [`Index::pack`] goes on.
    Packing,
    /// On its way back into the documented keys, or cut short there: [`Index::unpack`] goes on.
    Unpacking,
}

impl Storage {
    /// The storage's word in replies.
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
            other => Err(format!("no storage is called {other}").into()),
        }
    }
}

map_reply! {
    /// What a change of storage has moved (`DEDUPE.PACK`, `DEDUPE.UNPACK`).
    Moved as "camelCase" {
        /// How the index is kept now.
        storage: Storage,
        /// Hashes of the merged index that this call moved.
        hashes: u64,
        /// Records of committed crawls that this call moved.
        records: u64,
        /// Bytes of memory: of the packed value, or of the plain merged index with the further holders of hashes,
        /// estimated.
        memory: u64,
    }
}

impl<S: Ask> Index<S> {
    /// `DEDUPE.PACK`: moves the committed part of the index into one value, which takes a fraction of the memory.
    /// Every call has the same answers as before; plain clients can no longer read it. Others go on meanwhile.
    ///
    /// One that was cut short goes on where it was. If the connection breaks and the command has to be sent again,
    /// the reply tells what was left for the second time: nothing, as a rule.
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
    /// `WRONGTYPE` when a key of the index has another type, and nothing was moved; or when the server cannot be
    /// reached.
    pub fn pack(&self) -> S::Answer<Moved> {
        let pack = self.command("DEDUPE.PACK");
        self.server.ask(Call::new(pack).repeatable().waits())
    }

    /// `DEDUPE.UNPACK`: moves it back into the documented keys, byte for byte. These take several times the memory.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// println!("{} records are in plain keys again", index.unpack()?.records);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`pack`](Index::pack), and `OOM` when the server is at `maxmemory`: send it again when there is room, or
    /// go back.
    pub fn unpack(&self) -> S::Answer<Moved> {
        let unpack = self.command("DEDUPE.UNPACK");
        self.server.ask(Call::new(unpack).repeatable().waits())
    }
}
