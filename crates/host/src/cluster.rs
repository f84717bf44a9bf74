//! Cluster functions that work without a server: computing hash slots, and parsing `CLUSTER NODES`.

/// Number of hash slots of a cluster.
pub const SLOTS: usize = crawlspace_compact::limits::every::SLOTS as usize;

/// Returns the hash tag of a key: the bytes between the first `{` and the next `}`, if there are
/// any. The slot of such a key is computed from the hash tag alone, so all keys whose prefix
/// contains a hash tag are in one slot.
pub fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'{', key)? + 1;
    let length = memchr::memchr(b'}', &key[open..])?;
    (length > 0).then(|| &key[open..open + length])
}

/// Computes the slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> usize {
    usize::from(crc16(hash_tag(key).unwrap_or(key))) % SLOTS
}

/// Computes the CRC-16/XMODEM checksum.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        crc << 8 ^ REMAINDERS[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

/// Lookup table for the checksum: the remainder for each byte value.
const REMAINDERS: [u16; 256] = {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        remainders[byte] = crc;
        byte += 1;
    }
    remainders
};

/// Returns true for versions of Valkey that crash when `CLUSTER NODES` or `CLUSTER SLOTS` is called while no client is
/// being served: 8.0 up to 9.0.0.
pub(crate) fn needs_client(valkey: &str) -> bool {
    ([8, 0, 0]..[9, 0, 1]).contains(&numbers(valkey))
}

/// Returns true for versions of Valkey that migrate whole slots atomically (9.0 and newer).
pub(crate) fn moves_whole(valkey: &str) -> bool {
    numbers(valkey) >= [9, 0, 0]
}

/// Parses the three numbers of a version; missing or malformed numbers are 0.
fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// State of a slot that is being moved key by key, with the id of the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open<'a> {
    /// Keys are moving from this node to the node with this id.
    Migrating(&'a str),
    /// Keys are moving to this node from the node with this id.
    Importing(&'a str),
}

/// The reply to `CLUSTER NODES`.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a>(pub &'a str);

/// A node: one line of the reply.
struct Node<'a> {
    id: &'a str,
    address: &'a str,
    flags: &'a str,
    /// Slots, ranges of slots, and slots that are being moved.
    slots: &'a str,
}

impl<'a> Nodes<'a> {
    fn all(self) -> impl Iterator<Item = Node<'a>> {
        self.0.lines().filter_map(|line| {
            // The fields of a line: id, address, flags, master, ping, pong, epoch, link, slots.
            let mut words = line.splitn(9, ' ');
            let (id, address, flags) = (words.next()?, words.next()?, words.next()?);
            let slots = words.nth(5).unwrap_or_default();
            Some(Node {
                id,
                address,
                flags,
                slots,
            })
        })
    }

    /// Returns the state of a slot that is being moved, as seen by the replying node. Returns
    /// `None` if the slot is not being moved.
    pub fn open(self, slot: usize) -> Option<Open<'a>> {
        let is_myself = |node: &Node<'_>| node.flags.split(',').any(|flag| flag == "myself");
        let myself = self.all().find(is_myself)?;
        myself.slots.split(' ').find_map(|word| {
            let inner = word.strip_prefix('[')?.strip_suffix(']')?;
            let rest = inner.strip_prefix(&slot.to_string())?;
            match rest.strip_prefix("->-") {
                Some(to) => Some(Open::Migrating(to)),
                None => rest.strip_prefix("-<-").map(Open::Importing),
            }
        })
    }

    /// Returns the id of the node that owns the slot.
    pub fn owner(self, slot: usize) -> Option<&'a str> {
        let has = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = (first.parse::<usize>(), last.parse::<usize>());
            matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        };
        let owner = self.all().find(|node| node.slots.split(' ').any(has))?;
        Some(owner.id)
    }

    /// Returns host and port of a node as `host:port`.
    pub fn address(self, id: &str) -> Option<&'a str> {
        let node = self.all().find(|node| node.id == id)?;
        // Cut off the bus port (after `@`) and the host name (after `,`).
        Some(node.address.split(['@', ',']).next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_valkey_are_distinguished() {
        for version in ["8.0.0", "8.0.1", "8.1.1", "8.1.12", "9.0.0", "9.0.0-rc1"] {
            assert!(needs_client(version), "{version}");
        }
        for version in ["7.2.11", "9.0.1", "9.1.2", "10.0.0", "255.255.255", ""] {
            assert!(!needs_client(version), "{version}");
        }
        assert!(moves_whole("9.0.0-rc1") && moves_whole("10.0.0"));
        assert!(!moves_whole("8.1.12") && !moves_whole(""));
    }

    #[test]
    fn slots_equal_those_of_the_server() {
        // Expected slots from `CLUSTER KEYSLOT`.
        for (key, slot) in [
            ("", 0),
            ("123456789", 12739),
            ("foo", 12182),
            ("{foo}:bar", 12182),
            ("x{foo}{bar}", 12182),
            ("{}foo", slot_of(b"{}foo")),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(hash_tag(b"{}{x}"), None);
        assert_eq!(hash_tag(b"a{x}b"), Some(&b"x"[..]));
        assert_eq!(hash_tag(b"}x{"), None);
    }

    const NODES: Nodes<'_> = Nodes(
        "aaa 127.0.0.1:7001@17001,host-a myself,master - 0 0 1 connected 0-99 200 [7->-bbb] [300-<-ccc]\n\
         bbb 127.0.0.1:7002@17002 master - 0 1 2 connected 100-199 201-16383\n\
         ccc ::1:7003@17003 slave bbb 0 1 2 connected\n",
    );

    #[test]
    fn open_slots_are_read_from_the_own_node() {
        assert_eq!(NODES.open(7), Some(Open::Migrating("bbb")));
        assert_eq!(NODES.open(300), Some(Open::Importing("ccc")));
        assert_eq!(NODES.open(30), None);
        assert_eq!(NODES.open(70), None);
        assert_eq!(Nodes("").open(7), None);
    }

    #[test]
    fn slots_have_owners_and_nodes_have_addresses() {
        let owners = [0, 99, 100, 200, 201, 16383].map(|slot| NODES.owner(slot).unwrap());
        assert_eq!(owners, ["aaa", "aaa", "bbb", "aaa", "bbb", "bbb"]);
        assert_eq!(Nodes("garbage\n\n").owner(5), None);
        assert_eq!(NODES.address("aaa"), Some("127.0.0.1:7001"));
        assert_eq!(NODES.address("ccc"), Some("::1:7003"));
        assert_eq!(NODES.address("ddd"), None);
    }
}
