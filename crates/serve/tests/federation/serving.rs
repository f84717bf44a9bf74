//! The server under test, in this process or in its own.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_serve::config::Config;
use crawlspace_serve::reload::{ConfigFiles, Current};
use crawlspace_serve::server::{Options, serve};
use crawlspace_serve::{Federation, memory};
use futures_util::FutureExt;
use http::HeaderValue;
use redis_tests::http::{Answer, get};
use redis_tests::{Program, with};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::{MakeWriter, fmt};
use tracing_subscriber::util::SubscriberInitExt;

/// Environment variable with the configuration file, for a process that runs a server.
const CONFIG: &str = "CRAWLSPACE_TESTS_CONFIG";
/// Environment variable with the memory limit of that server, in MiB.
const MEMORY: &str = "CRAWLSPACE_TESTS_MEMORY";

/// Options of a server.
#[derive(Default)]
pub struct Setup {
    /// Folder of the configuration; by default a temporary one.
    pub folder: Option<PathBuf>,
    /// Address of the listener; by default a free port of 127.0.0.1.
    pub bind: Option<SocketAddr>,
    pub public_url: Option<String>,
    pub allow_origin: Option<HeaderValue>,
    /// Forbids requests to this machine, unless the configuration allows them.
    pub is_guarded: bool,
    /// Logs errors only.
    pub is_quiet: bool,
    /// Runs the server in its own process. Tests of the process need this, and so do servers that query each other,
    /// because within one process they would report a cycle. The following options require it.
    pub is_apart: bool,
    /// Memory limit, in MiB.
    pub memory: Option<u64>,
    /// Shell commands to run first, to set limits.
    pub limits: &'static str,
    pub variables: Vec<(&'static str, String)>,
}

/// The server under test. Dropping this value stops the server.
pub struct Stage {
    address: SocketAddr,
    operator: SocketAddr,
    runs: Runs,
    dir: TempDir,
}

enum Runs {
    /// Runs in this process, with its own runtime until it is stopped.
    Here(Option<Runtime>),
    Apart(Program),
}

impl Stage {
    /// Starts a server with this configuration, to which loopback addresses are added as allowed.
    pub fn start(config: &str) -> Stage {
        Stage::start_with(config, Setup::default())
    }

    /// Starts a server at an address.
    pub fn start_at(config: &str, bind: SocketAddr) -> Stage {
        Stage::start_with(config, with!(Setup, bind: Some(bind)))
    }

    /// Starts a server with the configuration in the given folder.
    pub fn start_in(folder: &Path, config: &str) -> Stage {
        Stage::start_with(config, with!(Setup, folder: Some(folder.to_owned())))
    }

    /// Starts a server that pages of that origin may query.
    pub fn start_for(origin: &str, config: &str) -> Stage {
        let origin = origin.parse().unwrap();
        Stage::start_with(config, with!(Setup, allow_origin: Some(origin)))
    }

    /// Starts a server with a configuration to which no addresses are added.
    pub fn start_guarded(config: &str) -> Stage {
        Stage::start_with(config, with!(Setup, is_guarded: true))
    }

    /// Starts a server in its own process.
    pub fn start_apart(config: &str) -> Stage {
        Stage::start_with(config, with!(Setup, is_apart: true))
    }

    /// Starts a server with all options.
    pub fn start_with(config: &str, setup: Setup) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let folder = setup.folder.as_deref().unwrap_or(dir.path());
        let file = folder.join("config.yaml");
        let allowed = if setup.is_guarded {
            ""
        } else {
            "allow_private: [127.0.0.0/8]\n"
        };
        std::fs::write(&file, format!("{allowed}{config}")).unwrap();
        if setup.is_apart {
            Stage::apart(dir, &file, &setup)
        } else {
            Stage::here(dir, &file, setup)
        }
    }

    fn here(dir: TempDir, file: &Path, setup: Setup) -> Stage {
        let level = if setup.is_quiet {
            Level::ERROR
        } else {
            Level::INFO
        };
        let log = log(
            Arc::new(File::create(dir.path().join("log")).unwrap()),
            level,
        );
        let of_thread = log.clone();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            // The log stays the thread's default for the life of the thread.
            .on_thread_start(move || std::mem::forget(of_thread.clone().set_default()))
            .build()
            .unwrap();
        let _log = log.set_default();
        let never = std::future::pending();
        let ([address, operator], _) = open(&runtime, file, setup, never);
        Stage {
            address,
            operator,
            runs: Runs::Here(Some(runtime)),
            dir,
        }
    }

    fn apart(dir: TempDir, file: &Path, setup: &Setup) -> Stage {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("sh");
        let script = format!("{}\nexec \"$0\" \"$@\"", setup.limits);
        command.args(["-euc", &script]).arg(this);
        let name = "serving::server_process_ends_on_a_signal";
        command.args(["--exact", name, "--nocapture"]);
        for name in [
            "ACCESS_KEY_ID",
            "SECRET_ACCESS_KEY",
            "SESSION_TOKEN",
            "REGION",
            "ENDPOINT_URL",
        ] {
            command.env_remove(format!("AWS_{name}"));
        }
        command.env(CONFIG, file);
        command.envs(setup.memory.map(|memory| (MEMORY, memory.to_string())));
        command.envs(setup.variables.iter().map(|(name, value)| (name, value)));
        let mut program = Program::start(command);
        let address = program.address();
        let said = program.out();
        let operator = said
            .rsplit_once("http://")
            .and_then(|(_, at)| at.split_once('/'));
        Stage {
            address,
            operator: operator.and_then(|(at, _)| at.parse().ok()).expect(&said),
            runs: Runs::Apart(program),
            dir,
        }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the response to a GET request.
    pub fn get(&self, target: impl AsRef<str>) -> Answer {
        get(self.address, target.as_ref())
    }

    /// Returns the operator's address.
    pub fn operator(&self) -> SocketAddr {
        self.operator
    }

    /// Returns `http://127.0.0.1:1234`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        match &self.runs {
            Runs::Here(..) => std::fs::read_to_string(self.dir.path().join("log")).unwrap(),
            Runs::Apart(program) => program.errors(),
        }
    }

    /// Returns the process of a server that has its own.
    pub fn program(&mut self) -> &mut Program {
        match &mut self.runs {
            Runs::Here(..) => panic!("the server runs in this process"),
            Runs::Apart(program) => program,
        }
    }

    /// Returns the id of that process.
    pub fn pid(&self) -> u32 {
        match &self.runs {
            Runs::Here(..) => panic!("the server runs in this process"),
            Runs::Apart(program) => program.pid(),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Runs::Here(runtime) = &mut self.runs {
            runtime.take().unwrap().shutdown_background();
            if std::thread::panicking() {
                eprintln!("--- {} ---\n{}---", self.url(), self.log());
            }
        }
    }
}

/// Creates a logger like that of `crawlspace serve`.
fn log(to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static, level: Level) -> Dispatch {
    let log = fmt().json().flatten_event(true);
    log.with_max_level(level).with_writer(to).finish().into()
}

/// Runs a server as `crawlspace serve` does with a configuration file. Returns its address, the operator's address, and
/// the server's task.
fn open(
    runtime: &Runtime,
    file: &Path,
    setup: Setup,
    stop: impl Future<Output = ()> + Clone + Send + 'static,
) -> ([SocketAddr; 2], JoinHandle<io::Result<()>>) {
    let mut files = ConfigFiles::of(file.to_owned());
    let (config, warnings) = Config::read(file).unwrap();
    files.look(&config);
    for warning in warnings {
        tracing::warn!(warning = %warning.of("config.yaml"), "the configuration");
    }
    let current = Current::new(Federation::open_at(&config, setup.public_url).unwrap());
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bind = setup.bind.unwrap_or(free);
    let listeners = [bind, free].map(|at| runtime.block_on(TcpListener::bind(at)).unwrap());
    let addresses = listeners.each_ref().map(|one| one.local_addr().unwrap());
    current.federation().net.refuse_operators(addresses[1]);
    let [listener, for_operator] = listeners;
    let options = with!(Options, operator: true);
    runtime.spawn(serve(
        Arc::clone(&current),
        for_operator,
        options,
        stop.clone(),
    ));
    let options = with!(Options, allow_origin: setup.allow_origin);
    let served = runtime.spawn(serve(Arc::clone(&current), listener, options, stop));
    runtime.spawn(async move {
        loop {
            files.changed().await;
            files = current.reload(files).await;
        }
    });
    (addresses, served)
}

/// Runs the server of that process, if the environment variable is set.
#[test]
fn server_process_ends_on_a_signal() {
    let Some(file) = std::env::var_os(CONFIG) else {
        let mut stage = Stage::start_apart("collections: {a: $live}");
        assert_eq!(stage.get("/").status, 200);
        assert_eq!(get(stage.operator(), "/_status").status, 200);
        stage.program().interrupt();
        let ended = || stage.program().ended().cloned();
        let ended = redis_tests::until_some("the server has ended", ended);
        assert!(ended.status.success(), "{}", ended.errors);
        return;
    };
    log(io::stderr, Level::INFO).init();
    if let Ok(limit) = std::env::var(MEMORY) {
        memory::limit(limit.parse::<u64>().unwrap() << 20);
    }
    let runtime = Runtime::new().unwrap();
    let stop = tokio::signal::ctrl_c().map(|_| ());
    let (addresses, served) = open(&runtime, Path::new(&file), Setup::default(), stop.shared());
    println!("{}", addresses.map(|at| format!("http://{at}/")).join(" "));
    runtime.block_on(served).unwrap().unwrap();
    // Running builds need not be finished.
    runtime.shutdown_background();
}

/// A server in this process, with short timeouts.
pub struct Impatient {
    current: Arc<Current>,
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Impatient {
    /// Starts a server with a configuration in a folder.
    pub fn start(config: &str, folder: &Path) -> Impatient {
        let (config, _) = Config::parse(config, "config.yaml", folder).unwrap();
        let current = Current::new(Federation::open(&config).unwrap());
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let short = Duration::from_millis(300);
        let options = with!(Options, head: short, stall: short);
        let never = std::future::pending();
        runtime.spawn(serve(Arc::clone(&current), listener, options, never));
        Impatient {
            current,
            address,
            runtime: Some(runtime),
        }
    }

    /// Returns the number of users: the server itself and each connection.
    pub fn users(&self) -> usize {
        Arc::strong_count(&self.current)
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}
