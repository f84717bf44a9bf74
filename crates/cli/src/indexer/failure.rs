//! Reasons why the work on a package ended early.

use crawlspace_client::Code;
use crawlspace_client::dedupe::feed::Refused;
use crawlspace_wacz as wacz;

/// Reason why a package was not finished.
pub(super) enum Failure {
    /// The package is faulty. `partly` is true if some of its records were added.
    Package { reason: String, partly: bool },
    /// Another importer took the package over.
    Lost,
    /// The package's crawl was removed after its responses were added.
    Gone,
    /// The import is stopped.
    Stopped,
    /// The index returns an error, or cannot be reached.
    Index(crawlspace_client::Error),
}

impl Failure {
    /// Marks a faulty package as partly added.
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
            // The server does not accept the package's crawl.
            Some(Code::BadCrawl | Code::Removing | Code::Canceled) => Failure::Package {
                reason: error.to_string(),
                partly: false,
            },
            _ => Failure::Index(error),
        }
    }
}
