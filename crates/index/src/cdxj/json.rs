//! JSON strings as Python writes them: ASCII only.

/// Appends a field to a JSON object, as Python writes it: in ASCII, and with a space after the comma and the colon. The
/// opening brace must be the last byte before the first field.
pub fn push_field(line: &mut Vec<u8>, name: &str, value: &str) {
    if line.last() != Some(&b'{') {
        line.extend_from_slice(b", ");
    }
    line.push(b'"');
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\": ");
    push_string(line, value);
}

/// Appends a string with its quotes.
fn push_string(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        line.extend_from_slice(text.as_bytes());
    } else {
        for c in text.chars() {
            push_char(line, c);
        }
    }
    line.push(b'"');
}

fn push_char(line: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' | '\\' => c,
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        ' '..='~' => {
            line.push(c as u8);
            return;
        }
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                line.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
            return;
        }
    };
    line.extend_from_slice(&[b'\\', short as u8]);
}

#[cfg(test)]
mod tests {
    use super::push_field;

    #[test]
    fn strings_are_ascii() {
        let mut line = b"{".to_vec();
        push_field(&mut line, "a", "~\u{7f}\u{1}\u{e9}\u{1f600}");
        push_field(&mut line, "b", "\"\\\n\r\t\u{8}\u{c}");
        let expected = r#"{"a": "~\u007f\u0001\u00e9\ud83d\ude00", "b": "\"\\\n\r\t\b\f""#;
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
