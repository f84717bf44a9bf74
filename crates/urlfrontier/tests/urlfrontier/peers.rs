//! A client that we did not write: grpcio for Python, with code generated from the .proto file; and many closed queues.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use redis_tests::packages;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_client_crawls() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpcio");
    std::fs::create_dir_all(&folder).unwrap();
    let python = match packages::python(&folder, &["grpcio", "grpcio-tools"]) {
        Ok(python) => python,
        Err(reason) => return packages::left_out("grpcio", &reason),
    };
    let stage = Stage::new().await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = Command::new(python);
    program.arg(here.join("tests/urlfrontier/client.py"));
    program
        .arg(here.join("proto"))
        .arg(stage.address.to_string());
    program.arg(packages::sized("300", "20000"));
    let output = tokio::task::block_in_place(|| packages::run(&mut program)).unwrap();
    assert!(output.ends_with("all URLs were crawled once\n"), "{output}");
}

/// Adds 10 URLs to each of 100 new queues and gets these URLs, 100 times. Returns the median time of getting the
/// URLs.
async fn deliver(stage: &Stage, client: &mut Client, name: &str) -> Duration {
    let calls = || stage.server.info_number("total_commands_processed");
    let mut times = Vec::new();
    for round in 0..100 {
        let key = |n: usize| format!("{name}-{round}-{}", n % 100);
        let infos = (0..1000).map(|n| info(&key(n), &format!("http://{}/{n}", key(n))));
        client.put_batch(infos.collect()).await;
        let before = calls();
        let begun = Instant::now();
        assert_eq!(client.get(100, 10).await.len(), 1000);
        times.push(begun.elapsed());
        assert!(calls() - before < 10);
    }
    times.sort_unstable();
    times[50]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_queues_do_not_delay_the_others() {
    let closed = packages::sized(2000, 100_000);
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    delay(&mut client, "", 3600).await.unwrap();
    let alone = deliver(&stage, &mut client, "first").await;
    let queues: Vec<usize> = (0..closed).collect();
    for some in queues.chunks(10_000) {
        let infos = some
            .iter()
            .map(|n| info(&format!("q{n}"), &format!("http://q{n}/")));
        client.put_batch(infos.collect()).await;
    }
    assert_eq!(client.get(0, 1).await.len(), closed);
    let beside = deliver(&stage, &mut client, "second").await;
    // A look at each of 100 000 closed queues would take a hundred times as long; other tests that run at the same
    // time change the times by less than ten.
    if packages::at_full_size() {
        assert!(beside < alone * 10, "{beside:?}, {alone:?} without them");
    }
}
