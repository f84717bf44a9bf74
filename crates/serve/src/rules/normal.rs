//! Finds keys of rules that match no urlkey because they are not normalized. Urlkeys have no
//! `www.`, capital letters, fragments, unnecessary escapes or trailing slash.

use crawlspace_cdx::surt::urlkey;

/// Possible continuations of a prefix. A prefix of a query needs a parameter that sorts after those in the prefix.
const CONTINUATIONS: [&str; 6] = ["", "x", "0", "~~~", "/x", "=x"];

/// Returns the key that the author of a rule probably meant, if the rule's key matches no urlkey.
/// Returns `None` if the key matches some urlkeys, or in case of doubt.
pub(super) fn normal_key(key: &[u8], is_exact: bool) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    // Heritrix writes SURTs with an opening parenthesis.
    if let Some(bare) = key.strip_prefix('(') {
        let normal = normal_key(bare.as_bytes(), is_exact);
        return Some(normal.unwrap_or_else(|| bare.to_owned()));
    }
    let (place, path) = key.split_once(')')?;
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, format!(":{port}")),
        None => (place, String::new()),
    };
    let mut labels: Vec<&str> = host.trim_end_matches(',').split(',').collect();
    labels.reverse();
    let slash = if path.is_empty() || path.starts_with('/') {
        ""
    } else {
        "/"
    };
    let path = if is_exact { path } else { whole_escapes(path) };
    let rest = format!("{}{port}{slash}{path}", labels.join("."));
    let key_in = |scheme: &str, end: &str| urlkey(&format!("{scheme}://{rest}{end}")).ok();
    let wanted = format!("{place}){path}");
    let is_matched = |scheme: &str| {
        if is_exact {
            return key_in(scheme, "").is_some_and(|found| found == wanted);
        }
        let mut found = CONTINUATIONS.iter().filter_map(|end| key_in(scheme, end));
        found.any(|found| found.starts_with(&wanted))
    };
    let key_of = |end: &str| key_in("http", end);
    // The key of a URL contains the default port of the other scheme.
    if is_matched("http") || is_matched("https") {
        return None;
    }
    let bare = key_of("")?;
    // A prefix keeps its trailing slash if something follows it.
    let longer = key_of("x").filter(|longer| !is_exact && *longer != bare);
    let normal = longer.and_then(|longer| longer.strip_suffix('x').map(str::to_owned));
    let normal = normal.unwrap_or(bare);
    (normal != wanted).then_some(normal)
}

/// Removes an incomplete escape at the end of a string.
fn whole_escapes(text: &str) -> &str {
    match text.rfind('%') {
        Some(at) if at + 3 > text.len() => text.get(..at).unwrap_or(text),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_that_match_nothing_have_a_normal_form() {
        for (key, normal) in [
            ("com,example,www)/p", "com,example)/p"),
            ("com,example,www2)/", "com,example)/"),
            ("com,example)/Path", "com,example)/path"),
            ("com,example)/p?A=B", "com,example)/p?a=b"),
            ("(com,example,)/p", "com,example)/p"),
            ("(com,example,", "com,example,"),
            ("(com,example,www,)/P/", "com,example)/p/"),
            ("com,example,)/p", "com,example)/p"),
            ("com,example)/%70", "com,example)/p"),
            ("com,example)/a%7Eb/", "com,example)/a~b/"),
            ("com,example)/a//b", "com,example)/a/b"),
            ("com,example)/a/../b/", "com,example)/b/"),
            ("com,example)/p#part", "com,example)/p"),
            ("com,example)?a", "com,example)/?a"),
            ("com,example)/p?b=1&a=2", "com,example)/p?a=2&b=1"),
            ("com,example)/\u{fc}", "com,example)/%c3%bc"),
        ] {
            assert_eq!(
                normal_key(key.as_bytes(), false).as_deref(),
                Some(normal),
                "{key}"
            );
            assert_eq!(normal_key(normal.as_bytes(), false), None, "{normal}");
        }
        for (key, normal) in [
            ("com,example)/p/", "com,example)/p"),
            ("com,example)/p?", "com,example)/p"),
            ("com,example,www)/", "com,example)/"),
            ("com,example)/P", "com,example)/p"),
        ] {
            assert_eq!(
                normal_key(key.as_bytes(), true).as_deref(),
                Some(normal),
                "{key}"
            );
            assert_eq!(normal_key(normal.as_bytes(), true), None, "{normal}");
        }
    }

    #[test]
    fn keys_that_match_something_are_unchanged() {
        for key in [
            "com,example:80)/",
            "com,example:443)/p",
            "com",
            "com,",
            "com,example",
            "com,example,",
            "com,example)",
            "com,example)/",
            "com,example)/p/",
            "com,example)/p?",
            "com,example)/p?a=1&",
            "com,example)/%e",
            "com,example)/%",
            "com,example,www",
            "com,example,www,a)/",
            "com,example:8080)/",
            "com,example:8",
            "1,1,168,192)/",
            "localhost)/",
        ] {
            assert_eq!(normal_key(key.as_bytes(), false), None, "{key}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn every_urlkey_and_its_prefixes_match_something(
            host in "(www\\.)?[a-z]{1,3}(\\.[a-zA-Z0-9]{1,4}){1,3}(:80|:8080)?",
            path in "(/([a-zA-Z0-9._~!$'()+,;:@=|\\[\\] %-]|%[0-9a-fA-F]{2}|\u{fc}){0,4}){0,3}",
            query in "(\\?([a-cA-C0-9%=&/?~]|%[0-9a-f]{2}){0,8})?",
        ) {
            let url = format!("http://{host}{path}{query}");
            // An escaped delimiter becomes a delimiter in the urlkey.
            let is_plain = !["%3f", "%3F", "%23", "%25"].iter().any(|escape| path.contains(escape));
            if let Ok(key) = urlkey(&url) && is_plain {
                prop_assert_eq!(normal_key(key.as_bytes(), true), None, "{}: {}", url, key);
                for end in 1..=key.len() {
                    let begin = &key[..end];
                    prop_assert_eq!(normal_key(begin.as_bytes(), false), None, "{}: {}", url, begin);
                }
            }
        }
    }
}
