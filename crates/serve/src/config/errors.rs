//! Errors and warnings about a configuration, with positions.

use std::fmt;
use std::path::PathBuf;

/// Maximum number of errors and of warnings listed. Further errors are only counted, further warnings dropped.
const MAX_LISTED: usize = 100;

/// A position in the file: line and column, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// An error or warning about the configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Position in the file, or `None` if the remark is about the file as a whole.
    pub position: Option<Position>,
    /// Description of the problem, and how to fix it.
    pub what: String,
}

/// Errors of a configuration. Displayed with one line per error: `config.yaml:3:12: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// Path of the file as the user gave it.
    pub file: String,
    /// Errors, in the order of the file.
    pub errors: Vec<Remark>,
    /// Number of further errors that are not listed.
    pub more: usize,
    /// Files and folders that the server reads together with the configuration, as far as the configuration could be
    /// parsed. Correcting one of them may fix the errors.
    pub files: Vec<PathBuf>,
}

impl ConfigErrors {
    /// Creates an error about the whole file.
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
    /// Displays the remark with the name of its file.
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

/// Collects errors and warnings while the configuration is parsed.
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

    /// Records files and folders that the configuration names, before they are read.
    pub(crate) fn names(&mut self, files: Vec<PathBuf>) {
        self.files.extend(files);
    }

    /// Returns the value of a result, or records its error and returns `None`.
    pub(crate) fn take<T>(&mut self, position: Position, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|what| self.error(position, what)).ok()
    }

    /// Returns the parsed value with the warnings, or all errors if there are any.
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
