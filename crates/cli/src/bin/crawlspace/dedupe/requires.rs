//! `crawlspace dedupe requires` and `requiredby`: dependencies for replay.

use std::io;

use clap::Args;
use crawlspace_client::dedupe::{Dependent, Of, Required};

use super::Asking;
use crate::columns::Columns;
use crate::table::{bytes, count};
use crate::terminal::{Bytes, say, text};

/// List the WACZ files that a crawl or a WACZ file needs for replay, besides its own.
///
/// With --json each line is an entry for "relation" → "requires" of datapackage.json.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace dedupe requires 2026-03 --transitive
  crawlspace dedupe requires --wacz 5c0a2b7e
  crawlspace dedupe requires --ref '2026-02 0' --ref '2026-02 3'")]
pub(crate) struct Requires {
    #[command(flatten)]
    asking: Asking,
    /// The crawl.
    #[arg(
        value_name = "CRAWL",
        value_parser = Bytes::parser(),
        required_unless_present_any = ["wacz", "refs"],
        conflicts_with_all = ["wacz", "refs"]
    )]
    crawl: Option<Bytes>,
    /// List only the files that the revisits of this WACZ file refer to. Give the id that its
    /// crawler gave with REF.
    #[arg(long, value_name = "UUID", value_parser = Bytes::parser(), conflicts_with = "refs")]
    wacz: Option<Bytes>,
    /// List only this file, given by its crawl and the index of the file in the crawl. May be given
    /// several times.
    #[arg(long = "ref", id = "refs", value_name = "CRAWL INDEX", value_parser = Bytes::parser())]
    refs: Vec<Bytes>,
    /// Also list the files that these need, recursively.
    #[arg(long)]
    transitive: bool,
}

impl Requires {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let refs: Vec<&[u8]> = self.refs.iter().map(Bytes::as_bytes).collect();
        let of = match (&self.crawl, &self.wacz) {
            (Some(crawl), _) => Of::Crawl(crawl.as_bytes()),
            (_, Some(wacz)) => Of::Wacz(wacz.as_bytes()),
            _ => Of::References(&refs),
        };
        let required = self.asking.index()?.requires(of, self.transitive);
        let required = required.map_err(io::Error::other)?;
        self.asking.tell_all(&required, print_required)?;
        Ok(true)
    }
}

fn print_required(required: &[Required]) -> io::Result<()> {
    if required.is_empty() {
        say("nothing is needed");
        return Ok(());
    }
    let mut table = Columns::new("file | crawl | size> | hash");
    for one in required {
        let hash = one.hash.as_deref().map(text);
        table.row([
            text(&one.filename),
            text(&one.crawl),
            one.size.map(bytes).unwrap_or_default(),
            hash.unwrap_or_else(|| "not finished".to_owned()),
        ]);
    }
    table.print()
}

/// List the crawls that could not be replayed in full without this one.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe requiredby 2026-02")]
pub(crate) struct RequiredBy {
    #[command(flatten)]
    asking: Asking,
    /// The crawl.
    #[arg(value_name = "CRAWL", value_parser = Bytes::parser())]
    crawl: Bytes,
}

impl RequiredBy {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let dependents = self.asking.index()?.required_by(self.crawl.as_bytes());
        let dependents = dependents.map_err(io::Error::other)?;
        self.asking.tell_all(&dependents, print_dependents)?;
        Ok(true)
    }
}

fn print_dependents(dependents: &[Dependent]) -> io::Result<()> {
    if dependents.is_empty() {
        say("no crawl needs it");
        return Ok(());
    }
    let mut table = Columns::new("crawl | revisits>");
    for one in dependents {
        let revisits = one.revisits.map_or("some".to_owned(), count);
        table.row([text(&one.crawl), revisits]);
    }
    table.print()
}
