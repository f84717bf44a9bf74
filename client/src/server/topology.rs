//! Map from cluster slots to servers.

use std::sync::{PoisonError, RwLock};

use redis::{Client, ConnectionAddr, ConnectionInfo, FromRedisValue, RedisError, Value};

use super::slot::SLOTS;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Address {
    /// The server that the caller specified.
    Seed,
    /// A node of a cluster.
    Node { host: String, port: u16 },
}

impl Address {
    /// Parses `host:port`. An empty host, which a server sends if it does not know its own name,
    /// becomes `asked`.
    fn parse(text: &str, asked: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Address::Node {
            host: if host.is_empty() { asked } else { host }.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

/// The seed server and the known slots of a cluster.
pub(super) struct Topology {
    seed: ConnectionInfo,
    slots: RwLock<Option<Slots>>,
}

/// Owner of each slot, as an index into `nodes`.
struct Slots {
    nodes: Vec<Address>,
    owner: Box<[u16]>,
}

const NO_NODE: u16 = u16::MAX;

impl Topology {
    pub fn new(seed: ConnectionInfo) -> Topology {
        Topology {
            seed,
            slots: RwLock::new(None),
        }
    }

    /// Returns the known owner of a slot. For a call without a slot, returns any server.
    pub fn owner(&self, slot: Option<u16>) -> Address {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Slots { nodes, owner }) = &*slots else {
            return Address::Seed;
        };
        let index = slot.map_or(0, |slot| owner[usize::from(slot)]);
        let node = nodes.get(usize::from(index)).or(nodes.first());
        node.cloned().unwrap_or(Address::Seed)
    }

    /// Returns true if the server is part of a cluster.
    pub fn is_cluster(&self) -> bool {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.is_some()
    }

    /// Returns all servers that can be asked for the slots. The seed server is the last one.
    pub fn known(&self) -> Vec<Address> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = match &*slots {
            Some(slots) => slots.nodes.clone(),
            None => Vec::new(),
        };
        known.push(Address::Seed);
        known
    }

    /// Stores the reply of a server to `CLUSTER SLOTS`. Returns false if the reply lists no slots.
    pub fn learn(&self, asked: &Address, reply: Value) -> Result<bool, RedisError> {
        let asked = match asked {
            Address::Node { host, .. } => host.clone(),
            Address::Seed => self.seed_host(),
        };
        let mut learned = Slots {
            nodes: Vec::new(),
            owner: vec![NO_NODE; usize::from(SLOTS)].into(),
        };
        for range in Vec::<Vec<Value>>::from_redis_value(reply)? {
            let mut parts = range.into_iter();
            let mut next = || parts.next().unwrap_or(Value::Nil);
            let first = u16::from_redis_value(next())?;
            let last = u16::from_redis_value(next())?;
            let mut master = Vec::<Value>::from_redis_value(next())?.into_iter();
            let mut next = || master.next().unwrap_or(Value::Nil);
            let host = Option::<String>::from_redis_value(next())?.unwrap_or_default();
            let port = u16::from_redis_value(next())?;
            let host = match &host[..] {
                "" | "?" => asked.clone(),
                _ => host,
            };
            let node = learned.index_of(Address::Node { host, port });
            for slot in first..=last.min(SLOTS - 1) {
                learned.owner[usize::from(slot)] = node;
            }
        }
        let some = !learned.nodes.is_empty();
        if some {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            *slots = Some(learned);
        }
        Ok(some)
    }

    /// Parses the target of a `MOVED` or `ASK` redirection. Stores the new owner of a `MOVED` slot.
    pub fn redirected(
        &self,
        from: &Address,
        error: &RedisError,
        for_good: bool,
    ) -> Option<Address> {
        let (to, slot) = error.redirect_node()?;
        let asked = match from {
            Address::Node { host, .. } => host.clone(),
            Address::Seed => self.seed_host(),
        };
        let to = Address::parse(to, &asked)?;
        if for_good && slot < SLOTS {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let slots = slots.get_or_insert_with(|| Slots {
                nodes: Vec::new(),
                owner: vec![NO_NODE; usize::from(SLOTS)].into(),
            });
            let node = slots.index_of(to.clone());
            slots.owner[usize::from(slot)] = node;
        }
        Some(to)
    }

    fn seed_host(&self) -> String {
        match self.seed.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => "127.0.0.1".to_owned(),
        }
    }

    /// Creates a client for a server, with the settings of the server that the caller specified.
    pub fn client(&self, to: &Address) -> Result<Client, RedisError> {
        let Address::Node { host, port } = to else {
            return Client::open(self.seed.clone());
        };
        let (host, port) = (host.clone(), *port);
        let address = match self.seed.addr().clone() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure,
                tls_params,
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        Client::open(self.seed.clone().set_addr(address))
    }
}

impl Slots {
    fn index_of(&mut self, node: Address) -> u16 {
        let known = self.nodes.iter().position(|known| *known == node);
        let index = known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        // A cluster has at most as many servers as slots.
        index as u16
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    fn topology(url: &str) -> Topology {
        Topology::new(url.into_connection_info().unwrap())
    }

    fn node(host: &str, port: u16) -> Address {
        let host = host.to_owned();
        Address::Node { host, port }
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), Value::Nil]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    #[test]
    fn server_without_a_name_is_reached_at_the_requested_address() {
        let topology = topology("redis://seed.example:7000/");
        let named = Value::BulkString(b"other.example".to_vec());
        let slots = Value::Array(vec![
            range(0, 99, named, 7001),
            range(100, 199, Value::Nil, 7000),
            range(200, 300, Value::BulkString(b"?".to_vec()), 7002),
        ]);
        assert_eq!(topology.learn(&Address::Seed, slots), Ok(true));
        assert_eq!(topology.owner(Some(99)), node("other.example", 7001));
        assert_eq!(topology.owner(Some(100)), node("seed.example", 7000));
        assert_eq!(topology.owner(Some(300)), node("seed.example", 7002));
        // Every server can redirect requests for the other slots.
        assert_eq!(topology.owner(Some(301)), node("other.example", 7001));
        assert_eq!(topology.owner(None), node("other.example", 7001));
        assert_eq!(topology.known().last(), Some(&Address::Seed));
        let empty = topology.learn(&Address::Seed, Value::Array(Vec::new()));
        assert_eq!(empty, Ok(false), "the known slots are kept");
        assert_eq!(topology.owner(Some(99)), node("other.example", 7001));
    }

    #[test]
    fn redirection_is_stored() {
        let topology = topology("redis://seed.example:7000/");
        let error = |line: &str| {
            let (code, rest) = line.split_once(' ').unwrap();
            let reply = format!("-{code} {rest}\r\n");
            let reply = redis::parse_redis_value(reply.as_bytes()).unwrap();
            reply.extract_error().unwrap_err()
        };
        assert!(!topology.is_cluster());
        let to = topology.redirected(&Address::Seed, &error("ASK 5 10.0.0.2:7002"), false);
        assert_eq!(to, Some(node("10.0.0.2", 7002)));
        assert_eq!(
            topology.owner(Some(5)),
            Address::Seed,
            "ASK redirects only once"
        );
        let to = topology.redirected(&Address::Seed, &error("MOVED 5 :7003"), true);
        assert_eq!(to, Some(node("seed.example", 7003)));
        assert_eq!(topology.owner(Some(5)), node("seed.example", 7003));
        let from = node("10.0.0.2", 7002);
        let to = topology.redirected(&from, &error("MOVED 6 :7004"), true);
        assert_eq!(to, Some(node("10.0.0.2", 7004)));
        let to = topology.redirected(&from, &error("MOVED 7 [::1]:7005"), true);
        assert_eq!(to, Some(node("::1", 7005)));
        let from_v6 = topology.redirected(&from, &error("MOVED 7 ::1:7005"), true);
        assert_eq!(from_v6, Some(node("::1", 7005)));
        assert_eq!(topology.redirected(&from, &error("NOCRAWL x"), true), None);
    }

    #[test]
    fn other_servers_are_reached_with_the_same_settings() {
        let topology = topology("rediss://user:secret@seed.example:7000/");
        let client = topology.client(&node("other.example", 7001)).unwrap();
        let info = client.get_connection_info();
        let ConnectionAddr::TcpTls { host, port, .. } = info.addr() else {
            panic!("{:?}", info.addr());
        };
        assert_eq!((&host[..], *port), ("other.example", 7001));
        assert_eq!(info.redis_settings().username(), Some("user"));
    }
}
