//! First stage: adds the responses of a package to its crawl.

use super::Work;
use super::deferred::{Deferred, Records};
use super::failure::Failure;
use super::job::Job;
use super::package::{Package, is_same_hash, is_sha256, plain};
use super::report::Event;
use super::text::{Text, for_each_line};
use crawlspace_client::dedupe::feed::{BatchAdd, RECORDS, Refused, feed, writer_at};
use crawlspace_client::dedupe::{Added, Adding, Profile, Sequence};
use crawlspace_client::{Batch, Code};
use crawlspace_index::capture::Capture;
use crawlspace_wacz::{Location, Wacz};

/// Number of WACZ files per round trip whose positions in the crawl's list are requested.
const OPENED: usize = 100;
/// Number of lines at the start of an index that are checked. If none of them can be read, the
/// index counts as unreadable.
const LOOKED_AT: u64 = 100;

/// A package whose whole index has been read.
pub(super) struct Whole {
    wacz: Wacz,
    text: Text,
    hash: String,
}

struct Response {
    hash: Vec<u8>,
    date: Vec<u8>,
    url: Vec<u8>,
    size: u64,
}

/// A package whose records fit in one call.
pub(super) struct Small {
    hash: String,
    size: u64,
    responses: Vec<Response>,
    deferred: Records,
}

impl Whole {
    pub(crate) fn is_small(&self) -> bool {
        self.text.is_small()
    }
}

impl Job<'_> {
    /// Reads the whole index of the package before any of it is written.
    pub(crate) fn read_whole(&mut self) -> Result<Whole, Failure> {
        let wacz = self.open()?;
        let text = self.refuse_what_is_not_whole(&wacz)?;
        let hash = match &self.package.hash {
            Some(hash) => hash.clone(),
            // Hash local files only: a remote file would have to be downloaded completely.
            None if is_local(&self.package.path) => self.spelled(self.digest(&wacz)?),
            None => String::new(),
        };
        Ok(Whole { wacz, text, hash })
    }

    /// Reads the records of a small package.
    pub(crate) fn read_small(&mut self, whole: Whole) -> Result<Small, Failure> {
        let mut responses = Vec::new();
        let Whole { wacz, text, hash } = whole;
        let deferred = self.read(&wacz, &text, |hash, date, url, size| {
            responses.push(Response {
                hash: hash.to_vec(),
                date: date.to_vec(),
                url: url.to_vec(),
                size,
            });
            Ok(())
        })?;
        Ok(Small {
            hash,
            size: wacz.size(),
            responses,
            deferred,
        })
    }

    /// Adds the responses. Returns true if there are records to count later.
    pub(crate) fn add_responses(
        &mut self,
        run: Option<&str>,
        whole: &Whole,
    ) -> Result<bool, Failure> {
        let Whole { wacz, text, hash } = whole;
        let number = self.wacz_index()?;
        let deferred = self
            .add(run, wacz, text, number)
            .map_err(Failure::in_the_middle)?;
        let (crawl, name) = (self.package.crawl.as_bytes(), self.package.name.as_bytes());
        let home = self.work.index.home();
        home.wacz_close(crawl, number, name, hash.as_bytes(), wacz.size())?;
        Ok(self.keep(deferred))
    }

    /// Caches records that are counted later. Returns true if there are such records.
    fn keep(&self, deferred: Records) -> bool {
        let has_more = !deferred.is_empty();
        if has_more {
            self.work.kept.put(&self.package.name, deferred);
        }
        has_more
    }

    /// Returns the name of the sequence of the package's calls.
    fn run(&self, run: Option<&str>) -> Result<String, Failure> {
        match run {
            Some(run) => Ok(run.to_owned()),
            None => self.queue.run(self.package)?.ok_or(Failure::Lost),
        }
    }

    /// Formats the hash of a file like the profile's crawler: Browsertrix omits the name of the algorithm.
    fn spelled(&self, digest: String) -> String {
        match self.work.profile {
            Profile::Document => digest,
            Profile::Browsertrix => plain(&digest),
        }
    }

    /// Reads the whole index before any of it is written, so that a truncated package is not imported in part.
    fn refuse_what_is_not_whole(&mut self, wacz: &Wacz) -> Result<Text, Failure> {
        let refuse = |reason| {
            Err(Failure::Package {
                reason,
                partly: false,
            })
        };
        if let Some(listed) = self.package.size.filter(|&listed| listed != wacz.size()) {
            let size = wacz.size();
            return refuse(format!(
                "it has {size} bytes, but the manifest says {listed}: it is a different file, or incomplete"
            ));
        }
        if wacz.indexes().is_empty() {
            return refuse("it has no CDX or CDXJ file".to_owned());
        }
        if self.work.import.verify {
            let digest = self.digest(wacz)?;
            match &self.package.hash {
                Some(listed) if !is_sha256(listed) => {
                    return refuse(format!(
                        "the manifest says that its hash is {listed}, but only SHA-256 can be verified, which is \
                         {digest}"
                    ));
                }
                Some(listed) if !is_same_hash(listed, &digest) => {
                    return refuse(format!(
                        "its hash is {digest}, but the manifest says {listed}: it is a different file, or damaged"
                    ));
                }
                _ => {}
            }
        }
        let mut text = Text::new(self.work.import.jobs);
        let (mut lines, mut read, mut last, mut order) = (0, 0, None, None);
        for_each_line(wacz, |line| {
            if lines % 10_000 == 0 {
                self.check()?;
            }
            lines += 1;
            text.push(line);
            // Header lines begin with a space.
            if lines <= LOOKED_AT || line.first() == Some(&b' ') {
                match Capture::of_line(line) {
                    Capture::Order(reason) => order = Some(reason),
                    Capture::Bad(reason) => last = Some(reason),
                    _ => read += 1,
                }
            }
            Ok::<(), Failure>(())
        })?;
        if let Some(reason) = order {
            return refuse(format!("its index cannot be read: {reason}"));
        }
        match last {
            Some(reason) if read == 0 => {
                refuse(format!("no line of its index can be read: {reason}"))
            }
            _ => Ok(text),
        }
    }

    fn digest(&self, wacz: &Wacz) -> Result<String, Failure> {
        self.check()?;
        Ok(wacz.digest(|_| {})?)
    }

    /// Returns the package's position in the crawl's list. When the first good package of a crawl is found, all
    /// packages of the crawl get their positions in the order of the manifest, independent of the speed of the workers.
    fn wacz_index(&self) -> Result<u64, Failure> {
        let (crawl, name) = (&self.package.crawl, &self.package.name);
        let mut places = self.work.places();
        if let Some(place) = places.get(crawl).and_then(|places| places.get(name)) {
            return Ok(*place);
        }
        let mut names = self.queue.names(crawl)?;
        if !names.contains(name) {
            names.push(name.clone());
        }
        let places = places.entry(crawl.clone()).or_default();
        for some in names.chunks(OPENED) {
            let batch = Batch::new();
            let home = self.work.index.home().over(&batch);
            let opened: Vec<_> = some
                .iter()
                .map(|name| home.wacz_open(crawl.as_bytes(), name.as_bytes()))
                .collect();
            batch.send(self.work.server)?;
            for (name, place) in some.iter().zip(opened) {
                places.insert(name.clone(), place.take()?);
            }
        }
        match places.get(name) {
            Some(place) => Ok(*place),
            None => unreachable!("every name was requested"),
        }
    }

    fn add(
        &mut self,
        run: Option<&str>,
        wacz: &Wacz,
        text: &Text,
        wacz_index: u64,
    ) -> Result<Records, Failure> {
        let writer = writer_of(&self.run(run)?, wacz_index);
        let crawl = self.package.crawl.as_bytes();
        feed(&self.work.index, crawl, &writer, |feed| {
            self.read(wacz, text, |hash, date, url, size| {
                feed.push(Added::new(hash, wacz_index, date, url, size))
            })
        })
    }

    /// Reads all records, passes the responses to `each`, and returns the records that are counted later.
    fn read(
        &mut self,
        wacz: &Wacz,
        text: &Text,
        mut each: impl FnMut(&[u8], &[u8], &[u8], u64) -> Result<(), Refused>,
    ) -> Result<Records, Failure> {
        let mut deferred = Records::default();
        let above = self.work.redundant_above();
        let mut previous = Vec::new();
        let (mut lines, mut reported) = (0, 0);
        text.for_each_line(wacz, |line| {
            if lines - reported == 2000 {
                reported = lines;
                self.work.watch.event(Event::Lines(2000));
                self.check()?;
            }
            lines += 1;
            // Merged indexes sometimes list a capture twice.
            if previous == line {
                return Ok(());
            }
            previous.clear();
            previous.extend_from_slice(line);
            let capture = Capture::of_line(line);
            if let Some(record) = Deferred::of(&capture, above) {
                deferred.push(&record);
            }
            match capture {
                Capture::Response {
                    hash,
                    date,
                    url,
                    size,
                } => {
                    self.report.responses += 1;
                    each(&hash, &date, &url, size)?;
                }
                Capture::Revisit { .. } => self.report.revisits += 1,
                Capture::Other => self.report.other += 1,
                Capture::Nothing => {}
                Capture::Bad(reason) | Capture::Order(reason) => {
                    self.report.bad_lines += 1;
                    let name = &self.package.name;
                    self.report
                        .example(format!("{name}: line {lines}: {reason}"));
                }
            }
            Ok::<(), Failure>(())
        })?;
        self.report.lines = lines;
        self.work.watch.event(Event::Lines(lines - reported));
        Ok(deferred)
    }
}

impl Work<'_> {
    /// Adds the responses of small packages in one round trip. Returns, for each package, whether it has records to
    /// count later.
    pub(super) fn add_small(
        &self,
        packages: Vec<(&Job<'_>, Option<&str>, Small)>,
    ) -> Result<Vec<Result<bool, Failure>>, crawlspace_client::Error> {
        let places = self.places_of(&packages)?;
        let mut added = Vec::new();
        let batch = Batch::new();
        for ((job, run, small), place) in packages.into_iter().zip(places) {
            let begun = job.check().and(place).and_then(|place| {
                let writer = writer_of(&job.run(run)?, place);
                let writer = writer_at(&writer, 0);
                let sequence = Sequence {
                    writer: writer.as_bytes(),
                    number: 1,
                };
                let adding = Adding {
                    sequence: Some(sequence),
                    earliest: true,
                    ..Adding::default()
                };
                let records = small.responses.iter().map(|response| {
                    Added::new(
                        &response.hash,
                        place,
                        &response.date,
                        &response.url,
                        response.size,
                    )
                });
                let records: Vec<Added<'_>> = records.collect();
                let crawl = job.package.crawl.as_bytes();
                let replies = if records.is_empty() {
                    Vec::new()
                } else {
                    self.index.add_in_batch(&batch, crawl, &adding, &records)
                };
                Ok((place, replies))
            });
            added.push((job, small, begun));
        }
        batch.send(self.server)?;
        let home = self.index.home().over(&batch);
        let mut closed = Vec::new();
        for (job, small, begun) in added {
            let close = begun.and_then(|(place, replies)| {
                for reply in replies {
                    match reply.take() {
                        Ok(_) => {}
                        // An earlier run has already added more of the package than this call.
                        Err(error) if error.code() == Some(Code::Stale) => {}
                        Err(error) => return Err(Failure::from(error).in_the_middle()),
                    }
                }
                let (crawl, name) = (job.package.crawl.as_bytes(), job.package.name.as_bytes());
                Ok(home.wacz_close(crawl, place, name, small.hash.as_bytes(), small.size))
            });
            closed.push((job, small.deferred, close));
        }
        batch.send(self.server)?;
        let closed = closed.into_iter().map(|(job, deferred, close)| {
            close?.take().map_err(Failure::from)?;
            Ok(job.keep(deferred))
        });
        Ok(closed.collect())
    }

    /// Returns the positions of packages in the WACZ lists of their crawls.
    fn places_of(
        &self,
        packages: &[(&Job<'_>, Option<&str>, Small)],
    ) -> Result<Vec<Result<u64, Failure>>, crawlspace_client::Error> {
        let batch = Batch::new();
        let home = self.index.home().over(&batch);
        let asked: Vec<_> = packages
            .iter()
            .map(|(job, ..)| {
                let Package { name, crawl, .. } = job.package;
                let alone = job.is_alone && job.check().is_ok();
                alone.then(|| home.wacz_open(crawl.as_bytes(), name.as_bytes()))
            })
            .collect();
        batch.send(self.server)?;
        let places = packages.iter().zip(asked);
        let places = places.map(|((job, ..), asked)| match asked {
            Some(place) => Ok(place.take()?),
            None => job.wacz_index(),
        });
        Ok(places.collect())
    }
}

/// Returns the common beginning of the names of a package's sequences.
fn writer_of(run: &str, wacz_index: u64) -> String {
    format!("import {run} {wacz_index} {RECORDS}")
}

fn is_local(path: &str) -> bool {
    matches!(Location::parse(path), Ok(Location::File(_)))
}
