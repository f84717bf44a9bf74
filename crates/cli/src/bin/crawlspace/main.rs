//! The `crawlspace` command line tool.

#![warn(unreachable_pub)]

/// Runs the command in the given variant of an enum of subcommands.
macro_rules! run_one {
    ($given:expr, $kind:ident: $($name:ident)*) => {
        match $given {
            $($kind::$name(command) => command.run(),)*
        }
    };
}

mod bar;
mod cdxj;
mod chg;
mod columns;
mod config;
mod dedupe;
mod exporter;
mod file_kind;
mod index;
mod indexer;
mod observe;
mod open_files;
mod outage;
mod output;
mod progress;
mod serve;
mod service;
mod shell;
mod size;
mod stop;
mod storage;
mod table;
mod tags;
mod terminal;
mod time;
mod top;
mod url;
mod wacz;

use std::io;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use crawlspace_cli::any_index::{AnyIndex, IndexName, OpenError};
use crawlspace_client::dedupe::Index;
use crawlspace_client::frontier::Frontier;
use serde::Serialize;

use crate::observe::Kind;
use crate::table::print_json;
use crate::terminal::{Bytes, complain};
use crate::url::redis_url;

/// Companion of the Crawlspace Redis module.
///
/// The environment variables CRAWLSPACE_REDIS and CRAWLSPACE_PREFIX are the defaults of --redis and --prefix.
///
/// Exit status: 0 on success, 1 when something failed or a check found faults, 2 when the command line is wrong.
#[derive(Parser)]
#[command(
    name = "crawlspace",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:
  crawlspace dedupe stats --prefix '{coll-42}:'
  crawlspace serve --config config.yaml"
)]
struct CommandLine {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Hash-based dedupe: which payloads have been seen.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:
  crawlspace dedupe crawls --prefix '{coll-42}:'
  crawlspace dedupe lookup sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"
    )]
    Dedupe(dedupe::Dedupe),
    Indexer(indexer::Indexer),
    /// Crawl host groups: which hosts workers may contact now, and why they must not contact the others.
    #[command(
        subcommand,
        arg_required_else_help = true,
        visible_alias = "frontier",
        after_help = "Examples:
  crawlspace chg why example.org --prefix '{web}:'
  crawlspace chg info"
    )]
    Chg(chg::Chg),
    /// Tags: which readers may see which captures.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:
  crawlspace tags info --key archive
  crawlspace tags filter --key archive --point all index.cdxj"
    )]
    Tags(tags::Tags),
    /// WACZ files: list the other files that they need for replay.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Example:
  crawlspace wacz check collection/"
    )]
    Wacz(wacz::Wacz),
    /// Job indexes: built once each from the metadata files of jobs.
    ///
    /// To import WACZ files into a dedupe index, see `crawlspace indexer`; for WARC files, `crawlspace dedupe index`.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:
  crawlspace index get --kind full --jobs 7,8 --metadata /archive --cache-dir cache
  crawlspace index gc --cache-dir cache --max-size 100GB"
    )]
    Index(index::Index),
    Cdxj(cdxj::Cdxj),
    Serve(serve::Serve),
    Exporter(exporter::Exporter),
    Top(top::Top),
    /// Configurations of `serve`.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Example:
  crawlspace config check config.yaml"
    )]
    Config(config::Config),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// The server and the prefix of the data.
#[derive(Args)]
struct Server {
    /// The server, or one node of a cluster, with the Crawlspace module loaded.
    #[arg(
        long,
        alias = "redisDedupeUrl",
        value_name = "URL",
        env = "CRAWLSPACE_REDIS",
        value_parser = redis_url,
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379/0"
    )]
    redis: String,
    /// Prefix of every key, empty by default; in a cluster with a hash tag: '{coll-42}:'.
    #[arg(
        long,
        value_name = "PREFIX",
        env = "CRAWLSPACE_PREFIX",
        default_value = "",
        hide_default_value = true,
        value_parser = Bytes::parser()
    )]
    prefix: Bytes,
}

/// The name of a sharded index, if the index is one.
#[derive(Args)]
struct Sharding {
    /// Name of a sharded index, instead of --prefix.
    #[arg(long, value_name = "NAME", value_parser = Bytes::parser())]
    sharded: Option<Bytes>,
    /// Number of shards, which is needed only to create the index.
    #[arg(long, value_name = "N", requires = "sharded", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
}

impl Sharding {
    /// Returns the name of the index: this one, or the prefix.
    fn name(&self, server: &Server) -> IndexName {
        match &self.sharded {
            None => IndexName::Prefix(server.prefix.as_bytes().to_vec()),
            Some(name) => IndexName::Sharded(name.as_bytes().to_vec(), self.shards),
        }
    }

    fn open(&self, server: &Server) -> Result<AnyIndex, OpenError> {
        let connected = crawlspace_client::Server::open(&server.redis)?;
        self.name(server).open(&connected)
    }
}

/// The server to ask, and the form of the output.
#[derive(Args)]
struct Asking {
    #[command(flatten)]
    server: Server,
    /// Print the result as JSON, one object per line.
    #[arg(long)]
    json: bool,
}

impl Asking {
    fn index(&self) -> io::Result<Index> {
        let Server { redis, prefix } = &self.server;
        Index::open(redis, prefix.as_bytes()).map_err(io::Error::other)
    }

    /// Waits for a job of the server, with a progress bar on a terminal.
    fn waited<T>(&self, works: &[&str], long: impl FnOnce() -> T) -> T {
        bar::waited(&self.server, works, long)
    }

    fn frontier(&self) -> io::Result<Frontier> {
        let Server { redis, prefix } = &self.server;
        Frontier::open(redis, prefix.as_bytes()).map_err(io::Error::other)
    }

    /// Fails with the names of the existing data sets if the requested one is empty (`holds` is false).
    fn expect(&self, kind: Kind, holds: bool) -> io::Result<()> {
        if holds {
            return Ok(());
        }
        let Server { redis, prefix } = &self.server;
        Err(observe::missing(redis, kind, prefix.as_bytes()))
    }

    /// Prints a result: as JSON, or with the given function.
    fn tell<T: Serialize>(
        &self,
        answer: &T,
        print: impl FnOnce(&T) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            print_json(answer)
        } else {
            print(answer)
        }
    }

    /// Prints several results: each as a line of JSON, or all with the given function.
    fn tell_all<T: Serialize>(
        &self,
        answers: &[T],
        print: impl FnOnce(&[T]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            answers.iter().try_for_each(print_json)
        } else {
            print(answers)
        }
    }
}

fn main() -> ExitCode {
    let outcome = run_one!(CommandLine::parse().subject, Subject:
            Dedupe Indexer Chg Tags Wacz Index Cdxj Serve Exporter Top Config Completions Man);
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of standard output has closed it (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}
