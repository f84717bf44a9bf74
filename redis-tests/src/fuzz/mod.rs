//! A fuzzer that mutates valid samples.
//!
//! The seed and the number of an input determine the input. A harmful input is saved to a file. To
//! run only this input again, set `INPUT=file`. If the environment variable `CORPUS` names the
//! folder of earlier findings (`redis-tests/corpus`), the input is also saved in the subfolder
//! `inputs/`, and its effect is appended to `inputs/README.md`. Every run starts with the saved
//! inputs.
//!
//! ```no_run
//! use redis_tests::fuzz::Fuzz;
//! let mut fuzz = Fuzz::new("target/fuzz");
//! fuzz.target("numbers", &[b"1 2 3".to_vec()], &["-1"], |input| {
//! let _ = String::from_utf8_lossy(input).split(' ').map(str::parse::<u8>).count();
//! Ok(())
//! });
//! fuzz.finish();
//! ```

mod heap;
mod mutator;

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use heap::Heap;
pub use mutator::Mutator;

use crate::rng::seed_of;

/// Maximum number of bytes that one input may allocate in total, including freed bytes. Allocations
/// measure work independently of the speed and load of the machine.
const MAX_WORK: u64 = 1 << 30;
/// CPU time and wall-clock time after which a run is treated as endless.
const ENDLESS: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(3600));

/// Number of inputs for each target, unless `TIME` is set.
const INPUTS: u64 = 200;

/// Runs one target after the other with mutated inputs.
pub struct Fuzz {
    folder: PathBuf,
    seed: u64,
    /// Time for each target. If `None`, each target gets [`INPUTS`] inputs.
    each: Option<Duration>,
    /// The only input to run. The file name begins with the name of the target.
    only: Option<PathBuf>,
    /// Maximum number of bytes in use while an input runs.
    memory: usize,
    watch: Watch,
    /// The largest total of allocated bytes for any input of the current target.
    work: u64,
    harm: Vec<String>,
    report: Vec<String>,
}

impl Fuzz {
    /// Reads `TIME` (seconds for each target; if unset, the number of inputs is fixed), `SEED` and
    /// `INPUT` from the environment, and prints the seed. Harmful inputs are saved to `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Fuzz {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let seconds = set("TIME").map(|text| text.parse().expect("TIME is a number"));
        let seed = seed_of("fuzz");
        let folder = folder.into();
        eprintln!("fuzz: SEED={seed}");
        Fuzz {
            watch: Watch::start(folder.clone()),
            folder,
            seed,
            each: seconds.map(Duration::from_secs_f64),
            only: set("INPUT").map(PathBuf::from),
            memory: 96 << 20,
            work: 0,
            harm: Vec::new(),
            report: Vec::new(),
        }
    }

    /// Runs a target with inputs until its number of inputs or its time is used up. The inputs are
    /// mutated samples with some of `words` inserted. An input does harm if a thread panics,
    /// `attempt` returns an error, the run does not end, or it needs too much work or memory.
    pub fn target(
        &mut self,
        name: &str,
        samples: &[Vec<u8>],
        words: &[&str],
        mut attempt: impl FnMut(&[u8]) -> Result<(), String>,
    ) {
        if let Some(file) = self.only.clone() {
            let file_name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if file_name
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('-'))
            {
                let input = std::fs::read(&file).expect("the input is there");
                let harm = self.attempt(name, 0, &input, &mut attempt);
                self.report.push(format!("{name}: {harm:?}"));
                self.harm.extend(harm);
            }
            return;
        }
        for input in found_before(name) {
            let harm = self.attempt(name, 0, &input, &mut attempt);
            self.harm.extend(harm);
        }
        // The samples themselves must do no harm. Running the samples also performs one-time
        // initialization.
        for (number, sample) in samples.iter().enumerate() {
            let harm = self.attempt(name, number as u64, sample, &mut attempt);
            self.note(name, number as u64, sample, harm);
        }
        let start = Instant::now();
        let mut number = 0;
        while self
            .each
            .map_or(number < INPUTS, |each| start.elapsed() < each)
        {
            let mut mutator = Mutator::new(self.seed.wrapping_add(number << 8), words);
            let input = mutator.mutate(samples);
            let harm = self.attempt(name, number, &input, &mut attempt);
            let found = harm.is_some();
            self.note(name, number, &input, harm);
            number += 1;
            if found {
                break; // one harmful input is enough for the report
            }
        }
        let work = std::mem::take(&mut self.work) >> 20;
        self.report
            .push(format!("{name}: {number} inputs, work up to {work} MiB"));
    }

    fn attempt(
        &mut self,
        name: &str,
        number: u64,
        input: &[u8],
        attempt: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Option<String> {
        self.watch
            .begin(&format!("{name}-{}-{number}", self.seed), input);
        let (before, all) = (Heap::begin(), Heap::all());
        let outcome = catch_unwind(AssertUnwindSafe(|| attempt(input)));
        let most = Heap::most().saturating_sub(before);
        let work = Heap::all() - all;
        self.work = self.work.max(work);
        let panic = self.watch.end();
        match (panic, outcome) {
            (Some(panic), _) => Some(panic),
            (None, Err(_)) => Some("a panic".into()),
            (None, Ok(Err(why))) => Some(why),
            (None, Ok(Ok(()))) if most > self.memory => Some(format!("{most} bytes of memory")),
            (None, Ok(Ok(()))) if work > MAX_WORK => Some(format!("too much work: {work} bytes")),
            _ => None,
        }
    }

    fn note(&mut self, name: &str, number: u64, input: &[u8], harm: Option<String>) {
        let Some(harm) = harm else { return };
        let inputs = std::env::var_os("CORPUS").map(|corpus| Path::new(&corpus).join("inputs"));
        let folder = inputs.as_ref().unwrap_or(&self.folder);
        let file = folder.join(format!("{name}-{}-{number}", self.seed));
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(&file, input).expect("the folder is writable");
        if inputs.is_some() {
            let row = format!("| `{name}-{}-{number}` | {harm} |\n", self.seed);
            let list = OpenOptions::new()
                .append(true)
                .open(folder.join("README.md"));
            let filed = list.and_then(|mut list| list.write_all(row.as_bytes()));
            filed.expect("the list of the corpus is writable");
        }
        self.harm.push(format!(
            "{name}: {harm}\n  repeat with: INPUT={} make fuzz",
            file.display()
        ));
    }

    /// Prints the number of inputs that were run.
    ///
    /// # Panics
    /// Panics if an input did harm.
    pub fn finish(self) {
        eprintln!("fuzz: {}", self.report.join(", "));
        assert!(
            self.harm.is_empty(),
            "SEED={}\n{}",
            self.seed,
            self.harm.join("\n")
        );
    }
}

/// Returns the saved inputs of this target that did harm before.
fn found_before(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/inputs");
    let files = std::fs::read_dir(folder).expect("the corpus is there");
    let files = files.map(|file| file.expect("it can be listed").path());
    let of_target = files.filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(target);
        rest.is_some_and(|rest| rest.starts_with('-'))
    });
    of_target
        .map(|file| std::fs::read(file).expect("the input is readable"))
        .collect()
}

/// Returns the CPU time of this process.
fn work() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer points to a timespec of this function.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "the clock of this process can be read");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Detects panics in all threads, and inputs whose run does not end.
struct Watch(Arc<Mutex<Under>>);

/// An input that is running.
struct Trying {
    name: String,
    input: Vec<u8>,
    since: Instant,
    /// CPU time of this process at the start of the input.
    work: Duration,
}

#[derive(Default)]
struct Under {
    trying: Option<Trying>,
    panic: Option<String>,
}

impl Watch {
    fn start(folder: PathBuf) -> Watch {
        let under = Arc::new(Mutex::new(Under::default()));
        let watch = Watch(Arc::clone(&under));
        let usual = std::panic::take_hook();
        let of_hook = Arc::clone(&under);
        std::panic::set_hook(Box::new(move |info| {
            let mut under = lock(&of_hook);
            match under.trying {
                Some(_) => _ = under.panic.get_or_insert_with(|| info.to_string()),
                None => usual(info),
            }
        }));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let under = lock(&under);
                if let Some(trying) = &under.trying {
                    let worked = work().saturating_sub(trying.work);
                    if worked > ENDLESS.0 || trying.since.elapsed() > ENDLESS.1 {
                        let file = folder.join(&trying.name);
                        let kept = std::fs::create_dir_all(&folder)
                            .and_then(|()| std::fs::write(&file, &trying.input));
                        eprintln!(
                            "no end; repeat with: INPUT={} make fuzz ({kept:?})",
                            file.display()
                        );
                        std::process::exit(101);
                    }
                }
            }
        });
        watch
    }

    fn begin(&self, name: &str, input: &[u8]) {
        let mut under = lock(&self.0);
        under.panic = None;
        under.trying = Some(Trying {
            name: name.to_owned(),
            input: input.to_vec(),
            since: Instant::now(),
            work: work(),
        });
    }

    fn end(&self) -> Option<String> {
        let mut under = lock(&self.0);
        under.trying = None;
        under.panic.take()
    }
}

fn lock(under: &Mutex<Under>) -> MutexGuard<'_, Under> {
    under.lock().unwrap_or_else(PoisonError::into_inner)
}
