//! `crawlspace chg add`: queues the URLs of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process;

use clap::{Args, ValueEnum};
use crawlspace_client::Code;
use crawlspace_client::frontier::{Discovered, Discovery, Frontier, Millis, Uri};
use crawlspace_compact::limits::chg::{ID_BYTES, URI_BYTES};
use indicatif::ProgressBar;
use serde::Serialize;
use url::Url;

use crate::Asking;
use crate::table::{count, many};
use crate::terminal::{Bytes, at, complain, text};

/// Number of URIs of a call.
const BATCH: usize = 1000;
/// Maximum length of a line, in bytes: a URI, a group, and two numbers.
const LINE_BYTES: usize = URI_BYTES + ID_BYTES + 64;

/// Queue the URLs of a file, one in each line, for a crawl.
///
/// A line may have further columns after the URL, separated by tabs: the group of hosts, the depth (the number of
/// links from a seed, 0 by default), and the earliest time of the fetch in milliseconds since 1970 (now by default).
/// Empty lines and lines that begin with # are skipped. A URL that the crawl has already queued is not queued again,
/// so the command can be repeated.
///
/// In a packed frontier, the crawl remembers these URLs, as with CHG.DISCOVER, unless it has URIs that were queued with
/// CHG.ADDURI. The command then counts the URLs that were known already, such as done ones, separately from the URLs
/// that it queued.
///
/// Prints each invalid line with its number, and queues the other lines. Exit status 2 if a line is invalid.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg add crawl-1 --file seeds.txt
  printf '%s\\t%s\\n' https://a.example/ 192.0.2.7 | crawlspace chg add crawl-1 --group column")]
pub(crate) struct Add {
    #[command(flatten)]
    asking: Asking,
    /// The crawl.
    #[arg(value_name = "EXECUTION", value_parser = Bytes::parser())]
    execution: Bytes,
    /// The file; standard input when it is - or not given.
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The group of a URL: its host in lower case, with the port unless it is the default one; or the second column.
    #[arg(long, value_enum, default_value_t = GroupOf::Host)]
    group: GroupOf,
    /// Share of this crawl in the fetches of each group, if several crawls have URLs for it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    weight: Option<u32>,
}

/// Method that determines the group of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GroupOf {
    Host,
    Column,
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    uri: Vec<u8>,
    chg: Vec<u8>,
    depth: u32,
    at: Millis,
}

#[derive(Serialize)]
struct Added<'a> {
    execution: &'a Bytes,
    /// Number of URIs that were queued; without `known`, includes those that were queued before.
    accepted: u64,
    /// Number of URIs that the crawl knew already; `null` if it does not remember its URLs.
    known: Option<u64>,
    /// Number of URIs that were refused: a budget is used up, or the crawl is being dropped.
    refused: u64,
    /// Number of invalid lines.
    invalid: u64,
}

impl Add {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let (mut input, bar) = open(&self.file)?;
        let frontier = self.asking.frontier()?;
        let mut added = Added {
            execution: &self.execution,
            accepted: 0,
            known: Some(0),
            refused: 0,
            invalid: 0,
        };
        let (mut batch, mut line) = (Vec::with_capacity(BATCH), Vec::new());
        for number in 1_u64.. {
            line.clear();
            let read = read_line(&mut input, &mut line)?;
            bar.inc(read);
            match Line::read(&line, self.group) {
                Ok(Some(read)) => batch.push(read),
                Ok(None) => {}
                Err(why) => {
                    added.invalid += 1;
                    bar.suspend(|| complain(format_args!("line {number}: {why}")));
                }
            }
            if batch.len() == BATCH || read == 0 {
                self.queue(&frontier, &batch, &mut added).map_err(|error| {
                    let last = number - 1;
                    io::Error::other(format!(
                        "{error}; not all lines up to line {last} are queued: run the command again"
                    ))
                })?;
                batch.clear();
            }
            if read == 0 {
                break;
            }
        }
        bar.finish_and_clear();
        self.asking.tell(&added, print)?;
        if added.invalid > 0 {
            io::stdout().flush()?;
            process::exit(2);
        }
        Ok(true)
    }

    /// Queues a batch: discovers the URLs if the crawl remembers its URLs or can begin to, or adds them otherwise.
    fn queue(&self, frontier: &Frontier, batch: &[Line], added: &mut Added<'_>) -> io::Result<()> {
        let uris: Vec<Uri<'_>> = batch
            .iter()
            .map(|line| Uri {
                chg: &line.chg,
                at: line.at,
                depth: line.depth,
                uri: &line.uri,
            })
            .collect();
        let execution = self.execution.as_bytes();
        if let Some(known) = &mut added.known {
            let options = Discovery {
                weight: self.weight,
                ..Discovery::default()
            };
            match frontier.discover(execution, &options, &uris) {
                Ok(outcomes) => {
                    for outcome in outcomes {
                        match outcome {
                            Discovered::New(_) => added.accepted += 1,
                            Discovered::Known => *known += 1,
                            Discovered::Refused => added.refused += 1,
                        }
                    }
                    return Ok(());
                }
                // The storage is plain, or the crawl has URIs that were queued before it remembered its URLs.
                Err(error) if matches!(error.code(), Some(Code::Plain | Code::Known)) => {
                    added.known = None;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let counts = frontier.add_uris(execution, self.weight, &uris);
        for queued in counts.map_err(io::Error::other)? {
            match queued {
                Some(_) => added.accepted += 1,
                None => added.refused += 1,
            }
        }
        Ok(())
    }
}

fn print(added: &Added<'_>) -> io::Result<()> {
    let accepted = many(added.accepted, "URI");
    let mut said = format!("crawl {}: {accepted} queued", added.execution);
    if let Some(known @ 1..) = added.known {
        said += &format!(", {} known already", count(known));
    }
    if added.refused > 0 {
        let refused = count(added.refused);
        said += &format!(
            ", {refused} refused because a budget is used up or the crawl is being dropped"
        );
    }
    if added.invalid > 0 {
        said += &format!(", {}", many(added.invalid, "invalid line"));
    }
    writeln!(io::stdout(), "{said}")
}

/// Opens a file or standard input, with a progress bar for a file if standard error is a terminal.
fn open(path: &Path) -> io::Result<(Box<dyn BufRead>, ProgressBar)> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin().lock()), ProgressBar::hidden()));
    }
    let named = at(path);
    let file = File::open(path).map_err(&named)?;
    let metadata = file.metadata().map_err(&named)?;
    if metadata.is_dir() {
        return Err(named(io::ErrorKind::IsADirectory.into()));
    }
    let bar = if metadata.is_file() && io::stderr().is_terminal() {
        ProgressBar::new(metadata.len())
    } else {
        ProgressBar::hidden()
    };
    Ok((Box::new(BufReader::new(file)), bar))
}

/// Reads a line, and returns the number of bytes that were read; 0 at the end. Only the beginning of a line that is
/// too long is stored.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut read = input.take(LINE_BYTES as u64 + 1).read_until(b'\n', line)? as u64;
    let mut rest = Vec::new();
    while read > LINE_BYTES as u64 && line.last() != Some(&b'\n') && rest.last() != Some(&b'\n') {
        rest.clear();
        match input.take(LINE_BYTES as u64).read_until(b'\n', &mut rest)? {
            0 => break,
            more => read += more as u64,
        }
    }
    Ok(read)
}

impl Line {
    /// Parses a line. Returns `None` for an empty line and for a comment.
    ///
    /// # Errors
    /// Returns the reason why the line is invalid.
    fn read(line: &[u8], group: GroupOf) -> Result<Option<Line>, String> {
        let is_whole = line.len() <= LINE_BYTES;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() || line.starts_with(b"#") {
            return Ok(None);
        }
        let mut columns = line.split(|&byte| byte == b'\t');
        let uri = columns.next().unwrap_or_default().trim_ascii();
        if uri.is_empty() {
            return Err("the URL is missing".to_owned());
        }
        if uri.len() > URI_BYTES || !is_whole {
            return Err(format!(
                "the URL or a column is longer than {URI_BYTES} bytes"
            ));
        }
        let column = columns.next().unwrap_or_default();
        let chg = match group {
            GroupOf::Host => host(uri)?,
            GroupOf::Column if column.is_empty() => {
                return Err("the second column, the group, is missing".to_owned());
            }
            GroupOf::Column => column.to_vec(),
        };
        if chg.len() > ID_BYTES {
            return Err(format!("the group is longer than {ID_BYTES} bytes"));
        }
        Ok(Some(Line {
            uri: uri.to_vec(),
            chg,
            depth: number(columns.next(), "depth")?,
            at: number(columns.next(), "time")?,
        }))
    }
}

/// Parses an optional column with a number.
fn number<T: std::str::FromStr + Default>(column: Option<&[u8]>, what: &str) -> Result<T, String> {
    let column = column.unwrap_or_default().trim_ascii();
    if column.is_empty() {
        return Ok(T::default());
    }
    let parsed = str::from_utf8(column)
        .ok()
        .and_then(|column| column.parse().ok());
    parsed.ok_or_else(|| format!("invalid {what} '{}': write an integer", text(column)))
}

/// Returns the host of a URL in lower case, with the port unless it is the default one of the scheme.
fn host(uri: &[u8]) -> Result<Vec<u8>, String> {
    let invalid = |why: &dyn std::fmt::Display| format!("invalid URL '{}': {why}", text(uri));
    let url = Url::parse(&String::from_utf8_lossy(uri)).map_err(|error| invalid(&error))?;
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(invalid(
            &"it has no host; name its group with --group column",
        ));
    };
    let host = host.to_ascii_lowercase();
    Ok(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
    .into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, group: GroupOf) -> Result<Option<(String, u32, Millis)>, String> {
        let line = Line::read(line.as_bytes(), group)?;
        Ok(line.map(|line| (String::from_utf8(line.chg).unwrap(), line.depth, line.at)))
    }

    #[test]
    fn group_is_the_host_with_a_port_that_is_not_the_default() {
        for (line, chg) in [
            ("https://A.Example/Path", "a.example"),
            ("http://a.example:80/\r\n", "a.example"),
            ("https://a.example:80/\n", "a.example:80"),
            ("  https://user@a.example:8443/?q  \n", "a.example:8443"),
            ("http://[2001:DB8::1]:8080/", "[2001:db8::1]:8080"),
            ("ftp://a.example/x", "a.example"),
            ("foo://Some.Host/", "some.host"),
        ] {
            let expected = Ok(Some((chg.to_owned(), 0, 0)));
            assert_eq!(read(line, GroupOf::Host), expected, "{line}");
        }
        for line in ["", "\n", " \r\n", "# https://a.example/\n"] {
            assert_eq!(read(line, GroupOf::Host), Ok(None), "{line}");
        }
        for (line, why) in [
            ("a.example/", "relative URL"),
            ("http:///", "empty host"),
            ("mailto:a@a.example", "it has no host"),
            ("http://a b/", "invalid"),
            ("\thttps://a.example/", "the URL is missing"),
        ] {
            let error = read(line, GroupOf::Host).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn columns_are_the_group_the_depth_and_the_time() {
        let url = "https://a.example/";
        for (end, expected) in [
            ("\tg 1", ("g 1", 0, 0)),
            ("\tg\t3\n", ("g", 3, 0)),
            (
                "\tg\t\t1700000000000\tmore\r\n",
                ("g", 0, 1_700_000_000_000),
            ),
        ] {
            let (chg, depth, at) = expected;
            let expected = Ok(Some((chg.to_owned(), depth, at)));
            assert_eq!(read(&format!("{url}{end}"), GroupOf::Column), expected);
        }
        let by_host = Ok(Some(("a.example".to_owned(), 2, 0)));
        assert_eq!(read(&format!("{url}\tg\t2"), GroupOf::Host), by_host);
        for (end, why) in [
            ("", "the group, is missing"),
            ("\t", "the group, is missing"),
            ("\tg\t-1", "invalid depth '-1'"),
            ("\tg\t4294967296", "invalid depth"),
            ("\tg\t0\tsoon", "invalid time 'soon'"),
        ] {
            let error = read(&format!("{url}{end}"), GroupOf::Column).unwrap_err();
            assert!(error.contains(why), "{end}: {error}");
        }
        let long = format!("{url}\t{}", "g".repeat(ID_BYTES + 1));
        assert!(
            read(&long, GroupOf::Column)
                .unwrap_err()
                .contains("1024 bytes")
        );
    }

    #[test]
    fn line_of_any_length_takes_little_memory() {
        let long = "x".repeat(3 * LINE_BYTES);
        let text = format!("a\n{long}\nb\n{long}");
        let mut input = BufReader::new(text.as_bytes());
        let mut all = Vec::new();
        loop {
            let mut line = Vec::new();
            if read_line(&mut input, &mut line).unwrap() == 0 {
                break;
            }
            assert!(line.len() <= LINE_BYTES + 1);
            all.push(line.len());
        }
        assert_eq!(all, [2, LINE_BYTES + 1, 2, LINE_BYTES + 1]);
        let error = Line::read(&long.as_bytes()[..=LINE_BYTES], GroupOf::Host).unwrap_err();
        assert!(error.contains("is longer than"), "{error}");
    }
}
