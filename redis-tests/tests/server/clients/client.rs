//! The tested clients and their connections.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::{Cluster, Server, packages};

use redis_tests::script::Script;

/// The server or cluster for the examples, and how to connect to it.
pub enum Place {
    One(Server),
    Three(Cluster),
}

impl Place {
    pub fn nodes(&self) -> &[Server] {
        match self {
            Place::One(server) => std::slice::from_ref(server),
            Place::Three(cluster) => cluster.nodes(),
        }
    }

    /// Returns the node that has this key.
    pub fn owner(&self, key: &[u8]) -> &Server {
        match self {
            Place::One(server) => server,
            Place::Three(cluster) => cluster.owner(key),
        }
    }

    /// Returns the number of redirects that clients got.
    pub fn moved(&self) -> i64 {
        let count = |node: &Server| {
            let stats = node.info("errorstat_MOVED").unwrap_or_default();
            let count = stats.strip_prefix("count=").unwrap_or("0");
            count.parse::<i64>().expect("a number")
        };
        self.nodes().iter().map(count).sum()
    }
}

/// A client with its settings.
#[derive(Clone, Copy)]
pub struct Client {
    pub language: Language,
    pub protocol: u8,
    /// True if the client connects directly to the right node of a cluster.
    pub routed: bool,
    /// True if the client uses its default protocol and timeouts. Otherwise, it waits without
    /// limit.
    pub defaults: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    Python,
    PythonWithHiredis,
    JavaScript,
    NodeRedis,
    Glide,
    Coredis,
}

impl Client {
    pub fn name(&self) -> &'static str {
        match self.language {
            Language::Python => "redis-py",
            Language::PythonWithHiredis => "redis-py with hiredis",
            Language::JavaScript => "ioredis",
            Language::NodeRedis => "node-redis",
            Language::Glide => "valkey-glide",
            Language::Coredis => "coredis",
        }
    }

    /// Starts a script with this client, or returns the reason why that is impossible.
    pub fn start(&self, script: &str, place: &Place) -> Result<Script, String> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/clients");
        let folder = |name: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let node = |name: &str, package: &str| -> Result<Command, String> {
            let folder = folder(name);
            let mut node = Command::new(packages::node(&folder, &[package])?);
            node.env("NODE_PATH", folder.join("node_modules"));
            Ok(node)
        };
        let python = |name: &str, packages: &[&str]| {
            packages::python(&folder(name), packages).map(Command::new)
        };
        let (mut command, script) = match self.language {
            Language::JavaScript => (node("clients-node", "ioredis")?, format!("{script}.js")),
            Language::NodeRedis => (
                node("clients-node-redis", "redis")?,
                "node_redis.js".to_owned(),
            ),
            Language::Glide => (
                node("clients-glide", "@valkey/valkey-glide")?,
                "glide.js".to_owned(),
            ),
            Language::Python => (
                python("clients-python", &["redis"])?,
                format!("{script}.py"),
            ),
            Language::PythonWithHiredis => (
                python("clients-hiredis", &["redis", "hiredis"])?,
                format!("{script}.py"),
            ),
            Language::Coredis => (
                python("clients-coredis", &["coredis"])?,
                "coredis_calls.py".to_owned(),
            ),
        };
        command
            .arg(scripts.join(script))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PORT", place.nodes()[0].port().to_string())
            .env("PROTOCOL", self.protocol.to_string());
        if matches!(place, Place::Three(_)) {
            command.env("CLUSTER", "1");
        }
        if self.defaults {
            command.env("DEFAULTS", "1");
        }
        if self.routed {
            command.env("ROUTED", "1");
        }
        let mut program = Script::start(command);
        let name = program.line();
        assert_eq!(
            name.contains("with hiredis"),
            self.language == Language::PythonWithHiredis,
            "{name}"
        );
        program.name = format!(
            "{name}, RESP{}, {} node(s)",
            self.protocol,
            place.nodes().len()
        );
        Ok(program)
    }
}

pub const RESP: [u8; 2] = [2, 3];
pub const PYTHONS: [Language; 2] = [Language::Python, Language::PythonWithHiredis];

/// Clients that send only the examples. coredis supports only RESP3.
pub const OTHERS: [(Language, &[u8]); 3] = [
    (Language::NodeRedis, &RESP),
    (Language::Glide, &RESP),
    (Language::Coredis, &[3]),
];

/// Returns a client that finds the right node of a cluster by itself, or because its script names
/// the key.
pub fn client(language: Language, protocol: u8) -> Client {
    Client {
        language,
        protocol,
        routed: true,
        defaults: false,
    }
}

pub fn node(protocol: u8, routed: bool) -> Client {
    Client {
        routed,
        ..client(Language::JavaScript, protocol)
    }
}
