//! Errors of a mirror.

use std::error::Error as _;
use std::io;

use crawlspace_client::tags;

/// Error of a mirror. Readers see the state before the error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL is unreachable or refuses a request.
    #[allow(missing_docs)]
    #[error("{doing}: {}", reason(cause))]
    Postgres {
        doing: String,
        cause: postgres::Error,
    },
    /// Redis is unreachable or refuses a command.
    #[error("{0}")]
    Redis(#[from] tags::Error),
    /// A file cannot be read.
    #[allow(missing_docs)]
    #[error("{name}: {cause}")]
    File { name: String, cause: csv::Error },
    /// A row of the source is not an id with tags. The text names the row.
    #[error("{0}")]
    Row(String),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// Another mirror holds the lock of this space. The text names that mirror.
    #[error("{0}")]
    Held(String),
    /// The source is empty, but the space is not.
    #[error(
        "the source has no tags at all, but the space holds {ids} ids: nothing was changed. To empty the space, \
         pass --allow-empty"
    )]
    Emptied {
        /// Number of ids in the space.
        ids: u64,
    },
    /// Another client changed data that the mirror had written; the text describes the change.
    #[error("{0}")]
    Disturbed(String),
    /// The caller stopped the mirror.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(super) fn postgres(doing: impl Into<String>) -> impl FnOnce(postgres::Error) -> Error {
        let doing = doing.into();
        move |cause| Error::Postgres { doing, cause }
    }

    /// Returns true if retries cannot succeed until an operator fixes the cause.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Error::Postgres { cause, .. } => is_lasting(cause),
            Error::Redis(error) => {
                let is_refused = || {
                    error
                        .word()
                        .is_some_and(|word| REFUSED_FOR_NOW.contains(&word))
                };
                !error.is_transient() && !is_refused()
            }
            Error::Disturbed(_) => false,
            _ => true,
        }
    }
}

/// Errors of a Redis server that an operator or another client resolves without changing the mirror: its disk or memory
/// is full, or it has become a replica.
const REFUSED_FOR_NOW: [&str; 7] = [
    "READONLY",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "EXECABORT",
    "NOSTAGE",
];

/// SQLSTATE classes of lasting errors: missing feature, bad data, read-only server, wrong password, unknown database or
/// schema, invalid query or missing privilege.
const LASTING_CLASSES: [&str; 7] = ["0A", "22", "25", "28", "3D", "3F", "42"];

fn is_lasting(cause: &postgres::Error) -> bool {
    if let Some(state) = cause.code() {
        let code = state.code();
        return LASTING_CLASSES.iter().any(|class| code.starts_with(class));
    }
    let mut source = cause.source();
    while let Some(error) = source {
        // An untrusted certificate is also reported as an I/O error.
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::InvalidData;
        }
        source = error.source();
    }
    !cause.is_closed()
}

/// Returns PostgreSQL's error message, or the reason why it cannot be queried.
fn reason(cause: &postgres::Error) -> String {
    if let Some(refusal) = cause.as_db_error() {
        let detail = refusal.detail().map(|detail| format!(" ({detail})"));
        let (message, code) = (refusal.message(), refusal.code().code());
        return format!("{message}{} [{code}]", detail.unwrap_or_default());
    }
    // Add the underlying causes, which the error itself does not show.
    let text = cause.to_string();
    let mut all = text.clone();
    let mut source = cause.source();
    while let Some(reason) = source {
        let reason_text = reason.to_string();
        if !text.contains(&reason_text) {
            all = format!("{all}: {reason_text}");
        }
        source = reason.source();
    }
    all
}
