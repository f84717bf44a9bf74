//! A cluster of several servers on loopback.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::ok;
use crate::server::{Options, Server};
use crate::wait::{until, until_some};
use crate::wire::Reply;

/// Number of hash slots of a cluster.
const SLOTS: usize = crawlspace_compact::limits::every::SLOTS as usize;

/// Masters that share the slots evenly and in order: slot 0 belongs to the first master. Dropping
/// this value kills all servers.
///
/// ```no_run
/// use redis_tests::{ok, Cluster};
/// let cluster = Cluster::start(3);
/// let mut c = cluster.owner("{coll-42}:").wire();
/// ok!(c, "DEDUPE.STATS", "{coll-42}:");
/// ```
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster of servers with the module. When this returns, every node knows the owner
    /// of every slot.
    pub fn start(nodes: usize) -> Cluster {
        Cluster::with(nodes, Options::new())
    }

    /// Starts a cluster whose nodes have these options.
    ///
    /// # Panics
    /// Panics if `nodes` is 0 or larger than the number of slots.
    pub fn with(nodes: usize, options: Options) -> Cluster {
        assert!((1..=SLOTS).contains(&nodes), "{nodes} nodes");
        let options = options
            .cluster_enabled()
            .args(&["--cluster-announce-ip", "127.0.0.1"]);
        let nodes = (0..nodes).map(|_| options.clone().start()).collect();
        let cluster = Cluster { nodes };
        cluster.join();
        cluster
    }

    fn join(&self) {
        let count = self.nodes.len();
        for (i, node) in self.nodes.iter().enumerate() {
            let mut c = node.wire();
            let (first, end) = (i * SLOTS / count, (i + 1) * SLOTS / count);
            ok!(c, "CLUSTER", "ADDSLOTSRANGE", first, end - 1);
            // Nodes with equal epochs would have to resolve the conflict first.
            ok!(c, "CLUSTER", "SET-CONFIG-EPOCH", i + 1);
            for other in &self.nodes[..i] {
                let bus = ok!(other.wire(), "CONFIG", "GET", "cluster-port").pairs()[0]
                    .1
                    .text();
                ok!(c, "CLUSTER", "MEET", "127.0.0.1", other.port(), bus);
            }
        }
        until("all nodes know all slots", || {
            self.nodes.iter().all(|node| self.is_known_to(node))
        });
    }

    /// Returns true if this node is up and can redirect a client for each slot.
    fn is_known_to(&self, node: &Server) -> bool {
        let info = ok!(node.wire(), "CLUSTER", "INFO").text();
        let owners: Vec<_> = ranges(node).into_iter().map(|(_, port)| port).collect();
        info.contains("cluster_state:ok")
            && self.nodes.iter().all(|node| owners.contains(&node.port()))
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns a node, so that a test can kill and restart it.
    pub fn node_mut(&mut self, number: usize) -> &mut Server {
        &mut self.nodes[number]
    }

    /// Waits until all nodes are up and know the owner of every slot, after one of the nodes was
    /// down.
    pub fn wait_until_whole(&self) {
        until("all nodes know all slots again", || {
            self.nodes.iter().all(|node| self.is_known_to(node))
        });
    }

    /// Returns the address of the first node, which knows all other nodes.
    pub fn url(&self) -> String {
        self.nodes[0].url()
    }

    /// Returns the slot of a key, or of a prefix with a hash tag.
    pub fn slot(&self, key: impl AsRef<[u8]>) -> i64 {
        ok!(self.nodes[0].wire(), "CLUSTER", "KEYSLOT", key.as_ref()).int()
    }

    /// Returns the node that owns the slot of a key now. Waits if no node reports to be the owner,
    /// which may happen for a moment during a move.
    ///
    /// # Panics
    /// Panics if no node reports to be the owner within a minute.
    pub fn owner(&self, key: impl AsRef<[u8]>) -> &Server {
        let slot = self.slot(key);
        let owns = |node: &&Server| {
            ranges(node)
                .iter()
                .any(|(slots, port)| slots.contains(&slot) && *port == node.port())
        };
        until_some("a node has the slot", || self.nodes.iter().find(owns))
    }

    /// Begins to move the slot of a key to another node: sets the target to importing and the owner
    /// to migrating. Does not move the keys yet.
    pub fn begin_move(&self, key: impl AsRef<[u8]>, to: &Server) {
        let slot = self.slot(key.as_ref());
        let from = self.owner(key);
        // Redis 8.6 refuses this command while it deletes the keys of an earlier atomic migration.
        until("keys that have left are deleted", || {
            let words = [
                "CLUSTER",
                "SETSLOT",
                &slot.to_string(),
                "IMPORTING",
                &id(from),
            ];
            !to.wire().call(&words).is_error()
        });
        ok!(from.wire(), "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to));
    }

    /// Moves the keys of a slot whose move has [begun](Self::begin_move), but not the slot itself:
    /// after that, its owner replies with `ASK`.
    pub fn move_keys(&self, key: impl AsRef<[u8]>, to: &Server) {
        let slot = self.slot(key.as_ref());
        let mut c = self.owner(key).wire();
        loop {
            let keys = ok!(c, "CLUSTER", "GETKEYSINSLOT", slot, 1000);
            if keys.items().is_empty() {
                break;
            }
            for key in keys.items() {
                ok!(c, "MIGRATE", "127.0.0.1", to.port(), key.bytes(), 0, 60_000);
            }
        }
    }

    /// Moves the keys of a slot whose move has [begun](Self::begin_move), then the slot. When this
    /// returns, all nodes know the new owner.
    pub fn finish_move(&self, key: impl AsRef<[u8]>, to: &Server) {
        let slot = self.slot(key.as_ref());
        self.move_keys(key, to);
        // Change the new owner first: otherwise, both nodes would redirect clients to each other
        // for a moment.
        let others = self.nodes.iter().filter(|node| node.port() != to.port());
        for node in std::iter::once(to).chain(others) {
            ok!(node.wire(), "CLUSTER", "SETSLOT", slot, "NODE", id(to));
        }
        self.wait_for_slot(slot, to);
    }

    /// Returns true if the servers support atomic slot migration (Valkey 9 and Redis 8.4 do).
    pub fn moves_whole(&self) -> bool {
        self.knows("MIGRATESLOTS") || self.knows("MIGRATION")
    }

    /// Returns true if the first node supports this subcommand of `CLUSTER`.
    fn knows(&self, subcommand: &str) -> bool {
        let help = ok!(self.nodes[0].wire(), "CLUSTER", "HELP").texts();
        help.iter().any(|line| line.starts_with(subcommand))
    }

    /// Moves the slot of a key with atomic slot migration, while its owner continues to serve it.
    /// When this returns, all nodes know the new owner.
    ///
    /// # Panics
    /// Panics if a server refuses or aborts the migration.
    pub fn move_whole(&self, key: impl AsRef<[u8]>, to: &Server) {
        let slot = self.slot(key.as_ref());
        // In Valkey, the owner pushes the slot; in Redis, the target pulls it.
        let (mut c, status) = if self.knows("MIGRATESLOTS") {
            let mut c = self.owner(key).wire();
            ok!(
                c,
                "CLUSTER",
                "MIGRATESLOTS",
                "SLOTSRANGE",
                slot,
                slot,
                "NODE",
                id(to)
            );
            (
                c,
                ["CLUSTER", "GETSLOTMIGRATIONS"].map(str::to_owned).to_vec(),
            )
        } else {
            let mut c = to.wire();
            let job = ok!(c, "CLUSTER", "MIGRATION", "IMPORT", slot, slot).text();
            (
                c,
                ["CLUSTER", "MIGRATION", "STATUS", "ID", &job]
                    .map(str::to_owned)
                    .to_vec(),
            )
        };
        until("the slot has moved", || {
            let jobs = c.expect_ok(&status);
            let newest = jobs.items()[0].pairs();
            let field = |name: &str| newest.iter().find(|(field, _)| field.text() == name);
            let state = field("state").expect("a state").1.text();
            assert!(
                !["failed", "cancelled", "canceled"].contains(&&state[..]),
                "{newest:?}"
            );
            ["success", "completed"].contains(&&state[..])
        });
        self.wait_for_slot(slot, to);
    }

    fn wait_for_slot(&self, slot: i64, to: &Server) {
        until("all nodes know where the slot is", || {
            self.nodes.iter().all(|node| {
                ranges(node)
                    .iter()
                    .any(|(slots, port)| slots.contains(&slot) && *port == to.port())
            })
        });
    }

    /// Moves the slot of a key and the keys in it to another node.
    pub fn move_slot(&self, key: impl AsRef<[u8]>, to: &Server) {
        self.begin_move(key.as_ref(), to);
        self.finish_move(key, to);
    }

    /// Starts a replica of a node, and waits until it has the data of the node.
    pub fn replica_of(&self, node: &Server) -> Server {
        let options = Options::new().cluster_enabled();
        let replica = options
            .args(&["--cluster-announce-ip", "127.0.0.1"])
            .start();
        let mut c = replica.wire();
        let first = &self.nodes[0];
        let bus = ok!(first.wire(), "CONFIG", "GET", "cluster-port").pairs()[0]
            .1
            .text();
        ok!(c, "CLUSTER", "MEET", "127.0.0.1", first.port(), bus);
        let master = id(node);
        until("the replica knows its master", || {
            !c.call(&["CLUSTER", "REPLICATE", &master]).is_error()
        });
        until("all nodes know the replica", || {
            let knows = |one: &Server| {
                let replicas = ok!(one.wire(), "CLUSTER", "REPLICAS", &master);
                !replicas.items().is_empty()
            };
            self.nodes.iter().all(knows)
        });
        until("the replica is connected", || {
            ok!(c, "INFO", "replication")
                .text()
                .contains("master_link_status:up")
        });
        replica
    }

    /// Makes a replica the master of its slots, without loss of writes.
    pub fn fail_over_to(&self, replica: &Server) {
        let (mut c, mut asked) = (replica.wire(), None::<Instant>);
        until("the replica is the master", || {
            // A failover that takes longer than five seconds is aborted.
            if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(6)) {
                asked = Some(Instant::now());
                c.call(&["CLUSTER", "FAILOVER"]);
            }
            ok!(c, "ROLE").items()[0].text() == "master"
        });
    }
}

/// Returns the slot ranges that a node knows, each with the port of the owner.
fn ranges(node: &Server) -> Vec<(RangeInclusive<i64>, u16)> {
    let ranges = ok!(node.wire(), "CLUSTER", "SLOTS");
    let range = |range: &Reply| {
        // A range consists of the first slot, the last slot, and the nodes (address, port, id).
        let [first, last, master, ..] = range.items() else {
            panic!("a range of slots: {range:?}");
        };
        let port = u16::try_from(master.items()[1].int()).expect("a port");
        (first.int()..=last.int(), port)
    };
    ranges.items().iter().map(range).collect()
}

fn id(node: &Server) -> String {
    ok!(node.wire(), "CLUSTER", "MYID").text()
}
