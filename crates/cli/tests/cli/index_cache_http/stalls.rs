//! Clients that do not take what they asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_jobs::IndexKind;
use crawlspace_jobs::operations::{EntryState, list};
use crawlspace_serve::Federation;
use crawlspace_serve::config::Config;
use crawlspace_serve::server::{Options, serve};
use redis_tests::until;

use crate::index_cache_http::archive::Stage as Archive;
use crate::index_cache_http::parcels::{made, write};
use crate::index_cache_http::server::config;

#[test]
fn who_accepts_nothing_is_cut_off_and_keeps_no_index_from_being_removed() {
    let archive = Archive::new();
    // More than sockets take.
    let text = "x".repeat(64 << 20);
    drop(made(&archive.cache_dir(), IndexKind::Cdx, "1", |draft| {
        write(draft, "cdx", text.as_bytes());
        Ok(())
    }));
    let text = config(&archive, "");
    let (config, _) = Config::parse(&text, "config.yaml", &archive.archive()).unwrap();
    let federation = Federation::open(&config).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options {
        stall: Duration::from_millis(300),
        ..Options::default()
    };
    let never = std::future::pending();
    runtime.spawn(serve(Arc::clone(&federation), listener, options, never));

    let state = || list(&archive.cache_dir()).unwrap()[0].state.clone();
    assert_eq!(state(), EntryState::Whole);
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"GET /_indexes/cdx?jobs=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    client.read_exact(&mut [0]).unwrap();
    until("the index is let go", || state() == EntryState::Whole);
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.len() < 64 << 20, "nobody takes it for whole");
    runtime.shutdown_background();
}
