//! The rows of a writable collection: members of a sorted set, and aliases in a hash next to it.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use ::redis::Cmd;
use ::redis::FromRedisValue;
use crawlspace_cdx::{Field, Format, Line, Read, post, surt};
use crawlspace_client::{Ask, AsyncServer, Call};
use crawlspace_compact::token::Token;
use crawlspace_index::cdxj::push_field;
use crawlspace_index::lines::MAX_LINE;
use crawlspace_index::sorted::line::FIELDS;
use crawlspace_index::timestamp::Timestamp;

use crate::config;
use crate::sources::remote::whitelist::is_below;

/// Timeout of a command, and number of retries after a broken connection. Every command may be sent twice.
const TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: u32 = 2;
/// Number of rows that are moved to another key at a time.
const PAGE: usize = 1000;
/// Suffix of the key of the hash with the aliases.
pub(crate) const ALIASES: &str = ":aliases";
/// First word of a line that defines an alias.
const ALIAS: &[u8] = b"@alias";

/// A sorted set to which clients may add rows.
pub(crate) struct Writable {
    url: String,
    key: String,
    token: Token,
    server: tokio::sync::Mutex<Option<AsyncServer>>,
}

/// Error of a write.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Redis returns an error, or cannot be reached.
    Server(crawlspace_client::Error),
    /// An invalid alias: a description of the fault.
    Alias(String),
}

impl From<crawlspace_client::Error> for WriteError {
    fn from(error: crawlspace_client::Error) -> WriteError {
        WriteError::Server(error)
    }
}

/// A line of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// A row: its urlkey, and the rest of the stored line.
    Row { urlkey: Vec<u8>, rest: Vec<u8> },
    /// Two urlkeys: captures of the second one are returned for the first one as well.
    Alias { from: Vec<u8>, to: Vec<u8> },
    /// A blank line, or the header of a CDX file.
    Nothing,
}

impl Writable {
    /// Opens the collection's sorted set, and reads its token. Connects on first use.
    ///
    /// # Errors
    /// Fails if the token file cannot be read or is invalid.
    pub(crate) fn open(config: &config::Writable, collection: &str) -> Result<Writable, String> {
        Ok(Writable {
            url: config.redis_url.clone(),
            key: config.key.replace("{coll}", collection),
            token: token(&config.token_file)?,
            server: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the token that writes need.
    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Adds rows and aliases, in their order, up to the first invalid alias. Adding a row again changes nothing.
    pub(crate) async fn add(&self, lines: Vec<Written>) -> Result<(), WriteError> {
        self.apply(lines, true).await
    }

    /// Deletes rows and aliases.
    pub(crate) async fn delete(&self, lines: Vec<Written>) -> Result<(), WriteError> {
        self.apply(lines, false).await
    }

    async fn apply(&self, lines: Vec<Written>, adds: bool) -> Result<(), WriteError> {
        let mut rows = Vec::new();
        for line in lines {
            match line {
                Written::Row { urlkey, rest } => rows.push((urlkey, rest)),
                Written::Alias { from, to } => {
                    self.write(std::mem::take(&mut rows), adds).await?;
                    self.alias(from, to, adds).await?;
                }
                Written::Nothing => {}
            }
        }
        Ok(self.write(rows, adds).await?)
    }

    async fn write(
        &self,
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        adds: bool,
    ) -> Result<(), crawlspace_client::Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let keys: HashSet<&[u8]> = rows.iter().map(|(key, _)| &key[..]).collect();
        let keys: Vec<Vec<u8>> = keys.into_iter().map(<[u8]>::to_vec).collect();
        let mut command = ::redis::cmd("HMGET");
        command.arg(self.aliases()).arg(&keys);
        let targets: Vec<Option<Vec<u8>>> = self.send(command).await?;
        let targets: HashMap<Vec<u8>, Option<Vec<u8>>> = keys.into_iter().zip(targets).collect();
        let members = rows.iter().map(|(key, rest)| {
            let target = targets.get(key).and_then(Option::as_ref).unwrap_or(key);
            [&target[..], rest].concat()
        });
        self.put(members, adds).await
    }

    async fn put(
        &self,
        members: impl Iterator<Item = Vec<u8>>,
        adds: bool,
    ) -> Result<(), crawlspace_client::Error> {
        let mut command = ::redis::cmd(if adds { "ZADD" } else { "ZREM" });
        command.arg(&self.key);
        for member in members {
            if adds {
                command.arg(0);
            }
            command.arg(member);
        }
        self.send::<u64>(command).await.map(drop)
    }

    /// Refuses an alias whose target is an alias of another key: a query resolves one alias only, and two aliases could
    /// name each other. An alias that exists already is accepted, because requests may be sent again.
    async fn check(&self, from: &[u8], to: &[u8]) -> Result<(), WriteError> {
        if from == to {
            return Ok(());
        }
        let mut command = ::redis::cmd("HMGET");
        command.arg(self.aliases()).arg(from).arg(to);
        let [existing, next]: [Option<Vec<u8>>; 2] = self.send(command).await?;
        match next {
            Some(next) if next != to && existing.as_deref() != Some(to) => {
                let [to, next] = [to, &next].map(String::from_utf8_lossy);
                Err(WriteError::Alias(format!(
                    "the target of the alias, {to}, is an alias of {next}: choose a target that is not an alias"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Defines an alias and moves the existing rows of its key, or deletes the alias.
    async fn alias(&self, from: Vec<u8>, to: Vec<u8>, adds: bool) -> Result<(), WriteError> {
        if adds {
            self.check(&from, &to).await?;
        }
        let mut command = ::redis::cmd(if adds { "HSET" } else { "HDEL" });
        command.arg(self.aliases()).arg(&from);
        if adds {
            command.arg(&to);
        }
        self.send::<u64>(command).await?;
        if !adds || from == to {
            return Ok(());
        }
        loop {
            let mut command = ::redis::cmd("ZRANGEBYLEX");
            command
                .arg(&self.key)
                .arg([b"[", &from[..], b" "].concat())
                .arg([b"(", &from[..], b"!"].concat())
                .arg("LIMIT")
                .arg(0)
                .arg(PAGE);
            let members: Vec<Vec<u8>> = self.send(command).await?;
            if members.is_empty() {
                return Ok(());
            }
            // Added before they are removed, so that a failure loses no row.
            let rest = members.iter().filter_map(|member| member.get(from.len()..));
            self.put(rest.map(|rest| [&to[..], rest].concat()), true)
                .await?;
            self.put(members.into_iter(), false).await?;
        }
    }

    fn aliases(&self) -> String {
        format!("{}{ALIASES}", self.key)
    }

    async fn send<T: FromRedisValue + Send + 'static>(
        &self,
        command: Cmd,
    ) -> Result<T, crawlspace_client::Error> {
        let server = {
            let mut server = self.server.lock().await;
            match &*server {
                Some(server) => server.clone(),
                None => {
                    let options = AsyncServer::options(&self.url);
                    let options = options.timeout(TIMEOUT).retries(RETRIES);
                    let opened = options.open_async().await?;
                    *server = Some(opened.clone());
                    opened
                }
            }
        };
        server.ask(Call::<T>::new(command).repeatable()).await
    }
}

/// Reads the token in a file, without white space around it.
///
/// # Errors
/// Fails if the file cannot be read, or if the token is too short or contains characters that a header cannot contain.
pub(crate) fn token(path: &Path) -> Result<Token, String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{shown}: cannot read: {error}"))?;
    Token::parse(&text).map_err(|error| format!("{shown}: {error}"))
}

impl Written {
    /// Parses a line of a request: a CDX or CDXJ line, or `@alias URL URL`.
    ///
    /// # Errors
    /// Fails with a description of what is invalid in the line.
    pub(crate) fn parse(line: &[u8]) -> Result<Written, String> {
        if let Some(urls) = line.strip_prefix(ALIAS) {
            let urls: Vec<&[u8]> = urls
                .split(u8::is_ascii_whitespace)
                .filter(|url| !url.is_empty())
                .collect();
            let [from, to] = urls[..] else {
                return Err("an alias needs two URLs: @alias ALIAS TARGET".to_owned());
            };
            return Ok(Written::Alias {
                from: urlkey(from)?.into_bytes(),
                to: urlkey(to)?.into_bytes(),
            });
        }
        if line.len() > MAX_LINE {
            return Err(format!("it is longer than {MAX_LINE} bytes"));
        }
        let line = match Line::read(line, Format::Auto).map_err(|bad| bad.to_string())? {
            Read::Capture(line) => line,
            Read::Skipped => return Ok(Written::Nothing),
        };
        let field = |field: &Field| {
            let value = line
                .field(field)
                .filter(|value| !value.is_empty() && value[..] != b"-"[..]);
            value.map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        let url = field(&Field::Url).ok_or("it has no URL")?;
        if let Some(name) = field(&Field::Filename).filter(|name| !is_below(name)) {
            return Err(format!(
                "its filename {name:?} is not below the folders of the loaders"
            ));
        }
        let timestamp = field(&Field::Timestamp).unwrap_or_default();
        let timestamp = Timestamp::earliest(timestamp.as_bytes())
            .filter(|_| (4..=17).contains(&timestamp.len()))
            .ok_or_else(|| format!("invalid timestamp {timestamp:?}"))?;
        let other = |name: &[u8]| field(&Field::Other(name.into()));
        let request =
            other(b"method").map(|method| (other(b"requestBody").unwrap_or_default(), method));
        let looked_up = request
            .as_ref()
            .map(|(body, method)| post::append(&url, method, body));
        let urlkey = urlkey(looked_up.as_deref().unwrap_or(&url).as_bytes())?;
        let mut rest = format!(" {timestamp} {{").into_bytes();
        push_field(&mut rest, "url", &url);
        for name in &FIELDS {
            if let Some(value) = field(name) {
                let name = String::from_utf8_lossy(name.name()).into_owned();
                push_field(&mut rest, &name, &value);
            }
        }
        if let Some((body, method)) = &request {
            push_field(&mut rest, "requestBody", body);
            push_field(&mut rest, "method", method);
        }
        rest.push(b'}');
        Ok(Written::Row {
            urlkey: urlkey.into_bytes(),
            rest,
        })
    }
}

fn urlkey(url: &[u8]) -> Result<String, String> {
    let url = std::str::from_utf8(url).map_err(|_| "the URL is not UTF-8".to_owned())?;
    surt::urlkey(url).map_err(|bad| bad.to_string())
}

#[cfg(test)]
mod tests {
    use super::Written;

    fn stored(line: &str) -> String {
        match Written::parse(line.as_bytes()) {
            Ok(Written::Row { urlkey, rest }) => {
                String::from_utf8([urlkey, rest].concat()).unwrap()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn lines_of_every_form_become_rows() {
        let row = r#"org,example)/a 20240102030405 {"url": "http://example.org/a", "mime": "text/html", "status": "200", "digest": "AAAA", "length": "1043", "offset": "333", "filename": "a.warc.gz"}"#;
        for line in [
            "- 20240102030405 http://example.org/a text/html 200 AAAA - - 1043 333 a.warc.gz",
            r#"wrong) 20240102030405 {"url": "http://example.org/a", "mime": "text/html", "status": 200, "digest": "AAAA", "length": "1043", "offset": 333, "filename": "a.warc.gz", "more": "x"}"#,
            row,
        ] {
            assert_eq!(stored(line), row, "{line}");
        }
        let posted = r#"- 2024 {"url": "http://example.org/a", "filename": "a", "offset": "0", "requestBody": "b=c", "method": "POST"}"#;
        assert!(stored(posted).starts_with("org,example)/a?__wb_method=post&b=c 20240101000000 {"));
    }

    #[test]
    fn aliases_are_pairs_of_keys() {
        let alias = Written::parse(b"@alias http://a.example/x http://www.b.example/").unwrap();
        let (from, to) = (b"example,a)/x".to_vec(), b"example,b)/".to_vec());
        assert_eq!(alias, Written::Alias { from, to });
    }

    #[test]
    fn invalid_lines_are_refused() {
        for line in [
            "@alias http://a.example/",
            "three columns only",
            "- 20240102030405 - text/html 200 AAAA - - 1043 333 a.warc.gz",
            "- date http://example.org/a text/html 200 AAAA - - 1043 333 a.warc.gz",
            "- 20240102030405 http://example.org/ text/html 200 AAAA - - 1043 333 /etc/a.warc.gz",
            "- 20240102030405 http://example.org/ text/html 200 AAAA - - 1043 333 ../a.warc.gz",
            "- 20240102030405 http://example.org:x/ text/html 200 AAAA - - 1043 333 a.warc.gz",
        ] {
            assert!(Written::parse(line.as_bytes()).is_err(), "{line}");
        }
        for line in ["", " CDX N b a m s k r M S V g"] {
            assert_eq!(Written::parse(line.as_bytes()), Ok(Written::Nothing));
        }
    }
}
