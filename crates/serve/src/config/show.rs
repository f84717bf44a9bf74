//! Writes a configuration in its normal form, which parses as the same configuration.

use std::fmt::Write as _;
use std::time::Duration;

use super::location::{file_url, masked};
use crate::config::{
    Collection, Config, Dialect, Indexes, Loader, Source, SourceKind, Step, Writable,
};
use crate::rules::{Access, Dates, Embargo, Period, Rules};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_wacz::Location;

/// Output mode of passwords in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// Passwords are replaced by `***`.
    Masked,
    /// Passwords are written in full.
    Shown,
}

/// A tree of values that can be written as YAML or JSON.
enum Tree {
    Text(String),
    Number(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Config {
    /// Returns the normal form as YAML.
    pub fn to_yaml(&self, secrets: Secrets) -> String {
        let mut yaml = String::new();
        self.tree(secrets).yaml(0, &mut yaml);
        yaml
    }

    /// Returns the normal form as JSON (which is also valid YAML), followed by a line break.
    pub fn to_json(&self, secrets: Secrets) -> String {
        let mut json = String::new();
        self.tree(secrets).json(&mut json);
        json.push('\n');
        json
    }

    fn tree(&self, secrets: Secrets) -> Tree {
        let mut fields = Vec::new();
        if !self.allow_private.is_empty() {
            let networks = self
                .allow_private
                .iter()
                .map(|network| text(network.to_string()));
            fields.push(field("allow_private", Tree::List(networks.collect())));
        }
        if !self.hosts.is_empty() {
            let hosts = self.hosts.iter().map(|host| text(host.to_string()));
            fields.push(field("hosts", Tree::List(hosts.collect())));
        }
        if let Some(indexes) = &self.indexes {
            fields.push(field("indexes", indexes_tree(indexes, secrets)));
        }
        let collections = self.collections.iter();
        let collections =
            collections.map(|collection| (collection.name.clone(), tree(collection, secrets)));
        fields.push(field("collections", Tree::Map(collections.collect())));
        Tree::Map(fields)
    }
}

fn indexes_tree(indexes: &Indexes, secrets: Secrets) -> Tree {
    let metadata = indexes
        .metadata
        .iter()
        .map(|position| url(position, secrets));
    let mut fields = vec![
        field("cache_dir", text(indexes.cache_dir.to_string_lossy())),
        field("metadata", Tree::List(metadata.collect())),
    ];
    let span = |name, span: Option<Duration>| span.map(|span| field(name, seconds(span)));
    let size = |name, bytes: Option<u64>| bytes.map(|b| field(name, Tree::Number(b.to_string())));
    fields.extend(span("wait", indexes.wait));
    fields.extend(span("retry_missing", indexes.retry_missing));
    fields.extend(size("memory", indexes.memory));
    let limits = [
        size("max_size", indexes.max_size),
        size("min_free", indexes.min_free),
        span("max_age", indexes.max_age),
        span("grace", indexes.grace),
    ];
    let limits: Vec<_> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        fields.push(field("limits", Tree::Map(limits)));
    }
    Tree::Map(fields)
}

fn tree(collection: &Collection, secrets: Secrets) -> Tree {
    let name = &collection.name;
    let mut fields = Vec::new();
    match (&*collection.steps, collection.is_sequence) {
        ([step], false) => {
            let mut own = step_fields(step, name, secrets);
            if let Some(writable) = &collection.writable {
                // The index is the sorted set.
                own.retain(|(name, _)| name == "resource");
                fields.push(field("writable", writable_tree(writable, secrets)));
                let timeouts = step.sources.iter().map(|source| source.timeout);
                fields.extend(timeouts.map(|span| field("index_timeout", seconds(span))));
            }
            fields.extend(own);
        }
        (steps, _) => {
            let steps = steps.iter().enumerate().map(|(index, step)| {
                Tree::Map(step_fields(step, &format!("{name}.{}", index + 1), secrets))
            });
            fields.push(field("sequence", Tree::List(steps.collect())));
        }
    }
    if let Some(tags) = &collection.tags {
        fields.push(field("tags", url(tags, secrets)));
    }
    if let Some(dedupe) = &collection.dedupe {
        fields.push(field("dedupe", url(dedupe, secrets)));
    }
    if let Some(point) = &collection.access_point {
        fields.push(field("access_point", text(point)));
    }
    if let Some(rules) = &collection.rules {
        fields.extend(rules_fields(rules));
    }
    if collection.lends_hidden {
        fields.push(field("hidden_originals", text("lend")));
    }
    if collection.fuzzy {
        fields.push(field("fuzzy", Tree::Number("true".to_owned())));
    }
    Tree::Map(fields)
}

fn writable_tree(writable: &Writable, secrets: Secrets) -> Tree {
    Tree::Map(vec![
        field("redis_url", url(&writable.redis_url, secrets)),
        field("key", text(&writable.key)),
        field("token_file", text(writable.token_file.to_string_lossy())),
    ])
}

fn rules_fields(rules: &Rules) -> Vec<(String, Tree)> {
    let mut fields = Vec::new();
    if !rules.paths.is_empty() {
        let paths = rules.paths.iter().map(|path| text(path.to_string_lossy()));
        fields.push(field("acl_paths", Tree::List(paths.collect())));
    }
    if rules.default != Access::Allow {
        fields.push(field("default_access", text(rules.default.name())));
    }
    if let Some(Embargo { dates, access }) = rules.embargo {
        let moment = |moment: Timestamp| Tree::Text(moment.to_string());
        let dates = match dates {
            Dates::Before(bound) => field("before", moment(bound)),
            Dates::After(bound) => field("after", moment(bound)),
            Dates::Older(period) => field("older", period_tree(period)),
            // `Within` never comes from a configuration.
            Dates::Newer(period) | Dates::Within(period) => field("newer", period_tree(period)),
        };
        let access = field("access", text(access.name()));
        fields.push(field("embargo", Tree::Map(vec![dates, access])));
    }
    fields
}

fn period_tree(period: Period) -> Tree {
    let parts = [
        ("years", period.years),
        ("months", period.months),
        ("weeks", period.weeks),
        ("days", period.days),
    ];
    let parts = parts.map(|(name, count)| field(name, Tree::Number(count.to_string())));
    Tree::Map(parts.into())
}

fn step_fields(step: &Step, name: &str, secrets: Secrets) -> Vec<(String, Tree)> {
    let index = match (&*step.sources, step.is_group) {
        ([source], false) => {
            let mut fields = source_fields(source, secrets);
            if source.name != name {
                fields.insert(0, field("name", text(&source.name)));
            }
            field("index", Tree::Map(fields))
        }
        (sources, _) => {
            let sources = sources.iter();
            let sources = sources.map(|source| {
                (
                    source.name.clone(),
                    Tree::Map(source_fields(source, secrets)),
                )
            });
            field("index_group", Tree::Map(sources.collect()))
        }
    };
    let loaders = step.resource.iter().map(|loader| match loader {
        Loader::Live => text("$live"),
        Loader::Packages(Location::File(path)) => text(format!("wacz+{}", file_url(path))),
        Loader::Packages(Location::Url(position)) => url(&format!("wacz+{position}"), secrets),
        Loader::Folder(path) => text(format!("warc-prefix+{}", file_url(path))),
        Loader::Web(prefix) => url(&format!("warc-prefix+{prefix}"), secrets),
        Loader::PathIndex(path) => text(format!("warc-index+{}", file_url(path))),
        Loader::RedisIndex(hash) => url(&format!("warc-index+{hash}"), secrets),
    });
    vec![index, field("resource", Tree::List(loaders.collect()))]
}

fn source_fields(source: &Source, secrets: Secrets) -> Vec<(String, Tree)> {
    let mut fields = vec![field("type", text(source.kind.word()))];
    match &source.kind {
        SourceKind::File { path } | SourceKind::ZipNum { path } | SourceKind::Wacz { path } => {
            fields.push(match path {
                Location::File(path) => field("path", text(path.to_string_lossy())),
                Location::Url(position) => field("path", url(position.as_str(), secrets)),
            });
        }
        SourceKind::Redis { url: position, .. } => {
            fields.push(field("redis_url", url(position, secrets)))
        }
        SourceKind::Dedupe {
            url: position,
            prefix,
            sharded,
            crawl,
        } => {
            fields.push(field("redis_url", url(position, secrets)));
            fields.extend(sharded.as_ref().map(|name| field("sharded", text(name))));
            if !prefix.is_empty() {
                fields.push(field("prefix", text(prefix)));
            }
            fields.extend(crawl.as_ref().map(|crawl| field("crawl", text(crawl))));
        }
        SourceKind::Memento {
            timegate_url,
            timemap_url,
            replay_url,
        } => {
            fields.push(field("timegate_url", url(timegate_url, secrets)));
            fields.push(field("timemap_url", url(timemap_url, secrets)));
            fields.push(field("replay_url", url(replay_url, secrets)));
        }
        SourceKind::Cdx {
            api_url,
            replay_url,
            dialect,
        } => {
            fields.push(field("api_url", url(api_url, secrets)));
            if let Some(replay_url) = replay_url {
                fields.push(field("replay_url", url(replay_url, secrets)));
            }
            if let Some(dialect) = dialect {
                fields.push(field("dialect", text(dialect.word())));
            }
        }
        SourceKind::Warc { path, cache_dir } => {
            fields.push(field("path", text(path.to_string_lossy())));
            if let Some(cache_dir) = cache_dir {
                fields.push(field("cache_dir", text(cache_dir.to_string_lossy())));
            }
        }
        SourceKind::Live => {}
        SourceKind::Upstream { url: position } => fields.push(field("url", url(position, secrets))),
    }
    fields.push(field("index_timeout", seconds(source.timeout)));
    for (name, limit) in [
        ("max_bytes", source.max_bytes),
        ("max_rows", source.max_rows),
    ] {
        if let Some(limit) = limit {
            fields.push(field(name, Tree::Number(limit.to_string())));
        }
    }
    fields
}

impl Dialect {
    /// Returns the dialect's name in a configuration.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Dialect::Pywb => "pywb",
            Dialect::Outback => "outback",
            Dialect::Ia => "ia",
        }
    }
}

fn field(name: &str, value: Tree) -> (String, Tree) {
    (name.to_owned(), value)
}

fn text(text: impl Into<String>) -> Tree {
    Tree::Text(text.into())
}

fn url(url: &str, secrets: Secrets) -> Tree {
    match secrets {
        Secrets::Masked => text(masked(url)),
        Secrets::Shown => text(url),
    }
}

fn seconds(duration: Duration) -> Tree {
    let text = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    let short = text.trim_end_matches('0');
    let zero = if short.ends_with('.') { "0" } else { "" };
    Tree::Number(format!("{short}{zero}"))
}

impl Tree {
    fn yaml(&self, indent: usize, out: &mut String) {
        match self {
            Tree::Text(text) => scalar(text, out),
            Tree::Number(number) => out.push_str(number),
            Tree::List(items) if items.is_empty() => out.push_str("[]"),
            Tree::Map(fields) if fields.is_empty() => out.push_str("{}"),
            Tree::List(items) => {
                for item in items {
                    margin(indent, out);
                    out.push_str("- ");
                    item.yaml(indent + 2, out);
                    if !out.ends_with('\n') {
                        out.push('\n');
                    }
                }
            }
            Tree::Map(fields) => {
                for (name, value) in fields {
                    margin(indent, out);
                    scalar(name, out);
                    out.push(':');
                    match value {
                        Tree::List(items) if !items.is_empty() => out.push('\n'),
                        Tree::Map(fields) if !fields.is_empty() => out.push('\n'),
                        _ => out.push(' '),
                    }
                    value.yaml(indent + 2, out);
                    if !out.ends_with('\n') {
                        out.push('\n');
                    }
                }
            }
        }
    }

    fn json(&self, out: &mut String) {
        match self {
            Tree::Text(text) => quoted(text, out),
            Tree::Number(number) => out.push_str(number),
            Tree::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    item.json(out);
                }
                out.push(']');
            }
            Tree::Map(fields) => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    quoted(name, out);
                    out.push_str(": ");
                    value.json(out);
                }
                out.push('}');
            }
        }
    }
}

/// Writes the indentation of a line; the first field of a list item stays on the line of its `- `.
fn margin(indent: usize, out: &mut String) {
    if out.is_empty() || out.ends_with('\n') {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Writes a string, unquoted if every YAML parser reads it as the same string.
fn scalar(text: &str, out: &mut String) {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '$' | '_'));
    let fits = |c: char| c.is_ascii_alphanumeric() || "/$_.:+@=?&{}~%,;-".contains(c);
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = first
        && text.chars().all(fits)
        && !text.ends_with(':')
        && !text.starts_with("${")
        && !words.contains(&&*text.to_ascii_lowercase());
    if is_plain {
        out.push_str(text)
    } else {
        quoted(text, out)
    }
}

/// Writes a string in double quotes, valid in both JSON and YAML; characters that either forbids are escaped.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    // Writing text to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}
