//! Tests of fetching over TLS.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crawlspace_serve::resource::record::LoadError;
use redis_tests::{alone_with, certificates};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::live::{bytes_of, load_page, taken_apart};

#[test]
fn certificates_and_close_notify_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    // Run the test in a process whose system certificates include the certificate authority.
    let known = |command: &mut Command| {
        certificates(dir.path(), &["127.0.0.1", "elsewhere.example"]);
        command.env("SSL_CERT_FILE", &ca).env_remove("SSL_CERT_DIR");
    };
    alone_with(
        "live::tls::certificates_and_close_notify_are_verified",
        known,
        fetched,
    );
}

/// Starts a server with that certificate that answers once, with or without a TLS close
/// notification.
async fn serve(
    dir: &Path,
    name: &str,
    answer: &'static str,
    farewell: bool,
) -> (String, tokio::task::JoinHandle<()>) {
    let certificate = CertificateDer::from_pem_file(dir.join(format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.join(format!("{name}.key"))).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else {
            return;
        };
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        if farewell {
            stream.shutdown().await.unwrap();
        }
    });
    (url, server)
}

fn fetched() {
    let ca = PathBuf::from(std::env::var_os("SSL_CERT_FILE").unwrap());
    let dir = ca.parent().unwrap();
    const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\nhello";
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for (name, answer, farewell, is_record) in [
            ("127.0.0.1", LENGTH, true, true),
            ("127.0.0.1", LENGTH, false, true),
            ("127.0.0.1", CLOSE, true, true),
            // The response may have been truncated by an attacker.
            ("127.0.0.1", CLOSE, false, false),
            ("elsewhere.example", LENGTH, true, false),
        ] {
            let (url, server) = serve(dir, name, answer, farewell).await;
            match load_page(&url).await {
                Ok(record) => {
                    assert!(is_record, "{name} {answer:?} {farewell}");
                    assert_eq!(record.target_uri, url);
                    let (_, _, payload) = taken_apart(&bytes_of(record).await.unwrap());
                    assert_eq!(payload, b"hello");
                }
                Err(error) => {
                    assert!(!is_record, "{name} {answer:?} {farewell}: {error}");
                    assert!(matches!(error, LoadError::Net(_)), "{error}");
                    assert_eq!(error.word(), "connection", "{error}");
                }
            }
            server.await.unwrap();
        }
    });
}
