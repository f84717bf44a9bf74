//! Commit numbers as stored in keys.

use smallvec::SmallVec;

use crawlspace_host::text::parse_unsigned;

/// Commit numbers in ascending order, as stored in `holders` and `baseline`.
pub type Numbers = SmallVec<[u64; 4]>;

/// Parses numbers separated by spaces. Skips words that are not numbers.
pub fn parse_numbers(value: &[u8]) -> Numbers {
    value
        .split(|&b| b == b' ')
        .filter_map(parse_unsigned)
        .collect()
}

/// Formats numbers as [`parse_numbers`] reads them.
pub fn write_numbers(numbers: &[u64]) -> Vec<u8> {
    let mut value = Vec::with_capacity(numbers.len() * 8);
    for n in numbers {
        if !value.is_empty() {
            value.push(b' ');
        }
        value.extend_from_slice(n.to_string().as_bytes());
    }
    value
}
