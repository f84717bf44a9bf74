//! A file that queries search.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::directory::reading::Reading;
use crate::sorted::disorder::{Flaw, Inspection};
use crate::sorted::file::{FileVersion, NamedFile};
use crate::zipnum::cluster::Cluster;
use crawlspace_fetch::Net;
use crawlspace_wacz::Location;

/// A file of a source.
#[derive(Debug)]
pub struct Entry {
    pub(crate) file: NamedFile,
    /// The cluster whose secondary index this file is, if any.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The form of the keys, until the file has been read.
    pub(super) spelled: Spelled,
    /// Number of the package that contains the file, or 0.
    pub(crate) package: u64,
    /// The version of the package file, if the package is local.
    pub(super) made_of: Option<FileVersion>,
    /// True if the file is not sorted. Each query then reads all of it.
    pub(super) unsorted: bool,
    /// The version of the file that the inspection examined.
    pub(super) inspected: Mutex<Option<FileVersion>>,
    /// The result of reading the whole file for the directory.
    pub(super) reading: Reading,
}

/// The form of the keys in a file (see [`spelling`](crate::spelling)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelled {
    /// Only urlkeys: every line was checked. A trailing blank marks lines whose key was replaced by the urlkey.
    Here,
    /// The keys are expected to be urlkeys, as usual in files of this kind. Queries for one URL also
    /// look up the keys of the URL in other forms; queries for many URLs use the lines unchanged.
    Probably,
    /// The keys may have any form.
    Somehow,
}

impl Entry {
    pub(super) fn new(file: NamedFile, cluster: Option<Arc<Cluster>>, spelled: Spelled) -> Entry {
        Entry {
            file,
            cluster,
            spelled,
            package: 0,
            made_of: None,
            unsorted: false,
            inspected: Mutex::default(),
            reading: Reading::default(),
        }
    }

    /// Returns the version of the file that was inspected; `None` for a file that never changes.
    pub(super) fn version(&self) -> Option<FileVersion> {
        *self
            .inspected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns false if the file is in a package that was replaced or removed.
    pub(super) fn is_current(&self) -> bool {
        self.made_of.is_none_or(|version| {
            let metadata = std::fs::metadata(self.file.path());
            metadata.is_ok_and(|metadata| FileVersion::of(&metadata) == version)
        })
    }

    /// Returns the current version of the file; `None` for a file that never changes.
    pub(super) fn current_version(&self) -> Option<FileVersion> {
        self.version()?;
        let metadata = std::fs::metadata(self.file.path()).ok()?;
        Some(FileVersion::of(&metadata))
    }

    /// Returns whether the whole file is cheap to read on this machine: a sorted file, or the index of a package.
    pub(super) fn is_here_to_read(&self) -> bool {
        let cluster = self.cluster.as_ref();
        !self.unsorted
            && !self.file.is_remote()
            && cluster.is_none_or(|cluster| cluster.is_part_of_file())
    }

    /// Returns whether a version of the file has been inspected.
    pub(super) fn was_inspected(&self, version: FileVersion) -> bool {
        *self
            .inspected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            == Some(version)
    }

    /// Records that another version of the file was inspected with the same outcome.
    pub(super) fn note_inspected(&self, version: FileVersion) {
        *self
            .inspected
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// Returns whether another entry is for the same file and reads it in the same way.
    pub(super) fn is_like(&self, other: &Entry) -> bool {
        fn hinted(entry: &Entry) -> Option<(bool, &str)> {
            let cluster = entry.cluster.as_ref()?;
            Some((cluster.is_hinted(), cluster.part()))
        }
        self.spelled == other.spelled
            && self.unsorted == other.unsorted
            && hinted(self) == hinted(other)
    }

    /// Creates the entry of a local file from the result of its inspection.
    pub(super) fn inspected(
        path: PathBuf,
        is_clustered: bool,
        version: FileVersion,
        found: &Inspection,
        net: Option<&Arc<Net>>,
    ) -> Entry {
        let mut entry = Entry::plain(path.clone());
        if is_clustered {
            let cluster = Cluster::new(&Location::File(path), net);
            let cluster = if found.is_hinted {
                cluster.hinted(found.part.as_deref())
            } else {
                cluster
            };
            entry.cluster = Some(Arc::new(cluster));
        }
        if found.is_respelled {
            entry.spelled = Spelled::Somehow;
        }
        entry.unsorted = matches!(found.flaw, Some(Flaw::Unsorted(_)));
        entry.note_inspected(version);
        entry
    }

    /// Creates the entry of a sorted local file.
    pub(crate) fn plain(path: PathBuf) -> Entry {
        Entry::new(NamedFile::new(path), None, Spelled::Probably)
    }

    /// Creates the entry of a cluster from the path of its secondary index.
    pub(crate) fn clustered(path: PathBuf, net: Option<&Arc<Net>>) -> Entry {
        let index = Location::File(path.clone());
        let cluster = Arc::new(Cluster::new(&index, net));
        Entry::new(NamedFile::new(path), Some(cluster), Spelled::Probably)
    }

    /// Creates the entry of a file on a server: sorted lines, or the secondary index of a cluster.
    pub(super) fn remote(location: &Location, is_clustered: bool, net: Option<&Arc<Net>>) -> Entry {
        let file = match (location, net) {
            (Location::Url(url), Some(net)) => NamedFile::remote(net.file(url)),
            _ => {
                let path = PathBuf::from(location.to_string());
                NamedFile::broken(
                    path,
                    format!("{location}: files on servers are not supported here"),
                )
            }
        };
        let cluster = is_clustered.then(|| Arc::new(Cluster::new(location, net)));
        Entry::new(file, cluster, Spelled::Probably)
    }
}
