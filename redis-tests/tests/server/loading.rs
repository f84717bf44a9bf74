//! Configuration files that load the module more than once, as the include file of version 0.1.0
//! and `CONFIG REWRITE` create them.

use redis_tests::{Options, Server, add, assert_contains, assert_lacks, commit, module_path, ok};

/// Starts a server whose configuration has these lines. `MODULE` is replaced with the path of the
/// module.
fn configured(lines: &str) -> Server {
    let text = lines.replace("MODULE", &module_path().to_string_lossy());
    Options::configured(&text)
        .aof_unsynced(true)
        .args(&["--enable-module-command", "yes"])
        .start()
}

/// Fails unless the server has loaded the module once and its commands work.
fn assert_loaded_once(server: &Server) {
    let mut c = server.wire();
    // Some servers contain other modules.
    let modules = format!("{:?}", ok!(c, "MODULE", "LIST"));
    assert_eq!(modules.matches("libcrawlspace.so").count(), 1, "{modules}");
    add(&mut c, "p:", "crawl", [1]);
    commit(&mut c, "p:", "crawl");
    assert_eq!(server.info_number("indexes"), 1);
}

/// Counts the lines of the configuration file that load the module.
fn load_lines(server: &Server) -> usize {
    let text = std::fs::read_to_string(server.configuration()).unwrap();
    let loads = |line: &&str| line.starts_with("loadmodule ") && line.contains("libcrawlspace.so");
    text.lines().filter(loads).count()
}

#[test]
fn second_line_is_ignored_with_a_warning() {
    let mut server = configured(
        "loadmodule MODULE chg-lease 7000\ncrawlspace.slice-us 400\nloadmodule MODULE chg-lease 8000\n",
    );
    assert_loaded_once(&server);
    assert_contains(server.log(), "crawlspace: ignored a second loadmodule line");
    let setting = |name: &str| {
        let name = format!("crawlspace.{name}");
        ok!(server.wire(), "CONFIG", "GET", name).texts().pop()
    };
    assert_eq!(setting("chg-lease").as_deref(), Some("7000"));
    assert_eq!(setting("slice-us").as_deref(), Some("400"));
    // The server writes a line for the module that it has already loaded.
    ok!(server.wire(), "CONFIG", "REWRITE");
    assert_eq!(load_lines(&server), 1);
    server.restart();
    assert_loaded_once(&server);
}

#[test]
fn include_with_a_rewritten_line_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let included = folder.path().join("load.conf");
    let line = format!("loadmodule {}\n", module_path().display());
    std::fs::write(&included, line).unwrap();
    let mut server = configured(&format!("include {}\n", included.display()));
    for _ in 0..3 {
        assert_loaded_once(&server);
        ok!(server.wire(), "CONFIG", "REWRITE");
        assert_eq!(load_lines(&server), 1);
        server.restart();
    }
    assert_loaded_once(&server);
}

#[test]
fn include_of_the_package_logs_a_warning() {
    // Tests run on machines without the package. Therefore its file is missing, as after the
    // removal of the package.
    let include = "include /usr/share/redis-crawlspace/*.conf";
    let server = configured(&format!("{include}\nloadmodule MODULE\n"));
    let path = server.configuration();
    let advice = "delete this line, because another line loads the module";
    let expected = format!("crawlspace: {}:1: {advice}: {include}", path.display());
    assert_contains(server.log(), &expected);
    let server = configured("loadmodule MODULE\n");
    assert_lacks(server.log(), "crawlspace: ");
}

#[test]
fn module_load_by_a_client_is_refused_the_second_time() {
    let server = configured("loadmodule MODULE\n");
    let mut c = server.wire();
    let reply = c.call(&["MODULE", "LOAD", &module_path().to_string_lossy()]);
    assert!(reply.is_error(), "{reply:?}");
    assert_loaded_once(&server);
}
