//! Tests of invalid configurations: position and text of each error.

use redis_tests::rows;

use super::super::Position;
use super::{good, parse, refusal};

/// An expected error: line, column, and a part of its text.
pub(super) type Expected<'a> = (usize, usize, &'a str);

#[track_caller]
pub(super) fn refused(text: &str, expected: &[Expected]) {
    let errors = match parse(text) {
        Ok((config, _)) => panic!("{text}\nis parsed as {config:#?}"),
        Err(errors) => errors,
    };
    let position = |at: Option<Position>| at.map_or((0, 0), |at| (at.line, at.column));
    let positions = errors.errors.iter().map(|error| position(error.position));
    let wanted = expected.iter().map(|(line, column, _)| (*line, *column));
    assert!(
        positions.eq(wanted),
        "{text}\n{errors}\nnot at {expected:?}"
    );
    for (error, (.., what)) in errors.errors.iter().zip(expected) {
        assert!(
            error.what.contains(what),
            "{text}\n{errors}\nlacks {what:?}"
        );
    }
}

/// Runs the cases of `wrong.txt`: lines of a configuration, then a line `=> line:column text` for each error.
#[test]
fn errors_are_reported_with_their_position() {
    let mut count = 0;
    for case in include_str!("wrong.txt").split("\n\n") {
        if case.starts_with("## ") {
            continue;
        }
        let (text, told) = case.split_once("\n=> ").expect(case);
        let error = |line: &'static str| -> Option<Expected> {
            let (position, what) = line
                .trim_end()
                .split_once(' ')
                .unwrap_or((line.trim_end(), ""));
            let (line, column) = position.split_once(':')?;
            Some((line.parse().ok()?, column.parse().ok()?, what))
        };
        let expected: Option<Vec<_>> = told.split("\n=> ").map(error).collect();
        refused(text, &expected.expect(case));
        count += 1;
    }
    assert_eq!(count, 86);
}

#[test]
fn empty_file_is_refused() {
    refused("", &[(1, 1, "the file is empty")]);
    refused("# nothing\n", &[(2, 1, "the file is empty")]);
}

#[test]
fn values_are_checked() {
    for timeout in ["0", "-1", "soon", "nan", ".inf", "86401", "[1]", "''"] {
        let text = format!("collections: {{a: {{index: $live, index_timeout: {timeout}}}}}");
        refused(&text, &[(1, 48, "index_timeout ")]);
    }
    for limit in ["0", "-1", "1.5", "many"] {
        let text = format!("collections: {{a: {{index: {{type: live, max_rows: {limit}}}}}}}");
        refused(
            &text,
            &[(1, 49, "max_rows must be a whole number of at least 1")],
        );
    }
    for network in "localhost 10.0.0.0/33 ::/129 10.0.0.0/x 10.0.0 ''".split(' ') {
        let text = format!("allow_private: [::1, '{network}']\ncollections: {{a: $live}}");
        refused(&text, &[(1, 22, "")]);
    }
    for redis in [
        "redis://h",
        "redis://h/",
        "redis://h/0",
        "redis://h/0/",
        "redis:///0/k",
        "redis://h:x/0/k",
        "redis://h:99999/0/k",
        "redis://h/99999999999/k",
    ] {
        let text = format!("collections: {{a: {{resource: /w, index: '{redis}'}}}}");
        refused(&text, &[(1, 40, "")]);
    }
}

#[test]
fn urls_are_checked() {
    for (url, what) in rows![
        "memento+arquivo.pt/wayback", "invalid URL";
        "memento+ftp://h/", "must begin with http";
        "memento+http://", "invalid URL";
        "memento+http://h/a b/", "' ' is not allowed";
        "memento+http:h/x/", "lacks the //";
        "memento+http://h\\x/", "write /";
        "memento+http://h/x#y/", "never sent";
        "memento+http://h/{url}", "in the long form";
        "memento+http://{coll}.h/x", "before the path";
        "memento+http://{coll}/x", "before the path";
        "memento+http://h/{coll", "the closing } is missing in";
        "memento+http://h/{col}/x", "{col} is not a placeholder here: use {coll}";
        "cdx+http://h/x-cdx ftp://h/", "must begin with http";
        "memento+http://u:hidden@h/", "the user name or password in this URL";
        "cdx+http://u@h/x-cdx", "the user name or password in this URL";
        "redis://u:hidden@h:x/0/k", "invalid host and port \"h:x\"";
        "memento+http://u:hidden@h:x/", "invalid URL \"http://u:***@h:x/\"";
        "memento+http://u:{hidden}@h/", "{…} is not a placeholder here";
        "memento+http://u:hidden#x@h/", "never sent";
        "redis://:hidden/x@h:6379/0/k", "the login in the URL is ambiguous";
        "redis://u:12/hidden@h:6379/0/k", "the login in the URL is ambiguous";
        "redis://u:12/0/hidden@h:6379/0/k", "the login in the URL is ambiguous";
        "redis://u:a@b/hidden@h/k", "the login in the URL is ambiguous";
        "redis://u:a?hidden@h/k", "the login in the URL is ambiguous";
        "redis://u:a#hidden@h/k", "the login in the URL is ambiguous";
        "redis://u:hidden", "invalid host or port in";
        "redis+tls://u:hidden@h/k", "invalid prefix \"redis+tls://\"";
        "upstream+http://h/many?x=1", "has a query or a fragment";
        "file://other/x", "a file on another machine, \"other\"";
        "file:///a%ff", "not UTF-8";
        "file://", "a file on another machine";
    ] {
        let text = format!("collections:\n  a:\n    index: '{url}'\n    resource: [$live, /w]");
        refused(&text, &[(3, 12, what)]);
        assert!(!refusal(&text).contains("hidden"), "{}", refusal(&text));
    }
}

#[test]
fn cdx_server_without_replay_is_accepted_with_another_loader() {
    good("collections:\n  a: {index: 'cdx+http://h/cdx', resource: [$live, /w]}");
}

#[test]
fn names_that_no_url_can_have_are_refused() {
    for name in [
        "_status", "_metrics", "static", "..", ".", "a/b", "a b", "a?b", "é", "''", "'a%20'",
    ] {
        let text = format!("collections:\n  {name}: $live");
        refused(&text, &[(2, 3, "a collection cannot be called")]);
    }
    for name in ["'a,b'", "'!a'", "'*'", "'a b'"] {
        let text = format!("collections: {{a: {{index_group: {{{name}: $live}}}}}}");
        refused(&text, &[(1, 33, "a source cannot be called")]);
    }
    let long = "x".repeat(201);
    let text = format!("collections: {{{long}: $live}}");
    refused(&text, &[(1, 15, "up to 200")]);
}

#[test]
fn pywb_access_settings_are_applied_or_refused() {
    for (field, column, what) in [
        (
            "acl_paths: /nowhere/x.aclj",
            5,
            "/nowhere/x.aclj: access rules cannot be read",
        ),
        ("acl_paths: {a: b}", 16, "acl_paths must be a string"),
        (
            "default_access: no",
            21,
            "default_access: access \"no\" is invalid; allowed values are allow, block",
        ),
        ("embargo: 2020", 14, "an embargo must be a mapping"),
        (
            "embargo: {}",
            14,
            "an embargo needs exactly one of before, after, older and newer",
        ),
        (
            "embargo: {before: 2020, after: 2021}",
            14,
            "an embargo needs exactly one of",
        ),
        (
            "embargo: {before: soon}",
            23,
            "before: \"soon\" is invalid, write a date",
        ),
        (
            "embargo: {newer: {years: -1}}",
            30,
            "years: \"-1\" is invalid; allowed values are whole numbers up to 9999",
        ),
        (
            "embargo: {newer: {}}",
            22,
            "the age of captures is 0, write how many years, months, weeks or days",
        ),
        (
            "embargo: {older: {days: 0}}",
            22,
            "the age of captures is 0",
        ),
        (
            "embargo: {before: 2020, access: no}",
            37,
            "access \"no\" is invalid",
        ),
    ] {
        let text = format!("collections:\n  a:\n    index: $live\n    {field}");
        refused(&text, &[(4, column, what)]);
    }
    for allowed in [
        "default_access: allow",
        "default_access: block",
        "embargo: {before: 2020}",
        "embargo: {newer: {years: 1, days: 3}, access: block}",
    ] {
        good(&format!("collections: {{a: {{index: $live, {allowed}}}}}"));
    }
    let step = "collections: {a: {sequence: [{index: $live, embargo: {before: 2020}}]}}";
    refused(step, &[(1, 45, "hides captures")]);
    let crawlers = "collections:\n  a:\n    default_access: block\n    \
                    index: {type: dedupe, redis_url: 'redis://h:1/0', prefix: 'a:'}";
    refused(
        crawlers,
        &[(
            3,
            5,
            "not allowed in a collection with tags or access rules",
        )],
    );
}

#[test]
fn number_of_listed_errors_is_limited() {
    let many: String = (0..500).map(|n| format!("  c{n}: $life\n")).collect();
    let text = refusal(&format!("collections:\n{many}"));
    assert_eq!(text.lines().count(), 101);
    assert!(text.ends_with("config.yaml: and 400 more"), "{text}");
}
