//! Tests of hostile files: no panics, bounded memory, bounded time.

use proptest::prelude::*;
use redis_tests::{assert_contains, assert_starts, rows};

use super::super::{Config, Position, Secrets, SourceKind, yaml};
use super::{parse, refusal};

#[test]
fn exponential_aliases_are_refused() {
    let mut laughs = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let before = level - 1;
        let ten = vec![format!("*l{before}"); 10].join(", ");
        laughs.push_str(&format!("l{level}: &l{level} [{ten}]\n"));
    }
    assert_contains(refusal(&laughs), "more than 200000 values");
    for deep in ["[", "{a: ", "- ", "? "] {
        let text = refusal(&deep.repeat(100_000));
        let mut reasons = ["invalid YAML", "levels deep", "must be a string"].iter();
        assert!(reasons.any(|why| text.contains(why)), "{text}");
    }
    for long in [
        "x".repeat(yaml::MAX_TEXT + 1),
        "- x\n".repeat(300_000),
        "#\n".repeat(1_000_000),
    ] {
        refusal(&long);
    }
}

#[test]
fn unreadable_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.yaml");
    let text = Config::load(&missing).unwrap_err().to_string();
    let expected = format!("{}: this file cannot be read: ", missing.display());
    assert_starts(&text, &expected);
    let file = folder.path().join("config.yaml");
    for (bytes, what) in rows![
        b"a\nb: \xff\n".to_vec(), "line 2 is not valid UTF-8";
        vec![b'x'; yaml::MAX_TEXT + 1], "this file has more than 4194304 bytes";
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert_contains(Config::load(&file).unwrap_err(), what);
    }
    std::fs::write(&file, "\u{feff}collections:\r\n  a: ./x.cdxj\r\n").unwrap();
    let config = Config::load(&file).unwrap();
    let SourceKind::File { path } = &config.collections[0].steps[0].sources[0].kind else {
        panic!("{config:?}");
    };
    assert_eq!(path, &folder.path().join("x.cdxj").into());
}

/// Starting point of mutations, which uses every feature.
const EVERYTHING: &str = "
allow_private: [127.0.0.1, '::1/64']
indexes: {cache_dir: ./cache, metadata: [/m, 'http://h/m/'], wait: 10m, limits: {max_size: 100GB, max_age: 90d}}
collections: &all
  local: {index: ./x.cdxj, resource: [$live, \"http://h/{coll}/\"], tags: redis://h/0/k, access_point: p}
  seq:
    sequence:
      - index: &i cdx+http://h/all-cdx
        resource: >
          ./warcs
      - index_group: {a: *i, b: 'memento+http://h/'}
        index_timeout: 3.0
      - $live
  more: {<<: {index: $live}, timeout: 2}
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,200}", lines in "([ \\t]{0,4}[-?:,{}\\[\\]&*!|>'\"%@`a#<~$. \\n]{0,6}){0,40}") {
        for text in [text, lines] {
            let _ = parse(&text);
            let _ = parse(&format!("collections:\n  a: {text}"));
        }
    }

    #[test]
    fn normal_form_of_any_accepted_configuration_is_accepted(
        before in "(cdx\\+|memento\\+|upstream\\+|zipnum\\+|warc-prefix\\+|warc-index\\+)?(https?://|rediss?://|file://|/|\\.)?",
        place in "[a-c0-9/:.?&=@%()\\[\\]#\\\\ -]{0,12}(\\{(url|timestamp|closest|coll)\\})?[a/:. -]{0,3}(-cdx|/)?( /?[a-c./:]{1,5})?",
        long in 0..4_u8,
    ) {
        let text = serde_json::Value::from(format!("{before}{place}"));
        let index = match long {
            0 => text.to_string(),
            1 => format!("{{type: cdx, api_url: {text}, replay_url: 'http://h/{{timestamp}}/{{url}}'}}"),
            2 => format!("{{type: upstream, url: {text}}}"),
            _ => format!("{{type: file, path: {text}}}"),
        };
        for resource in ["/w".to_owned(), text.to_string()] {
            let text = format!("collections: {{a: {{index: {index}, resource: {resource}}}}}");
            if let Ok((config, _)) = parse(&text) {
                let shown = config.to_yaml(Secrets::Shown);
                match parse(&shown) {
                    Ok((again, _)) => prop_assert_eq!(again, config, "{}", text),
                    Err(errors) => prop_assert!(false, "{}\n{}\n{}", text, errors, shown),
                }
            }
        }
    }

    #[test]
    fn no_mutation_of_a_valid_text_causes_a_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8, "[-?:,{}\\[\\]&*!|>'\"%@`a#<~$. \\n\\t0\u{85}]{1,3}"), 1..8)
    ) {
        let mut text: Vec<char> = EVERYTHING.chars().collect();
        for (at, what, new) in changes {
            let at = at.index(text.len());
            let end = (at + new.len()).min(text.len());
            match what {
                0 => { text.splice(at..end, new.chars()); }
                1 => { text.splice(at..at, new.chars()); }
                2 => { text.drain(at..end); }
                _ => { let again: Vec<char> = text[at..].to_vec(); text.extend(again); }
            }
        }
        let text: String = text.into_iter().collect();
        match parse(&text) {
            // The normal form of every accepted configuration is accepted as well.
            Ok((config, _)) => match parse(&config.to_yaml(Secrets::Shown)) {
                Ok((again, _)) => prop_assert_eq!(again, config),
                Err(errors) => prop_assert!(false, "{}\n{}", errors, config.to_yaml(Secrets::Shown)),
            },
            Err(errors) => {
                prop_assert!(!errors.errors.is_empty());
                let last = text.lines().count() + 1;
                for error in errors.errors {
                    let position = error.position.unwrap();
                    prop_assert!(position >= Position { line: 1, column: 1 } && position.line <= last, "{:?}", error);
                }
            }
        }
    }
}

#[test]
fn mutated_text_is_valid() {
    parse(EVERYTHING).unwrap();
}
