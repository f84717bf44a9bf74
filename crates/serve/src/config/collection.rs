//! Parses collections: sources in groups and sequences, and the loaders that fit them.

use std::time::Duration;

use super::errors::Position;
use super::fields::Fields;
use super::location::{database, one_of, path, prefixed, redis};
use super::rules::ACCESS;
use super::source::ParsedSource;
use super::yaml::{Node, Pair, Value};
use super::{Collection, Loader, Reader, Source, SourceKind, Step, Writable};
use crate::words::words;
use crate::writable;

/// Default timeout of the first row of a source.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Path segments reserved by the server, which are invalid as names of collections.
const RESERVED: [&str; 4] = ["_status", "_metrics", "_indexes", "static"];
/// The collection that pywb serves at `/`.
const ROOT: &str = "$root";
/// Maximum length of the name of a collection or a source, in bytes.
const MAX_NAME: usize = 200;

/// Error message for a dedupe index in a collection with access control.
const DEDUPE: &str = "an index of type dedupe is not allowed in a collection with tags or access rules, because \
 crawlers that query it by digest see all captures: move it to a collection of its own";

/// Fields of a collection or of a step of a sequence.
const STEP: [&str; 8] =
    words("index index_paths index_group sequence resource archive_paths index_timeout timeout");
impl Reader<'_> {
    /// Parses a collection: its name and its value.
    pub(super) fn collection(&mut self, entry: &Pair) -> Option<Collection> {
        let name = &*entry.key;
        let named = self.found.take(entry.position, collection_name(name));
        if name == ROOT {
            let what = "pywb serves this collection at /, but this server serves it at /$root/";
            self.found.warning(entry.position, what);
        }
        let node = &entry.value;
        let collection = match &node.value {
            Value::Map(_) => self.whole_collection(name, node),
            _ => self.step_in_a_word(name, node).map(|step| Collection {
                rules: self.default_rules(node.position, None),
                ..Collection::of(name, step)
            }),
        };
        named.and(collection)
    }

    /// Parses a collection that is a single word, such as `live: $live`.
    fn step_in_a_word(&mut self, name: &str, node: &Node) -> Option<Step> {
        let found = self.source(node, false)?;
        let sources = vec![self.finish(found, name, TIMEOUT)];
        self.step(sources, false, self.loaders.clone())
    }

    fn whole_collection(&mut self, name: &str, node: &Node) -> Option<Collection> {
        let fields = self.fields(node, "a collection")?;
        self.known(
            &fields,
            &[
                &[
                    "tags",
                    "access_point",
                    "hidden_originals",
                    "fuzzy",
                    "dedupe",
                    "writable",
                ][..],
                &ACCESS,
            ]
            .concat(),
            "a collection",
        );
        let tags = match fields.get("tags") {
            Some(_) => Some(self.needed(&fields, "tags", redis)?),
            None => None,
        };
        let dedupe = match fields.get("dedupe") {
            Some(_) => Some(self.needed(&fields, "dedupe", prefixed)?),
            None => None,
        };
        let access_point = match fields.get("access_point") {
            Some(node) => Some(self.text(node, "access_point")?),
            None => None,
        };
        let writable = match fields.entry("writable") {
            Some(entry) => Some(self.writable(&entry.value)?),
            None => None,
        };
        let (steps, is_sequence) = match &writable {
            Some(writable) => (vec![self.written_step(name, &fields, writable)?], false),
            None => match self.one_index(&fields, true)?.key.as_ref() {
                "sequence" => (self.sequence(name, &fields)?, true),
                _ => (vec![self.step_of(name, &fields, TIMEOUT)?], false),
            },
        };
        let rules = self.rules(&fields, access_point.as_deref());
        let has_points =
            tags.is_some() || rules.as_ref().is_some_and(|rules| rules.have_policies());
        if let Some(entry) = fields.entry("access_point").filter(|_| !has_points) {
            let what = "an access_point needs tags (redis://host:port/db/key, the tag space that defines the access \
             point), or policies of OutbackCDX in acl_paths";
            self.found.error(entry.position, what);
        }
        let mut sources = steps.iter().flat_map(|step| &step.sources);
        let has_dedupe = sources.any(|source| matches!(source.kind, SourceKind::Dedupe { .. }));
        if has_dedupe && (tags.is_some() || rules.is_some()) {
            self.found.error(node.position, DEDUPE);
            return None;
        }
        Some(Collection {
            name: name.to_owned(),
            steps,
            is_sequence,
            tags,
            dedupe,
            writable,
            access_point,
            rules,
            lends_hidden: self.lends_hidden(&fields),
            fuzzy: self.flag(&fields, "fuzzy"),
        })
    }

    /// Parses `writable`.
    fn writable(&mut self, node: &Node) -> Option<Writable> {
        let fields = self.fields(node, "writable")?;
        self.only(&fields, &["redis_url", "key", "token_file"], "writable");
        let folder = self.folder;
        let redis_url = self.needed(&fields, "redis_url", database);
        let key = self.needed(&fields, "key", |text| match text {
            "" => Err("the key is empty".to_owned()),
            _ if text.contains('*') => Err("the key must name a single sorted set".to_owned()),
            _ => Ok(text.to_owned()),
        });
        let token_file = self.needed(&fields, "token_file", |text| path(text, folder));
        let (redis_url, key, token_file) = (redis_url?, key?, token_file?);
        self.found.names(vec![token_file.clone()]);
        let token = writable::token(&token_file).map(drop);
        self.found.take(node.position, token)?;
        Some(Writable {
            redis_url,
            key,
            token_file,
        })
    }

    /// Creates the step of a writable collection, whose only source is the sorted set.
    fn written_step(
        &mut self,
        name: &str,
        fields: &Fields<'_>,
        writable: &Writable,
    ) -> Option<Step> {
        let indexes = ["index", "index_paths", "index_group", "sequence"];
        if let Some(entry) = fields.first(&indexes) {
            let what = format!(
                "{} and writable exclude each other: the sorted set is the index",
                entry.key
            );
            self.found.error(entry.position, what);
            return None;
        }
        let timeout = self.timeout(fields).unwrap_or(TIMEOUT);
        let loaders = self.loaders_of(fields);
        let found = ParsedSource {
            name: None,
            kind: SourceKind::Redis {
                url: format!("{}/{}", writable.redis_url, writable.key),
                has_aliases: true,
            },
            timeout: None,
            max_bytes: None,
            max_rows: None,
            position: fields.position,
        };
        let source = self.finish(found, name, timeout);
        self.step(vec![source], false, loaders?)
    }

    /// Parses `hidden_originals`: returns whether hidden captures may lend their payload to revisits.
    fn lends_hidden(&mut self, fields: &Fields<'_>) -> bool {
        let Some(node) = fields.get("hidden_originals") else {
            return false;
        };
        let word = self.text(node, "hidden_originals");
        match word.as_deref() {
            Some("lend") => true,
            Some("hide") | None => false,
            Some(other) => {
                let what = format!(
                    "hidden_originals: {other:?} is invalid; allowed values are hide and lend"
                );
                self.found.error(node.position, what);
                false
            }
        }
    }

    fn sequence(&mut self, name: &str, fields: &Fields<'_>) -> Option<Vec<Step>> {
        for key in ["resource", "archive_paths"] {
            if let Some(entry) = fields.entry(key) {
                let what = format!("{key} must be set in each step of the sequence");
                self.found.error(entry.position, what);
            }
        }
        let timeout = self.timeout(fields).unwrap_or(TIMEOUT);
        let node = fields.get("sequence")?;
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            _ => {
                let what = format!(
                    "a sequence must be a list of steps, each with an index or an index_group (got {})",
                    if matches!(node.value, Value::List(_)) {
                        "an empty list"
                    } else {
                        node.kind()
                    }
                );
                self.found.error(node.position, what);
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
                    self.step(sources, false, self.loaders.clone())
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

    /// Parses the fields that collections and steps of a sequence share: index or group, and loaders.
    fn step_of(&mut self, name: &str, fields: &Fields<'_>, timeout: Duration) -> Option<Step> {
        let timeout = self.timeout(fields).unwrap_or(timeout);
        let loaders = self.loaders_of(fields);
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

    fn group(&mut self, node: &Node, timeout: Duration) -> Option<Vec<(Source, Position)>> {
        let fields = self.fields(node, "an index_group")?;
        if fields.entries.is_empty() {
            self.found.error(
                node.position,
                "the index_group is empty: write a mapping from names to indexes",
            );
            return None;
        }
        let mut sources = Vec::new();
        let mut whole = true;
        for entry in fields.entries {
            let named = self.found.take(entry.position, source_name(&entry.key));
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
        found: super::source::ParsedSource,
        name: &str,
        timeout: Duration,
    ) -> (Source, Position) {
        match &found.kind {
            SourceKind::File { path } | SourceKind::ZipNum { path } | SourceKind::Wacz { path } => {
                self.as_it_stands(found.position, &path.to_string(), true);
            }
            SourceKind::Warc { path, .. } => {
                self.as_it_stands(found.position, &path.to_string_lossy(), false);
            }
            SourceKind::Redis { url, .. } => self.as_it_stands(found.position, url, true),
            _ => {}
        }
        let source = Source {
            name: found.name.unwrap_or_else(|| name.to_owned()),
            kind: found.kind,
            timeout: found.timeout.unwrap_or(timeout),
            max_bytes: found.max_bytes,
            max_rows: found.max_rows,
        };
        (source, found.position)
    }

    /// Combines sources with loaders, and checks that they fit each other.
    fn step(
        &mut self,
        sources: Vec<(Source, Position)>,
        is_group: bool,
        mut resource: Vec<Loader>,
    ) -> Option<Step> {
        // Packages and WARC files contain the records as well.
        for (source, _) in &sources {
            let own = match &source.kind {
                SourceKind::Wacz { path } => Loader::Packages(path.clone()),
                SourceKind::Warc { path, .. } => Loader::Folder(path.clone()),
                _ => continue,
            };
            if !resource.contains(&own) {
                resource.insert(0, own);
            }
        }
        let only_live = resource.iter().all(|loader| *loader == Loader::Live);
        let mut whole = true;
        for (source, position) in &sources {
            match &source.kind {
                SourceKind::Cdx {
                    replay_url: None, ..
                } if only_live => {
                    whole = false;
                    self.found.error(
                        *position,
                        "no replay URL: $live needs one, and it cannot be derived from a URL that does not end in \
                         -cdx; append the replay prefix (cdx+http://host/cdx /web/), set replay_url, or set resource \
                         to the location of the WARC files",
                    );
                }
                SourceKind::File { .. } | SourceKind::Redis { .. } | SourceKind::ZipNum { .. }
                    if only_live =>
                {
                    self.found.warning(
                        *position,
                        "no loader is configured for the WARC files of this index: set resource to their location",
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

    /// Returns the single field that names the index, group or sequence.
    fn one_index<'n>(&mut self, fields: &Fields<'n>, sequence: bool) -> Option<&'n Pair> {
        let known: &[&str] = if sequence {
            &["index", "index_paths", "index_group", "sequence"]
        } else {
            &["index", "index_paths", "index_group"]
        };
        let mut given = known.iter().filter_map(|name| fields.entry(name));
        let first = given.next();
        if let (Some(first), Some(second)) = (first, given.next()) {
            let what = format!(
                "{} and {} exclude each other: remove one of them",
                first.key, second.key
            );
            self.found.error(second.position, what);
            return None;
        }
        if first.is_none() {
            let what = format!("the index is missing: write one of {}", one_of(known));
            self.found.error(fields.position, what);
        }
        first
    }

    /// Reports unknown fields of a collection or step.
    fn known(&mut self, fields: &Fields<'_>, more: &[&str], of: &str) {
        let others: Vec<Pair> = fields
            .entries
            .iter()
            .filter(|entry| more.contains(&&*entry.key) || !self.is_of_pywb(entry))
            .cloned()
            .collect();
        let known: Vec<&str> = STEP.iter().chain(more).copied().collect();
        let others = Fields {
            entries: &others,
            position: fields.position,
        };
        self.only(&others, &known, of);
    }

    /// Parses the name of a source in the value of a field.
    pub(super) fn source_name(&mut self, node: &Node) -> Option<String> {
        let name = self.text(node, "name")?;
        self.found.take(node.position, source_name(&name))?;
        Some(name)
    }
}

pub(super) fn collection_name(name: &str) -> Result<(), String> {
    if RESERVED.contains(&name) {
        return Err(format!(
            "a collection cannot be called {name}: the server uses this path itself"
        ));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+:,=".contains(&byte);
    let is_name = name == ROOT || name.bytes().all(fits);
    if name.is_empty() || name.len() > MAX_NAME || matches!(name, "." | "..") || !is_name {
        return Err(format!(
            "a collection cannot be called {name:?}, because the name is part of URLs: use up to {MAX_NAME} ASCII \
             letters, digits and - . _ ~ @ + : , ="
        ));
    }
    Ok(())
}

/// Checks the name of a source. Requests list sources separated by commas (`sources=a,b`), and a leading `!`
/// excludes them.
fn source_name(name: &str) -> Result<(), String> {
    let fits = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
    if name.is_empty()
        || name.len() > MAX_NAME
        || name.starts_with('!')
        || name == "*"
        || !name.chars().all(fits)
    {
        return Err(format!(
            "a source cannot be called {name:?}: use up to {MAX_NAME} bytes without spaces, commas and a leading !"
        ));
    }
    Ok(())
}
