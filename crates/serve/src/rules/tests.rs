use proptest::prelude::*;

use super::*;

const NOW: &[u8] = b"20260228120000";

fn now() -> Timestamp {
    Timestamp::earliest(NOW).unwrap()
}

/// Rules from the lines of a file.
fn rules(lines: &str) -> Result<Rules, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.aclj");
    fs::write(&file, lines).unwrap();
    let read = Rules::read(vec![dir.path().to_owned()], Access::Allow, None);
    read.map_err(|error| error.replace(&file.display().to_string(), "rules.aclj"))
}

fn rule(key: &str, access: &str) -> String {
    format!("{key} - {{\"access\": \"{access}\", \"url\": \"x\"}}\n")
}

fn under(dates: Dates, access: Access, lines: &str) -> Rules {
    let embargo = Some(Embargo { dates, access });
    Rules {
        embargo,
        ..rules(lines).unwrap()
    }
}

#[test]
fn the_longest_key_decides() {
    let lines = [
        rule("org,example)/secret", "exclude"),
        rule("org,example)/secret/open", "allow"),
        rule("org,example)/###", "block"),
        rule("org,example", "allow_ignore_embargo"),
        rule("com,", "block"),
    ];
    let rules = rules(&lines.concat()).unwrap();
    assert_eq!(rules.len(), 5);
    for (urlkey, expected) in [
        ("org,example)/secret", Access::Exclude),
        ("org,example)/secrets?a=1", Access::Exclude),
        ("org,example)/secret/closed", Access::Exclude),
        ("org,example)/secret/open/a", Access::Allow),
        ("org,example)/", Access::Block),
        ("org,example)/a", Access::Allow),
        ("org,example,www)/", Access::Allow),
        ("com,a)/", Access::Block),
        ("com", Access::Allow),
        ("", Access::Allow),
        ("net,a)/", Access::Allow),
    ] {
        let verdict = rules.verdict(urlkey.as_bytes(), NOW, now());
        assert_eq!(verdict, expected, "{urlkey}");
    }
}

#[test]
fn a_rule_for_all_holds_where_no_other_does() {
    let rules = rules(&[rule("com,a)/", "allow"), rule("*,", "exclude")].concat()).unwrap();
    assert_eq!(rules.verdict(b"com,a)/", NOW, now()), Access::Allow);
    assert_eq!(rules.verdict(b"com,b)/", NOW, now()), Access::Exclude);
}

#[test]
fn of_two_rules_with_one_key_the_stricter_one_is_kept() {
    let lines = [
        rule("com,a)/", "allow"),
        rule("com,a)/", "exclude"),
        rule("com,a)/", "block"),
    ];
    let rules = rules(&lines.concat()).unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules.verdict(b"com,a)/", NOW, now()), Access::Exclude);
}

#[test]
fn what_is_for_one_user_opens_nothing_for_others() {
    let line = r#"com,a)/ - {"access": "allow", "user": "staff"}"#;
    let rules = self::rules(&format!("{line}\r\n\n{}", rule("com,", "block"))).unwrap();
    assert_eq!(rules.verdict(b"com,a)/", NOW, now()), Access::Block);
    let all = self::rules(r#"com,a)/ - {"access": "exclude", "user": ""}"#).unwrap();
    assert_eq!(all.verdict(b"com,a)/", NOW, now()), Access::Exclude);
}

#[test]
fn invalid_rules_are_named() {
    for (line, what) in [
        ("com,a)/", "rules.aclj:2: invalid rule, write: urlkey - {"),
        (
            "com,a)/ 2016 {\"access\": \"allow\"}",
            "invalid rule, write",
        ),
        ("com,a)/ - {\"access\": \"allow\"", "invalid rule: EOF"),
        (
            "com,a)/ - {\"access\": \"alow\"}",
            "access \"alow\" is invalid, allowed are allow, block",
        ),
        ("com,a)/ - {\"url\": \"x\"}", "missing field `access`"),
        (
            "com,a)/ - {\"access\": \"allow\", \"until\": 2030}",
            "unknown field `until`",
        ),
        ("com,a)/ - {\"access\": \"\u{ff}\"}", "is invalid"),
    ] {
        let error = rules(&format!("{}{line}\n", rule("org,", "allow"))).unwrap_err();
        assert!(error.starts_with("rules.aclj:2: "), "{error}");
        assert!(error.contains(what), "{error}");
    }
    let missing = Rules::read(vec!["/nowhere/rules.aclj".into()], Access::Allow, None);
    assert!(
        missing
            .unwrap_err()
            .starts_with("/nowhere/rules.aclj: access rules cannot be read")
    );
}

#[test]
fn keys_that_match_nothing_are_refused() {
    for (key, what) in [
        ("http://example.com/a", "is a URL"),
        ("HTTPS://example.com/a", "is a URL"),
        ("http://(com,example,)/", "is a URL"),
        ("*", "has a *"),
        ("*,###", "has a *"),
        ("*.example.com", "has a *"),
        ("com,example,*", "has a *"),
        ("com,example)/a/*", "has a *"),
        ("com,Example)/", "has capitals"),
        ("com,EXAMPLE,", "has capitals"),
        ("example.com", "is not turned around"),
        ("www.example.com/a", "is not turned around"),
        ("192.168.1.1)/", "is not turned around"),
        ("com,example###", "one whole urlkey"),
        ("com,example)###", "one whole urlkey"),
    ] {
        let error = rules(&format!("{}{}", rule("org,", "allow"), rule(key, "block"))).unwrap_err();
        let begin = format!("rules.aclj:2: the key {key:?} ");
        assert!(error.starts_with(&begin), "{error}");
        assert!(error.contains(what), "{error}");
        assert!(error.contains("write com,example)/path for"), "{error}");
    }
    for key in [
        "com",
        "com,",
        "com,example",
        "com,example)",
        "com,example)/Path.html?a=*b",
        "com,example)/###",
        "com,example:8080)/a.b/C",
        "localhost:8080)/",
        "::1:8080)/",
        "1,1,168,192)/",
        "dns:Example.com",
        "urn:text:http://example.com/A",
        "filedesc:A.arc.gz###",
        "metadata://gnu.org/a",
    ] {
        assert!(rules(&rule(key, "block")).is_ok(), "{key}");
    }
}

#[test]
fn a_mark_of_the_encoding_is_no_part_of_the_first_key() {
    let rules = rules(&format!("\u{feff}{}", rule("com,a)/", "block"))).unwrap();
    assert_eq!(rules.verdict(b"com,a)/", NOW, now()), Access::Block);
}

#[test]
fn an_embargo_stands_above_rules_that_do_not_ignore_it() {
    let lines = [
        rule("com,free)", "allow_ignore_embargo"),
        rule("com,no)", "exclude"),
        rule("com,law)", "block"),
    ];
    let lines = lines.concat();
    let bound = Timestamp::earliest(b"2020").unwrap();
    let period = |years, months, weeks, days| Period {
        years,
        months,
        weeks,
        days,
    };
    for (dates, inside, outside) in [
        (Dates::Before(bound), "20191231235959", "20200101000000"),
        (Dates::After(bound), "20200101000001", "20200101000000"),
        (
            Dates::Older(period(1, 0, 0, 0)),
            "20250228115959",
            "20250228120000",
        ),
        (
            Dates::Newer(period(0, 3, 0, 0)),
            "20251128120001",
            "20251128120000",
        ),
        (
            Dates::Newer(period(0, 0, 1, 1)),
            "20260220120001",
            "20260220120000",
        ),
        (Dates::Newer(period(9999, 0, 0, 0)), "20000101000000", ""),
    ] {
        let rules = under(dates, Access::Exclude, &lines);
        let verdict =
            |urlkey: &str, time: &str| rules.verdict(urlkey.as_bytes(), time.as_bytes(), now());
        assert_eq!(verdict("com,a)/", inside), Access::Exclude, "{dates:?}");
        assert_eq!(verdict("com,law)/", inside), Access::Exclude, "{dates:?}");
        assert_eq!(verdict("com,free)/", inside), Access::Allow, "{dates:?}");
        assert_eq!(verdict("com,no)/", inside), Access::Exclude, "{dates:?}");
        // What has no date cannot be judged.
        assert_eq!(verdict("com,a)/", "x"), Access::Exclude, "{dates:?}");
        if !outside.is_empty() {
            assert_eq!(verdict("com,a)/", outside), Access::Allow, "{dates:?}");
            assert_eq!(verdict("com,law)/", outside), Access::Block, "{dates:?}");
        }
    }
    let softer = under(Dates::Before(bound), Access::Block, &lines);
    assert_eq!(softer.verdict(b"com,a)/", b"2001", now()), Access::Block);
    let allowing = under(Dates::Before(bound), Access::Allow, &lines);
    assert_eq!(
        allowing.verdict(b"com,law)/", b"2001", now()),
        Access::Block
    );
}

/// A key, or a urlkey, of few letters, so that many are prefixes of others.
fn key() -> impl Strategy<Value = String> {
    "[ab,)/]{1,6}"
}

proptest! {
    #[test]
    fn rules_are_found_as_by_trying_all(
        given in prop::collection::vec((key(), any::<bool>(), 0..4usize), 0..40),
        asked in prop::collection::vec(key(), 1..40),
    ) {
        let mut rules = rules("").unwrap();
        let read = given.iter().map(|(key, is_exact, access)| (key.clone().into_bytes(), *is_exact, Access::ALL[*access]));
        rules.take(read.collect()).unwrap();
        for urlkey in &asked {
            let matching = given.iter().filter(|(key, is_exact, _)| {
                if *is_exact { urlkey == key } else { urlkey.starts_with(key.as_str()) }
            });
            let best = matching.max_by_key(|(key, is_exact, access)| (key.len(), *is_exact, Access::ALL[*access]));
            let expected = best.map_or(Access::Allow, |(_, _, access)| Access::ALL[*access]);
            prop_assert_eq!(rules.of(urlkey.as_bytes()), expected, "{}", urlkey);
        }
    }
}
