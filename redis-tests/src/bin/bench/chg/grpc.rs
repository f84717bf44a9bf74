//! G1: URLFrontier's calls over gRPC, compared with recorded figures of URLFrontier's own service.

use std::collections::HashMap;
use std::process::Command;

use redis_tests::Options;

use super::quiet;
use crate::report::{Findings, note, table};
use crate::series::{Series, grouped};
use crate::{Plan, targets, tool};

/// Measures one service, which runs in the process of its client, over an empty frontier.
pub fn measure(plan: &Plan) -> Findings {
    let (urls, closed) = (plan.scaled(500_000), plan.scaled(100_000));
    let mut all: HashMap<String, Series> = HashMap::new();
    for _ in plan.repeat("G1: gRPC") {
        let server = quiet(Options::new());
        let program = tool().with_file_name("examples").join("load");
        let output = Command::new(&program)
            .args([server.url(), urls.to_string(), closed.to_string()])
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let printed = String::from_utf8(output.stdout).expect("text");
        for line in printed.lines() {
            let (what, figure) = line.rsplit_once(": ").expect("a name");
            let figure = figure.split(' ').next().expect("a figure");
            let series = all.entry(what.to_owned()).or_default();
            series.push(figure.parse().expect("a number"));
        }
    }
    let mut found = Findings::default();
    for (what, each, recorded, goal) in [
        (
            "PutDiscovered 256, known",
            150_000.0,
            "156–177 k/s",
            targets::GRPC_KNOWN,
        ),
        (
            "PutDiscovered 256, new",
            70_000.0,
            "74 k/s",
            targets::GRPC_NEW,
        ),
        ("PutURLs, new", 40_000.0, "33 k/s", targets::GRPC_SINGLE),
        ("GetURLs 100 × 10", 50_000.0, "8–52 k/s", targets::GRPC_GET),
    ] {
        let ours = &all[what];
        let shown = ours.shown(|rate| format!("{:.0} k/s", rate / 1e3));
        let ratio: Series = ours.0.iter().map(|rate| rate / each).collect();
        table! { found;
            "G1", format!("{what}: URLs per second, relative to {} k/s", each / 1e3), "URLFrontier's memory service, recorded", shown,
                recorded, ratio, goal;
        }
    }
    let slow = &all["GetURLs 100 × 10, closed queues, p99"];
    table! { found;
        "G1", format!("99th percentile of GetURLs 100 × 10, {} queues closed", grouped(closed)), "",
            slow.shown(|ms| format!("{ms:.1} ms")), "", slow.clone(), targets::GRPC_CLOSED;
    }
    note!(found, "grpc.md"; urls = grouped(urls), queues = grouped(urls / 50), closed = grouped(closed));
    found
}
