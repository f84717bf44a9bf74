//! Why the work on a package ended early.

use crawlspace_client::Code;
use crawlspace_client::dedupe::feed::Refused;
use crawlspace_wacz as wacz;

/// Why a package was not finished.
pub(super) enum Failure {
    /// The package is at fault. `partly`: some of its records are in.
    Package { reason: String, partly: bool },
    /// Another importer has it.
    Lost,
    /// The package's crawl was removed since its responses were added.
    Gone,
    /// The import is stopped.
    Stopped,
    /// The index refuses, or cannot be reached.
    Index(crawlspace_client::Error),
}

impl Failure {
    /// Marks a package that is at fault when some of its records are in.
    pub(super) fn in_the_middle(self) -> Failure {
        match self {
            Failure::Package { reason, .. } => Failure::Package {
                reason,
                partly: true,
            },
            other => other,
        }
    }
}

impl From<wacz::Error> for Failure {
    fn from(error: wacz::Error) -> Failure {
        Failure::Package {
            reason: error.to_string(),
            partly: false,
        }
    }
}

impl From<Refused> for Failure {
    fn from(_: Refused) -> Failure {
        Failure::Stopped
    }
}

impl From<crawlspace_client::Error> for Failure {
    fn from(error: crawlspace_client::Error) -> Failure {
        match error.code() {
            // It is the package's crawl that the server does not take.
            Some(Code::BadCrawl | Code::Removing | Code::Canceled) => Failure::Package {
                reason: error.to_string(),
                partly: false,
            },
            _ => Failure::Index(error),
        }
    }
}
