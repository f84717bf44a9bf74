//! Runs pywb under gunicorn, in the same way as its users do.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::packages;
use crate::server::die_with_parent;
use crate::wait::until_some;

/// Packages to install: the release of pywb for comparisons, and its requirements.
const PACKAGES: [&str; 5] = rows![
    "pywb==2.10.*"; "setuptools<81"; "gunicorn"; "packaging"; "surt";
];

/// An installed pywb.
#[derive(Clone, Debug)]
pub struct Pywb {
    python: PathBuf,
}

/// The applications of pywb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Index and resource APIs.
    WarcServer,
    /// Replay for end users, with a CDX API and Memento.
    Wayback,
}

impl Pywb {
    /// Installs pywb in a virtual environment in the folder, and keeps the folder between runs.
    ///
    /// # Errors
    /// The reason why pywb could not be installed.
    pub fn install(folder: &Path) -> Result<Pywb, String> {
        let python = packages::python(folder, &PACKAGES)?;
        Ok(Pywb { python })
    }

    /// Returns the Python interpreter with pywb, `warcio` and `surt` in its environment.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Runs `warcio check` on these files and returns its output.
    ///
    /// # Errors
    /// Returns the output if `warcio check` reports a problem.
    pub fn warcio_check(&self, files: &[PathBuf]) -> Result<String, String> {
        let warcio = self.python.with_file_name("warcio");
        packages::run(Command::new(warcio).args(["check", "-v"]).args(files))
    }

    /// Starts pywb with the text of a `config.yaml`, and waits until it listens.
    ///
    /// # Panics
    /// Panics if pywb does not start.
    pub fn start(&self, app: App, config: &str, workers: usize) -> Running {
        let module = match app {
            App::WarcServer => "pywb.apps.warcserverapp",
            App::Wayback => "pywb.apps.wayback",
        };
        self.run(module, folder(config), workers)
    }

    /// Starts the replay application of pywb. For the collections of the configuration, pywb uses
    /// the index and resource APIs of another server instead of its own.
    ///
    /// # Panics
    /// Panics if pywb does not start.
    pub fn start_before(&self, server: &str, config: &str) -> Running {
        let dir = folder(config);
        let text = format!(
            "from gevent.monkey import patch_all; patch_all()\n\
             from pywb.apps.frontendapp import FrontEndApp\n\
             class Front(FrontEndApp):\n\
             \x20   def get_upstream_paths(self, port):\n\
             \x20       return {{'replay': '{server}/{{coll}}/resource/postreq', 'cdx-server': '{server}/{{coll}}/index'}}\n\
             application = Front()\n"
        );
        std::fs::write(dir.path().join("front.py"), text).expect("the folder is writable");
        self.run("front", dir, 1)
    }

    fn run(&self, module: &str, dir: TempDir, workers: usize) -> Running {
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file");
        let mut command = Command::new(self.python.with_file_name("gunicorn"));
        command
            .args([
                "-w",
                &workers.to_string(),
                "-k",
                "gevent",
                "-b",
                "127.0.0.1:0",
                module,
            ])
            .env("PYWB_CONFIG_FILE", "config.yaml")
            .env("NO_PROXY", "*")
            // gunicorn creates a socket in the home directory.
            .env("HOME", dir.path())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("errors"))
            // Workers live for a moment after their master was killed, so kill the whole process
            // group.
            .process_group(0);
        die_with_parent(&mut command);
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("gunicorn does not start: {e}"));
        let mut running = Running {
            child,
            dir,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        running.address = until_some("gunicorn listens and its workers are there", || {
            let ended = running.child.try_wait().expect("a child can be waited for");
            assert!(
                ended.is_none(),
                "pywb does not start:\n{}",
                running.errors()
            );
            let errors = running.errors();
            let (_, rest) = errors.split_once("Listening at: http://")?;
            let booted = errors.matches("Booting worker with pid").count();
            (booted >= workers).then(|| rest.split_whitespace().next()?.parse().ok())?
        });
        running
    }
}

/// Creates a folder with a `config.yaml`.
fn folder(config: &str) -> TempDir {
    let dir = tempfile::Builder::new()
        .prefix("crawlspace-")
        .tempdir()
        .expect("a temporary directory");
    std::fs::write(dir.path().join("config.yaml"), config).expect("the folder is writable");
    dir
}

/// pywb under gunicorn on a free loopback port. Dropping this value stops gunicorn and its workers
/// and, if the test is failing, prints their last output.
pub struct Running {
    child: Child,
    dir: TempDir,
    address: SocketAddr,
}

impl Running {
    /// Returns the address on which pywb listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:1234`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the standard error so far.
    pub fn errors(&self) -> String {
        let bytes = std::fs::read(self.dir.path().join("errors")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = -(self.child.id() as libc::pid_t);
        // SAFETY: the process group belongs to a child that is not reaped yet, so its id is still
        // valid.
        unsafe { libc::kill(group, libc::SIGKILL) };
        let _ = self.child.wait();
        if std::thread::panicking() {
            let errors = self.errors();
            let last: Vec<&str> = errors.lines().rev().take(40).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("--- pywb at {} ---\n{}\n---", self.address, last.join("\n"));
        }
    }
}
