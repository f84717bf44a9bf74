//! Writes an index.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pack::{Batch, Packers};
use super::{Options, files, part};
use crate::Error;
use crate::lines::MAX_LINE;
use crate::sorted::line::Shape;

/// Minimum uncompressed size in bytes of a full block, regardless of its number of lines.
const FULL: usize = 512 << 10;
/// Size of the text of a batch for a thread, in bytes.
const BATCH: usize = 128 << 10;
/// Maximum number of blocks waiting to be copied while an earlier block is being compressed.
const MAX_WAITING: usize = 4096;
/// Maximum number of pieces waiting to be written; each may keep a file open.
const MAX_PIECES: usize = 256;
/// Size of the write buffers, and of the buffer for copying blocks, in bytes.
const BUFFER: usize = 256 << 10;

/// Writes an index from sorted lines.
///
/// Blocks are compressed on threads, which end when the writer is dropped. A writer that is dropped before
/// [`finish`](Writer::finish) leaves an incomplete index.
///
/// ```
/// use crawlspace_index::zipnum::{Blocks, Options, Writer};
/// let folder = tempfile::tempdir()?;
/// let mut writer = Writer::create(folder.path(), "url", Options::by_url())?;
/// writer.push(b"com,example)/ 20160101000000 {\"url\":\"http://example.com/\"}")?;
/// assert_eq!(writer.finish()?.lines, 1);
/// let mut blocks = Blocks::open(folder.path(), "url")?;
/// assert!(blocks.next()?.is_some_and(|text| text.starts_with(b"com,example)/ 2016")));
/// assert!(blocks.next()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    folder: PathBuf,
    options: Options,
    part: String,
    gz: Output,
    idx: Output,
    packers: Packers,
    /// The complete blocks, followed by the lines of the open block, each with its line end.
    batch: Batch,
    /// End offset of each line of the open block.
    ends: Vec<usize>,
    /// Lower bound of the next line.
    last: Vec<u8>,
    /// Blocks that are not written yet, in order.
    order: VecDeque<Item>,
    /// Number of blocks in `order` that are to be copied.
    waiting: usize,
    /// A compressed batch, and the number of its blocks that were written.
    packed: Option<(Batch, usize)>,
    spare: Vec<Batch>,
    /// Buffer for copying.
    room: Vec<u8>,
    stats: Stats,
}

/// Counts of the lines and blocks that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of lines.
    pub lines: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of blocks copied unchanged from other indexes; `blocks` includes them.
    pub copied: u64,
    /// Compressed size of the blocks in bytes.
    pub packed: u64,
}

/// A file that is being written.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
}

/// Blocks that are to be written next.
enum Item {
    /// A block that is being compressed.
    Packed { begin: Box<[u8]>, lines: u64 },
    /// Blocks of another index.
    Copied(Run),
}

/// Consecutive blocks of another index.
struct Run {
    source: Source,
    from: u64,
    length: u64,
    blocks: Vec<Copied>,
}

/// The file that contains the blocks of another index.
#[derive(Clone)]
pub(super) struct Source {
    pub path: Arc<Path>,
    pub file: Arc<File>,
}

/// A block of another index.
pub(super) struct Copied {
    /// The key and the timestamp of its first line.
    pub begin: Box<[u8]>,
    pub length: u64,
    pub lines: u64,
}

impl Writer {
    /// Creates an index in a folder, which must not contain an index with this stem.
    ///
    /// # Errors
    /// Fails if the files cannot be created.
    pub fn create(folder: &Path, stem: &str, options: Options) -> Result<Writer, Error> {
        let (gz, idx) = files(folder, stem);
        let options = Options {
            lines: options.lines.max(1),
            ..options
        };
        Ok(Writer {
            folder: folder.to_owned(),
            part: part(stem),
            gz: Output::create(gz)?,
            idx: Output::create(idx)?,
            packers: Packers::new(options.level, options.threads),
            options,
            batch: Batch::default(),
            ends: Vec::new(),
            last: Vec::new(),
            order: VecDeque::new(),
            waiting: 0,
            packed: None,
            spare: Vec::new(),
            room: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Returns the stem of the index, which names its files.
    pub(super) fn stem(&self) -> &str {
        self.part.split('.').next().unwrap_or_default()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn options(&self) -> Options {
        self.options
    }

    /// Writes a line, given without a line end. The line must not sort before the previous line.
    ///
    /// # Errors
    /// Fails if the line sorts before the previous line, does not begin with a key and a timestamp, or is
    /// longer than [`MAX_LINE`]. Also fails if the files cannot be written, for example because the disk is
    /// full ([`Error::is_full`]).
    pub fn push(&mut self, line: &[u8]) -> Result<(), Error> {
        if line < &self.last[..] {
            return Err(self.refused("sorts before the previous line", line));
        }
        if line.len() > MAX_LINE {
            return Err(self.refused("exceeds the maximum length of a line", line));
        }
        let Some(shape) = Shape::of(line) else {
            return Err(self.refused("does not begin with a key and a timestamp", line));
        };
        let key = &line[..shape.key];
        if memchr::memchr(b'\t', key).is_some() || memchr::memchr(b'\n', line).is_some() {
            return Err(self.refused("contains a tab in its key, or a line feed", line));
        }
        self.batch.text.extend_from_slice(line);
        self.batch.text.push(b'\n');
        self.ends.push(self.batch.text.len());
        self.last.clear();
        self.last.extend_from_slice(line);
        if self.ends.len() >= self.options.lines.saturating_mul(2) {
            self.cut(self.options.lines)?;
        } else if self.open_bytes() >= FULL {
            self.cut(self.ends.len())?;
        }
        Ok(())
    }

    /// Completes the index, without syncing it to the disk.
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn finish(mut self) -> Result<Stats, Error> {
        self.close()?;
        self.dispatch()?;
        self.settle(0)?;
        self.gz.flush()?;
        self.idx.flush()?;
        Ok(self.stats)
    }

    /// Returns whether a block may be copied at this position. Returns false if the open block
    /// would become too small.
    pub(super) fn may_copy(&self) -> bool {
        let lines = self.ends.len();
        lines == 0 || lines >= self.options.lines / 2 || self.open_bytes() >= FULL / 4
    }

    /// Copies the next block of another index.
    pub(super) fn copy(&mut self, source: &Source, from: u64, block: Copied) -> Result<(), Error> {
        self.close()?;
        let begin = [&block.begin[..], b" "].concat();
        if begin < self.last && !self.last.starts_with(&begin) {
            return Err(self.refused("sorts before the previous line", &begin));
        }
        self.last = begin;
        let length = block.length;
        self.waiting += 1;
        match self.order.back_mut() {
            Some(Item::Copied(run))
                if run.from.checked_add(run.length) == Some(from)
                    && Arc::ptr_eq(&run.source.file, &source.file) =>
            {
                run.length += length;
                run.blocks.push(block);
            }
            _ => self.order.push_back(Item::Copied(Run {
                source: source.clone(),
                from,
                length,
                blocks: vec![block],
            })),
        }
        if self.waiting >= MAX_WAITING || self.order.len() >= MAX_PIECES {
            self.dispatch()?;
            while self.waiting >= MAX_WAITING / 2 || self.order.len() >= MAX_PIECES / 2 {
                let under_way = self.packers.under_way();
                self.settle(under_way.saturating_sub(1))?;
                if under_way == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the start of the open block.
    fn open(&self) -> usize {
        self.batch.ends.last().copied().unwrap_or(0)
    }

    fn open_bytes(&self) -> usize {
        self.batch.text.len() - self.open()
    }

    /// Turns the lines of the open block into complete blocks.
    fn close(&mut self) -> Result<(), Error> {
        let lines = self.ends.len();
        if lines > self.options.lines.saturating_mul(3) / 2 {
            self.cut(lines / 2)?;
        }
        self.cut(self.ends.len())
    }

    /// Turns the first `lines` lines of the open block into a complete block.
    fn cut(&mut self, lines: usize) -> Result<(), Error> {
        let Some(&end) = lines.checked_sub(1).and_then(|last| self.ends.get(last)) else {
            return Ok(());
        };
        let block = self.batch.text.get(self.open()..end).unwrap_or_default();
        let begin = Shape::of(block).map_or(block, |shape| shape.both(block));
        self.order.push_back(Item::Packed {
            begin: begin.into(),
            lines: lines as u64,
        });
        self.batch.ends.push(end);
        self.ends.drain(..lines);
        if end >= BATCH {
            self.dispatch()
        } else {
            Ok(())
        }
    }

    /// Sends all complete blocks to the compression threads.
    fn dispatch(&mut self) -> Result<(), Error> {
        let open = self.open();
        if open > 0 {
            let mut next = self.spare.pop().unwrap_or_default();
            next.text.extend_from_slice(&self.batch.text[open..]);
            self.batch.text.truncate(open);
            for end in &mut self.ends {
                *end -= open;
            }
            self.settle(self.packers.room().saturating_sub(1))?;
            let batch = std::mem::replace(&mut self.batch, next);
            let given = self.packers.give(batch);
            given.map_err(Error::io(&self.gz.path, "compress"))?;
        }
        Ok(())
    }

    /// Writes blocks until at most `under_way` batches are in progress and the next block is in one of these
    /// batches.
    fn settle(&mut self, under_way: usize) -> Result<(), Error> {
        while let Some(item) = self.order.front() {
            if matches!(item, Item::Packed { .. })
                && self.packed.is_none()
                && !self.more(under_way)?
            {
                return Ok(());
            }
            match self.order.pop_front() {
                Some(Item::Packed { begin, lines }) => self.write(&begin, lines)?,
                Some(Item::Copied(run)) => self.write_run(run)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Takes the next compressed batch, if more than `under_way` batches are in progress.
    fn more(&mut self, under_way: usize) -> Result<bool, Error> {
        if self.packers.under_way() <= under_way {
            return Ok(false);
        }
        let batch = self.packers.take();
        let batch = batch.map_err(Error::io(&self.gz.path, "compress"))?;
        self.packed = batch.map(|batch| (batch, 0));
        Ok(self.packed.is_some())
    }

    /// Writes the next block of the compressed batch.
    fn write(&mut self, begin: &[u8], lines: u64) -> Result<(), Error> {
        let Some((batch, next)) = &mut self.packed else {
            return Ok(());
        };
        let ends = &batch.packed_ends;
        let from = next.checked_sub(1).and_then(|last| ends.get(last));
        let from = from.copied().unwrap_or(0);
        let to = ends.get(*next).copied().unwrap_or(from);
        let member = &batch.packed[from..to];
        self.gz.write(member)?;
        let length = member.len() as u64;
        *next += 1;
        if *next >= ends.len()
            && let Some((mut batch, _)) = self.packed.take()
        {
            batch.clear();
            self.spare.push(batch);
        }
        self.write_index_line(begin, length, lines)
    }

    /// Copies consecutive blocks.
    fn write_run(&mut self, run: Run) -> Result<(), Error> {
        copy(&run, &mut self.room, &mut self.gz)?;
        self.waiting -= run.blocks.len();
        self.stats.copied += run.blocks.len() as u64;
        for block in &run.blocks {
            self.write_index_line(&block.begin, block.length, block.lines)?;
        }
        Ok(())
    }

    /// Writes a line of the secondary index.
    fn write_index_line(&mut self, begin: &[u8], length: u64, lines: u64) -> Result<(), Error> {
        let offset = self.stats.packed;
        self.stats.packed += length;
        self.stats.blocks += 1;
        self.stats.lines += lines;
        self.idx.write(begin)?;
        let number = self.stats.blocks;
        let rest = format!("\t{}\t{offset}\t{length}\t{number}\t{lines}\n", self.part);
        self.idx.write(rest.as_bytes())
    }

    fn refused(&self, why: &str, line: &[u8]) -> Error {
        let begin = line.get(..200).unwrap_or(line);
        Error::Lines {
            file: self.idx.path.display().to_string(),
            what: format!("a line {why}: {:?}", String::from_utf8_lossy(begin)),
        }
    }
}

impl Output {
    fn create(path: PathBuf) -> Result<Output, Error> {
        let file = File::create_new(&path).map_err(Error::io(&path, "create"))?;
        Ok(Output {
            path,
            file: BufWriter::with_capacity(BUFFER, file),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_all(bytes);
        written.map_err(Error::io(&self.path, "write"))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.file.flush();
        flushed.map_err(Error::io(&self.path, "write"))
    }
}

/// Copies bytes of a file to the end of another file.
///
/// On common file systems, copying through a buffer is faster than having the kernel copy the data.
fn copy(run: &Run, room: &mut Vec<u8>, out: &mut Output) -> Result<(), Error> {
    room.resize(BUFFER, 0);
    let (mut at, mut left) = (run.from, run.length);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
        let room = room.get_mut(..most).unwrap_or_default();
        let read = match run.source.file.read_at(room, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(Error::io(&run.source.path, "read"))?,
        };
        if read == 0 {
            return Err(Error::Damaged {
                entry: run.source.path.to_path_buf(),
                what: format!("it ends at byte {at}, within a block"),
            });
        }
        out.write(&room[..read])?;
        at += read as u64;
        left -= read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_reported_with_the_file() {
        for gz_is_full in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = Writer::create(folder.path(), "url", Options::by_digest()).unwrap();
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = if gz_is_full {
                &mut writer.gz
            } else {
                &mut writer.idx
            };
            output.file = BufWriter::with_capacity(BUFFER, full);
            let path = output.path.clone();
            let line = |n| format!("org,example)/{n:08} 2020 {{\"url\":\"http://example.org/\"}}");
            let written = (0..20_000).try_for_each(|n| writer.push(line(n).as_bytes()));
            let error = written.and_then(|()| writer.finish()).unwrap_err();
            assert!(error.is_full(), "{error}");
            let name = path.display().to_string();
            assert!(error.to_string().starts_with(&name), "{error}");
        }
    }

    #[test]
    fn dropped_writer_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), "url", Options::by_url()).unwrap();
        for n in 0..20_000 {
            writer.push(format!("{n:08} 2020 {{}}").as_bytes()).unwrap();
        }
        assert!(writer.packers.under_way() > 0);
        drop(writer);
    }
}
