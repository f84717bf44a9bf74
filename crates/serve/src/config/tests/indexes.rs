//! Tests of `indexes`.

use std::time::Duration;

use super::super::{Indexes, Secrets};
use super::wrong::refused;
use super::{good, parse};

#[test]
fn configuration_may_have_only_job_indexes() {
    for text in [
        "indexes: {cache_dir: /c, metadata: /m}",
        "collections: {}\nindexes: {cache_dir: /c, metadata: [/m]}",
    ] {
        let config = good(text);
        assert!(config.collections.is_empty());
        let indexes = config.indexes.unwrap();
        let bare = Indexes {
            cache_dir: "/c".into(),
            metadata: vec!["/m".to_owned()],
            wait: None,
            retry_missing: None,
            memory: None,
            max_size: None,
            min_free: None,
            max_age: None,
            grace: None,
        };
        assert_eq!(indexes, bare);
    }
    assert_eq!(good("collections: {a: $live}").indexes, None);
}

#[test]
fn every_index_setting_is_read_and_shown() {
    let text = "
indexes:
  cache_dir: ./cache
  metadata:
    - meta/data
    - file:///srv/lists/jobs.txt
    - https://user.example/meta
    - ${PLACE}
  wait: 1.5h
  retry_missing: 30
  memory: 64MiB
  limits: {max_size: 100GB, min_free: 1.5 GB, max_age: 90d, grace: 10m}
";
    let config = good(text);
    let indexes = config.indexes.clone().unwrap();
    let [folder, list] = ["/etc/archive/meta/data", "/srv/lists/jobs.txt"];
    let expected = [folder, list, "https://user.example/meta", "/srv/index"];
    assert_eq!(indexes.metadata, expected);
    assert_eq!(indexes.wait, Some(Duration::from_secs(5400)));
    assert_eq!(indexes.retry_missing, Some(Duration::from_secs(30)));
    assert_eq!(indexes.max_age, Some(Duration::from_secs(90 * 86_400)));
    assert_eq!(
        config.to_yaml(Secrets::Masked),
        r#"indexes:
  cache_dir: /etc/archive/cache
  metadata:
    - /etc/archive/meta/data
    - /srv/lists/jobs.txt
    - https://user.example/meta
    - /srv/index
  wait: 5400.0
  retry_missing: 30.0
  memory: 67108864
  limits:
    max_size: 100000000000
    min_free: 1500000000
    max_age: 7776000.0
    grace: 600.0
collections: {}
"#
    );
    let (again, _) = parse(&config.to_yaml(Secrets::Shown)).unwrap();
    assert_eq!(again, config);
}

#[test]
fn sizes_are_checked() {
    for memory in ["1.5.5GB", "GB", "-1", "1e400", "99999999999TB", "1GBs"] {
        let text = format!("indexes: {{cache_dir: /c, metadata: /m, memory: {memory}}}");
        refused(&text, &[(1, 48, "memory must be a size such as 100GB")]);
    }
}
