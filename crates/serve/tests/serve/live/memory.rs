//! Memory does not grow with the record.

use std::io::Write;

use crawlspace_serve::resource::client_request::ClientRequest;
use futures_util::StreamExt;

use crate::live::{limits, load_live};
use redis_tests::stub::{Stub, send};
use redis_tests::{alone, peak_memory_of};

const SIZE: usize = 200 << 20;
/// What a record may take, of any size.
const MAX_GROWTH: u64 = 16 << 20;

#[test]
fn a_large_record_takes_no_more_memory_than_a_small_one() {
    alone(
        "live::memory::a_large_record_takes_no_more_memory_than_a_small_one",
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
            let stub = Stub::start(move |asked, stream| {
                let size: usize = asked.target()[1..].parse().unwrap();
                let mut left = size;
                let piece = vec![b'x'; 1 << 20];
                let head = if chunked {
                    "Transfer-Encoding: chunked".to_owned()
                } else {
                    format!("Content-Length: {size}")
                };
                send(
                    stream,
                    format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes(),
                );
                while left > 0 {
                    let now = left.min(piece.len());
                    if chunked {
                        send(stream, format!("{now:x}\r\n").as_bytes());
                    }
                    let _ = stream.write_all(&piece[..now]);
                    if chunked {
                        send(stream, b"\r\n");
                    }
                    left -= now;
                }
                if chunked {
                    send(stream, b"0\r\n\r\n");
                }
            });
            let fetched = async |size: usize| {
                let url = stub.url(&format!("/{size}"));
                let record = load_live(&url, &ClientRequest::default(), &limits())
                    .await
                    .unwrap();
                let mut length = record.head.len() as u64;
                let mut body = record.body;
                while let Some(piece) = body.next().await {
                    length += piece.unwrap().len() as u64;
                }
                assert_eq!(length, record.length);
                assert!(length > size as u64);
            };
            // All that is made once is made then.
            fetched(4 << 20).await;
            let before = peak_memory_of(std::process::id());
            fetched(SIZE).await;
            let grown = peak_memory_of(std::process::id()) - before;
            assert!(grown < MAX_GROWTH, "{grown} bytes for a record of {SIZE}");
        }
    });
}
