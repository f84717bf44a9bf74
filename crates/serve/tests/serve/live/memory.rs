//! Test that memory does not grow with the size of a record.

use std::io::Write;

use futures_util::StreamExt;

use crate::live::load_page;
use redis_tests::{ScriptedHost, alone, peak_memory_of};

const SIZE: usize = 200 << 20;
/// Maximum growth of memory for a record of any size, in bytes.
const MAX_GROWTH: u64 = 16 << 20;

#[test]
fn large_record_takes_no_more_memory_than_a_small_one() {
    alone(
        "live::memory::large_record_takes_no_more_memory_than_a_small_one",
        measured,
    );
}

fn measured() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for chunked in [true, false] {
            let stub = ScriptedHost::handling(move |asked, mut stream| {
                let size: usize = asked.target[1..].parse().unwrap();
                let piece = vec![b'x'; 1 << 20];
                if chunked {
                    write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )?;
                } else {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
                }
                for at in (0..size).step_by(piece.len()) {
                    let now = (size - at).min(piece.len());
                    if chunked {
                        write!(stream, "{now:x}\r\n")?;
                    }
                    stream.write_all(&piece[..now])?;
                    if chunked {
                        stream.write_all(b"\r\n")?;
                    }
                }
                if chunked {
                    stream.write_all(b"0\r\n\r\n")?;
                }
                Ok(false)
            });
            let fetched = async |size: usize| {
                let url = stub.url(&format!("/{size}"));
                let record = load_page(&url).await.unwrap();
                let mut length = record.head.len() as u64;
                let mut body = record.body;
                while let Some(piece) = body.next().await {
                    length += piece.unwrap().len() as u64;
                }
                assert_eq!(length, record.length);
                assert!(length > size as u64);
            };
            // The first fetch makes all one-time allocations.
            fetched(4 << 20).await;
            let before = peak_memory_of(std::process::id());
            fetched(SIZE).await;
            let grown = peak_memory_of(std::process::id()) - before;
            assert!(grown < MAX_GROWTH, "{grown} bytes for a record of {SIZE}");
        }
    });
}
