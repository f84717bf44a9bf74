//! After a restart, however the data were kept, every sample's data and the replies about them are what
//! they were.

use redis_tests::matrix::{PREFIX, families};
use redis_tests::{Options, Server, Snapshot, Wire, ok};

use crate::stage::reads;

/// Runs each sample in a database of its own, then `restart`.
fn keeps_everything(options: impl Fn(Options) -> Options, restart: impl Fn(&mut Server)) {
    for family in families() {
        let databases = family.samples.len();
        let options = options(family.options()).args(&["--databases", &databases.to_string()]);
        let mut server = options.start();
        let in_database = |server: &Server, number: usize| -> Wire {
            let mut wire = server.wire();
            ok!(wire, "SELECT", number);
            wire
        };
        let mut before = Vec::new();
        for (number, line) in family.samples.iter().enumerate() {
            let mut wire = in_database(&server, number);
            let state = family.fill(&mut wire, PREFIX);
            wire.expect_ok(&state.words(line));
            let told = reads(&family, &state, &mut wire);
            before.push((state, told, Snapshot::of(&mut wire)));
        }
        let digest = server.digest();
        restart(&mut server);
        assert_eq!(server.digest(), digest, "{}", family.title());
        for (number, (line, (state, told, data))) in family.samples.iter().zip(before).enumerate() {
            let mut wire = in_database(&server, number);
            Snapshot::of(&mut wire).assert_same(&data, line);
            assert_eq!(reads(&family, &state, &mut wire), told, "{line}");
        }
        assert_eq!(server.digest(), digest, "reads write nothing");
        assert_eq!(server.info_number("panics"), 0);
    }
}

#[test]
fn debug_reload() {
    keeps_everything(
        |options| options,
        |server| {
            ok!(server.wire(), "DEBUG", "RELOAD");
        },
    );
}

#[test]
fn rdb_of_a_shutdown() {
    keeps_everything(Options::rdb, |server| {
        server.shutdown();
        server.restart();
    });
}

#[test]
fn append_only_file_after_kill_9() {
    keeps_everything(|options| options.aof_unsynced(false), Server::restart);
}

#[test]
fn append_only_file_with_preamble_after_kill_9() {
    keeps_everything(|options| options.aof_unsynced(true), Server::restart);
}

#[test]
fn rewritten_append_only_file() {
    keeps_everything(
        |options| options.aof_unsynced(false),
        Server::restart_rewritten,
    );
}

#[test]
fn rewritten_append_only_file_with_preamble() {
    keeps_everything(
        |options| options.aof_unsynced(true),
        Server::restart_rewritten,
    );
}
