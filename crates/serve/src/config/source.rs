//! Parses sources, in the short form (one word) or the long form (a mapping).

use std::path::{Path, PathBuf};

use super::errors::Position;
use super::fields::Fields;
use super::location::{database, is_remote, masked, one_of, path, place, redis, template};
use super::yaml::{Node, Pair, Value};
use super::{Dialect, Reader, SourceKind};
use crate::words::words;
use crawlspace_wacz::Location;

/// Settings of a source before defaults are applied.
pub(super) struct ParsedSource {
    pub name: Option<String>,
    pub kind: SourceKind,
    pub timeout: Option<std::time::Duration>,
    pub max_bytes: Option<u64>,
    pub max_rows: Option<u64>,
    pub position: Position,
}

/// Prefixes of the short form, and values of `type` in the long form.
const PREFIXES: [&str; 10] =
    words("memento+ wb-memento+ cdx+ zipnum+ wacz+ warc+ upstream+ redis:// s3:// file://");
const TYPES: [&str; 10] = [
    "file", "redis", "dedupe", "memento", "cdx", "live", "zipnum", "wacz", "warc", "upstream",
];

/// Error message for OpenWayback's XML query API.
const XML: &str =
    "the XML query API of OpenWayback is not supported: use its CDX server (cdx+http://…)";

/// Fields of every long form.
const COMMON: [&str; 5] = ["type", "index_timeout", "timeout", "max_bytes", "max_rows"];

impl Reader<'_> {
    /// Parses a source; the name of a group member comes from the group.
    pub(super) fn source(&mut self, node: &Node, in_group: bool) -> Option<ParsedSource> {
        let found = |kind| ParsedSource {
            name: None,
            kind,
            timeout: None,
            max_bytes: None,
            max_rows: None,
            position: node.position,
        };
        match &node.value {
            Value::Map(_) => self.long(node, in_group),
            Value::Text { .. } if !node.is_nothing() => {
                let text = self.text(node, "an index")?;
                let kind = short(&text, self.folder);
                self.found.take(node.position, kind).map(found)
            }
            Value::List(_) => {
                let what = "an index must be a string or a mapping (got a list): write several indexes as an \
                 index_group with a name for each";
                self.found.error(node.position, what);
                None
            }
            Value::Text { .. } => {
                self.found.error(
                    node.position,
                    "the index is missing: write a path, a URL, $live or a mapping",
                );
                None
            }
        }
    }

    fn long(&mut self, node: &Node, in_group: bool) -> Option<ParsedSource> {
        let fields = self.fields(node, "an index")?;
        let Some(word) = fields.get("type") else {
            let guess = [
                ("path", "file"),
                ("redis_url", "redis"),
                ("timegate_url", "memento"),
                ("api_url", "cdx"),
                ("url", "upstream"),
            ];
            let guess = guess.iter().find(|(key, _)| fields.get(key).is_some());
            let hint = guess.map_or(String::new(), |(_, word)| {
                format!(" (the other fields are those of {word})")
            });
            let what = format!("the field type is missing: use {}{hint}", one_of(&TYPES));
            self.found.error(node.position, what);
            return None;
        };
        let word_position = word.position;
        let word = self.text(word, "type")?;
        let own: &[&str] = match &*word {
            "file" | "zipnum" | "wacz" => &["path"],
            "warc" => &["path", "cache_dir"],
            "redis" => &["redis_url"],
            "dedupe" => &["redis_url", "prefix", "sharded", "crawl"],
            // The types differ only in how pywb queries the archive.
            "memento" | "wb-memento" => &["timegate_url", "timemap_url", "replay_url"],
            "cdx" => &["api_url", "replay_url", "dialect"],
            "live" => &[],
            "upstream" => &["url"],
            "xmlquery" => {
                self.found.error(word_position, XML);
                return None;
            }
            other => {
                let hint = super::fields::meant(other, &TYPES);
                let what = format!(
                    "invalid type {other:?} of an index: it can be {}{hint}",
                    one_of(&TYPES)
                );
                self.found.error(word_position, what);
                return None;
            }
        };
        let mut known: Vec<&str> = COMMON.to_vec();
        known.extend(own);
        if !in_group {
            known.push("name");
        }
        let others = fields.entries.iter();
        let others: Vec<Pair> = others
            .filter(|entry| word != "zipnum" || !self.is_of_pywb_cluster(entry))
            .cloned()
            .collect();
        let others = Fields {
            entries: &others,
            position: fields.position,
        };
        self.only(&others, &known, &format!("an index of type {word}"));
        let name = match fields.get("name").filter(|_| !in_group) {
            Some(name) => Some(self.source_name(name)?),
            None => None,
        };
        let timeout = self.timeout(&fields);
        let max_bytes = self.number(&fields, "max_bytes");
        let max_rows = self.number(&fields, "max_rows");
        let kind = self.kind(&word, &fields)?;
        Some(ParsedSource {
            name,
            kind,
            timeout,
            max_bytes,
            max_rows,
            position: node.position,
        })
    }

    fn kind(&mut self, word: &str, fields: &Fields<'_>) -> Option<SourceKind> {
        let folder = self.folder;
        match word {
            "file" => Some(SourceKind::File {
                path: self.needed(fields, "path", |text| place(text, folder))?,
            }),
            "zipnum" => Some(SourceKind::ZipNum {
                path: self.needed(fields, "path", |text| place(text, folder))?,
            }),
            "wacz" => Some(SourceKind::Wacz {
                path: self.needed(fields, "path", |text| packages(text, folder))?,
            }),
            "warc" => {
                let place = self.needed(fields, "path", |text| warcs(text, folder));
                let cache_dir = match fields.get("cache_dir") {
                    Some(_) => self
                        .needed(fields, "cache_dir", |text| path(text, folder))
                        .map(Some),
                    None => Some(None),
                };
                Some(SourceKind::Warc {
                    path: place?,
                    cache_dir: cache_dir?,
                })
            }
            "redis" => Some(SourceKind::Redis {
                url: self.needed(fields, "redis_url", redis)?,
                has_aliases: false,
            }),
            "dedupe" => {
                let url = self.needed(fields, "redis_url", database);
                let word = |reader: &mut Self, name| match fields.get(name) {
                    Some(node) => reader.text(node, name).map(Some),
                    None => Some(None),
                };
                let (prefix, crawl) = (word(self, "prefix"), word(self, "crawl"));
                let (prefix, sharded) = (prefix?, word(self, "sharded")?);
                if let (Some(_), Some(_), Some(node)) = (&prefix, &sharded, fields.get("sharded")) {
                    let what = "an index has either a prefix or, if it is sharded, a name";
                    self.found.error(node.position, what);
                    return None;
                }
                Some(SourceKind::Dedupe {
                    url: url?,
                    prefix: prefix.unwrap_or_default(),
                    sharded,
                    crawl: crawl?,
                })
            }
            "memento" | "wb-memento" => {
                // All three fields are parsed first, so that all errors are reported.
                let timegate =
                    self.needed(fields, "timegate_url", |text| asked(text, &["url", "coll"]));
                let timemap =
                    self.needed(fields, "timemap_url", |text| asked(text, &["url", "coll"]));
                let replay = self.needed(fields, "replay_url", replayed);
                Some(SourceKind::Memento {
                    timegate_url: timegate?,
                    timemap_url: timemap?,
                    replay_url: replay?,
                })
            }
            "cdx" => {
                let api = self.needed(fields, "api_url", api);
                let replay = match fields.get("replay_url") {
                    Some(_) => self.needed(fields, "replay_url", replayed).map(Some),
                    None => Some(None),
                };
                let dialect = match fields.get("dialect") {
                    Some(_) => self.needed(fields, "dialect", dialect).map(Some),
                    None => Some(None),
                };
                Some(SourceKind::Cdx {
                    api_url: api?,
                    replay_url: replay?,
                    dialect: dialect?,
                })
            }
            "upstream" => Some(SourceKind::Upstream {
                url: self.needed(fields, "url", upstream)?,
            }),
            _ => Some(SourceKind::Live),
        }
    }
}

/// Parses the location of a WACZ file, a folder of them, or a list of them.
pub(super) fn packages(text: &str, folder: &Path) -> Result<Location, String> {
    let is_other = |prefix: &&str| !prefix.starts_with("file:") && !is_remote(text);
    match prefix(text).filter(is_other) {
        Some(prefix) => Err(format!(
            "unsupported prefix {prefix:?}: WACZ files are read from this machine, or by http, https and s3 URLs"
        )),
        None => place(text, folder),
    }
}

/// Parses the path of a folder of WARC files.
fn warcs(text: &str, folder: &Path) -> Result<PathBuf, String> {
    if let Some(prefix) = prefix(text).filter(|prefix| !prefix.starts_with("file:")) {
        return Err(format!(
            "unsupported prefix {prefix:?}: only WARC files in a folder of this machine are indexed; for other WARC \
             files, write an index (crawlspace cdxj), and set resource to their location"
        ));
    }
    if text.contains("{coll}") {
        return Err(
            "{coll} is not supported in a folder of WARC files: write the path of one folder"
                .to_owned(),
        );
    }
    path(text, folder)
}

/// Returns the kind of a file by its extension, or the path if the extension is unknown.
fn by_ending(path: Location) -> Result<SourceKind, Location> {
    let name = path.name().to_ascii_lowercase();
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "idx" | "summary" => Ok(SourceKind::ZipNum { path }),
        "wacz" => Ok(SourceKind::Wacz { path }),
        "cdx" | "cdxj" => Ok(SourceKind::File { path }),
        _ => Err(path),
    }
}

/// Parses the short form of a source.
fn short(text: &str, folder: &Path) -> Result<SourceKind, String> {
    if matches!(text, "$live" | "live") {
        return Ok(SourceKind::Live);
    }
    if text.starts_with('$') {
        return Err(format!("unknown location {text:?}: the live web is $live"));
    }
    let memento_url = text.strip_prefix("wb-").unwrap_or(text);
    if let Some(url) = memento_url.strip_prefix("memento+") {
        return memento(url);
    }
    if text.starts_with("xmlquery+") {
        return Err(XML.to_owned());
    }
    if let Some(url) = text
        .strip_prefix("cdx+")
        .or_else(|| text.strip_prefix("cdxj+"))
    {
        return cdx(url);
    }
    if let Some(rest) = text.strip_prefix("wacz+") {
        let path = packages(rest, folder)?;
        return Ok(SourceKind::Wacz { path });
    }
    if let Some(rest) = text.strip_prefix("warc+") {
        let path = warcs(rest, folder)?;
        return Ok(SourceKind::Warc {
            path,
            cache_dir: None,
        });
    }
    if let Some(rest) = text.strip_prefix("zipnum+") {
        let path = place(rest, folder)?;
        return Ok(SourceKind::ZipNum { path });
    }
    if let Some(url) = text.strip_prefix("upstream+") {
        let url = upstream(url)?;
        return Ok(SourceKind::Upstream { url });
    }
    if text.starts_with("redis://") || text.starts_with("rediss://") {
        let url = redis(text)?;
        return Ok(SourceKind::Redis {
            url,
            has_aliases: false,
        });
    }
    if is_remote(text) {
        let file = place(text, folder).map(by_ending);
        return match file {
            Ok(Ok(kind)) => Ok(kind),
            _ if !text.starts_with("s3://") => memento(text), // As in pywb.
            Ok(Err(_)) => Err(format!(
                "{:?}: the kind of index is unknown: use a file extension (.cdx, .cdxj, .idx, .wacz), a prefix \
                 (zipnum+, wacz+) or the field type",
                masked(text)
            )),
            Err(wrong) => Err(wrong),
        };
    }
    if let Some(prefix) = prefix(text).filter(|prefix| !prefix.starts_with("file:")) {
        let hint = super::fields::meant(prefix, &PREFIXES);
        return Err(format!(
            "invalid prefix {prefix:?} of an index: it can be {}{hint}",
            one_of(&PREFIXES)
        ));
    }
    let path = path(text, folder)?;
    let ends_in = |what: &str| {
        let ending = path.extension();
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case(what))
    };
    Ok(match (ends_in("idx"), ends_in("wacz")) {
        (true, _) => SourceKind::ZipNum { path: path.into() },
        (_, true) => SourceKind::Wacz { path: path.into() },
        _ => SourceKind::File { path: path.into() },
    })
}

/// Returns the prefix of a string: `word+` before a URL or an absolute path, or `word:` with its slashes.
pub(super) fn prefix(text: &str) -> Option<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = text.find(|c| !word(c)).filter(|end| *end > 0)?;
    let rest = text.get(end..)?;
    if rest.starts_with("://") {
        return text.get(..end + 3);
    }
    let is_prefix = rest.strip_prefix('+').is_some_and(|rest| {
        [
            "/", "./", "http:", "https:", "s3:", "file:", "redis:", "rediss:",
        ]
        .iter()
        .any(|begin| rest.starts_with(begin))
    });
    let is_scheme = rest.starts_with(":/");
    if is_scheme || is_prefix {
        text.get(..=end)
    } else {
        // Schemes that cannot start a path, such as `redis+tls://`.
        let (scheme, _) = text.split_once("://")?;
        let is_scheme = scheme.chars().all(|c| word(c) || c == '+');
        text.get(..scheme.len() + 3).filter(|_| is_scheme)
    }
}

/// Parses the base URL of a Memento archive, from which its other URLs are derived.
fn memento(url: &str) -> Result<SourceKind, String> {
    let mut base = bare(url)?;
    if !base.ends_with('/') {
        base.push('/');
    }
    Ok(SourceKind::Memento {
        timegate_url: format!("{base}{{url}}"),
        timemap_url: format!("{base}timemap/link/{{url}}"),
        replay_url: format!("{base}{{timestamp}}id_/{{url}}"),
    })
}

/// Parses `http://host/all-cdx`, whose replay is at `http://host/all/`, or `http://host/cdx /web/` with an
/// explicit replay prefix.
fn cdx(text: &str) -> Result<SourceKind, String> {
    // Older configurations of pywb use a semicolon as separator.
    let semicolon = || {
        text.split_once(";/")
            .map(|(url, _)| text.split_at(url.len()))
    };
    let (url, prefix) = match text.split_once(' ').or_else(semicolon) {
        Some((url, prefix)) => (url, prefix.trim_start_matches(';').trim()),
        None => (text, ""),
    };
    let url = bare(url)?;
    let address = url.split(['?', '#']).next().unwrap_or(&url);
    let base = match address.strip_suffix("-cdx") {
        _ if !prefix.is_empty() => Some(replay_prefix(address, prefix)?),
        Some(base) => Some(format!("{base}/")),
        None => None,
    };
    Ok(SourceKind::Cdx {
        api_url: api(&url)?,
        replay_url: base.map(|base| format!("{base}{{timestamp}}id_/{{url}}")),
        dialect: None,
    })
}

/// Resolves the replay prefix after a space: `/web` on the same server, or a URL.
fn replay_prefix(url: &str, prefix: &str) -> Result<String, String> {
    let marked = prefix.replace("{coll}", "coll-stands-here");
    let base = url.replace("{coll}", "coll-stands-here");
    let joined = url::Url::parse(&base)
        .and_then(|base| base.join(&marked))
        .map_err(|error| {
            format!(
                "invalid prefix {:?} of a replay URL: {error}",
                masked(prefix)
            )
        })?;
    let mut joined = joined.as_str().replace("coll-stands-here", "{coll}");
    if !joined.ends_with('/') {
        joined.push('/');
    }
    template(&joined, &["coll"])
}

/// Parses a URL of a server without placeholders except `{coll}`.
fn bare(url: &str) -> Result<String, String> {
    template(url, &["coll"]).map_err(|error| {
        if url.contains("{url}") {
            format!("{error}; write URLs with {{url}} in the long form, with a type")
        } else {
            error
        }
    })
}

/// Parses the URL of a CDX server, and adds the query parameters that make it a template.
fn api(text: &str) -> Result<String, String> {
    let url = template(text, &["url", "timestamp", "coll"])?;
    if url.contains("{url}") {
        return Ok(url);
    }
    let joint = match url.contains('?') {
        true if url.ends_with(['?', '&']) => "",
        true => "&",
        false => "?",
    };
    let closest = if url.contains("{timestamp}") {
        ""
    } else {
        "&closest={timestamp}"
    };
    Ok(format!("{url}{joint}url={{url}}{closest}"))
}

fn asked(text: &str, names: &[&str]) -> Result<String, String> {
    // `{timestamp}` is not allowed, since it would be empty for most queries.
    let url = template(text, names)?;
    if url.contains("{url}") {
        Ok(url)
    } else {
        Err(format!(
            "{:?} lacks {{url}}, the placeholder for the URL to look up",
            masked(&url)
        ))
    }
}

fn replayed(text: &str) -> Result<String, String> {
    let url = template(text, &["url", "timestamp", "coll"])?;
    for name in ["{url}", "{timestamp}"] {
        if !url.contains(name) {
            return Err(format!(
                "{:?} lacks {name}: write a replay URL such as http://host/{{timestamp}}id_/{{url}}",
                masked(&url)
            ));
        }
    }
    Ok(url)
}

fn upstream(text: &str) -> Result<String, String> {
    let url = bare(text)?;
    if url.contains(['?', '#']) {
        Err(format!(
            "{:?} has a query or a fragment: write http://host/collection",
            masked(&url)
        ))
    } else {
        Ok(url.trim_end_matches('/').to_owned())
    }
}

fn dialect(text: &str) -> Result<Dialect, String> {
    match text {
        "pywb" => Ok(Dialect::Pywb),
        "outback" => Ok(Dialect::Outback),
        "ia" => Ok(Dialect::Ia),
        other => Err(format!(
            "invalid dialect {other:?}: it can be pywb, outback or ia"
        )),
    }
}
