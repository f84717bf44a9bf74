//! Which server has which slot.

use std::sync::{PoisonError, RwLock};

use redis::{Client, ConnectionAddr, ConnectionInfo, FromRedisValue, RedisError, Value};

use super::slot::SLOTS;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Address {
    /// The one that the caller named.
    Seed,
    /// One of a cluster.
    Node { host: String, port: u16 },
}

impl Address {
    /// `host:port`; a server that does not know its own name leaves the host empty.
    fn parse(text: &str, asked: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(Address::Node {
            host: if host.is_empty() { asked } else { host }.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

/// What is known of the servers.
pub(super) struct Topology {
    seed: ConnectionInfo,
    slots: RwLock<Option<Slots>>,
}

/// The owner of each slot, as an index of `nodes`.
struct Slots {
    nodes: Vec<Address>,
    owner: Box<[u16]>,
}

const NOBODY: u16 = u16::MAX;

impl Topology {
    pub fn new(seed: ConnectionInfo) -> Topology {
        Topology {
            seed,
            slots: RwLock::new(None),
        }
    }

    /// Who has the slot, as far as is known. Without a slot, anybody.
    pub fn owner(&self, slot: Option<u16>) -> Address {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Slots { nodes, owner }) = &*slots else {
            return Address::Seed;
        };
        let index = slot.map_or(0, |slot| owner[usize::from(slot)]);
        let node = nodes.get(usize::from(index)).or(nodes.first());
        node.cloned().unwrap_or(Address::Seed)
    }

    /// Whether there is more than the one server.
    pub fn is_cluster(&self) -> bool {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.is_some()
    }

    /// All servers that may know more, the one that the caller named last.
    pub fn known(&self) -> Vec<Address> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = match &*slots {
            Some(slots) => slots.nodes.clone(),
            None => Vec::new(),
        };
        known.push(Address::Seed);
        known
    }

    /// Takes in what a server replied to `CLUSTER SLOTS`. False when it knows of no slot.
    pub fn learn(&self, asked: &Address, reply: Value) -> Result<bool, RedisError> {
        let asked = match asked {
            Address::Node { host, .. } => host.clone(),
            Address::Seed => self.seed_host(),
        };
        let mut learned = Slots {
            nodes: Vec::new(),
            owner: vec![NOBODY; usize::from(SLOTS)].into(),
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

    /// Takes in what a `MOVED` or `ASK` says: where to go. Of a `MOVED`, for good.
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
                owner: vec![NOBODY; usize::from(SLOTS)].into(),
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

    /// How to connect to a server: as to the one that the caller named.
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
