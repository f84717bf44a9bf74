//! A small site that is always the same, and what becomes of it overnight.

use std::collections::{BTreeMap, BTreeSet};

const ARTICLES: u32 = 24;
const PICTURES: u32 = 16;

/// What is served: a payload for each path.
#[derive(Clone)]
pub struct Site {
    files: BTreeMap<String, File>,
}

/// One file of the site.
#[derive(Clone)]
pub struct File {
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl Site {
    /// The site of the first crawl.
    pub fn today() -> Site {
        Site::edition(false)
    }

    /// The site of the second crawl: some articles have changed, one is new, and so is a picture.
    pub fn tomorrow() -> Site {
        Site::edition(true)
    }

    fn edition(later: bool) -> Site {
        let mut site = Site::empty();
        let articles = if later { ARTICLES + 1 } else { ARTICLES };
        let pictures = if later { PICTURES + 1 } else { PICTURES };
        let mut links: Vec<String> = (1..=articles)
            .map(|n| format!("/article/{n}.html"))
            .collect();
        for n in 1..=articles {
            let text = article(n, later && n % 7 == 0);
            // The print version is the same payload under another URL, and so is the picture on a mirror path.
            if n % 3 == 0 {
                links.push(format!("/print/{n}.html"));
                site.html(&format!("/print/{n}.html"), &text);
            }
            site.html(&format!("/article/{n}.html"), &text);
        }
        for n in 1..=pictures {
            let noise = noise(u64::from(n), 4_000 + 1_500 * n as usize);
            for folder in if n % 4 == 0 {
                &["images", "mirror"][..]
            } else {
                &["images"]
            } {
                links.push(format!("/{folder}/{n}.png"));
                site.add(&format!("/{folder}/{n}.png"), "image/png", noise.clone());
            }
        }
        site.add(
            "/style.css",
            "text/css",
            b"body { max-width: 40em; margin: auto }\n".to_vec(),
        );
        site.add(
            "/robots.txt",
            "text/plain",
            b"User-agent: *\nDisallow:\n".to_vec(),
        );
        let list: String = links
            .iter()
            .map(|link| format!("<li><a href=\"{link}\">{link}</a>\n"))
            .collect();
        site.html(
            "/",
            &format!("<h1>The Daily Demo</h1>\n<ul>\n{list}</ul>\n"),
        );
        site
    }

    fn html(&mut self, path: &str, body: &str) {
        let page = format!(
            "<!DOCTYPE html>\n<html><head><title>The Daily Demo</title>\
             <link rel=\"stylesheet\" href=\"/style.css\"></head>\n<body>\n{body}</body></html>\n"
        );
        self.add(path, "text/html; charset=utf-8", page.into_bytes());
    }

    /// A site without files.
    pub fn empty() -> Site {
        Site {
            files: BTreeMap::new(),
        }
    }

    /// Its files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (&path[..], file))
    }

    /// Puts a file there.
    pub fn add(&mut self, path: &str, media_type: &'static str, payload: Vec<u8>) {
        self.files.insert(
            path.to_owned(),
            File {
                media_type,
                payload,
            },
        );
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// How many URLs it has.
    pub fn urls(&self) -> u64 {
        self.files.len() as u64
    }

    /// Its different payloads.
    pub fn payloads(&self) -> BTreeSet<&[u8]> {
        self.files.values().map(|file| &file.payload[..]).collect()
    }
}

fn article(n: u32, changed: bool) -> String {
    let mut text = format!("<h1>Article {n}</h1>\n");
    if changed {
        text.push_str(
            "<p>Correction: an earlier version of this article was not this version.</p>\n",
        );
    }
    const WORDS: [&str; 16] = [
        "archive",
        "capture",
        "crawl",
        "digest",
        "frontier",
        "harvest",
        "host",
        "memento",
        "page",
        "payload",
        "politeness",
        "record",
        "replay",
        "revisit",
        "seed",
        "snapshot",
    ];
    for paragraph in 0..12 {
        let bytes = noise(u64::from(n) * 100 + paragraph, 90);
        let words: Vec<&str> = bytes.iter().map(|b| WORDS[usize::from(b % 16)]).collect();
        text.push_str(&format!("<p>{}.</p>\n", words.join(" ")));
    }
    text
}

/// Bytes that do not compress, the same for the same seed (SplitMix64).
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8))
        .flat_map(|_| next().to_le_bytes())
        .collect();
    bytes.truncate(length);
    bytes
}
