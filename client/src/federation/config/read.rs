//! Reading a configuration: from YAML to the normal form.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{self, Path};
use std::time::Duration;

use super::errors::{Findings, Place};
use super::fields::Fields;
use super::location::{network, one_of, redis};
use super::yaml::{self, Entry, Node, Value};
use super::{Collection, Config, ConfigErrors, Loader, Network, Remark, Source, SourceKind, Step};

/// How long the first row of a source may take, unless something else is said.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Paths of the server's own, which no collection can have.
const RESERVED: [&str; 3] = ["_status", "_metrics", "static"];
/// The longest name of a collection or a source, in bytes.
const NAME: usize = 200;

/// What a configuration has at its top.
const TOP: [&str; 2] = ["collections", "allow_private"];
/// What pywb has there besides, about replay, recording and its own pages.
const PYWB_TOP: [&str; 44] = [
    "acl_paths",
    "archive_paths",
    "autoindex",
    "cdx_api_endpoint",
    "certificates",
    "client_side_replay",
    "collections_root",
    "csp-header",
    "debug",
    "dedup_index_url",
    "default_access",
    "default_locale",
    "domain_specific_rules",
    "enable_auto_colls",
    "enable_auto_fetch",
    "enable_cdx_api",
    "enable_content_rewrite",
    "enable_flash_video_rewrite",
    "enable_memento",
    "enable_prefer",
    "force_scheme",
    "framed_replay",
    "home_html",
    "html_templates",
    "index_paths",
    "info_json",
    "inject_scripts",
    "live-rewrite",
    "locales",
    "locales_root_dir",
    "port",
    "proxy",
    "query_limit",
    "recorder",
    "redirect_to_exact",
    "rules_config",
    "rules_file",
    "static_dir",
    "static_path",
    "static_prefix",
    "static_url_path",
    "templates_dir",
    "ui",
    "use_js_obj_proxy",
];
/// What a collection, or a step of a sequence, can say.
const STEP: [&str; 8] = [
    "index",
    "index_paths",
    "index_group",
    "sequence",
    "resource",
    "archive_paths",
    "index_timeout",
    "timeout",
];
/// What pywb has there about its own pages.
const PYWB_COLLECTION: [&str; 7] = [
    "cache",
    "inject_scripts",
    "metadata",
    "query_limit",
    "title",
    "type",
    "ui",
];
/// What pywb has there that keeps captures from people. To pass over these would be to show what is meant to be
/// hidden.
const PYWB_ACCESS: [&str; 3] = ["acl_paths", "default_access", "embargo"];

/// What reads: where relative paths begin, variables of the environment, and what was found to be wrong.
pub(super) struct Reader<'a> {
    pub folder: &'a Path,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub found: Findings,
}

impl Config {
    /// Reads a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place. What is only strange is passed over: see
    /// [`Config::read`].
    pub fn load(path: impl AsRef<Path>) -> Result<Config, ConfigErrors> {
        Ok(Config::read(path)?.0)
    }

    /// Reads a file, and says also what in it has no effect, or is likely not what was meant.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read(path: impl AsRef<Path>) -> Result<(Config, Vec<Remark>), ConfigErrors> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let wrong = |error: io::Error| {
            ConfigErrors::of_file(&file, format!("this file cannot be read: {error}"))
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(yaml::LARGEST).unwrap_or(u64::MAX);
        File::open(path)
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(wrong)?;
        if bytes.len() > yaml::LARGEST {
            let what = format!("this file has more than {} bytes", yaml::LARGEST);
            return Err(ConfigErrors::of_file(&file, what));
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let line = memchr::memchr_iter(b'\n', before).count() + 1;
                let what = format!("line {line} is no UTF-8: save the file in that encoding");
                return Err(ConfigErrors::of_file(&file, what));
            }
        };
        let whole = path::absolute(path).map_err(wrong)?;
        let folder = whole.parent().unwrap_or(Path::new("/"));
        Config::parse(text, &file, folder)
    }

    /// Reads a text as if it stood in that file of that folder, an absolute one.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(
        text: &str,
        file: &str,
        folder: &Path,
    ) -> Result<(Config, Vec<Remark>), ConfigErrors> {
        Config::parse_with(text, file, folder, &|name| env::var(name).ok())
    }

    /// The same, with other variables than those of the environment.
    pub(super) fn parse_with(
        text: &str,
        file: &str,
        folder: &Path,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<Remark>), ConfigErrors> {
        let mut reader = Reader {
            folder,
            variable,
            found: Findings::default(),
        };
        let config = if text.len() > yaml::LARGEST {
            let what = format!("more than {} bytes", yaml::LARGEST);
            reader.found.error(Place { line: 1, column: 1 }, what);
            None
        } else {
            match yaml::read(text) {
                Ok((root, twice)) => {
                    for wrong in twice {
                        reader.found.error(wrong.place, wrong.what);
                    }
                    reader.config(&root)
                }
                Err(wrong) => {
                    reader.found.error(wrong.place, wrong.what);
                    None
                }
            }
        };
        reader.found.end(file, config)
    }
}

impl Reader<'_> {
    fn config(&mut self, root: &Node) -> Option<Config> {
        let fields = self.fields(root, "a configuration")?;
        for entry in fields.entries {
            let key = &*entry.key;
            if TOP.contains(&key) {
                continue;
            }
            if PYWB_TOP.contains(&key) || key.ends_with("_html") {
                let what = format!(
                    "{key} has no effect here: it is about pywb's own pages, recording or folders"
                );
                self.found.warning(entry.place, what);
                continue;
            }
            let hint = super::fields::meant(key, &TOP);
            let what = format!("a configuration has no {key:?}{hint}");
            self.found.error(entry.place, what);
        }
        let allow_private = match fields.get("allow_private") {
            Some(node) => self.networks(node),
            None => Vec::new(),
        };
        let Some(node) = fields.get("collections") else {
            let what = "collections is missing: a mapping from names to collections";
            self.found.error(fields.place, what);
            return None;
        };
        let entries = self.fields(node, "collections")?.entries;
        if entries.is_empty() {
            self.found.error(node.place, "there are no collections");
        }
        let collections = entries.iter().filter_map(|entry| self.collection(entry));
        Some(Config {
            collections: collections.collect(),
            allow_private,
        })
    }

    fn networks(&mut self, node: &Node) -> Vec<Network> {
        let mut networks = Vec::new();
        for one in each(node) {
            if let Some(text) = self.text(one, "an address or network") {
                networks.extend(self.found.take(one.place, network(&text)));
            }
        }
        networks
    }

    fn collection(&mut self, entry: &Entry) -> Option<Collection> {
        let name = &*entry.key;
        let named = self.found.take(entry.place, collection_name(name));
        let node = &entry.value;
        let collection = match &node.value {
            Value::Map(_) => self.whole_collection(name, node),
            _ => self.step_in_a_word(name, node).map(|step| Collection {
                name: name.to_owned(),
                steps: vec![step],
                is_sequence: false,
                tags: None,
                access_point: None,
            }),
        };
        named.and(collection)
    }

    /// `live: $live`.
    fn step_in_a_word(&mut self, name: &str, node: &Node) -> Option<Step> {
        if matches!(&node.value, Value::Text { text, .. } if &**text == "$all") {
            let what =
                "$all, all collections in pywb's folders, is not known here: write an index_group";
            self.found.error(node.place, what);
            return None;
        }
        let found = self.source(node, false)?;
        let sources = vec![self.finish(found, name, TIMEOUT)];
        self.step(sources, false, vec![Loader::Live])
    }

    fn whole_collection(&mut self, name: &str, node: &Node) -> Option<Collection> {
        let fields = self.fields(node, "a collection")?;
        self.known(&fields, &["tags", "access_point"], "a collection");
        let tags = match fields.get("tags") {
            Some(_) => Some(self.needed(&fields, "tags", redis)?),
            None => None,
        };
        let access_point = match fields.get("access_point") {
            Some(node) => Some(self.text(node, "access_point")?),
            None => None,
        };
        if let (Some(entry), None) = (fields.entry("access_point"), &tags) {
            let what =
                "an access_point needs tags: redis://host:port/db/key, the tag space that knows it";
            self.found.error(entry.place, what);
        }
        let (steps, is_sequence) = match self.one_index(&fields, true)?.key.as_ref() {
            "sequence" => (self.sequence(name, &fields)?, true),
            _ => (vec![self.step_of(name, &fields, TIMEOUT)?], false),
        };
        Some(Collection {
            name: name.to_owned(),
            steps,
            is_sequence,
            tags,
            access_point,
        })
    }

    fn sequence(&mut self, name: &str, fields: &Fields<'_>) -> Option<Vec<Step>> {
        for key in ["resource", "archive_paths"] {
            if let Some(entry) = fields.entry(key) {
                let what =
                    format!("{key} belongs into the steps of the sequence, each has its own");
                self.found.error(entry.place, what);
            }
        }
        let timeout = self.timeout(fields).unwrap_or(TIMEOUT);
        let node = fields.get("sequence")?;
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            _ => {
                let what = format!(
                    "a sequence has to be a list of steps, each with an index or an index_group, and this is {}",
                    if matches!(node.value, Value::List(_)) { "empty" } else { node.kind() }
                );
                self.found.error(node.place, what);
                return None;
            }
        };
        let mut steps = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let named = format!("{name}.{}", index + 1);
            let step = match &node.value {
                Value::Map(_) => self.sequence_step(&named, node, timeout),
                _ => self.source(node, false).and_then(|found| {
                    let sources = vec![self.finish(found, &named, timeout)];
                    self.step(sources, false, vec![Loader::Live])
                }),
            };
            steps.extend(step);
        }
        Some(steps)
    }

    fn sequence_step(&mut self, name: &str, node: &Node, timeout: Duration) -> Option<Step> {
        let fields = self.fields(node, "a step")?;
        self.known(&fields, &["name"], "a step of a sequence");
        let given = match fields.get("name") {
            Some(node) => self.source_name(node),
            None => None,
        };
        self.one_index(&fields, false)?;
        let name = given.as_deref().unwrap_or(name);
        self.step_of(name, &fields, timeout)
    }

    /// What of a collection or a step of a sequence is the same: its index or group, and its loaders.
    fn step_of(&mut self, name: &str, fields: &Fields<'_>, timeout: Duration) -> Option<Step> {
        let timeout = self.timeout(fields).unwrap_or(timeout);
        let loaders = self.loaders(fields);
        let (sources, is_group) = match fields.get("index_group") {
            Some(node) => (self.group(node, timeout), true),
            None => {
                let node = &fields.first(&["index", "index_paths"])?.value;
                let found = self.source(node, false);
                let source = found.map(|found| self.finish(found, name, timeout));
                (source.map(|source| vec![source]), false)
            }
        };
        self.step(sources?, is_group, loaders?)
    }

    fn group(&mut self, node: &Node, timeout: Duration) -> Option<Vec<(Source, Place)>> {
        let fields = self.fields(node, "an index_group")?;
        if fields.entries.is_empty() {
            self.found.error(
                node.place,
                "the index_group is empty: a mapping from names to indexes",
            );
            return None;
        }
        let mut sources = Vec::new();
        let mut whole = true;
        for entry in fields.entries {
            let named = self.found.take(entry.place, source_name(&entry.key));
            let found = self.source(&entry.value, true);
            match (named, found) {
                (Some(()), Some(found)) => sources.push(self.finish(found, &entry.key, timeout)),
                _ => whole = false,
            }
        }
        whole.then_some(sources)
    }

    fn finish(
        &mut self,
        found: super::source::Found,
        name: &str,
        timeout: Duration,
    ) -> (Source, Place) {
        let source = Source {
            name: found.name.unwrap_or_else(|| name.to_owned()),
            kind: found.kind,
            timeout: found.timeout.unwrap_or(timeout),
            max_bytes: found.max_bytes,
            max_rows: found.max_rows,
        };
        (source, found.place)
    }

    /// Sources and loaders that fit each other.
    fn step(
        &mut self,
        sources: Vec<(Source, Place)>,
        is_group: bool,
        resource: Vec<Loader>,
    ) -> Option<Step> {
        let only_live = resource.iter().all(|loader| *loader == Loader::Live);
        let mut whole = true;
        for (source, place) in &sources {
            match &source.kind {
                SourceKind::Cdx {
                    replay_url: None, ..
                } if only_live => {
                    whole = false;
                    self.found.error(
                        *place,
                        "there is no replay URL, since this does not end in -cdx, and $live alone needs one: \
                         put the prefix of the replay behind it (cdx+http://host/cdx /web/), or say replay_url, \
                         or a resource that has the WARC files",
                    );
                }
                SourceKind::File { .. } | SourceKind::Redis { .. } | SourceKind::ZipNum { .. }
                    if only_live =>
                {
                    self.found.warning(
                        *place,
                        "nothing loads the WARC files of this index: say where they are in resource",
                    );
                }
                _ => {}
            }
        }
        let sources = sources.into_iter().map(|(source, _)| source).collect();
        whole.then_some(Step {
            sources,
            is_group,
            resource,
        })
    }

    /// The one field that says what is looked into.
    fn one_index<'n>(&mut self, fields: &Fields<'n>, sequence: bool) -> Option<&'n Entry> {
        let known: &[&str] = match sequence {
            true => &["index", "index_paths", "index_group", "sequence"],
            false => &["index", "index_paths", "index_group"],
        };
        let mut given = known.iter().filter_map(|name| fields.entry(name));
        let first = given.next();
        if let (Some(first), Some(second)) = (first, given.next()) {
            let what = format!(
                "{} and {} exclude each other: one of them has to go",
                first.key, second.key
            );
            self.found.error(second.place, what);
            return None;
        }
        if first.is_none() {
            let what = format!("there is no index: it needs one of {}", one_of(known));
            self.found.error(fields.place, what);
        }
        first
    }

    /// Complains of fields that a collection or step cannot have.
    fn known(&mut self, fields: &Fields<'_>, more: &[&str], of: &str) {
        for entry in fields.entries {
            let key = &*entry.key;
            if PYWB_COLLECTION.contains(&key) {
                let what = format!("{key} has no effect here: it is about pywb's own pages");
                self.found.warning(entry.place, what);
            } else if PYWB_ACCESS.contains(&key) {
                let allowed = key == "default_access"
                    && matches!(&entry.value.value, Value::Text { text, .. } if &**text == "allow");
                if !allowed {
                    let what = format!(
                        "{key} hides captures, and is not known here: everything would be shown. \
                         Use tags with an access_point in its place"
                    );
                    self.found.error(entry.place, what);
                }
            }
        }
        let others: Vec<Entry> = fields
            .entries
            .iter()
            .filter(|entry| {
                let key = &*entry.key;
                !PYWB_COLLECTION.contains(&key) && !PYWB_ACCESS.contains(&key)
            })
            .cloned()
            .collect();
        let known: Vec<&str> = STEP.iter().chain(more).copied().collect();
        let others = Fields {
            entries: &others,
            place: fields.place,
        };
        self.only(&others, &known, of);
    }

    /// The name of a source, where it is the value of a field.
    pub(super) fn source_name(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "name")?;
        self.found.take(node.place, source_name(&name))?;
        Some(name)
    }
}

/// The nodes of a list, or the one that stands for a list.
pub(super) fn each(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(nodes) => nodes,
        _ => std::slice::from_ref(node),
    }
}

fn collection_name(name: &str) -> Result<(), String> {
    if RESERVED.contains(&name) {
        return Err(format!(
            "a collection cannot be called {name}: the server has something else there"
        ));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+:,=".contains(&byte);
    if name.is_empty() || name.len() > NAME || matches!(name, "." | "..") || !name.bytes().all(fits)
    {
        return Err(format!(
            "a collection cannot be called {name:?}, because it is a part of URLs: \
             up to {NAME} letters and digits of ASCII and - . _ ~ @ + : , ="
        ));
    }
    Ok(())
}

/// Names of sources are told apart by commas in `sources=a,b`, where `!` in front means all others.
fn source_name(name: &str) -> Result<(), String> {
    let fits = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
    if name.is_empty()
        || name.len() > NAME
        || name.starts_with('!')
        || name == "*"
        || !name.chars().all(fits)
    {
        return Err(format!(
            "a source cannot be called {name:?}: up to {NAME} bytes without spaces and commas, and no ! in front"
        ));
    }
    Ok(())
}
