//! `crawlspace wacz requires`: the dependencies of a WACZ file, and the list of them in the file.

use std::io;

use clap::{Args, ValueHint};
use crawlspace_cli::dependencies::{self, Dependencies};
use crawlspace_client::dedupe::{Index, Of};
use crawlspace_wacz::package::{Required, Signature, set_requires};
use crawlspace_wacz::{Location, Options, Wacz};
use serde::Serialize;

use crate::Asking;
use crate::columns::Columns;
use crate::table::{bytes, count, many};
use crate::terminal::{Bytes, complain, say};

/// List the WACZ files that a WACZ file needs for replay, and write the list into it.
///
/// Finds the revisit records in the indexes of the file, and looks up their originals in the dedupe
/// index. With --ref, it lists the dependencies that the dedupe index has recorded. --write stores
/// the list in datapackage.json, where replay tools look for it ("relation" → "requires");
/// everything else in the file stays unchanged.
///
/// Exit status: 0 when the list is complete, 1 when originals are not known or something failed (nothing is written
/// then, unless --partial), 2 when the command line is wrong.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace wacz requires crawl-2.wacz --crawl 2026-03
  crawlspace wacz requires crawl-2.wacz --crawl 2026-03 --write
  crawlspace wacz requires crawl-2.wacz --ref 5c0a2b7e --write --json")]
pub(crate) struct Requires {
    #[command(flatten)]
    asking: Asking,
    /// The WACZ file; without --write also an http(s) URL.
    #[arg(value_name = "WACZ", value_hint = ValueHint::FilePath)]
    wacz: String,
    /// The crawl that the file is part of. Other files of this crawl are not listed.
    #[arg(long, value_name = "ID", value_parser = Bytes::parser(), required_unless_present = "reference")]
    crawl: Option<Bytes>,
    /// List the dependencies that were recorded under this id, which the crawler gave with REF.
    #[arg(long = "ref", id = "reference", value_name = "UUID", value_parser = Bytes::parser())]
    reference: Option<Bytes>,
    /// Write the list into the file.
    #[arg(long)]
    write: bool,
    /// Write the list even if it is incomplete.
    #[arg(long, requires = "write")]
    partial: bool,
    /// Drop the signature of a signed file, which becomes invalid when --write changes the file.
    #[arg(long, requires = "write")]
    drop_signature: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequiresReport<'a> {
    file: &'a str,
    requires: &'a [Required],
    revisits: Option<u64>,
    unknown: u64,
    unlisted: &'a [String],
    written: bool,
}

impl Requires {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let location = Location::parse(&self.wacz).map_err(io::Error::other)?;
        let index = self.asking.index()?;
        let found = match (&self.reference, &self.crawl) {
            (Some(reference), _) => {
                let required = index.requires(Of::Wacz(reference.as_bytes()), false);
                let required = required.map_err(io::Error::other)?;
                // If the reply is empty, the file has no dependencies or the id is wrong.
                if required.is_empty() {
                    let own = self.of_its_own(&index, &location)?;
                    if !own.requires.is_empty() || !own.are_complete() {
                        return Err(io::Error::other(format!(
                            "nothing was recorded under '{reference}', but {} has revisits of other files: pass the \
                             id that the crawler gave with REF, or use --crawl instead of --ref to read the \
                             dependencies from the file",
                            self.wacz
                        )));
                    }
                }
                Dependencies {
                    requires: required
                        .into_iter()
                        .map(crawlspace_cli::dependencies::in_text)
                        .collect(),
                    ..Dependencies::default()
                }
            }
            (None, _) => self.of_its_own(&index, &location)?,
        };
        let complete = found.are_complete();
        self.complain_of(&found);
        let mut written = false;
        if self.write && (complete || self.partial) {
            written = self.write_into(&location, &found.requires)?;
        }
        let outcome = RequiresReport {
            file: &self.wacz,
            requires: &found.requires,
            revisits: self.reference.is_none().then_some(found.revisits),
            unknown: found.unknown,
            unlisted: &found.unlisted,
            written,
        };
        self.asking.tell(&outcome, print_outcome)?;
        if self.write && !self.asking.json {
            match (written, complete || self.partial) {
                (true, _) => say("the list is in the file"),
                (false, true) => say("the file has this list already"),
                (false, false) => {
                    complain("nothing was written; --partial writes the incomplete list")
                }
            }
        }
        Ok(complete)
    }

    /// Finds the dependencies from the file's own revisit records.
    fn of_its_own(&self, index: &Index, location: &Location) -> io::Result<Dependencies> {
        let crawl = self.crawl.as_ref().map(Bytes::as_bytes).unwrap_or_default();
        let wacz = Wacz::open(location, &Options::default()).map_err(io::Error::other)?;
        dependencies::of_package(index, crawl, &wacz).map_err(io::Error::other)
    }

    fn complain_of(&self, found: &Dependencies) {
        if found.unknown > 0 {
            let named = found.named.len() as u64;
            complain(format_args!(
                "{} without a known original:",
                many(found.unknown, "revisit")
            ));
            for what in &found.named {
                say(format_args!("  {what}"));
            }
            if named < found.unknown {
                say(format_args!("  … {} in all", count(found.unknown)));
            }
        }
        for reference in &found.unlisted {
            complain(format_args!(
                "crawl and index '{reference}' refer to no file"
            ));
        }
        for unfinished in found
            .requires
            .iter()
            .filter(|required| required.hash.is_none())
        {
            say(format_args!(
                "{} has no hash yet; it will be found by its name",
                unfinished.filename
            ));
        }
    }

    fn write_into(&self, location: &Location, requires: &[Required]) -> io::Result<bool> {
        let Location::File(path) = location else {
            return Err(io::Error::other(format!(
                "{location}: a list can only be written into a local file, not at a URL"
            )));
        };
        let signature = if self.drop_signature {
            Signature::Drop
        } else {
            Signature::Refuse
        };
        set_requires(path, requires, signature, &Options::default()).map_err(io::Error::other)
    }
}

fn print_outcome(outcome: &RequiresReport<'_>) -> io::Result<()> {
    if outcome.requires.is_empty() {
        say("nothing is needed");
        return Ok(());
    }
    let mut table = Columns::new("file | crawl | size> | hash");
    for one in outcome.requires {
        table.row([
            &one.filename,
            one.crawl.as_deref().unwrap_or_default(),
            &one.size.map(bytes).unwrap_or_default(),
            one.hash.as_deref().unwrap_or("not finished"),
        ]);
    }
    table.print()
}
