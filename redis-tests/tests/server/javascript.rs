//! The JavaScript package `crawlspace` (js/crawlspace): builds it as its users get it, and runs its
//! tests with all clients and versions that it supports.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::module_path;
use redis_tests::packages::{left_out, node_package, run};

#[test]
fn the_javascript_package_passes_its_tests_with_every_client() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().expect("the repository");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("javascript");
    let node = match node_package(&folder, &root.join("js/crawlspace")) {
        Ok(node) => node,
        Err(reason) => return left_out("the JavaScript package", &reason),
    };
    let tool = |words: &[&str]| {
        let mut command = Command::new(&node);
        command
            .args(words)
            .current_dir(&folder)
            .env("CRAWLSPACE_MODULE", module_path())
            .env("CRAWLSPACE_ROOT", &root);
        if let Err(reason) = run(&mut command) {
            panic!("node {}: {reason}", words.join(" "));
        }
    };
    let compiler = "node_modules/typescript/bin/tsc";
    tool(&[compiler, "--project", "tsconfig.json"]);
    tool(&[compiler, "--project", "test/tsconfig.json"]);
    // The tests of crashes wait most of the time.
    tool(&["--test", "--test-concurrency=3", "build/"]);
}
