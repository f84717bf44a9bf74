//! Form encoding and base64.

/// Decodes form encoding: percent escapes, and plus signs as spaces. Invalid UTF-8 becomes U+FFFD.
pub(super) fn undone_plus(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, after @ ..] => digit(*high).zip(digit(*low)).map(|two| (two, after)),
            _ => None,
        };
        match escaped {
            Some(((high, low), after)) => {
                out.push(high << 4 | low);
                rest = after;
            }
            None => {
                out.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// Appends bytes in form encoding: only letters, digits and `_.-~` are left unescaped.
pub(super) fn push_plus(text: &[u8], into: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                into.push(char::from(*byte));
            }
            b' ' => into.push('+'),
            _ => {
                into.push('%');
                for half in [byte >> 4, byte & 15] {
                    into.push(char::from(HEX[usize::from(half)]));
                }
            }
        }
    }
}

/// Appends a string in the form encoding of the URL Standard (section 5.2): only letters, digits and `*-._`
/// are left unescaped.
pub(super) fn push_form(text: &str, into: &mut String) {
    for piece in text.split_inclusive(['*', '~']) {
        let (piece, last) = match piece.as_bytes() {
            [.., b'*'] => (&piece[..piece.len() - 1], "*"),
            [.., b'~'] => (&piece[..piece.len() - 1], "%7E"),
            _ => (piece, ""),
        };
        push_plus(piece.as_bytes(), into);
        into.push_str(last);
    }
}

/// Appends bytes in base64 (RFC 4648, section 4).
pub(super) fn push_base64(bytes: &[u8], into: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let bits = [0, 1, 2].map(|i| u32::from(three.get(i).copied().unwrap_or(0)));
        let bits = bits[0] << 16 | bits[1] << 8 | bits[2];
        for i in 0..4 {
            if i > three.len() {
                into.push('=');
            } else {
                let letter = (bits >> (18 - 6 * i)) & 63;
                into.push(char::from(LETTERS[letter as usize]));
            }
        }
    }
}
