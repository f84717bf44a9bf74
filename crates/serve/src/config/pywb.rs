//! Support for pywb configurations: ignores keys about pywb's own pages, and serves folders as
//! collections.
//!
//! pywb treats a folder in `collections_root` that contains a folder `indexes` as a collection, and `$all` combines all
//! of these. The same applies here if the configuration says `collections_root`, `enable_auto_colls: true` or `$all`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::collection::{TIMEOUT, collection_name};
use super::errors::Position;
use super::fields::Fields;
use super::location::path;
use super::rules::ACCESS;
use super::yaml::{Node, Pair, Value};
use super::{Collection, Loader, Reader, Source, SourceKind, Step};
use crate::rules::Rules;
use crate::words::words;

/// Maximum number of folders below `collections_root` that become collections.
const MAX_FOLDERS: usize = 10_000;
/// pywb's top-level keys about replay, recording and its own pages.
const PYWB_TOP: [&str; 48] = words(
    "acl_paths archive_paths autoindex cdx_api_endpoint certificates client_side_replay collections_root \
     csp-header debug csp_header dedup_index_url default_access default_locale domain_specific_rules \
     enable_auto_colls enable_auto_fetch enable_cdx_api enable_content_rewrite enable_flash_video_rewrite \
     enable_memento enable_prefer force_scheme framed_replay home_html html_templates index_paths info_json \
     inject_scripts live-rewrite locales locales_root_dir port proxy query_limit recorder redirect_to_exact \
     rules_config rules_file static_dir static_path static_prefix static_url_path surt_ordered templates_dir \
     transclusions_version url_prefix ui use_js_obj_proxy",
);
/// pywb's keys of a collection that concern pywb's own pages.
const PYWB_COLLECTION: [&str; 7] = words("cache inject_scripts metadata query_limit title type ui");

/// pywb's keys that control how it reads a ZipNum cluster.
const PYWB_ZIPNUM: [&str; 4] = words("cookie_maker max_blocks reload_interval shard_index_loc");

/// Returns whether pywb knows this top-level key.
pub(super) fn knows(key: &str) -> bool {
    PYWB_TOP.contains(&key) || is_template(key)
}

/// Returns whether the key names a page template.
fn is_template(key: &str) -> bool {
    key.ends_with("_html")
}

/// Returns whether the node is true in YAML.
fn yes(node: &Node) -> bool {
    matches!(&node.value, Value::Text { text, .. } if matches!(&*text.to_ascii_lowercase(), "true" | "yes" | "on"))
}

/// Returns whether the node is `$all`.
pub(super) fn is_all(node: &Node) -> bool {
    matches!(&node.value, Value::Text { text, .. } if &**text == "$all")
}

/// A folder that is served as a collection.
pub(super) struct Folder {
    /// Name of the folder and of the collection.
    pub name: String,
    index: PathBuf,
    archives: Vec<Loader>,
    rules: Option<Arc<Rules>>,
}

impl Folder {
    /// Converts the folder into a collection.
    pub(crate) fn collection(self) -> Collection {
        let step = Step {
            sources: vec![self.source()],
            is_group: false,
            resource: self.archives.into_iter().chain([Loader::Live]).collect(),
        };
        Collection {
            rules: self.rules,
            ..Collection::of(&self.name, step)
        }
    }

    fn source(&self) -> Source {
        Source {
            name: self.name.clone(),
            kind: SourceKind::File {
                path: self.index.clone().into(),
            },
            timeout: TIMEOUT,
            max_bytes: None,
            max_rows: None,
        }
    }
}

/// Folders that are served as collections.
#[derive(Default)]
pub(super) struct Folders {
    /// Folders, sorted by name.
    pub all: Vec<Folder>,
    /// Root of the folders; `None` if folders are not served as collections.
    root: Option<PathBuf>,
}

/// Top-level settings with the locations of folders.
struct Settings {
    root: PathBuf,
    indexes: String,
    archives: Vec<String>,
    acl: String,
    /// Position of the settings in the file.
    position: Position,
}

impl Reader<'_> {
    /// Returns whether the field of a collection is specific to pywb, and adds the warning or error about it.
    pub(super) fn is_of_pywb(&mut self, entry: &Pair) -> bool {
        let key = &*entry.key;
        if self.is_surt_ordered(entry) {
            return true;
        }
        if PYWB_COLLECTION.contains(&key) || is_template(key) {
            let what = format!("{key} has no effect here: it is about pywb's own pages");
            self.found.warning(entry.position, what);
            return true;
        }
        // Ignoring these fields would expose captures that are meant to be hidden.
        let hides = ACCESS.contains(&key);
        if hides && !allows(key, &entry.value) {
            self.found.error(entry.position, hidden(key));
        }
        hides
    }

    /// Returns whether the field is `surt_ordered`, and adds a warning if it has no effect.
    fn is_surt_ordered(&mut self, entry: &Pair) -> bool {
        let is_one = &*entry.key == "surt_ordered";
        if is_one && !yes(&entry.value) {
            let what = "surt_ordered has no effect here: the keys of indexes must be SURTs; captures with other keys \
             are not found";
            self.found.warning(entry.position, what);
        }
        is_one
    }

    /// Returns whether the field of a ZipNum cluster is specific to pywb, and adds a warning that it has no effect.
    pub(super) fn is_of_pywb_cluster(&mut self, entry: &Pair) -> bool {
        let key = &*entry.key;
        let is_one = PYWB_ZIPNUM.contains(&key);
        if is_one {
            let what = format!(
                "{key} has no effect here: the parts are where the .loc file next to the index locates them (by \
                 default next to the index), and the server reads as many blocks as a response needs"
            );
            self.found.warning(entry.position, what);
        }
        is_one
    }

    /// Returns the collections that are folders, if enabled, and warns about other pywb keys that have no effect.
    pub(super) fn folders_of_pywb(&mut self, fields: &Fields<'_>) -> Folders {
        let entries = match fields.get("collections").map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        let all = entries.iter().find(|entry| is_all(&entry.value));
        let auto = fields.entry("enable_auto_colls");
        let wanted = match auto {
            Some(auto) if !yes(&auto.value) => None,
            Some(auto) => Some(auto),
            None => fields.entry("collections_root").or(all),
        };
        let heard: &[&str] = match wanted {
            Some(_) => &[
                "collections_root",
                "enable_auto_colls",
                "index_paths",
                "archive_paths",
                "acl_paths",
                "default_access",
            ],
            None => &["enable_auto_colls", "archive_paths", "default_access"],
        };
        for entry in fields.entries {
            let key = &*entry.key;
            if !self.is_surt_ordered(entry) && knows(key) && !heard.contains(&key) {
                let what = format!(
                    "{key} has no effect here: it is about pywb's own pages, recording or folders"
                );
                self.found.warning(entry.position, what);
            }
        }
        let Some(settings) = self.settings(
            fields,
            wanted.map_or(fields.position, |entry| entry.position),
        ) else {
            return Folders::default();
        };
        self.archives(fields, &settings);
        match wanted {
            Some(_) => Folders {
                all: self.listed(fields, &settings),
                root: Some(settings.root),
            },
            None => {
                let name = settings.root.display();
                if auto.is_none() && !folders(&settings).is_empty() {
                    let what = format!(
                        "pywb also serves the collections in {name}: set collections_root to serve them here"
                    );
                    self.found.warning(fields.position, what);
                }
                Folders::default()
            }
        }
    }

    fn settings(&mut self, fields: &Fields<'_>, position: Position) -> Option<Settings> {
        let mut word = |key: &str, usual: &str| match fields.get(key) {
            Some(node) if !matches!(node.value, Value::List(_)) => self.text(node, key),
            _ => Some(usual.to_owned()),
        };
        let root = word("collections_root", "collections")?;
        let (indexes, acl) = (word("index_paths", "indexes")?, word("acl_paths", "acl")?);
        let archives = match fields.get("archive_paths") {
            Some(node) => {
                let nodes = super::yaml::each(node).iter();
                nodes
                    .map(|node| self.text(node, "archive_paths"))
                    .collect::<Option<_>>()?
            }
            None => vec!["archive".to_owned()],
        };
        let settings = Settings {
            indexes,
            archives,
            acl,
            root: PathBuf::new(),
            position,
        };
        let root = path(&root, self.folder);
        let root = self.found.take(position, root)?;
        Some(Settings { root, ..settings })
    }

    /// Parses the top-level `archive_paths`: the default record locations of all collections. Relative paths are
    /// relative to the configuration file, except in a collection that is a folder, where they are relative to that
    /// folder.
    fn archives(&mut self, fields: &Fields<'_>, settings: &Settings) {
        let Some(node) = fields.get("archive_paths") else {
            return;
        };
        let mut loaders = Vec::new();
        for (text, node) in settings.archives.iter().zip(super::yaml::each(node)) {
            let loader = super::loader::loader_of(text, self.folder);
            let loader = self.found.take(node.position, loader);
            loaders.extend(loader.inspect(|loader| self.of_loader(loader, node.position)));
        }
        loaders.push(Loader::Live);
        self.loaders = loaders;
    }

    /// Lists the collection folders, and checks each for settings that must not be ignored.
    fn listed(&mut self, fields: &Fields<'_>, settings: &Settings) -> Vec<Folder> {
        for key in ["collections_root", "index_paths", "acl_paths"] {
            if let Some(node) = fields
                .get(key)
                .filter(|node| matches!(node.value, Value::List(_)))
            {
                let what = format!(
                    "{key} must be a single folder (got a list): write a collection with all of these folders"
                );
                self.found.error(node.position, what);
            }
        }
        let mut folders = folders(settings);
        for folder in &mut folders {
            let base = settings.root.join(&folder.name);
            for text in &settings.archives {
                let loader = super::loader::loader_of(text, &base);
                folder
                    .archives
                    .extend(self.found.take(settings.position, loader));
            }
        }
        let root = settings.root.display();
        for folder in &mut folders {
            let named = collection_name(&folder.name).map_err(|why| format!("{root}: {why}"));
            self.found.take(settings.position, named);
            let acl = settings.root.join(&folder.name).join(&settings.acl);
            folder.rules =
                self.default_rules(settings.position, Some(acl).filter(|acl| acl.exists()));
        }
        let names: Vec<&str> = folders.iter().map(|folder| &*folder.name).collect();
        let what = match names.len() {
            0 => format!("there are no collections in {root}"),
            MAX_FOLDERS => format!("only the first {MAX_FOLDERS} collections of {root} are served"),
            _ => format!(
                "these collections of {root} are served (a reload with SIGHUP adds new ones): {}",
                names.join(", ")
            ),
        };
        self.found.warning(settings.position, what);
        folders
    }

    /// Creates the collection `$all` of all folders.
    pub(super) fn all_of_pywb(&mut self, entry: &Pair, folders: &Folders) -> Option<Collection> {
        self.found
            .take(entry.position, collection_name(&entry.key))?;
        let Some(root) = &folders.root else {
            let what = "$all combines the collections that are folders, which enable_auto_colls: false turns off";
            self.found.error(entry.value.position, what);
            return None;
        };
        let mut of_folders = folders.all.iter().filter_map(|one| one.rules.as_ref());
        if of_folders.any(|rules| !rules.is_empty()) {
            let what = "$all would show captures that the .aclj files of its folders hide: write a collection with an \
             index_group and acl_paths";
            self.found.error(entry.value.position, what);
            return None;
        }
        let mut step = Step {
            sources: folders.all.iter().map(Folder::source).collect(),
            is_group: true,
            resource: Vec::new(),
        };
        for loader in folders.all.iter().flat_map(|folder| &folder.archives) {
            if !step.resource.contains(loader) {
                step.resource.push(loader.clone());
            }
        }
        step.resource.push(Loader::Live);
        if folders.all.is_empty() {
            let what = "$all combines the collections that are folders, but no folder exists yet: reload (SIGHUP) after \
             adding one";
            self.found.warning(entry.value.position, what);
            let none = Folder {
                name: entry.key.to_string(),
                index: root.clone(),
                archives: Vec::new(),
                rules: None,
            };
            step.sources.push(none.source());
        }
        Some(Collection {
            rules: self.default_rules(entry.position, None),
            ..Collection::of(&entry.key, step)
        })
    }
}

/// Returns whether the value of an access field hides nothing.
fn allows(key: &str, value: &Node) -> bool {
    key == "default_access"
        && matches!(&value.value, Value::Text { text, .. } if &**text == "allow")
}

fn hidden(what: &str) -> String {
    format!(
        "{what} hides captures in pywb, but this server would show them: write a collection with an index and \
         acl_paths, default_access or embargo"
    )
}

/// Returns the folders that contain an index, sorted by name. Unreadable folders are skipped.
fn folders(settings: &Settings) -> Vec<Folder> {
    let Ok(entries) = fs::read_dir(&settings.root) else {
        return Vec::new();
    };
    let folder = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let index = entry.path().join(&settings.indexes);
        index.is_dir().then(|| Folder {
            archives: Vec::new(),
            rules: None,
            name,
            index,
        })
    };
    let entries = entries.filter_map(Result::ok);
    let mut folders: Vec<Folder> = entries.filter_map(folder).take(MAX_FOLDERS).collect();
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    folders
}
