//! After a restart, however the data were kept, every sample's data and the replies about them are what
//! they were.

use redis_tests::matrix::{Family, PREFIX};
use redis_tests::{Options, Server, Snapshot, Wire, ok};

use crate::stage::reads;

for_every_family!(
    debug_reload,
    rdb_of_a_shutdown,
    append_only_file_after_kill_9,
    append_only_file_with_preamble_after_kill_9,
    rewritten_append_only_file,
    rewritten_append_only_file_with_preamble,
);

fn debug_reload(family: &Family) {
    keeps_everything(family, family.options(), |server| {
        ok!(server.wire(), "DEBUG", "RELOAD");
    });
}

fn rdb_of_a_shutdown(family: &Family) {
    keeps_everything(family, family.options().rdb(), |server| {
        server.shutdown();
        server.restart();
    });
}

fn append_only_file_after_kill_9(family: &Family) {
    keeps_everything(
        family,
        family.options().aof_unsynced(false),
        Server::restart,
    );
}

fn append_only_file_with_preamble_after_kill_9(family: &Family) {
    keeps_everything(family, family.options().aof_unsynced(true), Server::restart);
}

fn rewritten_append_only_file(family: &Family) {
    let options = family.options().aof_unsynced(false);
    keeps_everything(family, options, Server::restart_rewritten);
}

fn rewritten_append_only_file_with_preamble(family: &Family) {
    let options = family.options().aof_unsynced(true);
    keeps_everything(family, options, Server::restart_rewritten);
}

/// Runs each sample in a database of its own, then restarts the server.
fn keeps_everything(family: &Family, options: Options, restart: impl Fn(&mut Server)) {
    let databases = family.samples.len().to_string();
    let mut server = options.args(&["--databases", &databases]).start();
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
        let told = reads(family, &state, &mut wire);
        before.push((state, told, Snapshot::of(&mut wire)));
    }
    let digest = server.digest();
    restart(&mut server);
    assert_eq!(server.digest(), digest);
    for (number, (line, (state, told, data))) in family.samples.iter().zip(before).enumerate() {
        let mut wire = in_database(&server, number);
        Snapshot::of(&mut wire).assert_same(&data, line);
        assert_eq!(reads(family, &state, &mut wire), told, "{line}");
    }
    assert_eq!(server.digest(), digest, "reads write nothing");
    assert_eq!(server.info_number("panics"), 0);
}
