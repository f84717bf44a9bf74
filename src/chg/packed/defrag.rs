//! Active defragmentation of a packed frontier, a few groups or queue entries at a time.

use crawlspace_host::defrag::Mover;
use crawlspace_host::slices::Time;

use super::keys::Packed;
use super::record::SETS;

/// Number of bits of a cursor that contain the position within a part.
const PART: u32 = 56;

impl Packed {
    /// Moves memory, starting at a cursor, until `time` returns false. Returns the next cursor; 0 at the end.
    /// Parts that are small or rare are not moved.
    pub fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        // A cursor is the position plus one, because 0 is the end.
        let place = cursor.saturating_sub(1);
        let (mut part, mut at) = ((place >> PART) as usize, place & ((1 << PART) - 1));
        loop {
            let next = match part {
                0 => self.groups.defrag(at, mover),
                1..=SETS => self.sets[part - 1].defrag(at, mover),
                _ if part == SETS + 1 => self.ready.defrag(at, mover),
                _ => return 0,
            };
            (part, at) = next.map_or((part + 1, 0), |next| (part, next));
            if !time() {
                return ((part as u64) << PART | at) + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::uris::Op;
    use super::*;

    #[test]
    fn defragmentation_moves_all_memory_and_changes_nothing() {
        let mut packed = Packed::default();
        for n in 0..3_000_u32 {
            let id = format!("h{}", n % 400).into_bytes();
            let uri = format!("https://h/{}", "a long path/".repeat(n as usize % 40));
            let uri = format!("{uri}{n}");
            for _ in 0..=n % 3 {
                let add = Op::Add {
                    execution: b"crawl-1",
                    weight: None,
                    due: n.into(),
                    depth: 0,
                    attempts: 0,
                    uri: uri.as_bytes(),
                };
                packed.apply_to_uris(&id, &add, |_| ());
            }
            packed.push_ready(&id);
        }
        packed.groups.take_unlogged(|_| {});
        packed.groups.close_all();
        let (memory, mut before) = (packed.memory(), Vec::new());
        packed.save(&mut |chunk| before.push(chunk.to_vec()));
        let mut moved = 0;
        // The test allocator does not know the size of an allocation, so nothing is moved.
        let mut ask = |_: *mut u8| {
            moved += 1;
            std::ptr::null_mut()
        };
        let (mut cursor, mut steps) = (0, 0);
        loop {
            // SAFETY: nothing moves.
            let mut mover = unsafe { Mover::new(&mut ask) };
            cursor = packed.defrag(cursor, &mut mover, &mut || false);
            if cursor == 0 {
                break;
            }
            steps += 1;
        }
        assert!(steps > 400, "{steps}");
        let all = packed.free_effort() - packed.executions.pieces();
        assert!(moved > all, "{moved} moved of more than {all}");
        assert_eq!(packed.memory(), memory);
        let mut after = Vec::new();
        packed.save(&mut |chunk| after.push(chunk.to_vec()));
        assert_eq!(before, after);
        packed.verify();
    }
}
