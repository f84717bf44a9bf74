//! Finds cycles of packages that require each other.

/// Returns the strongly connected components with more than one node, and nodes with an edge to themselves. Each
/// component begins with its smallest number.
///
/// Uses Tarjan's algorithm without recursion, because a chain of requirements may include the whole set.
pub(super) fn cycles(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut numbers: Vec<Option<usize>> = vec![None; edges.len()];
    let mut lowest = vec![0; edges.len()];
    let mut on_stack = vec![false; edges.len()];
    let mut stack = Vec::new();
    let mut next = 0;
    for root in 0..edges.len() {
        if numbers[root].is_some() {
            continue;
        }
        // The current node, and the index of its next edge.
        let mut path = vec![(root, 0)];
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge == 0 {
                numbers[node] = Some(next);
                lowest[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = edges[node].get(*edge) {
                *edge += 1;
                match numbers[to] {
                    None => path.push((to, 0)),
                    Some(number) if on_stack[to] => lowest[node] = lowest[node].min(number),
                    Some(_) => {}
                }
                continue;
            }
            path.pop();
            if let Some(&(before, _)) = path.last() {
                lowest[before] = lowest[before].min(lowest[node]);
            }
            if numbers[node] == Some(lowest[node]) {
                let start = stack.iter().rposition(|&other| other == node).unwrap_or(0);
                let mut group = stack.split_off(start);
                for &member in &group {
                    on_stack[member] = false;
                }
                if group.len() > 1 || edges[node].contains(&node) {
                    group.sort_unstable();
                    found.push(group);
                }
            }
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::cycles;

    #[test]
    fn cycle_contains_all_packages_that_reach_one_another() {
        assert!(cycles(&[]).is_empty());
        assert!(cycles(&[vec![1, 2], vec![2], vec![]]).is_empty());
        assert_eq!(cycles(&[vec![0]]), [[0]]);
        assert_eq!(cycles(&[vec![1], vec![2], vec![0, 3], vec![]]), [[0, 1, 2]]);
        let two = [vec![1], vec![0, 2], vec![3], vec![4], vec![2], vec![4]];
        assert_eq!(cycles(&two), [vec![0, 1], vec![2, 3, 4]]);
    }

    #[test]
    fn chain_may_be_long() {
        let n = 200_000;
        let mut chain: Vec<Vec<usize>> = (1..=n).map(|next| vec![next]).collect();
        chain.push(Vec::new());
        assert!(cycles(&chain).is_empty());
        chain[n].push(0);
        assert_eq!(cycles(&chain)[0].len(), n + 1);
    }
}
