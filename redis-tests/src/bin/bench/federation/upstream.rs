//! A fast upstream for both servers: a web server that returns rows for the requested URL with
//! almost no work.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Rows per response.
pub const ROWS: usize = 10;

/// The upstream, which runs until the process exits.
pub struct Upstream {
    address: SocketAddr,
}

impl Upstream {
    /// Starts the upstream.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub fn start() -> Upstream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
        Upstream { address }
    }

    /// Returns a configuration in pywb's format with three collections of the upstream as a group.
    pub fn config(&self) -> String {
        let source = |name: &str| {
            let at = self.address;
            format!(
                "      {name}:\n        type: cdx\n        api_url: http://{at}/{name}-cdx?url={{url}}\n\
                 \x20       replay_url: http://{at}/{name}/{{timestamp}}id_/{{url}}\n"
            )
        };
        let sources: String = ["a", "b", "c"].map(source).concat();
        format!("  group:\n    index_group:\n{sources}")
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 << 10];
    let mut filled = 0;
    loop {
        let mut fours = buffer[..filled].windows(4);
        let Some(end) = fours.position(|four| four == b"\r\n\r\n") else {
            let got = stream.read(&mut buffer[filled..])?;
            if got == 0 {
                return Ok(());
            }
            filled += got;
            continue;
        };
        let request = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.copy_within(end + 4..filled, 0);
        filled -= end + 4;
        let target = request.split(' ').nth(1).unwrap_or_default();
        let rows = rows(target);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/x-cdxj\r\nContent-Length";
        stream.write_all(format!("{head}: {}\r\n\r\n{rows}", rows.len()).as_bytes())?;
    }
}

/// Returns the rows of `http://example.com/page/7`, given percent-encoded or not. The capture times
/// differ between sources.
fn rows(target: &str) -> String {
    let second = match target.as_bytes().get(1) {
        Some(b'a') => 1,
        Some(b'b') => 2,
        _ => 3,
    };
    let (_, number) = target.split_once("page").unwrap_or_default();
    let number = number
        .trim_start_matches("%2F")
        .trim_start_matches(|c: char| !c.is_ascii_digit());
    let number = number
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    let row = |day: usize| {
        format!(
            "com,example)/page/{number} 2018{:02}1512000{second} {{\"url\": \"http://example.com/page/{number}\", \
             \"mime\": \"text/html\", \"status\": \"200\", \"digest\": \"3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ\", \
             \"length\": \"1043\", \"offset\": \"333\", \"filename\": \"example-{second}.warc.gz\"}}\n",
            day + 1
        )
    };
    (0..ROWS).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_url() {
        let coded = "http%3A%2F%2Fexample.com%2Fpage%2F7&closest=2016";
        for url in ["http://example.com/page/7", coded] {
            let rows = rows(&format!("/b-cdx?url={url}"));
            assert_eq!(rows.lines().count(), ROWS);
            let start = "com,example)/page/7 20180115120002 {";
            assert!(rows.starts_with(start), "{rows}");
        }
    }
}
