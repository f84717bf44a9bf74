//! Source of a mirror: a PostgreSQL query.

use std::path::PathBuf;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::types::{Kind as TypeKind, Type};
use postgres::{CancelToken, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::session::{SILENCE, Session};
use super::{Error, tls};
use crawlspace_client::tags::Kind;

const CONNECT: Duration = Duration::from_secs(10);
/// Maximum length of a name in PostgreSQL, in bytes; PostgreSQL truncates longer names silently.
const MAX_CHANNEL: usize = 63;

/// A query of a PostgreSQL database, and the channel that announces its changes.
#[derive(Clone)]
pub struct Source {
    /// URL of the database: `postgresql://user:password@host:5432/database?sslmode=require`.
    pub url: String,
    /// The password, if the URL has none.
    pub password: Option<String>,
    /// PEM file with certificate authorities to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// A query with two columns: an id, and its tags as text (separated by spaces) or as an array
    /// of text.
    pub query: String,
    /// The channel on which changed ids are announced.
    pub channel: String,
}

/// A database with its connection parameters.
pub(super) struct Database {
    config: Config,
    tls: MakeRustlsConnect,
    shown: String,
    query: String,
    channel: String,
    kind: Kind,
}

impl Database {
    pub(crate) fn new(source: &Source, kind: Kind) -> Result<Database, Error> {
        // libpq's modes `verify-ca` and `verify-full` correspond to `require` here.
        let url = source
            .url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url
            .parse()
            .map_err(Error::postgres("the URL of PostgreSQL"))?;
        if let (None, Some(password)) = (config.get_password(), &source.password) {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        config.keepalives_idle(SILENCE.min(config.get_keepalives_idle()));
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(SILENCE / 3);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(3);
        }
        if config.get_application_name().is_none() {
            config.application_name("crawlspace tags sync");
        }
        if source.channel.is_empty() || source.channel.len() > MAX_CHANNEL {
            let reason = format!("the name of a channel must have 1 to {MAX_CHANNEL} bytes");
            return Err(Error::Setting(reason));
        }
        let blank = |c: char| c.is_whitespace() || c == ';';
        let query = source.query.trim_end_matches(blank).to_owned();
        Ok(Database {
            tls: tls::connector(config.get_ssl_mode(), source.ca.as_deref())?,
            shown: address(&config),
            config,
            query,
            channel: source.channel.clone(),
            kind,
        })
    }

    /// Connects, and checks the columns of the query.
    pub(crate) fn open(&self) -> Result<Session, Error> {
        let connecting = || format!("connecting to {}", self.shown);
        let mut client = match self.config.get_ssl_mode() {
            SslMode::Disable => self.config.connect(postgres::NoTls),
            _ => self.config.connect(self.tls.clone()),
        }
        .map_err(Error::postgres(connecting()))?;
        let asked = client.prepare(&self.query);
        let asked = asked.map_err(Error::postgres("the query"))?;
        if !asked.params().is_empty() {
            return Err(Error::Setting(
                "the query has parameters, which are not supported".to_owned(),
            ));
        }
        let [_, tags] = asked.columns() else {
            return Err(Error::Setting(format!(
                "the query returns {} columns, not two: an id and its tags",
                asked.columns().len()
            )));
        };
        let array = match form(tags.type_()) {
            Form::Text => false,
            Form::Array => true,
            Form::Other => {
                return Err(Error::Setting(format!(
                    "the tags, second column of the query, are of type {}, not text or text[]",
                    tags.type_().name()
                )));
            }
        };
        let wrapped = wrapped(&self.query, array);
        // Sort by the bytes of the ids, so that rows with the same id are adjacent in any
        // collation.
        let all = format!("{wrapped}\nORDER BY q.id::text COLLATE \"C\" NULLS FIRST");
        let some = format!("{wrapped}\nWHERE q.id::text = ANY($1::text[])");
        let mut prepare = |sql: &str| client.prepare(sql).map_err(Error::postgres("the query"));
        let (all, some) = (prepare(&all)?, prepare(&some)?);
        Ok(Session {
            client,
            all,
            some,
            array,
            channel: self.channel.clone(),
            kind: self.kind,
        })
    }

    /// Cancels a query, if possible.
    pub(crate) fn cancel(&self, query: &CancelToken) {
        // If the cancellation fails, the query still ends by itself later.
        let _ = match self.config.get_ssl_mode() {
            SslMode::Disable => query.cancel_query(postgres::NoTls),
            _ => query.cancel_query(self.tls.clone()),
        };
    }
}

/// Wraps the query into a table with known column names.
pub(super) fn wrapped(query: &str, array: bool) -> String {
    let tags = if array { "text[]" } else { "text" };
    // The query may end with a comment, which the line break ends.
    format!("SELECT q.id::text, q.tags::{tags} FROM (\n{query}\n) AS q(id, tags)")
}

enum Form {
    Text,
    Array,
    Other,
}

fn form(of: &Type) -> Form {
    match of.kind() {
        TypeKind::Array(_) => Form::Array,
        TypeKind::Enum(_) => Form::Text,
        TypeKind::Domain(base) => form(base),
        _ if [
            Type::TEXT,
            Type::VARCHAR,
            Type::BPCHAR,
            Type::NAME,
            Type::UNKNOWN,
        ]
        .contains(of) =>
        {
            Form::Text
        }
        // Case-insensitive text of an extension.
        _ if of.name() == "citext" => Form::Text,
        _ => Form::Other,
    }
}

/// Returns the address of the database without the password.
fn address(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate();
    let ports = config.get_ports();
    let hosts: Vec<String> = hosts
        .map(|(i, host)| {
            let port = ports.get(i).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        })
        .collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("");
    format!("postgresql://{}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str) -> Source {
        Source {
            url: url.to_owned(),
            password: None,
            ca: None,
            query: "SELECT id, tags FROM t; \n".to_owned(),
            channel: "c".to_owned(),
        }
    }

    fn refusal(source: &Source) -> String {
        let refused = Database::new(source, Kind::Tag).err();
        refused.expect("it is refused").to_string()
    }

    #[test]
    fn query_is_wrapped_whatever_its_ending() {
        let database = Database::new(&source("postgresql://h/d"), Kind::Tag).unwrap();
        assert_eq!(database.query, "SELECT id, tags FROM t");
        assert_eq!(
            wrapped("SELECT 1, 'a' -- b", false),
            "SELECT q.id::text, q.tags::text FROM (\nSELECT 1, 'a' -- b\n) AS q(id, tags)"
        );
    }

    #[test]
    fn password_is_not_shown() {
        let one = source("postgresql://me:secret@h1:5433,h2:5434/db?sslmode=verify-full");
        let database = Database::new(&one, Kind::Tag).unwrap();
        assert_eq!(database.shown, "postgresql://h1:5433,h2:5434/db");
        assert_eq!(database.config.get_ssl_mode(), SslMode::Require);
        for bad in [
            "postgresql://me:secret@h/d?x=y",
            "me:secret@h",
            "postgresql://me:secret@h:x/",
        ] {
            let refusal = refusal(&source(bad));
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }

    #[test]
    fn channel_longer_than_postgresql_allows_is_refused() {
        let mut one = source("postgresql://h/d");
        one.channel = "x".repeat(64);
        assert!(refusal(&one).contains("1 to 63 bytes"));
    }
}
