//! Host names of the server in the `Host` header of requests.
//!
//! Protects against DNS rebinding: a page whose host name resolves to a private address can read that server as its own
//! origin. Such requests name the host of the page instead of the server's.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;
use url::Url;

/// A host name or an address, with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: url::Host,
    port: Option<u16>,
}

impl Host {
    /// Returns the host of a URL, for any port.
    pub(crate) fn of_url(url: &str) -> Option<Host> {
        let url = Url::parse(url).ok()?;
        url.host_str()?.parse().ok()
    }

    /// Returns whether requests may name `asked` for this host. A host without a port covers every port. Requests omit
    /// the port if it is 80 or, through a TLS proxy, 443.
    pub fn covers(&self, asked: &Host) -> bool {
        let same_port = match (self.port, asked.port) {
            (None, _) | (Some(80 | 443), None) => true,
            (own, asked) => own == asked,
        };
        same_port && self.name == asked.name
    }

    /// Returns whether the host is resolved without a name server: an address, `localhost`, or a name below `localhost`
    /// (RFC 6761, section 6.3).
    pub fn is_local_name(&self) -> bool {
        match &self.name {
            url::Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            url::Host::Ipv4(_) | url::Host::Ipv6(_) => true,
        }
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Host, String> {
        let invalid = || {
            format!(
                "invalid host {text:?}: write archive.example, archive.example:8080, 192.0.2.1 or [2001:db8::1]"
            )
        };
        let authority: Authority = text.parse().map_err(|_| invalid())?;
        let (host, port) = (authority.host(), authority.port_u16());
        let after = text.strip_prefix(host).ok_or_else(invalid)?;
        let is_whole = match port {
            Some(_) => after.starts_with(':'),
            None => after.is_empty() || after == ":",
        };
        if !is_whole || host.contains(['*', ',']) {
            return Err(invalid());
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let name = url::Host::parse(host).map_err(|_| invalid())?;
        Ok(Host { name, port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_have_a_canonical_form() {
        for (text, form) in [
            ("archive.example", "archive.example"),
            ("Archive.Example.:8080", "archive.example:8080"),
            ("archive.example:", "archive.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("my_service:1", "my_service:1"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("127.1", "127.0.0.1"),
            ("[2001:DB8::0:1]", "[2001:db8::1]"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(host(text).to_string(), form, "{text}");
            assert_eq!(host(form), host(text), "{text}");
        }
        for text in [
            "",
            ":80",
            "a b",
            "a/b",
            "u@a",
            "a:x",
            "a:99999",
            "*",
            "*.a",
            "http://a",
            "::1",
            "[::1",
            "1.2.3.4.5",
            "a,b",
        ] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }

    #[test]
    fn host_without_a_port_matches_every_port() {
        for (own, asked, covers) in [
            ("a.example", "a.example", true),
            ("a.example", "A.EXAMPLE:8080", true),
            ("a.example:8080", "a.example:8080", true),
            ("a.example:443", "a.example", true),
            ("a.example:80", "a.example", true),
            ("a.example:8080", "a.example", false),
            ("a.example:8080", "a.example:8081", false),
            ("a.example", "b.a.example", false),
            ("a.example", "a.example.evil.example", false),
        ] {
            assert_eq!(host(own).covers(&host(asked)), covers, "{own} {asked}");
        }
    }

    #[test]
    fn local_names_need_no_name_server() {
        for (text, is_local) in [
            ("localhost:1", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("10.0.0.1", true),
            ("[::1]:1", true),
            ("notlocalhost", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
        ] {
            assert_eq!(host(text).is_local_name(), is_local, "{text}");
        }
    }
}
