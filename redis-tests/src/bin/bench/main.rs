//! `make bench`: measures Crawlspace and its peers side by side, in one run on one machine.
//!
//! ```text
//! cargo run --release -p redis-tests --bin bench -- [--only dedupe|D5] [--quick] [--scale [N]]
//! [--reps 3] [--seed 1]
//! ```
//!
//! The environment variables `ONLY`, `QUICK`, `SCALE` and `MODULE` (path of the module) are also
//! read. A full run of a section writes its page below `docs/benchmarks/`, and `docs/benchmarks.md`
//! from all existing pages. A quick run uses a tenth of the corpus. Quick runs and runs of a single
//! row only print their results, unless `--docs` names a folder with copies of the pages.
//! `--only summary` measures nothing and rewrites `docs/benchmarks.md`. A result that misses its
//! target does not fail the run, but a wrong reply does.
//!
//! To add a section, write a module with a function that returns rows and paragraphs, and add it to
//! [`PARTS`]. The targets of rows are in `targets.rs`, the headline results in `summary.rs`, and
//! the text around the results in Markdown files next to the modules.

mod callgrind;
mod chart;
mod chg;
mod dedupe;
mod federation;
mod import;
mod index_cache;
mod load;
mod machine;
mod others;
mod packages;
mod pages;
mod report;
mod series;
mod slices;
mod summary;
mod tags;
mod targets;
mod told;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use load::{Batches, Throughput, saturate};
use pages::Page;
use redis_tests::Server;
use report::{Findings, Section, say};

/// A part that can be measured.
#[derive(Clone, Copy)]
pub struct Part {
    /// Value of `--only` that selects this part and all other parts of this name.
    name: &'static str,
    /// Names of the pieces of the part, separated by spaces.
    pieces: &'static str,
    /// Name of the documentation page with the results of this part.
    page: &'static str,
    /// True if the part is measured only with `--scale`, because it takes long.
    is_scale: bool,
    measure: fn(&Plan) -> Section,
}

impl Part {
    const fn new(
        name: &'static str,
        pieces: &'static str,
        page: &'static str,
        measure: fn(&Plan) -> Section,
    ) -> Part {
        Part {
            name,
            pieces,
            page,
            is_scale: false,
            measure,
        }
    }

    const fn scale(
        name: &'static str,
        pieces: &'static str,
        page: &'static str,
        measure: fn(&Plan) -> Section,
    ) -> Part {
        Part {
            is_scale: true,
            ..Part::new(name, pieces, page, measure)
        }
    }

    /// Returns the command that measures the part and writes its page.
    fn command(&self) -> String {
        let scale = if self.is_scale { " SCALE=1" } else { "" };
        format!("make bench ONLY={}{scale}", self.name)
    }

    /// Returns the path of the part's page in a folder.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(self.page).with_extension("md")
    }
}

/// All parts in the order of the report. (Import has no pieces: all of its rows are compared with
/// one import by the peer.)
const PARTS: [Part; 10] = [
    Part::new(
        "dedupe",
        "D0 D1 D2 D3 D4 D6 D7 D9 D11 others",
        "dedupe",
        dedupe::measure,
    ),
    Part::new(
        "dedupe",
        "D5 D8 D10 D12 packing aof",
        "dedupe-jobs",
        dedupe::measure_jobs,
    ),
    Part::new(
        "chg",
        "C0 C1 C2 C3 C4 C5 C6 C7 K1 G1 slices commands uris log pauses",
        "chg",
        chg::measure,
    ),
    Part::new("tags", "T1 T2 records large", "tags", tags::measure),
    Part::new("import", "I1 I3 I4", "import", import::measure),
    Part::new(
        "federation",
        "F1 F2 F3 F4 F5 U1 U2 U3 U4",
        "federation",
        federation::measure,
    ),
    Part::new("index", "X1 X2 X3", "index-cache", index_cache::measure),
    Part::new("packages", "P1 P2 S1", "packages", packages::measure),
    Part::scale("dedupe", "", "dedupe-scale", dedupe::scale),
    Part::scale("chg", "C6 C7 K1", "chg-scale", chg::scale),
];

/// The size of a run.
pub struct Plan {
    /// True to use a tenth of the corpus and a quarter of the time.
    pub quick: bool,
    /// Number of repetitions of each measurement. Results are medians.
    pub reps: usize,
    /// Seed of all generated data.
    pub seed: u64,
    /// Number of hashes, or of groups of a frontier, as given with `--scale`.
    pub scale: Option<u64>,
    /// The only piece of the section to be measured.
    pub piece: Option<String>,
}

impl Plan {
    /// Returns a size of the corpus. In a quick run, returns a tenth of the full size.
    pub fn scaled(&self, full: u64) -> u64 {
        if self.quick { full / 10 } else { full }
    }

    /// Returns true if one of these pieces must be measured. The names are separated by spaces.
    pub fn wants(&self, pieces: &str) -> bool {
        let Some(only) = &self.piece else { return true };
        pieces
            .split(' ')
            .any(|piece| only.eq_ignore_ascii_case(piece))
    }

    /// Measures the selected pieces.
    pub fn findings(&self, pieces: &[(&str, &dyn Fn() -> Findings)]) -> Findings {
        let mut found = Findings::default();
        for (names, measure) in pieces {
            if self.wants(names) {
                found.extend(measure());
            }
        }
        found
    }

    /// Returns the numbers of the repetitions, starting with 1, and prints each number when its
    /// repetition begins.
    pub fn repeat(&self, what: impl Display) -> impl Iterator<Item = usize> {
        let reps = self.reps;
        (1..=reps).inspect(move |rep| say(&format!("{what} ({rep}/{reps})")))
    }

    /// Runs a saturating load. Each repetition begins at a different position in the list of
    /// requests.
    pub fn saturate(&self, server: &Server, batches: &Batches, rep: usize) -> Throughput {
        let first = (rep - 1) * batches.len() / self.reps;
        saturate(server, batches, self.span(), first)
    }

    /// Returns the duration of one saturating run.
    pub fn span(&self) -> Duration {
        Duration::from_millis(if self.quick { 500 } else { 2000 })
    }
}

fn main() {
    let (mut plan, ask) = arguments();
    let docs = ask.docs.clone().unwrap_or_else(|| root().join("docs"));
    if ask.only.as_deref() == Some("summary") {
        return summary::write(&docs);
    }
    let parts = chosen(&mut plan, &ask);
    choose_module();
    let started = Instant::now();
    let mut machine = machine::describe();
    let others = machine::busy_with_others();
    if others > 5.0 {
        machine +=
            &format!("; **other programs used {others:.0} % of the machine** when the run began");
    }
    println!("{machine}");
    println!("seed {}, {} repetitions", plan.seed, plan.reps);
    let kept = ask.docs.is_some() || (!plan.quick && plan.piece.is_none());
    let folder = docs.join("benchmarks");
    for part in parts {
        let began = Instant::now();
        let section = (part.measure)(&plan);
        println!("\n{}\n{}", section.table(), section.paragraphs());
        println!(
            "{}: measured in {:.0} s",
            part.name,
            began.elapsed().as_secs_f64()
        );
        if kept {
            let mut page = Page::of(&part, &section, &machine, &plan);
            if let Some(piece) = &plan.piece {
                let mut old = pages::read(&folder, &part)
                    .unwrap_or_else(|| usage("a piece of a section without a page"));
                old.merge(page, piece);
                page = old;
            }
            pages::write(&folder, &part, &page, &section.found.charts);
            summary::write(&docs);
        }
    }
    println!("measured in {:.0} s", started.elapsed().as_secs_f64());
    if kept {
        println!("written below {}", docs.display())
    } else {
        println!(
            "only a full run of a section is written to docs/benchmarks, or any run with --docs DIR"
        )
    }
}

/// Arguments of a run that are not part of the plan.
#[derive(Default)]
struct Ask {
    /// The name of a section, or of a piece of a section.
    only: Option<String>,
    /// True to run only the parts for `--scale`.
    scale: bool,
    /// The folder with the pages, unless it is the repository's folder.
    docs: Option<PathBuf>,
}

/// Returns the selected parts. Stores a selected piece in the plan.
fn chosen(plan: &mut Plan, ask: &Ask) -> Vec<Part> {
    let parts = PARTS.into_iter().filter(|part| part.is_scale == ask.scale);
    let Some(only) = &ask.only else {
        return parts.collect();
    };
    let named = |name: &str| name.eq_ignore_ascii_case(only);
    let whole: Vec<Part> = parts.clone().filter(|part| named(part.name)).collect();
    if !whole.is_empty() {
        return whole;
    }
    plan.piece = Some(only.clone());
    let part = parts.clone().find(|part| part.pieces.split(' ').any(named));
    vec![part.unwrap_or_else(|| usage(only))]
}

fn arguments() -> (Plan, Ask) {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let mut ask = Ask {
        only: set("ONLY"),
        ..Ask::default()
    };
    let mut plan = Plan {
        quick: set("QUICK").is_some_and(|v| v != "0"),
        reps: 3,
        seed: 1,
        scale: None,
        piece: None,
    };
    let mut many = |plan: &mut Plan, number: Option<u64>| {
        ask.scale = number != Some(0);
        // `SCALE=1` only enables the option; it is not a number of hashes.
        plan.scale = number.filter(|n| *n > 1);
    };
    if let Some(number) = set("SCALE") {
        many(&mut plan, number.parse().ok());
    }
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.next() {
        if arg == "--scale" {
            let number = args.peek().and_then(|n| n.parse().ok());
            args.next_if(|_| number.is_some());
            many(&mut plan, number);
            continue;
        }
        let mut value = || args.next().unwrap_or_else(|| usage(&arg));
        match arg.as_str() {
            "--quick" => plan.quick = true,
            "--docs" => ask.docs = Some(value().into()),
            "--only" => ask.only = Some(value()),
            "--reps" => plan.reps = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--seed" => plan.seed = value().parse().unwrap_or_else(|_| usage(&arg)),
            _ => usage(&arg),
        }
    }
    (plan, ask)
}

fn usage<T>(at: &str) -> T {
    let names = PARTS.iter().filter(|part| !part.is_scale);
    let names: Vec<String> = names
        .map(|part| format!("{} ({})", part.name, part.pieces))
        .collect();
    eprintln!(
        "bench [--only SECTION|PIECE] [--quick] [--scale [N]] [--reps N] [--seed N] [--docs DIR]"
    );
    eprintln!("sections and their pieces: {}", names.join(", "));
    eprintln!("invalid argument: {at}");
    std::process::exit(2);
}

/// Returns the folder into which Cargo builds.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    root().join(target.map_or_else(|| "target".into(), PathBuf::from))
}

/// Returns the path of a file of a release build.
///
/// # Panics
/// Panics if the file has not been built.
fn release(name: &str, package: &str) -> PathBuf {
    let file = target().join("release").join(name);
    let shown = file.display();
    assert!(
        file.exists(),
        "no {shown}: cargo build --release --package {package}"
    );
    file
}

/// Sets the module to the release build. By default, the harness uses the newest build, which may
/// be a debug build.
fn choose_module() {
    if std::env::var_os("CRAWLSPACE_MODULE").is_some() {
        return;
    }
    let module = std::env::var_os("MODULE").map(PathBuf::from);
    let module = module.unwrap_or_else(|| release("libcrawlspace.so", "crawlspace"));
    assert!(module.exists(), "no module at {}", module.display());
    // SAFETY: no other thread is running yet.
    unsafe { std::env::set_var("CRAWLSPACE_MODULE", module) };
}

/// Returns the path of the `crawlspace` program built together with the module.
///
/// # Panics
/// Panics if the file has not been built.
pub fn tool() -> PathBuf {
    release("crawlspace", "crawlspace-cli")
}

/// Returns the folder of the workspace.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the workspace is above this package")
}
