//! Parses loaders of records, with or without a prefix that names their kind.

use std::path::Path;

use super::errors::Position;
use super::fields::{Fields, meant};
use super::location::{is_remote, object, one_of, path, redis, template};
use super::source::{packages, prefix};
use super::yaml::each;
use super::{Loader, Reader};
use crate::words::words;

/// Prefixes allowed before a URL or path.
const PREFIXES: [&str; 8] =
    words("wacz+ warc-prefix+ warc-index+ http:// https:// s3:// redis:// file://");
/// File extensions of lists of paths, unless a prefix says otherwise.
const LISTS: [&str; 4] = ["txt", "tsv", "idx", "paths"];

impl Reader<'_> {
    /// Parses `resource`, or `archive_paths`, which always adds the live web.
    pub(super) fn loaders_of(&mut self, fields: &Fields<'_>) -> Option<Vec<Loader>> {
        let Some(entry) = fields.first(&["resource", "archive_paths"]) else {
            return Some(self.loaders.clone());
        };
        if let (Some(_), Some(other)) = (fields.entry("resource"), fields.entry("archive_paths")) {
            let what = "archive_paths is an alias for resource: set only one of them";
            self.found.error(other.position, what);
        }
        let nodes = each(&entry.value);
        if nodes.is_empty() {
            let what = format!(
                "{} is empty: remove it to use the default, $live",
                entry.key
            );
            self.found.error(entry.value.position, what);
            return None;
        }
        let mut loaders = Vec::new();
        let mut whole = true;
        for node in nodes {
            let folder = self.folder;
            let loader = self.text(node, &entry.key);
            let loader =
                loader.and_then(|text| self.found.take(node.position, loader_of(&text, folder)));
            match loader {
                Some(loader) => {
                    self.of_loader(&loader, node.position);
                    loaders.push(loader);
                }
                None => whole = false,
            }
        }
        if &*entry.key == "archive_paths" && !loaders.contains(&Loader::Live) {
            loaders.push(Loader::Live);
        }
        whole.then_some(loaders)
    }

    /// Warns about placeholders that have no effect in a loader.
    pub(super) fn of_loader(&mut self, loader: &Loader, position: Position) {
        match loader {
            Loader::Folder(path) => self.as_it_stands(position, &path.to_string_lossy(), true),
            Loader::Packages(path) => self.as_it_stands(position, &path.to_string(), true),
            Loader::PathIndex(path) => self.as_it_stands(position, &path.to_string_lossy(), false),
            Loader::RedisIndex(url) => self.as_it_stands(position, url, true),
            Loader::Live | Loader::Web(_) => {}
        }
    }

    /// Warns about parts of a path or key that pywb would expand, but this server reads literally: `*`, and names in
    /// braces except `{coll}` where it is supported.
    pub(super) fn as_it_stands(&mut self, position: Position, text: &str, knows_coll: bool) {
        let names = text.split('{').skip(1);
        let names = names.filter_map(|rest| Some(rest.split_once('}')?.0));
        let names = names.filter(|name| !(knows_coll && *name == "coll"));
        let names = names.map(|name| format!("{{{name}}}"));
        let star = text.contains('*').then(|| "*".to_owned());
        for found in names.chain(star) {
            let coll = if knows_coll { " but {coll}" } else { "" };
            let what = format!(
                "{found} is read literally here, because no placeholder is replaced{coll}: for several locations, \
                 write an index_group or a list"
            );
            self.found.warning(position, what);
        }
    }
}

pub(super) fn loader_of(text: &str, folder: &Path) -> Result<Loader, String> {
    if matches!(text, "$live" | "live") {
        return Ok(Loader::Live);
    }
    if text.starts_with('$') {
        return Err(format!("unknown location {text:?}: the live web is $live"));
    }
    if let Some(position) = text.strip_prefix("warc-prefix+") {
        return if is_remote(position) {
            web(position)
        } else {
            Ok(Loader::Folder(path(of_a_file(position)?, folder)?))
        };
    }
    if let Some(position) = text.strip_prefix("wacz+") {
        return packages(position, folder).map(Loader::Packages);
    }
    if let Some(position) = text.strip_prefix("warc-index+") {
        return if is_redis(position) {
            Ok(Loader::RedisIndex(redis(position)?))
        } else {
            Ok(Loader::PathIndex(path(of_a_file(position)?, folder)?))
        };
    }
    if is_remote(text) {
        let name = text.split('?').next().unwrap_or_default();
        return if name.to_ascii_lowercase().ends_with(".wacz") {
            packages(text, folder).map(Loader::Packages)
        } else {
            web(text)
        };
    }
    if is_redis(text) {
        return Ok(Loader::RedisIndex(redis(text)?));
    }
    let path = path(of_a_file(text)?, folder)?;
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("wacz")) {
        return Ok(Loader::Packages(path.into()));
    }
    if ending.is_some_and(|ending| LISTS.contains(&ending))
        || (!text.ends_with('/') && path.is_file())
    {
        Ok(Loader::PathIndex(path))
    } else {
        Ok(Loader::Folder(path))
    }
}

fn is_redis(text: &str) -> bool {
    text.starts_with("redis://") || text.starts_with("rediss://")
}

/// Parses a path or a `file:` URL.
fn of_a_file(text: &str) -> Result<&str, String> {
    match prefix(text).filter(|prefix| !prefix.starts_with("file:")) {
        Some(prefix) => Err(format!(
            "invalid prefix {prefix:?}: it can be {}{}",
            one_of(&PREFIXES),
            meant(prefix, &PREFIXES)
        )),
        None => Ok(text),
    }
}

/// Parses a URL prefix of file names; a missing slash is added, unless the URL ends in a query.
fn web(text: &str) -> Result<Loader, String> {
    let mut url = if text.starts_with("s3://") {
        object(text, &["coll"])?
    } else {
        template(text, &["coll"])?
    };
    if !url.ends_with('/') && !url.contains('?') {
        url.push('/');
    }
    Ok(Loader::Web(url))
}
