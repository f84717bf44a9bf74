//! The rows of a writable collection: members of a sorted set, and aliases in a hash next to it.

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
/// Adds rows, given as pairs of the key and the rest, under the key or the target of its alias.
const ADD: &str = "local has = redis.call('EXISTS', KEYS[2]) == 1
for i = 1, #ARGV, 2 do
    local key = has and redis.call('HGET', KEYS[2], ARGV[i]) or ARGV[i]
    redis.call('ZADD', KEYS[1], 0, key .. ARGV[i + 1])
end";
/// Deletes rows, given as for [`ADD`]. A row of an alias may still be under its own key, if it is about to be moved.
const DELETE: &str = "for i = 1, #ARGV, 2 do
    redis.call('ZREM', KEYS[1], ARGV[i] .. ARGV[i + 1])
    local target = redis.call('HGET', KEYS[2], ARGV[i])
    if target then redis.call('ZREM', KEYS[1], target .. ARGV[i + 1]) end
end";
/// Defines an alias, given by its key and its target. If the target is an alias itself, changes nothing and returns
/// the target's target. An existing alias is accepted, because requests may be sent again.
const DEFINE: &str = "local from, to = ARGV[1], ARGV[2]
local next = from ~= to and redis.call('HGET', KEYS[2], to)
if next and next ~= to and redis.call('HGET', KEYS[2], from) ~= to then return next end
redis.call('HSET', KEYS[2], from, to)";
/// Moves some rows of an alias to the key of its target, and returns their number.
const MOVE: &str = "local from = ARGV[1]
local to = redis.call('HGET', KEYS[2], from)
if not to or to == from then return 0 end
local rows = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. from .. ' ', '(' .. from .. '!', 'LIMIT', 0, ARGV[2])
for _, row in ipairs(rows) do
    redis.call('ZADD', KEYS[1], 0, to .. row:sub(#from + 1))
    redis.call('ZREM', KEYS[1], row)
end
return #rows";
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
        let mut command = self.script(if adds { ADD } else { DELETE });
        for (key, rest) in rows {
            command.arg(key).arg(rest);
        }
        self.send::<Option<Vec<u8>>>(command).await.map(drop)
    }

    /// Defines an alias and moves the existing rows of its key, or deletes the alias. Refuses an alias whose target is
    /// an alias of another key: a query resolves one alias only, and two aliases could name each other.
    async fn alias(&self, from: Vec<u8>, to: Vec<u8>, adds: bool) -> Result<(), WriteError> {
        if !adds {
            let mut command = ::redis::cmd("HDEL");
            command.arg(self.aliases()).arg(from);
            return Ok(self.send::<u64>(command).await.map(drop)?);
        }
        let mut command = self.script(DEFINE);
        command.arg(&from).arg(&to);
        if let Some(next) = self.send::<Option<Vec<u8>>>(command).await? {
            let [to, next] = [&to, &next].map(|key| String::from_utf8_lossy(key));
            return Err(WriteError::Alias(format!(
                "the target of the alias, {to}, is an alias of {next}: choose a target that is not an alias"
            )));
        }
        loop {
            let mut command = self.script(MOVE);
            command.arg(&from).arg(PAGE);
            if self.send::<u64>(command).await? == 0 {
                return Ok(());
            }
        }
    }

    /// Returns a call of a script on the two keys. A script runs as a whole: no other client changes an alias between
    /// the look-up of the alias and the change of the rows.
    fn script(&self, script: &str) -> Cmd {
        let mut command = ::redis::cmd("EVAL");
        command
            .arg(script)
            .arg(2)
            .arg(&self.key)
            .arg(self.aliases());
        command
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
