mod json;

use proptest::prelude::*;

use super::*;

/// Columns of each width, as listed in the specification.
const LAYOUTS: [&str; 7] = [
    "urlkey timestamp url mime status digest length",
    "urlkey timestamp url mime status digest redirect offset filename",
    "urlkey timestamp url mime status digest redirect robotflags offset filename",
    "urlkey timestamp url mime status digest redirect robotflags length offset filename",
    "urlkey timestamp url mime status digest redirect offset filename \
     orig.length orig.offset orig.filename",
    "urlkey timestamp url mime status digest redirect robotflags offset filename \
     orig.length orig.offset orig.filename",
    "urlkey timestamp url mime status digest redirect robotflags length offset filename \
     orig.length orig.offset orig.filename",
];
const RECORD: &str = "urlkey timestamp filename offset";
const STANDARD: &str = LAYOUTS[6];

fn capture(raw: &[u8], format: Format) -> Line<'_> {
    match Line::read(raw, format) {
        Ok(Read::Capture(line)) => line,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(raw)),
    }
}

fn reason(raw: &[u8], format: Format) -> String {
    Line::read(raw, format).unwrap_err().to_string()
}

/// Numeric columns. Their values are checked if the number of columns does not identify the
/// columns.
const NUMBERS: [&str; 5] = ["status", "length", "offset", "orig.length", "orig.offset"];

fn columns(raw: &[u8]) -> Vec<&[u8]> {
    raw.split(|&b| b == b' ').collect()
}

/// Parses a line by splitting: name and value of each column, or `None` for an invalid line.
fn naive(raw: &[u8], record: bool) -> Option<Vec<(&'static str, &[u8])>> {
    let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    if raw.iter().any(|b| b"\r\n\t".contains(b)) {
        return None;
    }
    let values = columns(raw);
    let layouts: &[&str] = if record { &[RECORD] } else { &LAYOUTS };
    let names = layouts
        .iter()
        .map(|layout| layout.split_whitespace().collect::<Vec<_>>())
        .find(|names| names.len() == values.len())?;
    let digits = |v: &[u8]| v.iter().all(u8::is_ascii_digit) || record && v == b"-";
    let fine = values.iter().all(|v| !v.is_empty()) && digits(values[1]);
    let number = |v: &[u8]| v == b"-" || v.iter().all(u8::is_ascii_digit);
    let columns: Vec<_> = names.into_iter().zip(values).collect();
    let checked: &[&str] = match columns.len() {
        ..9 => &[],
        9..=11 => &["offset"],
        _ => &NUMBERS,
    };
    let numbers = columns
        .iter()
        .all(|(name, value)| record || !checked.contains(name) || number(value));
    (fine && numbers).then_some(columns)
}

fn agrees(raw: &[u8], format: Format) -> Result<(), TestCaseError> {
    let wanted = naive(raw, format == Format::Record);
    let read = Line::read(raw, format);
    let Some(wanted) = wanted else {
        prop_assert!(read.is_err(), "{:?}", read);
        return Ok(());
    };
    let Ok(Read::Capture(line)) = read else {
        return Err(TestCaseError::fail(format!("{read:?}")));
    };
    let value = |name: &str| wanted.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    for name in STANDARD.split_whitespace() {
        let field = Field::named(name.as_bytes());
        let found = line.field(&field).unwrap();
        prop_assert_eq!(&*found, value(name).unwrap_or(b"-"), "{}", name);
        prop_assert!(matches!(found, Cow::Borrowed(_)));
        prop_assert_eq!(line.has(&field), value(name).is_some());
    }
    prop_assert_eq!(line.filename(), value("filename").unwrap_or(b"-"));
    let other = Field::named(b"languages");
    prop_assert!(line.field(&other).is_none() && !line.has(&other));
    let id = RECORD.split(' ').map(|name| value(name).unwrap_or(b"-"));
    let mut found = b"what was there".to_vec();
    line.record_id(&mut found);
    prop_assert_eq!(found, id.collect::<Vec<_>>().join(&b' '));
    let ended = raw.strip_suffix(b"\n").unwrap_or(raw);
    prop_assert_eq!(line.raw(), ended.strip_suffix(b"\r").unwrap_or(ended));
    Ok(())
}

fn column() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => "[a-z0-9,)/:.-]{1,40}".prop_map(String::into_bytes),
        5 => prop::collection::vec(any::<u8>().prop_filter("parts columns", |b| *b != b' '), 1..20),
        1 => Just(Vec::new()),
    ]
}

fn timestamp() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => "[0-9]{14}",
        5 => "[0-9]{1,20}",
        1 => "[0-9]{0,14}[-/:a][0-9]{0,14}",
        1 => Just("-".to_owned()),
    ]
    .prop_map(String::into_bytes)
}

proptest! {
    #[test]
    fn any_columns_read_as_by_splitting(
        urlkey in column(),
        timestamp in timestamp(),
        rest in prop::collection::vec(column(), 0..15),
        record: bool,
        numbers: bool,
    ) {
        let mut all = vec![urlkey, timestamp];
        all.extend(rest);
        let layout = LAYOUTS.iter().map(|layout| layout.split_whitespace());
        if let Some(names) = layout.into_iter().find(|l| numbers && l.clone().count() == all.len()) {
            for (column, name) in all.iter_mut().zip(names) {
                if NUMBERS.contains(&name) {
                    *column = if column.len() % 3 == 0 { b"-".to_vec() } else { b"047".to_vec() };
                }
            }
        }
        let raw = all.join(&b' ');
        prop_assume!(!is_blank_or_header(&raw));
        agrees(&raw, if record { Format::Record } else { Format::Cdx })?;
        if all.get(2).is_some_and(|third| third.first() != Some(&b'{')) {
            prop_assert_eq!(
                Line::read(&raw, Format::Auto).is_ok(),
                Line::read(&raw, Format::Cdx).is_ok()
            );
        }
    }

    #[test]
    fn no_bytes_cause_a_panic(
        raw in prop::collection::vec(
            prop_oneof![2 => prop::sample::select(&b" {}\"\\:,-1"[..]), 1 => any::<u8>()], 0..80),
        lead in prop::sample::select(&["", "a 2 ", "a 2 {", "a 2 {\"b\":", " CDX", "- - "][..]),
    ) {
        let raw = [lead.as_bytes(), &raw].concat();
        for format in [Format::Auto, Format::Cdx, Format::Cdxj, Format::File, Format::Record] {
            match Line::read(&raw, format) {
                Err(bad) if bad.is_order() => {
                    prop_assert!(raw.windows(3).any(|three| three == b"CDX"));
                }
                Ok(Read::Skipped) => prop_assert!(is_blank_or_header(&raw)),
                Ok(Read::Capture(line)) => {
                    for name in STANDARD.split_whitespace().chain(["b"]) {
                        let field = Field::named(name.as_bytes());
                        let value = line.field(&field);
                        prop_assert!(value.is_some() || name == "b" && line.format() != Format::Cdxj);
                        line.has(&field);
                    }
                    prop_assert_eq!(line.filename(), line.field(&Field::Filename).unwrap());
                    line.record_id(&mut Vec::new());
                }
                Err(bad) => prop_assert!(!bad.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn lines_equal_those_of_a_split(blob in prop::collection::vec(prop::sample::select(&b"ab\r\n"[..]), 0..40)) {
        let mut naive: Vec<&[u8]> = blob.split(|&b| b == b'\n').collect();
        let unended = naive.pop().unwrap();
        for line in &mut naive {
            *line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        if !unended.is_empty() {
            naive.push(unended.strip_suffix(b"\r").unwrap_or(unended));
        }
        prop_assert_eq!(lines(&blob).collect::<Vec<_>>(), naive);
    }
}

fn is_blank_or_header(raw: &[u8]) -> bool {
    raw.iter().all(u8::is_ascii_whitespace) || raw.starts_with(b" CDX")
}

#[test]
fn blank_lines_and_headers_are_skipped_in_every_format() {
    for format in [
        Format::Auto,
        Format::Cdx,
        Format::Cdxj,
        Format::File,
        Format::Record,
    ] {
        for raw in ["", " ", "\t \t", "\r", " CDX N b a m s k r M S V g", " CDX"] {
            let read = Line::read(raw.as_bytes(), format);
            assert!(matches!(read, Ok(Read::Skipped)), "{raw:?} {format:?}");
        }
    }
}

/// Header that `wget --warc-cdx` writes, and a line below it.
const WGET: [&str; 2] = [
    " CDX a b a m s k r M V g u",
    "http://e.org/ 20190101000000 http://e.org/ text/html 200 B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - - 345 \
     ARCHIVEIT-1069-A.warc.gz <urn:uuid:f1f1f1f1>",
];

#[test]
fn headers_are_skipped_only_if_lines_are_read_in_order() {
    for letters in [
        "N b a m s k S",
        "N b a m s k r V g",
        "N b a m s k r M V g",
        "N b a m s k r M S V g",
        "A b a m s k r M S V g",
        "N b a m s k",
        "N",
        "x",
        "",
        " N  b a m s k r V g ",
    ] {
        let header = format!(" CDX {letters}");
        let read = Line::read(header.as_bytes(), Format::Auto);
        assert!(matches!(read, Ok(Read::Skipped)), "{header}: {read:?}");
    }
    for letters in [
        "a b a m s k r M V g u",
        "a b a m s k r M S V g",
        "N b a m s k r M V g u",
        "N b a m s k r M S g V",
        "N b a m s k V g r",
        "N b h m s k r V g",
        "N b a m s k r",
        "a b a m s k V g",
        "A b e a m s c k r V v D d g M n",
        "n b a m s k S",
        "urlkey timestamp url mime status digest length",
    ] {
        for begin in [" CDX ", "CDX ", "  CDX  ", "\u{feff} CDX "] {
            let header = format!("{begin}{letters}");
            for format in [Format::Auto, Format::Cdx] {
                let bad = Line::read(header.as_bytes(), format).unwrap_err();
                assert!(bad.is_order(), "{header}: {bad}");
                assert!(bad.to_string().contains(letters), "{bad}");
            }
            for format in [Format::Cdxj, Format::Record, Format::File] {
                let read = Line::read(header.as_bytes(), format);
                assert!(!read.is_err_and(|bad| bad.is_order()), "{header}");
            }
        }
    }
    let cdxj = Line::read(b" CDXJ urlkey timestamp JSON", Format::Auto);
    assert!(matches!(cdxj, Ok(Read::Skipped)), "{cdxj:?}");
    let long = format!(" CDX {}", "x ".repeat(1 << 20));
    assert!(reason(long.as_bytes(), Format::Auto).len() < 300);
}

#[test]
fn lines_of_wget_are_no_captures_even_without_a_header() {
    for format in [Format::Auto, Format::Cdx] {
        assert_eq!(
            reason(WGET[1].as_bytes(), format),
            "column 10 must be a number or '-'; check the other columns for spaces"
        );
    }
}

#[test]
fn bad_line_reports_the_reason() {
    use Format::{Auto, Cdx, Cdxj, Record};
    for (raw, format, wanted) in [
        (
            "x",
            Auto,
            "1 column, where CDX has 7, 9, 10, 11, 12, 13 or 14",
        ),
        (
            "a 2 c",
            Cdx,
            "3 columns, where CDX has 7, 9, 10, 11, 12, 13 or 14",
        ),
        (
            "a 2 c d e f g h",
            Auto,
            "8 columns, where CDX has 7, 9, 10, 11, 12, 13 or 14",
        ),
        ("a 2 c", Record, "3 columns, where RECORD ids have 4"),
        ("x", Cdxj, "1 column, where CDXJ has 3"),
        ("a 2 c d  f g", Cdx, "column 5 is empty"),
        ("a 2 c d e f ", Cdx, "column 7 is empty"),
        (" 2 c d e f g", Cdx, "column 1 is empty"),
        (
            "a - c d e f g",
            Cdx,
            "its second column must be a timestamp of digits",
        ),
        (
            "a  c d e f g",
            Cdx,
            "its second column must be a timestamp of digits",
        ),
        (
            "a 2024-01-02 {}",
            Auto,
            "its second column must be a timestamp of digits",
        ),
        ("a 2", Cdxj, "its third column must be a JSON object"),
        ("a 2 []", Cdxj, "its third column must be a JSON object"),
        ("a 2  {}", Cdxj, "its third column must be a JSON object"),
        (
            "a 2 {} {}",
            Auto,
            "its JSON is malformed: trailing characters at byte 7 of the line",
        ),
        (
            "a 2 {",
            Auto,
            "its JSON is malformed: EOF while parsing an object at byte 4 of the line",
        ),
        (
            "a 2 {\"a\":\"\\ud800\"}",
            Auto,
            "its JSON is malformed: a string cannot be decoded at byte 17 of the line",
        ),
    ] {
        assert_eq!(reason(raw.as_bytes(), format), wanted, "{raw}");
    }
    assert_eq!(
        reason(b"a 2 {\"a\":\"\xFF\"}", Auto),
        "its JSON is not UTF-8 at byte 10 of the line"
    );
}

#[test]
fn whole_file_lines_are_names_with_or_without_spaces() {
    let line = capture(b"my file.warc.gz", Format::File);
    assert_eq!(line.filename(), &b"my file.warc.gz"[..]);
    assert_eq!(line.field(&Field::Urlkey).unwrap(), &b"-"[..]);
    assert_eq!(line.field(&Field::named(b"x")), None);
    assert!(line.has(&Field::Filename) && !line.has(&Field::Urlkey));
    let mut id = Vec::new();
    line.record_id(&mut id);
    assert_eq!(id, b"- - my file.warc.gz -");
}

#[test]
fn brace_in_the_third_column_is_json_only_in_cdxj() {
    let raw = b"a 2 {c d e f g";
    assert!(reason(raw, Format::Auto).starts_with("its JSON"));
    assert_eq!(
        capture(raw, Format::Cdx).field(&Field::Url).unwrap(),
        &b"{c"[..]
    );
}

const LONG: usize = 10 << 20;

#[test]
fn lines_of_ten_megabytes_are_read() {
    let url = "u".repeat(LONG);
    let raw = format!("a 2 {url} text/html 200 D - - 7 8 a.warc.gz");
    let line = capture(raw.as_bytes(), Format::Auto);
    assert_eq!(line.filename(), &b"a.warc.gz"[..]);
    assert_eq!(line.field(&Field::Url).unwrap().len(), LONG);

    let spaces = format!("a 2 {}", "b ".repeat(LONG / 2));
    assert!(reason(spaces.as_bytes(), Format::Auto).starts_with("5242883 columns"));

    let raw = format!("a 2 {{\"url\": \"{url}\", \"filename\": \"\\u0061.warc.gz\"}}");
    let line = capture(raw.as_bytes(), Format::Auto);
    assert_eq!(line.filename(), &b"a.warc.gz"[..]);
    assert_eq!(line.field(&Field::Url).unwrap().len(), LONG);
}

#[test]
fn many_json_members_cost_linear_time() {
    let members: Vec<String> = (0..LONG / 20)
        .map(|n| format!("\"k{n:07}\": \"{n}\""))
        .collect();
    let raw = format!("a 2 {{{}}}", members.join(","));
    let line = capture(raw.as_bytes(), Format::Auto);
    assert_eq!(line.field(&Field::named(b"k0000000")).unwrap(), &b"0"[..]);
    assert_eq!(line.field(&Field::Url).unwrap(), &b""[..]);
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let depth = LONG / 6;
        let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let raw = format!("a 2 {{\"x\": {nested}}}");
        let line = capture(raw.as_bytes(), Format::Auto);
        assert_eq!(line.field(&Field::named(b"x")).unwrap(), nested.as_bytes());
        let unclosed = format!("a 2 {{\"x\": {}", open.repeat(depth));
        assert!(reason(unclosed.as_bytes(), Format::Auto).starts_with("its JSON is malformed"));
    }
}

#[test]
fn format_names_ignore_case() {
    for format in [
        Format::Auto,
        Format::Cdx,
        Format::Cdxj,
        Format::File,
        Format::Record,
    ] {
        assert_eq!(Format::parse(format.name().as_bytes()), Some(format));
        assert_eq!(
            Format::parse(format.name().to_lowercase().as_bytes()),
            Some(format)
        );
    }
    assert_eq!(Format::parse(b""), None);
    assert_eq!(Format::parse(b"CDX "), None);
}

/// The seed is set by the workspace (`.cargo/config.toml`), or by `SEED=` of make.
#[test]
fn property_tests_use_a_known_seed() {
    use proptest::test_runner::RngSeed;
    assert_ne!(ProptestConfig::default().rng_seed, RngSeed::Random);
}
