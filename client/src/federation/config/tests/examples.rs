//! Short and long forms of the same.

use std::path::PathBuf;
use std::time::Duration;

use super::super::{Dialect, Loader, Network, Source, SourceKind, Step};
use super::{good, parse};

pub fn source(name: &str, kind: SourceKind) -> Source {
    Source {
        name: name.to_owned(),
        kind,
        timeout: Duration::from_secs(5),
        max_bytes: None,
        max_rows: None,
    }
}

pub fn file(path: &str) -> SourceKind {
    SourceKind::File {
        path: PathBuf::from(path),
    }
}

pub fn memento(base: &str) -> SourceKind {
    SourceKind::Memento {
        timegate_url: format!("{base}{{url}}"),
        timemap_url: format!("{base}timemap/link/{{url}}"),
        replay_url: format!("{base}{{timestamp}}id_/{{url}}"),
    }
}

fn cdx(api: &str, replay: Option<&str>) -> SourceKind {
    SourceKind::Cdx {
        api_url: format!("{api}?url={{url}}&closest={{timestamp}}"),
        replay_url: replay.map(|base| format!("{base}{{timestamp}}id_/{{url}}")),
        dialect: None,
    }
}

fn web(prefix: &str) -> Loader {
    Loader::Web(prefix.to_owned())
}

pub fn folder(path: &str) -> Loader {
    Loader::Folder(PathBuf::from(path))
}

/// The one step of the one collection.
fn step(text: &str) -> Step {
    let config = good(text);
    let [collection] = &*config.collections else {
        panic!("{config:?}");
    };
    assert!(!collection.is_sequence);
    let [step] = &*collection.steps else {
        panic!("{collection:?}");
    };
    step.clone()
}

/// Both texts are one collection with one source of this kind, and these loaders.
fn same(long: &str, short: &str, kind: &SourceKind, resource: &[Loader]) {
    for text in [long, short] {
        let config = good(text);
        let name = config.collections[0].name.clone();
        let step = step(text);
        assert!(!step.is_group);
        assert_eq!(step.sources, [source(&name, kind.clone())], "{text}");
        assert_eq!(step.resource, resource, "{text}");
    }
    assert_eq!(good(long), good(short));
}

#[test]
fn a_local_archive() {
    same(
        "
collections:
    local:
        index:
              type: file
              path: file:///local/index/

        resource:
              - file:///local/warcs
              - http://remote/path/to/warcs
",
        "
collections:
    local:
        index: /local/index
        resource:
             - /local/warcs
             - http://remote/path/to/warcs
",
        &file("/local/index"),
        &[folder("/local/warcs"), web("http://remote/path/to/warcs/")],
    );
}

#[test]
fn a_memento_archive() {
    same(
        "
collections:
    aqpt:
       index:
          type: memento
          timegate_url: http://arquivo.pt/wayback/{url}
          timemap_url: http://arquivo.pt/wayback/timemap/link/{url}
          replay_url: http://arquivo.pt/wayback/{timestamp}id_/{url}

       resource: $live
",
        "
collections:
    aqpt: memento+http://arquivo.pt/wayback/
",
        &memento("http://arquivo.pt/wayback/"),
        &[Loader::Live],
    );
}

#[test]
fn a_cdx_server_whose_url_says_where_replay_is() {
    same(
        "
collections:
    rhiz:
       index:
          type: cdx
          api_url: http://webenact.rhizome.org/all-cdx?url={url}&closest={timestamp}
          replay_url: http://webenact.rhizome.org/all/{timestamp}id_/{url}

       resource: $live
",
        "
collections:
    rhiz: cdx+http://webenact.rhizome.org/all-cdx
",
        &cdx(
            "http://webenact.rhizome.org/all-cdx",
            Some("http://webenact.rhizome.org/all/"),
        ),
        &[Loader::Live],
    );
}

#[test]
fn a_cdx_server_with_a_replay_prefix() {
    let long = "
collections:
    ia:
       index:
          type: cdx
          api_url: http://web.archive.org/cdx?url={url}&closest={timestamp}
          replay_url: http://web.archive.org/web/{timestamp}id_/{url}

       resource: $live
";
    let kind = cdx(
        "http://web.archive.org/cdx",
        Some("http://web.archive.org/web/"),
    );
    for prefix in ["/web/", "/web", "http://web.archive.org/web", "web/"] {
        let short = format!(
            "
collections:
    ia: cdx+http://web.archive.org/cdx {prefix}
"
        );
        same(long, &short, &kind, &[Loader::Live]);
    }
    // The names of the place in time that pywb and the others have mean the same.
    same(
        &long.replace("closest={timestamp}", "closest={closest}"),
        &long.replace("?url={url}&closest={timestamp}", ""),
        &kind,
        &[Loader::Live],
    );
}

#[test]
fn the_live_web() {
    same(
        "
collections:
    live:
        index:
            type: live
",
        "
collections:
    live: $live
",
        &SourceKind::Live,
        &[Loader::Live],
    );
    same(
        "collections: {live: {index: $live}}",
        "collections: {live: live}",
        &SourceKind::Live,
        &[Loader::Live],
    );
}

#[test]
fn a_cdx_server_without_replay_whose_records_are_in_warc_files() {
    let step = step(
        "
collections:
    remote-cdx:
        index: cdx+http://path/to/cdx/server
        resource: http://path/to/warc/storage
",
    );
    let kind = cdx("http://path/to/cdx/server", None);
    assert_eq!(step.sources, [source("remote-cdx", kind)]);
    assert_eq!(step.resource, [web("http://path/to/warc/storage/")]);
}

fn remote_three() -> [Source; 3] {
    let rhizome = "http://webenact.rhizome.org/all";
    [
        source(
            "ia",
            cdx(
                "http://web.archive.org/cdx",
                Some("http://web.archive.org/web/"),
            ),
        ),
        source("aqpt", memento("http://arquivo.pt/wayback/")),
        source(
            "rhiz",
            cdx(&format!("{rhizome}-cdx"), Some(&format!("{rhizome}/"))),
        ),
    ]
}

#[test]
fn many_archives_at_once() {
    let step = step(
        "
collections:
    many:
        index_group:
           ia: cdx+http://web.archive.org/cdx /web
           aqpt: memento+http://arquivo.pt/wayback/
           rhiz: cdx+http://webenact.rhizome.org/all-cdx
           local: ./local/index

        resource:
           - $live
           - ./local/warcs

        index_timeout: 5.0
",
    );
    assert!(step.is_group);
    let [ia, aqpt, rhiz] = remote_three();
    let local = source("local", file("/etc/archive/local/index"));
    assert_eq!(step.sources, [ia, aqpt, rhiz, local]);
    assert_eq!(
        step.resource,
        [Loader::Live, folder("/etc/archive/local/warcs")]
    );
}

#[test]
fn one_archive_after_the_other() {
    let config = good(
        "
collections:
   seq_fallback:
       sequence:
         - index: ./local/index/
           resource:
               ./local/warcs
         - index_group:
               ia: cdx+http://web.archive.org/cdx /web
               aqpt: memento+http://arquivo.pt/wayback/
               rhiz: cdx+http://webenact.rhizome.org/all-cdx

           index_timeout: 3.0

         - index: $live
",
    );
    let collection = &config.collections[0];
    assert_eq!(collection.name, "seq_fallback");
    assert!(collection.is_sequence);
    let [first, second, third] = &*collection.steps else {
        panic!("{collection:?}");
    };
    let local = source("seq_fallback.1", file("/etc/archive/local/index"));
    assert_eq!(first.sources, [local]);
    assert_eq!(first.resource, [folder("/etc/archive/local/warcs")]);
    let three = remote_three().map(|source| Source {
        timeout: Duration::from_secs(3),
        ..source
    });
    assert!(second.is_group);
    assert_eq!(second.sources, three);
    assert_eq!(second.resource, [Loader::Live]);
    assert_eq!(third.sources, [source("seq_fallback.3", SourceKind::Live)]);
    assert_eq!(third.resource, [Loader::Live]);
}

#[test]
fn loaders_of_every_kind() {
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
fn sources_of_every_kind_in_short_and_long() {
    for (long, short) in [
        ("type: file, path: x.cdxj", "./x.cdxj"),
        ("type: file, path: /a b/c", "file:///a%20b/c"),
        ("type: file, path: ../x", "file://../x"),
        ("type: redis, redis_url: 'redis://h:6379/0/k'", "redis://h/k"),
        (
            "type: redis, redis_url: 'rediss://u:p@h:6379/2/{coll}:cdxj'",
            "rediss://u:p@h/2/{coll}:cdxj",
        ),
        ("type: zipnum, path: /cluster", "zipnum+/cluster"),
        ("type: zipnum, path: /cluster", "zipnum+file:///cluster/"),
        ("type: zipnum, path: /c/cluster.idx", "/c/cluster.idx"),
        (
            "type: upstream, url: 'http://h:8080/many'",
            "upstream+http://h:8080/many/",
        ),
        (
            "type: cdx, api_url: 'http://h/{coll}-cdx', replay_url: 'http://h/{coll}/{timestamp}id_/{url}'",
            "cdx+http://h/{coll}-cdx",
        ),
        (
            "type: cdx, api_url: 'http://h/a/cdx?key=1&', replay_url: 'http://h/w/{timestamp}id_/{url}'",
            "cdx+http://h/a/cdx?key=1& /w",
        ),
    ] {
        let resource = "resource: [$live, /warcs]";
        let long = format!("collections: {{c: {{index: {{{long}}}, {resource}}}}}");
        let short = format!("collections: {{c: {{index: '{short}', {resource}}}}}");
        assert_eq!(good(&long), good(&short), "{short}");
    }
}

#[test]
fn a_source_can_have_limits_of_its_own() {
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
    assert!(matches!(
        a.kind,
        SourceKind::Cdx {
            dialect: Some(Dialect::Outback),
            ..
        }
    ));
    assert_eq!(b.timeout, Duration::from_millis(1500));
    assert_eq!(c.timeout, Duration::from_secs(2));
}

#[test]
fn timeouts_stand_at_every_level() {
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
fn private_networks_and_access_points() {
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
    assert_eq!(
        config.allow_private,
        [
            network("127.0.0.1", 32),
            network("::1", 128),
            network("10.0.0.0", 8)
        ]
    );
    let collection = &config.collections[0];
    assert_eq!(
        collection.tags.as_deref(),
        Some("redis://h:6379/0/tags:{coll}")
    );
    assert_eq!(collection.access_point.as_deref(), Some("public"));
    assert_eq!(
        good("{allow_private: ::1, collections: {c: $live}}").allow_private,
        [network("::1", 128)]
    );
}

#[test]
fn an_index_whose_records_nothing_loads_is_remarked_upon() {
    let (_, warnings) = parse("collections: {c: /index}").unwrap();
    assert_eq!(warnings.len(), 1);
    let place = warnings[0].place.unwrap();
    assert_eq!((place.line, place.column), (1, 18));
}

#[test]
fn what_is_repeated_is_written_once() {
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
