//! The crawled hosts: four names on three servers.

use std::io;
use std::net::SocketAddr;

use crate::site::Site;
use crate::web::{Visit, WebServer};

/// Seed of the crawl.
pub const SEED: &str = "http://daily.example/";

/// Host names and their servers.
pub struct Hosts {
    hosts: Vec<Host>,
    servers: Vec<WebServer>,
}

/// A host name.
struct Host {
    name: &'static str,
    /// Folders of the demo's site that the host serves.
    folders: &'static [&'static str],
    server: usize,
    /// `Crawl-delay` in its robots.txt, in milliseconds.
    crawl_delay: u64,
}

impl Hosts {
    /// Starts the servers with the demo's site distributed over the hosts.
    pub fn start() -> io::Result<Hosts> {
        let host = |name, folders, server, crawl_delay| Host {
            name,
            folders,
            server,
            crawl_delay,
        };
        let hosts = vec![
            host("daily.example", &["", "article"][..], 0, 100),
            host("print.example", &["print"][..], 1, 0),
            // Two names have the same server: a crawler must pause between requests to either name.
            host("pictures.example", &["images"][..], 2, 120),
            host("mirror.example", &["mirror"][..], 2, 120),
        ];
        let mut servers = Vec::new();
        for server in 0..3 {
            let here = || hosts.iter().filter(|host| host.server == server);
            servers.push(WebServer::start(site_of(&hosts, here()))?);
        }
        // Simulate a temporary overload, which the crawler must handle.
        servers[1].refuse_once("/print/6.html");
        Ok(Hosts { hosts, servers })
    }

    /// Resolves a name like a name server.
    pub fn resolve(&self, name: &str) -> Option<SocketAddr> {
        let host = self.hosts.iter().find(|host| host.name == name)?;
        Some(self.servers[host.server].address())
    }

    /// Iterates over the names, each with the pause requested in its robots.txt, in milliseconds.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.hosts.iter().map(|host| (host.name, host.crawl_delay))
    }

    /// Returns the names on the same server as this one, including itself.
    pub fn beside(&self, name: &str) -> Vec<&'static str> {
        let address = self.resolve(name);
        let all = self.hosts.iter().map(|host| host.name);
        all.filter(|other| self.resolve(other) == address).collect()
    }

    /// Returns all visits of these hosts, ordered by their start.
    pub fn visits(&self, names: &[&str]) -> Vec<Visit> {
        let mut visits: Vec<Visit> = self.servers.iter().flat_map(WebServer::visits).collect();
        visits.retain(|visit| names.contains(&&visit.host[..]));
        visits.sort_by_key(|visit| visit.begun);
        visits
    }
}

fn site_of<'a>(all: &[Host], here: impl Iterator<Item = &'a Host>) -> Site {
    let today = Site::today();
    let mut site = Site::empty();
    for host in here {
        for (path, file) in today.files() {
            if host.folders.contains(&folder_of(path)) {
                let payload = match path {
                    "/" => link_to_hosts(&file.payload, all),
                    _ => file.payload.clone(),
                };
                site.add(path, file.media_type, payload);
            }
        }
        if let Some(style) = today.get("/style.css") {
            site.add("/style.css", style.media_type, style.payload.clone());
        }
        let delay = match host.crawl_delay {
            0 => String::new(),
            ms => format!("Crawl-delay: {}\n", ms as f64 / 1000.0),
        };
        let robots = format!("User-agent: *\nDisallow:\n{delay}");
        site.add("/robots.txt", "text/plain", robots.into_bytes());
    }
    site
}

fn folder_of(path: &str) -> &str {
    path[1..].rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Rewrites the links of the front page to the other hosts.
fn link_to_hosts(page: &[u8], all: &[Host]) -> Vec<u8> {
    let mut page = String::from_utf8_lossy(page).into_owned();
    for host in all {
        for folder in host.folders.iter().filter(|folder| !folder.is_empty()) {
            let (here, there) = (
                format!("\"/{folder}/"),
                format!("\"http://{}/{folder}/", host.name),
            );
            page = page.replace(&here, &there);
        }
    }
    page.into_bytes()
}
