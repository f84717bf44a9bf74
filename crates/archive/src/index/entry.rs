//! A file that a query is asked of.

use std::path::PathBuf;
use std::sync::Arc;

use crate::net::Net;
use crate::sorted::file::NamedFile;
use crate::wacz::Location;
use crate::zipnum::cluster::Cluster;

/// A file of a source.
#[derive(Debug)]
pub struct Entry {
    pub(crate) file: NamedFile,
    /// The cluster that it is the secondary index of, if it is one.
    pub(crate) cluster: Option<Arc<Cluster>>,
}

impl Entry {
    /// A file of sorted lines.
    pub(crate) fn plain(path: PathBuf) -> Entry {
        Entry {
            file: NamedFile::new(path),
            cluster: None,
        }
    }

    /// A cluster with that secondary index.
    pub(crate) fn clustered(path: PathBuf, net: Option<&Arc<Net>>) -> Entry {
        let index = Location::File(path.clone());
        Entry {
            cluster: Some(Arc::new(Cluster::new(&index, net))),
            file: NamedFile::new(path),
        }
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
        Entry { file, cluster }
    }
}
