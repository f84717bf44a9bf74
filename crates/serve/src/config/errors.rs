//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Maximum number of errors listed, and of warnings. Further errors are only counted, further warnings dropped.
const MAX_LISTED: usize = 100;

/// A position in the file: line and column, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character of it.
    pub column: usize,
}

/// Something in the file, and what about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Where it is. None when it is about the file as a whole.
    pub position: Option<Position>,
    /// The reason, and what to do.
    pub what: String,
}

/// All that is wrong with a configuration. Its text has a line for each: `config.yaml:3:12: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, as it was named.
    pub file: String,
    /// The errors, in the order of the file.
    pub errors: Vec<Remark>,
    /// How many there are besides.
    pub more: usize,
    /// Files and folders that the configuration names and that are read with it, as far as it could be read: to correct one
    /// of them may be enough.
    pub files: Vec<PathBuf>,
}

impl ConfigErrors {
    /// One that is about the whole file.
    pub(super) fn of_file(file: &str, what: String) -> ConfigErrors {
        ConfigErrors {
            file: file.to_owned(),
            errors: vec![Remark {
                position: None,
                what,
            }],
            more: 0,
            files: Vec::new(),
        }
    }
}

impl Remark {
    /// With the file it is about.
    pub fn of<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        Located { file, remark: self }
    }
}

struct Located<'a> {
    file: &'a str,
    remark: &'a Remark,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remark.position {
            Some(Position { line, column }) => write!(f, "{}:{line}:{column}: ", self.file)?,
            None => write!(f, "{}: ", self.file)?,
        }
        f.write_str(&self.remark.what)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{}", error.of(&self.file))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more", self.file),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Errors and warnings as they are found.
#[derive(Default)]
pub(super) struct Findings {
    errors: Vec<Remark>,
    more: usize,
    warnings: Vec<Remark>,
    files: Vec<PathBuf>,
}

impl Findings {
    pub(crate) fn error(&mut self, position: Position, what: impl Into<String>) {
        if self.errors.len() < MAX_LISTED {
            self.errors.push(Remark {
                position: Some(position),
                what: what.into(),
            });
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn warning(&mut self, position: Position, what: impl Into<String>) {
        if self.warnings.len() < MAX_LISTED {
            self.warnings.push(Remark {
                position: Some(position),
                what: what.into(),
            });
        }
    }

    /// Notes files and folders that the configuration names, before they are read.
    pub(crate) fn names(&mut self, files: Vec<PathBuf>) {
        self.files.extend(files);
    }

    /// The value, or where it is wrong, an error in its place.
    pub(crate) fn take<T>(&mut self, position: Position, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|what| self.error(position, what)).ok()
    }

    /// What was made of it, with the warnings, unless something was wrong.
    pub(crate) fn end<T>(
        mut self,
        file: &str,
        made: Option<T>,
    ) -> Result<(T, Vec<Remark>), ConfigErrors> {
        self.errors.sort();
        self.errors.dedup();
        self.warnings.sort();
        self.warnings.dedup();
        match made {
            Some(made) if self.errors.is_empty() => Ok((made, self.warnings)),
            _ => Err(ConfigErrors {
                file: file.to_owned(),
                errors: self.errors,
                more: self.more,
                files: self.files,
            }),
        }
    }
}
