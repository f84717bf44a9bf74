//! Tests of the normal form as text.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{good, parse};
use crate::config::{
    Collection, Config, Dialect, Indexes, Loader, Secrets, Source, SourceKind, Step,
};
use crate::host::Host;
use crate::rules::{Access, Dates, Embargo, Period, Rules};
use crawlspace_fetch::Network;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_wacz::Location;

#[test]
fn normal_form_is_complete() {
    let config = good(
        "
allow_private: 127.0.0.1
collections:
  many:
    index_group:
      ia: cdx+http://web.archive.org/cdx /web
      red: redis://user:secret@h/key
    resource: [./warcs, $live, 'warc-index+redis://:secret@h/hash']
  live: $live
",
    );
    let shown = config.to_yaml(Secrets::Masked);
    assert_eq!(
        shown,
        r#"allow_private:
  - "127.0.0.1/32"
collections:
  many:
    index_group:
      ia:
        type: cdx
        api_url: http://web.archive.org/cdx?url={url}&closest={timestamp}
        replay_url: http://web.archive.org/web/{timestamp}id_/{url}
        index_timeout: 5.0
      red:
        type: redis
        redis_url: "redis://user:***@h:6379/0/key"
        index_timeout: 5.0
    resource:
      - warc-prefix+file:///etc/archive/warcs
      - $live
      - "warc-index+redis://:***@h:6379/0/hash"
  live:
    index:
      type: live
      index_timeout: 5.0
    resource:
      - $live
"#
    );
    assert!(!config.to_json(Secrets::Masked).contains("secret"));
    let shown = config.to_json(Secrets::Shown);
    assert!(shown.contains("redis://user:secret@h:6379/0/key"));
}

#[test]
fn shown_dedupe_index_reads_back() {
    let text = "collections: {a: {index: {type: dedupe, redis_url: 'redis://:secret@h', prefix: '{x}:', crawl: c}}}";
    let config = good(text);
    let kind = SourceKind::Dedupe {
        url: "redis://:secret@h:6379/0".to_owned(),
        prefix: "{x}:".to_owned(),
        sharded: None,
        crawl: Some("c".to_owned()),
    };
    assert_eq!(config.collections[0].steps[0].sources[0].kind, kind);
    let sharded =
        good("collections: {a: {index: {type: dedupe, redis_url: 'redis://h', sharded: coll-42}}}");
    assert!(sharded.to_yaml(Secrets::Masked).contains("coll-42"));
    assert_eq!(good(&sharded.to_yaml(Secrets::Shown)), sharded);
    assert_eq!(good(&config.to_yaml(Secrets::Shown)), config);
    let bare = good("collections: {a: {index: {type: dedupe, redis_url: 'redis://h'}}}");
    assert_eq!(good(&bare.to_yaml(Secrets::Shown)), bare);
    assert!(!config.to_yaml(Secrets::Masked).contains("secret"));
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._~@+:,=-]{1,12}".prop_filter("reserved", |name| {
        !["_status", "_metrics", "_indexes", "static", ".", ".."].contains(&name.as_str())
    })
}

/// Generates names of sources, including words that mean something else without quotes.
fn source_name() -> impl Strategy<Value = String> {
    let words = [
        "null", "<<", "~", "true", "1.5", "${PLACE}", "-", "#", "&a", "name:",
    ];
    let word = prop::sample::select(words.to_vec());
    let any = "[^\\s\\pC,]{1,20}".prop_filter("marks", |name: &String| {
        !name.starts_with('!') && name != "*"
    });
    prop_oneof![3 => any, 1 => word.prop_map(str::to_owned)]
}

fn path() -> impl Strategy<Value = PathBuf> {
    let step = "[^/\\pC]{1,8}".prop_filter("no step", |step| step != ".");
    vec(step, 1..4).prop_map(|steps| PathBuf::from(format!("/{}", steps.join("/"))))
}

fn place() -> impl Strategy<Value = Location> {
    let url = "(https?|s3)://[a-z]{1,8}/([a-z0-9._~%!$'()+;:@&=-]{0,6}[a-z]/){0,3}[a-z]{1,6}";
    let url = url.prop_map(|url: String| Location::Url(url.parse().unwrap()));
    prop_oneof![3 => path().prop_map(Location::File), 1 => url]
}

fn base() -> impl Strategy<Value = String> {
    "https?://[a-z]{1,8}(\\.[a-z]{2,3}){0,2}(:80[0-9]{2})?/([a-z0-9._~%!$'()*+;:@&=-]{1,6}/|\\{coll\\}/){0,3}"
}

fn redis() -> impl Strategy<Value = String> {
    "rediss?://(([a-z]{0,3}:)?[A-Za-z0-9]{1,5}@)?[a-z]{1,5}:[1-9][0-9]{0,3}/(0|[1-9][0-9]?)/[^/\\pC][^\\pC]{0,10}"
        .prop_filter("blank", |url| !url.ends_with(char::is_whitespace))
        .prop_filter("ambiguous", |url| {
            // Keys in which a host seems to follow an `@` are refused.
            let key = url.splitn(5, '/').nth(4).unwrap_or_default();
            let place = key.rsplit_once('@').map_or("", |(_, place)| place);
            !place.contains(['/', ':'])
        })
}

fn kind() -> impl Strategy<Value = SourceKind> {
    let dialect = prop::sample::select(vec![Dialect::Pywb, Dialect::Outback, Dialect::Ia]);
    prop_oneof![
        place().prop_map(|path| SourceKind::File { path }),
        place().prop_map(|path| SourceKind::ZipNum { path }),
        redis().prop_map(|url| SourceKind::Redis {
            url,
            has_aliases: false
        }),
        base().prop_map(|base| SourceKind::Memento {
            timegate_url: format!("{base}{{url}}"),
            timemap_url: format!("{base}timemap/link/{{url}}"),
            replay_url: format!("{base}{{timestamp}}id_/{{url}}"),
        }),
        (base(), base(), option::of(dialect)).prop_map(|(api, replay, dialect)| SourceKind::Cdx {
            api_url: format!("{api}cdx?a=b&url={{url}}"),
            replay_url: Some(format!("{replay}{{timestamp}}/{{url}}")),
            dialect,
        }),
        Just(SourceKind::Live),
        "https?://[a-z]{1,9}/[a-z]{1,9}".prop_map(|url| SourceKind::Upstream { url }),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let limit = || option::of(1..=u64::MAX);
    let nanos = 1_000_000..=86_400_000_000_000_u64;
    (source_name(), kind(), nanos, limit(), limit()).prop_map(
        |(name, kind, nanos, max_bytes, max_rows)| Source {
            name,
            kind,
            timeout: Duration::from_nanos(nanos),
            max_bytes,
            max_rows,
        },
    )
}

fn loader() -> impl Strategy<Value = Loader> {
    prop_oneof![
        Just(Loader::Live),
        path().prop_map(Loader::Folder),
        path().prop_map(Loader::PathIndex),
        base().prop_map(Loader::Web),
        redis().prop_map(Loader::RedisIndex),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let sources = vec(source(), 1..4).prop_map(|mut sources| {
        let mut seen = std::collections::HashSet::new();
        sources.retain(|source: &Source| seen.insert(source.name.clone()));
        sources
    });
    (sources, any::<bool>(), vec(loader(), 1..4)).prop_map(|(sources, group, resource)| Step {
        is_group: group || sources.len() > 1,
        sources,
        resource,
    })
}

fn network() -> impl Strategy<Value = Network> {
    let address = any::<IpAddr>();
    (address, 0..=128_u8).prop_map(|(address, bits)| Network {
        address,
        bits: bits.min(if address.is_ipv4() { 32 } else { 128 }),
    })
}

fn host() -> impl Strategy<Value = Host> {
    let name = prop_oneof![
        "[a-z][a-z0-9-]{0,8}[a-z]\\.example".boxed(),
        any::<std::net::Ipv4Addr>()
            .prop_map(|a| a.to_string())
            .boxed(),
        any::<std::net::Ipv6Addr>()
            .prop_map(|a| format!("[{a}]"))
            .boxed(),
    ];
    (name, option::of(any::<u16>())).prop_map(|(name, port)| match port {
        Some(port) => format!("{name}:{port}").parse().unwrap(),
        None => name.parse().unwrap(),
    })
}

fn indexes() -> impl Strategy<Value = Indexes> {
    let nanos = || option::of(0..=86_400_000_000_000_u64);
    let span = |nanos: Option<u64>| nanos.map(Duration::from_nanos);
    let size = || option::of(1..=u64::MAX);
    let place = prop_oneof![
        path().prop_map(|path| path.to_string_lossy().into_owned()),
        "https?://[a-z]{1,9}/[a-z0-9]{0,9}",
    ];
    let times = (nanos(), nanos(), nanos(), nanos());
    let sizes = (size(), size(), size());
    (path(), vec(place, 1..4), times, sizes).prop_map(
        move |(cache_dir, metadata, (wait, retry, age, grace), (memory, max_size, min_free))| {
            Indexes {
                cache_dir,
                metadata,
                wait: span(wait),
                retry_missing: span(retry),
                memory,
                max_size,
                min_free,
                max_age: span(age),
                grace: span(grace),
            }
        },
    )
}

/// Generates access rules without files, or `None` if they hide nothing.
fn rules() -> impl Strategy<Value = Option<Arc<Rules>>> {
    let access = || {
        prop::sample::select(vec![
            Access::Allow,
            Access::Block,
            Access::Exclude,
            Access::AllowIgnoreEmbargo,
        ])
    };
    let moment =
        (0..=4_000_000_000_i64).prop_map(|seconds| Timestamp::from_seconds(seconds).unwrap());
    let period =
        [0..=9999_u32, 0..=9999, 0..=9999, 1..=9999].prop_map(|[years, months, weeks, days]| {
            Period {
                years,
                months,
                weeks,
                days,
            }
        });
    let dates = prop_oneof![
        moment.clone().prop_map(Dates::Before),
        moment.prop_map(Dates::After),
        period.clone().prop_map(Dates::Older),
        period.prop_map(Dates::Newer),
    ];
    let embargo = (dates, access()).prop_map(|(dates, access)| Embargo { dates, access });
    (access(), option::of(embargo)).prop_map(|(default, embargo)| {
        let hides = default > Access::Allow || embargo.is_some();
        hides.then(|| Arc::new(Rules::read(Vec::new(), default, embargo, "public").unwrap()))
    })
}

fn config() -> impl Strategy<Value = Config> {
    let collection = (
        name(),
        vec(step(), 1..4),
        any::<bool>(),
        option::of((redis(), option::of("[^\\pC\\s]{1,9}"))),
        option::of(redis()),
        rules(),
        any::<[bool; 2]>(),
    )
        .prop_map(
            |(name, steps, sequence, access, dedupe, rules, [fuzzy, lends_hidden])| Collection {
                name,
                is_sequence: sequence || steps.len() > 1,
                steps,
                tags: access.as_ref().map(|(tags, _)| tags.clone()),
                dedupe,
                writable: None,
                access_point: access.and_then(|(_, point)| point),
                rules,
                lends_hidden,
                fuzzy,
            },
        );
    let parts = (
        vec(collection, 1..4),
        vec(network(), 0..3),
        vec(host(), 0..3),
        option::of(indexes()),
    );
    parts.prop_map(|(mut collections, allow_private, hosts, indexes)| {
        let mut seen = std::collections::HashSet::new();
        collections.retain(|collection: &Collection| seen.insert(collection.name.clone()));
        Config {
            collections,
            allow_private,
            hosts,
            indexes,
            folder: "/etc/archive".into(),
        }
    })
}

/// Returns all Redis URLs of a configuration.
fn redis_urls(config: &Config) -> Vec<&str> {
    let mut urls = Vec::new();
    for collection in &config.collections {
        urls.extend(collection.tags.as_deref());
        urls.extend(collection.dedupe.as_deref());
        for step in &collection.steps {
            urls.extend(step.sources.iter().filter_map(|source| match &source.kind {
                SourceKind::Redis { url, .. } | SourceKind::Dedupe { url, .. } => Some(&**url),
                _ => None,
            }));
            urls.extend(step.resource.iter().filter_map(|loader| match loader {
                Loader::RedisIndex(url) => Some(&**url),
                _ => None,
            }));
        }
    }
    urls
}

#[test]
fn key_may_contain_an_at_sign() {
    let config = good("collections: {a: {index: 'redis://u:hidden@h/0/a@b', resource: /w}}");
    assert_eq!(redis_urls(&config), ["redis://u:hidden@h:6379/0/a@b"]);
    assert!(!config.to_yaml(Secrets::Masked).contains("hidden"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_output_contains_a_password(
        scheme in "(rediss?|https?|s3|redis\\+tls|valkey|unix)",
        user in "([a-z]{0,3}:)?",
        middle in "[/?#@:%&=+{}!\\\\'\"x0,*\\[\\]]{0,4}|%2F|%40|/0/|:12/|://|é",
        place in "(@h|@h:6379|@\\[::1\\]:1)/(0/)?(k|a-cdx|\\{coll\\})",
        begin in "(hidden|12/hidden|0/hidden|)",
    ) {
        // Otherwise, the user would be named hidden.
        prop_assume!(!user.is_empty() || begin.is_empty() || !middle.contains(':'));
        let url = format!("{scheme}://{user}{begin}{middle}hidden{place}");
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let url_of = |prefix: &str| quoted(&format!("{prefix}{url}"));
        for text in [
            format!("index: {}", quoted(&url)),
            format!("index: {{type: redis, redis_url: {}}}", quoted(&url)),
            format!("index: {{type: dedupe, redis_url: {}}}", quoted(&url)),
            format!("index: {{type: dedupe, redis_url: {}}}", quoted(url.trim_end_matches("/k"))),
            format!("index: {}", url_of("memento+")),
            format!("index: {}", url_of("cdx+")),
            format!("index: {}", url_of("upstream+")),
            format!("index: {}", url_of("wacz+")),
            format!("index: {}", url_of("zipnum+")),
            format!("index: $live, tags: {}", quoted(&url)),
            format!("index: $live, dedupe: {}", quoted(&url)),
            format!("index: /i, resource: {}", quoted(&url)),
            format!("index: /i, resource: {}", url_of("warc-index+")),
            format!("index: /i, resource: {}", url_of("warc-prefix+")),
        ] {
            let text = format!("collections: {{c: {{{text}}}}}");
            match parse(&text) {
                Ok((config, warnings)) => {
                    let shown = format!("{}{}", config.to_yaml(Secrets::Masked), config.to_json(Secrets::Masked));
                    prop_assert!(!shown.contains("hidden"), "{}\n{}", text, shown);
                    prop_assert!(!format!("{warnings:?}").contains("hidden"), "{}: {:?}", text, warnings);
                    for url in redis_urls(&config) {
                        let shown = crawlspace_client::server::without_password(url);
                        prop_assert!(!shown.contains("hidden"), "{}\n{}", text, shown);
                    }
                }
                Err(errors) => {
                    let shown = errors.to_string();
                    prop_assert!(!shown.contains("hidden"), "{}\n{}", text, shown);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn shown_configuration_reads_back_as_the_same(config in config()) {
        for text in [config.to_yaml(Secrets::Shown), config.to_json(Secrets::Shown)] {
            match parse(&text) {
                Ok((again, _)) => prop_assert_eq!(&again, &config, "{}", text),
                Err(errors) => prop_assert!(false, "{}\n{}", errors, text),
            }
        }
        let json: serde_json::Value = serde_json::from_str(&config.to_json(Secrets::Masked)).unwrap();
        prop_assert!(json["collections"].is_object());
    }
}
