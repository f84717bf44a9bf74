//! `crawlspace tags filter`: prints the lines of a file that pass.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use crawlspace_client::tags::{Error, Filter};

use super::{Conditions, Space, failed};

/// Maximum number of bytes sent in one call.
const BATCH: usize = 1 << 20;

#[derive(Args)]
pub(crate) struct FilterLines {
    #[command(flatten)]
    space: Space,
    #[command(flatten)]
    conditions: Conditions,
    /// Skip invalid lines, which are an error otherwise.
    #[arg(long)]
    drop_bad_lines: bool,
    /// The file; standard input when it is - or not given.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl FilterLines {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let input: Box<dyn BufRead> = if self.file.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            match File::open(&self.file) {
                Ok(file) => Box::new(BufReader::with_capacity(BATCH, file)),
                Err(error) => {
                    let named = format!("{}: {error}", self.file.display());
                    return failed(&io::Error::other(named));
                }
            }
        };
        let filter = Filter {
            drop_bad_lines: self.drop_bad_lines,
            ..self.conditions.filter()
        };
        self.pass(input, &filter)
    }

    fn pass(&self, mut input: Box<dyn BufRead>, filter: &Filter<'_>) -> io::Result<bool> {
        let space = match self.space.open() {
            Ok(space) => space,
            Err(error) => return failed(&error),
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let mut batch = Vec::new();
        let mut before = 0;
        loop {
            let lines = fill(&mut input, &mut batch)?;
            // Send the batch even for an empty file, so that the server checks the conditions.
            if lines == 0 && before > 0 {
                break;
            }
            match space.filter_blob(filter, &batch) {
                Ok(kept) => {
                    // The server rejects a header with another order of columns.
                    let header = if before == 0 { header(&batch) } else { 0 };
                    out.write_all(&batch[..header])?;
                    out.write_all(&kept)?;
                }
                Err(error) => {
                    out.flush()?;
                    return failed(&io::Error::other(with_line(&error, before)));
                }
            }
            before += lines;
            if lines == 0 {
                break;
            }
        }
        out.flush()?;
        Ok(true)
    }
}

/// Reads the next complete lines, and returns their number.
fn fill(input: &mut dyn BufRead, batch: &mut Vec<u8>) -> io::Result<u64> {
    batch.clear();
    let mut lines = 0;
    while batch.len() < BATCH && input.read_until(b'\n', batch)? > 0 {
        lines += 1;
    }
    Ok(lines)
}

/// Returns the length of the header line that names the columns. Without it the output would not be a CDX
/// file.
fn header(batch: &[u8]) -> usize {
    if !batch.starts_with(b" CDX ") {
        return 0;
    }
    let end = batch.iter().position(|&byte| byte == b'\n');
    end.map_or(batch.len(), |end| end + 1)
}

/// Formats the error with the line number in the file instead of the batch.
fn with_line(error: &Error, before: u64) -> String {
    let text = error.to_string();
    let renumbered = || {
        let (head, tail) = text.split_once("BADLINE line ")?;
        let end = tail.find(|c: char| !c.is_ascii_digit())?;
        let line = tail[..end].parse::<u64>().ok()? + before;
        Some(format!("{head}BADLINE line {line}{}", &tail[end..]))
    };
    renumbered().unwrap_or(text)
}
