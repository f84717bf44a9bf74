use std::io::{BufReader, Read};

use redis_tests::Rng;

use super::*;

/// Reads the lines through a buffer of this size, in bytes.
fn read(text: &[u8], buffer: usize) -> Vec<(u64, Result<Vec<u8>, Bad>)> {
    let mut lines = Reader::new(BufReader::with_capacity(buffer, text));
    let mut found = Vec::new();
    while let Some((number, line)) = lines.next().unwrap() {
        found.push((number, line.map(<[u8]>::to_vec)));
    }
    found
}

#[test]
fn lines_do_not_depend_on_the_buffer() {
    let mut rng = Rng::new("lines in buffers");
    for _ in 0..300 {
        let length = rng.below(200);
        let text: Vec<u8> = (0..length).map(|_| *rng.pick(b"ab \t\r\n\n")).collect();
        let expected: Vec<_> = text
            .split(|byte| *byte == b'\n')
            .zip(1..)
            .filter(|(line, _)| !line.trim_ascii().is_empty())
            .map(|(line, number)| {
                (
                    number,
                    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec()),
                )
            })
            .collect();
        for buffer in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(read(&text, buffer), expected, "{}", text.escape_ascii());
        }
    }
}

#[test]
fn overlong_line_is_skipped() {
    let text = [
        &b"first\n"[..],
        &vec![b'x'; MAX_LINE],
        b"\n",
        &vec![b'y'; MAX_LINE + 1],
        b"\nlast\n",
        &vec![b'z'; 3 * MAX_LINE],
    ]
    .concat();
    for buffer in [1000, 8 * MAX_LINE] {
        let found = read(&text, buffer);
        let lengths: Vec<_> = found
            .iter()
            .map(|(number, line)| (*number, line.as_ref().map(Vec::len).map_err(|bad| *bad)))
            .collect();
        let expected = [
            (1, Ok(5)),
            (2, Ok(MAX_LINE)),
            (3, Err(Bad::TooLong)),
            (4, Ok(4)),
            (5, Err(Bad::TooLong)),
        ];
        assert_eq!(lengths, expected);
    }
}

#[test]
fn endless_line_takes_little_memory() {
    let endless = std::io::repeat(b'x').take(64 << 20);
    let mut lines = Reader::new(BufReader::new(endless));
    assert_eq!(lines.next().unwrap(), Some((1, Err(Bad::TooLong))));
    assert!(lines.joined.capacity() <= 4 * MAX_LINE);
    assert_eq!(lines.next().unwrap(), None);
}

#[test]
fn read_error_is_not_the_end() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
    let mut lines = Reader::new(BufReader::new(b"a\nb".chain(Broken)));
    assert_eq!(lines.next().unwrap(), Some((1, Ok(&b"a"[..]))));
    assert!(lines.next().is_err());
}

#[test]
fn tally_lists_the_first_few_and_counts_all() {
    let mut tally = Tally::default();
    assert_eq!(tally.to_string(), "0 bad lines");
    for number in 1..=9 {
        tally.add("7-metadata-1.arc", number, b"a \x1b[31m\xff", Bad::Date);
    }
    let mut other = Tally::default();
    other.add("o\nther", 3, b"", Bad::TooLong);
    other.merge(&tally);
    assert_eq!(other.total(), 10);
    let counts: Vec<_> = other.counts().collect();
    assert_eq!(counts, [("date", 9), ("too long", 1)]);
    assert_eq!(other.to_string(), "10 bad lines (9 date, 1 too long)");
    assert_eq!(other.examples().len(), MAX_EXAMPLES);
    let expected = "o\\nther, line 3: it is longer than 1048576 bytes";
    assert_eq!(other.examples()[0], expected);
    assert_eq!(
        other.examples()[1],
        "7-metadata-1.arc, line 1: its date is invalid: 14 or 17 digits are needed: a \\x1b[31m\\xff"
    );
    let long = vec![b'x'; 1000];
    let mut tally = Tally::default();
    tally.add("f", 1, &long, Bad::Url);
    assert!(tally.examples()[0].len() < 200);
}
