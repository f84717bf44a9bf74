//! `crawlspace chg dump`: prints the URLs of a crawl, for `crawlspace chg add`.

use std::io::{self, BufWriter, Write};
use std::process;

use clap::Args;
use crawlspace_client::frontier::{ListedUrl, State};
use crawlspace_compact::limits::chg::MAX_COUNT;

use super::existing;
use crate::Asking;
use crate::table::print_json;
use crate::terminal::{Bytes, complain, text};

/// Print the URLs of a crawl that are queued or leased, one in each line, as `chg add --group column` reads them.
///
/// The columns, separated by tabs, are the URL, the group of hosts, the depth, and the earliest time of the fetch in
/// milliseconds since 1970. Keys, payloads and attempts are not printed, except that --json prints keys and attempts.
/// Stop the workers first: a URL that changes its state meanwhile may be printed twice, or not at all. The frontier
/// must be packed.
///
/// A URL or group that contains a tab or a line break, or would be read differently for another reason, is reported and
/// left out. Exit status 2 if there is one.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg dump crawl-1 > crawl-1.txt
  crawlspace chg dump crawl-1 --done")]
pub(crate) struct Dump {
    #[command(flatten)]
    asking: Asking,
    /// The crawl.
    #[arg(value_name = "EXECUTION", value_parser = Bytes::parser())]
    execution: Bytes,
    /// Print the done URLs instead, without depth and time. The crawl must keep done URLs in full (CHG.SPACE … TEXT
    /// YES).
    #[arg(long)]
    done: bool,
}

impl Dump {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let state = self.done.then_some(State::Done);
        let mut out = BufWriter::new(io::stdout().lock());
        let (mut cursor, mut printed, mut left_out) = (None::<Vec<u8>>, 0_u64, 0_u64);
        loop {
            let execution = self.execution.as_bytes();
            let page = frontier.urls(execution, state, cursor.as_deref(), MAX_COUNT as u32);
            let page = page.map_err(io::Error::other)?;
            for url in page.entries {
                if self.asking.json {
                    out.flush()?;
                    print_json(&url)?;
                } else if let Some(line) = line(&url) {
                    out.write_all(&line)?;
                } else {
                    left_out += 1;
                    complain(format_args!(
                        "the URL '{}' of group '{}' cannot be written as a line",
                        text(&url.uri),
                        text(&url.chg)
                    ));
                }
                printed += 1;
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        out.flush()?;
        if printed == 0 {
            existing(&self.asking, &frontier)?;
        }
        if left_out > 0 {
            process::exit(2);
        }
        Ok(true)
    }
}

/// Returns the line of a URL; `None` if `chg add` would read another URL or group from this line.
fn line(url: &ListedUrl) -> Option<Vec<u8>> {
    let breaks = |bytes: &[u8]| bytes.iter().any(|byte| b"\t\r\n".contains(byte));
    let is_whole = !url.uri.is_empty() && url.uri.trim_ascii() == url.uri;
    if !is_whole || url.uri.starts_with(b"#") || breaks(&url.uri) || breaks(&url.chg) {
        return None;
    }
    let mut line = [&url.uri[..], b"\t", &url.chg].concat();
    if let (Some(depth), Some(due)) = (url.depth, url.due) {
        line.extend_from_slice(format!("\t{depth}\t{due}").as_bytes());
    }
    line.push(b'\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(uri: &[u8], chg: &[u8]) -> ListedUrl {
        ListedUrl {
            chg: chg.to_vec(),
            uri: uri.to_vec(),
            key: None,
            depth: Some(2),
            state: State::Queued,
            due: Some(7),
            status: None,
            attempts: 0,
            changed: None,
        }
    }

    #[test]
    fn line_has_four_columns_and_is_read_as_it_was_written() {
        let good = line(&listed(b"https://h/\xff x", b"h 1"));
        assert_eq!(good.unwrap(), b"https://h/\xff x\th 1\t2\t7\n");
        for (uri, chg) in [
            (&b""[..], &b"h"[..]),
            (b" u", b"h"),
            (b"u\n", b"h"),
            (b"#u", b"h"),
            (b"u\tv", b"h"),
            (b"u", b"h\t"),
            (b"u", b"h\r"),
        ] {
            assert_eq!(line(&listed(uri, chg)), None, "{uri:?} {chg:?}");
        }
    }
}
