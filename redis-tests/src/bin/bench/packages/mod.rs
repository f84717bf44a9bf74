//! P1 and P2: the packages for Python and JavaScript next to their clients.

use std::path::PathBuf;
use std::process::Command;

use redis_tests::packages::{self, left_out, run};
use redis_tests::{Options, Server, module_path};

use crate::report::{Findings, Goal, Section, note, table};
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
                "the client that it names",
                targets::JAVASCRIPT,
                &javascript(plan),
            )
        }),
    ]);
    note!(found, "ratios.md");
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
    }
}
