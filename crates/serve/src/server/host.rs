//! Refuses requests to host names other than this server's.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use http::header::HOST;
use http::{Request, Response, StatusCode};

use super::body::Body;
use super::reply::closing;
use crate::host::Host;

/// Returns the host of a request: from its target, or else from its `Host` field (RFC 9112, section 3.2.2). Returns
/// `None` if it has neither.
///
/// # Errors
/// Fails if it is not a host with an optional port.
pub(super) fn asked<B>(request: &Request<B>) -> Result<Option<Host>, String> {
    match (request.uri().authority(), request.headers().get(HOST)) {
        (Some(authority), _) => authority.as_str().parse().map(Some),
        (None, Some(host)) => match host.to_str() {
            Ok(host) => host.parse().map(Some),
            Err(_) => Err("invalid host".to_owned()),
        },
        (None, None) => Ok(None),
    }
}

/// Returns whether the `Host` of a request is an IPv4 address, with or without a port.
fn names_address<B>(request: &Request<B>) -> bool {
    let host = request
        .headers()
        .get(HOST)
        .filter(|_| request.uri().authority().is_none());
    let host = host.and_then(|host| host.to_str().ok());
    host.is_some_and(|host| {
        host.parse::<SocketAddrV4>().is_ok() || host.parse::<Ipv4Addr>().is_ok()
    })
}

/// Hosts accepted in requests to one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted<'a> {
    /// Configured hosts.
    pub hosts: &'a [Host],
    /// Public URL of the server, whose host is always accepted.
    pub public_url: Option<&'a str>,
    /// Accepts every host if none is configured.
    pub any: bool,
    /// Accepts addresses and `localhost` in addition to the configured hosts.
    pub local: bool,
}

impl<'a> Accepted<'a> {
    /// Returns the accepted hosts of a listener. Without configured hosts, a loopback address accepts only local names,
    /// and other addresses accept all hosts.
    pub(super) fn at(address: IpAddr, hosts: &'a [Host], public_url: Option<&'a str>) -> Self {
        let is_open = hosts.is_empty();
        Accepted {
            hosts,
            public_url,
            any: is_open && !address.to_canonical().is_loopback(),
            local: is_open,
        }
    }

    /// Refuses a request to any other host (RFC 9110, section 15.5.20). HTTP/1.0 requests without a host are accepted.
    pub(super) fn misdirected<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        // Fast path: parsing the host takes longer than many responses.
        if self.any || self.local && names_address(request) {
            return None;
        }
        let what = match asked(request) {
            Ok(None) => return None,
            Ok(Some(host)) if self.has(&host) => return None,
            Ok(Some(host)) => format!(
                "this server does not accept requests for the host {:?}: add it to hosts in the configuration \
                 (crawlspace exporter: --host)",
                host.to_string()
            ),
            Err(_) => "the host of the request is invalid: write host or host:port".to_owned(),
        };
        Some(closing(StatusCode::MISDIRECTED_REQUEST, &what))
    }

    fn has(&self, asked: &Host) -> bool {
        let public = || self.public_url.and_then(Host::of_url);
        (self.local && asked.is_local_name())
            || self.hosts.iter().any(|host| host.covers(asked))
            || public().is_some_and(|host| host.covers(asked))
    }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    fn is_refused(accepted: Accepted<'_>, target: &str, host: Option<&str>) -> bool {
        let mut request = Request::get(target).version(Version::HTTP_10);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let refused = accepted.misdirected(&request.body(()).unwrap());
        if let Some(refused) = &refused {
            assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
        }
        refused.is_some()
    }

    #[test]
    fn loopback_address_accepts_only_local_hosts() {
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let public = Some("https://archive.example/base");
            let accepted = Accepted::at(address.parse().unwrap(), &[], public);
            for (host, refused) in [
                (Some("127.0.0.1:8080"), false),
                (Some("localhost"), false),
                (Some("app.localhost:1"), false),
                (Some("archive.example"), false),
                (Some("archive.example:8443"), false),
                (None, false),
                (Some("evil.example"), true),
                (Some("evil.example:8080"), true),
                (Some("localhost.evil.example"), true),
                (Some("x@localhost"), true),
                (Some(""), true),
            ] {
                assert_eq!(
                    is_refused(accepted, "/", host),
                    refused,
                    "{address} {host:?}"
                );
            }
        }
    }

    #[test]
    fn other_addresses_accept_any_host_until_hosts_are_configured() {
        let address = "0.0.0.0".parse().unwrap();
        let open = Accepted::at(address, &[], None);
        for host in ["evil.example", "x@y", ""] {
            assert!(!is_refused(open, "/", Some(host)), "{host}");
        }
        let hosts = ["archive.example".parse().unwrap()];
        for address in [address, "127.0.0.1".parse().unwrap()] {
            let closed = Accepted::at(address, &hosts, None);
            assert!(!is_refused(closed, "/", Some("archive.example:8080")));
            assert!(!is_refused(closed, "/", None));
            for host in ["evil.example", "127.0.0.1", "localhost"] {
                assert!(is_refused(closed, "/", Some(host)), "{host}");
            }
        }
    }

    #[test]
    fn host_of_the_request_target_takes_precedence() {
        let accepted = Accepted::at("127.0.0.1".parse().unwrap(), &[], None);
        let target = "http://evil.example/";
        assert!(is_refused(accepted, target, Some("localhost")));
        let target = "http://localhost/";
        assert!(!is_refused(accepted, target, Some("evil.example")));
    }
}
