//! Blocks as gzip members, made on threads.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use flate2::{Compress, Compression, FlushCompress, Status};

/// Maximum number of batches queued for a thread, so that it never waits for one.
pub(super) const BATCHES_PER_THREAD: usize = 3;

/// Blocks, one after the other.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub text: Vec<u8>,
    /// Where each block ends.
    pub ends: Vec<usize>,
    pub packed: Vec<u8>,
    /// Where the member of each ends.
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

/// Threads that compress batches. They end with this.
pub(super) struct Packers {
    level: u32,
    threads: usize,
    workers: Vec<Worker>,
    /// The first batch: threads are worth starting for a second one only.
    held: VecDeque<Batch>,
    given: usize,
    taken: usize,
}

struct Worker {
    /// `None` when there is nothing more to do.
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

    /// How many batches were given that were not taken back.
    pub(crate) fn under_way(&self) -> usize {
        self.given - self.taken
    }

    /// Maximum number of batches under way.
    pub(crate) fn room(&self) -> usize {
        BATCHES_PER_THREAD * self.threads.max(1)
    }

    /// Has a batch compressed. No more than [`room`](Packers::room) may be under way.
    pub(crate) fn give(&mut self, batch: Batch) -> io::Result<()> {
        self.given += 1;
        self.held.push_back(batch);
        if self.threads == 0 || self.given == 1 {
            return Ok(());
        }
        while self.workers.len() < self.threads {
            match Worker::start(self.level, self.room()) {
                Ok(worker) => self.workers.push(worker),
                // The machine has no more. Those that are there do it.
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

    /// The batch that was given first of those that are under way, compressed.
    pub(crate) fn take(&mut self) -> io::Result<Option<Batch>> {
        if self.under_way() == 0 {
            return Ok(None);
        }
        let number = self.taken;
        self.taken += 1;
        if let Some(mut batch) = self.held.pop_front() {
            // With threads, this is the only one there is.
            Packer::new(self.level).pack(&mut batch)?;
            return Ok(Some(batch));
        }
        let worker = self.workers.get(number % self.threads.max(1));
        let batch = worker.and_then(|worker| worker.done.recv().ok());
        batch.unwrap_or_else(|| Err(gone())).map(Some)
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that compresses is gone")
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
            // Whoever waited for its batches was told by their absence.
            let _ = thread.join();
        }
    }
}

/// One compressor for block after block: to make one costs as much as to use it on a small block.
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
