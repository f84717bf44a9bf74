//! A client that we did not write: grpcio for Python, with code generated from the .proto file.

use std::path::Path;
use std::process::Command;

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
