//! Tests Redis behind TLS.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crawlspace_client::dedupe::Index;
use crawlspace_client::{AsyncServer, Server};
use redis_tests::{Options, Server as Redis, assert_contains, certificates};

use crate::server::run;

/// Returns true if the server was built with TLS.
fn is_built_with_tls() -> bool {
    let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
    // The server exits immediately in both cases, with different messages.
    let output = Command::new(program)
        .args("--port 0 --tls-port 0 --loadmodule /nonexistent".split(' '))
        .output()
        .expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    !String::from_utf8_lossy(&said).contains("Bad directive")
}

/// Starts a TLS server that requires client certificates, and returns its port.
fn start(dir: &Path) -> (Redis, u16) {
    let file = |name: &str| dir.join(name).to_string_lossy().into_owned();
    // The port was free a moment ago, but another process may have taken it since.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let redis = Options::new()
        .args(&["--tls-port", &port.to_string()])
        .args(&["--tls-cert-file", &file("server.pem")])
        .args(&["--tls-key-file", &file("server.key")])
        .args(&["--tls-ca-cert-file", &file("ca.pem")])
        .start();
    (redis, port)
}

#[test]
fn client_and_server_verify_each_other() {
    if !is_built_with_tls() {
        let told = writeln!(
            std::io::stderr(),
            "TLS: left out, the server was built without it"
        );
        told.expect("standard error is open");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), &["server", "client"]);
    let (redis, port) = start(dir.path());
    let url = format!("rediss://127.0.0.1:{port}/");
    let file = |name: &str| dir.path().join(name);
    let known = |url: &str| {
        Server::options(url)
            .ca(file("ca.pem"))
            .client_certificate(file("client.pem"), file("client.key"))
            // An unoptimized handshake is slow on a loaded machine.
            .timeout(Duration::from_secs(60))
    };
    let server = known(&url).open().unwrap();
    assert!(Index::on(&server, "").check().unwrap().ok);
    let server = known(&format!("{url}?protocol=resp3"))
        .connections(3)
        .open()
        .unwrap();
    assert!(Index::on(&server, "").check().unwrap().ok);
    run(async {
        let server = known(&url).open_async().await.unwrap();
        assert!(Index::on(&server, "").check().await.unwrap().ok);
        assert_eq!(Index::on(&server, "").stats().await.unwrap().hashes, 0);
    });

    // The certificate authority is unknown to the system.
    let error = Server::open(&url).unwrap_err().to_string();
    assert_contains(&error, "UnknownIssuer");
    // The certificate is valid only for the address.
    let error = known(&format!("rediss://localhost:{port}/"))
        .open()
        .unwrap_err()
        .to_string();
    assert_contains(&error, "certificate");
    Server::options(&url).ca(file("ca.pem")).open().unwrap_err();
    run(async {
        AsyncServer::open(&url).await.unwrap_err();
        AsyncServer::options(&url)
            .ca(file("ca.pem"))
            .open_async()
            .await
            .unwrap_err();
    });
    // An unencrypted connection is rejected.
    Server::open(&format!("redis://127.0.0.1:{port}/")).unwrap_err();
    drop(redis);
}

#[test]
fn unusable_certificates_are_reported() {
    let redis = Redis::start();
    let error = Server::options(&redis.url())
        .ca("ca.pem")
        .open()
        .unwrap_err()
        .to_string();
    assert_contains(&error, "rediss://");
    let missing = Server::options("rediss://127.0.0.1:1/").ca("/nonexistent/ca.pem");
    let error = missing.open().unwrap_err().to_string();
    assert_contains(&error, "/nonexistent/ca.pem");
}
