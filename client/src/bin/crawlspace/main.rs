//! The `crawlspace` command line tool.

mod dedupe;
mod frontier;
mod indexer;
mod stop;
mod table;
mod tags;

use std::io;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Companion of the Crawlspace Redis module.
///
/// Exit status: 0 when everything went well, 1 when something failed or is not as it should be, 2 when the
/// command line is wrong.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Hash-based dedupe: which payloads have been seen.
    #[command(subcommand, arg_required_else_help = true)]
    Dedupe(dedupe::Dedupe),
    Indexer(indexer::Indexer),
    /// Crawl host groups: which hosts may be fetched from now, and why the others may not.
    #[command(subcommand, arg_required_else_help = true)]
    Frontier(frontier::Frontier),
    /// Tags: who may see which capture.
    #[command(subcommand, arg_required_else_help = true)]
    Tags(tags::Tags),
}

/// Where the data lies.
#[derive(Args)]
struct Server {
    /// The server, which has the Crawlspace module loaded.
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379/0")]
    redis: String,
    /// What stands before every key; in a cluster a hash tag: '{coll-42}:'.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().subject {
        Subject::Dedupe(dedupe) => dedupe.run(),
        Subject::Indexer(indexer) => indexer.run(),
        Subject::Frontier(frontier) => frontier.run(),
        Subject::Tags(tags) => tags.run(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads our output has seen enough (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crawlspace: {error}");
            ExitCode::FAILURE
        }
    }
}
