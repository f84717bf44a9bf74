//! A file that a query is asked of.

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
    /// The cluster that it is the secondary index of, if it is one.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The spelling of its keys, as long as it has not been read.
    pub(super) spelled: Spelled,
    /// The number of the package that it is in, or 0.
    pub(crate) package: u64,
    /// The version of the package's file, if that is on this machine.
    pub(super) made_of: Option<FileVersion>,
    /// The file is not sorted, so that a query has to read all of it.
    pub(super) unsorted: bool,
    /// The version that these were found out of.
    pub(super) inspected: Mutex<Option<FileVersion>>,
    /// The result of reading all of it.
    pub(super) reading: Reading,
}

/// The spelling of the keys in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelled {
    /// Keys as here: every line was seen. Those whose maker spelled the key otherwise end with a blank.
    Here,
    /// Keys as here, as is usual in files of this kind: lines of one URL are looked for under other keys, too, and lines of many
    /// are taken as they are.
    Probably,
    /// Keys of any spelling.
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

    /// Returns the version of a file that was inspected; `None` of one that is always the same.
    pub(super) fn version(&self) -> Option<FileVersion> {
        *self
            .inspected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it is not of a package whose file is another one now, or gone.
    pub(super) fn is_current(&self) -> bool {
        self.made_of.is_none_or(|version| {
            let metadata = std::fs::metadata(self.file.path());
            metadata.is_ok_and(|metadata| FileVersion::of(&metadata) == version)
        })
    }

    /// Returns the version that a file has now; `None` of one that is always the same.
    pub(super) fn current_version(&self) -> Option<FileVersion> {
        self.version()?;
        let metadata = std::fs::metadata(self.file.path()).ok()?;
        Some(FileVersion::of(&metadata))
    }

    /// Returns whether all of it can be read on this machine without much ado: a sorted file, or the index of a package.
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

    /// Notes that a version of the file was inspected, with the same outcome.
    pub(super) fn note_inspected(&self, version: FileVersion) {
        *self
            .inspected
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(version);
    }

    /// Returns whether another entry of the same file would be read in the same way.
    pub(super) fn is_like(&self, other: &Entry) -> bool {
        fn hinted(entry: &Entry) -> Option<(bool, &str)> {
            let cluster = entry.cluster.as_ref()?;
            Some((cluster.is_hinted(), cluster.part()))
        }
        self.spelled == other.spelled
            && self.unsorted == other.unsorted
            && hinted(self) == hinted(other)
    }

    /// Returns the entry of a file of this machine as its inspection tells.
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

    /// A file of sorted lines.
    pub(crate) fn plain(path: PathBuf) -> Entry {
        Entry::new(NamedFile::new(path), None, Spelled::Probably)
    }

    /// A cluster with that secondary index.
    pub(crate) fn clustered(path: PathBuf, net: Option<&Arc<Net>>) -> Entry {
        let index = Location::File(path.clone());
        let cluster = Arc::new(Cluster::new(&index, net));
        Entry::new(NamedFile::new(path), Some(cluster), Spelled::Probably)
    }

    /// A file on a server, sorted lines or the secondary index of a cluster.
    pub(super) fn remote(location: &Location, is_clustered: bool, net: Option<&Arc<Net>>) -> Entry {
        let file = match (location, net) {
            (Location::Url(url), Some(net)) => NamedFile::remote(net.file(url)),
            _ => {
                let path = PathBuf::from(location.to_string());
                NamedFile::broken(path, format!("{location}: it is on a server"))
            }
        };
        let cluster = is_clustered.then(|| Arc::new(Cluster::new(location, net)));
        Entry::new(file, cluster, Spelled::Probably)
    }
}
