//! What was found whole before need not be read again, as long as the file system says that nobody touched it.
//!
//! All bytes of an entry are compared with its manifest when it is first opened. What the file system then says of
//! its files (inode, size, times of the last change of contents and of the inode) is remembered, in memory and in
//! `<entry>.seen`, so that whoever opens it next asks for just that. Any write changes these times, and the time of
//! the inode cannot be set back. That file's own time of change says when the entry was last used.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{open_file, plain, with_end};

/// Margin within which two changes of a file may have the same time, where the file system keeps fractions of a
/// second: its clock moves in ticks of some milliseconds.
const TICK: Duration = Duration::from_millis(50);
/// Margin within which two changes of a file may have the same time, where the file system keeps whole seconds.
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
    pub(crate) fn of(file: &Metadata) -> Stamp {
        Stamp {
            dev: file.dev(),
            ino: file.ino(),
            size: file.size(),
            mtime: (file.mtime(), file.mtime_nsec()),
            ctime: (file.ctime(), file.ctime_nsec()),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is that of this file, in whatever state.
    pub(crate) fn is_of_same_file(&self, file: &Metadata) -> bool {
        (self.dev, self.ino) == (file.dev(), file.ino())
    }

    /// Whether a change after it was made could leave it as it is: the last one that shows was at about that time, which
    /// is somewhere from `asked` to `looked`. Times far off, of a clock that was set since, hide nothing: now is another
    /// time.
    fn may_hide_a_change(&self, asked: Duration, looked: Duration) -> bool {
        [self.ctime, self.mtime]
            .into_iter()
            .any(|(seconds, nanos)| {
                let nanos = u32::try_from(nanos).unwrap_or(0);
                let seconds = u64::try_from(seconds).unwrap_or(0);
                let margin = if nanos == 0 { COARSE } else { TICK };
                let changed =
                    Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()));
                changed.saturating_add(margin) >= asked && changed <= looked.saturating_add(margin)
            })
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
    pub(crate) fn now(
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
    pub(crate) fn is_of(&self, manifest: &Stamp) -> bool {
        self.manifest == *manifest
    }

    /// The stamps of the files.
    pub(crate) fn files(&self) -> &[Stamp] {
        &self.files
    }

    /// Whether every change since it was asked for would show: `asked` is from before, `looked` from after.
    pub(crate) fn is_telling(&self, asked: SystemTime, looked: SystemTime) -> bool {
        let since_1970 = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or_default()
        };
        let (asked, looked) = (since_1970(asked), since_1970(looked));
        let mut all = self.files.iter().chain([&self.manifest]);
        // A clock that is set back just now says nothing.
        asked <= looked && !all.any(|stamp| stamp.may_hide_a_change(asked, looked))
    }

    /// What another process, or this one, has seen before. The file may say anything: it counts only if it is
    /// just what is true now.
    pub(crate) fn read(entry: &Path) -> Option<Seen> {
        let file = open_file(&with_end(entry, ".seen")).ok()?;
        serde_json::from_reader(BufReader::new(file)).ok()
    }

    /// Remembers it for other processes, where that is possible. One that is cut off is as good as none.
    pub(crate) fn write(&self, entry: &Path) {
        let path = with_end(entry, ".seen");
        let file = plain(File::options().create(true).write(true).truncate(true)).open(path);
        let json = serde_json::to_vec(self).map_err(io::Error::from);
        let _ = file.and_then(|mut file| file.write_all(&json?));
    }
}

/// Says that an entry is used now.
pub(super) fn touch(entry: &Path) {
    let path = with_end(entry, ".seen");
    let file = plain(File::options().create(true).append(true)).open(path);
    let _ = file.and_then(|file: File| file.set_modified(SystemTime::now()));
}

/// When an entry was last used. A time in the future, from before a clock was set back, counts as now, and is set to
/// that: otherwise it would count as now for ever.
pub(crate) fn last_used(entry: &Path, manifest: &Path) -> Option<SystemTime> {
    let now = SystemTime::now();
    let time = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    let (seen, made) = (time(&with_end(entry, ".seen")), time(manifest));
    if seen.or(made)? > now {
        touch(entry);
        return Some(now);
    }
    let past = |time: &SystemTime| *time <= now;
    seen.filter(past).max(made.filter(past))
}
