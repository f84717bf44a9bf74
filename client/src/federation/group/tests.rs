//! Time stands still in these tests but for pauses, which take none.

use super::*;
use crate::federation::query::Order;
use crate::federation::row::Row;
use crate::federation::source::Rows;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::FutureExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::sleep;

/// What a source of these tests does, step by step.
#[derive(Clone)]
enum Does {
    Row(&'static str),
    Pause(u64),
    Fail,
    Hang,
}
use Does::*;

struct Scripted {
    steps: Vec<Does>,
    ordered: bool,
    asked: AtomicUsize,
    /// Streams that are neither at their end nor dropped.
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
                    Fail => Err(SourceError::Connection("it broke".to_owned())),
                    Pause(seconds) => {
                        sleep(Duration::from_secs(seconds)).await;
                        continue;
                    }
                    Hang => std::future::pending().await,
                };
                return Some((outcome, (steps, running)));
            }
        });
        let rows = Rows {
            ordered: self.ordered,
            batches: batches.boxed(),
        };
        async { Ok(rows) }.boxed()
    }
}

fn row(time: &str) -> crate::federation::row::Row {
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
    Arc::new(Lookup {
        query: Arc::new(Query::of_url("a.com").unwrap()),
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
async fn a_late_source_is_left_out_cancelled_and_named() {
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
    assert_eq!(
        report.header(0).unwrap(),
        r#"{"hanging":"timeout","late":"timeout"}"#
    );
    assert_eq!(report.header(2), None);
    let figures = &group.members[1].figures;
    assert_eq!((figures.requests(), figures.rows()), (1, 0));
    let timeouts = figures.errors().find(|(word, _)| *word == "timeout");
    assert_eq!(timeouts, Some(("timeout", 1)));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_later_is_missing_from_there_on() {
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
async fn what_comes_in_another_order_is_sorted() {
    let closest = crate::federation::timestamp::Timestamp::earliest(b"2003").unwrap();
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
async fn a_source_that_keeps_failing_is_skipped_for_a_while() {
    let (group, sources) = group(&[("bad", true, &[Fail])]);
    for n in 0..8 {
        let report = Report::default();
        let rows = group
            .ask(&lookup(Order::Ascending), &Part::All, &report)
            .await;
        assert_eq!(times(rows).await, [""; 0]);
        assert_eq!(errors(&report)[0].1 == SourceError::Skipped, n >= 5, "{n}");
    }
    assert_eq!(sources[0].asked.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_cancels_what_is_under_way() {
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
    report.add(&"é".into(), error.clone());
    let header = report.header(0).unwrap();
    assert!(
        header.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
        "{header}"
    );
    let back: serde_json::Value = serde_json::from_str(&header).unwrap();
    assert_eq!(back["é"], error.to_string());
}
