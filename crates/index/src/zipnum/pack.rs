//! Compresses blocks to gzip members on several threads.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use flate2::{Compress, Compression, FlushCompress, Status};

/// Maximum number of batches queued per thread, so that a thread never waits for work.
pub(super) const BATCHES_PER_THREAD: usize = 3;

/// A batch of consecutive blocks.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub text: Vec<u8>,
    /// End offset of each block in `text`.
    pub ends: Vec<usize>,
    pub packed: Vec<u8>,
    /// End offset of each gzip member in `packed`.
    pub packed_ends: Vec<usize>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.packed.clear();
        self.packed_ends.clear();
    }
}

/// Threads that compress batches. The threads end when this value is dropped.
pub(super) struct Packers {
    level: u32,
    threads: usize,
    workers: Vec<Worker>,
    /// The first batch, which waits in this field: threads are only started for a second batch.
    held: VecDeque<Batch>,
    given: usize,
    taken: usize,
}

struct Worker {
    /// Queue of batches; `None` ends the thread.
    jobs: Option<SyncSender<Batch>>,
    done: Receiver<io::Result<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl Packers {
    pub(crate) fn new(level: u32, threads: usize) -> Packers {
        Packers {
            level,
            threads,
            workers: Vec::new(),
            held: VecDeque::new(),
            given: 0,
            taken: 0,
        }
    }

    /// Returns the number of batches that were queued and not yet taken.
    pub(crate) fn under_way(&self) -> usize {
        self.given - self.taken
    }

    /// Returns the maximum number of batches in progress.
    pub(crate) fn room(&self) -> usize {
        BATCHES_PER_THREAD * self.threads.max(1)
    }

    /// Queues a batch for compression. At most [`room`](Packers::room) batches may be in progress.
    pub(crate) fn give(&mut self, batch: Batch) -> io::Result<()> {
        self.given += 1;
        self.held.push_back(batch);
        if self.threads == 0 || self.given == 1 {
            return Ok(());
        }
        while self.workers.len() < self.threads {
            match Worker::start(self.level, self.room()) {
                Ok(worker) => self.workers.push(worker),
                // The system allows no more threads; use the threads that were started.
                Err(_) => self.threads = self.workers.len(),
            }
        }
        if self.workers.is_empty() {
            return Ok(());
        }
        while let Some(batch) = self.held.pop_front() {
            let number = self.given - 1 - self.held.len();
            let worker = self.workers.get(number % self.threads);
            let jobs = worker.and_then(|worker| worker.jobs.as_ref());
            if jobs.is_none_or(|jobs| jobs.send(batch).is_err()) {
                return Err(gone());
            }
        }
        Ok(())
    }

    /// Returns the oldest batch in progress, compressed.
    pub(crate) fn take(&mut self) -> io::Result<Option<Batch>> {
        if self.under_way() == 0 {
            return Ok(None);
        }
        let number = self.taken;
        self.taken += 1;
        if let Some(mut batch) = self.held.pop_front() {
            // If threads are configured, this can only be the first batch, and no second batch was queued.
            Packer::new(self.level).pack(&mut batch)?;
            return Ok(Some(batch));
        }
        let worker = self.workers.get(number % self.threads.max(1));
        let batch = worker.and_then(|worker| worker.done.recv().ok());
        batch.unwrap_or_else(|| Err(gone())).map(Some)
    }
}

fn gone() -> io::Error {
    io::Error::other("a compression thread has ended")
}

impl Worker {
    fn start(level: u32, room: usize) -> io::Result<Worker> {
        let (jobs, given) = sync_channel::<Batch>(room);
        let (finished, done) = sync_channel(room);
        let thread = thread::Builder::new()
            .name("compress".to_owned())
            .spawn(move || {
                let mut packer = Packer::new(level);
                for mut batch in given {
                    let packed = packer.pack(&mut batch).map(|()| batch);
                    if finished.send(packed).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Worker {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported by its missing batches.
            let _ = thread.join();
        }
    }
}

/// A compressor that is reused for all blocks: creating one costs as much as compressing a small
/// block.
struct Packer(Compress);

impl Packer {
    fn new(level: u32) -> Packer {
        Packer(Compress::new_gzip(Compression::new(level.clamp(1, 9)), 15))
    }

    fn pack(&mut self, batch: &mut Batch) -> io::Result<()> {
        let mut begin = 0;
        for &end in &batch.ends {
            let block = &batch.text[begin..end];
            self.member(block, &mut batch.packed)?;
            batch.packed_ends.push(batch.packed.len());
            begin = end;
        }
        Ok(())
    }

    fn member(&mut self, block: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        self.0.reset();
        let mut done = 0;
        loop {
            let rest = &block[done..];
            packed.reserve((rest.len() / 2).max(4096));
            let status = self
                .0
                .compress_vec(rest, packed, FlushCompress::Finish)
                .map_err(io::Error::other)?;
            done = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX);
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}
