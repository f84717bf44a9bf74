//! Merges several indexes into one.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::secondary::Secondary;
use super::writer::Copied;
use super::{Options, Writer, files};
use crate::loser_tree::LoserTree;
use crate::zipnum::cluster::block::Block;
use crate::{Error, Work};

/// Maximum number of indexes that are merged at once; more are merged in rounds. Each index takes the memory
/// of a block.
const MAX_INPUTS: usize = 1024;
/// Maximum number of indexes whose files stay open. If more indexes are merged, a file is opened
/// for each read.
const MAX_OPEN_INPUTS: usize = 32;
/// Minimum compressed size in bytes of a block that counts as large, regardless of its number of lines.
const HEAVY: u64 = 16 << 10;
/// Number of lines after which progress is reported.
const PROGRESS_INTERVAL: u64 = 1024;

/// Merges the indexes with this stem in the folders `inputs` into another index, which gets all lines, including equal
/// ones, sorted. `work` advances by a step for each line.
///
/// A block is copied unchanged if no line of another index falls within it, so that merging a small index into a large
/// one is cheap. Blocks that are too small are joined.
///
/// # Errors
/// [`Error::Damaged`] if a part of an index that is read is damaged; blocks that are copied are not decompressed.
pub fn merge(stem: &str, inputs: &[PathBuf], out: &mut Writer, work: &Work) -> Result<(), Error> {
    let inputs = inputs
        .iter()
        .map(|folder| (folder.as_path(), stem.to_owned()));
    merge_all(inputs.collect(), MAX_INPUTS, out, work)
}

/// Merges indexes, each given by folder and stem, at most `at_once` at a time.
pub(super) fn merge_all(
    inputs: Vec<(&Path, String)>,
    at_once: usize,
    out: &mut Writer,
    work: &Work,
) -> Result<(), Error> {
    let folder = out.folder().to_owned();
    let mut inputs = inputs;
    let mut rounds = Rounds {
        folder: &folder,
        stems: Vec::new(),
    };
    while inputs.len() > at_once {
        let mut merged = Vec::new();
        for some in inputs.chunks(at_once.max(2)) {
            let stem = format!("merging-{}-{}", out.stem(), rounds.stems.len());
            rounds.stems.push(stem.clone());
            let mut part = Writer::create(&folder, &stem, out.options())?;
            // Intermediate rounds are not counted: each line is counted in the last round.
            merge_at_once(some, &mut part, &mut |_| work.check())?;
            part.finish()?;
            merged.push((&*folder, stem));
        }
        inputs = merged;
    }
    merge_at_once(&inputs, out, &mut |lines| work.advance(lines))
}

/// Intermediate indexes, which are removed when the merge ends.
struct Rounds<'a> {
    folder: &'a Path,
    stems: Vec<String>,
}

impl Drop for Rounds<'_> {
    fn drop(&mut self) {
        for stem in &self.stems {
            let (gz, idx) = files(self.folder, stem);
            // Errors are ignored: after a failure, the whole folder of the index is removed.
            let _ = fs::remove_file(gz);
            let _ = fs::remove_file(idx);
        }
    }
}

/// An index, and the position of the merge in it.
struct Input {
    secondary: Secondary,
    here: Here,
    /// The block after the current block.
    after: Option<Block>,
    /// The text of the current block, once it is decompressed.
    text: Vec<u8>,
    /// Lower bound of the remaining lines: the current line, or the beginning of the current block with a space.
    head: Vec<u8>,
    line: Range<usize>,
    /// The first bytes of the lower bound. These bytes usually suffice for comparisons, and save a
    /// cache miss.
    rank: u128,
}

enum Here {
    /// Before a block.
    Block(Block),
    /// Before a line.
    Line,
    End,
}

fn merge_at_once(
    inputs: &[(&Path, String)],
    out: &mut Writer,
    advance: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let keep = inputs.len() <= MAX_OPEN_INPUTS;
    let inputs = inputs.iter();
    let inputs = inputs.map(|(folder, stem)| Input::open(folder, stem, keep));
    let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() {
        return advance(0);
    }
    let mut tree = LoserTree::new(inputs.len(), |a, b| before(&inputs, a, b));
    let mut packed = Vec::new();
    let mut limit = Vec::new();
    let mut last = None;
    let mut steps = 0;
    loop {
        let first = tree.winner();
        let second = || tree.second(|a, b| before(&inputs, a, b));
        match &inputs[first].here {
            Here::End => return advance(steps),
            Here::Block(block) => {
                let others = second().map(|second| &inputs[second]);
                if out.may_copy()
                    && is_worth(block, out.options())
                    && inputs[first].is_apart(others)
                {
                    let copied = inputs[first].copy(out)?;
                    advance(copied)?;
                } else {
                    inputs[first].unpack(&mut packed)?;
                }
            }
            Here::Line => {
                // An input that came first twice in a row probably comes first again, so emit its lines up to
                // the head of the second input.
                let mut alone = false;
                if last == Some(first) {
                    let second = second().map(|second| &inputs[second]);
                    let second = second.filter(|second| !matches!(second.here, Here::End));
                    alone = second.is_none();
                    limit.clear();
                    limit.extend_from_slice(second.map_or(&[], Input::head));
                }
                let input = &mut inputs[first];
                loop {
                    out.push(input.head())?;
                    steps += 1;
                    if steps >= PROGRESS_INTERVAL {
                        advance(std::mem::take(&mut steps))?;
                    }
                    input.next_line()?;
                    let goes_on = matches!(input.here, Here::Line)
                        && last == Some(first)
                        && (alone || input.head() < &limit[..]);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        last = Some(first);
        tree.replay(|a, b| before(&inputs, a, b));
    }
}

/// Returns whether the next line of one input comes before the next line of another input.
fn before(inputs: &[Input], a: usize, b: usize) -> bool {
    let (first, second) = (&inputs[a], &inputs[b]);
    match (&first.here, &second.here) {
        (Here::End, _) => false,
        (_, Here::End) => true,
        _ => {
            let order = first.rank.cmp(&second.rank);
            let order = order.then_with(|| first.head().cmp(second.head()));
            order.then(a.cmp(&b)).is_lt()
        }
    }
}

/// Returns whether a block is neither too small nor too large to be copied.
fn is_worth(block: &Block, options: Options) -> bool {
    let lines = block.lines.unwrap_or(0);
    let half = options.lines as u64 / 2;
    (lines >= half || block.length >= HEAVY) && lines <= options.lines as u64 * 2
}

impl Input {
    fn open(folder: &Path, stem: &str, keep: bool) -> Result<Input, Error> {
        let mut secondary = Secondary::open(folder, stem, keep)?;
        let mut input = Input {
            after: secondary.next()?,
            secondary,
            here: Here::End,
            text: Vec::new(),
            head: Vec::new(),
            line: 0..0,
            rank: 0,
        };
        input.next_block()?;
        Ok(input)
    }

    fn head(&self) -> &[u8] {
        match self.here {
            Here::Line => &self.text[self.line.clone()],
            Here::Block(_) | Here::End => &self.head,
        }
    }

    /// Returns whether all lines of the block come before the lines of all other inputs, of which `second` is the
    /// first.
    fn is_apart(&self, second: Option<&Input>) -> bool {
        let Some(second) = second.filter(|second| !matches!(second.here, Here::End)) else {
            return true;
        };
        // The lines of a block may extend up to the first line of the next block.
        let Some(after) = &self.after else {
            return false;
        };
        let head = second.head();
        match head.strip_prefix(&after.begin[..]) {
            Some(rest) => !rest.starts_with(b" ") && rest > &b" "[..],
            None => head > &after.begin[..],
        }
    }

    /// Copies the block, and moves to the next block. Returns the number of lines copied.
    fn copy(&mut self, out: &mut Writer) -> Result<u64, Error> {
        let Here::Block(block) = &mut self.here else {
            return Ok(0);
        };
        let lines = block.lines.unwrap_or(0);
        let copied = Copied {
            begin: std::mem::take(&mut block.begin),
            length: block.length,
            lines,
        };
        let from = block.offset;
        out.copy(&self.secondary.source()?, from, copied)?;
        self.next_block()?;
        Ok(lines)
    }

    /// Decompresses the block, and moves to its first line.
    fn unpack(&mut self, packed: &mut Vec<u8>) -> Result<(), Error> {
        if let Here::Block(block) = &self.here {
            self.secondary.text(block, packed, &mut self.text)?;
            // To keep the number of open files low, an input closes its file before it decompresses a block.
            // An input keeps its file open while it copies blocks.
            self.secondary.release();
            self.here = Here::Line;
            self.line = 0..0;
            self.find_line(0)?;
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<(), Error> {
        self.find_line(self.line.end + 1)
    }

    /// Moves to the line that begins at this offset of the text, or to the next block after the last line.
    fn find_line(&mut self, begin: usize) -> Result<(), Error> {
        let rest = &self.text[begin..];
        let Some(length) = memchr::memchr(b'\n', rest) else {
            return self.next_block();
        };
        self.line = begin..begin + length;
        self.rank = rank(self.head());
        Ok(())
    }

    fn next_block(&mut self) -> Result<(), Error> {
        let Some(block) = self.after.take() else {
            self.here = Here::End;
            self.text = Vec::new();
            return Ok(());
        };
        self.after = self.secondary.next()?;
        self.head.clear();
        self.head.extend_from_slice(&block.begin);
        self.head.push(b' ');
        self.here = Here::Block(block);
        self.rank = rank(self.head());
        Ok(())
    }
}

/// Returns the first bytes as a number with the same sort order.
fn rank(head: &[u8]) -> u128 {
    if let Some(first) = head.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    let mut first = [0; 16];
    for (place, byte) in first.iter_mut().zip(head) {
        *place = *byte;
    }
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of open files in a folder.
    fn open_files(folder: &Path) -> usize {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let paths = all.filter_map(|one| fs::read_link(one.ok()?.path()).ok());
        paths.filter(|path| path.starts_with(folder)).count()
    }

    #[test]
    fn merging_many_indexes_limits_open_files() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            lines: 2,
            level: 1,
            threads: 0,
        };
        let write = |stem: &str, numbers: Range<u32>| {
            let mut writer = Writer::create(dir.path(), stem, options).unwrap();
            for n in numbers {
                writer.push(format!("{n:08} 2020 {{}}").as_bytes()).unwrap();
            }
            writer.finish().unwrap();
        };
        let mut inputs = Vec::new();
        for n in 0..400 {
            write(&n.to_string(), n * 8..n * 8 + 8);
            inputs.push((dir.path(), n.to_string()));
        }
        let mut out = Writer::create(dir.path(), "out", options).unwrap();
        let (mut most, mut lines) = (0, 0);
        let mut count = |done: u64| {
            most = most.max(open_files(dir.path()));
            lines += done;
            Ok(())
        };
        merge_at_once(&inputs, &mut out, &mut count).unwrap();
        let stats = out.finish().unwrap();
        assert_eq!((stats.lines, lines), (3200, 3200));
        assert!(stats.copied > 700, "{stats:?}");
        assert!((2..300).contains(&most), "{most}");
    }
}
