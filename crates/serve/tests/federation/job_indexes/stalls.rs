//! Tests of clients that do not read their response.

use std::io::{Read, Write};
use std::net::TcpStream;

use crawlspace_jobs::IndexKind;
use crawlspace_jobs::operations::{EntryState, list};
use redis_tests::until;

use crate::job_indexes::archive::Stage as Archive;
use crate::job_indexes::parcels::{made, write};
use crate::job_indexes::server::config;
use crate::serving::Impatient;

#[test]
fn stalled_client_is_cut_off_and_does_not_block_eviction() {
    let archive = Archive::new();
    // Larger than the buffers of sockets.
    let text = "x".repeat(64 << 20);
    drop(made(&archive.cache_dir(), IndexKind::Cdx, "1", |draft| {
        write(draft, "cdx", text.as_bytes());
        Ok(())
    }));
    let text = config(&archive, "");
    let server = Impatient::start(&text, &archive.archive());
    let state = || list(&archive.cache_dir()).unwrap()[0].state.clone();
    assert_eq!(state(), EntryState::Whole);
    let mut client = TcpStream::connect(server.address).unwrap();
    client
        .write_all(b"GET /_indexes/cdx?jobs=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    client.read_exact(&mut [0]).unwrap();
    until("the index is no longer in use", || {
        state() == EntryState::Whole
    });
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(
        rest.len() < 64 << 20,
        "the client can tell that the response is incomplete"
    );
}
