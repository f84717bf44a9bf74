//! Allocation of memory with a larger alignment than the server's allocator guarantees.

/// Alignment of every block that the server's allocator returns, in bytes. jemalloc aligns blocks
/// of large powers of two more strictly, but a server may be built without jemalloc.
pub const ALIGNED: usize = align_of::<u128>();

/// Returns the part of a block that is aligned to `align` bytes, and writes the block's address
/// directly before that part.
///
/// # Safety
/// `block` is aligned to [`ALIGNED`] bytes, and is `align` bytes larger than the requested part.
/// `align` is a power of two above [`ALIGNED`].
pub unsafe fn part_of(block: *mut u8, align: usize) -> *mut u8 {
    let after = align - block.addr() % align;
    // SAFETY: the offset of the part in the block is at most `align`, so the part fits in the block. Both addresses are
    // multiples of `ALIGNED`, so the offset is at least `ALIGNED`, which leaves room for a pointer before the part.
    unsafe {
        let part = block.add(after);
        part.cast::<*mut u8>().sub(1).write(block);
        part
    }
}

/// Returns the block that contains a part.
///
/// # Safety
/// `part` was made by [`part_of`].
pub unsafe fn block_of(part: *mut u8) -> *mut u8 {
    // SAFETY: `part_of` stored the address of the block in the bytes directly before the part.
    unsafe { part.cast::<*mut u8>().sub(1).read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_is_aligned_and_within_its_block() {
        for align in [32, 64, 4096] {
            let mut memory = vec![0_u128; 3 * align / ALIGNED];
            for begin in 0..align / ALIGNED {
                let block = &mut memory[begin..][..2 * align / ALIGNED];
                let room = block.as_mut_ptr_range();
                let (first, end) = (room.start.cast::<u8>(), room.end.cast::<u8>());
                // SAFETY: the block exists, is twice as large as `align`, and is aligned for a 16-byte
                // integer.
                let (part, found) = unsafe {
                    let part = part_of(first, align);
                    (part, block_of(part))
                };
                assert!(part.addr().is_multiple_of(align));
                assert!(part > first && part.addr() + align <= end.addr());
                assert_eq!(found, first);
            }
        }
    }
}
