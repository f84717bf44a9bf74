//! A persistent vector: a long list whose copies share equal elements.
//!
//! The list is a tree of narrow nodes. Copying the list increments one reference count. Afterwards,
//! the first change of an element copies the element and the few nodes above it. Therefore a reader on
//! another thread can use its copy of a list of millions of elements while the list changes, and each
//! change takes microseconds.

use std::sync::Arc;

use smallvec::SmallVec;

use crawlspace_compact::linear::List;

/// Number of children per node. Copying a node increments the reference count of each child, and
/// each increment may miss the CPU cache.
const FAN: usize = 1 << BITS;
const BITS: u32 = 5;

/// Size of the reference counts of an `Arc`, in bytes.
pub const COUNTS: usize = 16;

#[derive(Clone)]
pub struct Pages<E> {
    root: Option<Arc<Node<E>>>,
    len: usize,
    /// Number of levels of inner nodes.
    height: u32,
}

#[derive(Clone)]
enum Node<E> {
    Inner(SmallVec<[Arc<Node<E>>; FAN]>),
    Leaves(SmallVec<[Arc<E>; FAN]>),
}

impl<E> Default for Pages<E> {
    fn default() -> Self {
        Pages {
            root: None,
            len: 0,
            height: 0,
        }
    }
}

impl<E: Clone> Pages<E> {
    /// Returns a mutable reference to the element. Returns `None` if a copy of the list shares the element.
    pub fn own_mut(&mut self, at: usize) -> Option<&mut E> {
        if at >= self.len {
            return None;
        }
        let mut node = Arc::get_mut(self.root.as_mut()?)?;
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Inner(nodes) => node = Arc::get_mut(nodes.get_mut(child(at, shift))?)?,
                Node::Leaves(leaves) => return leaves.get_mut(at % FAN).and_then(Arc::get_mut),
            }
            shift -= BITS;
        }
    }
}

impl<E: Clone> List for Pages<E> {
    type Item = E;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, at: usize) -> Option<&E> {
        if at >= self.len {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Inner(nodes) => node = nodes.get(child(at, shift))?,
                Node::Leaves(leaves) => return leaves.get(at % FAN).map(|leaf| &**leaf),
            }
            shift -= BITS;
        }
    }

    fn memory(&self) -> usize {
        let mut nodes = 0;
        let mut level = self.len;
        if self.len > 0 {
            for _ in 0..=self.height {
                level = level.div_ceil(FAN);
                nodes += level;
            }
        }
        nodes * (size_of::<Node<E>>() + COUNTS) + self.len * (size_of::<E>() + COUNTS)
    }

    /// Returns a mutable reference to the element. Copies the element first if a copy of the list shares it.
    fn get_mut(&mut self, at: usize) -> Option<&mut E> {
        if at >= self.len {
            return None;
        }
        let mut node = Arc::make_mut(self.root.as_mut()?);
        let mut shift = self.height * BITS;
        loop {
            match node {
                Node::Inner(nodes) => node = Arc::make_mut(nodes.get_mut(child(at, shift))?),
                Node::Leaves(leaves) => return leaves.get_mut(at % FAN).map(Arc::make_mut),
            }
            shift -= BITS;
        }
    }

    fn push(&mut self, element: E) {
        match self.root.take() {
            None => self.root = Some(chain(0, element)),
            Some(root) if self.len == FAN << (self.height * BITS) => {
                let next = chain(self.height, element);
                self.root = Some(Arc::new(Node::Inner([root, next].into_iter().collect())));
                self.height += 1;
            }
            Some(mut root) => {
                push(Arc::make_mut(&mut root), self.height, self.len, element);
                self.root = Some(root);
            }
        }
        self.len += 1;
    }

    fn pop(&mut self) -> Option<E> {
        let element = pop(Arc::make_mut(self.root.as_mut()?))?;
        self.len -= 1;
        if self.len == 0 {
            *self = Pages::default();
        }
        while let Some(Node::Inner(nodes)) = self.root.as_deref() {
            if nodes.len() > 1 {
                break;
            }
            let only = nodes.first().cloned();
            self.root = only;
            self.height -= 1;
        }
        Some(Arc::unwrap_or_clone(element))
    }
}

fn child(at: usize, shift: u32) -> usize {
    (at >> shift) % FAN
}

/// Creates a node of this height with one element below it.
fn chain<E>(height: u32, element: E) -> Arc<Node<E>> {
    let mut node = Node::Leaves([Arc::new(element)].into_iter().collect());
    for _ in 0..height {
        node = Node::Inner([Arc::new(node)].into_iter().collect());
    }
    Arc::new(node)
}

fn push<E: Clone>(node: &mut Node<E>, height: u32, at: usize, element: E) {
    match node {
        Node::Leaves(leaves) => leaves.push(Arc::new(element)),
        Node::Inner(nodes) => match nodes.get_mut(child(at, height * BITS)) {
            Some(node) => push(Arc::make_mut(node), height - 1, at, element),
            None => nodes.push(chain(height - 1, element)),
        },
    }
}

fn pop<E: Clone>(node: &mut Node<E>) -> Option<Arc<E>> {
    match node {
        Node::Leaves(leaves) => leaves.pop(),
        Node::Inner(nodes) => {
            let last = Arc::make_mut(nodes.last_mut()?);
            let element = pop(last);
            let empty = match last {
                Node::Inner(nodes) => nodes.is_empty(),
                Node::Leaves(leaves) => leaves.is_empty(),
            };
            if empty {
                nodes.pop();
            }
            element
        }
    }
}

/// A list of small numbers with the default value 0.
#[derive(Clone, Default)]
pub struct Numbers(Pages<[u32; PAGE]>);

const PAGE: usize = 64;

impl Numbers {
    pub fn get(&self, at: u32) -> u32 {
        let at = at as usize;
        self.0.get(at / PAGE).map_or(0, |page| page[at % PAGE])
    }

    pub fn set(&mut self, at: u32, number: u32) {
        if self.get(at) == number {
            return;
        }
        let at = at as usize;
        while self.0.len() <= at / PAGE {
            self.0.push([0; PAGE]);
        }
        if let Some(page) = self.0.get_mut(at / PAGE) {
            page[at % PAGE] = number;
        }
    }

    /// Returns an upper bound of the indexes in use. All numbers at or above this bound are 0.
    pub fn end(&self) -> u32 {
        (self.0.len() * PAGE) as u32
    }

    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    pub fn pieces(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_keeps_its_content() {
        let mut list = Pages::default();
        let mut copies = Vec::new();
        for n in 0..5000_usize {
            list.push(n);
            if n.is_power_of_two() || n % 1000 == 31 {
                copies.push(list.clone());
                *list.get_mut(n / 2).unwrap() += 0;
            }
        }
        let full = list.clone();
        for n in 0..5000 {
            *list.get_mut(n).unwrap() += 1;
        }
        for copy in copies.iter().chain([&full]) {
            assert!((0..copy.len()).all(|n| copy.get(n) == Some(&n)));
            assert_eq!(copy.get(copy.len()), None);
        }
        for n in (0..5000).rev() {
            assert_eq!(list.pop(), Some(n + 1));
            assert_eq!(list.len(), n);
            assert_eq!(list.get(n), None);
            assert_eq!(list.get(n / 2).is_some(), n > 0);
        }
        assert_eq!((list.pop(), list.memory()), (None, 0));
        assert!((0..5000).all(|n| full.get(n) == Some(&n)));
    }
}
