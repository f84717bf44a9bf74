//! Tests of requests to well-behaved and to misbehaving servers.

use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use redis_tests::{
    Asked, Part, ScriptedHost, answer, assert_contains, assert_starts, but, once, then, until, with,
};

use super::*;

fn network(address: &str, bits: u8) -> Network {
    Network {
        address: address.parse().unwrap(),
        bits,
    }
}

fn here() -> Arc<Net> {
    Net::new(&[network("127.0.0.0", 8), network("::1", 128)]).unwrap()
}

fn get(url: &str) -> Request {
    Request::get(url.parse().unwrap())
}

/// Limits that are short enough for tests that run into them, and long enough for the other tests.
fn impatient() -> Limits {
    with!(Limits, first: Duration::from_millis(300), silence: Duration::from_millis(300))
}

async fn read(answer: Response) -> Result<Vec<u8>, Error> {
    let parts: Vec<Bytes> = answer.body.try_collect().await?;
    Ok(parts.concat())
}

/// Sends a `GET` with the default limits.
async fn ask(net: &Net, url: &str) -> Result<Response, Error> {
    net.send(get(url), &Limits::default()).await
}

/// Sends a `GET` and returns the body.
async fn body(net: &Net, url: &str, limits: &Limits) -> Result<Vec<u8>, Error> {
    read(net.send(get(url), limits).await?).await
}

fn run<T>(test: impl std::future::Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test)
}

#[test]
fn connections_are_reused_after_any_form_of_body() {
    let chunks = "2\r\nte\r\n2\r\nxt\r\n0\r\nA: b\r\n\r\n";
    let chunks = format!("HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    let host = ScriptedHost::start(move |asked| match asked.target.as_str() {
        "/plain" => answer(200, &[], "text"),
        "/empty" => answer(204, &[], ""),
        "/chunks" => vec![Part::Bytes(chunks.clone().into())],
        _ => answer(404, &[], "not here"),
    });
    run(async {
        let net = here();
        for (path, status, body) in [
            ("/plain", 200, "text"),
            ("/empty", 204, ""),
            ("/chunks", 200, "text"),
            ("/other", 404, "not here"),
            ("/plain?a=b#c", 404, "not here"),
        ] {
            let answer = ask(&net, &host.url(path)).await.unwrap();
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(read(answer).await.unwrap(), body.as_bytes(), "{path}");
        }
        let head = but!(get(&host.url("/other")), method: Method::HEAD);
        let answer = net.send(head, &Limits::default()).await;
        assert!(answer.is_ok_and(|answer| answer.status == 404));
    });
    assert_eq!(host.accepted(), 1);
    let asked = host.asked();
    for asked in &asked {
        assert_starts(&asked.fields["user-agent"], "crawlspace/");
    }
    assert_eq!(asked[4].target, "/plain?a=b");
    let expected = format!("127.0.0.1:{}", host.port());
    assert_eq!(asked[0].fields["host"], expected);
}

#[test]
fn dead_idle_connection_is_no_error() {
    let host = ScriptedHost::start(|asked| match asked.connection {
        // When the connection is reused, the server closes it without a response.
        0 if asked.target == "/2" => vec![Part::Close],
        _ => answer(200, &[], "text"),
    });
    run(async {
        let net = here();
        for path in ["/1", "/2", "/3"] {
            let text = body(&net, &host.url(path), &Limits::default()).await;
            assert_eq!(text.unwrap(), b"text");
        }
    });
    assert_eq!(host.accepted(), 2);
    let host = ScriptedHost::start(|_| vec![Part::Close]);
    let error = run(ask(&here(), &host.url("/"))).err().unwrap();
    let expected = "it closed the connection without an answer";
    assert_eq!(error.to_string(), expected);
    assert_eq!(host.accepted(), 1);
}

#[test]
fn post_is_never_sent_twice() {
    let host = ScriptedHost::start(|asked| match asked.method.as_str() {
        "POST" => vec![Part::Close],
        _ => answer(200, &[], "text"),
    });
    run(async {
        let net = here();
        let url = host.url("/");
        body(&net, &url, &Limits::default()).await.unwrap();
        let post = but!(get(&url), method: Method::POST, body: Bytes::from_static(b"a=b"));
        assert!(net.send(post, &Limits::default()).await.is_err());
    });
    let asked = host.asked().into_iter();
    let posts: Vec<_> = asked.filter(|asked| asked.method == "POST").collect();
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].body, b"a=b");
}

#[test]
fn private_addresses_are_refused_in_all_spellings() {
    let host = ScriptedHost::start(|_| answer(200, &[], "secret"));
    let port = host.port();
    run(async {
        let net = Net::new(&[]).unwrap();
        for written in [
            "127.0.0.1",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "127.0.0.1.",
            "0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[::]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::1]",
            "169.254.169.254",
            "10.1.2.3",
            "%31%32%37.0.0.1",
            "①②⑦.0.0.1",
        ] {
            let refused = ask(&net, &format!("http://{written}:{port}/")).await.err();
            // Some resolvers do not accept every notation of an address.
            let is_unknown = !written.contains(|c: char| c.is_ascii_digit())
                && matches!(refused, Some(Error::Unreachable { .. }));
            let by_guard = matches!(refused, Some(Error::Private(_)));
            assert!(is_unknown || by_guard, "{written}: {refused:?}");
        }
        let refused = ask(&net, "ftp://example.com/").await.err();
        assert!(matches!(refused, Some(Error::Refused(_))));
        // Allowing an address does not allow any other address.
        let net = Net::new(&[network("127.0.0.1", 32)]).unwrap();
        for (written, passes) in [
            ("127.0.0.1", true),
            ("127.1", true),
            ("127.0.0.2", false),
            ("[::1]", false),
        ] {
            let sent = ask(&net, &format!("http://{written}:{port}/")).await;
            assert_eq!(sent.is_ok(), passes, "{written}");
        }
    });
    assert_eq!(host.asked().len(), 2);
}

#[test]
fn redirects_are_followed_to_allowed_addresses() {
    let host = ScriptedHost::start(|asked| match asked.target.as_str() {
        "/relative" => answer(301, &[("Location", "there?a b")], ""),
        "/there?a%20b" => answer(200, &[], "text"),
        "/cycle" => answer(302, &[("Location", "/cycle")], ""),
        "/nowhere" => answer(302, &[], "no place"),
        "/choices" => answer(300, &[("Location", "/there")], "choices"),
        path => answer(307, &[("Location", &path[1..])], ""),
    });
    run(async {
        let net = Net::new(&[network("127.0.0.1", 32)]).unwrap();
        let send = async |path: &str| ask(&net, &host.url(path)).await;
        let answer = send("/relative").await.unwrap();
        assert_eq!(answer.url.path(), "/there");
        assert_eq!(read(answer).await.unwrap(), b"text");
        assert_eq!(send("/nowhere").await.unwrap().status, 302);
        assert_eq!(send("/choices").await.unwrap().status, 300);
        let before = host.asked().len();
        let cycle = send("/cycle").await.err().unwrap();
        assert_contains(&cycle, "more than 10 times");
        assert_eq!(host.asked().len() - before, MAX_REDIRECTS + 1);
        for elsewhere in [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::1]/",
            "http://localhost:1/",
            "http://127.0.0.2/",
            "//10.0.0.1/",
            "http://2852039166/",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "gopher://127.0.0.1/",
        ] {
            // `localhost` resolves to the allowed address, and perhaps to one that is not allowed.
            let refused = send(&format!("/{elsewhere}")).await.err().unwrap();
            let by_guard = matches!(refused, Error::Private(_) | Error::Refused(_));
            let is_name = elsewhere.contains("localhost");
            assert!(by_guard || is_name, "{elsewhere}: {refused}");
        }
    });
}

/// Creates a client that uses that proxy for all servers.
fn through(proxy: &str) -> Arc<Net> {
    let mut net = Net::with(None).unwrap();
    let proxies = Matcher::builder().all(proxy).no("127.0.0.1").build();
    Arc::get_mut(&mut net).unwrap().proxies = Some(proxies);
    net
}

#[test]
fn proxy_gets_absolute_urls_and_opens_tunnels() {
    let proxy = ScriptedHost::start(|asked| match asked.method.as_str() {
        "CONNECT" => answer(407, &[], "who is it?"),
        _ => answer(200, &[], "text"),
    });
    let url = proxy.url("").replace("://", "://aladdin:sesame@");
    run(async {
        let net = through(&url);
        // The test machine cannot resolve this name.
        let limits = Limits::default();
        let text = body(&net, "http://user:secret@a.invalid:81/b?c#d", &limits).await;
        assert_eq!(text.unwrap(), b"text");
        let refused = ask(&net, "https://a.invalid/b").await.err().unwrap();
        assert_contains(&refused, "its proxy answers with HTTP status 407");
        let text = body(&net, &proxy.url("/direct"), &limits).await;
        assert_eq!(text.unwrap(), b"text");
        let refused = ask(&through("socks5://127.0.0.1:1"), "http://a.invalid/").await;
        assert!(matches!(refused.err(), Some(Error::Refused(_))));
        // With a guard, the proxies of the environment are ignored.
        assert!(here().proxies.is_none());
    });
    let asked = proxy.asked();
    let targets = asked.iter().map(|asked| asked.target.as_str());
    assert!(targets.eq(["http://a.invalid:81/b?c", "a.invalid:443", "/direct"]));
    let credentials = |asked: &Asked| asked.fields.get("proxy-authorization").cloned();
    let expected = Some("Basic YWxhZGRpbjpzZXNhbWU=".to_owned());
    let sent: Vec<_> = asked.iter().map(credentials).collect();
    assert_eq!(sent, [expected.clone(), expected, None]);
    assert_eq!(asked[0].fields["authorization"], "Basic dXNlcjpzZWNyZXQ=");
    assert_eq!(asked[0].fields["host"], "a.invalid:81");
}

#[test]
fn credentials_are_sent_to_no_other_server() {
    let other = ScriptedHost::start(|_| answer(200, &[], ""));
    let away = other.url("/");
    let host = ScriptedHost::start(move |asked| match asked.target.as_str() {
        "/here" => {
            let there = format!("http://{}/there", asked.fields["host"]);
            answer(302, &[("Location", &there)], "")
        }
        _ => answer(302, &[("Location", &away)], ""),
    });
    run(async {
        let url = host
            .url("/here")
            .replace("://", "://aladdin:open%20sesame@");
        let answer = ask(&here(), &url).await.unwrap();
        assert_eq!(answer.url.as_str(), other.url("/"));
    });
    let credentials = |asked: Asked| asked.fields.get("authorization").cloned();
    let sent = |host: &ScriptedHost| -> Vec<_> {
        let asked = host.asked().into_iter();
        asked.map(credentials).collect()
    };
    let credentials = Some("Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned());
    assert_eq!(sent(&host), [credentials.clone(), credentials]);
    assert_eq!(sent(&other), [None]);
}

#[test]
fn unresponsive_server_times_out() {
    let head: &[u8] = b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n";
    let host = ScriptedHost::start(move |asked| match asked.target.as_str() {
        "/nothing" => vec![Part::Silence],
        "/head" => then(&head[..20], Part::Silence),
        "/body" => then(head, Part::Silence),
        _ => then([head, b"some"].concat(), Part::Silence),
    });
    let deaf = ScriptedHost::deaf();
    run(async {
        let net = here();
        for url in [deaf.url("/"), host.url("/nothing"), host.url("/head")] {
            let sent = net.send(get(&url), &impatient()).await;
            assert_eq!(sent.err(), Some(Error::Timeout), "{url}");
        }
        for path in ["/body", "/middle"] {
            let answer = net.send(get(&host.url(path)), &impatient()).await.unwrap();
            assert_eq!(read(answer).await, Err(Error::Silence), "{path}");
        }
        // No connection stays open.
        until("connections are closed", || host.gone() == host.accepted());
    });
}

#[test]
fn abandoned_connection_is_closed() {
    let host = ScriptedHost::start(|asked| match asked.target.as_str() {
        "/nothing" => vec![Part::Silence],
        _ => then(
            "HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nsome",
            Part::Silence,
        ),
    });
    run(async {
        let net = here();
        // The request is cancelled while it is in progress.
        let limits = Limits::default();
        let mut waiting = Box::pin(net.send(get(&host.url("/nothing")), &limits));
        while host.asked().is_empty() {
            assert!(waiting.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(waiting);
        until("connections are closed", || host.gone() == 1);
        drop(ask(&net, &host.url("/")).await.unwrap());
        until("connections are closed", || host.gone() == 2);
        assert_eq!(net.pool.count(), 0);
    });
}

fn is_broken(sent: &Result<Vec<u8>, Error>) -> bool {
    matches!(sent, Err(Error::Connection(_) | Error::Answer(_)))
}

#[test]
fn wrong_length_is_an_error() {
    let host = ScriptedHost::start(|asked| {
        once(match asked.target.as_str() {
            "/short" => "HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nsome",
            "/chunk" => "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\na\r\nsome",
            "/chunks" => "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
            "/size" => {
                "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nsome"
            }
            "/twice" => "HTTP/1.1 200 X\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nsome",
            "/negative" => "HTTP/1.1 200 X\r\nContent-Length: -4\r\n\r\nsome",
            "/greeting" => "220 mail.example.com ESMTP\r\n",
            _ => "SSH-2.0-OpenSSH_9.2\r\n",
        })
    });
    run(async {
        let net = here();
        let paths = "/short /chunk /chunks /size /twice /negative /greeting /ssh";
        for path in paths.split(' ') {
            let sent = body(&net, &host.url(path), &Limits::default()).await;
            assert!(is_broken(&sent), "{path}: {sent:?}");
        }
    });
}

#[test]
fn response_size_is_limited() {
    let bomb = {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![0; 64 << 20]).unwrap();
        packed.finish().unwrap()
    };
    assert!(bomb.len() < 1 << 20);
    let begun_chunk = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    let host = ScriptedHost::start(move |asked| match asked.target.as_str() {
        "/announced" => then(
            "HTTP/1.1 200 X\r\nContent-Length: 9999999\r\n\r\n",
            Part::Silence,
        ),
        "/endless" => then("HTTP/1.1 200 X\r\n\r\n", Part::Endless(vec![b'a'; 5000])),
        "/bomb" => answer(200, &[("Content-Encoding", "gzip")], &bomb),
        "/head" => then("HTTP/1.1 200 X\r\n", Part::Endless("A: b\r\n".into())),
        "/field" => then("HTTP/1.1 200 X\r\nA: ", Part::Endless("bbbbbbbb".into())),
        "/chunk" => then(begun_chunk, Part::Endless("extension".into())),
        _ => answer(
            200,
            &[("Content-Encoding", "gzip")],
            &bomb[..bomb.len() - 9],
        ),
    });
    run(async {
        let net = here();
        let limits = with!(Limits, bytes: 1 << 20);
        for path in ["/announced", "/endless", "/bomb"] {
            let sent = body(&net, &host.url(path), &limits).await;
            assert_eq!(
                sent.map(|body| body.len()),
                Err(too_large(1 << 20)),
                "{path}"
            );
        }
        for path in ["/head", "/field", "/chunk"] {
            let sent = body(&net, &host.url(path), &limits).await;
            assert!(
                is_broken(&sent),
                "{path}: {:?}",
                sent.map(|body| body.len())
            );
        }
        let cut = body(&net, &host.url("/cut"), &Limits::default()).await;
        let expected = Error::Answer("its gzip data is truncated".to_owned());
        assert_eq!(cut, Err(expected));
        until("connections are closed", || {
            host.gone() == host.accepted() - net.pool.count()
        });
    });
}

#[test]
fn whole_body_is_decompressed_but_no_part_of_a_file() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"text").unwrap();
    let packed = packed.finish().unwrap();
    let served = packed.clone();
    let host = ScriptedHost::start(move |_| answer(200, &[("Content-Encoding", "GZIP")], &served));
    run(async {
        let net = here();
        let answer = ask(&net, &host.url("/")).await.unwrap();
        assert!(!answer.headers.contains_key(CONTENT_ENCODING));
        assert_eq!(read(answer).await.unwrap(), b"text");
        let mut part = get(&host.url("/"));
        part.headers
            .insert(RANGE, HeaderValue::from_static("bytes=0-999"));
        let answer = net.send(part, &Limits::default()).await.unwrap();
        assert_eq!(read(answer).await.unwrap(), packed);
    });
    let asked = host.asked();
    assert_eq!(asked[0].fields["accept-encoding"], "gzip");
    assert_eq!(asked[1].fields.get("accept-encoding"), None);
}

#[test]
fn thousands_of_cancelled_requests_leave_no_open_files() {
    let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let deaf = ScriptedHost::deaf();
    run(async {
        let net = here();
        let before = open();
        for _ in 0..2000 {
            let limits = with!(Limits, first: Duration::from_millis(1));
            // Pending requests fill the accept queue of the host and wait for a connection.
            let sent = net.send(get(&deaf.url("/")), &limits).await;
            assert_eq!(sent.err(), Some(Error::Timeout));
        }
        // Tests that run in parallel open files as well.
        until("files are closed", || open() < before + 200);
        assert_eq!(net.pool.count(), 0);
    });
}
