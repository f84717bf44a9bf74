//! Tests of every kind of source and loader, in short and long form, and of their options.

use std::time::Duration;

use super::examples::{folder, step, web};
use super::{good, parse, refusal};
use crate::config::{Dialect, Loader, Secrets, SourceKind};
use crawlspace_fetch::Network;
use redis_tests::rows;

#[test]
fn every_loader_is_parsed() {
    let step = step(
        "
collections:
  c:
    index: /i
    resource:
      - $live

      # warc prefix to find exact WARC path

      - warc-prefix+file:///local/warcs
      - warc-prefix+http://remote/warc/path/

      # text-based filename lookup
      - warc-index+file:///warc/path-index.txt

      # redis-based filename lookup
      - warc-index+redis://redis/hash_key

      - /warc/path-index.txt
      - redis://redis:6380/3/{coll}:warcs
      - http://remote/get?file=
      - warcs/{coll}
",
    );
    let index = || Loader::PathIndex("/warc/path-index.txt".into());
    assert_eq!(
        step.resource,
        [
            Loader::Live,
            folder("/local/warcs"),
            web("http://remote/warc/path/"),
            index(),
            Loader::RedisIndex("redis://redis:6379/0/hash_key".to_owned()),
            index(),
            Loader::RedisIndex("redis://redis:6380/3/{coll}:warcs".to_owned()),
            web("http://remote/get?file="),
            folder("/etc/archive/warcs/{coll}"),
        ]
    );
}

#[test]
fn every_source_is_parsed_in_short_and_long_form() {
    for (long, short) in rows![
        "type: file, path: x.cdxj", "./x.cdxj";
        "type: file, path: /a b/c", "file:///a%20b/c";
        "type: file, path: ../x", "file://../x";
        "type: redis, redis_url: 'redis://h:6379/0/k'", "redis://h/k";
        "type: redis, redis_url: 'rediss://u:p@h:6379/2/{coll}:cdxj'", "rediss://u:p@h/2/{coll}:cdxj";
        "type: zipnum, path: /cluster", "zipnum+/cluster";
        "type: zipnum, path: /cluster", "zipnum+file:///cluster/";
        "type: zipnum, path: /c/cluster.idx", "/c/cluster.idx";
        "type: cdx, api_url: 'http://h/', replay_url: 'http://h/web/{timestamp}id_/{url}'",
            "cdx+http://h /web";
        "type: cdx, api_url: 'http://h-cdx?a=b'", "cdx+http://h-cdx?a=b";
        "type: upstream, url: 'http://h:8080/many'", "upstream+http://h:8080/many/";
        "type: cdx, api_url: 'http://h/{coll}-cdx', replay_url: 'http://h/{coll}/{timestamp}id_/{url}'",
            "cdx+http://h/{coll}-cdx";
        "type: cdx, api_url: 'http://h/a/cdx?key=1&', replay_url: 'http://h/w/{timestamp}id_/{url}'",
            "cdx+http://h/a/cdx?key=1& /w";
    ] {
        let resource = "resource: [$live, /warcs]";
        let long = format!("collections: {{c: {{index: {{{long}}}, {resource}}}}}");
        let short = format!("collections: {{c: {{index: '{short}', {resource}}}}}");
        assert_eq!(good(&long), good(&short), "{short}");
    }
}

#[test]
fn source_may_have_its_own_limits() {
    let step = step(
        "
collections:
  c:
    index_timeout: 2
    index_group:
      a: {type: cdx, api_url: 'http://h/a-cdx', replay_url: 'http://h/{timestamp}/{url}', dialect: outback,
          index_timeout: 0.25, max_bytes: 1000, max_rows: 7}
      b: {type: live, timeout: 1.5}
      c: $live
",
    );
    let [a, b, c] = &*step.sources else {
        panic!("{step:?}");
    };
    assert_eq!(a.timeout, Duration::from_millis(250));
    assert_eq!((a.max_bytes, a.max_rows), (Some(1000), Some(7)));
    let outback = Some(Dialect::Outback);
    assert!(matches!(&a.kind, SourceKind::Cdx { dialect, .. } if *dialect == outback));
    assert_eq!(b.timeout, Duration::from_millis(1500));
    assert_eq!(c.timeout, Duration::from_secs(2));
}

#[test]
fn folder_of_warc_files_is_its_own_loader() {
    let config = good(
        "
collections:
  short: warc+warcs
  long: {index: {type: warc, path: warcs, cache_dir: ./cache}, resource: [/more, ./warcs]}
",
    );
    let [short, long] = &*config.collections else {
        panic!("{config:?}");
    };
    let warcs = config.folder.join("warcs");
    let kind = |cache_dir| SourceKind::Warc {
        path: warcs.clone(),
        cache_dir,
    };
    assert_eq!(short.steps[0].sources[0].kind, kind(None));
    assert_eq!(
        short.steps[0].resource,
        [Loader::Folder(warcs.clone()), Loader::Live]
    );
    let cache = config.folder.join("cache");
    assert_eq!(long.steps[0].sources[0].kind, kind(Some(cache)));
    assert_eq!(
        long.steps[0].resource,
        [Loader::Folder("/more".into()), Loader::Folder(warcs)]
    );
    assert_eq!(good(&config.to_yaml(Secrets::Shown)), config);
}

#[test]
fn timeouts_are_parsed_at_every_level() {
    let config = good(
        "
collections:
  single: {index: $live, index_timeout: 0.5}
  sequence:
    index_timeout: 2
    sequence:
      - $live
      - {index: $live, index_timeout: 3}
      - {index: {type: live, index_timeout: 4}, index_timeout: 3}
",
    );
    let timeouts: Vec<Vec<f64>> = config
        .collections
        .iter()
        .map(|collection| {
            let sources = collection.steps.iter().flat_map(|step| &step.sources);
            sources.map(|source| source.timeout.as_secs_f64()).collect()
        })
        .collect();
    assert_eq!(timeouts, [vec![0.5], vec![2.0, 3.0, 4.0]]);
}

#[test]
fn sources_have_names() {
    let config = good(
        "
collections:
  a: $live
  b: {index: {type: live, name: other}}
  c:
    sequence:
      - index: $live
      - {name: second, index: $live}
      - {name: ignored, index: {type: live, name: third}}
      - {index_group: {x: $live}}
",
    );
    let names: Vec<&str> = config
        .collections
        .iter()
        .flat_map(|collection| &collection.steps)
        .flat_map(|step| &step.sources)
        .map(|source| source.name.as_str())
        .collect();
    assert_eq!(names, ["a", "other", "c.1", "second", "third", "x"]);
}

#[test]
fn private_networks_and_access_points_are_parsed() {
    let config = good(
        "
allow_private: [127.0.0.1, '::1', 10.0.0.0/8]
collections:
  c: {index: $live, tags: 'redis://h/tags:{coll}', access_point: public}
",
    );
    let network = |address: &str, bits| Network {
        address: address.parse().unwrap(),
        bits,
    };
    let three = [("127.0.0.1", 32), ("::1", 128), ("10.0.0.0", 8)];
    let three = three.map(|(address, bits)| network(address, bits));
    assert_eq!(config.allow_private, three);
    let collection = &config.collections[0];
    let tags = collection.tags.as_deref();
    assert_eq!(tags, Some("redis://h:6379/0/tags:{coll}"));
    assert_eq!(collection.access_point.as_deref(), Some("public"));
    let one = good("{allow_private: ::1, collections: {c: $live}}");
    assert_eq!(one.allow_private, [network("::1", 128)]);
}

#[test]
fn hosts_are_names_and_addresses() {
    let text =
        "{hosts: [Archive.example, 'a.example:8080', '[::1]', 192.0.2.1], collections: {c: $live}}";
    let hosts = good(text).hosts;
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let wanted = ["archive.example", "a.example:8080", "[::1]", "192.0.2.1"];
    assert_eq!(hosts, wanted);
    let one = good("{hosts: archive.example, collections: {c: $live}}");
    assert_eq!(one.hosts.len(), 1);
    for (hosts, why) in [
        ("[]", "hosts is empty"),
        ("['*']", "invalid host \"*\""),
        ("[http://archive.example]", "invalid host"),
        ("[archive.example/path]", "invalid host"),
        ("[{a: b}]", "a host must be a string"),
    ] {
        let errors = refusal(&format!("{{hosts: {hosts}, collections: {{c: $live}}}}"));
        assert!(errors.contains(why), "{hosts}: {errors}");
    }
}

#[test]
fn index_without_a_loader_causes_a_warning() {
    let (_, warnings) = parse("collections: {c: /index}").unwrap();
    assert_eq!(warnings.len(), 1);
    let position = warnings[0].position.unwrap();
    assert_eq!((position.line, position.column), (1, 18));
}

#[test]
fn aliases_of_yaml_are_expanded() {
    let config = good(
        "
collections:
  a: &a
    index: $live
    index_timeout: 1
  b: *a
  c:
    <<: *a
    index_timeout: 2
",
    );
    let [a, b, c] = &*config.collections else {
        panic!("{config:?}");
    };
    assert_eq!(a.steps[0].sources[0].timeout, b.steps[0].sources[0].timeout);
    assert_eq!(b.steps[0].sources[0].name, "b");
    assert_eq!(c.steps[0].sources[0].timeout, Duration::from_secs(2));
}
