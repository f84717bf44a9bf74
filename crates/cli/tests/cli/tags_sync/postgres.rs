//! A private PostgreSQL server in its own directory.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use postgres::{Client, NoTls};
use redis_tests::until;
use tempfile::TempDir;

/// Password of the superuser.
pub const PASSWORD: &str = "se cret/1";
/// Password of the superuser, escaped for a URL.
const PASSWORD_IN_URL: &str = "se%20cret%2F1";

/// A running server. Dropping it kills it.
pub struct Postgres {
    dir: TempDir,
    port: u16,
    settings: Vec<String>,
    child: Option<Child>,
}

impl Postgres {
    /// Starts a server with an empty database that requires passwords.
    pub fn start() -> Postgres {
        let dir = directory();
        let unpacked = Command::new("tar")
            .arg("-xpf")
            .arg(cluster())
            .arg("-C")
            .arg(dir.path())
            .status();
        assert!(
            unpacked.expect("tar runs").success(),
            "the cluster is unpacked"
        );
        let mut postgres = Postgres {
            dir,
            port: 0,
            settings: Vec::new(),
            child: None,
        };
        until("PostgreSQL has a port", || {
            postgres.port = free_port();
            postgres.spawn()
        });
        postgres
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns `postgresql://…` with the password.
    pub fn url(&self) -> String {
        self.url_with("postgres", PASSWORD_IN_URL)
    }

    /// Returns `postgresql://…` for a user with a password.
    pub fn url_with(&self, user: &str, password: &str) -> String {
        format!(
            "postgresql://{user}:{password}@127.0.0.1:{}/postgres",
            self.port
        )
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Opens a connection.
    pub fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).expect("PostgreSQL accepts connections")
    }

    /// Kills the server like a power failure, and waits for its end.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts the server in the same directory and on the same port.
    pub fn restart(&mut self) {
        self.stop();
        until("PostgreSQL comes back on its port", || self.spawn());
    }

    /// Restarts the server with this setting, such as `ssl=on`.
    pub fn restart_with(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
        self.restart();
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Stops the server immediately; unlike `kill -9`, this leaves no shared memory behind.
    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let quit = Command::new("kill")
            .args(["-QUIT", &child.id().to_string()])
            .status();
        assert!(quit.expect("kill runs").success(), "PostgreSQL was there");
        let _ = child.wait();
    }

    /// Starts the process. Returns false if its port is in use.
    fn spawn(&mut self) -> bool {
        let log = std::fs::File::create(self.dir.path().join("log")).expect("the log is writable");
        let errors = log.try_clone().expect("a second handle");
        let mut command = unprivileged(&program("postgres"));
        command
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1"])
            .arg("-c")
            .arg(format!(
                "unix_socket_directories={}",
                self.dir.path().display()
            ))
            .args(["-c", "fsync=off"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .expect("PostgreSQL starts");
        let mut ended = false;
        until("PostgreSQL answers", || {
            ended = !matches!(child.try_wait(), Ok(None));
            ended || Client::connect(&self.url(), NoTls).is_ok()
        });
        if !ended {
            self.child = Some(child);
            return true;
        }
        // After a kill, the last old process may still hold the directory for a moment.
        let log = self.log();
        let comes_back = ["in use", "could not bind", "still running", "lock file"];
        assert!(comes_back.iter().any(|text| log.contains(text)), "{log}");
        false
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("--- log of PostgreSQL ---\n{}\n---", self.log());
        }
    }
}

/// Creates a directory to which the server may write.
fn directory() -> TempDir {
    let dir = tempfile::Builder::new()
        .prefix("crawlspace-postgres-")
        .tempdir()
        .expect("a temporary directory");
    if is_root() {
        let chown = Command::new("chown").arg(user()).arg(dir.path()).status();
        assert!(chown.expect("chown runs").success());
    }
    dir
}

/// Returns an archive of an empty database cluster. Creating one takes seconds, so it is kept between runs.
fn cluster() -> &'static Path {
    static CLUSTER: OnceLock<PathBuf> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let version = Command::new(program("initdb")).arg("--version").output();
        let version = version.expect("initdb runs").stdout;
        let version =
            String::from_utf8_lossy(&version).replace(|c: char| !c.is_alphanumeric(), "-");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(folder).expect("the folder can be made");
        let kept = folder.join(format!("{version}cluster.tar"));
        if !kept.exists() {
            let dir = directory();
            initdb(dir.path());
            // Another process may create the same archive. The later one replaces the file with an equivalent one.
            let mine = folder.join(format!("cluster-{}.tar", std::process::id()));
            let packed = Command::new("tar")
                .arg("-cf")
                .arg(&mine)
                .arg("-C")
                .arg(dir.path())
                .arg("data")
                .status();
            assert!(packed.expect("tar runs").success(), "the cluster is packed");
            std::fs::rename(&mine, &kept).expect("it is on the same file system");
        }
        kept
    })
}

fn initdb(dir: &Path) {
    let passwords = dir.join("password");
    std::fs::write(&passwords, PASSWORD).expect("the directory is writable");
    let made = unprivileged(&program("initdb"))
        .arg("-D")
        .arg(dir.join("data"))
        .args(["--username=postgres", "--auth=scram-sha-256", "--no-sync"])
        .args(["--encoding=UTF8", "--locale=C.UTF-8"])
        .arg(format!("--pwfile={}", passwords.display()))
        .output()
        .expect("initdb runs");
    assert!(
        made.status.success(),
        "initdb: {}",
        String::from_utf8_lossy(&made.stderr)
    );
}

/// Builds a command that is killed with the test that started it, and that does not run as root, which
/// PostgreSQL refuses.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root() {
        let user = user();
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program).current_dir("/");
    command
}

fn is_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| {
        let id = Command::new("id").arg("-u").output().expect("id runs");
        id.stdout.starts_with(b"0\n")
    })
}

/// Returns the user that runs the server if root runs the tests. The packages of PostgreSQL create this user.
fn user() -> &'static str {
    static USER: OnceLock<&str> = OnceLock::new();
    USER.get_or_init(|| {
        let known = Command::new("id").args(["-u", "postgres"]).output();
        if known.expect("id runs").status.success() {
            "postgres"
        } else {
            "nobody"
        }
    })
}

/// Returns the path of a PostgreSQL program; Debian does not put these in PATH.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join(name));
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut packaged: Vec<PathBuf> = versions
        .map(|version| version.path().join("bin").join(name))
        .collect();
    packaged.sort();
    on_path
        .chain(packaged.into_iter().rev())
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: scripts/need postgresql"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it has an address").port()
}
