//! A loser tree, which merges many sorted inputs: it finds the input with the first item after an
//! input has advanced.

/// A tree of losers: the winner is the input that comes first, and each inner node holds the loser of its
/// match. After the winner has changed, finding the next winner takes one comparison per level of the tree.
///
/// ```
/// use crawlspace_index::LoserTree;
/// let mut inputs = [vec![4, 1], vec![3, 2]];
/// // What has ended comes after all others.
/// let head = |inputs: &[Vec<u32>; 2], n: usize| inputs[n].last().copied().unwrap_or(u32::MAX);
/// let mut tree = LoserTree::new(2, |a, b| head(&inputs, a) < head(&inputs, b));
/// let mut merged = Vec::new();
/// while let Some(first) = inputs[tree.winner()].pop() {
///     merged.push(first);
///     tree.replay(|a, b| head(&inputs, a) < head(&inputs, b));
/// }
/// assert_eq!(merged, [1, 2, 3, 4]);
/// ```
#[derive(Debug)]
pub struct LoserTree {
    /// The loser of the match at each inner node. The entry at index 0 is the winner.
    losers: Vec<usize>,
    players: usize,
}

impl LoserTree {
    /// Builds the tree. `before(a, b)` returns whether player `a` comes before player `b`; players are numbered from 0.
    pub fn new(players: usize, before: impl Fn(usize, usize) -> bool) -> LoserTree {
        // Node n has the children 2n and 2n + 1; the leaves, from node `players` on, are the players.
        let mut winners: Vec<usize> = vec![0; players];
        winners.extend(0..players);
        let mut losers = vec![0; players.max(1)];
        for node in (1..players).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if before(right, left) {
                (right, left)
            } else {
                (left, right)
            };
            winners[node] = winner;
            losers[node] = loser;
        }
        losers[0] = match players {
            0 | 1 => 0,
            _ => winners[1],
        };
        LoserTree { losers, players }
    }

    /// Returns the player that comes first.
    pub fn winner(&self) -> usize {
        self.losers[0]
    }

    /// Returns the player that would come first without the winner; `None` if there is no other player.
    pub(crate) fn second(&self, before: impl Fn(usize, usize) -> bool) -> Option<usize> {
        let mut node = (self.players + self.winner()) / 2;
        let mut second = None;
        while node > 0 {
            let loser = self.losers[node];
            if second.is_none_or(|second| before(loser, second)) {
                second = Some(loser);
            }
            node /= 2;
        }
        second
    }

    /// Finds the winner again after the input of the current winner has changed.
    pub fn replay(&mut self, before: impl Fn(usize, usize) -> bool) {
        let mut winner = self.winner();
        let mut node = (self.players + winner) / 2;
        while node > 0 {
            if before(self.losers[node], winner) {
                std::mem::swap(&mut self.losers[node], &mut winner);
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_wins_and_all_are_returned() {
        for players in 1..40usize {
            // The values of each player, and the number of values taken.
            let values: Vec<Vec<usize>> = (0..players)
                .map(|n| {
                    (0..n % 7)
                        .map(|m| (n * 31 + m * m * 17) % 50 + m * 50)
                        .collect()
                })
                .collect();
            let mut done = vec![0; players];
            let head = |done: &[usize], n: usize| {
                let value = values[n].get(done[n]).copied();
                (value.unwrap_or(usize::MAX), n)
            };
            let mut tree = LoserTree::new(players, |a, b| head(&done, a) < head(&done, b));
            let mut seen = Vec::new();
            loop {
                let first = tree.winner();
                let expected = (0..players).map(|n| head(&done, n)).min().unwrap();
                assert_eq!(head(&done, first), expected);
                let second = tree.second(|a, b| head(&done, a) < head(&done, b));
                let others = (0..players).filter(|n| *n != first);
                assert_eq!(
                    second.map(|n| head(&done, n)),
                    others.map(|n| head(&done, n)).min()
                );
                if expected.0 == usize::MAX {
                    break;
                }
                seen.push(expected.0);
                done[first] += 1;
                tree.replay(|a, b| head(&done, a) < head(&done, b));
            }
            let mut all = values.concat();
            all.sort_unstable();
            assert_eq!(seen, all);
        }
    }
}
