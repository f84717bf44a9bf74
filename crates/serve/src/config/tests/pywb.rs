//! Tests of pywb configurations.

use std::path::Path;
use std::time::Duration;

use redis_tests::{assert_contains, assert_starts, rows};

use super::super::{Config, Loader, Remark, Secrets};
use super::examples::{file, folder, memento, source};
use super::parse;
use crate::rules::Access;

#[test]
fn pywb_configuration_works_and_ineffective_parts_are_reported() {
    let (config, warnings) = parse(
        "
collections_root: collections
debug: true
framed_replay: false
enable_memento: true
not_found_html: my.html
proxy: {coll: live, recording: true}
recorder: live
collections:
  live: $live
  ours:
    index_paths: ./index/
    archive_paths: ./warcs/
    default_access: allow
    metadata: {title: Ours}
  many:
    index_group:
      ia: memento+https://web.archive.org/web/
      bare: http://arquivo.pt/wayback/
    timeout: 10
  seq:
    sequence:
      - name: one
        index: ${PLACE}
        archive_paths: [/warcs]
",
    )
    .unwrap();
    let lines = warnings.iter().filter_map(|it| Some(it.position?.line));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 15], "{warnings:?}");
    let [_, ours, many, seq] = &*config.collections else {
        panic!("{config:?}");
    };
    let [ours, many] = [ours, many].map(|collection| &collection.steps[0]);
    let expected = [source("ours", file("/etc/archive/index"))];
    assert_eq!(ours.sources, expected);
    // In pywb, the live web serves every row that has a live URL.
    let expected = [folder("/etc/archive/warcs"), Loader::Live];
    assert_eq!(ours.resource, expected);
    let arquivo = memento("http://arquivo.pt/wayback/");
    assert_eq!(many.sources[1].kind, arquivo);
    assert_eq!(many.sources[0].timeout, Duration::from_secs(10));
    assert_eq!(seq.steps[0].sources, [source("one", file("/srv/index"))]);
}

/// Creates a folder in pywb's layout: collections `a` and `b`, and a folder without an index.
fn kept() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for path in "a/indexes a/archive b/indexes b/acl none/archive".split(' ') {
        std::fs::create_dir_all(dir.path().join("collections").join(path)).unwrap();
    }
    std::fs::write(dir.path().join("collections/c"), "").unwrap();
    dir
}

fn read(dir: &Path, text: &str) -> Result<(Config, Vec<Remark>), String> {
    Config::parse(text, "config.yaml", dir).map_err(|errors| errors.to_string())
}

fn names(config: &Config) -> Vec<&str> {
    let names = config.collections.iter();
    names.map(|collection| collection.name.as_str()).collect()
}

#[test]
fn folders_are_collections_if_configured() {
    let dir = kept();
    let at = |path: &str| format!("{}/{path}", dir.path().display());
    for text in [
        "collections_root: collections",
        "collections_root: ./collections/\nenable_auto_colls: true",
        "enable_auto_colls: true",
        "enable_auto_colls: true\nindex_paths: indexes\ncollections: {}",
    ] {
        let (config, remarks) = read(dir.path(), text).unwrap();
        assert_eq!(names(&config), ["a", "b"], "{text}");
        let step = &config.collections[0].steps[0];
        let index = file(&at("collections/a/indexes"));
        assert_eq!(step.sources, [source("a", index)]);
        let archive = folder(&at("collections/a/archive"));
        assert_eq!(step.resource, [archive, Loader::Live]);
        let [remark] = &*remarks else {
            panic!("{remarks:?}");
        };
        let what = &remark.what;
        assert!(
            what.ends_with("(a reload with SIGHUP adds new ones): a, b"),
            "{what}"
        );
    }
    // An explicit collection takes precedence over a folder of the same name.
    let text = "collections_root: collections\ncollections: {b: $live, z: $live}";
    let (config, _) = read(dir.path(), text).unwrap();
    assert_eq!(names(&config), ["b", "z", "a"]);
    // If no setting enables collections in folders, a warning mentions the folders.
    let (config, remarks) = read(dir.path(), "collections: {z: $live}").unwrap();
    assert_eq!(names(&config), ["z"]);
    assert_starts(&remarks[0].what, "pywb also serves the collections in ");
    let text = "enable_auto_colls: false\ncollections: {z: $live}";
    assert_eq!(read(dir.path(), text).unwrap().1, []);
}

#[test]
fn all_folders_can_form_one_collection() {
    let dir = kept();
    let at = |path: &str| format!("{}/collections/{path}", dir.path().display());
    let (config, _) = read(dir.path(), "collections: {all: $all}").unwrap();
    assert_eq!(names(&config), ["all", "a", "b"]);
    let step = &config.collections[0].steps[0];
    assert!(step.is_group);
    let index = |name: &str| source(name, file(&at(&format!("{name}/indexes"))));
    assert_eq!(step.sources, [index("a"), index("b")]);
    let [a, b] = ["a/archive", "b/archive"].map(|path| folder(&at(path)));
    assert_eq!(step.resource, [a, b, Loader::Live]);
    let text = "enable_auto_colls: false\ncollections: {all: $all}";
    let refused = read(dir.path(), text).unwrap_err();
    assert_contains(&refused, "2:20: $all combines ");
    // `$all` is valid without any folder.
    let (config, remarks) = parse("collections: {all: $all}").unwrap();
    assert_eq!(names(&config), ["all"]);
    let says = |what| remarks.iter().any(|one| one.what.contains(what));
    assert!(says("no folder exists yet"), "{remarks:?}");
    assert_eq!(parse(&config.to_yaml(Secrets::Shown)).unwrap().0, config);
}

/// Warnings about each line of an accepted configuration.
#[test]
fn unsupported_pywb_parameters_are_reported() {
    for (top, collection, what) in rows![
        "transclusions_version: 1", "", "transclusions_version has no effect";
        "surt_ordered: false", "", "surt_ordered has no effect";
        "", "x: {index: $live, surt_ordered: false}", "surt_ordered has no effect";
        "", "x: {index: $live, query_html: q.html}", "query_html has no effect";
        "", "x: {index: {type: zipnum, path: /c, max_blocks: 9}}", "max_blocks has no effect";
        "", "x: {index: {type: zipnum, path: /c, shard_index_loc: {match: x, replace: y}}}",
            "shard_index_loc has no effect";
        "", "$root: $live", "but this server serves it at /$root/";
        "", "x: 'redis://h/0/{user}:cdxj'", "{user} is read literally here";
        "", "x: 'redis://h/0/*:cdxj'", "* is read literally here";
        "", "x: '/indexes/*/x.cdxj'", "* is read literally here";
        "", "x: {index: $live, archive_paths: '/a/{user}/*/'}", "{user} is read literally here";
        "", "x: {index: $live, archive_paths: 'redis://h/{user}'}", "{user} is read literally here";
        "archive_paths: './*/'", "x: $live", "* is read literally here";
    ] {
        let text = format!("{top}\ncollections:\n  {collection}\n  y: $live\n");
        let (_, remarks) = parse(&text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let about = if top.is_empty() { 3 } else { 1 };
        let found = |one: &Remark| {
            one.what.contains(what) && one.position.is_some_and(|position| position.line == about)
        };
        assert!(remarks.iter().any(found), "{top}{collection}: {remarks:?}");
    }
    let (_, remarks) = parse("surt_ordered: true\ncollections: {x: $live}").unwrap();
    assert_eq!(remarks, []);
}

#[test]
fn sources_of_pywb_are_accepted() {
    let kind = |text: &str| {
        let (config, _) = parse(&format!("collections: {{x: {text}}}")).unwrap();
        config.collections[0].steps[0].sources[0].kind.clone()
    };
    assert_eq!(kind("wb-memento+http://h/web/"), memento("http://h/web/"));
    let long = "{index: {type: wb-memento, timegate_url: 'http://h/web/{url}', timemap_url: \
        'http://h/web/timemap/link/{url}', replay_url: 'http://h/web/{timestamp}id_/{url}'}}";
    assert_eq!(kind(long), memento("http://h/web/"));
    assert_eq!(kind("cdx+http://h/cdx;/web"), kind("cdx+http://h/cdx /web"));
    for xml in [
        "xmlquery+http://h/q",
        "{index: {type: xmlquery, api_url: 'http://h/q'}}",
    ] {
        let refused = parse(&format!("collections: {{x: {xml}}}")).unwrap_err();
        assert_contains(&refused, "is not supported");
    }
}

#[test]
fn folder_and_top_level_rules_apply_to_their_collections() {
    let dir = kept();
    let acl = dir.path().join("collections/b/acl");
    let rule = "com,example)/ - {\"access\": \"block\"}\n";
    std::fs::write(acl.join("rules.aclj"), rule).unwrap();
    let text = "collections_root: collections\ndefault_access: exclude\ncollections:\n  w: $live\n  \
                x: {index: $live}\n  y: {index: $live, default_access: allow}\n  \
                z: {index: $live, embargo: {before: 2020}}\n";
    let (config, _) = read(dir.path(), text).unwrap();
    assert_eq!(names(&config), ["w", "x", "y", "z", "a", "b"]);
    for (collection, rules) in config.collections.iter().zip([0, 0, 9, 0, 0, 1]) {
        let found = collection.rules.as_ref();
        assert_eq!(
            found.map_or(9, |rules| rules.len()),
            rules,
            "{}",
            collection.name
        );
        let default = found.map_or(Access::Allow, |rules| rules.default);
        let expected = if rules == 9 {
            Access::Allow
        } else {
            Access::Exclude
        };
        assert_eq!(default, expected, "{}", collection.name);
    }
    // A reload also checks the rules of folders for changes.
    assert!(config.files().contains(&&*acl));
    assert!(config.files().contains(&&*acl.join("rules.aclj")));
    assert_eq!(
        parse(&config.to_yaml(Secrets::Shown))
            .unwrap()
            .0
            .collections,
        config.collections
    );
    let (config, _) = read(dir.path(), "enable_auto_colls: yes\nacl_paths: law").unwrap();
    assert!(config.collections.iter().all(|one| one.rules.is_none()));
}

#[test]
fn unusable_rules_of_folders_are_errors() {
    let dir = kept();
    let rules = dir.path().join("collections/b/acl/rules.aclj");
    let refused = |text: &str| read(dir.path(), text).unwrap_err();
    std::fs::write(&rules, "com,example)/ - {\"access\": \"block\"}\n").unwrap();
    let told = refused("collections: {all: $all}");
    assert_contains(
        &told,
        "$all would show captures that the .aclj files of its folders hide",
    );
    std::fs::write(&rules, "com,example)/\n").unwrap();
    let told = refused("collections_root: collections");
    assert_starts(&told, "config.yaml:1:1: ");
    assert_contains(&told, "b/acl/rules.aclj:1: invalid rule");
    let told = refused("default_access: no\nenable_auto_colls: true");
    assert_contains(
        &told,
        "config.yaml:1:17: default_access: access \"no\" is invalid",
    );
    let told = refused("enable_auto_colls: yes\nacl_paths: [a, b]");
    assert_contains(&told, "2:12: acl_paths must be a single folder");
    std::fs::create_dir_all(dir.path().join("collections/x y/indexes")).unwrap();
    let told = refused("enable_auto_colls: yes");
    assert_contains(&told, "a collection cannot be called \"x y\"");
    let told = refused("enable_auto_colls: yes\nindex_paths: [a, b]");
    assert_contains(&told, "2:14: index_paths must be a single folder");
}

/// Relative paths are relative to the configuration file; in a collection that is a folder, they are relative to that
/// folder.
#[test]
fn top_level_archives_apply_to_folders() {
    let dir = kept();
    let at = |path: &str| format!("{}/{path}", dir.path().display());
    let text = "
archive_paths: [./warcs, /warcs, 'http://h/{coll}']
collections_root: collections
collections: {x: {index: ./x.cdxj}, all: $all}
";
    let (config, _) = read(dir.path(), text).unwrap();
    assert_eq!(names(&config), ["x", "all", "a", "b"]);
    let loaders = |own: &[&str]| {
        let own = own.iter().map(|path| folder(&at(path)));
        let others = [folder("/warcs"), Loader::Web("http://h/{coll}/".to_owned())];
        own.zip([others.to_vec(), Vec::new()])
            .flat_map(|(own, others)| [vec![own], others].concat())
            .chain([Loader::Live])
            .collect::<Vec<_>>()
    };
    let resource = |n: usize| config.collections[n].steps[0].resource.clone();
    assert_eq!(resource(0), loaders(&["warcs"]));
    let both = ["collections/a/warcs", "collections/b/warcs"];
    assert_eq!(resource(1), loaders(&both));
    assert_eq!(resource(2), loaders(&["collections/a/warcs"]));
}

#[test]
fn top_level_archives_apply_to_all_collections() {
    let (config, _) = parse(
        "
archive_paths: [archive, /warcs, 'http://h/']
collections:
  x: ./x.cdxj
  y: {index: ./y.cdxj, resource: ./y}
",
    )
    .unwrap();
    let [x, y] = &*config.collections else {
        panic!("{config:?}");
    };
    let [archive, warcs] = ["/etc/archive/archive", "/warcs"].map(folder);
    let web = Loader::Web("http://h/".to_owned());
    assert_eq!(x.steps[0].resource, [archive, warcs, web, Loader::Live]);
    assert_eq!(y.steps[0].resource, [folder("/etc/archive/y")]);
}
