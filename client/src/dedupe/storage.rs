//! `DEDUPE.PACK` and `DEDUPE.UNPACK`: conversions of the storage format of an index.

use super::{Index, Storage};
use crate::server::{Ask, Call};

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
