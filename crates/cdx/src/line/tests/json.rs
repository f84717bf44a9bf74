use super::*;

#[test]
fn json_cannot_override_the_leading_columns_of_cdxj() {
    let line = capture(br#"a 2 {"urlkey": "b", "timestamp": "3"}"#, Format::Auto);
    assert_eq!(line.field(&Field::Urlkey).unwrap(), &b"a"[..]);
    assert_eq!(line.field(&Field::Timestamp).unwrap(), &b"2"[..]);
}

#[test]
fn malformed_json_is_a_bad_line_at_any_offset() {
    for json in [
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":-}",
        "{\"a\":nul}",
        "{\"a\":tru }",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":'b'}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{\"a\":{\"b\":[{]}}",
        "{\"a\":[\"\\u12\"]}",
        "{\"a\":1}}",
        "{\"a\":1}x",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
    ] {
        let raw = format!("a 2 {json}");
        assert!(
            reason(raw.as_bytes(), Format::Auto).starts_with("its JSON is malformed: "),
            "{json}"
        );
    }
}

/// Generates values as written and as decoded.
fn value() -> impl Strategy<Value = (String, String)> {
    let escaped = |text: String| {
        let units: String = text.encode_utf16().map(|u| format!("\\u{u:04x}")).collect();
        (format!("\"{units}\""), text)
    };
    prop_oneof![
        any::<String>().prop_map(|text| (serde_json::to_string(&text).unwrap(), text)),
        "[a-z/. ]{0,12}".prop_map(|text| (format!("\"{text}\""), text)),
        any::<String>().prop_map(escaped),
        prop::sample::select(
            &[
                "0",
                "-0.50",
                "1E5",
                "123456789012345678901234567890",
                "true",
                "false",
                "[]",
                "[1, \"a\\n\" ]",
                "{ \"url\": {\"url\": null} }",
                "{\"a\":\"}\"}",
                "[[[\"]\"]]]",
            ][..]
        )
        .prop_map(|text| (text.to_owned(), text.to_owned())),
        Just(("null".to_owned(), String::new())),
    ]
}

fn name() -> impl Strategy<Value = (String, String)> {
    let standard = prop::sample::select(
        &[
            "url",
            "original",
            "mime",
            "mimetype",
            "status",
            "statuscode",
            "redirecturl",
            "filename",
            "offset",
            "orig.offset",
            "languages",
            "Url",
            "",
        ][..],
    );
    prop_oneof![
        10 => standard.prop_map(|n| (format!("\"{n}\""), n.to_owned())),
        1 => Just(("\"\\u0075rl\"".to_owned(), "url".to_owned())),
        1 => any::<String>().prop_map(|n| (serde_json::to_string(&n).unwrap(), n)),
    ]
}

fn canonical(name: &str) -> &str {
    match name {
        "original" => "url",
        "mimetype" => "mime",
        "statuscode" => "status",
        "redirecturl" => "redirect",
        other => other,
    }
}

proptest! {
    #[test]
    fn last_value_of_a_json_member_wins(
        members in prop::collection::vec((name(), value()), 0..12),
        blanks in prop::collection::vec(prop::sample::select(&["", "", " ", "\t", "  ", "\r"][..]), 60),
    ) {
        let mut blanks = blanks.into_iter().cycle();
        let mut blank = || blanks.next().unwrap();
        let written: Vec<String> = members
            .iter()
            .map(|((name, _), (value, _))| {
                format!("{}{name}{}:{}{value}{}", blank(), blank(), blank(), blank())
            })
            .collect();
        let raw = format!("org,example)/ 20240102030405 {{{}{}}}{}", blank(), written.join(","), blank());
        let line = capture(raw.as_bytes(), Format::Auto);
        prop_assert_eq!(line.format(), Format::Cdxj);
        let asked = members.iter().map(|((_, name), _)| name.as_str());
        for name in asked.chain(["url", "status", "length", "nowhere"]) {
            if matches!(name, "urlkey" | "timestamp") {
                continue;
            }
            let last = members
                .iter()
                .rev()
                .find(|((_, own), _)| canonical(own) == canonical(name))
                .map(|(_, (_, text))| text.as_str());
            let field = Field::named(name.as_bytes());
            let found = line.field(&field).unwrap();
            prop_assert_eq!(&*found, last.unwrap_or("").as_bytes(), "{}", name);
            prop_assert_eq!(line.has(&field), last.is_some());
        }
        prop_assert_eq!(line.filename(), line.field(&Field::Filename).unwrap());
        let or_dash = |field| match line.field(&field).unwrap() {
            value if value.is_empty() => b"-".to_vec(),
            value => value.into_owned(),
        };
        let mut id = Vec::new();
        line.record_id(&mut id);
        prop_assert_eq!(id, [
            &b"org,example)/"[..], b"20240102030405",
            &or_dash(Field::Filename), &or_dash(Field::Offset),
        ].join(&b' '));
    }

    #[test]
    fn json_is_accepted_if_and_only_if_it_is_valid(
        json in prop::collection::vec(prop::sample::select(
            &["{", "}", "[", "]", "\"a\"", "\"url\"", ":", ",", "1", "-", "null", " ", "\\", "\"", "e", "true"][..]), 0..14)
    ) {
        let json = format!("{{{}", json.concat());
        let raw = format!("a 2 {json}");
        let wanted = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&json);
        prop_assert_eq!(Line::read(raw.as_bytes(), Format::Auto).is_ok(), wanted.is_ok(), "{}", json);
    }
}
