//! Tests that the short and long forms of every kind of archive are equivalent.

use redis_tests::but;
use std::path::PathBuf;
use std::time::Duration;

use super::super::{Loader, Source, SourceKind, Step};
use super::good;

pub(crate) fn source(name: &str, kind: SourceKind) -> Source {
    Source {
        name: name.to_owned(),
        kind,
        timeout: Duration::from_secs(5),
        max_bytes: None,
        max_rows: None,
    }
}

pub(crate) fn file(path: &str) -> SourceKind {
    SourceKind::File {
        path: PathBuf::from(path).into(),
    }
}

pub(crate) fn memento(base: &str) -> SourceKind {
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

pub(crate) fn web(prefix: &str) -> Loader {
    Loader::Web(prefix.to_owned())
}

pub(crate) fn folder(path: &str) -> Loader {
    Loader::Folder(PathBuf::from(path))
}

/// Returns the only step of the only collection.
pub(crate) fn step(text: &str) -> Step {
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

/// Asserts that both configurations define one collection, which has one source of this kind and
/// these loaders.
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
fn local_archive_is_parsed() {
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
fn memento_archive_is_parsed() {
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
fn cdx_server_with_replay_in_its_url_is_parsed() {
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
        &remote_three()[2].kind,
        &[Loader::Live],
    );
}

#[test]
fn cdx_server_with_a_replay_prefix_is_parsed() {
    let long = "
collections:
    ia:
       index:
          type: cdx
          api_url: http://web.archive.org/cdx?url={url}&closest={timestamp}
          replay_url: http://web.archive.org/web/{timestamp}id_/{url}

       resource: $live
";
    let kind = remote_three()[0].kind.clone();
    for prefix in ["/web/", "/web", "http://web.archive.org/web", "web/"] {
        let short = format!(
            "
collections:
    ia: cdx+http://web.archive.org/cdx {prefix}
"
        );
        same(long, &short, &kind, &[Loader::Live]);
    }
    // `{closest}` is an alias of `{timestamp}`.
    same(
        &long.replace("closest={timestamp}", "closest={closest}"),
        &long.replace("?url={url}&closest={timestamp}", ""),
        &kind,
        &[Loader::Live],
    );
}

#[test]
fn live_web_is_parsed() {
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
fn cdx_server_with_records_in_warc_files_is_parsed() {
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
    let server = |name, api: &str, replay| source(name, cdx(api, Some(replay)));
    [
        server(
            "ia",
            "http://web.archive.org/cdx",
            "http://web.archive.org/web/",
        ),
        source("aqpt", memento("http://arquivo.pt/wayback/")),
        server(
            "rhiz",
            "http://webenact.rhizome.org/all-cdx",
            "http://webenact.rhizome.org/all/",
        ),
    ]
}

#[test]
fn parallel_archives_are_parsed() {
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
    let resource = [Loader::Live, folder("/etc/archive/local/warcs")];
    assert_eq!(step.resource, resource);
}

#[test]
fn sequence_of_archives_is_parsed() {
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
    let three = remote_three().map(|source| but!(source, timeout: Duration::from_secs(3)));
    assert!(second.is_group);
    assert_eq!(second.sources, three);
    assert_eq!(second.resource, [Loader::Live]);
    assert_eq!(third.sources, [source("seq_fallback.3", SourceKind::Live)]);
    assert_eq!(third.resource, [Loader::Live]);
}
