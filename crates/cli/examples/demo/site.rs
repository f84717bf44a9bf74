//! A small deterministic site, and its state one day later.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::Rng;

const ARTICLES: u32 = 24;
const PICTURES: u32 = 16;

/// Contents of a site: a payload per path.
#[derive(Clone)]
pub struct Site {
    files: BTreeMap<String, File>,
}

/// A file of the site.
#[derive(Clone)]
pub struct File {
    /// Media type of the file.
    pub media_type: &'static str,
    /// Payload of the file.
    pub payload: Vec<u8>,
}

impl Site {
    /// Returns the site of the first crawl.
    pub fn today() -> Site {
        Site::edition(false)
    }

    /// Returns the site of the second crawl: some articles have changed, and one article and one picture are new.
    pub fn tomorrow() -> Site {
        Site::edition(true)
    }

    fn edition(later: bool) -> Site {
        let mut site = Site::empty();
        let articles = if later { ARTICLES + 1 } else { ARTICLES };
        let pictures = if later { PICTURES + 1 } else { PICTURES };
        let links = (1..=articles).map(|n| format!("/article/{n}.html"));
        let mut links: Vec<String> = links.collect();
        for n in 1..=articles {
            let text = article(n, later && n % 7 == 0);
            // The print version has the same payload under another URL, and so has the picture on a mirror path.
            if n % 3 == 0 {
                links.push(format!("/print/{n}.html"));
                site.html(&format!("/print/{n}.html"), &text);
            }
            site.html(&format!("/article/{n}.html"), &text);
        }
        for n in 1..=pictures {
            let noise = noise(u64::from(n), 4_000 + 1_500 * n as usize);
            let folders = ["images", "mirror"];
            for folder in &folders[..if n % 4 == 0 { 2 } else { 1 }] {
                links.push(format!("/{folder}/{n}.png"));
                site.add(&format!("/{folder}/{n}.png"), "image/png", noise.clone());
            }
        }
        let style = "body { max-width: 40em; margin: auto }\n";
        site.add("/style.css", "text/css", style.into());
        let robots = "User-agent: *\nDisallow:\n";
        site.add("/robots.txt", "text/plain", robots.into());
        let item = |link: &String| format!("<li><a href=\"{link}\">{link}</a>\n");
        let list: String = links.iter().map(item).collect();
        let body = format!("<h1>The Daily Demo</h1>\n<ul>\n{list}</ul>\n");
        site.html("/", &body);
        site
    }

    fn html(&mut self, path: &str, body: &str) {
        let page = format!(
            "<!DOCTYPE html>\n<html><head><title>The Daily Demo</title>\
             <link rel=\"stylesheet\" href=\"/style.css\"></head>\n<body>\n{body}</body></html>\n"
        );
        self.add(path, "text/html; charset=utf-8", page.into_bytes());
    }

    /// Creates a site without files.
    pub fn empty() -> Site {
        let files = BTreeMap::new();
        Site { files }
    }

    /// Iterates over the files with their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (&path[..], file))
    }

    /// Adds a file.
    pub fn add(&mut self, path: &str, media_type: &'static str, payload: Vec<u8>) {
        let file = File {
            media_type,
            payload,
        };
        self.files.insert(path.to_owned(), file);
    }

    /// Returns the file at a path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Returns the number of URLs.
    pub fn urls(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns the distinct payloads.
    pub fn payloads(&self) -> BTreeSet<&[u8]> {
        self.files.values().map(|file| &file.payload[..]).collect()
    }
}

fn article(n: u32, changed: bool) -> String {
    let mut text = format!("<h1>Article {n}</h1>\n");
    if changed {
        text += "<p>Correction: an earlier version of this article was not this version.</p>\n";
    }
    let words = "archive capture crawl digest frontier harvest host memento page \
                 payload politeness record replay revisit seed snapshot";
    let words: Vec<&str> = words.split(' ').collect();
    for paragraph in 0..12 {
        let bytes = noise(u64::from(n) * 100 + paragraph, 90);
        let some: Vec<&str> = bytes.iter().map(|b| words[usize::from(b % 16)]).collect();
        text += &format!("<p>{}.</p>\n", some.join(" "));
    }
    text
}

/// Returns incompressible bytes, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let bytes = (0..length.div_ceil(8)).flat_map(|_| rng.bits().to_le_bytes());
    let mut bytes: Vec<u8> = bytes.collect();
    bytes.truncate(length);
    bytes
}
