use proptest::prelude::*;

use super::*;

const NOW: &[u8] = b"20260228120000";

fn now() -> Timestamp {
    Timestamp::earliest(NOW).unwrap()
}

/// Parses rules from the lines of a file.
fn rules(lines: &str) -> Result<Rules, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.aclj");
    fs::write(&file, lines).unwrap();
    let read = Rules::read(vec![dir.path().to_owned()], Access::Allow, None, "public");
    read.map_err(|error| error.replace(&file.display().to_string(), "rules.aclj"))
}

fn verdict(rules: &Rules, urlkey: &[u8], timestamp: &[u8]) -> Access {
    rules.verdict(urlkey, timestamp, now()).0
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
fn longest_key_decides() {
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
        let verdict = verdict(&rules, urlkey.as_bytes(), NOW);
        assert_eq!(verdict, expected, "{urlkey}");
    }
}

#[test]
fn catch_all_rule_applies_without_another_match() {
    let rules = rules(&[rule("com,a)/", "allow"), rule("*,", "exclude")].concat()).unwrap();
    assert_eq!(verdict(&rules, b"com,a)/", NOW), Access::Allow);
    assert_eq!(verdict(&rules, b"com,b)/", NOW), Access::Exclude);
}

#[test]
fn stricter_of_two_rules_with_one_key_is_kept() {
    let lines = [
        rule("com,a)/", "allow"),
        rule("com,a)/", "exclude"),
        rule("com,a)/", "block"),
    ];
    let rules = rules(&lines.concat()).unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(verdict(&rules, b"com,a)/", NOW), Access::Exclude);
}

#[test]
fn rule_for_one_user_allows_nothing_to_others() {
    let line = r#"com,a)/ - {"access": "allow", "user": "staff"}"#;
    let rules = self::rules(&format!("{line}\r\n\n{}", rule("com,", "block"))).unwrap();
    assert_eq!(verdict(&rules, b"com,a)/", NOW), Access::Block);
    let all = self::rules(r#"com,a)/ - {"access": "exclude", "user": ""}"#).unwrap();
    assert_eq!(verdict(&all, b"com,a)/", NOW), Access::Exclude);
}

#[test]
fn invalid_rules_are_reported() {
    for (line, what) in [
        ("com,a)/", "rules.aclj:2: invalid rule, write: urlkey - {"),
        (
            "com,a)/ 2016 {\"access\": \"allow\"}",
            "invalid rule, write",
        ),
        ("com,a)/ - {\"access\": \"allow\"", "invalid rule: EOF"),
        (
            "com,a)/ - {\"access\": \"alow\"}",
            "access \"alow\" is invalid; allowed values are allow, block",
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
    let missing = Rules::read(
        vec!["/nowhere/rules.aclj".into()],
        Access::Allow,
        None,
        "public",
    );
    assert!(
        missing
            .unwrap_err()
            .starts_with("/nowhere/rules.aclj: access rules cannot be read")
    );
}

#[test]
fn keys_that_are_no_urlkeys_are_refused() {
    for (key, normal) in [
        ("com,example,www)/p", "com,example)/p"),
        ("com,example)/Path", "com,example)/path"),
        ("(com,example,)/p", "com,example)/p"),
        ("com,example)/%70", "com,example)/p"),
        ("com,example)/p/###", "com,example)/p###"),
    ] {
        let error = rules(&format!("{}{}", rule("org,", "allow"), rule(key, "block"))).unwrap_err();
        let begin = format!("rules.aclj:2: the key {key:?} matches no capture");
        assert!(error.starts_with(&begin), "{error}");
        assert!(error.ends_with(&format!("write {normal:?}")), "{error}");
        let rules = rules(&rule(normal, "block")).unwrap();
        let urlkey = normal.trim_end_matches("###").as_bytes();
        assert_eq!(verdict(&rules, urlkey, NOW), Access::Block, "{normal}");
    }
}

#[test]
fn keys_that_match_nothing_are_refused() {
    for (key, what) in [
        ("http://example.com/a", "is a URL"),
        ("HTTPS://example.com/a", "is a URL"),
        ("http://(com,example,)/", "is a URL"),
        ("*", "contains a *"),
        ("*,###", "contains a *"),
        ("*.example.com", "contains a *"),
        ("com,example,*", "contains a *"),
        ("com,example)/a/*", "contains a *"),
        ("com,Example)/", "has capital letters"),
        ("com,EXAMPLE,", "has capital letters"),
        ("example.com", "not in reverse order"),
        ("www.example.com/a", "not in reverse order"),
        ("192.168.1.1)/", "not in reverse order"),
        ("com,example###", "an exact urlkey"),
        ("com,example)###", "an exact urlkey"),
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
        "com,example)/path.html?a=*b",
        "com,example)/###",
        "com,example:8080)/a.b/c",
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
fn byte_order_mark_is_no_part_of_the_first_key() {
    let rules = rules(&format!("\u{feff}{}", rule("com,a)/", "block"))).unwrap();
    assert_eq!(verdict(&rules, b"com,a)/", NOW), Access::Block);
}

#[test]
fn embargo_takes_precedence_unless_a_rule_ignores_it() {
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
            |urlkey: &str, time: &str| rules.verdict(urlkey.as_bytes(), time.as_bytes(), now()).0;
        assert_eq!(verdict("com,a)/", inside), Access::Exclude, "{dates:?}");
        assert_eq!(verdict("com,law)/", inside), Access::Exclude, "{dates:?}");
        assert_eq!(verdict("com,free)/", inside), Access::Allow, "{dates:?}");
        assert_eq!(verdict("com,no)/", inside), Access::Exclude, "{dates:?}");
        // A capture without a valid date cannot be evaluated.
        assert_eq!(verdict("com,a)/", "x"), Access::Exclude, "{dates:?}");
        if !outside.is_empty() {
            assert_eq!(verdict("com,a)/", outside), Access::Allow, "{dates:?}");
            assert_eq!(verdict("com,law)/", outside), Access::Block, "{dates:?}");
        }
    }
    let softer = under(Dates::Before(bound), Access::Block, &lines);
    assert_eq!(verdict(&softer, b"com,a)/", b"2001"), Access::Block);
    let allowing = under(Dates::Before(bound), Access::Allow, &lines);
    assert_eq!(verdict(&allowing, b"com,law)/", b"2001"), Access::Block);
}

#[test]
fn rule_with_dates_applies_only_to_them() {
    let lines = r#"com,a)/ - {"access": "exclude", "before": "2019"}
com,b)/ - {"access": "allow", "after": "20190630"}
com,c)/ - {"access": "exclude", "newer": {"years": 1}}
com, - {"access": "exclude"}
"#;
    let rules = Rules {
        default: Access::Block,
        ..rules(lines).unwrap()
    };
    for (urlkey, time, expected) in [
        (&b"com,a)/"[..], &b"20191231235958"[..], Access::Exclude),
        (b"com,a)/", b"20200101000000", Access::Block),
        (b"com,b)/", b"20190630235959", Access::Block),
        (b"com,b)/", b"20190701000000", Access::Allow),
        (b"com,c)/", b"20250228120001", Access::Exclude),
        (b"com,c)/", b"20250228120000", Access::Block),
        (b"com,c)/", b"x", Access::Exclude),
        (b"com,d)/", b"20250228120000", Access::Exclude),
    ] {
        assert_eq!(verdict(&rules, urlkey, time), expected, "{urlkey:?}");
    }
    for (line, what) in [
        (r#"{"access": "block", "before": "x"}"#, "write a date as"),
        (
            r#"{"access": "block", "before": "2020", "after": "2021"}"#,
            "at most one of",
        ),
        (
            r#"{"access": "block", "newer": {"hours": 1}}"#,
            "unknown field `hours`",
        ),
        (
            r#"{"access": "block", "newer": {}}"#,
            "the age of captures is 0",
        ),
        (
            r#"{"access": "block", "older": {"days": 0}}"#,
            "the age of captures is 0",
        ),
    ] {
        let error = self::rules(&format!("com,a)/ - {line}\n")).unwrap_err();
        assert!(error.starts_with("rules.aclj:1: "), "{error}");
        assert!(error.contains(what), "{error}");
    }
    let twice = format!("{lines}{}", rule("com,a)/", "allow"));
    let error = self::rules(&twice).unwrap_err();
    assert!(
        error.contains("two access rules with the key \"com,a)/\""),
        "{error}"
    );
}

const POLICIES: &str = r#"[{"id": 0, "name": "Public", "accessPoints": ["public", "staff"]},
    {"id": 1, "name": "Staff Only", "accessPoints": ["staff"]}, {"id": 2, "accessPoints": []}]"#;

/// Parses rules of OutbackCDX for an access point.
fn policies(rules: &str, point: &str) -> Result<Rules, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.json");
    let text = format!(r#"{{"policies": {POLICIES}, "rules": [{rules}]}}"#);
    fs::write(&file, text).unwrap();
    let read = Rules::read(vec![file.clone()], Access::Allow, None, point);
    read.map_err(|error| error.replace(&file.display().to_string(), "access.json"))
}

#[test]
fn policies_hide_captures_from_access_points() {
    let text = r#"
        {"id": 1, "policyId": 1, "urlPatterns": ["*.gov.au", "http://Example.com/a/*"], "enabled": true, "pinned": false,
         "privateComment": "x", "created": "2016-01-02T03:04:05+0000", "modified": 5, "publicMessage": "ask the staff"},
        {"id": 2, "policyId": 0, "urlPatterns": ["*.nla.gov.au"], "enabled": false},
        {"id": 3, "policyId": 2, "urlPatterns": ["https://www.example.com/a/exact"]},
        {"id": 5, "policyId": 2, "urlPatterns": ["http://example.org/*"]},
        {"id": 4, "policyId": 0, "urlPatterns": ["http://example.org/*"]}"#;
    let public = policies(text, "public").unwrap();
    let staff = policies(text, "staff").unwrap();
    let nobody = policies(text, "nobody").unwrap();
    let (allow, exclude) = (Access::Allow, Access::Exclude);
    for (urlkey, expected) in [
        ("au,gov)/", [exclude, allow, exclude]),
        ("au,gov,health)/a", [exclude, allow, exclude]),
        ("au,gov:8080)/", [exclude, allow, exclude]),
        ("au,government)/", [allow; 3]),
        ("au,gov,nla)/", [allow, allow, exclude]),
        ("com,example)/a", [exclude, allow, exclude]),
        ("com,example)/a/b", [exclude, allow, exclude]),
        ("com,example)/a/exact", [exclude; 3]),
        ("com,example)/a/exact/not", [exclude, allow, exclude]),
        ("com,example)/", [allow; 3]),
        // If several rules have the same pattern, the rule with the highest id applies.
        ("org,example)/", [exclude; 3]),
    ] {
        let found = [&public, &staff, &nobody].map(|one| verdict(one, urlkey.as_bytes(), NOW));
        assert_eq!(found, expected, "{urlkey}");
    }
    let message = |key: &[u8]| public.verdict(key, NOW, now()).1;
    assert_eq!(message(b"au,gov)/"), Some("ask the staff"));
    assert_eq!(message(b"org,example)/"), None);
}

#[test]
fn policies_may_apply_to_some_dates_only() {
    let text = r#"
        {"id": 1, "policyId": 1, "urlPatterns": ["*"], "period": {"years": 0, "months": 1, "days": 0}},
        {"id": 2, "policyId": 2, "urlPatterns": ["*.com"],
         "captured": {"start": "2016-01-01T10:00:00+1000", "end": "2017-01-01T00:00:00.000Z"}},
        {"id": 3, "policyId": 2, "urlPatterns": ["*.net"], "accessed": {"end": "2026-02-28T12:00:00Z"}},
        {"id": 4, "policyId": 2, "urlPatterns": ["*.org"], "accessed": {"end": "2026-02-28T07:00:01-0500"}},
        {"id": 5, "policyId": 0, "urlPatterns": ["*.free"], "captured": null, "period": {"years": 0}}"#;
    let rules = policies(text, "public").unwrap();
    let (allow, exclude) = (Access::Allow, Access::Exclude);
    for (urlkey, time, expected) in [
        (&b"com,a)/"[..], &b"20160101000000"[..], allow),
        (b"com,a)/", b"20160101000001", exclude),
        (b"com,a)/", b"20161231235959", exclude),
        (b"com,a)/", b"20170101000000", allow),
        // If a rule does not apply, the rule with the next shorter pattern decides.
        (b"com,a)/", b"20260131120000", allow),
        (b"com,a)/", b"20260201000000", exclude),
        (b"net,a)/", b"20160101000000", allow),
        (b"org,a)/", b"20160101000000", exclude),
        (b"free,a)/", b"20260228000000", allow),
        (b"com,a)/", b"x", exclude),
    ] {
        assert_eq!(
            verdict(&rules, urlkey, time),
            expected,
            "{urlkey:?} {time:?}"
        );
    }
}

#[test]
fn unsupported_policies_and_rules_are_refused() {
    for (rule, what) in [
        (
            r#"{"id": 7, "policyId": 9, "urlPatterns": ["*"]}"#,
            "rule 7: there is no policy 9",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": []}"#,
            "rule 7: the rule has no urlPatterns",
        ),
        (
            r#"{"id": 7, "policyId": 1}"#,
            "rule 7: missing field `urlPatterns`",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": ["*"], "mood": 1}"#,
            "rule 7: unknown field `mood`",
        ),
        (
            r#"{"policyId": 1, "urlPatterns": ["*"]}"#,
            "rule number 1 has no valid id",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": ["*"], "captured": {"start": "2016"}}"#,
            "rule 7: the date \"2016\" is invalid",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": ["*"], "captured": {"start": "2016-01-01T00:00:00"}}"#,
            "is invalid, write 2016-01-02T03:04:05+0000",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": ["*"], "captured": {"from": 1}}"#,
            "unknown field `from`",
        ),
        (
            r#"{"id": 7, "policyId": 1, "urlPatterns": ["*"], "period": {"years": -1}}"#,
            "invalid value",
        ),
    ] {
        let error = policies(rule, "public").unwrap_err();
        assert!(error.starts_with("access.json: rule "), "{error}");
        assert!(error.contains(what), "{error}");
    }
    for pattern in [
        "",
        "*.",
        "*.example.com/a",
        "example.com/a",
        "http://*.example.com/",
        "com,example,",
        "ftp://example.com/*",
        "*.a.*",
    ] {
        let rule = format!(r#"{{"id": 7, "policyId": 1, "urlPatterns": ["{pattern}"]}}"#);
        let error = policies(&rule, "public").unwrap_err();
        let begin = format!("access.json: rule 7: the URL pattern {pattern:?} is invalid");
        assert!(error.starts_with(&begin), "{error}");
    }
}

/// Generates keys and urlkeys from a few letters, so that many are prefixes of others.
fn key() -> impl Strategy<Value = String> {
    "[ab,)/]{1,6}"
}

proptest! {
    #[test]
    fn look_up_equals_trying_all_rules(
        given in prop::collection::vec((key(), any::<bool>(), 0..4usize), 0..40),
        asked in prop::collection::vec(key(), 1..40),
    ) {
        let mut rules = rules("").unwrap();
        let read = given.iter().map(|(key, is_exact, access)| Read {
            key: key.clone().into_bytes(),
            is_exact: *is_exact,
            order: 0,
            access: Access::ALL[*access],
            condition: NONE,
        });
        rules.take(read.collect()).unwrap();
        let mut near = None;
        for urlkey in &asked {
            let after = rules.not_after(urlkey.as_bytes(), None);
            prop_assert_eq!(rules.not_after(urlkey.as_bytes(), near), after, "{} from {:?}", urlkey, near);
            near = Some(after);
            let matching = given.iter().filter(|(key, is_exact, _)| {
                if *is_exact { urlkey == key } else { urlkey.starts_with(key.as_str()) }
            });
            let best = matching.max_by_key(|(key, is_exact, access)| (key.len(), *is_exact, Access::ALL[*access]));
            let expected = best.map_or(Access::Allow, |(_, _, access)| Access::ALL[*access]);
            prop_assert_eq!(rules.of(urlkey.as_bytes(), NOW, now(), after).access, expected, "{}", urlkey);
        }
    }
}
