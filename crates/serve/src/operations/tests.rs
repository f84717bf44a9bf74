use super::*;
use bytes::Bytes;
use proptest::prelude::*;

fn row(time: &str, json: &str) -> Row {
    Row::new(Bytes::from(format!("com,a)/ {time} {{{json}}}"))).unwrap()
}

fn query(text: &str) -> Arc<Query> {
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    Arc::new(Query::parse(pairs, None).unwrap())
}

/// Returns the remaining rows, and asserts that batch sizes make no difference.
fn left(text: &str, rows: &[Row]) -> Vec<Row> {
    let query = query(text);
    let mut operations = Operations::of(&query).unwrap();
    let mut at_once = operations.apply(rows.to_vec());
    at_once.extend(operations.finish());
    let mut operations = Operations::of(&query).unwrap();
    let mut singly: Vec<Row> = rows
        .iter()
        .flat_map(|row| operations.apply(vec![row.clone()]))
        .collect();
    singly.extend(operations.finish());
    assert_eq!(at_once, singly);
    singly
}

/// Returns the years of rows.
fn times(rows: &[Row]) -> Vec<String> {
    let year = |row: &Row| String::from_utf8_lossy(&row.timestamp()[..4]).into_owned();
    rows.iter().map(year).collect()
}

#[test]
fn no_operations_change_nothing() {
    for text in [
        "url=a.com",
        "url=a.com&limit=3&from=2000&closest=2001&sort=reverse",
    ] {
        assert!(Operations::of(&query(text)).is_none(), "{text}");
    }
}

#[test]
fn every_filter_must_match() {
    let rows = [
        row("2001", r#""status": "200", "mime": "text/html""#),
        row("2002", r#""status": "404", "mime": "text/html""#),
        row("2003", r#""status": "200", "mime": "image/png""#),
        row("2004", r#""status": broken"#),
    ];
    let some = left("url=a.com&filter==status:200&filter=mime:html", &rows);
    assert_eq!(times(&some), ["2001"]);
    let some = left("url=a.com&filter=!=status:200", &rows);
    assert_eq!(times(&some), ["2002"], "an unreadable row is dropped");
}

#[test]
fn duplicate_timestamp_and_status_keeps_only_the_first_row() {
    let rows = [
        row("20010101000000", r#""status": "200""#),
        row("20010101000059", r#""status": "200""#),
        row("20010101000059", r#""status": "404""#),
        row("20010102000000", r#""status": "404""#),
        row("20020102000000", r#""status": "404""#),
    ];
    assert_eq!(left("url=a.com&collapseTime=8", &rows).len(), 4);
    assert_eq!(left("url=a.com&collapseTime=4", &rows).len(), 3);
    assert_eq!(left("url=a.com&collapseTime=14", &rows).len(), 5);
    assert_eq!(left("url=a.com&collapse=timestamp:4", &rows).len(), 2);
    assert_eq!(left("url=a.com&collapse=status", &rows).len(), 2);
    let last = left("url=a.com&collapseToLast=status", &rows);
    let times: Vec<_> = last.iter().map(|row| row.timestamp().to_vec()).collect();
    assert_eq!(times, [b"20010101000059", b"20020102000000"]);
    assert!(left("url=a.com&collapseToLast=status", &[]).is_empty());
}

#[test]
fn self_redirects_are_removed_on_request() {
    let to = |time, to: &str| {
        row(
            time,
            &format!(r#""url": "http://a.com/", "status": "301", "redirect": "{to}""#),
        )
    };
    let rows = [
        to("2001", "https://www.a.com/"),
        to("2002", "/"),
        to("2003", "/b"),
        to("2004", "-"),
        to("2005", "http://[/"),
        row("2006", r#""url": "http://a.com/""#),
    ];
    let some = left("url=a.com&omitSelfRedirects=true", &rows);
    assert_eq!(times(&some), ["2003", "2004", "2005", "2006"]);
}

#[test]
fn revisit_finds_the_first_earlier_original() {
    let original = |time, file: &str| {
        let json = format!(
            r#""mime": "text/html", "status": "200", "digest": "A", "length": "9", "offset": "7", "filename": "{file}""#
        );
        row(time, &json)
    };
    let revisit = |time, digest: &str| {
        let json = format!(
            r#""mime": "warc/revisit", "status": "-", "digest": "{digest}", "filename": "r.warc""#
        );
        row(time, &json)
    };
    let rows = [
        revisit("2000", "A"),
        original("2001", "o.warc"),
        original("2002", "p.warc"),
        revisit("2003", "A"),
        revisit("2004", "B"),
    ];
    let found = left("url=a.com&resolveRevisits=true", &rows);
    let of = |name: &str| found.iter().map(|row| row.field(name)).collect::<Vec<_>>();
    assert_eq!(of("orig.filename"), ["-", "-", "-", "o.warc", "-"]);
    assert_eq!(of("orig.offset"), ["-", "-", "-", "7", "-"]);
    assert_eq!(of("orig.length"), ["-", "-", "-", "9", "-"]);
    assert_eq!(of("filename")[3], "r.warc");
    let expected = ("text/html", "200");
    assert_eq!((&of("mime")[3][..], &of("status")[3][..]), expected);

    let clamped = left("url=a.com&resolveRevisits=true&from=2003&to=2003", &rows);
    assert_eq!(times(&clamped), ["2003"]);
    assert_eq!(
        clamped[0].field("orig.filename"),
        "o.warc",
        "the original is earlier"
    );
}

proptest! {
    #[test]
    fn other_orders_equal_sorting(
        seconds in proptest::collection::vec(0..50_u32, 0..40),
        sizes in proptest::collection::vec(1..9_usize, 1..20),
        moment in 0..50_u32,
        limit in proptest::option::of(0..50_u64),
        reverse: bool,
    ) {
        let stamp = |second: u32| (20_000_101_000_000 + u64::from(second)).to_string();
        let order = if reverse { Order::Descending } else { Order::Closest(Timestamp::earliest(stamp(moment).as_bytes()).unwrap()) };
        let mut rows: Vec<Row> = seconds.iter().enumerate()
            .map(|(n, &second)| row(&stamp(second), &format!("\"n\": {n}")))
            .collect();
        rows.sort_by(|a, b| a.timestamp().cmp(b.timestamp()));
        let mut reorder = Reorder::new(order, limit);
        let mut rest = rows.clone();
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let batch = rest.drain(..size.min(rest.len())).collect();
            reorder.take(batch).unwrap();
        }
        rows.sort_by_key(|row| {
            let second: i64 = std::str::from_utf8(&row.timestamp()[12..]).unwrap().parse().unwrap();
            let second = second.max(0);
            if reverse { -second } else { (second - i64::from(moment)).abs() * 100 + second }
        });
        rows.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        prop_assert_eq!(reorder.finish().0, rows);
    }
}

#[test]
fn too_many_rows_are_sorted_only_with_a_limit() {
    let all = (0..1000).map(|n| row("20010101000000", &format!("\"n\": {n}")));
    let all: Batch = all.collect();
    let mut without = Reorder::new(Order::Descending, None);
    let mut with = Reorder::new(Order::Descending, Some(5));
    let mut failed = false;
    for _ in 0..=SORTED / all.len() {
        failed |= without.take(all.clone()).is_err();
        with.take(all.clone()).unwrap();
    }
    assert!(failed);
    assert_eq!(with.finish().0.len(), 5);
}
