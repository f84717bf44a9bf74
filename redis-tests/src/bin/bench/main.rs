//! `make bench`: measures Crawlspace and its peers side by side, in one run on one machine.
//!
//! ```text
//! cargo run --release -p redis-tests --bin bench -- [--only dedupe] [--quick] [--reps 3] [--seed 1]
//! ```
//!
//! `ONLY`, `QUICK` and `MODULE` (path of the module) are read from the environment as well. A full
//! run writes `docs/benchmarks.md`; a quick one, on a tenth of the corpus, only prints. No figure
//! fails the run; a wrong reply does.
//!
//! A part of the benchmark is a section: a name and a function that gives rows and paragraphs. To
//! add one, write a module and name it in [`SECTIONS`].

mod chg;
mod dedupe;
mod import;
mod load;
mod machine;
mod others;
mod report;
mod series;
mod tags;
mod told;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use report::Section;

/// A part that can be measured: the name that `--only` takes, and what measures it.
type Part = (&'static str, fn(&Plan) -> Section);

/// Every part, in the order of the report.
const SECTIONS: [Part; 4] = [
    ("dedupe", dedupe::measure),
    ("chg", chg::measure),
    ("tags", tags::measure),
    ("import", import::measure),
];

/// How much is to be measured.
pub struct Plan {
    /// A tenth of the corpus and a quarter of the time.
    pub quick: bool,
    /// Repetitions of each measurement; figures are medians.
    pub reps: usize,
    /// Seed of all generated data.
    pub seed: u64,
}

impl Plan {
    /// A size of the corpus, or a tenth of it in a quick run.
    pub fn scaled(&self, full: u64) -> u64 {
        if self.quick {
            full / 10
        } else {
            full
        }
    }

    /// How long one saturating run lasts.
    pub fn span(&self) -> Duration {
        Duration::from_millis(if self.quick { 500 } else { 2000 })
    }
}

fn main() {
    let (plan, only) = arguments();
    choose_module();
    let started = Instant::now();
    let mut machine = machine::describe();
    let others = machine::busy_with_others();
    if others > 5.0 {
        machine.push_str(&format!(
            "; **other programs used {others:.0} % of the machine** when the run began"
        ));
    }
    println!("{machine}");
    println!("seed {}, {} repetitions", plan.seed, plan.reps);
    let mut measured = Vec::new();
    for (name, measure) in SECTIONS {
        if only.as_deref().is_none_or(|wanted| wanted == name) {
            let section = measure(&plan);
            println!("\n{}\n{}", section.table(), section.paragraphs());
            measured.push((name, section));
        }
    }
    assert!(!measured.is_empty(), "there is no section {only:?}");
    println!("measured in {:.0} s", started.elapsed().as_secs_f64());
    if plan.quick {
        println!("a quick run is not written to docs/benchmarks.md");
        return;
    }
    let file = root().join("docs/benchmarks.md");
    for (name, section) in &measured {
        report::write(&file, name, &section.markdown(&machine, &plan));
    }
    println!("written to docs/benchmarks.md");
}

fn arguments() -> (Plan, Option<String>) {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let mut only = set("ONLY");
    let mut plan = Plan {
        quick: set("QUICK").is_some_and(|v| v != "0"),
        reps: 3,
        seed: 1,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| usage(&arg));
        match arg.as_str() {
            "--quick" => plan.quick = true,
            "--only" => only = Some(value()),
            "--reps" => plan.reps = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--seed" => plan.seed = value().parse().unwrap_or_else(|_| usage(&arg)),
            _ => usage(&arg),
        }
    }
    (plan, only)
}

fn usage<T>(at: &str) -> T {
    eprintln!("bench [--only SECTION] [--quick] [--reps N] [--seed N]   (not understood: {at})");
    std::process::exit(2);
}

/// The harness takes the newest module it finds, which may be a debug build; here it must be the
/// one that users run.
fn choose_module() {
    if std::env::var_os("CRAWLSPACE_MODULE").is_some() {
        return;
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let module = match std::env::var_os("MODULE") {
        Some(path) => PathBuf::from(path),
        None => root().join(target).join("release/libcrawlspace.so"),
    };
    assert!(
        module.exists(),
        "no module at {}: cargo build --release",
        module.display()
    );
    std::env::set_var("CRAWLSPACE_MODULE", module);
}

/// The folder of the workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the workspace is above this package")
}
