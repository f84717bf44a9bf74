//! A site whose pages never change, and of which some have several URLs.

use redis_tests::{ScriptedHost, answer};

/// Interval of pages that share their payload with other pages.
const SHARED: usize = 4;

/// A running site.
pub struct Site {
    host: ScriptedHost,
    /// Number of pages.
    pub pages: usize,
}

impl Site {
    pub fn start(pages: usize) -> Site {
        // warcprox refuses to fetch from 127.0.0.1.
        let host = ScriptedHost::start_at("127.0.0.2", move |asked| {
            let number = asked.target.strip_prefix("/page/").map(str::parse);
            match number {
                Some(Ok(number)) => answer(200, &[("Content-Type", "text/html")], payload(number)),
                _ => answer(404, &[], "no such page"),
            }
        });
        Site { host, pages }
    }

    /// Returns the URL of a page.
    pub fn url(&self, number: usize) -> String {
        self.host.url(&format!("/page/{number}"))
    }

    /// Returns the number of the page at a URL.
    pub fn number(&self, url: &str) -> usize {
        let path = url.strip_prefix(&self.host.url("/page/"));
        path.and_then(|number| number.parse().ok()).expect(url)
    }

    /// Returns the number of different payloads.
    pub fn payloads(&self) -> usize {
        let all = (0..self.pages).map(payload);
        all.collect::<std::collections::HashSet<_>>().len()
    }
}

/// Returns the content of a page.
pub fn payload(number: usize) -> String {
    let (what, number) = match number % SHARED {
        0 => ("a page with several URLs", number % 7),
        _ => ("a page", number),
    };
    let text = "It has not changed since. ".repeat(20 + number % 50);
    format!("<!doctype html><title>{what}</title><p>This is number {number}. {text}</p>")
}
