//! Replaces the configuration while the server runs.
//!
//! Each request keeps the [`Federation`] that was current when the request began. A replaced federation is dropped after
//! the last request that uses it. An invalid configuration changes nothing.

mod files;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crawlspace_index::timestamp::Timestamp;
use tokio::task::spawn_blocking;

pub use self::files::ConfigFiles;
use super::Federation;
use super::config::Config;

/// The current federation, which can be replaced while requests are served.
pub struct Current {
    federation: RwLock<Arc<Federation>>,
    reloads: Mutex<Reloads>,
}

/// Number and outcomes of reloads.
#[derive(Clone)]
pub(crate) struct Reloads {
    /// Number of successful reloads.
    pub succeeded: u64,
    /// Number of failed reloads, which changed nothing.
    pub failed: u64,
    /// Time at which the current configuration was loaded.
    pub loaded: Timestamp,
    /// Time and reason of the last failure; `None` after a success.
    pub failure: Option<(Timestamp, String)>,
}

impl Current {
    /// Creates the holder of the first federation.
    pub fn new(federation: Arc<Federation>) -> Arc<Current> {
        Arc::new(Current {
            federation: RwLock::new(federation),
            reloads: Mutex::new(Reloads {
                succeeded: 0,
                failed: 0,
                loaded: Timestamp::now(),
                failure: None,
            }),
        })
    }

    /// Returns the current federation, for a new request.
    pub fn federation(&self) -> Arc<Federation> {
        let current = self.federation.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads the configuration and replaces the federation. An invalid configuration changes nothing. The outcome is
    /// logged and shown in the metrics. Returns the files with the versions that were read.
    pub async fn reload(&self, files: ConfigFiles) -> ConfigFiles {
        let (before, mut files) = (self.federation(), files.again().await);
        let mut read = files.clone();
        let opened = spawn_blocking(move || (reopened(&before, &mut read), read)).await;
        let opened = match opened {
            Ok((opened, read)) => {
                files = read;
                opened
            }
            Err(error) => Err(format!("the configuration could not be read: {error}")),
        };
        match opened {
            Ok(federation) => {
                let mut current = self
                    .federation
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                let before = std::mem::replace(&mut *current, federation);
                drop(current);
                drop(before);
                let file = files.config().display();
                tracing::info!(%file, "the configuration was reloaded");
                let mut reloads = self.lock();
                reloads.succeeded += 1;
                reloads.loaded = Timestamp::now();
                reloads.failure = None;
            }
            Err(reason) => {
                for error in reason.lines() {
                    tracing::error!(%error, "the configuration was not reloaded; the previous one stays in use");
                }
                let mut reloads = self.lock();
                reloads.failed += 1;
                reloads.failure = Some((Timestamp::now(), reason));
            }
        }
        files
    }

    /// Returns the number and outcomes of reloads.
    pub(crate) fn reloads(&self) -> Reloads {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Reloads> {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the files, and opens the new federation while the old one keeps serving requests.
///
/// # Errors
/// All errors of the configuration, one per line.
fn reopened(before: &Federation, files: &mut ConfigFiles) -> Result<Arc<Federation>, String> {
    let (config, warnings) = match Config::read(files.config()) {
        Ok(read) => read,
        Err(errors) => {
            files.look_also(&errors);
            return Err(errors.to_string());
        }
    };
    files.look(&config);
    let name = files.config().display().to_string();
    for warning in &warnings {
        tracing::warn!(warning = %warning.of(&name), "the configuration");
    }
    let federation = before.reopen(&config);
    federation.map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a configuration to a folder, and opens it.
    async fn start(text: &str) -> (tempfile::TempDir, ConfigFiles, Arc<Current>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        let federation = Federation::open(&Config::load(&path).unwrap()).unwrap();
        (dir, ConfigFiles::of(path), Current::new(federation))
    }

    #[tokio::test]
    async fn replaced_federation_is_freed_after_its_last_request() {
        let (_dir, files, current) = start("collections: {live: $live}").await;
        let request = current.federation();
        let old = Arc::downgrade(&request);
        current.reload(files).await;
        assert!(!Arc::ptr_eq(&request, &current.federation()));
        assert!(old.upgrade().is_some());
        drop(request);
        assert!(old.upgrade().is_none());
    }

    #[tokio::test]
    async fn unchanged_collection_is_reused_only_under_the_same_guard() {
        let one = "collections: {a: ./a.cdxj, b: ./b.cdxj, w: wacz+./w}";
        let (_dir, files, current) = start(one).await;
        let before = current.federation();
        let two = "collections: {b: ./b.cdxj, a: ./other.cdxj, w: wacz+./w, c: ./c.cdxj}";
        std::fs::write(files.config(), two).unwrap();
        let files = current.reload(files).await;
        let after = current.federation();
        let names: Vec<&str> = after.collections.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["b", "a", "w", "c"]);
        let same = |name, before: &Federation, after: &Federation| {
            let [before, after] = [before, after].map(|all| all.collection(name).unwrap().clone());
            Arc::ptr_eq(&before, &after)
        };
        for (name, stays) in [("a", false), ("b", true), ("w", true)] {
            assert_eq!(same(name, &before, &after), stays, "{name}");
        }
        assert!(Arc::ptr_eq(&before.net, &after.net));
        std::fs::write(files.config(), format!("{two}\nallow_private: [10.0.0.1]")).unwrap();
        current.reload(files).await;
        let guarded = current.federation();
        for name in names {
            assert!(!same(name, &after, &guarded), "{name}");
        }
        assert!(!Arc::ptr_eq(&after.net, &guarded.net));
    }

    const GOOD: &str = "com,example)/ - {\"access\": \"exclude\"}\n";
    const BAD: &str = "com,example)/ - {\"access\": \"hide\"}\n";

    /// Waits until a file has changed, with a generous timeout, and reloads.
    async fn reloaded(current: &Current, files: ConfigFiles, what: &str) -> ConfigFiles {
        let changed = tokio::time::timeout(std::time::Duration::from_secs(60), files.changed());
        assert!(changed.await.is_ok(), "no change was seen: {what}");
        current.reload(files).await
    }

    fn rules(current: &Current) -> usize {
        let federation = current.federation();
        let rules = federation
            .config
            .collections
            .iter()
            .flat_map(|one| &one.rules);
        rules.map(|rules| rules.len()).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn rules_file_is_watched_once_it_is_configured() {
        let (dir, files, current) = start("collections: {a: $live}").await;
        let rules_file = dir.path().join("rules.aclj");
        for wrong in [Some(BAD), None] {
            // The configuration names the rules file, but that file is invalid or missing.
            std::fs::write(files.config(), "collections: {a: $live}").unwrap();
            let mut files = current.reload(files.clone()).await;
            assert_eq!(rules(&current), 0);
            match wrong {
                Some(text) => std::fs::write(&rules_file, text).unwrap(),
                None => std::fs::remove_file(&rules_file).unwrap(),
            }
            let text = "collections: {a: {index: $live, acl_paths: ./rules.aclj}}";
            std::fs::write(files.config(), text).unwrap();
            files = reloaded(&current, files, "the configuration").await;
            assert!(current.reloads().failure.is_some());
            assert_eq!(rules(&current), 0);
            std::fs::write(&rules_file, GOOD).unwrap();
            reloaded(&current, files, "the corrected file").await;
            assert!(current.reloads().failure.is_none());
            assert_eq!(rules(&current), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rules_file_is_watched_once_it_appears_in_a_folder() {
        let (dir, mut files, current) = start("collections: {a: $live}").await;
        let folder = dir.path().join("acl");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("a.aclj"), GOOD).unwrap();
        let text = "collections: {a: {index: $live, acl_paths: ./acl}}";
        std::fs::write(files.config(), text).unwrap();
        files = current.reload(files).await;
        assert_eq!(rules(&current), 1);
        std::fs::write(folder.join("b.aclj"), BAD).unwrap();
        files = reloaded(&current, files, "the new file").await;
        assert!(current.reloads().failure.is_some());
        assert_eq!(rules(&current), 1);
        // A file whose content changes from one invalid version to another is still watched.
        std::fs::write(folder.join("b.aclj"), "wrong\n").unwrap();
        files = reloaded(&current, files, "the file that is still wrong").await;
        assert!(current.reloads().failure.is_some());
        std::fs::write(folder.join("b.aclj"), GOOD.replace("example", "other")).unwrap();
        reloaded(&current, files, "the corrected file").await;
        assert!(current.reloads().failure.is_none());
        assert_eq!(rules(&current), 2);
    }

    #[tokio::test]
    async fn invalid_configuration_changes_nothing() {
        let (_dir, files, current) = start("collections: {live: $live}").await;
        let before = current.federation();
        std::fs::write(files.config(), "collections: {live: $life}").unwrap();
        let files = current.reload(files).await;
        assert!(Arc::ptr_eq(&before, &current.federation()));
        let reloads = current.reloads();
        assert_eq!((reloads.succeeded, reloads.failed), (0, 1));
        let (_, reason) = reloads.failure.unwrap();
        assert!(reason.contains("config.yaml:1:21: "), "{reason}");
        std::fs::remove_file(files.config()).unwrap();
        current.reload(files).await;
        assert_eq!(current.reloads().failed, 2);
    }
}
