//! What is refused: where, and why.

use super::{good, parse, refusal};

/// One error: its line, its column, and what its text says.
pub(super) type Expected = (usize, usize, &'static str);

#[track_caller]
pub(super) fn refused(text: &str, expected: &[Expected]) {
    let errors = match parse(text) {
        Ok((config, _)) => panic!("{text}\nis taken for {config:#?}"),
        Err(errors) => errors,
    };
    let positions: Vec<(usize, usize)> = errors
        .errors
        .iter()
        .map(|error| {
            error
                .position
                .map_or((0, 0), |position| (position.line, position.column))
        })
        .collect();
    let wanted: Vec<_> = expected
        .iter()
        .map(|(line, column, _)| (*line, *column))
        .collect();
    assert_eq!(positions, wanted, "{text}\n{errors}");
    for (error, (.., what)) in errors.errors.iter().zip(expected) {
        assert!(
            error.what.contains(what),
            "{text}\n{errors}\nlacks {what:?}"
        );
    }
}

#[test]
fn a_file_without_collections_is_refused() {
    refused("", &[(1, 1, "the file is empty")]);
    refused("# nothing\n", &[(2, 1, "the file is empty")]);
    refused(
        "~",
        &[(
            1,
            1,
            "a configuration has to be a mapping, and this is nothing",
        )],
    );
    refused("- a", &[(1, 1, "and this is a list")]);
    refused("debug: true", &[(1, 1, "collections is missing")]);
    refused(
        "collections:",
        &[(
            1,
            12,
            "collections has to be a mapping, and this is nothing",
        )],
    );
    refused("collections: {}", &[(1, 14, "there are no collections")]);
    refused("collections: [a]", &[(1, 14, "and this is a list")]);
}

#[test]
fn what_is_unknown_is_refused_with_what_may_have_been_meant() {
    refused(
        "colections: {a: $live}\ncollections: {a: $live}",
        &[(1, 1, "no \"colections\"; did you mean collections?")],
    );
    refused(
        "collections:\n  a: {index: $live, resources: /w}",
        &[(
            2,
            21,
            "a collection has no \"resources\"; did you mean resource?",
        )],
    );
    refused(
        "collections:\n  a:\n    sequence:\n      - {index: $live, tags: x}",
        &[(
            4,
            24,
            "a step of a sequence has no \"tags\"; there are index",
        )],
    );
    refused(
        "collections:\n  a:\n    index: {type: file, path: /x, replay_url: y}",
        &[(3, 35, "an index of type file has no \"replay_url\"")],
    );
    refused(
        "collections:\n  a: {index_group: {x: {type: live, name: y}}}",
        &[(2, 37, "an index of type live has no \"name\"")],
    );
    refused(
        "collections: {a: {index: {type: momento}}}",
        &[(
            1,
            33,
            "invalid type \"momento\" of an index: it can be file, redis, memento, cdx, live, zipnum or upstream; did you mean memento?",
        )],
    );
    refused(
        "collections: {a: momento+http://h/}",
        &[(1, 18, "did you mean memento+?")],
    );
    refused(
        "collections: {a: ftp://h/x}",
        &[(1, 18, "invalid prefix \"ftp://\" of an index")],
    );
    refused(
        "collections: {a: s3+http://h/x}",
        &[(1, 18, "invalid prefix \"s3+\" of an index")],
    );
    refused(
        "collections: {a: $life}",
        &[(1, 18, "the live web is $live")],
    );
    refused(
        "enable_auto_colls: false\ncollections: {a: $all}",
        &[(2, 18, "says that there are none")],
    );
    refused(
        "collections: {a: {index: $live, resource: [$live, s3://x, $all]}}",
        &[
            (1, 51, "invalid prefix \"s3://\""),
            (1, 59, "the live web is $live"),
        ],
    );
}

#[test]
fn what_is_missing_is_named() {
    refused("collections: {a: ~}", &[(1, 18, "the index is missing")]);
    refused("collections: {a: ''}", &[(1, 18, "an index is empty")]);
    refused(
        "collections: {a: {resource: /w}}",
        &[(
            1,
            18,
            "write one of index, index_paths, index_group or sequence",
        )],
    );
    refused(
        "collections: {a: {index: {path: /x}}}",
        &[(
            1,
            26,
            "its type is missing: file, redis, memento, cdx, live, zipnum or upstream, file by the look of it",
        )],
    );
    refused(
        "collections: {a: {index: {type: memento, timegate_url: x}}}",
        &[
            (1, 26, "its replay_url is missing"),
            (1, 26, "its timemap_url is missing"),
            (1, 56, "timegate_url: invalid URL \"x\""),
        ],
    );
    refused(
        "collections: {a: {index: {type: file}}}",
        &[(1, 26, "its path is missing")],
    );
    refused(
        "collections: {a: {index_group: {}}}",
        &[(1, 32, "the index_group is empty")],
    );
    refused(
        "collections: {a: {index_group: [x]}}",
        &[(1, 32, "has to be a mapping, and this is a list")],
    );
    refused(
        "collections: {a: {sequence: []}}",
        &[(1, 29, "and this is empty")],
    );
    refused(
        "collections: {a: {sequence: {index: x}}}",
        &[(1, 29, "and this is a mapping")],
    );
    refused(
        "collections: {a: {index: $live, resource: []}}",
        &[(1, 43, "resource is empty: without it, $live is meant")],
    );
    refused(
        "collections: {a: {index: $live, resource: ~}}",
        &[(1, 43, "resource has to be a text, and this is nothing")],
    );
    refused(
        "collections: {a: [x, y]}",
        &[(1, 18, "several of them are an index_group")],
    );
    refused(
        "collections: {a: {index: $live, access_point: x}}",
        &[(1, 33, "an access_point needs tags")],
    );
}

#[test]
fn what_excludes_each_other_is_refused() {
    refused(
        "collections: {a: {index: $live, sequence: [$live]}}",
        &[(1, 33, "index and sequence exclude each other")],
    );
    refused(
        "collections: {a: {sequence: [{sequence: [$live]}]}}",
        &[(1, 30, "write one of index, index_paths or index_group")],
    );
    refused(
        "collections: {a: {index: $live, resource: /w, archive_paths: /w}}",
        &[(1, 47, "archive_paths is another name of resource")],
    );
    refused(
        "collections: {a: {index: $live, timeout: 1, index_timeout: 1}}",
        &[(1, 33, "timeout is another name of index_timeout")],
    );
    refused(
        "collections: {a: {sequence: [$live], resource: /w}}",
        &[(1, 38, "resource belongs into the steps")],
    );
}

#[test]
fn values_are_checked() {
    for timeout in ["0", "-1", "soon", "nan", ".inf", "86401", "[1]", "''"] {
        let text = format!("collections: {{a: {{index: $live, index_timeout: {timeout}}}}}");
        refused(&text, &[(1, 48, "index_timeout ")]);
    }
    refused(
        "collections: {a: {index: $live, fuzzy: a bit}}",
        &[(1, 40, "fuzzy is true or false, and this is \"a bit\"")],
    );
    for limit in ["0", "-1", "1.5", "many"] {
        let text = format!("collections: {{a: {{index: {{type: live, max_rows: {limit}}}}}}}");
        refused(&text, &[(1, 49, "max_rows is a whole number from 1")]);
    }
    for network in [
        "localhost",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/x",
        "10.0.0",
        "''",
    ] {
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
    refused(
        "collections: {a: {index: {type: redis, redis_url: 'http://h/0/k'}}}",
        &[(1, 51, "no URL of Redis")],
    );
    refused(
        "collections: {a: {index: {type: cdx, api_url: 'http://h/a-cdx', dialect: solr}, resource: /w}}",
        &[(1, 74, "invalid dialect \"solr\"")],
    );
}

#[test]
fn urls_are_checked() {
    for (url, what) in [
        ("memento+arquivo.pt/wayback", "invalid URL"),
        ("memento+ftp://h/", "has to begin with http"),
        ("memento+http://", "invalid URL"),
        ("memento+http://h/a b/", "there is a ' '"),
        ("memento+http:h/x/", "lacks the //"),
        ("memento+http://h\\x/", "write /"),
        ("memento+http://h/x#y/", "never sent"),
        ("memento+http://h/{url}", "belong into the long form"),
        ("memento+http://{coll}.h/x", "before the path"),
        ("memento+http://{coll}/x", "before the path"),
        (
            "memento+http://h/{col}/x",
            "{col} means nothing here: it can be {coll}",
        ),
        ("cdx+http://h/x-cdx ftp://h/", "has to begin with http"),
        (
            "memento+http://u:hidden@h/",
            "a user name or password in the URL",
        ),
        ("cdx+http://u@h/x-cdx", "a user name or password in the URL"),
        ("redis://u:hidden@h:x/0/k", "invalid host and port \"h:x\""),
        (
            "memento+http://u:hidden@h:x/",
            "invalid URL \"http://u:***@h:x/\"",
        ),
        ("upstream+http://h/many?x=1", "has more than a path"),
        ("file://other/x", "a file of another machine, \"other\""),
        ("file:///a%ff", "not those of UTF-8"),
        ("file://", "a file of another machine"),
    ] {
        let text = format!("collections:\n  a:\n    index: '{url}'\n    resource: [$live, /w]");
        refused(&text, &[(3, 12, what)]);
        assert!(!refusal(&text).contains("hidden"), "{}", refusal(&text));
    }
    refused(
        "collections: {a: {index: {type: cdx, api_url: 'http://h/{urls}', replay_url: 'http://h/{url}'}}}",
        &[
            (
                1,
                47,
                "{urls} means nothing here: it can be {url}, {timestamp} or {coll}",
            ),
            (1, 78, "lacks {timestamp}"),
        ],
    );
    refused(
        "collections: {a: {index: \"/a\\0b\", resource: /w}}",
        &[(1, 26, "a character that cannot be part of it")],
    );
}

#[test]
fn a_cdx_server_whose_replay_nobody_knows_is_refused_when_only_live_loads() {
    let what = "there is no replay URL";
    refused("collections:\n  a: cdx+http://h/cdx", &[(2, 6, what)]);
    refused(
        "collections:\n  a: {index: 'cdx+http://h/cdx', resource: [$live]}",
        &[(2, 14, what)],
    );
    refused(
        "collections:\n  a: {index_group: {x: $live, y: {type: cdx, api_url: 'http://h/x-cdx'}}}",
        &[(2, 34, what)],
    );
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
    refused(
        "collections: {'': $live}",
        &[(1, 15, "cannot be called \"\"")],
    );
    for name in ["'a,b'", "'!a'", "'*'", "'a b'"] {
        let text = format!("collections: {{a: {{index_group: {{{name}: $live}}}}}}");
        refused(&text, &[(1, 33, "a source cannot be called")]);
    }
    let long = "x".repeat(201);
    refused(
        &format!("collections: {{{long}: $live}}"),
        &[(1, 15, "up to 200")],
    );
}

#[test]
fn what_hides_captures_in_pywb_is_not_passed_over() {
    for field in [
        "acl_paths: x",
        "embargo: {before: 2020}",
        "default_access: block",
    ] {
        let text = format!("collections:\n  a:\n    index: $live\n    {field}");
        refused(&text, &[(4, 5, "hides captures")]);
    }
    good("collections: {a: {index: $live, default_access: allow}}");
}

#[test]
fn all_errors_are_listed_in_the_order_of_the_file() {
    refused(
        "
colections: x
collections:
  good: $live
  _status: $live
  cdx: cdx+http://h/cdx
  group:
    index_group:
      a: momento+http://h/
      b: /x
      b: /y
    index_timeout: soon
  seq:
    sequence:
      - {index: $life}
      - {indx: $live}
",
        &[
            (2, 1, "did you mean"),
            (5, 3, "cannot be called"),
            (6, 8, "no replay URL"),
            (9, 10, "did you mean"),
            (11, 7, "stands here twice"),
            (12, 20, "seconds"),
            (15, 17, "$live"),
            (16, 9, "the index is missing"),
            (16, 10, "did you mean index?"),
        ],
    );
    let many: String = (0..500).map(|n| format!("  c{n}: $life\n")).collect();
    let text = refusal(&format!("collections:\n{many}"));
    assert_eq!(text.lines().count(), 101);
    assert!(text.ends_with("config.yaml: and 400 more"), "{text}");
}

#[test]
fn invalid_yaml_is_refused_with_its_position() {
    refused("collections:\n\ta: x", &[(2, 2, "there is a tab")]);
    refused("collections:\n  a: [x", &[(2, 6, "invalid YAML")]);
    refused("collections: {a: 'x}", &[(1, 18, "invalid YAML")]);
    refused("a: b: c", &[(1, 5, "invalid YAML")]);
    refused("collections: *all", &[(1, 14, "invalid YAML")]);
    refused("? [a]\n: b", &[(1, 3, "a key must be a text")]);
    refused(
        "{collections: {a: $live}, ~: x}",
        &[(1, 27, "a key must be a text")],
    );
    refused("a: &a [*a]", &[(1, 8, "")]);
    refused(
        "collections: {a: !!python/object:os.system x}",
        &[(1, 44, "means nothing here: leave it out")],
    );
    refused(
        "collections: {a: $live}\n---\ncollections: {a: $live}",
        &[(2, 1, "a second document")],
    );
    refused("a: {<<: x}", &[(1, 9, "<< takes a mapping")]);
    refused(
        "collections: {a: $live, a: /x}",
        &[(1, 25, "\"a\" stands here twice")],
    );
    refused(
        "x:\n  y: ${MISSING}\ncollections: {a: $live}",
        &[(1, 1, "no \"x\"")],
    );
    refused(
        "collections:\n  a: ${MISSING}/x",
        &[(2, 6, "the environment has no variable \"MISSING\"")],
    );
}
