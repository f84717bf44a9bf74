//! Positions of the spaces of a line, and detection of line ends, in one pass. Most of the time to read a
//! CDX line is spent on finding spaces. Three `memchr` passes (first space, count, doubled spaces) took 31
//! ns for a line of 200 bytes; the single pass takes 5 ns with AVX2.

/// Spaces and control characters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spaces {
    pub(super) count: usize,
    /// Position of the first space, or the length of the line if there are no spaces.
    pub(super) first: usize,
    /// Position of the last space, or 0 if there are no spaces.
    pub(super) last: usize,
    /// True if two spaces are adjacent.
    pub(super) doubled: bool,
    /// True if the line contains `\r`, `\n` or `\t`.
    pub(super) broken: bool,
}

impl Spaces {
    #[inline]
    pub(super) fn of(line: &[u8]) -> Spaces {
        #[cfg(target_arch = "x86_64")]
        if line.len() >= avx2::BLOCK && avx2::is_there() {
            // SAFETY: the processor supports the features that the function is compiled for.
            return unsafe { avx2::of(line) };
        }
        plain(line)
    }
}

/// Portable version, in a form that compilers vectorize.
fn plain(line: &[u8]) -> Spaces {
    let count = line.iter().filter(|&&b| b == b' ').count();
    let doubled = line
        .windows(2)
        .fold(false, |any, two| any | (two[0] == b' ') & (two[1] == b' '));
    Spaces {
        count,
        first: memchr::memchr(b' ', line).unwrap_or(line.len()),
        last: memchr::memrchr(b' ', line).unwrap_or(0),
        doubled,
        broken: memchr::memchr3(b'\r', b'\n', b'\t', line).is_some(),
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
        _mm256_set1_epi8,
    };

    use super::Spaces;

    pub(super) const BLOCK: usize = 64;

    /// Returns true if the processor supports AVX2. The standard library caches the result, so a call only
    /// costs a load and a test.
    #[inline]
    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
    }

    /// Scans a line of at least [`BLOCK`] bytes.
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn of(line: &[u8]) -> Spaces {
        let mut found = Spaces {
            count: 0,
            first: line.len(),
            last: 0,
            doubled: false,
            broken: false,
        };
        let (mut before, mut doubled, mut at, mut controls) = (0, 0, 0, 0);
        let mut take = |(mask, control): (u64, u32), shift: usize| {
            // The last block overlaps the previous block; shift out the bits that were already
            // counted.
            let mask = mask >> shift;
            controls |= control;
            if mask != 0 {
                if found.count == 0 {
                    found.first = at + mask.trailing_zeros() as usize;
                }
                found.last = at + mask.ilog2() as usize;
            }
            found.count += mask.count_ones() as usize;
            doubled |= mask & (mask << 1 | before);
            before = mask >> 63;
            at += BLOCK;
        };
        let (blocks, rest) = line.as_chunks::<BLOCK>();
        for block in blocks {
            take(mask(block), 0);
        }
        if let (Some(block), true) = (line.last_chunk::<BLOCK>(), !rest.is_empty()) {
            take(mask(block), BLOCK - rest.len());
        }
        found.doubled = doubled != 0;
        // Control characters are rare enough for a second pass.
        found.broken = controls != 0 && memchr::memchr3(b'\r', b'\n', b'\t', line).is_some();
        found
    }

    /// Returns a mask whose bits are set for bytes that are spaces (the lowest bit is the first byte),
    /// and a number that is nonzero if the block contains control characters.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(block: &[u8; BLOCK]) -> (u64, u32) {
        let half = |at: usize| {
            let bytes: &[u8; 32] = block[at..].first_chunk().expect("half of a block");
            // SAFETY: reads exactly the 32 borrowed bytes, which need not be aligned.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            let spaces = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b' ' as i8));
            let low = _mm256_min_epu8(bytes, _mm256_set1_epi8(0x1F));
            let controls = _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, low)) as u32;
            (u64::from(_mm256_movemask_epi8(spaces) as u32), controls)
        };
        let ((first, controls), (second, more)) = (half(0), half(32));
        (first | second << 32, controls | more)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(line: &[u8]) -> Spaces {
        let at = |i: usize| line.get(i) == Some(&b' ');
        Spaces {
            count: (0..line.len()).filter(|&i| at(i)).count(),
            first: (0..line.len()).find(|&i| at(i)).unwrap_or(line.len()),
            last: (0..line.len()).rfind(|&i| at(i)).unwrap_or(0),
            doubled: (0..line.len()).any(|i| at(i) && at(i + 1)),
            broken: line.iter().any(|b| b"\r\n\t".contains(b)),
        }
    }

    #[test]
    fn double_spaces_are_found_at_any_offset() {
        for len in [2, 63, 64, 65, 127, 128, 129, 200] {
            for at in 0..len - 1 {
                let mut line = vec![b'x'; len];
                line[at] = b' ';
                assert_eq!(Spaces::of(&line), naive(&line), "{len} {at}");
                line[at + 1] = b' ';
                assert_eq!(Spaces::of(&line), naive(&line), "{len} {at}");
                assert!(Spaces::of(&line).doubled && plain(&line).doubled);
            }
        }
    }

    proptest! {
        #[test]
        fn one_pass_equals_three(line in prop::collection::vec(prop_oneof![
            20 => prop::sample::select(&b" xyz!\xA0"[..]),
            1 => prop::sample::select(&b"\t\0\r\n\x0E"[..]),
        ], 0..300)) {
            prop_assert_eq!(Spaces::of(&line), naive(&line));
            prop_assert_eq!(plain(&line), naive(&line));
        }
    }
}
