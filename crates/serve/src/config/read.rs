//! Parses a configuration from YAML into the normal form.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{self, Path};

use super::errors::{Findings, Position};
use super::fields::meant;
use super::location::network;
use super::pywb;
use super::yaml::{self, Node, each};
use crate::config::{Config, ConfigErrors, Loader, Remark};
use crate::host::Host;
use crate::rules::Access;
use crawlspace_fetch::Network;

/// Top-level keys of a configuration.
const TOP: [&str; 4] = ["collections", "allow_private", "hosts", "indexes"];
/// State of the parser: the folder of relative paths, environment variables, and the errors found so far.
pub(super) struct Reader<'a> {
    pub folder: &'a Path,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub found: Findings,
    /// Default loaders of collections that name none.
    pub loaders: Vec<Loader>,
    /// Default access of captures without a rule, unless the collection overrides it.
    pub default_access: Access,
}

impl Config {
    /// Loads a configuration file. Relative paths in the file are relative to its folder.
    ///
    /// # Errors
    /// All errors of the file, each with its position. Warnings are dropped: see [`Config::read`].
    pub fn load(path: impl AsRef<Path>) -> Result<Config, ConfigErrors> {
        Ok(Config::read(path)?.0)
    }

    /// Loads a configuration file and returns it with warnings about settings that have no effect or look
    /// wrong.
    ///
    /// # Errors
    /// The same errors as [`Config::load`].
    pub fn read(path: impl AsRef<Path>) -> Result<(Config, Vec<Remark>), ConfigErrors> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let wrong = |error: io::Error| {
            ConfigErrors::of_file(&file, format!("this file cannot be read: {error}"))
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(yaml::MAX_TEXT).unwrap_or(u64::MAX);
        File::open(path)
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(wrong)?;
        if bytes.len() > yaml::MAX_TEXT {
            let what = format!("this file has more than {} bytes", yaml::MAX_TEXT);
            return Err(ConfigErrors::of_file(&file, what));
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let line = memchr::memchr_iter(b'\n', before).count() + 1;
                let what =
                    format!("line {line} is not valid UTF-8: save the file in that encoding");
                return Err(ConfigErrors::of_file(&file, what));
            }
        };
        let whole = path::absolute(path).map_err(wrong)?;
        let folder = whole.parent().unwrap_or(Path::new("/"));
        Config::parse(text, &file, folder)
    }

    /// Parses `text` as if it were the content of `file` in `folder`, which must be absolute.
    ///
    /// ```
    /// use std::path::Path;
    /// use crawlspace_serve::config::{Config, SourceKind};
    ///
    /// let (config, _) = Config::parse("collections: {live: $live}", "config.yaml", Path::new("/etc"))?;
    /// assert_eq!(config.collections[0].steps[0].sources[0].kind, SourceKind::Live);
    /// let errors = Config::parse("collections: {a: $life}", "config.yaml", Path::new("/etc")).unwrap_err();
    /// assert!(errors.to_string().starts_with("config.yaml:1:18: "));
    /// # Ok::<(), crawlspace_serve::config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`Config::load`].
    pub fn parse(
        text: &str,
        file: &str,
        folder: &Path,
    ) -> Result<(Config, Vec<Remark>), ConfigErrors> {
        Config::parse_with(text, file, folder, &|name| env::var(name).ok())
    }

    /// Parses `text` like [`Config::parse`], with `variable` instead of the environment's variables.
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
            loaders: vec![Loader::Live],
            default_access: Access::Allow,
        };
        let config = if text.len() > yaml::MAX_TEXT {
            let what = format!("more than {} bytes", yaml::MAX_TEXT);
            reader.found.error(Position { line: 1, column: 1 }, what);
            None
        } else {
            match yaml::read(text) {
                Ok((root, twice)) => {
                    for wrong in twice {
                        reader.found.error(wrong.position, wrong.what);
                    }
                    reader.config(&root)
                }
                Err(wrong) => {
                    reader.found.error(wrong.position, wrong.what);
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
            if !TOP.contains(&key) && !pywb::knows(key) {
                let hint = meant(key, &TOP);
                let what = format!("a configuration has no key {key:?}{hint}");
                self.found.error(entry.position, what);
            }
        }
        let allow_private = match fields.get("allow_private") {
            Some(node) => self.networks(node),
            None => Vec::new(),
        };
        let hosts = match fields.get("hosts") {
            Some(node) => self.hosts(node),
            None => Vec::new(),
        };
        if fields.get("default_access").is_some() {
            // Stops at an invalid value: continuing with the default would expose hidden captures.
            self.default_access = self.needed(&fields, "default_access", Access::parse)?;
        }
        let folders = self.folders_of_pywb(&fields);
        let indexes = fields.get("indexes").map(|node| self.indexes(node));
        let entries = match fields.get("collections") {
            Some(node) => self.fields(node, "collections")?.entries,
            None => &[],
        };
        if entries.is_empty() && folders.all.is_empty() && indexes.is_none() {
            let (position, what) = match fields.get("collections") {
                Some(node) => (node.position, "there are no collections"),
                None => (
                    fields.position,
                    "collections is missing: write a mapping from names to collections",
                ),
            };
            self.found.error(position, what);
            return None;
        }
        let mut collections = Vec::new();
        for entry in entries {
            collections.extend(if pywb::is_all(&entry.value) {
                self.all_of_pywb(entry, &folders)
            } else {
                self.collection(entry)
            });
        }
        for folder in folders.all {
            // Explicit collections take precedence over folders of the same name.
            if !entries.iter().any(|entry| *entry.key == *folder.name) {
                collections.push(folder.collection());
            }
        }
        Some(Config {
            collections,
            allow_private,
            hosts,
            indexes: indexes.flatten(),
            folder: self.folder.to_owned(),
        })
    }

    fn hosts(&mut self, node: &Node) -> Vec<Host> {
        let mut hosts = Vec::new();
        for one in each(node) {
            if let Some(text) = self.text(one, "a host") {
                hosts.extend(self.found.take(one.position, text.parse()));
            }
        }
        if each(node).is_empty() {
            // An empty list would accept every host.
            let what = "hosts is empty: list the hosts that requests may name";
            self.found.error(node.position, what);
        }
        hosts
    }

    fn networks(&mut self, node: &Node) -> Vec<Network> {
        let mut networks = Vec::new();
        for one in each(node) {
            if let Some(text) = self.text(one, "an address or network") {
                networks.extend(self.found.take(one.position, network(&text)));
            }
        }
        networks
    }
}
