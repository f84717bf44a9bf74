//! Tests that this module loads the data of earlier versions: the files of `redis-tests/fixtures`,
//! which `cargo run -p redis-tests --bin fixture` writes at each release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::examples::{Live, steps};
use redis_tests::{Options, Server, simulated};

/// Returns the folders of all versions.
fn versions() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let folders = fs::read_dir(fixtures).expect("the folder is there");
    folders.map(|folder| folder.unwrap().path()).collect()
}

/// Returns the differences between the stored replies of a version and the replies of a server that
/// has loaded its files.
fn differences(version: &Path, options: Options) -> Vec<String> {
    let mut server = Server::start();
    server.kill9();
    let copied = Command::new("cp")
        .args(["-r", "dump.rdb", "appendonlydir"])
        .arg(server.dir())
        .current_dir(version)
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "cp failed");
    server.restart_as(options);
    let page = fs::read_to_string(version.join("replies.md")).expect("the page is there");
    let steps = steps(&page);
    assert!(
        steps.len() > 50,
        "{}: {} examples",
        version.display(),
        steps.len()
    );
    let mut wire = server.wire();
    let mut now = Live::default();
    let differences = steps.iter().filter_map(|step| {
        let reply = wire.call(&step.words(&now));
        step.difference(&reply, &mut now)
    });
    differences.collect()
}

#[test]
fn rdb_and_aof_of_every_version_are_loaded() {
    let versions = versions();
    assert!(!versions.is_empty());
    for version in versions {
        for (kind, options) in [("RDB", simulated()), ("AOF", simulated().aof(false))] {
            let differences = differences(&version, options);
            let [] = &differences[..] else {
                panic!(
                    "{kind} of {}:\n{}",
                    version.display(),
                    differences.join("\n\n")
                );
            };
        }
    }
}
