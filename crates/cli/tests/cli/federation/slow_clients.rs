//! Clients that take their time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crawlspace_serve::Federation;
use crawlspace_serve::config::Config;
use crawlspace_serve::server::{Options, serve};
use redis_tests::until;
use tokio::runtime::Runtime;

/// The server within this process, with short timeouts, and an index of many captures.
struct Impatient {
    federation: Arc<Federation>,
    address: SocketAddr,
    runtime: Option<Runtime>,
    _dir: tempfile::TempDir,
}

impl Impatient {
    fn start() -> Impatient {
        let dir = tempfile::tempdir().unwrap();
        let line = |n: u32| {
            format!(
                "com,example)/ {} {{\"url\": \"http://example.com/\", \"n\": \"{n:0200}\"}}\n",
                20_000_101_000_000_u64 + u64::from(n)
            )
        };
        let lines: String = (0..100_000).map(line).collect();
        std::fs::write(dir.path().join("index.cdxj"), lines).unwrap();
        let text = format!("collections:\n  big: {}\n", dir.path().display());
        let (config, _) = Config::parse(&text, "config.yaml", dir.path()).unwrap();
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
            head: Duration::from_millis(300),
            stall: Duration::from_millis(300),
            ..Options::default()
        };
        let never = std::future::pending();
        runtime.spawn(serve(Arc::clone(&federation), listener, options, never));
        Impatient {
            federation,
            address,
            runtime: Some(runtime),
            _dir: dir,
        }
    }

    /// Who uses it now: the server itself and each connection.
    fn users(&self) -> usize {
        Arc::strong_count(&self.federation)
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

#[test]
fn who_accepts_nothing_is_cut_off() {
    let server = Impatient::start();
    until("the server runs", || server.users() == 2);
    let mut client = TcpStream::connect(server.address).unwrap();
    client
        .write_all(b"GET /big/index?url=example.com HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut first = [0; 1];
    client.read_exact(&mut first).unwrap();
    assert!(server.users() > 2, "it is being answered");
    until("the connection is given up", || server.users() == 2);
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "nobody takes it for whole");
}

#[test]
fn who_never_finishes_a_request_is_cut_off() {
    let server = Impatient::start();
    let mut client = TcpStream::connect(server.address).unwrap();
    client.write_all(b"GET /big/index?url=exam").unwrap();
    let mut answer = Vec::new();
    // It ends, with or without a word.
    let _ = client.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    until("the connection is given up", || server.users() == 2);
}

#[test]
fn who_goes_away_leaves_nothing_behind() {
    let server = Impatient::start();
    until("the server runs", || server.users() == 2);
    for _ in 0..20 {
        let mut client = TcpStream::connect(server.address).unwrap();
        client
            .write_all(b"GET /big/index?url=example.com HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let mut first = [0; 1];
        client.read_exact(&mut first).unwrap();
    }
    until("all of it is given up", || server.users() == 2);
}
