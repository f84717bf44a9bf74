//! `crawlspace dedupe lookup`: the first capture of a payload.

use std::io;

use clap::Args;
use crawlspace_client::dedupe::Located;
use serde::Serialize;

use super::Asking;
use crate::columns::Columns;
use crate::table::bytes;
use crate::terminal::{Bytes, text};

/// Show which crawl stored a payload first.
///
/// Only committed crawls are searched, and the crawl that --crawl names. Exit status 1 if one of the hashes is
/// unknown.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe lookup sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
pub(crate) struct Lookup {
    #[command(flatten)]
    asking: Asking,
    /// Also search the uncommitted hashes of this crawl.
    #[arg(long, value_name = "ID", value_parser = Bytes::parser())]
    crawl: Option<Bytes>,
    /// Hashes of payloads, in any notation.
    #[arg(required = true, value_name = "HASH", value_parser = Bytes::parser())]
    hashes: Vec<Bytes>,
}

#[derive(Serialize)]
struct HashReport<'a> {
    hash: &'a Bytes,
    known: bool,
    #[serde(flatten)]
    located: &'a Option<Located>,
}

impl Lookup {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let hashes: Vec<&[u8]> = self.hashes.iter().map(Bytes::as_bytes).collect();
        let crawl = self.crawl.as_ref().map(Bytes::as_bytes);
        let located = self.asking.index()?.lookup_with_wacz(crawl, &hashes);
        let located = located.map_err(io::Error::other)?;
        let found: Vec<HashReport<'_>> = self
            .hashes
            .iter()
            .zip(&located)
            .map(|(hash, located)| HashReport {
                hash,
                known: located.is_some(),
                located,
            })
            .collect();
        self.asking.tell_all(&found, print)?;
        Ok(located.iter().all(Option::is_some))
    }
}

fn print(found: &[HashReport<'_>]) -> io::Result<()> {
    let mut table = Columns::new("hash | crawl | date | url | size> | wacz");
    for one in found {
        let hash = one.hash.to_string();
        match one.located {
            Some(Located { original, filename }) => table.row([
                hash,
                text(&original.crawl),
                text(&original.date),
                text(&original.url),
                bytes(original.size),
                match filename {
                    Some(filename) => text(filename),
                    None => original.wacz_index.to_string(),
                },
            ]),
            None => table.row([&hash[..], "not known", "", "", "", ""]),
        }
    }
    table.print()
}
