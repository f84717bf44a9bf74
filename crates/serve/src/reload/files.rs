//! The files of a configuration, watched for changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::config::{Config, ConfigErrors};

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Version of a file: device, inode, size, mtime and ctime (in seconds and nanoseconds); `None` if the file does not
/// exist.
type Version = Option<(u64, u64, u64, (i64, i64), (i64, i64))>;

/// The files of a configuration, with their versions just before they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFiles {
    config: (PathBuf, Version),
    /// Files named by the configuration.
    named: Vec<(PathBuf, Version)>,
}

impl ConfigFiles {
    /// Records the version of a configuration file. The caller must read the file after this call.
    pub fn of(config: PathBuf) -> ConfigFiles {
        ConfigFiles {
            config: looked_at(config),
            named: Vec::new(),
        }
    }

    /// Records the versions of the files that the configuration names. Files that were already
    /// named keep the versions recorded before they were read.
    pub fn look(&mut self, config: &Config) {
        let before = std::mem::take(&mut self.named);
        let named = config.files().into_iter().map(|path| {
            let known = before.iter().find(|(known, _)| known == path);
            known.cloned().unwrap_or_else(|| looked_at(path.to_owned()))
        });
        self.named = named.collect();
    }

    /// Also records the files that an invalid configuration names, since correcting one of them may
    /// fix it. Files named by the previous configuration are kept, because the parser may stop at
    /// an error before it reaches their names.
    pub(super) fn look_also(&mut self, errors: &ConfigErrors) {
        for path in &errors.files {
            if !self.named.iter().any(|(known, _)| known == path) {
                self.named.push(looked_at(path.clone()));
            }
        }
    }

    /// Returns the path of the configuration file.
    pub fn config(&self) -> &Path {
        &self.config.0
    }

    /// Returns the current versions of all files.
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
        // Awaiting the blocking task fails only if the runtime is shutting down.
        again.await.unwrap_or_else(|_| self.clone())
    }

    /// Waits until any file has changed and all files have the same version in two successive polls, so that
    /// half-written files are not read.
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
    async fn file_that_keeps_changing_is_ignored_until_it_settles() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, "a").unwrap();
        let files = ConfigFiles::of(path.clone());
        let mut changed = Box::pin(files.changed());
        // Write the file in the middle of each polling interval.
        let mut wait = INTERVAL / 2;
        for size in 2..12 {
            fs::write(&path, "a".repeat(size)).unwrap();
            let early = tokio::time::timeout(wait, &mut changed).await;
            assert!(
                early.is_err(),
                "the file was read while it was being written"
            );
            wait = INTERVAL;
        }
        changed.await;
        assert_ne!(files.again().await, files);
    }

    #[tokio::test(start_paused = true)]
    async fn unchanged_file_is_no_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let absent = ConfigFiles::of(path.clone());
        fs::write(&path, "a").unwrap();
        let there = ConfigFiles::of(path.clone());
        for (files, changes) in [(absent, true), (there, false)] {
            let changed = tokio::time::timeout(60 * INTERVAL, files.changed()).await;
            assert_eq!(changed.is_ok(), changes);
        }
        // Replaces the file by another one of the same size.
        let there = ConfigFiles::of(path.clone());
        fs::write(dir.path().join("new"), "b").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        there.changed().await;
    }
}
