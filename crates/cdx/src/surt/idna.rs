//! Converts internationalized domain names to ASCII with IDNA 2003 (RFC 3490).
//!
//! Existing keys follow IDNA 2003; keys of the newer standard would not match them. Names are
//! prepared by RFC 3491 with the tables of Unicode 3.2; newer characters are passed through, as RFC
//! 3490 specifies for queries.

use stringprep::tables;
use unicode_normalization::char::{canonical_combining_class, compose, decompose_compatible};

/// Maximum length of a label in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// Converts a name to ASCII. Returns `None` if the name cannot be converted.
pub(super) fn to_ascii(name: &str) -> Option<Vec<u8>> {
    if name.is_ascii() {
        let mut labels = name.rsplit('.');
        let last = labels.next().map_or(0, str::len);
        let fits = last <= MAX_LABEL_BYTES
            && labels.all(|label| (1..=MAX_LABEL_BYTES).contains(&label.len()));
        return fits.then(|| name.as_bytes().to_vec());
    }
    let is_dot = |c| matches!(c, '.' | '\u{3002}' | '\u{ff0e}' | '\u{ff61}');
    let (name, end) = match name.strip_suffix(is_dot) {
        Some(name) => (name, "."),
        None => (name, ""),
    };
    let mut ascii = Vec::with_capacity(2 * name.len());
    for (i, label) in name.split(is_dot).enumerate() {
        if i > 0 {
            ascii.push(b'.');
        }
        push_label(label, &mut ascii)?;
    }
    ascii.extend_from_slice(end.as_bytes());
    Some(ascii)
}

fn push_label(label: &str, ascii: &mut Vec<u8>) -> Option<()> {
    let begin = ascii.len();
    if label.is_ascii() {
        ascii.extend_from_slice(label.as_bytes());
    } else {
        let label = prepared(label)?;
        if label.iter().all(char::is_ascii) {
            ascii.extend(label.iter().filter_map(|c| u8::try_from(*c).ok()));
        } else {
            if label.starts_with(&['x', 'n', '-', '-']) {
                return None;
            }
            ascii.extend_from_slice(b"xn--");
            push_punycode(&label, ascii)?;
        }
    }
    (1..=MAX_LABEL_BYTES)
        .contains(&(ascii.len() - begin))
        .then_some(())
}

/// Prepares a label by Nameprep (RFC 3491): mapping, normalization, and rejection of prohibited characters.
fn prepared(label: &str) -> Option<Vec<char>> {
    let mut chars = Vec::with_capacity(label.len());
    for c in label
        .chars()
        .filter(|c| !tables::commonly_mapped_to_nothing(*c))
    {
        folded(c, |c| decompose(c, &mut chars));
    }
    order(&mut chars);
    let chars = composed(chars);
    if chars.iter().any(|c| is_prohibited(*c)) {
        return None;
    }
    if chars.iter().any(|c| is_right_to_left(*c)) {
        let ends = [chars.first()?, chars.last()?];
        let both = ends.into_iter().all(|c| is_right_to_left(*c));
        if !both || chars.iter().any(|c| is_left_to_right(*c)) {
            return None;
        }
    }
    Some(chars)
}

/// Folds case by table B.2 of RFC 3454. For a letter that is not in the table, uses its current lower case.
fn folded(c: char, mut each: impl FnMut(char)) {
    let is_known = tables::case_fold_for_nfkc(c).ne([c]);
    if is_known {
        tables::case_fold_for_nfkc(c).for_each(each);
    } else {
        // The table may have an entry for the lower-case letter.
        let lower = c.to_lowercase();
        lower.for_each(|c| tables::case_fold_for_nfkc(c).for_each(&mut each));
    }
}

fn decompose(c: char, chars: &mut Vec<char>) {
    if tables::unassigned_code_point(c) {
        chars.push(c);
    } else {
        decompose_compatible(c, |part| chars.push(part));
    }
}

/// Sorts combining characters into their canonical order.
fn order(chars: &mut [char]) {
    for run in chars.split_mut(|c| canonical_combining_class(*c) == 0) {
        run.sort_by_key(|c| canonical_combining_class(*c));
    }
}

/// Combines characters that have a composed form.
fn composed(chars: Vec<char>) -> Vec<char> {
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    let mut starter = None;
    let mut last = 0;
    for c in chars {
        let class = canonical_combining_class(c);
        if let Some(at) = starter {
            let is_next = out.len() == at + 1;
            if (is_next || last < class)
                && let Some(both) = out.get(at).and_then(|first| compose(*first, c))
            {
                out[at] = both;
                continue;
            }
        }
        if class == 0 {
            starter = Some(out.len());
        }
        last = class;
        out.push(c);
    }
    out
}

fn is_prohibited(c: char) -> bool {
    tables::non_ascii_space_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
}

fn is_right_to_left(c: char) -> bool {
    !tables::unassigned_code_point(c) && tables::bidi_r_or_al(c)
}

fn is_left_to_right(c: char) -> bool {
    !tables::unassigned_code_point(c) && tables::bidi_l(c)
}

/// Appends Punycode (RFC 3492). Returns `None` if the result would be too long for a label.
fn push_punycode(label: &[char], ascii: &mut Vec<u8>) -> Option<()> {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // Every character becomes at least one byte.
    if label.len() > MAX_LABEL_BYTES {
        return None;
    }
    let plain = label
        .iter()
        .filter_map(|c| u8::try_from(*c).ok())
        .filter(u8::is_ascii);
    let begin = ascii.len();
    ascii.extend(plain);
    let mut done = u32::try_from(ascii.len() - begin).ok()?;
    if done > 0 {
        ascii.push(b'-');
    }
    let (mut next, mut delta, mut bias) = (128_u32, 0_u32, 72_u32);
    let mut is_first = true;
    let total = u32::try_from(label.len()).ok()?;
    while done < total {
        let least = label
            .iter()
            .map(|c| u32::from(*c))
            .filter(|c| *c >= next)
            .min()?;
        delta += (least - next) * (done + 1);
        next = least;
        for c in label {
            let c = u32::from(*c);
            if c < next {
                delta += 1;
            }
            if c != next {
                continue;
            }
            let mut rest = delta;
            for k in (1..).map(|k| 36 * k) {
                let threshold = (k as u32).saturating_sub(bias).clamp(1, 26);
                if rest < threshold {
                    break;
                }
                let above = rest - threshold;
                let range = 36 - threshold;
                ascii.push(*DIGITS.get((threshold + above % range) as usize)?);
                rest = above / range;
            }
            ascii.push(*DIGITS.get(rest as usize)?);
            bias = adapted(delta, done + 1, is_first);
            is_first = false;
            delta = 0;
            done += 1;
        }
        delta += 1;
        next += 1;
    }
    Some(())
}

fn adapted(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / 700 } else { delta / 2 };
    delta += delta / count;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}
