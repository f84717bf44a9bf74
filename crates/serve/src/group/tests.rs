//! Tests of groups. Time is paused, so that pauses take no real time.

use super::*;
use crate::source::Rows;
use bytes::Bytes;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis_tests::rows;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

/// A step of a scripted source.
#[derive(Clone)]
enum Does {
    Row(&'static str),
    Pause(u64),
    Fail,
    Err(SourceError),
    /// An empty batch.
    Work,
    Hang,
}
use Does::*;

struct Scripted {
    steps: Vec<Does>,
    ordered: bool,
    asked: AtomicUsize,
    /// Number of streams that have neither ended nor been dropped.
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Source for Scripted {
    fn rows(&self, _: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.running));
        let steps = self.steps.clone().into_iter();
        let batches = stream::unfold((steps, running), |(mut steps, running)| async move {
            loop {
                let outcome = match steps.next()? {
                    Row(line) => Ok(vec![row(line)]),
                    Fail => Result::Err(SourceError::Connection("it broke".to_owned())),
                    Err(error) => Result::Err(error),
                    Work => Ok(Vec::new()),
                    Pause(seconds) => {
                        sleep(Duration::from_secs(seconds)).await;
                        continue;
                    }
                    Hang => std::future::pending().await,
                };
                return Some((outcome, (steps, running)));
            }
        });
        let rows = Rows::whole(self.ordered, batches.boxed());
        async { Ok(rows) }.boxed()
    }
}

fn row(time: &str) -> crawlspace_index::row::Row {
    Row::new(Bytes::from(format!("com,a)/ {time} {{}}"))).unwrap()
}

fn group(sources: &[(&str, bool, &[Does])]) -> (Group, Vec<Arc<Scripted>>) {
    let scripted: Vec<_> = sources
        .iter()
        .map(|(_, ordered, steps)| {
            Arc::new(Scripted {
                steps: steps.to_vec(),
                ordered: *ordered,
                asked: AtomicUsize::new(0),
                running: Arc::default(),
            })
        })
        .collect();
    let members = sources.iter().zip(&scripted).map(|((name, ..), source)| {
        Arc::new(Member {
            name: (*name).into(),
            kind: "file",
            source: Arc::clone(source) as Arc<dyn Source>,
            limits: Limits::default(),
            breaker: Breaker::default(),
            figures: Figures::default(),
        })
    });
    let group = Group {
        members: members.collect(),
    };
    (group, scripted)
}

fn lookup(order: Order) -> Arc<Lookup> {
    lookup_of("a.com", order)
}

fn lookup_of(url: &str, order: Order) -> Arc<Lookup> {
    Arc::new(Lookup {
        query: Arc::new(Query::of_url(url).unwrap()),
        order,
        at_most: None,
        collection: "all".into(),
    })
}

async fn times(rows: Ordered) -> Vec<String> {
    let rows: Vec<_> = rows.map(stream::iter).flatten().collect().await;
    let time = |row: &Row| String::from_utf8(row.timestamp().to_vec()).unwrap();
    rows.iter().map(time).collect()
}

fn errors(report: &Report) -> Vec<(String, SourceError)> {
    let errors = report.errors().into_iter();
    errors
        .map(|(name, error)| (name.to_string(), error))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn slow_source_is_omitted_cancelled_and_reported() {
    let (group, sources) = group(&[
        ("good", true, &[Row("2001"), Row("2003")]),
        ("late", true, &[Pause(6), Row("2002")]),
        ("hanging", true, &[Hang]),
    ]);
    let report = Report::default();
    let begun = tokio::time::Instant::now();
    let rows = group
        .ask(&lookup(Order::Ascending), &Part::All, &report)
        .await;
    assert_eq!(begun.elapsed().as_secs(), 5, "index_timeout");
    assert_eq!(sources[1].running.load(Ordering::SeqCst), 0);
    assert_eq!(sources[2].running.load(Ordering::SeqCst), 0);
    assert_eq!(times(rows).await, ["2001", "2003"]);
    let late = |name: &str| (name.to_owned(), SourceError::Timeout);
    assert_eq!(errors(&report), [late("late"), late("hanging")]);
    let expected = r#"{"hanging":"timeout","late":"timeout"}"#;
    assert_eq!(report.header(0).unwrap(), expected);
    assert_eq!(report.header(2), None);
    let figures = &group.members[1].figures;
    assert_eq!((figures.requests(), figures.rows()), (1, 0));
    let timeouts = figures.errors().find(|(word, _)| *word == "timeout");
    assert_eq!(timeouts, Some(("timeout", 1)));
}

#[tokio::test(start_paused = true)]
async fn source_that_fails_later_is_reported_as_missing() {
    let (group, _) = group(&[
        ("broken", true, &[Row("2001"), Fail]),
        ("stuck", true, &[Row("2002"), Hang]),
        ("good", true, &[Row("2003"), Row("2004")]),
    ]);
    let report = Report::default();
    let rows = group
        .ask(&lookup(Order::Ascending), &Part::All, &report)
        .await;
    assert!(report.is_empty());
    assert_eq!(times(rows).await, ["2001", "2002", "2003", "2004"]);
    let names: Vec<_> = errors(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["broken", "stuck"]);
}

#[tokio::test(start_paused = true)]
async fn unsorted_rows_are_sorted() {
    let closest = crawlspace_index::timestamp::Timestamp::earliest(b"2003").unwrap();
    let (group, _) = group(&[
        ("mixed", false, &[Row("2001"), Row("2009"), Row("2004")]),
        ("right", true, &[Row("2002"), Row("2005")]),
    ]);
    let report = Report::default();
    let rows = group
        .ask(&lookup(Order::Closest(closest)), &Part::All, &report)
        .await;
    assert_eq!(times(rows).await, ["2002", "2004", "2001", "2005", "2009"]);
}

#[tokio::test(start_paused = true)]
async fn repeatedly_failing_source_is_skipped_for_a_while() {
    for failure in [
        Fail,
        Hang,
        Err(SourceError::Status(503)),
        Err(SourceError::Answer("rubbish".to_owned())),
    ] {
        let (group, sources) = group(&[("bad", true, &[failure])]);
        for n in 0..8 {
            let report = Report::default();
            let lookup = lookup_of(&format!("a.com/{n}"), Order::Ascending);
            let rows = group.ask(&lookup, &Part::All, &report).await;
            assert_eq!(times(rows).await, [""; 0]);
            assert_eq!(errors(&report)[0].1 == SourceError::Skipped, n >= 5, "{n}");
        }
        assert_eq!(sources[0].asked.load(Ordering::SeqCst), 5);
    }
}

/// Sends this number of different failing queries in turn, and returns whether the source was
/// skipped.
async fn turned_off(steps: &[Does], ordered: bool, questions: usize) -> bool {
    let (group, _) = group(&[("bad", ordered, steps)]);
    let mut skipped = false;
    for n in 0..20 {
        let report = Report::default();
        let url = format!("a.com/{}", n % questions);
        let lookup = lookup_of(&url, Order::Ascending);
        let rows = group.ask(&lookup, &Part::All, &report).await;
        _ = times(rows).await;
        let errors = errors(&report);
        assert_eq!(errors.len(), 1, "{n}");
        skipped |= errors[0].1 == SourceError::Skipped;
    }
    skipped
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_query_do_not_trip_the_breaker() {
    let text = String::new;
    for error in [
        SourceError::TooLarge(text()),
        SourceError::Io(text()),
        SourceError::Unsupported(text()),
        SourceError::Busy,
        SourceError::Status(400),
        SourceError::Status(403),
        SourceError::Status(404),
        SourceError::Status(429),
        SourceError::Status(508),
    ] {
        assert!(
            !turned_off(&[Err(error.clone())], true, 20).await,
            "{error}"
        );
    }
    // The breaker stays closed, because too few different queries failed.
    assert!(!turned_off(&[Hang], true, 1).await);
    assert!(!turned_off(&[Fail], true, 4).await);
    // A source that works without returning a row, or that returns more rows than can be sorted in time, is not
    // skipped.
    let busy: Vec<Does> = (0..60).flat_map(|_| [Pause(1), Work]).collect();
    assert!(!turned_off(&busy, true, 20).await);
    let long: Vec<Does> = (0..60).flat_map(|_| [Pause(1), Row("2001")]).collect();
    assert!(!turned_off(&long, false, 20).await);
    // A source that fails after it has sent rows is not skipped, either.
    assert!(!turned_off(&[Row("2001"), Fail], true, 20).await);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_is_not_counted_as_source_failure() {
    let rows: Vec<Does> = (0..200).flat_map(|_| [Row("2001"), Pause(1)]).collect();
    let (group, _) = group(&[("good", true, &rows)]);
    let report = Report::default();
    let mut rows = group
        .ask(&lookup(Order::Ascending), &Part::All, &report)
        .await;
    while rows.next().await.is_some() {
        sleep(Duration::from_secs(30)).await;
    }
    assert!(matches!(
        &errors(&report)[..],
        [(_, SourceError::TooLarge(_))]
    ));
    assert_eq!(
        group.members[0].breaker.state(Instant::now()).word(),
        "closed"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_answer_differs_from_an_empty_one() {
    let unanswered = async |sources: &[(&str, bool, &[Does])]| {
        let (group, _) = group(sources);
        let report = Report::default();
        let rows = group
            .ask(&lookup(Order::Ascending), &Part::All, &report)
            .await;
        _ = times(rows).await;
        report.unanswered().map(|sources| sources.to_string())
    };
    let unsupported = [Err(SourceError::Unsupported(String::new()))];
    for (sources, expected) in rows![
        vec![("a", true, &[][..])], None;
        vec![("a", true, &[Fail][..]), ("b", true, &[])], None;
        vec![("a", true, &unsupported[..])], None;
        vec![("a", true, &[Fail][..]), ("b", true, &[Hang])],
            Some("no source answered: a: unreachable; b: timeout");
        vec![("a", true, &[Hang][..]), ("b", true, &unsupported)],
            Some("no source answered: a: timeout");
    ] {
        assert_eq!(unanswered(&sources).await.as_deref(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_cancels_pending_requests() {
    let (group, sources) = group(&[
        ("a", true, &[Row("2001"), Hang]),
        ("b", true, &[Row("2002"), Hang]),
    ]);
    let report = Report::default();
    let rows = group
        .ask(&lookup(Order::Ascending), &Part::All, &report)
        .await;
    assert_eq!(sources[0].running.load(Ordering::SeqCst), 1);
    drop(rows);
    for source in sources {
        assert_eq!(source.running.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn headers_are_ascii() {
    let report = Report::default();
    let error = SourceError::Answer("не \"то\" \u{1F600}\r\n".to_owned());
    report.add(&"é \"\u{1F600}\r\n".into(), error);
    let header = report.header(0).unwrap();
    assert!(
        header.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
        "{header}"
    );
    let back: serde_json::Value = serde_json::from_str(&header).unwrap();
    assert_eq!(back["é \"\u{1F600}\r\n"], "bad answer");
}
