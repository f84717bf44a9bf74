//! `crawlspace tags …`: commands for tag spaces, which control access to captures.

mod explain;
mod filter;
mod sync;

use std::io;

use clap::{Args, Subcommand, ValueEnum};
use crawlspace_client::tags::{self, Dialect, Filter, Format, Info, Kind, TagSpace};

use crate::observe;
use crate::table::{Table, count, print_json, size};
use crate::terminal::complain;
use crate::url::redis_url;

#[derive(Subcommand)]
pub(crate) enum Tags {
    /// Mirror the tags of a database in a tag space.
    ///
    /// Loads ids with their tags from PostgreSQL, publishes them atomically, and follows the
    /// changes that a trigger reports (see --print-sql). After any failure it loads again; readers
    /// never see a partial load. Ends on SIGTERM and Ctrl-C.
    ///
    /// Exit status: 0 when the space was loaded (--once), compared (--dry-run, even if something differs) or the
    /// mirror was stopped; 1 when something failed, or another mirror holds the space; 2 when the command line is
    /// wrong.
    #[command(after_help = "Examples:
  crawlspace tags sync --key archive --postgres postgresql://crawlspace@db.example/archive --dry-run
  crawlspace tags sync --key archive --csv collections.csv")]
    Sync(Box<sync::Sync>),
    /// Print the lines of a CDX or CDXJ file that pass an access point and filters.
    #[command(after_help = "Examples:
  crawlspace tags filter --key archive --point all index.cdxj
  crawlspace tags filter --key archive --where 'coll:* & !private' --drop-bad-lines < index.cdx")]
    Filter(filter::FilterLines),
    /// Explain why a capture passes or not, and where each of its tags comes from.
    #[command(after_help = "Example:
  crawlspace tags explain --key archive --point all --format file ARCHIVEIT-1068-A.warc.gz")]
    Explain(explain::ExplainLine),
    /// Show the size of a tag space.
    #[command(after_help = "Example:
  crawlspace tags info --key archive --json")]
    Info(Figures),
}

impl Tags {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Tags: Sync Filter Explain Info)
    }
}

/// The server and the key of the tag space.
#[derive(Args)]
struct Space {
    /// The server, with the Crawlspace module loaded.
    #[arg(
        long,
        value_name = "URL",
        env = "CRAWLSPACE_REDIS",
        value_parser = redis_url,
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379/0"
    )]
    redis: String,
    /// The key of the tag space.
    #[arg(long, value_name = "KEY")]
    key: String,
}

impl Space {
    fn open(&self) -> Result<TagSpace, tags::Error> {
        TagSpace::open(&self.redis, self.key.as_bytes())
    }
}

/// Conditions that a capture must meet.
#[derive(Args)]
struct Conditions {
    /// An access point that captures must pass.
    #[arg(long, value_name = "NAME")]
    point: Option<String>,
    /// An expression that the tags of captures must match: 'coll:* & !private'.
    #[arg(long = "where", value_name = "EXPRESSION")]
    condition: Option<String>,
    /// A filter as in CDX servers: '!statuscode:404', tag.coll:1068. May be given several times.
    #[arg(long = "filter", value_name = "SPEC")]
    specs: Vec<String>,
    /// The CDX server whose filter semantics apply.
    #[arg(long, value_enum, default_value_t)]
    dialect: DialectName,
    /// Format of the lines.
    #[arg(long, value_enum, default_value_t)]
    format: FormatName,
}

impl Conditions {
    fn filter(&self) -> Filter<'_> {
        Filter {
            point: self.point.as_deref().map(str::as_bytes),
            condition: self.condition.as_deref().map(str::as_bytes),
            specs: self.specs.iter().map(String::as_bytes).collect(),
            dialect: match self.dialect {
                DialectName::Outback => Dialect::Outback,
                DialectName::Ia => Dialect::Ia,
                DialectName::Pywb => Dialect::Pywb,
            },
            format: match self.format {
                FormatName::Auto => Format::Auto,
                FormatName::Cdx => Format::Cdx,
                FormatName::Cdxj => Format::Cdxj,
                FormatName::File => Format::File,
                FormatName::Record => Format::Record,
            },
            ..Filter::default()
        }
    }
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum DialectName {
    /// OutbackCDX.
    #[default]
    Outback,
    /// The CDX server of the Internet Archive.
    Ia,
    /// pywb.
    Pywb,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum FormatName {
    /// CDX or CDXJ, detected line by line.
    #[default]
    Auto,
    /// CDX of 7, 9, 10, 11, 12, 13 or 14 fields.
    Cdx,
    /// `urlkey timestamp {json}`.
    Cdxj,
    /// Names of WARC files.
    File,
    /// `urlkey timestamp filename offset`.
    Record,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum KindName {
    /// Captures: `urlkey timestamp filename offset`.
    Record,
    /// WARC files.
    File,
    /// Tags, which can have tags themselves.
    #[default]
    Tag,
}

impl KindName {
    fn kind(self) -> Kind {
        match self {
            KindName::Record => Kind::Record,
            KindName::File => Kind::File,
            KindName::Tag => Kind::Tag,
        }
    }
}

#[derive(Args)]
pub(crate) struct Figures {
    #[command(flatten)]
    space: Space,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Figures {
    fn run(&self) -> io::Result<bool> {
        match self.space.open().and_then(|space| space.info()) {
            Ok(info) if !observe::is_space(&info) => {
                let Space { redis, key } = &self.space;
                Err(observe::missing(
                    redis,
                    observe::Kind::Space,
                    key.as_bytes(),
                ))
            }
            Ok(info) if self.json => print_json(&info).map(|()| true),
            Ok(info) => print_info(&self.space.key, &info).map(|()| true),
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &dyn std::error::Error) -> io::Result<bool> {
    complain(error);
    Ok(false)
}

fn print_info(key: &str, info: &Info) -> io::Result<()> {
    let mut table = Table::new(&format!("tag space '{key}'"), 10)?;
    for (kind, name) in [
        (Kind::Record, "captures"),
        (Kind::File, "files"),
        (Kind::Tag, "tags"),
    ] {
        let with = format!("with {} tags", count(info.edges(kind)));
        table.row(name, count(info.ids(kind)), &with)?;
        if info.staged(kind) > 0 {
            table.row("", count(info.staged(kind)), "staged, not published yet")?;
        }
    }
    table.row("different", count(info.tags), "tags in total")?;
    table.row("rules", count(info.rules), "")?;
    table.row("points", count(info.points), "")?;
    table.row("memory", count(info.memory), &size(info.memory))?;
    table.end()
}
