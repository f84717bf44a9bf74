//! `crawlspace tags sync`: mirrors a database into a tag space.

mod output;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use crawlspace_cli::mirror::{
    Difference, Error, Flag, Follow, Loaded, Mirror, Schema, Source, Target, compare_csv, load_csv,
};

use self::output::Output;
use super::{KindName, failed};
use crate::stop;
use crate::url::redis_url;

#[derive(Args)]
#[command(group = ArgGroup::new("source").args(["postgres", "csv", "print_sql"]).required(true))]
pub(crate) struct Sync {
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
    #[arg(long, value_name = "KEY", required_unless_present = "print_sql")]
    key: Option<String>,
    /// Kind of the ids. The mirror manages all ids of this kind in the space.
    #[arg(long, value_enum, default_value_t)]
    kind: KindName,

    /// The database: postgresql://user@host:5432/database?sslmode=require. A password is taken from PGPASSWORD
    /// if it is not in the URL. With sslmode=require the server must have a certificate for its name; with
    /// prefer, the default, TLS is used if available, without verifying the server.
    #[arg(long, value_name = "URL", help_heading = "PostgreSQL")]
    postgres: Option<String>,
    /// PEM file of certificate authorities to trust in addition to those of the system.
    #[arg(long, value_name = "FILE", help_heading = "PostgreSQL")]
    postgres_ca: Option<PathBuf>,
    /// A query with two columns: an id, and its tags (separated by spaces, or text[]). Rows of the same id are
    /// merged; NULL tags are ignored.
    #[arg(
        long,
        value_name = "SQL",
        conflicts_with_all = ["table", "id", "organization", "private", "public", "public_tag", "csv"],
        help_heading = "PostgreSQL"
    )]
    query: Option<String>,
    /// The table of collections, unless --query is given. May include a schema, as in archive.collection.
    #[arg(long, default_value = "collection", help_heading = "PostgreSQL")]
    table: String,
    /// Column of --table with the id of the collection, which becomes the tag coll:<id>.
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "id",
        help_heading = "PostgreSQL"
    )]
    id: String,
    /// Column of --table with the organization, which becomes the tag org:<organization>.
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "organization_id",
        help_heading = "PostgreSQL"
    )]
    organization: String,
    /// Boolean column of --table that is true for private collections. NULL counts as private.
    #[arg(
        long,
        value_name = "COLUMN",
        default_value = "private",
        conflicts_with = "public",
        help_heading = "PostgreSQL"
    )]
    private: String,
    /// Boolean column of --table that is true for public collections, instead of --private. NULL
    /// counts as private.
    #[arg(long, value_name = "COLUMN", help_heading = "PostgreSQL")]
    public: Option<String>,
    /// A tag for public collections, so that access points can require it: 'coll:* & public'.
    #[arg(long, value_name = "TAG", help_heading = "PostgreSQL")]
    public_tag: Option<String>,
    /// The channel with notifications about changed ids. A message has one id, several ids
    /// separated by spaces or newlines, or none, which causes a full load.
    #[arg(
        long,
        value_name = "CHANNEL",
        default_value = "crawlspace_tags",
        help_heading = "PostgreSQL"
    )]
    listen: String,
    /// Print the query and a trigger that reports changes, and do nothing else.
    #[arg(long, help_heading = "PostgreSQL")]
    print_sql: bool,

    /// A file with the columns id and tags (separated by spaces), with or without this header, instead of a database;
    /// - is standard input. It is loaded once.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["table", "id", "organization", "private", "public", "public_tag", "postgres_ca", "listen", "every", "wait"]
    )]
    csv: Option<PathBuf>,

    /// Load once and exit.
    #[arg(long)]
    once: bool,
    /// Print what a load would change (+ id tags, - id tags, ~ id old -> new), and change nothing. The exit status is
    /// 0 even if something differs.
    #[arg(long)]
    dry_run: bool,
    /// Interval of full loads, even if no change was reported.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "once")]
    every: Option<u64>,
    /// Wait until another sync of this space ends.
    #[arg(long, conflicts_with = "once")]
    wait: bool,
    /// Empty the space if the source is empty. By default an empty source is an error.
    #[arg(long)]
    allow_empty: bool,
    /// Print the progress as JSON, one object per line.
    #[arg(long)]
    json: bool,
}

impl Sync {
    pub(crate) fn run(&self) -> io::Result<bool> {
        if self.print_sql {
            return output::print(&self.sql()).map(|()| true);
        }
        let mut output = Output::new(self.json);
        let done = match (&self.csv, &self.postgres) {
            (Some(file), _) => self.read_csv(file, &mut output),
            (None, Some(url)) => self.mirror(url, &mut output),
            (None, None) => unreachable!("clap requires one of them"),
        };
        output.end()?;
        match done {
            Ok(()) => Ok(true),
            Err(error) => failed(&error),
        }
    }

    fn target(&self) -> Target {
        Target {
            redis: self.redis.clone(),
            key: self.key.clone().unwrap_or_default().into_bytes(),
            kind: self.kind.kind(),
            allow_empty: self.allow_empty,
        }
    }

    fn schema(&self) -> Schema {
        Schema {
            table: self.table.clone(),
            id: self.id.clone(),
            organization: self.organization.clone(),
            flag: match &self.public {
                Some(column) => Flag::Public(column.clone()),
                None => Flag::Private(self.private.clone()),
            },
            public_tag: self.public_tag.clone(),
        }
    }

    fn query(&self) -> String {
        match &self.query {
            Some(query) => query.clone(),
            None => self.schema().query(),
        }
    }

    fn sql(&self) -> String {
        let about = match self.query {
            Some(_) => {
                "-- Each table that the query reads needs a trigger, which sends the id in the first column of the\n\
                 -- query on the channel. This one is for the default table, and sends the id of the collection.\n"
            }
            None => "",
        };
        let (query, trigger) = (self.query(), self.schema().trigger(&self.listen));
        format!(
            "-- The mirrored query:\n{query};\n\n-- The trigger that reports changes:\n{about}{trigger}"
        )
    }

    fn mirror(&self, url: &str, output: &mut Output) -> Result<(), Error> {
        let source = Source {
            url: url.to_owned(),
            password: std::env::var("PGPASSWORD").ok(),
            ca: self.postgres_ca.clone(),
            query: self.query(),
            channel: self.listen.clone(),
        };
        let stop = stop::on_signal(0)
            .map_err(|error| Error::Setting(format!("signals cannot be received: {error}")))?;
        let mirror = Mirror::new(&source, self.target(), stop)?;
        let mut tell = |event: crawlspace_cli::mirror::Event<'_>| {
            if output.tell(&event).is_err() {
                // The reader of standard output has closed it.
                stop::now(stop);
            }
        };
        if self.dry_run {
            let difference = mirror.difference()?;
            return self.compared(&difference, output);
        }
        if self.once {
            return mirror.once(&mut tell).map(|_| ());
        }
        let how = Follow {
            wait: self.wait,
            every: self.every.map(Duration::from_secs),
        };
        mirror.follow(&how, &mut tell)
    }

    fn read_csv(&self, file: &Path, output: &mut Output) -> Result<(), Error> {
        let name = file.display().to_string();
        let input: Box<dyn Read> = if name == "-" {
            Box::new(io::stdin().lock())
        } else {
            let opened = File::open(file);
            Box::new(opened.map_err(|error| Error::Setting(format!("{name}: {error}")))?)
        };
        if self.dry_run {
            let difference = compare_csv(&self.target(), input, &name)?;
            return self.compared(&difference, output);
        }
        let loaded: Loaded = load_csv(&self.target(), input, &name, &mut |event| {
            // Output errors do not abort a load.
            let _ = output.tell(&event);
        })?;
        let written = output.tell(&crawlspace_cli::mirror::Event::Loaded(loaded));
        written.map_err(|error| Error::Setting(format!("standard output: {error}")))
    }

    fn compared(&self, difference: &Difference, output: &mut Output) -> Result<(), Error> {
        let written = output.differences(difference);
        written.map_err(|error| Error::Setting(format!("standard output: {error}")))
    }
}
