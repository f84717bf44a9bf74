//! A running server in its own directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::dataset::Snapshot;
use crate::wait::{until, until_some, within};
use crate::wire::{Reply, TIMEOUT, Wire};

/// Returns the path of the module under test: `CRAWLSPACE_MODULE`, or the newest module in the
/// target folder.
///
/// # Panics
/// Panics if no module was built.
pub fn module_path() -> PathBuf {
    if let Some(path) = std::env::var_os("CRAWLSPACE_MODULE") {
        let path = PathBuf::from(path);
        // The path must be absolute: the server changes its directory before it loads the module.
        return std::path::absolute(&path).unwrap_or(path);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is above this package");
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    };
    let candidates = ["release", "debug"].map(|p| target.join(p).join("libcrawlspace.so"));
    let newest = candidates
        .iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path.clone(),
        None => panic!(
            "no libcrawlspace.so in {}: run `make build`",
            target.display()
        ),
    }
}

/// Environment variable that sets the storage of indexes and frontiers, `plain` (default) or
/// `packed`, unless a test sets it.
const STORAGE: &str = "CRAWLSPACE_STORAGE";

/// Returns true if servers pack their indexes and frontiers by default.
pub fn packed_by_default() -> bool {
    std::env::var(STORAGE).is_ok_and(|storage| storage == "packed")
}

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    configuration: Option<String>,
    module: Option<Vec<String>>,
    args: Vec<String>,
    master: Option<u16>,
    cluster: bool,
    environment: Vec<(String, String)>,
    storage: Option<String>,
    timeout: Option<Duration>,
    wrapper: Vec<String>,
}

impl Options {
    /// Creates options with the module and without persistence. `CRAWLSPACE_STORAGE` sets the storage of new indexes
    /// and frontiers.
    pub fn new() -> Options {
        Options {
            module: Some(Vec::new()),
            storage: std::env::var(STORAGE).ok(),
            ..Options::default()
        }
    }

    /// Creates options with a configuration file of this text. The server loads only the modules in
    /// the file. A restart uses the same file, including the changes that the server made.
    /// Arguments override the file.
    pub fn configured(text: &str) -> Options {
        Options {
            configuration: Some(text.to_owned()),
            ..Options::default()
        }
    }

    /// Stores new indexes and frontiers in plain keys, regardless of `CRAWLSPACE_STORAGE`, for
    /// tests of clients that know only the documented keys.
    pub fn plain(self) -> Options {
        self.stored("plain")
    }

    /// Packs new indexes and frontiers, regardless of `CRAWLSPACE_STORAGE`.
    pub fn packed(self) -> Options {
        self.stored("packed")
    }

    fn stored(mut self, storage: &str) -> Options {
        self.storage = Some(storage.to_owned());
        self
    }

    /// Starts the server without the module.
    pub fn no_module(mut self) -> Options {
        self.module = None;
        self
    }

    /// Sets module arguments, as pairs: `["slice-us", "100"]`.
    pub fn module_args(mut self, args: &[&str]) -> Options {
        self.module = Some(args.iter().map(|&a| a.to_owned()).collect());
        self
    }

    /// Enables an append-only file that is synchronized before each reply, with or without an RDB
    /// preamble.
    pub fn aof(self, preamble: bool) -> Options {
        let preamble = if preamble { "yes" } else { "no" };
        self.args(&["--appendonly", "yes"])
            .args(&["--appendfsync", "always"])
            .args(&["--aof-use-rdb-preamble", preamble])
    }

    /// Enables an append-only file that is written before each reply, while the kernel decides when
    /// to synchronize it. This mode is fast, and killing the process with `kill -9` loses no
    /// writes. (With `everysec`, the server delays writes for up to two seconds while it
    /// synchronizes the file, and a kill loses these writes.)
    pub fn aof_unsynced(self, preamble: bool) -> Options {
        self.aof(preamble).args(&["--appendfsync", "no"])
    }

    /// Enables an append-only file that is synchronized every second, as in most production setups.
    pub fn aof_everysec(self, preamble: bool) -> Options {
        self.aof(preamble).args(&["--appendfsync", "everysec"])
    }

    /// Enables RDB persistence: the server saves at shutdown and on `SAVE`.
    pub fn rdb(self) -> Options {
        self.args(&["--save", "3600 1"])
    }

    /// Adds arguments of the server.
    pub fn args(mut self, args: &[&str]) -> Options {
        self.args.extend(args.iter().map(|&a| a.to_owned()));
        self
    }

    /// Makes the server a replica of `master`.
    pub fn replica_of(mut self, master: &Server) -> Options {
        self.master = Some(master.port());
        self
    }

    /// Enables cluster mode (without assigned slots).
    pub fn cluster_enabled(mut self) -> Options {
        self.cluster = true;
        self
    }

    /// Sets an environment variable of the server.
    pub fn env(mut self, name: &str, value: &str) -> Options {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the time limit for the start and for each reply. The default is one minute.
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = Some(timeout);
        self
    }

    /// Runs the server under another program, given with its arguments, such as
    /// `["valgrind", "--quiet"]`. The program must keep the process id.
    pub fn under(mut self, program: &[&str]) -> Options {
        self.wrapper = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Server {
        Server::with(self)
    }
}

/// A running server. Dropping this value kills the server and, if the test is failing, prints its
/// log.
pub struct Server {
    options: Options,
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts a server with the module and default options.
    pub fn start() -> Server {
        Options::new().start()
    }

    /// Starts a server with these options.
    ///
    /// # Panics
    /// Panics with the server's log if the server does not start.
    pub fn with(options: Options) -> Server {
        let mut server = Server {
            options,
            dir: tempfile::Builder::new()
                .prefix("crawlspace-")
                .tempdir()
                .expect("a temporary directory"),
            port: 0,
            child: None,
        };
        // Another test may have taken a port that was free a moment ago, so try another port.
        for _ in 0..20 {
            server.port = free_port();
            if server.spawn() {
                return server;
            }
        }
        panic!("no free port found");
    }

    /// Returns the TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of the unix socket.
    pub fn unix_path(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// Returns the directory of the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns `redis://127.0.0.1:<port>/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// Panics if the server is not running.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Opens a plain RESP2 connection over the unix socket.
    pub fn wire(&self) -> Wire {
        let wire = Wire::unix(&self.unix_path()).expect("the server accepts connections");
        wire.within(self.timeout())
    }

    fn timeout(&self) -> Duration {
        self.options.timeout.unwrap_or(TIMEOUT)
    }

    /// Opens a plain RESP3 connection over the unix socket.
    pub fn wire3(&self) -> Wire {
        self.wire().resp3()
    }

    /// Opens a RESP2 connection of the `redis` crate.
    pub fn conn(&self) -> redis::Connection {
        self.open(&self.url())
    }

    /// Opens a RESP3 connection of the `redis` crate.
    pub fn conn3(&self) -> redis::Connection {
        self.open(&format!("{}?protocol=resp3", self.url()))
    }

    fn open(&self, url: &str) -> redis::Connection {
        redis::Client::open(url)
            .and_then(|client| client.get_connection())
            .expect("the server accepts connections")
    }

    /// Rewrites the append-only file, kills the server and restarts it from that file.
    ///
    /// # Panics
    /// Panics if the server refuses to rewrite the file.
    pub fn restart_rewritten(&mut self) {
        let begun = self.wire().call(&["BGREWRITEAOF"]);
        assert!(!begun.is_error(), "BGREWRITEAOF replied {begun:?}");
        self.until_rewritten();
        self.kill9();
        self.restart();
    }

    /// Waits until the rewrite of the append-only file is complete.
    pub fn until_rewritten(&self) {
        until("the append-only file is rewritten", || {
            self.info_number("aof_rewrite_in_progress") == 0
                && self.info_number("aof_rewrite_scheduled") == 0
        });
    }

    /// Returns the number of calls of each command since `CONFIG RESETSTAT`, including calls by scripts and by the
    /// module.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let stats = self.wire().expect_ok(&["INFO", "commandstats"]).text();
        let calls = |line: &str| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = figures.split(',').next()?.parse().ok()?;
            Some((name.to_owned(), calls))
        };
        stats.lines().filter_map(calls).collect()
    }

    /// Waits until this many clients are blocked.
    pub fn until_blocked(&self, clients: i64) {
        until("clients are blocked", || {
            self.info_number("blocked_clients") == clients
        });
    }

    /// Waits until no job of the module is running.
    pub fn until_idle(&self) {
        until("no job runs", || self.info_number("jobs_running") == 0);
    }

    /// Kills the server with SIGKILL, which is similar to a power failure, and waits for its end.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills the server while a client waits for a reply, and restarts it.
    ///
    /// # Panics
    /// Panics if the client has already received its reply.
    #[track_caller]
    pub fn kill_under(&mut self, waiting: &mut Wire) {
        self.kill9();
        let reply = waiting.try_recv();
        assert!(
            reply.is_err(),
            "the command completed before the kill: {reply:?}"
        );
        self.restart();
    }

    /// Makes the server save and exit, and waits for its end.
    pub fn shutdown(&mut self) {
        let mut wire = self.wire();
        let _ = wire.try_send(&["SHUTDOWN"]);
        let _ = wire.try_recv();
        let mut child = self.child.take().expect("the server runs");
        child.wait().expect("the server ends");
    }

    /// Restarts the server with the same directory and port, and waits until it has loaded its
    /// data. If the server is still running, kills it first ([`Server::kill9`]).
    pub fn restart(&mut self) {
        self.kill9();
        until("the server comes back on its port", || self.spawn());
    }

    /// Restarts the server with other options, for example without the module; see
    /// [`Server::restart`].
    pub fn restart_as(&mut self, options: Options) {
        self.options = options;
        self.restart();
    }

    /// Returns true while the process is running.
    pub fn is_alive(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|c| matches!(c.try_wait(), Ok(None)))
    }

    /// Returns the digest of the whole data set.
    pub fn digest(&self) -> String {
        self.wire().expect_ok(&["DEBUG", "DIGEST"]).text()
    }

    /// Returns database 0 as sorted text.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&mut self.wire())
    }

    /// Returns one database as sorted text.
    pub fn snapshot_of(&self, db: u32) -> Snapshot {
        let mut wire = self.wire();
        wire.expect_ok(&["SELECT", &db.to_string()]);
        Snapshot::of(&mut wire)
    }

    /// Returns a field of `INFO` (default sections, modules, command statistics), if it exists.
    pub fn info(&self, field: &str) -> Option<String> {
        info_field(&mut self.wire(), field)
    }

    /// Returns a numeric field of `INFO`; see [`Server::info`].
    ///
    /// # Panics
    /// Panics if the field is missing or not a number.
    pub fn info_number(&self, field: &str) -> i64 {
        let text = self.info(field);
        let number = text.as_deref().and_then(|t| t.parse().ok());
        number.unwrap_or_else(|| panic!("INFO field {field} is {text:?}"))
    }

    /// Waits until `replica` has received all writes of this server so far.
    pub fn wait_for_replica_offset(&self, replica: &Server) {
        until("the replica is linked", || {
            replica.info("master_link_status").as_deref() == Some("up")
        });
        until("the replica catches up", || {
            let wanted = self.info("master_repl_offset");
            replica.info("slave_repl_offset") == wanted && self.info("master_repl_offset") == wanted
        });
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.dir.path().join("redis.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Starts the process. Returns false if the port is taken.
    fn spawn(&mut self) -> bool {
        if let Some(text) = &self.options.configuration
            && !self.configuration().exists()
        {
            std::fs::write(self.configuration(), text).expect("the directory is writable");
        }
        let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let out = File::create(self.dir.path().join("stdout")).expect("the directory is writable");
        let errors = out.try_clone().expect("a second handle");
        let log_before = self.log().len();
        let mut words: Vec<OsString> = self.options.wrapper.iter().map(Into::into).collect();
        words.push(program.clone());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(self.arguments())
            .env("RUST_BACKTRACE", "0")
            .envs(self.options.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors);
        die_with_parent(&mut command);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{} does not start: {e}", program.to_string_lossy()));
        let started = within(self.timeout(), || {
            if !matches!(child.try_wait(), Ok(None)) {
                return Some(false);
            }
            let mut wire = Wire::unix(&self.unix_path()).ok()?;
            wire.try_send(&["PING"]).ok()?;
            (wire.try_recv().ok()? == Reply::Simple(b"PONG".to_vec())).then_some(true)
        });
        if started == Some(true) {
            self.child = Some(child);
            return true;
        }
        let _ = child.kill();
        let _ = child.wait();
        let log = self.log().split_off(log_before);
        if log.contains("in use") || log.contains("Failed listening") {
            return false;
        }
        let stdout = std::fs::read_to_string(self.dir.path().join("stdout")).unwrap_or_default();
        panic!("the server did not start:\n{log}\n{stdout}");
    }

    /// Returns the path of the configuration file.
    pub fn configuration(&self) -> PathBuf {
        self.dir.path().join("redis.conf")
    }

    fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.dir.path().join(name).to_string_lossy().into_owned();
        let fixed = rows![
            ["--bind", "127.0.0.1"]; ["--port", &self.port.to_string()];
            ["--unixsocket", &path("redis.sock")]; ["--dir", &path("")]; ["--logfile", &path("redis.log")];
            ["--save", ""]; ["--enable-debug-command", "yes"]; ["--crash-memcheck-enabled", "no"];
            ["--repl-diskless-sync", "yes"]; ["--repl-diskless-sync-delay", "0"];
            // Avoid BUSY replies during long scripts of the benchmarks.
            ["--busy-reply-threshold", "0"];
            // Make a replica reconnect within 10 ms, and not after a second.
            ["--hz", "100"];
        ];
        let mut args = Vec::new();
        if self.options.configuration.is_some() {
            args.push(path("redis.conf"));
        }
        args.extend(fixed.iter().flatten().map(|&a| a.to_owned()));
        if let Some(master) = self.options.master {
            args.extend(["--replicaof", "127.0.0.1", &master.to_string()].map(str::to_owned));
        }
        if self.options.cluster {
            let bus = free_port().to_string();
            args.extend(["--cluster-enabled", "yes", "--cluster-port", &bus].map(str::to_owned));
        }
        if let Some(module_args) = &self.options.module {
            args.push("--loadmodule".to_owned());
            args.push(module_path().to_string_lossy().into_owned());
            args.extend(module_args.iter().cloned());
            if let Some(storage) = &self.options.storage {
                for family in ["dedupe", "chg"] {
                    args.extend([format!("{family}-storage"), storage.clone()]);
                }
            }
        }
        args.extend(self.options.args.iter().cloned());
        args
    }
}

/// Fails unless a replica that has caught up with its master has the same data.
#[track_caller]
pub fn assert_replicated(master: &Server, replica: &Server) {
    master.wait_for_replica_offset(replica);
    assert_eq!(master.digest(), replica.digest());
}

impl Drop for Server {
    fn drop(&mut self) {
        let was_alive = self.is_alive();
        self.kill9();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            eprintln!(
                "--- log of the server at port {} (alive: {was_alive}) ---\n{last}\n---",
                self.port
            );
        }
    }
}

/// Returns one field of `INFO`. Reads only the needed sections, because the section `everything`
/// computes latency percentiles on each call.
fn info_field(wire: &mut Wire, field: &str) -> Option<String> {
    let info = wire
        .expect_ok(&["INFO", "default", "modules", "commandstats"])
        .text();
    info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        // The server prefixes module fields with the module's name.
        let plain = name.strip_prefix("crawlspace_").unwrap_or(name);
        (name == field || plain == field).then(|| value.to_owned())
    })
}

/// Returns a port that is free now.
pub fn free_port() -> u16 {
    until_some("a free port", || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).ok()?;
        Some(listener.local_addr().ok()?.port())
    })
}

/// Makes the kernel kill the child process when the thread that started it ends, so that a killed
/// test leaves no processes behind. Only this thread, and threads for which it waits, may use the
/// child.
pub(crate) fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: prctl is async-signal-safe and affects only the new process.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}
