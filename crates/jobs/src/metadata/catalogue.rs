//! Finds the metadata files of each job.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use url::Url;

use super::super::{Error, JobId, Work};
use super::name::{self, Name};
use super::reach::Reach;
use super::{Options, folder, list, listing};
use crawlspace_wacz::Location;

/// A catalogue of the metadata files of all jobs, which scans of the configured locations fill.
#[derive(Debug)]
pub(super) struct Catalogue {
    places: Vec<Location>,
    known: Mutex<Arc<Files>>,
    /// True if the locations must be scanned again.
    is_stale: AtomicBool,
    /// The last scan. The lock is held during a scan.
    last: Mutex<LastLook>,
}

/// Time and failure of the last scan.
#[derive(Debug, Default)]
struct LastLook {
    at: Option<Instant>,
    failure: Option<Error>,
}

/// A metadata file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetadataFile {
    pub(super) location: Location,
    /// The last component of the path of the file.
    pub(super) name: String,
    /// True if the name can only refer to this job.
    pub(super) is_certain: bool,
    /// The addresses from which the file may be fetched.
    pub(super) reach: Reach,
}

/// The files that were found. A large archive has a million files, so little is stored for each of
/// them.
#[derive(Debug, Default)]
struct Files {
    locations: Vec<Listed>,
    /// Pairs of a number in the name of a file and the index of the file, sorted.
    by_job: Vec<(JobId, usize)>,
}

/// The location of a metadata file, and the addresses from which it may be fetched.
#[derive(Debug)]
struct Listed {
    location: Location,
    reach: Reach,
}

impl Catalogue {
    /// Creates a catalogue of these locations, without scanning them.
    ///
    /// # Errors
    /// [`Error::Request`] for an invalid location.
    pub(super) fn of(places: &[String]) -> Result<Catalogue, Error> {
        let places: Result<Vec<Location>, Error> = places
            .iter()
            .map(|place| {
                Location::parse(place).map_err(|error| {
                    Error::Request(format!("metadata files in {place:?}: {}", error.problem))
                })
            })
            .collect();
        Ok(Catalogue {
            places: places?,
            known: Mutex::default(),
            is_stale: AtomicBool::new(true),
            last: Mutex::default(),
        })
    }

    /// Returns the files of a job, lowest number first, and notes about them. If the job is unknown, the locations are
    /// scanned again, unless this was done very recently.
    ///
    /// # Errors
    /// Fails if a location cannot be read, because it might contain the job. This affects all jobs that no earlier scan
    /// has found. The same error is returned until the next scan is due.
    pub(super) fn files(
        &self,
        job: JobId,
        options: &Options,
        work: &Work,
    ) -> Result<(Vec<MetadataFile>, Vec<String>), Error> {
        let known = self.known().clone();
        let files = known.of(job);
        if !self.is_stale.load(Ordering::Acquire) && !files.0.is_empty() {
            return Ok(files);
        }
        // Callers that arrive during a scan wait for its result.
        let last = lock(&self.last);
        self.look_after(options.rescan, last, options, work)?;
        Ok(self.known().of(job))
    }

    /// Returns the files of a job as of the last scan.
    pub(super) fn known_files(&self, job: JobId) -> (Vec<MetadataFile>, Vec<String>) {
        let known = self.known().clone();
        known.of(job)
    }

    /// Scans the locations if the last scan is older than `age`, unless another thread is scanning them.
    ///
    /// # Errors
    /// Fails like [`Catalogue::files`].
    pub(super) fn refresh(
        &self,
        age: Duration,
        options: &Options,
        work: &Work,
    ) -> Result<(), Error> {
        match self.last.try_lock() {
            Ok(last) => self.look_after(age, last, options, work),
            Err(_) => Ok(()),
        }
    }

    /// Scans the locations, or returns the outcome of the last scan if it is younger than `age`.
    fn look_after(
        &self,
        age: Duration,
        mut last: MutexGuard<'_, LastLook>,
        options: &Options,
        work: &Work,
    ) -> Result<(), Error> {
        if last.at.is_some_and(|at| at.elapsed() < age) {
            return last
                .failure
                .as_ref()
                .map_or(Ok(()), |failure| Err(again(failure)));
        }
        // Clear the flag before the scan, because changes during the scan set it again.
        let was_stale = self.is_stale.swap(false, Ordering::AcqRel);
        let outcome = self.look(options, work);
        if outcome.is_err() && was_stale {
            self.invalidate();
        }
        match outcome {
            Ok(files) => {
                *last = LastLook {
                    at: Some(Instant::now()),
                    failure: None,
                };
                *self.known() = Arc::new(files);
                Ok(())
            }
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(failure) => {
                *last = LastLook {
                    at: Some(Instant::now()),
                    failure: Some(again(&failure)),
                };
                Err(failure)
            }
        }
    }

    /// Marks the catalogue as stale, so that the next request scans the locations again.
    pub(super) fn invalidate(&self) {
        self.is_stale.store(true, Ordering::Release);
    }

    fn known(&self) -> MutexGuard<'_, Arc<Files>> {
        lock(&self.known)
    }

    fn look(&self, options: &Options, work: &Work) -> Result<Files, Error> {
        let mut files = Files::default();
        for place in &self.places {
            let is_file = name::is_archive_file(&place.name());
            match place {
                Location::File(path) => {
                    let about = std::fs::metadata(path).map_err(Error::io(path, "read"))?;
                    if about.is_dir() {
                        folder::scan(path, work, &mut |path| {
                            files.add(Location::File(path), Reach::Named)
                        })?;
                    } else if !about.is_file() {
                        let error = io::Error::other("this is not a file, but a device");
                        return Err(Error::io(path, "read")(error));
                    } else if is_file {
                        files.add_named(place.clone())?;
                    } else {
                        files.add_listed(path, options, work)?;
                    }
                }
                Location::Url(_) if is_file => files.add_named(place.clone())?,
                Location::Url(url) => files.add_linked(url, options, work)?,
            }
        }
        files.by_job.sort_unstable();
        Ok(files)
    }
}

impl Files {
    /// Adds a file, if it has the name of a metadata file.
    fn add(&mut self, location: Location, reach: Reach) {
        if let Some(name) = Name::parse(&location.name()) {
            let file = self.locations.len();
            let jobs = name.candidates.into_iter();
            self.by_job.extend(jobs.map(|job| (job, file)));
            self.locations.push(Listed { location, reach });
        }
    }

    /// Adds a file that was named explicitly.
    fn add_named(&mut self, location: Location) -> Result<(), Error> {
        if Name::parse(&location.name()).is_none() {
            return Err(Error::Request(format!(
                "{location}: the name of a metadata file must contain the number of the job, as in \
                 117-metadata-1.warc.gz"
            )));
        }
        self.add(location, Reach::Named);
        Ok(())
    }

    /// Adds the files at a URL that is not a metadata file: a folder or a list.
    fn add_linked(&mut self, url: &Url, options: &Options, work: &Work) -> Result<(), Error> {
        let http = Reach::Named.options(url, &options.http);
        let reach = Reach::of(&http);
        listing::scan(url, &http, work, &mut |file| self.add(file, reach))
    }

    /// Adds the files in a list, and in the folders that the list contains.
    fn add_listed(&mut self, list: &Path, options: &Options, work: &Work) -> Result<(), Error> {
        let wrong = |what: String| Error::Lines {
            file: list.display().to_string(),
            what,
        };
        let file = File::open(list).map_err(Error::io(list, "open"))?;
        let text = list::read(file).map_err(Error::io(list, "read"))?;
        let here = Location::File(list.to_owned());
        for name in list::names(&text).map_err(wrong)? {
            let location = here
                .join(&name)
                .map_err(|why| wrong(format!("{name:?}: {why}")))?;
            let kind = list::kind_of(&location.name());
            match &location {
                _ if kind == list::Named::File => self.add(location, Reach::Named),
                Location::Url(url) if kind == list::Named::Folder => {
                    self.add_linked(url, options, work)?;
                }
                Location::Url(_) => {}
                Location::File(path) => {
                    let about = std::fs::metadata(path).map_err(Error::io(path, "read"))?;
                    if about.is_dir() {
                        folder::scan(path, work, &mut |path| {
                            self.add(Location::File(path), Reach::Named)
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn of(&self, job: JobId) -> (Vec<MetadataFile>, Vec<String>) {
        let from = self.by_job.partition_point(|(other, _)| *other < job);
        let mine = self.by_job.iter().skip(from);
        let mut files: Vec<(u64, MetadataFile)> = mine
            .take_while(|(other, _)| *other == job)
            .filter_map(|(_, file)| {
                let Listed { location, reach } = self.locations.get(*file)?;
                let name = Name::parse(&location.name())?;
                let file = MetadataFile {
                    location: location.clone(),
                    name: location.name(),
                    is_certain: name.candidates.len() == 1,
                    reach: *reach,
                };
                Some((name.number, file))
            })
            .collect();
        // The sort is stable: if several files have the same name, the file from the first location
        // comes first.
        files.sort_by(|(a, first), (b, second)| {
            let names = (name::unpacked(&first.name), name::unpacked(&second.name));
            a.cmp(b).then(names.0.cmp(names.1))
        });
        let mut notes = Vec::new();
        let mut kept: Vec<MetadataFile> = Vec::with_capacity(files.len());
        for (_, file) in files {
            let same = kept
                .last()
                .filter(|last| name::unpacked(&last.name) == name::unpacked(&file.name));
            match same {
                Some(same) if same.location == file.location => {}
                Some(same) => {
                    // Omit folders, because notes are stored in manifests, which are sent to
                    // clients.
                    let note = format!(
                        "{} is skipped: it has the same name as {} of an earlier place, so it is assumed to be the same \
                         file",
                        file.name, same.name
                    );
                    if notes.last() != Some(&note) {
                        notes.push(note);
                    }
                }
                None => kept.push(file),
            }
        }
        (kept, notes)
    }
}

/// Copies an error, so that several callers can get it.
fn again(error: &Error) -> Error {
    match error {
        Error::Io {
            path,
            action,
            error,
        } => Error::Io {
            path: path.clone(),
            action,
            error: io::Error::new(error.kind(), error.to_string()),
        },
        Error::Remote { url, what } => Error::Remote {
            url: url.clone(),
            what: what.clone(),
        },
        Error::Lines { file, what } => Error::Lines {
            file: file.clone(),
            what: what.clone(),
        },
        other => Error::Request(other.to_string()),
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
