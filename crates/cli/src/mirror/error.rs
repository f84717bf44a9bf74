//! Why a mirror could not be brought up to date.

use std::error::Error as _;
use std::{fmt, io};

use crawlspace_client::tags;

/// Why a mirror could not be brought up to date. Readers see what they saw before.
#[derive(Debug)]
pub enum Error {
    /// PostgreSQL cannot be reached, or refuses.
    #[allow(missing_docs)]
    Postgres {
        doing: String,
        cause: postgres::Error,
    },
    /// Redis cannot be reached, or refuses.
    Redis(tags::Error),
    /// A file cannot be read.
    #[allow(missing_docs)]
    File { name: String, cause: csv::Error },
    /// A row of the source is not an id with tags. The text names it.
    Row(String),
    /// Something that the caller asked for makes no sense.
    Setting(String),
    /// Another mirror keeps this space. The text says which.
    Held(String),
    /// The source is empty, and the space is not.
    Emptied {
        /// The ids that the space holds.
        ids: u64,
    },
    /// Another client changed what the mirror had written; the text says what.
    Disturbed(String),
    /// The caller wanted it to end.
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
            Error::Redis(error) => match error.word() {
                None => !error.is_connection(),
                Some(code) => !PASSING_CODES.contains(&code),
            },
            Error::Disturbed(_) => false,
            _ => true,
        }
    }
}

/// Errors of a Redis server in a bad moment: it starts, it fails over, its disk or memory is full.
const PASSING_CODES: [&str; 11] = [
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Postgres { doing, cause } => {
                write!(f, "{doing}: ")?;
                let Some(refusal) = cause.as_db_error() else {
                    // With its reasons, which it does not name itself.
                    let text = cause.to_string();
                    f.write_str(&text)?;
                    let mut source = cause.source();
                    while let Some(reason) = source {
                        let reason_text = reason.to_string();
                        if !text.contains(&reason_text) {
                            write!(f, ": {reason_text}")?;
                        }
                        source = reason.source();
                    }
                    return Ok(());
                };
                write!(f, "{}", refusal.message())?;
                if let Some(detail) = refusal.detail() {
                    write!(f, " ({detail})")?;
                }
                write!(f, " [{}]", refusal.code().code())
            }
            Error::Redis(error) => error.fmt(f),
            Error::File { name, cause } => write!(f, "{name}: {cause}"),
            Error::Row(text) | Error::Setting(text) | Error::Held(text) => f.write_str(text),
            Error::Emptied { ids } => write!(
                f,
                "the source has no tags at all, but the space holds {ids} ids: nothing was changed. If it is \
                 to be emptied, say --allow-empty"
            ),
            Error::Disturbed(text) => f.write_str(text),
            Error::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}

impl From<tags::Error> for Error {
    fn from(error: tags::Error) -> Error {
        Error::Redis(error)
    }
}
