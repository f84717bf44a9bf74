//! TLS, tokens, and the health check.

use std::time::Duration;

use crawlspace_compact::token::Token;
use crawlspace_urlfrontier::proto::*;
use crawlspace_urlfrontier::server::{self, Options};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use crate::stage::*;

const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn requests_need_the_token() {
    let options = Options {
        token: Some(Token::parse(TOKEN.as_bytes()).unwrap()),
        ..Options::default()
    };
    let stage = Stage::with(redis_tests::Options::new().start(), options).await;
    let mut client = stage.client().await;
    for given in [
        None,
        Some("Bearer 0123456789abcdeF"),
        Some(TOKEN),
        Some("Bearer "),
    ] {
        let mut request = Request::new(Local::default());
        if let Some(given) = given {
            request
                .metadata_mut()
                .insert("authorization", given.parse().unwrap());
        }
        let reply = client.send::<_, StringList>("ListCrawls", request).await;
        assert_eq!(
            reply.unwrap_err().code(),
            Code::Unauthenticated,
            "{given:?}"
        );
    }
    let mut request = Request::new(Local::default());
    let given = format!("Bearer {TOKEN}").parse().unwrap();
    request.metadata_mut().insert("authorization", given);
    let reply = client.send::<_, StringList>("ListCrawls", request).await;
    assert_eq!(reply.unwrap(), StringList::default());
    assert!(
        stage
            .service
            .metrics()
            .contains("unauthenticated_requests_total 4\n")
    );
}

#[tokio::test]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    redis_tests::certificates(folder.path(), &["server"]);
    let file = |name: &str| folder.path().join(name);
    let options = Options {
        tls: Some(server::tls(&file("server.pem"), &file("server.key")).unwrap()),
        ..Options::default()
    };
    let stage = Stage::with(redis_tests::Options::new().start(), options).await;
    let ca = Certificate::from_pem(std::fs::read(file("ca.pem")).unwrap());
    let endpoint = Endpoint::from_shared(format!("https://{}", stage.address)).unwrap();
    let trusting = endpoint
        .tls_config(ClientTlsConfig::new().ca_certificate(ca))
        .unwrap();
    let mut client = Client::over(trusting.connect().await.unwrap());
    assert_eq!(client.put_batch(vec![info("k", "http://k/")]).await, ["OK"]);
    // A client without TLS gets no reply.
    let plain = Endpoint::from_shared(format!("http://{}", stage.address)).unwrap();
    let plain = plain.timeout(Duration::from_secs(20)).connect().await;
    if let Ok(channel) = plain {
        let reply = Client::over(channel)
            .call::<_, StringList>("ListNodes", Empty {})
            .await;
        assert!(reply.is_err());
    }
    assert!(
        server::tls(&file("none.pem"), &file("server.key"))
            .unwrap_err()
            .to_string()
            .contains("none.pem")
    );
    assert!(
        server::tls(&file("server.pem"), &file("ca.pem"))
            .unwrap_err()
            .to_string()
            .contains("ca.pem")
    );
}

#[tokio::test]
async fn health_follows_the_server() {
    let options = Options {
        token: Some(Token::parse(TOKEN.as_bytes()).unwrap()),
        ..Options::default()
    };
    let mut stage = Stage::with(redis_tests::Options::new().start(), options).await;
    assert_eq!(stage.client().await.health().await, 1);
    stage.server.kill9();
    assert_eq!(stage.client().await.health().await, 2);
}
