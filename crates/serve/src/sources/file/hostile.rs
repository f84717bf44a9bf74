//! Tests of files that appear, disappear and change, and of paths that are not files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use crawlspace_cdx::surt::MatchType;
use futures_util::StreamExt;
use redis_tests::Rng;

use super::FileSource;
use super::tests::{ask, failure, identity, lookup, query, runtime};
use crate::source::{Lookup, Source};
use crawlspace_index::Choice;
use crawlspace_index::Listings;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::SourceError;
use crawlspace_index::timestamp::Timestamp;

/// Creates a source that checks its files on every query.
fn watching(path: &Path) -> FileSource {
    let listings = Listings::new(path.to_owned(), Choice::All);
    let listings = listings.with_age(std::time::Duration::ZERO);
    FileSource::of(Arc::new(listings), identity())
}

fn count(source: &FileSource) -> usize {
    let all = lookup(query("http://a.com/", MatchType::Domain), Order::Ascending);
    ask(source, &all).0.len()
}

fn orders() -> [Order; 3] {
    let moment = Timestamp::earliest(b"2016").unwrap();
    [Order::Ascending, Order::Descending, Order::Closest(moment)]
}

/// Returns whether a source fails because of its files.
fn is_missing(source: &FileSource) -> bool {
    let all = lookup(query("http://a.com/", MatchType::Exact), Order::Ascending);
    matches!(failure(source, &all), Some(SourceError::Io(_)))
}

#[test]
fn added_and_removed_files_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("index");
    let source = watching(&place);
    assert!(is_missing(&source));
    assert!(source.health().unwrap_err().contains("index"));
    fs::create_dir_all(place.join("deep/er")).unwrap();
    assert_eq!((count(&source), source.health()), (0, Ok(())));
    fs::write(place.join("deep/er/a.cdxj"), "com,a)/ 2016 {}\n").unwrap();
    fs::write(place.join("b.cdx"), "com,a)/ 2017 {}").unwrap();
    for other in [".c.cdxj", "c.txt", "cdxj", "c.cdxj.gz"] {
        fs::write(place.join(other), "com,a)/ 2018 {}\n").unwrap();
    }
    assert_eq!(count(&source), 2);
    fs::write(place.join("b.cdx"), "com,a)/ 2017 {}\ncom,a)/ 2018 {}").unwrap();
    assert_eq!(count(&source), 3);
    fs::remove_file(place.join("deep/er/a.cdxj")).unwrap();
    assert_eq!(count(&source), 2);
    // The old file still exists, under another name.
    fs::rename(place.join("b.cdx"), place.join("b.old")).unwrap();
    fs::write(place.join("b.cdx"), "com,a)/ 2019 {}\n").unwrap();
    assert_eq!(count(&source), 1);
    fs::remove_dir_all(&place).unwrap();
    assert!(is_missing(&source));
    fs::write(&place, "com,a)/ 2019 {}\n").unwrap();
    assert_eq!(count(&source), 1);
}

#[test]
fn path_may_contain_the_collection_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.cdxj"), "com,a)/ 2016 {}\n").unwrap();
    fs::write(
        folder.path().join("x.cdxj"),
        "com,a)/ 2016 {}\ncom,a)/ 2017 {}\n",
    )
    .unwrap();
    let source = FileSource::new(folder.path().join("{coll}.cdxj"), identity());
    let of = |name: &str| {
        let all = lookup(query("http://a.com/", MatchType::Exact), Order::Ascending);
        Arc::new(Lookup {
            collection: name.into(),
            ..(*all).clone()
        })
    };
    for (name, rows) in [("one", 1), ("x", 2)] {
        assert_eq!(ask(&source, &of(name)).0.len(), rows, "{name}");
    }
    fs::create_dir(folder.path().join("y")).unwrap();
    for name in ["none", "y/../one", "..", "", "a\0"] {
        let error = failure(&source, &of(name));
        assert!(matches!(error, Some(SourceError::Io(_))), "{name:?}");
    }
}

#[test]
fn special_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    fs::create_dir(place.join("folder.cdxj")).unwrap();
    symlink("..", place.join("folder.cdxj/up")).unwrap();
    symlink("nothing", place.join("nothing.cdxj")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(place.join("pipe.cdxj"))
        .status();
    assert!(pipe.unwrap().success());
    fs::write(place.join("a.cdxj"), "com,a)/ 2016 {}\n").unwrap();
    assert_eq!(count(&watching(place)), 1);
    assert!(is_missing(&watching(&place.join("pipe.cdxj"))));
}

#[test]
fn endless_line_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a.cdxj");
    fs::write(&place, "com,a)/ 2016 {}\ncom,a)/ 2017 {\"a\": \"").unwrap();
    let file = fs::File::options().append(true).open(&place).unwrap();
    file.set_len(40 << 20).unwrap();
    let source = watching(&place);
    for order in orders() {
        let all = lookup(query("http://a.com/", MatchType::Exact), order);
        assert_eq!(ask(&source, &all).0.len(), 1, "{order:?}");
    }
    assert!(source.broken() >= 2);
}

#[test]
fn unsorted_and_binary_files_are_harmless() {
    let mut rng = Rng::new("unsorted_and_binary_files_are_harmless");
    let folder = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let mut bytes: Vec<u8> = Vec::new();
        for _ in 0..rng.below(3000) {
            match rng.below(4) {
                0 => bytes.extend(rng.bits().to_le_bytes()),
                1 => bytes.extend_from_slice(
                    format!(
                        "com,a)/{} 2016{:010} {{}}\n",
                        rng.below(9),
                        rng.below(1 << 30)
                    )
                    .as_bytes(),
                ),
                2 => bytes.extend_from_slice(rng.pick::<&[u8]>(&[
                    &b"\n"[..],
                    b"\r\n",
                    b" ",
                    b"\0",
                    b"{}",
                    b"com,a)/ 9 {}",
                ])),
                _ => bytes.resize(bytes.len() + rng.below(300) as usize, b'0'),
            }
        }
        let place = folder.path().join(format!("{}.cdxj", round % 4));
        fs::write(place, bytes).unwrap();
        let source = watching(folder.path());
        for order in orders() {
            for kind in [MatchType::Exact, MatchType::Prefix, MatchType::Domain] {
                let all = lookup(query("http://a.com/", kind), order);
                for row in ask(&source, &all).0 {
                    assert!(row.line() >= &all.query.keys.from && row.line() < &all.query.keys.to);
                }
            }
        }
    }
}

#[test]
fn unsorted_file_missed_by_samples_is_noted_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cdxj");
    let line = |n: usize| format!("com,a)/{n:06} 2016 {{\"n\": \"{}\"}}\n", "x".repeat(50));
    let mut lines: Vec<String> = (0..30_000).map(line).collect();
    let sorted = lines.concat();
    // The two lines in the wrong order are between two samples.
    lines.swap(30_000 / 16, 30_000 / 16 + 1);
    fs::write(&path, lines.concat()).unwrap();
    let source = FileSource::new(path.clone(), identity());
    let all = |order| lookup(query("http://a.com/", MatchType::Domain), order);
    let (rows, ordered) = ask(&source, &all(Order::Ascending));
    assert_eq!((rows.len(), ordered), (30_000, true));
    let problem = source.health().unwrap_err();
    assert!(problem.contains("a.cdxj: it is not sorted"), "{problem}");
    // From now on, the caller has to sort the rows.
    for order in orders() {
        let (rows, ordered) = ask(&source, &all(order));
        assert_eq!((rows.len(), ordered), (30_000, false), "{order:?}");
    }
    fs::write(folder.path().join("new"), sorted).unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    assert_eq!(source.health(), Ok(()));
    assert!(ask(&source, &all(Order::Ascending)).1);
}

#[test]
fn number_of_open_files_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..700 {
        let place = folder.path().join(format!("{number:03}.cdxj"));
        fs::write(
            place,
            format!("com,a)/ 2016{:010} {{}}\n", 101_000_000 + number),
        )
        .unwrap();
    }
    let source = watching(folder.path());
    for _ in 0..5 {
        assert_eq!(count(&source), 700);
    }
    let open = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
            let target = entry
                .as_ref()
                .ok()
                .and_then(|entry| fs::read_link(entry.path()).ok());
            target.is_some_and(|target| target.starts_with(folder.path()))
        });
        open.count()
    };
    assert!(open() <= 512);
    // A query with rows of all files does not keep all of them open, and reads all of them to the
    // end.
    for number in 0..700 {
        let place = folder.path().join(format!("{number:03}.cdxj"));
        let line = |n: u32| format!("com,a)/{n:04} 2016{:010} {{}}\n", 101_000_000 + number);
        fs::write(place, (0..500).map(line).collect::<String>()).unwrap();
    }
    let all = lookup(query("http://a.com/", MatchType::Domain), Order::Ascending);
    runtime().block_on(async {
        let mut batches = source.rows(all).await.unwrap().batches;
        let (mut rows, mut most) = (0, 0);
        while let Some(batch) = batches.next().await {
            if rows == 0 {
                most = open();
            }
            rows += batch.unwrap().len();
        }
        assert_eq!(rows, 700 * 500);
        assert!((1..=512).contains(&most), "{most} are open");
    });
}

#[test]
fn no_more_rows_are_read_than_used() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a.cdxj");
    fs::write(
        &place,
        "com,a)/ 2016 {}\ncom,a)/ 2017 {\ncom,a)/ 2018 {}\ncom,a)/ 2019 {}\n",
    )
    .unwrap();
    let source = watching(&place);
    for order in orders() {
        let all = lookup(query("http://a.com/", MatchType::Exact), order);
        for at_most in 0..5 {
            let some = Arc::new(Lookup {
                at_most: Some(at_most),
                ..(*all).clone()
            });
            assert_eq!(
                ask(&source, &some).0.len() as u64,
                at_most.min(3),
                "{order:?}"
            );
        }
    }
}

#[test]
fn answer_is_from_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a.cdxj");
    let text = |mark: u64, lines: u64| -> String {
        let line = |n: u64| {
            let moment = Timestamp::from_seconds(1_450_000_000 + 10_000 * n as i64).unwrap();
            format!("com,a)/ {moment} {{\"mark\": {mark}}}\n")
        };
        (0..lines).map(line).collect()
    };
    let versions = [text(0, 3000), text(1, 500), text(2, 20)];
    fs::write(&place, &versions[0]).unwrap();
    let source = Arc::new(watching(&place));
    let answers = 120;
    let asking = (0..3).map(|number| {
        let source = Arc::clone(&source);
        std::thread::spawn(move || {
            for _ in 0..answers / 3 {
                let all = lookup(query("http://a.com/", MatchType::Exact), orders()[number]);
                let rows = ask(&*source, &all).0;
                let marks: Vec<&[u8]> = rows.iter().map(|row| &row.json()[..10]).collect();
                assert!(marks.windows(2).all(|pair| pair[0] == pair[1]));
                assert!([3000, 500, 20].contains(&rows.len()), "{}", rows.len());
            }
        })
    });
    let asking: Vec<_> = asking.collect();
    for round in 0.. {
        let other = folder.path().join("other");
        fs::write(&other, &versions[round % 3]).unwrap();
        fs::rename(other, &place).unwrap();
        if asking.iter().all(|thread| thread.is_finished()) {
            break;
        }
    }
    for thread in asking {
        thread.join().unwrap();
    }
    // A file that is overwritten during a read may yield any of its contents, but nothing else.
    let asking = std::thread::spawn({
        let source = Arc::clone(&source);
        move || {
            for round in 0..answers {
                let all = lookup(
                    query("http://a.com/", MatchType::Exact),
                    orders()[round % 3],
                );
                assert!(ask(&*source, &all).0.len() <= 3500);
            }
        }
    });
    for round in 0.. {
        fs::write(&place, &versions[round % 3]).unwrap();
        if asking.is_finished() {
            break;
        }
    }
    asking.join().unwrap();
}
