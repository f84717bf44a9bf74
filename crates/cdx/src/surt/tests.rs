use proptest::prelude::*;

use super::*;

mod keys;

#[test]
fn keys_equal_those_of_indexers() {
    for (url, key) in keys::KEYS {
        assert_eq!(urlkey(url).as_deref(), Ok(*key), "{url:?}");
    }
}

#[test]
fn invalid_url_has_no_key() {
    for url in [
        " ",
        "\n\t",
        "http://a:b/",
        "http://a:-1/",
        "http://a:+80/",
        "http://a:65536/",
        "http://a:80:80/",
        "http://[::1]:x/",
        "foo://a:b/",
        "URN://a:b/",
    ] {
        let bad = urlkey(url).unwrap_err();
        assert!(bad.0.contains("invalid URL"), "{bad}");
    }
    let digits = |count| format!("http://{}/", "1".repeat(count));
    assert!(urlkey(&digits(4300)).is_ok());
    assert!(urlkey(&digits(4301)).is_err());
}

#[test]
fn ranges_equal_those_of_a_cdx_server() {
    use MatchType::{Domain, Exact, Host, Prefix};
    let file = "http://example.com/path/file.html";
    for (url, match_type, from, to) in [
        (
            file,
            Exact,
            "com,example)/path/file.html ",
            "com,example)/path/file.html!",
        ),
        (
            file,
            Prefix,
            "com,example)/path/file.html",
            "com,example)/path/file.htmm",
        ),
        (file, Host, "com,example)/", "com,example*"),
        (file, Domain, "com,example)/", "com,example-"),
        (
            "http://example.com/path/",
            Prefix,
            "com,example)/path/",
            "com,example)/path0",
        ),
        (
            "http://example.com/path?",
            Prefix,
            "com,example)/path?",
            "com,example)/path@",
        ),
        (
            "http://example.com/path/?",
            Prefix,
            "com,example)/path?",
            "com,example)/path@",
        ),
        (
            "http://example.com/",
            Prefix,
            "com,example)/",
            "com,example)0",
        ),
        (
            "http://example.com/?a=~",
            Prefix,
            "com,example)/?a=~",
            "com,example)/?a=\x7f",
        ),
        (
            "http://example.com:8080/a",
            Host,
            "com,example:8080)/",
            "com,example:8080*",
        ),
        ("com", Domain, "com,", "com-"),
        ("urn:a:b", Host, "urn:a:b)/", "urn:a:b*"),
        ("", Exact, "- ", "-!"),
    ] {
        let keys = range(url, match_type).unwrap();
        let texts = [keys.from, keys.to].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(texts, [from, to], "{url} {match_type:?}");
    }
    assert!(range("http://a:b/", Exact).is_err());
}

#[test]
fn canonicalization_takes_linear_time() {
    // Quadratic time would mean minutes for each of these URLs.
    let long = 1 << 17;
    for (part, end) in [
        ("%25", "41"),
        ("a/../", ""),
        ("/", ""),
        ("../", ""),
        ("(123456789012345678901234)/", ".aspx?"),
        ("(123456789012345678901234)/%3f", "a.aspx"),
        ("a(123456789012345678901234)", ".aspx"),
        ("?cfid=", ""),
        ("&cfid=1", "&cftoken="),
        ("&cftoken=&cfid=", ""),
        ("?sid=0123456789abcdef0123456789abcde", ""),
        ("?&", "a"),
        ("&a=b&a", ""),
    ] {
        let url = format!("http://example.com/{}{end}", part.repeat(long / part.len()));
        assert!(urlkey(&url).is_ok(), "{part}");
    }
    for part in [
        "\u{e9}", "\u{ad}", "a\u{301}", "\u{300}", "\u{e9}.", "1", "www.", "@", ":", "[",
    ] {
        let _ = urlkey(&format!("http://{}", part.repeat(long / part.len())));
        let _ = urlkey(&format!(
            "http://\u{fc}{}x/",
            part.repeat(long / part.len())
        ));
    }
    assert!(urlkey(&"http://".repeat(long / 7)).is_ok());
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(url in any::<String>()) {
        let _ = urlkey(&url);
        let _ = urlkey(&format!("http://{url}"));
        if let Ok(key) = urlkey(&format!("http://example.com/{url}")) {
            prop_assert!(key.starts_with("com,example)/"));
            prop_assert!(key.bytes().all(|byte| byte.is_ascii_graphic()), "{}", key);
        }
    }

    #[test]
    fn no_url_like_text_causes_a_panic(url in "[a-z:/?#@\\[\\]%0-9.&=()wW \u{e9}\u{5d0}]{0,60}") {
        for match_type in [MatchType::Exact, MatchType::Prefix, MatchType::Host, MatchType::Domain] {
            if let Ok(keys) = range(&url, match_type) {
                prop_assert!(keys.from < keys.to);
            }
        }
    }
}
