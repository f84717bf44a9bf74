//! Tests of requests sent to the live web.

use bytes::Bytes;
use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::request_message;
use crawlspace_serve::resource::spool::Spooled;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, Method};

use crate::live::{bytes_of, limits, load_live, load_page, taken_apart};
use redis_tests::{Asked, ScriptedHost, with};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Returns the request that a server receives.
async fn asked(path: &str, request: &ClientRequest) -> Asked {
    let stub = ScriptedHost::answering(OK);
    let loaded = load_live(&stub.url(path), request, &limits()).await;
    loaded.unwrap();
    let mut asked = stub.asked();
    assert_eq!(asked.len(), 1);
    let host = stub.address().to_string();
    let mut asked = asked.remove(0);
    asked.head = asked.head.replace(&host, "HOST");
    asked
}

async fn message(text: impl Into<Bytes>) -> ClientRequest {
    request_message::read(stream::iter([Ok(text.into())]).boxed(), 1 << 30)
        .await
        .unwrap()
}

#[tokio::test]
async fn message_is_sent_as_given() {
    let request = message(
        "PATCH /ignored HTTP/1.1\nhost: elsewhere.example\nCookie: a=b\nX-b:  1\nx-a: 2\n\t3\nX-B: 4\n\
         Authorization: Basic eDp5\nConnection: X-Hop\nX-Hop: 1\nAccept-Encoding: br\nContent-Length: 4\n\nbody",
    )
    .await;
    let asked = asked("/a%20b?c=d", &request).await;
    assert_eq!(
        asked.head,
        "PATCH /a%20b?c=d HTTP/1.1\r\nHost: HOST\r\nCookie: a=b\r\nX-b: 1\r\nx-a: 2 3\r\nX-B: 4\r\n\
         Authorization: Basic eDp5\r\nAccept-Encoding: br\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(asked.body, b"body");
}

#[tokio::test]
async fn plain_request_forwards_only_fields_about_the_resource() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("accept", "text/html"),
        ("cookie", "secret"),
        ("authorization", "secret"),
        ("range", "bytes=0-1"),
        ("user-agent", "tests"),
        ("x-forwarded-for", "secret"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let request = ClientRequest::plain(Method::GET, &headers, None);
    let asked = asked("/", &request).await;
    assert_eq!(
        asked.head,
        "GET / HTTP/1.1\r\nHost: HOST\r\naccept: text/html\r\nrange: bytes=0-1\r\nuser-agent: tests\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
    );
}

#[tokio::test]
async fn every_method_is_sent() {
    for method in [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "M-SEARCH", "get",
        "x!",
    ] {
        let request = message(format!("{method} /\n\n")).await;
        let expected = format!("{method} / HTTP/1.1");
        assert_eq!(asked("/", &request).await.line(), expected);
    }
    let request = message("OPTIONS / HTTP/1.0\n\n").await;
    assert_eq!(asked("/", &request).await.line(), "OPTIONS / HTTP/1.0");
}

#[tokio::test]
async fn large_body_is_sent_completely_and_repeatedly() {
    let body: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
    let mut text = b"POST /\n\n".to_vec();
    text.extend_from_slice(&body);
    let request = message(text).await;
    assert!(request.body.as_ref().unwrap().bytes().is_none());
    for _ in 0..2 {
        let asked = asked("/", &request).await;
        assert_eq!(asked.field("Content-Length"), Some("3000000"));
        assert!(asked.body == body);
    }
}

#[tokio::test]
async fn empty_body_differs_from_none() {
    let with = |body| with!(ClientRequest, method: Method::POST, body);
    let empty = asked("/", &with(Some(Spooled::default()))).await;
    assert_eq!(empty.field("Content-Length"), Some("0"));
    assert_eq!(asked("/", &with(None)).await.field("Content-Length"), None);
}

#[tokio::test]
async fn response_before_the_end_of_the_request_counts() {
    // The body is larger than all buffers on the way, and is not read before the response is sent.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
        std::io::Write::write_all(&mut stream, answer).unwrap();
        // Reads until the client closes the connection.
        std::io::copy(&mut stream, &mut std::io::sink()).ok();
    });
    let body = Some(Spooled::from(Bytes::from(vec![b'x'; 50_000_000])));
    let request = with!(ClientRequest, method: Method::POST, body);
    let record = load_live(&url, &request, &limits()).await.unwrap();
    let (_, http, payload) = taken_apart(&bytes_of(record).await.unwrap());
    assert!(http.starts_with(b"HTTP/1.1 413 "));
    assert_eq!(payload, b"no");
    server.join().unwrap();
}

#[tokio::test]
async fn credentials_of_a_url_are_sent_nowhere() {
    let stub = ScriptedHost::answering(OK);
    let url = stub.url("/a#fragment").replace("://", "://user:secret@");
    let record = load_page(&url).await.unwrap();
    assert_eq!(record.target_uri, stub.url("/a"));
    let warc = bytes_of(record).await.unwrap();
    assert!(!String::from_utf8_lossy(&warc).contains("secret"));
    assert!(!stub.asked()[0].head.contains("user"));
    assert_eq!(stub.asked()[0].field("Authorization"), None);
}

#[tokio::test]
async fn redirects_of_the_live_web_are_recorded() {
    let moved = "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n";
    let stub = ScriptedHost::start(move |asked| {
        redis_tests::once(if asked.target == "/" { moved } else { OK })
    });
    let record = load_page(&stub.url("/")).await.unwrap();
    let (_, http, _) = taken_apart(&bytes_of(record).await.unwrap());
    assert!(http.starts_with(b"HTTP/1.1 302 Found\r\nLocation: /next\r\n"));
    assert_eq!(stub.asked().len(), 1);
}
