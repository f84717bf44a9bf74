//! The files that a configuration is read from, and whether they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::config::{Config, ConfigErrors};

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// Device, inode and size, and in seconds and nanoseconds when the content was written, and when anything else about
/// the file was changed; `None` when there is no such file.
type Version = Option<(u64, u64, u64, (i64, i64), (i64, i64))>;

/// The files that a configuration is read from, as they were just before they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFiles {
    config: (PathBuf, Version),
    /// Those that the configuration names.
    named: Vec<(PathBuf, Version)>,
}

impl ConfigFiles {
    /// Looks at the file of a configuration, which is to be read after that.
    pub fn of(config: PathBuf) -> ConfigFiles {
        ConfigFiles {
            config: looked_at(config),
            named: Vec::new(),
        }
    }

    /// Looks at the files that the configuration names and that were read with it. Those that it named before stay as
    /// they were before they were read again.
    pub fn look(&mut self, config: &Config) {
        let before = std::mem::take(&mut self.named);
        let named = config.files().into_iter().map(|path| {
            let known = before.iter().find(|(known, _)| known == path);
            known.cloned().unwrap_or_else(|| looked_at(path.to_owned()))
        });
        self.named = named.collect();
    }

    /// Looks at the files that a configuration names which cannot be used, too: it may be one of them that is corrected.
    /// Those that were named before stay, since errors hide further names.
    pub(super) fn look_also(&mut self, errors: &ConfigErrors) {
        for path in &errors.files {
            if !self.named.iter().any(|(known, _)| known == path) {
                self.named.push(looked_at(path.clone()));
            }
        }
    }

    /// The file of the configuration itself.
    pub fn config(&self) -> &Path {
        &self.config.0
    }

    /// Looks at all of them again.
    pub(super) async fn again(&self) -> ConfigFiles {
        let files = self.clone();
        let again = spawn_blocking(move || ConfigFiles {
            config: looked_at(files.config.0),
            named: files
                .named
                .into_iter()
                .map(|(path, _)| looked_at(path))
                .collect(),
        });
        // It fails when the server ends.
        again.await.unwrap_or_else(|_| self.clone())
    }

    /// Waits until any of them is another than it was, and all of them were the same at two looks in a row: what is
    /// still being written is not read.
    pub async fn changed(&self) {
        let mut last = self.clone();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let now = self.again().await;
            if now == last && now != *self {
                return;
            }
            last = now;
        }
    }
}

fn looked_at(path: PathBuf) -> (PathBuf, Version) {
    let version = fs::metadata(&path).ok().map(|file| {
        let written = (file.mtime(), file.mtime_nsec());
        let changed = (file.ctime(), file.ctime_nsec());
        (file.dev(), file.ino(), file.size(), written, changed)
    });
    (path, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_keeps_changing_is_left_alone_until_it_settles() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, "a").unwrap();
        let files = ConfigFiles::of(path.clone());
        let mut changed = Box::pin(files.changed());
        // It is written in the middle between two looks, each time.
        let mut wait = INTERVAL / 2;
        for size in 2..12 {
            fs::write(&path, "a".repeat(size)).unwrap();
            let early = tokio::time::timeout(wait, &mut changed).await;
            assert!(early.is_err(), "it was read while it was written");
            wait = INTERVAL;
        }
        changed.await;
        assert_ne!(files.again().await, files);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_as_it_was_read_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let absent = ConfigFiles::of(path.clone());
        fs::write(&path, "a").unwrap();
        let there = ConfigFiles::of(path.clone());
        for (files, changes) in [(absent, true), (there, false)] {
            let changed = tokio::time::timeout(60 * INTERVAL, files.changed()).await;
            assert_eq!(changed.is_ok(), changes);
        }
        // Another file of the same size takes its place.
        let there = ConfigFiles::of(path.clone());
        fs::write(dir.path().join("new"), "b").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        there.changed().await;
    }
}
