//! Detects cycles: a tag must not carry itself through other tags.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::TagId;
use super::edges::Edges;

type Seen = HashSet<TagId, BuildHasherDefault<FxHasher>>;

/// One side of a bidirectional search.
struct End {
    seen: Seen,
    next: Vec<TagId>,
    /// Number of edges visited.
    work: usize,
}

impl End {
    fn at(tag: TagId) -> End {
        End {
            seen: Seen::from_iter([tag]),
            next: vec![tag],
            work: 0,
        }
    }
}

/// Returns true if `from` carries `to`, directly or indirectly. The search starts from both tags at
/// once. It is fast if one side is small, which is common: most tags carry few tags or have no
/// carriers.
pub fn carries(edges: &Edges, from: TagId, to: TagId) -> bool {
    if from == to {
        return true;
    }
    if edges.carried(from).is_empty() || edges.carriers().count(to) == 0 {
        return false;
    }
    let (mut down, mut up) = (End::at(from), End::at(to));
    loop {
        let (Some(&below), Some(&above)) = (down.next.last(), up.next.last()) else {
            return false;
        };
        let (carried, carriers) = (edges.carried(below), edges.carriers().count(above));
        let mut met = false;
        if down.work + carried.len() <= up.work + carriers {
            down.next.pop();
            down.work += carried.len() + 1;
            for &tag in carried {
                met |= up.seen.contains(&tag);
                if down.seen.insert(tag) {
                    down.next.push(tag);
                }
            }
        } else {
            up.next.pop();
            up.work += carriers + 1;
            edges.carriers().each(above, |tag| {
                met |= down.seen.contains(&tag);
                if up.seen.insert(tag) {
                    up.next.push(tag);
                }
                !met
            });
        }
        if met {
            return true;
        }
    }
}

/// Finds a cycle that can be reached from these tags. Returns two tags of the cycle: each carries
/// the other, directly or indirectly.
pub fn below(edges: &Edges, tags: &[TagId]) -> Option<(TagId, TagId)> {
    let mut done = Seen::default();
    let mut open = Seen::default();
    // The current path: each tag with the number of its carried tags that were visited.
    let mut path: Vec<(TagId, usize)> = Vec::new();
    for &tag in tags {
        if edges.carried(tag).is_empty() || done.contains(&tag) {
            continue;
        }
        open.insert(tag);
        path.push((tag, 0));
        while let Some((tag, looked)) = path.last_mut() {
            let (tag, at) = (*tag, *looked);
            *looked += 1;
            match edges.carried(tag).get(at) {
                None => {
                    path.pop();
                    open.remove(&tag);
                    done.insert(tag);
                }
                Some(next) if open.contains(next) => return Some((*next, tag)),
                Some(next) if done.contains(next) => {}
                // The tag carries no tags, which is by far the most frequent case.
                Some(next) if edges.carried(*next).is_empty() => {}
                Some(next) => {
                    open.insert(*next);
                    path.push((*next, 0));
                }
            }
        }
    }
    None
}

/// Returns these tags and all tags that carry them, directly or indirectly. Returns `None` if there
/// are more than `most`.
pub fn above(edges: &Edges, tags: Vec<TagId>, most: usize) -> Option<Vec<TagId>> {
    let mut seen = Seen::default();
    let mut all = tags;
    all.retain(|&tag| seen.insert(tag));
    let mut at = 0;
    while let Some(&tag) = all.get(at) {
        if all.len() > most || edges.carriers().count(tag) > most {
            return None;
        }
        edges.carriers().each(tag, |carrier| {
            if seen.insert(carrier) {
                all.push(carrier);
            }
            all.len() <= most
        });
        at += 1;
    }
    (all.len() <= most).then_some(all)
}
