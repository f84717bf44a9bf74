//! Command lines in the syntax of redis-cli.

/// Splits a line into arguments, as redis-cli does: at spaces, except in "…" (with escapes) and
/// '…'.
///
/// # Panics
/// Panics if a quote is not closed.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = line.trim().as_bytes();
    while !rest.is_empty() {
        let (word, after) = match rest[0] {
            b'"' => quoted(&rest[1..], b'"'),
            b'\'' => quoted(&rest[1..], b'\''),
            _ => {
                let end = rest.iter().position(|&b| b == b' ');
                let end = end.unwrap_or(rest.len());
                (rest[..end].to_vec(), &rest[end..])
            }
        };
        out.push(word);
        rest = after.trim_ascii_start();
    }
    out
}

fn quoted(text: &[u8], quote: u8) -> (Vec<u8>, &[u8]) {
    let mut word = Vec::new();
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        let escaped = text[at] == b'\\' && at + 1 < text.len();
        if escaped && quote == b'\'' && text[at + 1] == quote {
            word.push(quote);
            at += 2;
        } else if escaped && quote == b'"' {
            let hex = text.get(at + 2..at + 4);
            let hex = hex.and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
            match (text[at + 1], hex) {
                (b'x', Some(byte)) => {
                    word.push(byte);
                    at += 2;
                }
                (b'n', _) => word.push(b'\n'),
                (b'r', _) => word.push(b'\r'),
                (b't', _) => word.push(b'\t'),
                (other, _) => word.push(other),
            }
            at += 2;
        } else {
            word.push(text[at]);
            at += 1;
        }
    }
    assert!(at < text.len(), "a quote is not closed in an example");
    (word, &text[at + 1..])
}

/// Formats arguments as a line that [`words`] and redis-cli can parse.
pub fn line(words: &[impl AsRef<[u8]>]) -> String {
    let plain = |b: &u8| b.is_ascii_graphic() && !b"\"'\\".contains(b);
    let words = words.iter().map(AsRef::as_ref).map(|word| match word {
        [_, ..] if word.iter().all(plain) => String::from_utf8_lossy(word).into_owned(),
        _ => format!("\"{}\"", escaped(word)),
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x07 => out.push_str("\\a"),
            0x08 => out.push_str("\\b"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}
