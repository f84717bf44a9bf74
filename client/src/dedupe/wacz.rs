//! WACZ files of a crawl.

use super::Index;
use crate::reply::{as_optional_text, as_text};
use crate::server::Ask;

map_reply! {
    /// A WACZ file of a crawl.
    Wacz as "camelCase" derive(PartialEq) {
        /// Name of the WACZ file.
        #[serde(serialize_with = "as_text")]
        filename: Vec<u8>,
        /// Hash of the WACZ file; `None` until the file is finished.
        #[serde(serialize_with = "as_optional_text")]
        hash: Option<Vec<u8>>,
        /// Size of the WACZ file in bytes; `None` until the file is finished.
        size: Option<u64>,
    }
}

debug_as_text! { Wacz { filename: text, hash: optional, size: plain } }

impl<S: Ask> Index<S> {
    /// Registers a WACZ file that the crawl has begun (`DEDUPE.WACZOPEN`). Returns its index within
    /// the crawl. If the file is already registered, returns the same index again.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let wacz_index = index.wacz_open(b"crawl-1", b"crawl-1-0.wacz")?;
    /// println!("records that go into it are added with wacz_index {wacz_index}");
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `BADCRAWL`, `REMOVING`, or another server or connection error.
    pub fn wacz_open(&self, crawl: impl AsRef<[u8]>, filename: impl AsRef<[u8]>) -> S::Answer<u64> {
        let (crawl, filename) = (crawl.as_ref(), filename.as_ref());
        let mut open = self.command("DEDUPE.WACZOPEN");
        open.arg(crawl).arg(filename);
        self.repeat(open)
    }

    /// Marks the file at this index as finished (`DEDUPE.WACZCLOSE`). The server counts its size
    /// once, even if the call is repeated.
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let name = b"crawl-1-0.wacz";
    /// let wacz_index = index.wacz_open(b"crawl-1", name)?;
    /// // Write the file, and compute its hash and size.
    /// index.wacz_close(b"crawl-1", wacz_index, name, b"sha256:fd61a03a", 1_048_576)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL`, `REMOVING`; `ERR` if there is no file at this index, or a different file; or a
    /// connection error.
    pub fn wacz_close(
        &self,
        crawl: impl AsRef<[u8]>,
        index: u64,
        filename: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        size: u64,
    ) -> S::Answer<()> {
        let (crawl, filename, hash) = (crawl.as_ref(), filename.as_ref(), hash.as_ref());
        self.close(crawl, index, filename, hash, size, false)
    }

    /// Marks the file at this index as finished and renames it (`DEDUPE.WACZCLOSE … RENAME`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// let wacz_index = index.wacz_open(b"crawl-1", b"20240501-crawl-1.wacz")?;
    /// // Write the file, compute its hash and size, and choose its final name.
    /// index.wacz_close_as(b"crawl-1", wacz_index, b"news.wacz", b"sha256:fd61a03a", 1_048_576)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL`, `REMOVING`; `ERR` when there is no file at this index, or it was finished under another
    /// name; or a connection error.
    pub fn wacz_close_as(
        &self,
        crawl: impl AsRef<[u8]>,
        index: u64,
        filename: impl AsRef<[u8]>,
        hash: impl AsRef<[u8]>,
        size: u64,
    ) -> S::Answer<()> {
        let (crawl, filename, hash) = (crawl.as_ref(), filename.as_ref(), hash.as_ref());
        self.close(crawl, index, filename, hash, size, true)
    }

    fn close(
        &self,
        crawl: &[u8],
        index: u64,
        filename: &[u8],
        hash: &[u8],
        size: u64,
        rename: bool,
    ) -> S::Answer<()> {
        let mut close = self.command("DEDUPE.WACZCLOSE");
        close
            .arg(crawl)
            .arg(index)
            .arg(filename)
            .arg(hash)
            .arg(size);
        if rename {
            close.arg("RENAME");
        }
        self.repeat(close)
    }

    /// Lists the WACZ files of the crawl, in the order of their indexes (`DEDUPE.WACZLIST`).
    ///
    /// ```no_run
    /// # use crawlspace_client::dedupe::*;
    /// # let index = Index::open("redis://127.0.0.1/", "")?;
    /// for wacz in index.wacz_list(b"crawl-1")? {
    ///     let name = String::from_utf8_lossy(&wacz.filename);
    ///     println!("{name}: {}", if wacz.size.is_some() { "finished" } else { "begun" });
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCRAWL`, or a connection error.
    pub fn wacz_list(&self, crawl: impl AsRef<[u8]>) -> S::Answer<Vec<Wacz>> {
        let crawl = crawl.as_ref();
        let mut list = self.command("DEDUPE.WACZLIST");
        list.arg(crawl);
        self.repeat(list)
    }
}
