//! Tests of slow clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use redis_tests::until;
use tempfile::TempDir;

use crate::serving::Impatient;

/// Starts a server with an index of many captures.
fn start() -> (TempDir, Impatient) {
    let dir = tempfile::tempdir().unwrap();
    let line = |n: u32| {
        let date = 20_000_101_000_000_u64 + u64::from(n);
        let row = "{\"url\": \"http://example.com/\", \"n\": ";
        format!("com,example)/ {date} {row}\"{n:0200}\"}}\n")
    };
    let lines: String = (0..100_000).map(line).collect();
    std::fs::write(dir.path().join("index.cdxj"), lines).unwrap();
    let config = format!("collections:\n  big: {}\n", dir.path().display());
    let server = Impatient::start(&config, dir.path());
    (dir, server)
}

#[test]
fn client_that_reads_nothing_is_cut_off() {
    let (_dir, server) = start();
    until("the server runs", || server.users() == 2);
    let mut client = TcpStream::connect(server.address).unwrap();
    client
        .write_all(b"GET /big/index?url=example.com HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut first = [0; 1];
    client.read_exact(&mut first).unwrap();
    assert!(server.users() > 2, "the request is being answered");
    until("the server closes the connection", || server.users() == 2);
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "the client can tell that the response is incomplete"
    );
}

#[test]
fn client_that_never_finishes_a_request_is_cut_off() {
    let (_dir, server) = start();
    let mut client = TcpStream::connect(server.address).unwrap();
    client.write_all(b"GET /big/index?url=exam").unwrap();
    let mut answer = Vec::new();
    // The connection ends, with or without a response.
    let _ = client.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    until("the server closes the connection", || server.users() == 2);
}

#[test]
fn disconnected_client_leaves_nothing_behind() {
    let (_dir, server) = start();
    until("the server runs", || server.users() == 2);
    for _ in 0..20 {
        let mut client = TcpStream::connect(server.address).unwrap();
        client
            .write_all(b"GET /big/index?url=example.com HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut first = [0; 1];
        client.read_exact(&mut first).unwrap();
    }
    until("the server closes all connections", || server.users() == 2);
}
