//! `crawlspace config …`: checks and prints configurations.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};
use crawlspace_index::{Checked, Choice, WarcFolder};
use crawlspace_serve::config::{self, Secrets, SourceKind};
use crawlspace_wacz::Location;

use crate::table::many;
use crate::terminal::{complain, say};

#[derive(Subcommand)]
pub(crate) enum Config {
    Show(Show),
    Check(Check),
}

/// Print a configuration in its full form.
///
/// Every short form is expanded, paths are absolute, and every source has its name and its timeout. The output is
/// equivalent to the file.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace config show config.yaml")]
pub(crate) struct Show {
    #[command(flatten)]
    file: File,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    /// Print the passwords in URLs instead of ***.
    #[arg(long)]
    secrets: bool,
}

/// Check a configuration: print OK, or its errors.
///
/// Each error has its file, line and column. Index files and packages on this machine are checked: an unsupported
/// format is an error; a missing or damaged file is a warning, because a source may be added later. Servers are not
/// contacted.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace config check config.yaml")]
pub(crate) struct Check {
    #[command(flatten)]
    file: File,
}

#[derive(Args)]
struct File {
    /// The configuration: a file of YAML.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

impl Config {
    pub(crate) fn run(&self) -> io::Result<bool> {
        run_one!(self, Config: Show Check)
    }
}

impl Show {
    fn run(&self) -> io::Result<bool> {
        let Some(config) = self.file.read() else {
            return Ok(false);
        };
        let secrets = if self.secrets {
            Secrets::Shown
        } else {
            Secrets::Masked
        };
        let text = if self.json {
            config.to_json(secrets)
        } else {
            config.to_yaml(secrets)
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(true)
    }
}

impl Check {
    fn run(&self) -> io::Result<bool> {
        match self.file.read() {
            Some(config) => {
                let mut out = io::stdout().lock();
                for collection in &config.collections {
                    if let Some(rules) = &collection.rules {
                        let rules = many(rules.len() as u64, "access rule");
                        writeln!(out, "{}: {rules}", collection.name)?;
                    }
                }
                if !are_read(&config) {
                    return Ok(false);
                }
                if config.hosts.is_empty() {
                    let file = self.file.file.display();
                    say(format_args!(
                        "{file}: note: hosts is not set: if --bind is not a loopback address, requests may name any host"
                    ));
                }
                writeln!(out, "OK").map(|()| true)
            }
            None => Ok(false),
        }
    }
}

/// Checks the index files of all sources. Returns true if all of them have a readable format.
fn are_read(config: &config::Config) -> bool {
    let mut all = true;
    for collection in &config.collections {
        let sources = collection.steps.iter().flat_map(|step| &step.sources);
        for source in sources {
            if let SourceKind::Warc { path, cache_dir } = &source.kind {
                for warning in WarcFolder::check(path, cache_dir.as_deref()) {
                    say(format_args!("{}: {warning} (warning)", source.name));
                }
            }
            let (location, choice) = match &source.kind {
                SourceKind::File { path } => (path, Choice::All),
                SourceKind::ZipNum { path } => (path, Choice::Clusters),
                SourceKind::Wacz { path } => (path, Choice::Packages),
                _ => continue,
            };
            let Location::File(path) = location else {
                continue;
            };
            let path = path.to_string_lossy().replace("{coll}", &collection.name);
            let checked = Checked::of(Path::new(&path), choice);
            for warning in checked.warnings {
                say(format_args!("{}: {warning} (warning)", source.name));
            }
            for error in checked.errors {
                say(format_args!("{}: {error}", source.name));
                all = false;
            }
        }
    }
    all
}

impl File {
    /// Reads the configuration. Errors and warnings are printed on standard error.
    fn read(&self) -> Option<config::Config> {
        read(&self.file, |warning| {
            say(format_args!("{warning} (warning)"))
        })
    }
}

/// Reads a configuration. Errors are printed on standard error, warnings are passed to `warn`.
pub(crate) fn read(file: &Path, warn: impl Fn(String)) -> Option<config::Config> {
    match config::Config::read(file) {
        Ok((config, warnings)) => {
            let name = file.display().to_string();
            for warning in &warnings {
                warn(warning.of(&name).to_string());
            }
            Some(config)
        }
        Err(errors) => {
            for error in &errors.errors {
                say(error.of(&errors.file));
            }
            if errors.more > 0 {
                complain(format_args!("and {} more errors", errors.more));
            }
            None
        }
    }
}
