//! Tests that runs are found, and can be read back.

use super::*;
use proptest::prelude::*;

fn found(text: &str) -> Vec<(&str, Alphabet)> {
    let mut found = Vec::new();
    let mut runs = Runs::new(text.as_bytes());
    let mut from = 0;
    while let Some(run) = runs.next(from) {
        found.push((&text[run.start..run.end], run.alphabet));
        from = run.end;
    }
    found
}

/// Reference implementation, which counts all bytes of a word for each run. Returns the runs of a
/// text without long words.
fn expected(text: &[u8]) -> Vec<Run> {
    let mut found = Vec::new();
    let mut from = 0;
    let is_word = |c: &u8| CLASS[usize::from(*c)] != 0;
    while let Some(digit) = first_digit(text, from) {
        let before = text[from..digit].iter().rev();
        let start = digit - before.take_while(|c| is_word(c)).count();
        let end = digit + text[digit..].iter().take_while(|c| is_word(c)).count();
        from = end;
        if end - start < DECIMAL {
            continue;
        }
        if let Some((alphabet, at, len)) = in_word(&text[start..end]) {
            let start = start + at;
            let end = start + len.min(MAX_BYTES);
            found.push(Run {
                alphabet,
                start,
                end,
            });
            from = end;
        }
    }
    found
}

/// Returns the first run of a word, its start and its length.
fn in_word(word: &[u8]) -> Option<(Alphabet, usize, usize)> {
    let (mut classes, mut changes, mut before) = (0, 0, 0);
    for c in word {
        let class = CLASS[usize::from(*c)];
        classes |= class;
        changes += usize::from(class & before == 0);
        before = KIND[usize::from(class)];
    }
    let len = word.len();
    let has = |some: u8| classes & some != 0;
    let alphabet = match classes {
        DIGIT => Some(Alphabet::Decimal),
        _ if len >= HEX && classes == DIGIT | LOWER_HEX => Some(Alphabet::Hex),
        _ if len >= HEX && classes == DIGIT | UPPER_HEX => Some(Alphabet::UpperHex),
        _ if len >= ALPHANUMERIC
            && has(LOWER | LOWER_HEX)
            && has(UPPER | UPPER_HEX)
            && changes * 5 >= len * 2 =>
        {
            Some(Alphabet::Alphanumeric)
        }
        _ => None,
    };
    if let Some(alphabet) = alphabet {
        return Some((alphabet, 0, len));
    }
    // The word may still contain enough decimal digits in a row.
    let mut at = 0;
    while at + DECIMAL <= len {
        let digits = word[at..].iter().take_while(|c| c.is_ascii_digit()).count();
        if digits >= DECIMAL {
            return Some((Alphabet::Decimal, at, digits));
        }
        at += digits + 1;
    }
    None
}

#[test]
fn hashes_and_numbers_are_found_and_words_are_not() {
    assert_eq!(
        found("/news/archive-radio-4-1a2b3c4d.html"),
        [("1a2b3c4d", Alphabet::Hex)]
    );
    assert_eq!(found("/2026/03/facade-dead-beef/decade"), []);
    assert_eq!(
        found("?v=123456&oe=65A1B2C3&id=dQw4w9WgXcQ&IMG20260319x1"),
        [
            ("123456", Alphabet::Decimal),
            ("65A1B2C3", Alphabet::UpperHex),
            ("dQw4w9WgXcQ", Alphabet::Alphanumeric),
            ("20260319", Alphabet::Decimal),
        ]
    );
    assert_eq!(found("/MultipleCamelCaseWords2"), []);
    let long = "1".repeat(100);
    assert_eq!(
        found(&long),
        [
            (&long[..MAX_BYTES], Alphabet::Decimal),
            (&long[MAX_BYTES..], Alphabet::Decimal)
        ]
    );
}

/// Finds all runs and returns the number of bytes examined. Skips `skip` bytes after each run.
fn work(text: &[u8], skip: usize) -> usize {
    let mut runs = Runs::new(text);
    let mut from = 0;
    while let Some(run) = runs.next(from) {
        assert!(run.start >= from && run.end > run.start && run.end - run.start <= MAX_BYTES);
        from = (run.end + skip).min(text.len());
    }
    runs.work
}

#[test]
fn known_texts_take_linear_work() {
    for (part, last) in [
        ("a", "1"),
        ("1", ""),
        ("1", "g"),
        ("a1", ""),
        ("a1", "g"),
        ("1z", ""),
        ("12345x", ""),
        ("1234x", ""),
        ("g12345", ""),
        ("aB1", ""),
        ("aB1zzzzzz", ""),
        ("Zabcdef", "12345"),
        ("abcde/", "1"),
        ("a123456", "-"),
    ] {
        for skip in [0, 1, 70] {
            let text = part.repeat(64_000 / part.len()) + last;
            let work = work(text.as_bytes(), skip);
            assert!(work <= 8 * text.len(), "{part}…{last}: {work}");
        }
    }
}

proptest! {
    #[test]
    fn runs_equal_those_of_the_reference(text in "([0-9a-f]{1,80}|[0-9A-F]{1,80}|[0-9]{1,90}|[0-9a-zA-Z]{1,80}|[xX]?[0-9]{4,6}|[a-z]{0,5}[-/.?]){0,3}([-/][0-9a-zA-Z]{0,40}[0-9]{0,9}[0-9a-f]{0,9}){0,4}") {
        let mut runs = Runs::new(text.as_bytes());
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(run) = runs.next(from) {
            from = run.end;
            found.push(run);
        }
        prop_assert_eq!(found, expected(text.as_bytes()));
    }

    #[test]
    fn any_text_takes_linear_work(text in "([0-9a-f]{1,3}|[0-9A-Z]{1,3}|[0-9]{1,90}|[a-z]{0,5}[-/.?]|a{0,400}){0,100}", skip in 0..80usize) {
        prop_assert!(work(text.as_bytes(), skip) <= 8 * text.len());
    }

    #[test]
    fn runs_round_trip(text in "([0-9a-f]{1,80}|[0-9A-F]{1,80}|[0-9]{1,80}|[0-9a-zA-Z]{1,80}|[a-z]{0,5}[-/.?]){0,5}") {
        let mut from = 0;
        let mut runs = Runs::new(text.as_bytes());
        while let Some(run) = runs.next(from) {
            prop_assert!(run.start >= from && run.end > run.start && run.end - run.start <= MAX_BYTES);
            from = run.end;
            let run_text = &text.as_bytes()[run.start..run.end];
            let mut packed = Vec::new();
            let mut writer = Writer::new(&mut packed);
            run.alphabet.write(run_text, &mut writer);
            writer.finish();
            prop_assert_eq!(packed.len(), run.alphabet.bits(run_text.len()).div_ceil(8) as usize);
            let mut back = vec![0; run_text.len()];
            run.alphabet.read(&mut Bits::new(&packed, packed.len()), &mut back).unwrap();
            prop_assert_eq!(&back, run_text);
        }
    }
}
