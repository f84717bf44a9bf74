//! Addresses to which no request is sent unless the configuration allows it.
//!
//! These are the networks that the IANA registries of special-purpose addresses list as not globally
//! reachable (RFC 6890). An IPv6 address with an embedded IPv4 address is checked as both, because it may
//! lead to the IPv4 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use url::{Host, Url};

/// IPv4 networks: an address, and the length of the prefix in bits.
const REFUSED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // shared address space of carrier-grade NAT (RFC 6598)
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, with the metadata services of clouds
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 88, 99, 0], 24),  // 6to4 relays, deprecated (RFC 7526)
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// IPv6 networks: an address, and the length of the prefix in bits.
const REFUSED_V6: [([u16; 8], u32); 15] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 96), // unspecified, loopback, IPv4-compatible
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), // IPv4-translated (RFC 2765)
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), // NAT64 for local use (RFC 8215)
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64), // discard-only (RFC 6666)
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), // benchmarks
    ([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), // ORCHID, not routable
    ([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), // ORCHID, version 2
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation (RFC 9637)
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), // segment routing (RFC 9602)
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), // unique local
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), // link-local
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), // site-local
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), // multicast
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), // Teredo, which leads to hosts behind NAT
];

/// A network, or a single address: `10.0.0.0/8`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address.
    pub address: IpAddr,
    /// The length of the prefix in bits.
    pub bits: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The set of addresses that requests may connect to: public ones, and those of the configured networks.
///
/// ```
/// use crawlspace_fetch::Guard;
/// let guard = Guard::default();
/// assert!(guard.permits("192.0.43.8".parse()?));
/// assert!(!guard.permits("169.254.169.254".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    allowed: Arc<[Network]>,
}

impl Guard {
    /// Creates a guard that permits public addresses and those in `allowed`.
    pub fn new(allowed: &[Network]) -> Guard {
        Guard {
            allowed: allowed.into(),
        }
    }

    /// Returns true if requests may connect to that address.
    pub fn permits(&self, address: IpAddr) -> bool {
        permits(&self.allowed, address)
    }

    /// Returns the addresses of a host that requests may connect to.
    ///
    /// # Errors
    /// A message that names an address of the host, if the guard permits none of its addresses.
    pub(crate) fn permitted(
        &self,
        host: &str,
        addresses: &[IpAddr],
    ) -> Result<Vec<IpAddr>, String> {
        let permitted = addresses.iter().copied();
        let permitted: Vec<_> = permitted.filter(|address| self.permits(*address)).collect();
        match (permitted.is_empty(), addresses.first()) {
            (true, Some(address)) => Err(format!(
                "{host} is at {address}, which is not a public address"
            )),
            _ => Ok(permitted),
        }
    }

    /// Checks a URL whose host is an IP address, which is never resolved. Other URLs pass.
    ///
    /// # Errors
    /// A message that says why requests may not connect to the address.
    pub fn check(&self, url: &Url) -> Result<(), String> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            _ => return Ok(()),
        };
        let host = url.host_str().unwrap_or_default();
        self.permitted(host, &[address]).map(drop)
    }
}

/// Returns true if requests may connect to an address: it is public, or in one of the networks in `allowed`.
fn permits(allowed: &[Network], address: IpAddr) -> bool {
    // An IPv4-mapped address is just another notation of an IPv4 address.
    let address = address.to_canonical();
    if allowed.iter().any(|network| contains(network, address)) {
        return true;
    }
    match address {
        IpAddr::V4(v4) => !is_refused_v4(v4),
        IpAddr::V6(v6) => {
            !is_refused_v6(v6) && embedded(v6).is_none_or(|v4| permits(allowed, IpAddr::V4(v4)))
        }
    }
}

fn is_refused_v4(address: Ipv4Addr) -> bool {
    REFUSED_V4.iter().any(|(network, bits)| {
        (address.to_bits() ^ u32::from_be_bytes(*network)) >> (32 - bits) == 0
    })
}

fn is_refused_v6(address: Ipv6Addr) -> bool {
    REFUSED_V6.iter().any(|(network, bits)| {
        let network = Ipv6Addr::from(*network).to_bits();
        (address.to_bits() ^ network) >> (128 - bits) == 0
    })
}

/// Returns the IPv4 address to which packets for an IPv6 address are forwarded.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // 6to4 (RFC 3056)
        [0x2002, high, low, ..] => of(high, low),
        // NAT64 (RFC 6052), and ISATAP (RFC 5214) with either value of the universal bit
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [.., 0 | 0x200, 0x5efe, high, low] => of(high, low),
        _ => None,
    }
}

/// Returns true if the network contains that address.
fn contains(network: &Network, address: IpAddr) -> bool {
    let bits = u32::from(network.bits);
    match (network.address, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            // `>>` overflows on a shift by the width of the type or more.
            bits <= 32 && differing.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            bits <= 128 && differing.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        let (address, bits) = text.split_once('/').unwrap();
        Network {
            address: address.parse().unwrap(),
            bits: bits.parse().unwrap(),
        }
    }

    fn passes(address: &str, allowed: &[&str]) -> bool {
        let allowed: Vec<Network> = allowed.iter().map(|text| network(text)).collect();
        permits(&allowed, address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
            "2001:4860:4860::8888",
            "2606:4700::5efe:101:101",
        ] {
            assert!(passes(address, &[]), "{address}");
        }
    }

    #[test]
    fn private_addresses_are_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
        ] {
            assert!(!passes(address, &[]), "{address}");
            // Each embedded form of the address is refused, too.
            let v4: Ipv4Addr = address.parse().unwrap();
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            for disguised in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, high, low, 0, 0, !high, !low),
                Ipv6Addr::new(0x2a00, 1, 2, 3, 0, 0x5efe, high, low),
                Ipv6Addr::new(0x2a00, 1, 2, 3, 0x200, 0x5efe, high, low),
            ] {
                assert!(!passes(&disguised.to_string(), &[]), "{disguised}");
            }
        }
        for address in [
            "::",
            "::1",
            "100::1",
            "2001:2::1",
            "2001:10::1",
            "2001:2f:ffff::1",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
        ] {
            assert!(!passes(address, &[]), "{address}");
        }
    }

    #[test]
    fn allowed_networks_pass_and_nothing_else() {
        assert!(passes("127.0.0.1", &["127.0.0.1/32"]));
        assert!(passes("::ffff:127.0.0.1", &["127.0.0.1/32"]));
        assert!(passes("64:ff9b::127.0.0.1", &["127.0.0.1/32"]));
        assert!(!passes("127.0.0.2", &["127.0.0.1/32"]));
        assert!(!passes("::1", &["127.0.0.1/32"]));
        assert!(passes("10.9.8.7", &["192.168.0.0/16", "10.0.0.0/8"]));
        assert!(passes("10.9.8.7", &["0.0.0.0/0"]));
        assert!(!passes("fd00::1", &["0.0.0.0/0"]));
        assert!(passes("fd00::1", &["::/0"]));
        assert!(!passes("10.9.8.7", &["::/0"]));
        assert!(passes("fd12::1", &["fd12::/16"]));
        assert!(!passes("fd13::1", &["fd12::/16"]));
        assert!(passes("::1", &["::1/128"]));
        // A prefix longer than an address permits nothing. The configuration does not accept such a prefix.
        assert!(!passes("10.0.0.1", &["10.0.0.1/33"]));
        assert!(!passes("fd12::1", &["fd12::1/129"]));
    }
}
