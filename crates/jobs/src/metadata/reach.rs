//! Restricts the addresses to which a location on the web may refer or redirect.

use std::env;

use url::Url;

use crawlspace_fetch::Guard;
use crawlspace_wacz as wacz;

/// The origin of a URL, which determines the addresses to which the URL may resolve.
///
/// If the options have a guard, the guard decides. Otherwise, lists and redirects of a configured
/// location in a private network may lead to any address. Lists and redirects of a location at public
/// addresses may only lead to public addresses, so that third-party lists cannot reach internal
/// servers. If the environment configures a proxy, the proxy decides, because names may not be
/// resolvable here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A configured location.
    Named,
    /// A URL from a location that may lead to any address.
    Anywhere,
    /// A URL from a location that may only lead to public addresses.
    Public,
}

impl Reach {
    /// Returns the options for fetching a URL, and the URLs that it leads to.
    pub(super) fn options(self, url: &Url, http: &wacz::Options) -> wacz::Options {
        let is_public = match self {
            Reach::Named => {
                let has_proxy = env::vars_os().any(|(name, _)| is_proxy(&name));
                !has_proxy && is_public(url)
            }
            Reach::Anywhere => false,
            Reach::Public => true,
        };
        let mut http = http.clone();
        if is_public {
            http.guard.get_or_insert_default();
        }
        http
    }

    /// Returns the reach of URLs found with these options.
    pub(super) fn of(http: &wacz::Options) -> Reach {
        match http.guard {
            Some(_) => Reach::Public,
            None => Reach::Anywhere,
        }
    }
}

/// Returns whether no address of a location is private, loopback or link-local. A name that cannot be
/// resolved counts as public.
fn is_public(place: &Url) -> bool {
    let guard = Guard::default();
    let addresses = place.socket_addrs(|| None).unwrap_or_default();
    addresses.iter().all(|address| guard.permits(address.ip()))
}

fn is_proxy(name: &std::ffi::OsStr) -> bool {
    let proxies = ["http_proxy", "https_proxy", "all_proxy"];
    proxies.iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlspace_fetch::Network;

    #[test]
    fn public_location_leads_only_to_public_addresses() {
        let is_guarded = |place: &str| is_public(&place.parse().unwrap());
        for place in [
            "http://192.0.43.8/",
            "https://[2606:4700::1111]/",
            "http://unknown.invalid/",
        ] {
            assert!(is_guarded(place), "{place}");
        }
        for place in [
            "http://127.0.0.1/",
            "http://localhost:8080/",
            "https://10.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:192.168.0.1]/",
            "http://0x7f.1/",
        ] {
            assert!(!is_guarded(place), "{place}");
        }
    }

    #[test]
    fn guard_applies_whoever_named_a_url() {
        let guard = Some(Guard::new(&[Network {
            address: [127, 0, 0, 1].into(),
            bits: 32,
        }]));
        let http = wacz::Options {
            guard: guard.clone(),
            ..wacz::Options::default()
        };
        let url = "http://127.0.0.1/".parse().unwrap();
        for reach in [Reach::Named, Reach::Anywhere, Reach::Public] {
            assert_eq!(reach.options(&url, &http).guard, guard);
            let unguarded = reach.options(&url, &wacz::Options::default());
            assert_eq!(
                Reach::of(&unguarded) == Reach::Public,
                reach == Reach::Public
            );
        }
    }
}
