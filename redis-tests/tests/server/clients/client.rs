//! Which clients there are, and what they are connected to.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::{Cluster, Server, packages};

use redis_tests::script::Script;

/// Where the examples are, and how to come to it.
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

    /// The node that has this key.
    pub fn owner(&self, key: &[u8]) -> &Server {
        match self {
            Place::One(server) => server,
            Place::Three(cluster) => cluster.owner(key),
        }
    }

    /// How often a client was sent elsewhere.
    pub fn moved(&self) -> i64 {
        let count = |node: &Server| {
            let stats = node.info("errorstat_MOVED").unwrap_or_default();
            let count = stats.strip_prefix("count=").unwrap_or("0");
            count.parse::<i64>().expect("a number")
        };
        self.nodes().iter().map(count).sum()
    }
}

/// A client, as it is to be tried.
#[derive(Clone, Copy)]
pub struct Client {
    language: Language,
    pub protocol: u8,
    /// Whether it goes to the right node of a cluster at once.
    routed: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Language {
    Python,
    PythonWithHiredis,
    JavaScript,
}

impl Client {
    pub fn name(&self) -> &'static str {
        match self.language {
            Language::Python => "redis-py",
            Language::PythonWithHiredis => "redis-py with hiredis",
            Language::JavaScript => "ioredis",
        }
    }

    /// Starts a script with this client, or says why not.
    pub fn start(&self, script: &str, place: &Place) -> Result<Script, String> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/clients");
        let folder = |name: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let (mut command, ending) = match self.language {
            Language::JavaScript => {
                let folder = folder("clients-node");
                let mut node = Command::new(packages::node(&folder, &["ioredis"])?);
                node.env("NODE_PATH", folder.join("node_modules"));
                (node, "js")
            }
            Language::Python => {
                let python = packages::python(&folder("clients-python"), &["redis"])?;
                (Command::new(python), "py")
            }
            Language::PythonWithHiredis => {
                let packages = ["redis", "hiredis"];
                let python = packages::python(&folder("clients-hiredis"), &packages)?;
                (Command::new(python), "py")
            }
        };
        command
            .arg(scripts.join(format!("{script}.{ending}")))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PORT", place.nodes()[0].port().to_string())
            .env("PROTOCOL", self.protocol.to_string());
        if matches!(place, Place::Three(_)) {
            command.env("CLUSTER", "1");
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

pub fn python(language: Language, protocol: u8) -> Client {
    Client {
        language,
        protocol,
        routed: true,
    }
}

pub fn node(protocol: u8, routed: bool) -> Client {
    Client {
        language: Language::JavaScript,
        protocol,
        routed,
    }
}
