//! What was found whole before need not be read again, as long as the file system says that nobody touched it.
//!
//! All bytes of an entry are compared with its manifest when it is first opened. What the file system then says of
//! its files (inode, size, times of the last change of contents and of the inode) is remembered, in memory and in
//! `<entry>.seen`, so that whoever opens it next asks for just that. Any write changes these times, and the time of
//! the inode cannot be set back. That file's own time of change says when the entry was last used.

use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::with_end;

/// A file that was changed so shortly before it was looked at could be changed again without another time to show
/// for it: file systems tell times by ticks of some milliseconds.
const TICK: Duration = Duration::from_millis(50);
/// The same where times are told by whole seconds.
const COARSE: Duration = Duration::from_secs(2);

/// What the file system says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Stamp {
    pub fn of(file: &Metadata) -> Stamp {
        Stamp {
            dev: file.dev(),
            ino: file.ino(),
            size: file.size(),
            mtime: (file.mtime(), file.mtime_nsec()),
            ctime: (file.ctime(), file.ctime_nsec()),
        }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether a change at or after some moment could leave it as it is.
    fn may_hide_a_change(&self, since: Duration) -> bool {
        let (seconds, nanos) = self.ctime.max(self.mtime);
        let nanos = u32::try_from(nanos).unwrap_or(0);
        let changed = u64::try_from(seconds).map_or(Duration::ZERO, |s| Duration::new(s, nanos));
        let margin = if nanos == 0 { COARSE } else { TICK };
        changed + margin >= since
    }
}

/// What was true of the files of an entry when all their bytes were right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The checksum of the manifest.
    checksum: String,
    manifest: Stamp,
    files: Vec<Stamp>,
}

impl Seen {
    /// What is true of them now, before their bytes are looked at; none when one is missing.
    pub fn now(
        checksum: &str,
        manifest: Stamp,
        files: impl Iterator<Item = PathBuf>,
    ) -> Option<Seen> {
        let files: Option<_> = files
            .map(|path| fs::metadata(path).ok().map(|file| Stamp::of(&file)))
            .collect();
        Some(Seen {
            checksum: checksum.to_owned(),
            manifest,
            files: files?,
        })
    }

    /// Whether the manifest is still the one that was seen.
    pub fn is_of(&self, manifest: &Stamp) -> bool {
        self.manifest == *manifest
    }

    /// The stamps of the files.
    pub fn files(&self) -> &[Stamp] {
        &self.files
    }

    /// Whether every change since it was asked for would show. `asked` is from before.
    pub fn is_telling(&self, asked: SystemTime) -> bool {
        let asked = asked
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mut all = self.files.iter().chain([&self.manifest]);
        !all.any(|stamp| stamp.may_hide_a_change(asked))
    }

    /// What another process, or this one, has seen before. The file may say anything: it counts only if it is
    /// just what is true now.
    pub fn read(entry: &Path) -> Option<Seen> {
        let json = fs::read(with_end(entry, ".seen")).ok()?;
        serde_json::from_slice(&json).ok()
    }

    /// Remembers it for other processes, where that is possible. One that is cut off is as good as none.
    pub fn write(&self, entry: &Path) {
        let path = with_end(entry, ".seen");
        let _ = serde_json::to_vec(self).map(|json| fs::write(path, json));
    }
}

/// Says that an entry is used now.
pub(super) fn touch(entry: &Path) {
    let path = with_end(entry, ".seen");
    let file = OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|file: File| file.set_modified(SystemTime::now()));
}

/// When an entry was last used.
pub(crate) fn last_used(entry: &Path, manifest: &Path) -> Option<SystemTime> {
    let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    // Times in the future, after a clock was set back, count as now.
    let used = time(&with_end(entry, ".seen")).max(time(manifest))?;
    Some(used.min(SystemTime::now()))
}
