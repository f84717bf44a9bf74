//! Size classes of the server's allocator.

/// Rounds a size up to a size class of the allocator. As in jemalloc, there are four classes
/// between one power of two and the next. Buffers of these sizes waste no memory.
pub fn class(bytes: usize) -> usize {
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    let step = 1 << ((bytes - 1).ilog2() - 2);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn sizes_equal_those_of_the_allocator() {
        let sizes = [0, 16, 32, 128, 160, 192, 224, 256, 320, 14336, 16384, 20480];
        for pair in sizes.windows(2) {
            assert_eq!(class(pair[0]), pair[0]);
            assert_eq!(class(pair[1]), pair[1]);
            assert!((pair[0] + 1..pair[1]).all(|n| class(n) <= pair[1] && class(n) >= n));
        }
        assert_eq!(class(129), 160);
        assert_eq!(class(14337), 16384);
    }
}
