//! Why a mirror could not be brought up to date.

use std::error::Error as _;
use std::io;

use crawlspace_client::tags;

/// Why a mirror could not be brought up to date. Readers see what they saw before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL cannot be reached, or refuses.
    #[allow(missing_docs)]
    #[error("{doing}: {}", reason(cause))]
    Postgres {
        doing: String,
        cause: postgres::Error,
    },
    /// Redis cannot be reached, or refuses.
    #[error("{0}")]
    Redis(#[from] tags::Error),
    /// A file cannot be read.
    #[allow(missing_docs)]
    #[error("{name}: {cause}")]
    File { name: String, cause: csv::Error },
    /// A row of the source is not an id with tags. The text names it.
    #[error("{0}")]
    Row(String),
    /// Something that the caller asked for makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Another mirror keeps this space. The text says which.
    #[error("{0}")]
    Held(String),
    /// The source is empty, and the space is not.
    #[error(
        "the source has no tags at all, but the space holds {ids} ids: nothing was changed. If it is to be emptied, \
         say --allow-empty"
    )]
    Emptied {
        /// The ids that the space holds.
        ids: u64,
    },
    /// Another client changed what the mirror had written; the text says what.
    #[error("{0}")]
    Disturbed(String),
    /// The caller wanted it to end.
    #[error("stopped")]
    Stopped,
}

impl Error {
    pub(super) fn postgres(doing: impl Into<String>) -> impl FnOnce(postgres::Error) -> Error {
        let doing = doing.into();
        move |cause| Error::Postgres { doing, cause }
    }

    /// Whether a retry is of no use until an operator has repaired something.
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

/// Errors of a Redis server that an operator or another client ends without a change of the mirror: its disk or memory
/// is full, it has become a replica.
const REFUSED_FOR_NOW: [&str; 7] = [
    "READONLY",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "EXECABORT",
    "NOSTAGE",
];

/// Classes of SQLSTATE that stay as they are: a feature that is not there, bad data, a read-only server, wrong
/// password, no such database or schema, wrong query or no right to it.
const LASTING_CLASSES: [&str; 7] = ["0A", "22", "25", "28", "3D", "3F", "42"];

fn is_lasting(cause: &postgres::Error) -> bool {
    if let Some(state) = cause.code() {
        let code = state.code();
        return LASTING_CLASSES.iter().any(|class| code.starts_with(class));
    }
    let mut source = cause.source();
    while let Some(error) = source {
        // A certificate that is not trusted is an error of this kind as well.
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::InvalidData;
        }
        source = error.source();
    }
    !cause.is_closed()
}

/// What PostgreSQL says, or what keeps it from being asked.
fn reason(cause: &postgres::Error) -> String {
    if let Some(refusal) = cause.as_db_error() {
        let detail = refusal.detail().map(|detail| format!(" ({detail})"));
        let (message, code) = (refusal.message(), refusal.code().code());
        return format!("{message}{} [{code}]", detail.unwrap_or_default());
    }
    // With its reasons, which it does not name itself.
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
