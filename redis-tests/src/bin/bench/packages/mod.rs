//! P1 and P2: the packages for Python and JavaScript compared with their clients. S1: Scrapy with our package
//! compared with scrapy-redis.

use std::path::PathBuf;
use std::process::Command;

use redis_tests::packages::{self, left_out, run};
use redis_tests::{Options, Server, module_path};

use crate::report::{Findings, Goal, Section, note, say, table};
use crate::series::Series;
use crate::{Plan, root, target, targets};

/// Measures both packages. Their own programs compare them with their clients, side by side.
pub fn measure(plan: &Plan) -> Section {
    let mut found = plan.findings(&[
        ("P1", &|| {
            rows("P1", "redis-py", targets::PYTHON, &python(plan))
        }),
        ("P2", &|| {
            rows(
                "P2",
                "the client alone",
                targets::JAVASCRIPT,
                &javascript(plan),
            )
        }),
        ("S1", &|| scrapy(plan)),
    ]);
    note!(found, "ratios.md");
    note!(found, "scrapy.md");
    Section {
        title: "Packages for Python and JavaScript",
        method: include_str!("method.md").into(),
        found,
    }
}

/// Returns a folder for packages from registries. It is kept between runs.
pub fn kept(name: &str) -> PathBuf {
    target().join("tmp").join(name)
}

/// Runs `python/crawlspace/tests/bench.py` once for each repetition.
fn python(plan: &Plan) -> Vec<String> {
    let python = match packages::python(&kept("python-newest-hiredis"), &["redis", "hiredis"]) {
        Ok(python) => python,
        Err(reason) => {
            left_out("Python", &reason);
            return Vec::new();
        }
    };
    let sources = root().join("python/crawlspace");
    let measure = |_| {
        let server = Server::with(Options::new().aof(false));
        expect(
            Command::new(&python)
                .arg(sources.join("tests/bench.py"))
                .env("PYTHONPATH", sources.join("src"))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("PORT", server.port().to_string()),
        )
    };
    plan.repeat("P1: Python").map(measure).collect()
}

/// Runs `js/crawlspace/test/bench.ts` once for each repetition.
fn javascript(plan: &Plan) -> Vec<String> {
    let folder = kept("javascript");
    let node = match packages::node_package(&folder, &root().join("js/crawlspace")) {
        Ok(node) => node,
        Err(reason) => {
            left_out("Node.js", &reason);
            return Vec::new();
        }
    };
    let tool = |words: &[&str]| {
        expect(
            Command::new(&node)
                .args(words)
                .current_dir(&folder)
                .env("CRAWLSPACE_MODULE", module_path()),
        )
    };
    for project in ["tsconfig.json", "test/tsconfig.json"] {
        tool(&["node_modules/typescript/bin/tsc", "--project", project]);
    }
    let runs = plan.repeat("P2: JavaScript");
    runs.map(|_| tool(&["build/bench.js"])).collect()
}

/// Runs `python/scrapy-crawlspace/tests/compare.py`, which repeats both crawls itself.
fn scrapy(plan: &Plan) -> Findings {
    let mut found = Findings::default();
    let packages = ["scrapy", "redis", "hiredis", "scrapy-redis"];
    let python = match packages::python(&kept("scrapy"), &packages) {
        Ok(python) => python,
        Err(reason) => {
            left_out("Scrapy", &reason);
            return found;
        }
    };
    let folder = root().join("python");
    let sources = ["crawlspace/src", "scrapy-crawlspace/src"].map(|path| folder.join(path));
    let paths = std::env::join_paths(sources).expect("no path has a colon");
    say("S1: Scrapy");
    let pages = plan.scaled(4_000).to_string();
    let output = expect(
        Command::new(&python)
            .arg(folder.join("scrapy-crawlspace/tests/compare.py"))
            .args([&pages, "2", &plan.reps.to_string()])
            .env("PYTHONPATH", paths)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CRAWLSPACE_MODULE", module_path()),
    );
    let figures = |name: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(name));
        let figures = line.and_then(compared);
        figures.unwrap_or_else(|| panic!("compare.py prints {name}: {output}"))
    };
    let [cpu, their_cpu] = figures("CPU of crawlers, ms a page: ");
    let [server, their_server] = figures("CPU of the server, us a page: ");
    let [rate, their_rate] = figures("pages a second: ");
    let ms = |figure: f64| format!("{figure:.2} ms");
    let us = |figure: f64| format!("{figure:.1} µs");
    let pages = |figure: f64| format!("{figure:.0}/s");
    table! { found;
        "S1", "Scrapy, 2 processes: processor time of the crawlers per page", "scrapy-redis", ms(cpu), ms(their_cpu),
            cpu / their_cpu, targets::SCRAPY;
        "S1", "Scrapy, 2 processes: pages per second", "scrapy-redis", pages(rate), pages(their_rate),
            rate / their_rate, targets::SCRAPY_PAGES;
        "S1", "Scrapy, 2 processes: processor time of the server per page", "scrapy-redis", us(server), us(their_server),
            server, targets::SCRAPY_SERVER;
    }
    found
}

/// Parses the figures of a line of `compare.py`: `2.888, scrapy-redis 3.730, ratio 0.774`.
fn compared(line: &str) -> Option<[f64; 2]> {
    let (ours, rest) = line.split_once(", scrapy-redis ")?;
    let (theirs, _) = rest.split_once(',')?;
    Some([ours.parse().ok()?, theirs.parse().ok()?])
}

/// Runs a program and returns its output.
///
/// # Panics
/// Panics if the program fails.
fn expect(command: &mut Command) -> String {
    run(command).unwrap_or_else(|reason| panic!("{command:?}: {reason}"))
}

/// Returns a row for each line of the outputs, which are `name; CPU ratio, throughput ratio`.
fn rows(id: &str, against: &str, goal: Goal, outputs: &[String]) -> Findings {
    let mut names: Vec<&str> = Vec::new();
    let mut ratios: Vec<[Series; 2]> = Vec::new();
    for line in outputs.iter().flat_map(|output| output.lines()) {
        let (name, cpu, throughput) = parsed(line).unwrap_or_else(|| panic!("{id}: {line}"));
        let at = names.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| {
            names.push(name);
            ratios.push(Default::default());
            names.len() - 1
        });
        ratios[at][0].push(cpu);
        ratios[at][1].push(throughput);
    }
    let mut found = Findings::default();
    for (name, [cpu, throughput]) in names.into_iter().zip(ratios) {
        let rate = throughput.shown(|ratio| format!("throughput × {ratio:.2}"));
        table! { found; id, name, against, rate, "1", cpu, goal; }
    }
    found
}

fn parsed(line: &str) -> Option<(&str, f64, f64)> {
    let (name, ratios) = line.rsplit_once("; CPU ")?;
    let (cpu, throughput) = ratios.split_once(", throughput ")?;
    Some((name, cpu.parse().ok()?, throughput.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_repetitions_become_one_row_each() {
        let output =
            |cpu: &str| format!("leases; CPU {cpu}, throughput 0.9\nadd; CPU 1, throughput 1\n");
        let outputs = [output("1.5"), output("1.25"), output("1.75")];
        let found = rows("P1", "redis-py", Goal::AtMost(1.1, "×"), &outputs);
        assert_eq!(found.rows.len(), 2);
        let cells = found.rows[0].cells().join(" | ");
        assert_eq!(
            cells,
            "P1 | leases | redis-py | throughput × 0.90 | 1 | 1.50 × (1.25–1.75) | ≤ 1.1 × | **not met**"
        );
        assert_eq!(parsed("leases: CPU 1"), None);
        let line = "2.888, scrapy-redis 3.730, ratio 0.774";
        assert_eq!(compared(line), Some([2.888, 3.73]));
    }
}
