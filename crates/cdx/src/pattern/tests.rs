use proptest::prelude::*;

use super::*;

fn whole(text: &[u8]) -> Result<Pattern, BadPattern> {
    Pattern::compile(text, Anchor::Whole, Limits::default())
}

fn matches(text: &[u8], anchor: Anchor, subject: &[u8]) -> bool {
    Pattern::compile(text, anchor, Limits::default())
        .unwrap_or_else(|e| panic!("{:?}: {e}", String::from_utf8_lossy(text)))
        .is_match(subject)
}

#[test]
fn anchor_applies_to_every_alternative_and_flag() {
    use Anchor::{Anywhere, Start, Whole};
    // Columns: the pattern, the text, and whether the pattern matches anywhere, from the start, and
    // as a whole.
    let rows: &[(&str, &str, bool, bool, bool)] = &[
        ("a|b", "a", true, true, true),
        ("a|b", "xb", true, false, false),
        ("a|b", "bx", true, true, false),
        ("a|ab", "ab", true, true, true),
        ("(?i)x", "X", true, true, true),
        ("(?i)x", "XY", true, true, false),
        ("(?i)x|y", "Y", true, true, true),
        ("(?x) a # c", "a", true, true, true),
        ("(?x) a # c", "ab", true, true, false),
        ("(?x) a # c)", "a", true, true, true),
        ("(?x) a # c\n", "a", true, true, true),
        ("(?x) a | b # c", "zb", true, false, false),
        ("(?x)(?-x)a#", "a#", true, true, true),
        ("(?x:a # )\n)b", "ab", true, true, true),
        ("(?x)[\\#]", "#", true, true, true),
        (r"(?x)\#", "#", true, true, true),
        ("a#", "a#", true, true, true),
        ("a #c", "a #c", true, true, true),
        ("(?m)^b$", "a\nb", true, false, false),
        ("(?m)^a$", "a\nb", true, true, false),
        ("(?s)a.b", "a\nb", true, true, true),
        ("(?U)a+", "aaa", true, true, true),
        ("a*?", "aaa", true, true, true),
        ("^a$", "a", true, true, true),
        ("", "", true, true, true),
        ("", "x", true, true, false),
        ("|", "x", true, true, false),
        (r"\\", "\\", true, true, true),
        (r"\d{4}", "2024", true, true, true),
        // ASCII digits only: this is an Arabic-Indic digit of two bytes.
        (r"\d", "\u{661}", false, false, false),
        ("..", "\u{661}", true, true, true),
        ("\u{e9}+", "\u{e9}\u{e9}", true, true, true),
    ];
    for &(pattern, subject, anywhere, start, all) in rows {
        for (anchor, wanted) in [(Anywhere, anywhere), (Start, start), (Whole, all)] {
            let found = matches(pattern.as_bytes(), anchor, subject.as_bytes());
            assert_eq!(found, wanted, "{pattern:?} {anchor:?} in {subject:?}");
        }
    }
}

#[test]
fn malformed_pattern_is_refused_with_any_anchor() {
    let rows: &[(&str, usize)] = &[
        ("a)(b", 1),
        ("a)|(b", 1),
        ("a\\", 1),
        ("(a", 0),
        ("[a", 0),
        ("*", 0),
        ("a{2", 1),
        ("(?x) a # c\n)", 11),
        (r"\1", 0),
        ("(?=a)", 0),
        ("(?P<n>a)(?P<n>b)", 12),
        (r"\pL", 0),
    ];
    for &(pattern, place) in rows {
        for anchor in [Anchor::Anywhere, Anchor::Start, Anchor::Whole] {
            let error = Pattern::compile(pattern.as_bytes(), anchor, Limits::default());
            match error {
                Err(BadPattern::Syntax { at, what }) => {
                    assert_eq!(at, Some(place), "{pattern:?}: {what}");
                    assert!(!what.contains('\n') && !what.is_empty());
                }
                other => panic!("{pattern:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn non_text_bytes_match_themselves() {
    assert!(matches(b"a\xFF+b", Anchor::Whole, b"a\xFF\xFFb"));
    assert!(matches(b"[\xFE\xFF]", Anchor::Whole, b"\xFE"));
    assert!(matches(b"\\\xFF", Anchor::Whole, b"\xFF"));
    assert!(matches(b"\\\\\xFF", Anchor::Whole, b"\\\xFF"));
    assert!(!matches(b"\xFF", Anchor::Anywhere, "\u{ff}".as_bytes()));
    assert!(matches(b".", Anchor::Whole, b"\xFF"));
}

#[test]
fn groups_keep_their_numbers_and_names() {
    let pattern = whole(br"org-(?P<org>\d+)-(x)?(?x) # c").unwrap();
    let groups = pattern.regex().captures(b"org-77-").unwrap();
    assert_eq!(groups.len(), 3);
    assert_eq!(&groups[1], b"77");
    assert_eq!(&groups["org"], b"77");
    assert!(groups.get(2).is_none());
}

#[test]
fn pattern_of_64_kib_compiles_and_a_longer_one_does_not() {
    let mut text: Vec<u8> = (10_000..)
        .flat_map(|n| format!("{n}|").into_bytes())
        .take(65_535)
        .collect();
    text.push(b'x');
    let pattern = whole(&text).unwrap();
    assert!(pattern.is_match(b"10000"));
    assert!(pattern.is_match(b"20921"));
    assert!(!pattern.is_match(b"1000"));
    assert!(!pattern.is_match(b"100001"));
    assert!(Pattern::is_heavy(&text));

    text.push(b'x');
    let error = whole(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the regex has 65537 bytes, the maximum is 65536; \
         use a tag filter, such as tag.coll:1|2|3, instead of many alternatives"
    );
}

#[test]
fn case_insensitive_letters_fit_at_64_kib() {
    for text in [
        b"a|".repeat(32 * 1024),
        [&b"(?i)"[..], &b"abcdefg|".repeat(8 * 1024 - 1)].concat(),
        b".".repeat(64 * 1024),
        b"[^/]".repeat(16 * 1024),
    ] {
        whole(&text).unwrap();
    }
}

#[test]
fn pattern_that_compiles_too_large_is_refused_with_advice() {
    for text in [
        &br"((a{100}){100}){100}"[..],
        br"(((\w{50}){50}){50}){50}",
        br"((((((((((a{99}){99}){99}){99}){99}){99}){99}){99}){99}){99})",
    ] {
        let error = whole(text).unwrap_err();
        assert!(matches!(error, BadPattern::TooBig { .. }), "{error}");
        assert!(error.to_string().contains("use a tag filter"));
        assert!(Pattern::is_heavy(text));
    }
    let limits = Limits {
        compiled_bytes: 1000,
        ..Limits::default()
    };
    let error = Pattern::compile(b"[a-z]{99}", Anchor::Start, limits).unwrap_err();
    assert_eq!(error, BadPattern::TooBig { limit: 1000 });
}

#[test]
fn group_nesting_is_limited() {
    let nested = |depth: usize| [b"(".repeat(depth), b"a".to_vec(), b")".repeat(depth)].concat();
    assert!(whole(&nested(NESTING as usize)).unwrap().is_match(b"a"));
    let error = whole(&nested(NESTING as usize + 1)).unwrap_err();
    assert!(matches!(error, BadPattern::Syntax { .. }), "{error}");
    // Even much deeper nesting is an error and does not overflow the stack.
    assert!(whole(&nested(30_000)).is_err());
    assert!(!Pattern::is_heavy(&nested(4_000)));
}

#[test]
fn backtracking_pattern_takes_linear_time() {
    let text = b"a".repeat(100_000);
    assert!(!matches(b"(a*)*b", Anchor::Whole, &text));
    assert!(!matches(b"(a|a)*b", Anchor::Anywhere, &text));
    assert!(!matches(
        b"(x+x+)+y",
        Anchor::Anywhere,
        &b"x".repeat(100_000)
    ));
}

#[test]
fn patterns_with_many_alternatives_or_repetitions_are_heavy() {
    for (text, heavy) in [
        (&br"ARCHIVEIT-(\d{1,6})-.{0,200}"[..], false),
        (br"[{](a{80}){80}", false),
        (br"[{](a{100}){100}", true),
        (
            br"(?x) a # {
            (a{100}){100}",
            true,
        ),
        (br"(a{1000}", false),
        (br"a{1000}{1000}", true),
        (br"a{4294967295}{4294967295}{4294967295}", true),
        (b"", false),
        (b"\xFF{9999}", true),
    ] {
        assert_eq!(
            Pattern::is_heavy(text),
            heavy,
            "{}",
            String::from_utf8_lossy(text)
        );
    }
    assert!(!Pattern::is_heavy(&b"a|".repeat(1000)));
    assert!(Pattern::is_heavy(&b"a|".repeat(1001)));
    assert!(Pattern::is_heavy(&b"a".repeat(9000)));
}

/// Results of Java 17. The first line lists texts. Each other line has a pattern, followed by `-` if Java
/// rejects the pattern, and otherwise by one bit per text in hexadecimal, which is set if the whole text
/// matches. White space and unprintable bytes are written as `%` and hex.
const OF_JAVA: &str = include_str!("tests_java.txt");

fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

#[test]
fn java_patterns_have_their_java_meaning() {
    let mut lines = OF_JAVA.lines();
    let texts: Vec<Vec<u8>> = lines
        .next()
        .unwrap()
        .split(' ')
        .skip(1)
        .map(|text| unescaped(&text[1..text.len() - 1]))
        .collect();
    let (mut same, mut refused, mut wrong) = (0, 0, Vec::new());
    for line in lines {
        let (pattern, of_java) = line.rsplit_once(' ').unwrap();
        let pattern = unescaped(pattern);
        let shown = pattern.escape_ascii();
        let ours = Pattern::compile_java(&pattern, Anchor::Whole, Limits::default());
        match (ours, of_java) {
            // If we reject a pattern that Java accepts, the query fails, which is safe.
            (Err(_), "-") => same += 1,
            (Err(error), _) => {
                refused += 1;
                let error = error.to_string();
                let known = ["is not supported", "operator missing expression"];
                if !known.iter().any(|known| error.contains(known)) {
                    wrong.push(format!("{shown}: {error}"));
                }
            }
            (Ok(_), "-") => {}
            (Ok(ours), hex) => {
                let bit = |n: usize| {
                    let digit = hex.as_bytes()[n / 4] as char;
                    digit.to_digit(16).unwrap() & (8 >> (n % 4)) != 0
                };
                same += 1;
                for (n, text) in texts.iter().enumerate() {
                    if ours.is_match(text) != bit(n) {
                        wrong.push(format!("{shown} on '{}'", text.escape_ascii()));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(same > 1000, "{same} are the same, {refused} refused");
}

#[test]
fn nonlinear_java_features_are_refused_with_their_position() {
    for (text, at, what) in [
        ("xa++", 3, "possessive"),
        ("xa*+b", 3, "possessive"),
        ("xa?+", 3, "possessive"),
        ("a{2,3}+", 6, "possessive"),
        ("\\Qa\\E++", 6, "possessive"),
        ("b(?>a|ab)c", 1, "atomic"),
        ("a{2}{3}", 4, "quantifier after another quantifier"),
        ("a+?*", 3, "quantifier after another quantifier"),
        ("[a&&]", 2, "intersection with an empty class"),
        ("[^&&a]", 2, "intersection with an empty class"),
        ("[a&&&b]", 2, "intersection with an empty class"),
        ("[\\v-z]", 1, "range from \\v"),
        ("\\x{4", 0, "hexadecimal"),
        ("(?U)a", 0, "Unicode"),
        ("\\Q+\\E(?=a)", 5, "look-around"),
        ("\\p{Upper}(?<!a)", 9, "look-around"),
        ("\\h(a)\\1", 5, "backreferences"),
        ("\\h\\pL", 2, "\\p{...}"),
        ("\\p{IsAlphabetic}", 0, "\\p{...}"),
        ("a\\E", 1, "\\E"),
        ("[\\R]", 1, "\\R"),
        ("\\08", 0, "octal"),
        ("\\p{Upper}(", 9, "unclosed group"),
    ] {
        match Pattern::compile_java(text.as_bytes(), Anchor::Whole, Limits::default()) {
            Err(BadPattern::Syntax {
                at: Some(place),
                what: why,
            }) => {
                assert_eq!(place, at, "{text}: {why}");
                assert!(why.contains(what), "{text}: {why}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn non_text_bytes_match_themselves_in_java_patterns() {
    for (pattern, text) in [
        (&b"\xff+"[..], &b"\xff\xff"[..]),
        (b"\\Q\xff.\\E", b"\xff."),
        (b"\\\xff", b"\xff"),
        ("\\Qé\\E+".as_bytes(), "éé".as_bytes()),
        (b"[\\Q\xff\\E]", b"\xff"),
    ] {
        let compiled = Pattern::compile_java(pattern, Anchor::Whole, Limits::default()).unwrap();
        assert!(compiled.is_match(text), "{}", pattern.escape_ascii());
    }
}

proptest! {
    #[test]
    fn no_java_pattern_causes_a_panic(text in prop::collection::vec(
        prop_oneof![5 => prop::sample::select(&b"\\QEphHRcv0{}[]()^?+*-&~:aU7<>#"[..]), 1 => any::<u8>()], 0..24)) {
        let _ = Pattern::compile_java(&text, Anchor::Whole, Limits::default());
        Pattern::size(&text);
        Pattern::is_heavy(&text);
    }
}
