//! Lists of words, written as a single string.

/// Splits a string at single spaces. The number of words is checked at compile time.
pub(crate) const fn words<const N: usize>(text: &'static str) -> [&'static str; N] {
    let mut words = [""; N];
    let (mut rest, mut n) = (text, 0);
    while n < N {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b' ' {
            end += 1;
        }
        assert!(end > 0, "fewer words, or more than one space between two");
        let (word, behind) = rest.split_at(end);
        words[n] = word;
        rest = if behind.is_empty() {
            behind
        } else {
            behind.split_at(1).1
        };
        n += 1;
    }
    assert!(rest.is_empty(), "more words");
    words
}
