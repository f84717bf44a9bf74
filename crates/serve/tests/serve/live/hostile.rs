//! Tests responses that never end, contradict their headers, or are invalid: each causes an error within the
//! limits, and never a record.

use std::io::{Read, Write, copy, sink};
use std::net::TcpListener;
use std::time::Duration;

use crawlspace_fetch::Net;
use crawlspace_index::source::{Limits, SourceError};
use crawlspace_serve::resource::client_request::ClientRequest;
use crawlspace_serve::resource::live;
use crawlspace_serve::resource::record::LoadError;
use crawlspace_warc::http::MAX_HEAD;
use http::Method;

use crate::live::{limits, live_row, load_live, load_page, refusal};
use redis_tests::{Part, ScriptedHost, but, rows, with};

/// Returns the error for a response of the host.
async fn refused(host: &ScriptedHost, limits: &Limits) -> LoadError {
    refusal(load_live(&host.url("/"), &ClientRequest::default(), limits).await)
}

#[track_caller]
fn must_be(error: &LoadError, word: &str, what: &str) {
    assert_eq!(error.word(), word, "{what}: {error}");
}

#[tokio::test]
async fn truncated_response_is_no_record() {
    for answer in [
        "",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let error = refused(&ScriptedHost::answering(answer), &limits()).await;
        must_be(&error, "connection", answer);
    }
}

#[tokio::test]
async fn non_http_response_is_no_record() {
    for answer in [
        "hello",
        "<html>no header at all</html>",
        "ICY 200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
    ] {
        let error = refused(&ScriptedHost::answering(answer), &limits()).await;
        must_be(&error, "answer", answer);
    }
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    let error = refused(&ScriptedHost::answering(interim), &limits()).await;
    must_be(&error, "answer", "interim answers");
}

#[tokio::test]
async fn endless_response_is_cut_off() {
    let few = but!(limits(), bytes: 1_000_000);
    type Endless = (&'static str, &'static [u8], &'static [u8], &'static str);
    let endless: [Endless; 8] = rows![
        "body", b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 8192], "too-large";
        "chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n",
            "too-large";
        "chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\n", b"x",
            "too-large";
        "extension", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x", "answer";
        "trailer", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n",
            "answer";
        "header", b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", "too-large";
        "line", b"HTTP/1.1 200 OK\r\nA: ", b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "too-large";
        "blank lines", b"\r\n", b"\r\n\r\n\r\n\r\n", "answer";
    ];
    for (what, begin, more, word) in endless {
        let more = more.repeat(8192 / more.len());
        let stub = ScriptedHost::start(move |_| {
            vec![Part::Bytes(begin.to_vec()), Part::Endless(more.clone())]
        });
        must_be(&refused(&stub, &few).await, word, what);
    }
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n".to_owned();
    let header = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(MAX_HEAD));
    for answer in [announced, header] {
        let error = refused(&ScriptedHost::answering(&*answer), &few).await;
        must_be(&error, "too-large", &answer);
    }
}

#[tokio::test]
async fn silent_server_times_out() {
    let soon = Duration::from_millis(50);
    for (sent, impatient) in rows![
        "", Limits { first: soon, ..limits() };
        "HTTP/1.1 200 OK\r\n", Limits { first: soon, ..limits() };
        "HTTP/1.1 100 Continue\r\n\r\n", Limits { first: soon, ..limits() };
        "HTTP/1.1 200 OK\r\n\r\nhello", Limits { silence: soon, ..limits() };
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", Limits { silence: soon, ..limits() };
        "HTTP/1.1 200 OK\r\n\r\nhello", Limits { total: soon, ..limits() };
        "", Limits { total: soon, ..limits() };
    ] {
        let stub = ScriptedHost::start(move |_| vec![Part::Bytes(sent.into()), Part::Silence]);
        must_be(&refused(&stub, &impatient).await, "timeout", sent);
    }
}

#[tokio::test]
async fn dripping_response_is_cut_off_at_its_timeout() {
    for begin in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: ",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;",
    ] {
        // The response is slow, but its pauses are shorter than the timeout.
        let drip = Part::Drip(b"x".to_vec(), Duration::from_millis(1));
        let stub = ScriptedHost::start(move |_| vec![Part::Bytes(begin.into()), drip.clone()]);
        let total = Duration::from_millis(100);
        let error = refused(&stub, &Limits { total, ..limits() }).await;
        must_be(&error, "timeout", begin);
    }
}

#[tokio::test]
async fn connection_reset_is_no_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Closing the connection with unread data causes a reset.
        stream.read_exact(&mut [0; 10]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
    });
    must_be(&refusal(load_page(&url).await), "connection", "reset");
    server.join().unwrap();
}

#[tokio::test]
async fn refused_connection_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let url = format!("http://{}/", free.unwrap());
    must_be(&refusal(load_page(&url).await), "connection", "refused");
}

#[tokio::test]
async fn private_addresses_are_not_fetched() {
    let stub = ScriptedHost::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let strict = Net::new(&[]).unwrap();
    let port = stub.address().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "0",
    ] {
        let row = live_row(&format!("http://{host}:{port}/"));
        let loaded = live::load(&strict, &limits(), &row, &ClientRequest::default()).await;
        let error = refusal(loaded);
        assert!(
            matches!(error, LoadError::Net(SourceError::Forbidden(_))),
            "{host}: {error}"
        );
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn proxy_methods_are_refused() {
    let stub = ScriptedHost::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for method in [Method::CONNECT, Method::TRACE] {
        let request = with!(ClientRequest, method);
        let error = refusal(load_live(&stub.url("/"), &request, &limits()).await);
        must_be(&error, "request", "method");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn dropped_fetch_closes_its_connection() {
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let (gone, is_gone) = std::sync::mpsc::channel();
    let stub = ScriptedHost::handling(move |_, mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello")?;
        begun.lock().unwrap().take().unwrap().send(()).unwrap();
        drop(copy(&mut stream, &mut sink()));
        gone.send(()).unwrap();
        Ok(false)
    });
    let (url, request, limits) = (stub.url("/"), ClientRequest::default(), limits());
    tokio::select! {
        _ = load_live(&url, &request, &limits) => panic!("it ended"),
        begun = has_begun => begun.unwrap(),
    }
    // The client must close the connection; otherwise the test would wait forever.
    let gone = tokio::task::spawn_blocking(move || is_gone.recv().unwrap());
    gone.await.unwrap();
}
