use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn head(text: &[u8]) -> Head<Status> {
    Head::new(Bytes::copy_from_slice(text), Status::read).unwrap()
}

#[test]
fn fields_have_their_positions() {
    let head = head(b"HTTP/1.0 404 No\r\nA:b\r\nc : \t d \nE: f\r\n\tg\r\n \r\nno field\r\n h\r\n: i\r\nJ:\r\n k \r\nL:\r\n\r\n");
    assert_eq!(
        head.first,
        Status {
            code: 404,
            minor: 0
        }
    );
    assert_eq!(head.first_line(), b"HTTP/1.0 404 No\r\n");
    let fields: Vec<(&[u8], &[u8], &[u8])> = head
        .fields()
        .map(|field| (field.name, field.value, field.line))
        .collect();
    assert_eq!(
        fields,
        [
            (&b"A"[..], &b"b"[..], &b"A:b\r\n"[..]),
            (b"c", b"d", b"c : \t d \n"),
            (b"E", b"f\r\n\tg", b"E: f\r\n\tg\r\n \r\n"),
            (b"J", b"k", b"J:\r\n k \r\n"),
            (b"L", b"", b"L:\r\n"),
        ]
    );
    assert_eq!(head.text("e").as_deref(), Some("f g"));
    assert_eq!(head.text("x"), None);
}

#[test]
fn status_line_follows_the_standard_with_some_tolerance() {
    let status = |line: &str| {
        Status::read(line.as_bytes())
            .ok()
            .map(|status| (status.minor, status.code))
    };
    for (line, expected) in [
        ("HTTP/1.1 200 OK", (1, 200)),
        ("HTTP/1.0 404 ", (0, 404)),
        ("HTTP/1.1 301", (1, 301)),
        ("HTTP/1.1  599  a b", (1, 599)),
        ("HTTP/1.1 999 x", (1, 999)),
    ] {
        assert_eq!(status(line), Some(expected), "{line}");
    }
    for wrong in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 ",
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1 200OK",
        "HTTP/1.1 099",
        "HTTP/1.1 2x0",
        "HTTP/1.2 200 OK",
        "HTTP/2 200",
        "HTTP/1.1200 OK",
        " HTTP/1.1 200 OK",
        "http/1.1 200 OK",
        "HTTP/1.11 200",
    ] {
        assert_eq!(status(wrong), None, "{wrong}");
    }
}

#[test]
fn head_ends_after_its_first_blank_line() {
    for (block, end) in [
        (
            &b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n"[..],
            Some(25),
        ),
        (b"HTTP/1.1 200 OK\nA: b\n\nbody", Some(22)),
        (b"HTTP/1.1 200 OK\r\n \t\r\nbody", Some(21)),
        (b"\r\nbody", Some(2)),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", None),
        (b"", None),
    ] {
        assert_eq!(
            end_of_head(block),
            end,
            "{:?}",
            String::from_utf8_lossy(block)
        );
    }
}

#[test]
fn encoding_fields_are_returned_with_the_payload() {
    let own = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n folded\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n";
    let other = b"HTTP/1.0 404 No\nX: y\nContent-Length : 5\n\n";
    let (own, other) = (Head::of(own), Head::of(other));
    assert!(own.is_chunked() && !other.is_chunked());
    assert_eq!((own.status(), other.status()), (Some(200), Some(404)));
    let both = own.with_fields_of(&other, &["Content-Length", "Transfer-Encoding"]);
    assert_eq!(
        both,
        b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length : 5\r\n\r\n"
    );
    assert_eq!(other.get("content-length"), Some(&b"5"[..]));
}

#[test]
fn folded_lines_belong_to_the_previous_field() {
    let head = Head::of(b"HTTP/1.1 200 OK\r\nA : b \r\n\tc\r\nno field\r\nD:\r\n \r\nE: f");
    let fields: Vec<_> = head
        .fields()
        .map(|field| (field.name, field.unfolded().into_owned()))
        .collect();
    assert_eq!(fields, [(&b"A"[..], b"b c".to_vec()), (b"D", Vec::new())]);
}

/// Generates typical header lines, and some invalid ones.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[A-Za-z-]{1,8}:[ \t]{0,2}[ -~]{0,12}".prop_map(String::into_bytes),
        1 => "[ \t][ -~]{0,6}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..6),
        1 => Just(Vec::new()),
    ];
    let end = prop_oneof![Just(&b"\r\n"[..]), Just(&b"\n"[..])];
    vec((line, end), 0..8).prop_map(|lines| {
        let lines = lines
            .into_iter()
            .map(|(line, end)| [&line[..], end].concat());
        [
            b"HTTP/1.1 200 OK\r\n".to_vec(),
            lines.collect::<Vec<_>>().concat(),
        ]
        .concat()
    })
}

proptest! {
    #[test]
    fn incremental_search_finds_the_same_end(text in text()) {
        let whole = length(&text, 0);
        for seen in 0..text.len() {
            // The end must not be in the bytes that were searched before.
            if length(&text[..seen], 0).is_none() {
                prop_assert_eq!(length(&text, seen), whole);
            }
        }
        if let Some(length) = whole {
            prop_assert!(text[..length].ends_with(b"\n\n") || text[..length].ends_with(b"\n\r\n"));
        }
    }

    #[test]
    fn every_line_is_in_at_most_one_field(text in text()) {
        let head = head(&text);
        let mut at = head.first_line().len();
        for field in head.fields() {
            let from = field.line.as_ptr() as usize - head.raw().as_ptr() as usize;
            prop_assert!(from >= at);
            at = from + field.line.len();
            prop_assert!(field.line.starts_with(field.name) && field.line.ends_with(b"\n"));
        }
        prop_assert!(at <= head.raw().len());
    }

    #[test]
    fn result_equals_that_of_another_parser(text in text()) {
        let text = [&text[..], b"\r\n"].concat();
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut other = httparse::Response::new(&mut fields);
        if let Ok(httparse::Status::Complete(end)) = other.parse(&text) {
            prop_assert_eq!(length(&text, 0), Some(end));
            let head = head(&text[..end]);
            let ours: Vec<(&[u8], &[u8])> = head.fields().map(|field| (field.name, field.value)).collect();
            let theirs: Vec<(&[u8], &[u8])> =
                other.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn responses_begin_with_a_status_line() {
    for line in [
        "HTTP/1.1 200 OK",
        "HTTP/2 200",
        "HTTP 200 Document follows",
        "ICY 200 OK",
        "HTTP 404\r\n",
    ] {
        assert!(is_response(line.as_bytes()), "{line}");
        for end in 0..=line.len() {
            assert!(may_be_response(&line.as_bytes()[..end]), "{line}: {end}");
        }
        let head = format!("{}\r\n\r\n", line.trim_end());
        assert!(Head::of(head.as_bytes()).status().is_some(), "{line}");
    }
    for text in [
        "HTTP is a protocol",
        "HTTP 2000",
        "ICY 20 OK",
        "http/1.1 200 OK",
        "<html>",
    ] {
        assert!(!is_response(text.as_bytes()), "{text}");
        assert!(
            !may_be_response(text.as_bytes()) || text.len() < 9,
            "{text}"
        );
    }
    assert!(!may_be_response(b"<"));
}

#[test]
fn last_transfer_coding_decides_if_a_body_is_chunked() {
    for (fields, is_chunked) in [
        ("Transfer-Encoding: chunked", true),
        ("Transfer-Encoding: gzip, Chunked", true),
        (
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            true,
        ),
        ("Transfer-Encoding: identity", false),
        ("Transfer-Encoding:", false),
        ("A: chunked", false),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        assert_eq!(
            Head::of(head.as_bytes()).is_chunked(),
            is_chunked,
            "{fields}"
        );
    }
}
