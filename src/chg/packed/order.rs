//! Groups sorted by score and, for equal scores, by id, as in a sorted set of the server.
//!
//! The set is a B+tree with counts: it finds a member by its rank, and no operation copies more than two kilobytes
//! at a time. Members are the numbers of groups; ids are only compared if scores are equal.

use std::cmp::Ordering;

use crawlspace_host::defrag::Mover;
use crawlspace_host::sizes::class;

/// Maximum number of members of a leaf.
const LEAF: usize = 64;
/// Maximum number of children of an inner node.
const INNER: usize = 32;

/// A member: its score, converted to bits that sort in the order of scores, and the number of the
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member([u32; 3]);

impl Member {
    fn new(score: f64, slot: u32) -> Member {
        // Treat -0 as 0.
        let bits = (score + 0.0).to_bits();
        let negative = ((bits as i64) >> 63) as u64;
        let key = bits ^ (negative | 1 << 63);
        Member([(key >> 32) as u32, key as u32, slot])
    }

    fn key(self) -> u64 {
        u64::from(self.0[0]) << 32 | u64::from(self.0[1])
    }

    fn slot(self) -> u32 {
        self.0[2]
    }

    fn score(self) -> f64 {
        let key = self.key();
        let negative = !(((key as i64) >> 63) as u64);
        f64::from_bits(key ^ (negative | 1 << 63))
    }
}

#[inline(always)]
fn compare<'a>(a: Member, b: Member, id: &impl Fn(u32) -> &'a [u8]) -> Ordering {
    let keys = a.key().cmp(&b.key());
    if keys.is_ne() || a.slot() == b.slot() {
        return keys;
    }
    compare_ids(a, b, id)
}

/// Compares two members with the same score. This is rare, so it is not part of the search loops.
#[inline(never)]
fn compare_ids<'a>(a: Member, b: Member, id: &impl Fn(u32) -> &'a [u8]) -> Ordering {
    id(a.slot()).cmp(id(b.slot()))
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Member>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    first: Member,
    count: u32,
    node: Node,
}

/// An ordered set of groups.
#[derive(Clone, Debug)]
pub(super) struct Order {
    root: Node,
    len: u64,
    memory: usize,
    nodes: usize,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            root: Node::Leaf(Vec::new()),
            len: 0,
            memory: 0,
            nodes: 0,
        }
    }
}

/// Counts the memory of vectors as they grow.
struct Memory<'m> {
    bytes: &'m mut usize,
    nodes: &'m mut usize,
}

impl Memory<'_> {
    /// Inserts an element. A full vector grows by a quarter, rounded to a size class of the
    /// allocator.
    fn insert<T>(&mut self, list: &mut Vec<T>, at: usize, element: T, most: usize) {
        if list.len() == list.capacity() {
            let size = size_of::<T>();
            let wanted = (list.len() + list.len() / 4 + 1).min(most);
            let room = class(wanted * size) / size;
            self.lose(list);
            list.reserve_exact(room.min(most).max(list.len() + 1) - list.len());
            self.gain(list);
        }
        list.insert(at, element);
    }

    fn gain<T>(&mut self, list: &Vec<T>) {
        if list.capacity() > 0 {
            *self.bytes += class(list.capacity() * size_of::<T>());
            *self.nodes += 1;
        }
    }

    fn lose<T>(&mut self, list: &Vec<T>) {
        if list.capacity() > 0 {
            *self.bytes -= class(list.capacity() * size_of::<T>());
            *self.nodes -= 1;
        }
    }

    /// Splits a full list; `right` is the length of the second part.
    fn split<T>(&mut self, list: &mut Vec<T>, right: usize) -> Vec<T> {
        self.lose(list);
        let at = list.len() - right;
        let mut second = Vec::with_capacity(right + right / 4 + 1);
        second.extend(list.drain(at..));
        if right > 0 {
            list.shrink_to_fit();
        }
        self.gain(list);
        self.gain(&second);
        second
    }

    fn append<T>(&mut self, list: &mut Vec<T>, other: &mut Vec<T>) {
        self.lose(list);
        self.lose(other);
        list.append(other);
        self.gain(list);
    }
}

impl Node {
    fn first(&self) -> Option<Member> {
        match self {
            Node::Leaf(members) => members.first().copied(),
            Node::Inner(children) => children.first().map(|child| child.first),
        }
    }

    fn width(&self) -> usize {
        match self {
            Node::Leaf(members) => members.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn is_narrow(&self) -> bool {
        match self {
            Node::Leaf(members) => members.len() < LEAF / 4,
            Node::Inner(children) => children.len() < INNER / 4,
        }
    }

    fn most(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF,
            Node::Inner(_) => INNER,
        }
    }

    /// Adds a member. If the node is split, returns the second part.
    fn insert<'a>(
        &mut self,
        member: Member,
        id: &impl Fn(u32) -> &'a [u8],
        memory: &mut Memory<'_>,
    ) -> Option<Child> {
        match self {
            Node::Leaf(members) => {
                let is_last = members
                    .last()
                    .is_none_or(|&last| compare(last, member, id).is_lt());
                let at = if is_last {
                    members.len()
                } else {
                    members.partition_point(|&other| compare(other, member, id).is_lt())
                };
                if members.len() < LEAF {
                    memory.insert(members, at, member, LEAF);
                    return None;
                }
                // If the new member is the last one, leave the other members in the first node, so
                // that nodes stay full if members are added in order.
                let right = if is_last { 0 } else { LEAF / 2 };
                let mut second = memory.split(members, right);
                if at <= members.len() && !is_last {
                    memory.insert(members, at, member, LEAF);
                } else {
                    memory.insert(&mut second, at - members.len(), member, LEAF);
                }
                Some(Child {
                    first: second[0],
                    count: second.len() as u32,
                    node: Node::Leaf(second),
                })
            }
            Node::Inner(children) => {
                let behind =
                    children.partition_point(|child| compare(child.first, member, id).is_le());
                let at = behind.saturating_sub(1);
                let child = &mut children[at];
                let split = child.node.insert(member, id, memory);
                child.count += 1;
                if behind == 0 {
                    child.first = member;
                }
                let split = split?;
                child.count -= split.count;
                child.first = child.node.first().expect("it has members");
                if children.len() < INNER {
                    memory.insert(children, at + 1, split, INNER);
                    return None;
                }
                let is_last = at + 1 == children.len();
                let right = if is_last { 0 } else { INNER / 2 };
                let mut second = memory.split(children, right);
                let at = at + 1;
                if at <= children.len() && !is_last {
                    memory.insert(children, at, split, INNER);
                } else {
                    memory.insert(&mut second, at - children.len(), split, INNER);
                }
                Some(Child {
                    first: second[0].first,
                    count: second.iter().map(|child| child.count).sum(),
                    node: Node::Inner(second),
                })
            }
        }
    }

    fn remove<'a>(
        &mut self,
        member: Member,
        id: &impl Fn(u32) -> &'a [u8],
        memory: &mut Memory<'_>,
    ) -> bool {
        match self {
            Node::Leaf(members) => {
                let at = members.partition_point(|&other| compare(other, member, id).is_lt());
                if members.get(at) != Some(&member) {
                    return false;
                }
                members.remove(at);
                if members.is_empty() {
                    memory.lose(members);
                    *members = Vec::new();
                }
                true
            }
            Node::Inner(children) => {
                let behind =
                    children.partition_point(|child| compare(child.first, member, id).is_le());
                let Some(at) = behind.checked_sub(1) else {
                    return false;
                };
                if !children[at].node.remove(member, id, memory) {
                    return false;
                }
                children[at].count -= 1;
                match children[at].node.first() {
                    Some(first) => children[at].first = first,
                    None => {
                        children.remove(at);
                        if children.is_empty() {
                            memory.lose(children);
                            *children = Vec::new();
                        }
                        return true;
                    }
                }
                if children[at].node.is_narrow() {
                    merge(children, at, memory);
                }
                true
            }
        }
    }

    /// Moves the memory of the leaf that contains a rank, and of the inner nodes that begin with that leaf. Returns the
    /// first rank after the leaf.
    fn defrag(&mut self, rank: u64, before: u64, mover: &mut Mover<'_>) -> u64 {
        match self {
            Node::Leaf(members) => {
                mover.list(members);
                before + members.len() as u64
            }
            Node::Inner(children) => {
                if rank == before {
                    mover.list(children);
                }
                let mut from = before;
                for child in children {
                    let end = from + u64::from(child.count);
                    if rank < end {
                        return child.node.defrag(rank, from, mover);
                    }
                    from = end;
                }
                from
            }
        }
    }

    fn walk(&self, skip: &mut u64, left: &mut usize, each: &mut dyn FnMut(f64, u32)) {
        match self {
            Node::Leaf(members) => {
                for member in members.iter().skip(*skip as usize).take(*left) {
                    each(member.score(), member.slot());
                    *left -= 1;
                }
                *skip = 0;
            }
            Node::Inner(children) => {
                for child in children {
                    if *left == 0 {
                        return;
                    }
                    if *skip >= u64::from(child.count) {
                        *skip -= u64::from(child.count);
                    } else {
                        child.node.walk(skip, left, each);
                    }
                }
            }
        }
    }
}

/// Merges a node that has few children with a neighbour, if both fit into one node with some space
/// left.
fn merge(children: &mut Vec<Child>, at: usize, memory: &mut Memory<'_>) {
    let left = at.saturating_sub(1);
    let Some([first, second]) = children.get_mut(left..left + 2) else {
        return;
    };
    let most = first.node.most();
    if first.node.width() + second.node.width() > most / 4 * 3 {
        return;
    }
    first.count += second.count;
    match (&mut first.node, &mut second.node) {
        (Node::Leaf(first), Node::Leaf(second)) => memory.append(first, second),
        (Node::Inner(first), Node::Inner(second)) => memory.append(first, second),
        _ => unreachable!("all leaves have the same depth"),
    }
    children.remove(left + 1);
}

impl Order {
    /// Returns the number of members.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds a member that the set does not contain yet.
    pub fn insert<'a>(&mut self, score: f64, slot: u32, id: impl Fn(u32) -> &'a [u8]) {
        let memory = &mut Memory {
            bytes: &mut self.memory,
            nodes: &mut self.nodes,
        };
        let Some(split) = self.root.insert(Member::new(score, slot), &id, memory) else {
            self.len += 1;
            return;
        };
        let first = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
        let child = Child {
            first: first.first().expect("a node that was split has members"),
            count: (self.len + 1) as u32 - split.count,
            node: first,
        };
        let mut children = Vec::new();
        memory.insert(&mut children, 0, child, INNER);
        memory.insert(&mut children, 1, split, INNER);
        self.root = Node::Inner(children);
        self.len += 1;
    }

    /// Removes a member. Returns true if the set contained the member.
    pub fn remove<'a>(&mut self, score: f64, slot: u32, id: impl Fn(u32) -> &'a [u8]) -> bool {
        let memory = &mut Memory {
            bytes: &mut self.memory,
            nodes: &mut self.nodes,
        };
        if !self.root.remove(Member::new(score, slot), &id, memory) {
            return false;
        }
        self.len -= 1;
        while let Node::Inner(children) = &mut self.root
            && children.len() <= 1
        {
            let only = children.pop();
            memory.lose(children);
            self.root = only.map_or(Node::Leaf(Vec::new()), |child| child.node);
        }
        true
    }

    /// Returns the score and the group at a rank.
    pub fn at(&self, rank: u64) -> Option<(f64, u32)> {
        if rank >= self.len {
            return None;
        }
        let (mut node, mut rank) = (&self.root, rank);
        loop {
            match node {
                Node::Leaf(members) => {
                    let member = members.get(rank as usize)?;
                    return Some((member.score(), member.slot()));
                }
                Node::Inner(children) => {
                    let mut children = children.iter();
                    node = loop {
                        let child = children.next()?;
                        if rank < u64::from(child.count) {
                            break &child.node;
                        }
                        rank -= u64::from(child.count);
                    };
                }
            }
        }
    }

    /// Calls `each` with up to `n` members in order, starting at a rank.
    pub fn range(&self, rank: u64, n: usize, each: &mut dyn FnMut(f64, u32)) {
        let (mut skip, mut left) = (rank, n);
        self.root.walk(&mut skip, &mut left, each);
    }

    /// Returns the number of members with a score of at most `most`.
    pub fn count_up_to(&self, most: f64) -> u64 {
        let key = Member::new(most, 0).key();
        let (mut node, mut count) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(members) => {
                    return count + members.partition_point(|m| m.key() <= key) as u64;
                }
                Node::Inner(children) => {
                    let behind = children.partition_point(|child| child.first.key() <= key);
                    let Some(at) = behind.checked_sub(1) else {
                        return count;
                    };
                    let before = children[..at].iter().map(|child| u64::from(child.count));
                    count += before.sum::<u64>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// Moves the memory of the member at a rank and its neighbours, to reduce fragmentation. Returns the next rank, or
    /// `None` at the end.
    pub fn defrag(&mut self, rank: u64, mover: &mut Mover<'_>) -> Option<u64> {
        let next = self.root.defrag(rank, 0, mover);
        (next < self.len).then_some(next)
    }

    /// Returns the memory use in bytes, without the value itself.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the number of memory blocks.
    pub fn pieces(&self) -> usize {
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn id_of(slot: u32) -> Vec<u8> {
        // The order of the numbers differs from the order of the ids, and some ids are prefixes of
        // others.
        format!(
            "{}{}",
            (slot.wrapping_mul(7919)) % 97,
            "x".repeat(slot as usize % 3)
        )
        .into_bytes()
    }

    fn verify(node: &Node) -> (u32, usize, usize) {
        match node {
            Node::Leaf(members) => {
                assert!(members.len() <= LEAF);
                let bytes = class(members.capacity() * size_of::<Member>());
                (members.len() as u32, bytes, usize::from(bytes > 0))
            }
            Node::Inner(children) => {
                assert!((1..=INNER).contains(&children.len()));
                let mut sum = (0, class(children.capacity() * size_of::<Child>()), 1);
                for child in children {
                    assert_eq!(child.node.first(), Some(child.first));
                    let (count, bytes, nodes) = verify(&child.node);
                    assert_eq!(count, child.count);
                    sum = (sum.0 + count, sum.1 + bytes, sum.2 + nodes);
                }
                sum
            }
        }
    }

    proptest! {
        #[test]
        fn an_order_is_a_sorted_set(
            changes in proptest::collection::vec((0..400_u32, -3..30_i32, any::<bool>()), 0..3000),
            most in -4..31_i32,
        ) {
            let ids: Vec<Vec<u8>> = (0..400).map(|slot| [id_of(slot), slot.to_string().into_bytes()].concat()).collect();
            let id = |slot: u32| &ids[slot as usize][..];
            let mut order = Order::default();
            let mut model = BTreeSet::new();
            for (n, &(slot, score, adds)) in changes.iter().enumerate() {
                let score = f64::from(score) / 2.0;
                let key = ((score * 2.0) as i64, ids[slot as usize].clone(), slot);
                if adds {
                    if model.insert(key) {
                        order.insert(score, slot, id);
                    }
                } else {
                    prop_assert_eq!(order.remove(score, slot, id), model.remove(&key));
                }
                if n % 100 == 0 {
                    let (count, bytes, nodes) = verify(&order.root);
                    prop_assert_eq!(u64::from(count), order.len());
                    prop_assert_eq!((bytes, nodes), (order.memory(), order.pieces()));
                }
            }
            prop_assert_eq!(order.len(), model.len() as u64);
            let expected: Vec<(f64, u32)> = model.iter().map(|(score, _, slot)| (*score as f64 / 2.0, *slot)).collect();
            let mut all = Vec::new();
            order.range(0, usize::MAX, &mut |score, slot| all.push((score, slot)));
            prop_assert_eq!(&all, &expected);
            for rank in 0..expected.len() + 1 {
                prop_assert_eq!(order.at(rank as u64), expected.get(rank).copied());
            }
            let mut some = Vec::new();
            order.range(7, 90, &mut |score, slot| some.push((score, slot)));
            prop_assert_eq!(&some[..], expected.get(7..expected.len().min(97)).unwrap_or_default());
            let most = f64::from(most) / 2.0;
            let count = expected.iter().filter(|(score, _)| *score <= most).count();
            prop_assert_eq!(order.count_up_to(most), count as u64);
        }
    }

    #[test]
    fn a_queue_takes_little_memory() {
        let mut order = Order::default();
        let none = |_: u32| &b""[..];
        for n in 0..200_000_u32 {
            order.insert(f64::from(n), n, none);
            if n >= 100_000 {
                assert!(order.remove(f64::from(n - 100_000), n - 100_000, none));
            }
        }
        assert_eq!(order.len(), 100_000);
        assert!(order.memory() < 14 * 100_000, "{}", order.memory());
    }
}
