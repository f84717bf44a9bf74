//! `crawlspace completions` and `crawlspace man`: files for an installation.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::CommandLine;
use crate::terminal::at;

/// Print the completions for a shell.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace completions bash > ~/.local/share/bash-completion/completions/crawlspace
  crawlspace completions fish > ~/.config/fish/completions/crawlspace.fish")]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut CommandLine::command(),
            "crawlspace",
            &mut script,
        );
        io::stdout().write_all(&script)?;
        Ok(true)
    }
}

/// Write the manual pages, one for each command.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace man --out ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// The folder; created if it is missing.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: PathBuf,
}

impl Man {
    pub(crate) fn run(&self) -> io::Result<bool> {
        self.write().map_err(at(&self.out))?;
        Ok(true)
    }

    /// Writes the pages to a temporary folder, and moves them when all of them are complete.
    fn write(&self) -> io::Result<()> {
        fs::create_dir_all(&self.out)?;
        let new = tempfile::Builder::new()
            .prefix(".crawlspace-")
            .tempdir_in(&self.out)?;
        clap_mangen::generate_to(CommandLine::command(), new.path())?;
        for page in fs::read_dir(new.path())? {
            let page = page?;
            fs::rename(page.path(), self.out.join(page.file_name()))?;
        }
        Ok(())
    }
}
