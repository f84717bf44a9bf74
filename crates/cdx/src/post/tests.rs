use proptest::prelude::*;

use super::*;

/// Returns the text that is appended to a URL without a query.
fn appended(content_type: &str, body: &[u8]) -> String {
    let url = lookup_url("http://a.com/", "POST", Some(content_type), body);
    let appended = url.strip_prefix("http://a.com/?__wb_method=POST").unwrap();
    appended.trim_start_matches('&').to_owned()
}

#[test]
fn method_is_added_to_the_query() {
    for (url, method, lookup) in [
        ("http://a.com/", "GET", "http://a.com/"),
        ("http://a.com/", "head", "http://a.com/"),
        ("http://a.com/", "post", "http://a.com/?__wb_method=POST"),
        ("http://a.com/?", "PUT", "http://a.com/?&__wb_method=PUT"),
        (
            "http://a.com/?b",
            "OPTIONS",
            "http://a.com/?b&__wb_method=OPTIONS",
        ),
        ("", "POST", ""),
    ] {
        assert_eq!(lookup_url(url, method, None, b""), lookup, "{method}");
    }
    let with_body = lookup_url("http://a.com/", "DELETE", Some("text/plain"), b"{\"a\":1}");
    assert_eq!(with_body, "http://a.com/?__wb_method=DELETE");
}

#[test]
fn form_body_is_unescaped() {
    let form = "application/x-www-form-urlencoded; charset=UTF-8";
    for (body, query) in [
        (
            &b"foo=bar&dir=%2Fbaz&do=true"[..],
            "foo=bar&dir=/baz&do=true",
        ),
        (b"a+b=%2B%20", "a b=+ "),
        (b"%c3%a9=%e9&%=%z1", "\u{e9}=\u{fffd}&%=%z1"),
        (b"\x816l`L\xa04P\x0e", "__wb_post_data=gTZsYEygNFAO"),
    ] {
        assert_eq!(appended(form, body), query);
    }
}

#[test]
fn json_body_becomes_a_form() {
    for (body, query) in [
        (r#"{"a": "b", "c": {"a": 2}, "d": "e"}"#, "a=b&a.2_=2&d=e"),
        (
            r#"{"f": true, "g": [false, null], "h": {}}"#,
            "f=true&g=false&g.2_=null",
        ),
        (
            r#"{"a": 1.0, "b": -0.0, "c": 35.7, "d": 1e-7, "e": 1e21, "f": -0}"#,
            "a=1&b=0&c=35.7&d=1e-07&e=1000000000000000000000&f=0",
        ),
        (
            r#"{"a": 12345678901234567890123, "b": NaN}"#,
            "a=12345678901234567890123&b=nan",
        ),
        (
            r#"{"a b": "\u00e9\ud83d\ude00 &="}"#,
            "a+b=%C3%A9%F0%9F%98%80+%26%3D",
        ),
        (r#"{"a": 1, "b": 2, "a": 3}"#, "a=3&b=2"),
        (
            r#"[{"n": 1}, {"n": 2}, {"n.2_": 3}]"#,
            "n=1&n.2_=2&n.2_.2_=3",
        ),
        (r#"{"a": "\ud800"}"#, ""),
        (r#"{"a": 1e999}"#, ""),
        ("[1, 2]", ""),
        ("\"a\"", ""),
        ("{\"a\": 01}", ""),
        ("{\"a\": 1,}", ""),
        ("{\"a\": \"\n\"}", ""),
        ("{\"a\": 1} 2", ""),
    ] {
        assert_eq!(
            appended("application/json", body.as_bytes()),
            query,
            "{body}"
        );
    }
    assert_eq!(appended("text/plain", b"{\"a\": 1}"), "a=1");
    assert_eq!(appended("text/plain", b"foo"), "__wb_post_data=Zm9v");
    let deep = |depth| "[".repeat(depth) + &"]".repeat(depth);
    for depth in [10, 800, 2_000, 1_000_000] {
        assert_eq!(appended("application/json", deep(depth).as_bytes()), "");
    }
}

#[test]
fn multipart_body_becomes_a_form() {
    let body = b"preamble\r\n--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n2\r\n--x\r\n\
        content-disposition: form-data; name=b; filename=\"c;d\"\r\nContent-Type: image/png\r\n\r\n\xff\xfe\r\n--x--\r\nrest";
    let kind = "multipart/form-data; boundary=x";
    assert_eq!(appended(kind, body), "a=1%0D%0A2&b=%FF%FE");
    assert_eq!(
        appended("multipart/form-data; boundary=\"x\"", b"--x\n\na\n--x"),
        "None=a"
    );
    assert_eq!(appended(kind, b"nothing"), "");
    assert_eq!(
        appended("multipart/form-data", b"foo"),
        "__wb_post_data=Zm9v"
    );
}

#[test]
fn other_bodies_become_base64() {
    for (body, base64) in [
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
    ] {
        assert_eq!(
            appended("image/png", body.as_bytes()),
            format!("__wb_post_data={base64}")
        );
    }
    assert_eq!(appended("", b"\xfb\xff"), "__wb_post_data=+/8=");
}

#[test]
fn appended_query_is_limited() {
    let long = vec![b'a'; 100_000];
    for kind in [
        "application/x-www-form-urlencoded",
        "application/octet-stream",
    ] {
        assert_eq!(appended(kind, &long).len(), MAX_APPENDIX);
    }
    let accents = "\u{e9}".repeat(10_000);
    let appended = appended("application/x-www-form-urlencoded", accents.as_bytes());
    assert_eq!(appended.chars().count(), MAX_APPENDIX);
}

proptest! {
    #[test]
    fn any_body_gives_a_url(body in prop::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
        let kinds = ["application/x-www-form-urlencoded", "multipart/a; boundary=a", "application/json", "text/plain", "x"];
        let _ = appended(kinds[kind], &body);
    }

    #[test]
    fn any_json_gives_a_url(body in "[\\[\\]{}\",:a\\\\ud8eE0-9.+ -]{0,60}") {
        let _ = appended("application/json", body.as_bytes());
    }

    #[test]
    fn any_multipart_body_gives_a_url(body in "(--a|--a--|\r\n|\n|\r|name=|;|\"|[a-d: ]|Content-Disposition: ){0,40}", kind in "[\";=a \\\\]{0,20}") {
        let _ = appended("multipart/a; boundary=a", body.as_bytes());
        let _ = appended(&format!("multipart/a{kind}boundary={kind}"), body.as_bytes());
    }
}
