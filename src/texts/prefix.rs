//! Prefix codes: frequent symbols get short codes.

/// Maximum length of a code, in bits.
pub const MAX_BITS: u32 = 12;

/// Returns the code lengths for symbols with these counts. The lengths are 1 to `longest` bits, and
/// form a complete code. The number of symbols must be from 2 to 2^`longest`.
pub fn lengths(counts: &[u32], longest: u32) -> Vec<u8> {
    // Huffman's algorithm, bottom up: the leaves are sorted, and the inner nodes are created in
    // ascending order.
    let mut leaves: Vec<(u64, usize)> = (counts.iter().enumerate())
        .map(|(thing, &count)| (u64::from(count.max(1)), thing))
        .collect();
    leaves.sort_unstable();
    let n = leaves.len();
    let mut weights: Vec<u64> = Vec::with_capacity(n);
    let mut parents = vec![0; 2 * n - 1];
    let (mut leaf, mut inner) = (0, 0);
    for new in 0..n - 1 {
        let mut take = || {
            let is_leaf = inner == weights.len() || (leaf < n && leaves[leaf].0 <= weights[inner]);
            let (weight, node) = if is_leaf {
                leaf += 1;
                (leaves[leaf - 1].0, leaf - 1)
            } else {
                inner += 1;
                (weights[inner - 1], n + inner - 1)
            };
            parents[node] = n + new;
            weight
        };
        let weight = take() + take();
        weights.push(weight);
    }
    let mut depths = vec![0u32; 2 * n - 1];
    for node in (0..2 * n - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    // Truncate codes that are too long. Then lengthen other codes until all codes fit. Then shorten
    // the codes of the most frequent symbols while space is left.
    let room = 1u64 << longest;
    let mut bits: Vec<u32> = depths[..n].iter().map(|&d| d.min(longest)).collect();
    let mut taken: u64 = bits.iter().map(|&b| room >> b).sum();
    for b in &mut bits {
        while taken > room && *b < longest {
            *b += 1;
            taken -= room >> *b;
        }
    }
    for b in bits.iter_mut().rev() {
        while *b > 1 && taken + (room >> *b) <= room {
            taken += room >> *b;
            *b -= 1;
        }
    }
    let mut lengths = vec![0; n];
    for (&(_, thing), &b) in leaves.iter().zip(&bits) {
        lengths[thing] = b as u8;
    }
    lengths
}

/// Returns true if codes of these lengths form a complete prefix code.
pub fn is_complete(lengths: &[u8], longest: u32) -> bool {
    let fits = |&length: &u8| (1..=longest).contains(&u32::from(length));
    let room = 1usize << longest;
    lengths.len() <= room
        && lengths.iter().all(fits)
        && lengths.iter().map(|&l| room >> l).sum::<usize>() == room
}

/// Returns the codes with these lengths. The first bit of a code is the lowest. Codes of equal
/// length are in the order of their symbols, so the last of the longest codes consists of ones
/// only.
pub fn codes(lengths: &[u8]) -> Vec<u16> {
    let mut next = [0u32; MAX_BITS as usize + 2];
    for &length in lengths {
        next[usize::from(length) + 1] += 1;
    }
    next[1] = 0;
    for length in 2..next.len() {
        next[length] = (next[length] + next[length - 1]) << 1;
    }
    // `next[l]` is now the first code of length l, which follows all shorter codes.
    let code = |&length: &u8| {
        let code = next[usize::from(length)];
        next[usize::from(length)] += 1;
        (code.reverse_bits() >> (32 - u32::from(length))) as u16
    };
    lengths.iter().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequent_symbols_get_short_codes() {
        assert_eq!(lengths(&[8, 4, 2, 1, 1], MAX_BITS), [1, 2, 3, 4, 4]);
        assert_eq!(lengths(&[5, 5], MAX_BITS), [1, 1]);
        assert_eq!(codes(&[2, 1, 3, 3]), [0b01, 0b0, 0b011, 0b111]);
    }

    proptest! {
        #[test]
        fn codes_are_prefix_free(counts in proptest::collection::vec(prop_oneof![0..3u32, 0..1000u32, any::<u32>()], 2..200), longest in 8..=MAX_BITS) {
            let lengths = lengths(&counts, longest);
            prop_assert!(is_complete(&lengths, longest));
            let codes = codes(&lengths);
            let mut all: Vec<(u32, u8)> = codes.iter().zip(&lengths).map(|(&c, &l)| {
                (u32::from(c).reverse_bits() >> (32 - longest), l)
            }).collect();
            all.sort_unstable();
            for pair in all.windows(2) {
                prop_assert!(pair[0].0 + (1 << (longest - u32::from(pair[0].1))) <= pair[1].0);
            }
            let most = *lengths.iter().max().unwrap();
            let last = lengths.iter().rposition(|&l| l == most).unwrap();
            prop_assert_eq!(codes[last], ((1u32 << most) - 1) as u16);
        }
    }
}
