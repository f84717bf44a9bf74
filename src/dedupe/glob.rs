//! Glob patterns of the server's own commands: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte.

/// Returns true if the whole of `text` matches the pattern. Takes time proportional to at most the product of both
/// lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The last `*`, and the rest of the text that is matched next against the pattern after this
    // `*`.
    let mut star = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if let Some(len) = matches_byte(&pattern[at..], text[read]) {
            at += len;
            read += 1;
        } else if let Some((of_star, tried)) = star {
            star = Some((of_star, tried + 1));
            (at, read) = (of_star + 1, tried + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Returns the length of the first element of a pattern if it matches a byte.
fn matches_byte(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => matches_class(class, byte).map(|len| len + 1),
        [b'\\', literal, ..] => (literal == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
        [] => None,
    }
}

/// Returns the length of a class (without its `[`) if the class matches a byte. A class without `]` extends to
/// the end of the pattern.
fn matches_class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        let len = match class[at..] {
            [b'\\', literal, ..] => {
                found |= literal == byte;
                2
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= literal == byte;
                1
            }
            [] => break,
        };
        at += len;
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_on_the_server() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*bc*", "abcabd", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("?", "", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("[", "a", false),
            ("[a", "a", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            (r"[\]]", "]", true),
            (r"a\", r"a\", true),
        ] {
            let matched = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matched, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(50) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
