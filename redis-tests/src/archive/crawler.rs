//! Generates crawls one after the other. Each crawl knows the payloads that earlier crawls stored.

use super::capture::{Capture, Kind};
use crate::rng::Rng;

/// The shape of the crawls.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of records per crawl.
    pub captures: u64,
    /// Maximum number of WACZ files of a crawl. Every crawl has at least one WACZ file. With
    /// `plain`, every crawl has exactly this number.
    pub waczs: u64,
    /// Percentage of fetches whose payload is known; most of these become revisits.
    pub known: u64,
    /// Percentage of records that are neither responses nor revisits.
    pub other: u64,
    /// True to generate only common cases: no payload is stored twice, names and URLs are ASCII,
    /// and digests have one notation.
    pub plain: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            captures: 300,
            waczs: 4,
            known: 40,
            other: 6,
            plain: false,
        }
    }
}

/// The records of one crawl.
#[derive(Clone, Debug)]
pub struct Crawl {
    /// Its id.
    pub id: String,
    /// Names of the WACZ files, in the order in which they were started.
    pub waczs: Vec<String>,
    /// Records, in the order in which they were written.
    pub captures: Vec<Capture>,
}

impl Crawl {
    /// Returns the records of one WACZ file.
    pub fn captures_of(&self, wacz: usize) -> impl Iterator<Item = &Capture> {
        self.captures.iter().filter(move |c| c.wacz == wacz)
    }
}

/// Generates crawls.
pub struct Crawler {
    rng: Rng,
    shape: Shape,
    /// Number of crawls so far.
    crawls: u64,
    /// Number of payloads so far. All payloads with lower numbers are known.
    payloads: u64,
}

impl Crawler {
    /// Creates a crawler that knows no payloads.
    pub fn new(rng: Rng, shape: Shape) -> Crawler {
        Crawler {
            rng,
            shape,
            crawls: 0,
            payloads: 0,
        }
    }

    /// Generates the next crawl, which begins after the commit of the previous one.
    pub fn next_crawl(&mut self) -> Crawl {
        let number = self.crawls;
        self.crawls += 1;
        let waczs = if self.shape.plain {
            self.shape.waczs
        } else {
            1 + self.rng.below(self.shape.waczs)
        };
        let (id, waczs) = self.names(number, waczs);
        let mut clock = Clock {
            month: number,
            seconds: 3_600,
            millis: !self.shape.plain && self.rng.chance(50),
        };
        let mut captures = Vec::with_capacity(self.shape.captures as usize);
        for n in 0..self.shape.captures {
            // Files are filled one after the other. Two files are open at a time.
            let at = (n * waczs.len() as u64 / self.shape.captures) as usize;
            let next = (at + 1).min(waczs.len() - 1);
            let wacz = if self.rng.chance(20) { next } else { at };
            captures.push(self.capture(&mut clock, wacz));
        }
        Crawl {
            id,
            waczs,
            captures,
        }
    }

    fn capture(&mut self, clock: &mut Clock, wacz: usize) -> Capture {
        clock.go_on(self.rng.below(3));
        let rng = &mut self.rng;
        let (mut kind, mut payload) = (Kind::Response, self.payloads);
        if rng.chance(self.shape.other) {
            kind = Kind::Other;
        } else if payload > 0 && rng.chance(self.shape.known) {
            payload = rng.below(payload);
            if !self.shape.plain && rng.chance(25) {
                // The look-up failed, or the crawler did not wait for it, so the payload is stored
                // again. The first record of a payload in a crawl is also the earliest, so both
                // rules for choosing the owner have the same result.
                clock.go_on(1);
            } else {
                kind = Kind::Revisit;
            }
        } else {
            self.payloads += 1;
        }
        let size = match kind {
            // Some originals are smaller than their revisits.
            Kind::Revisit => 300 + rng.below(400),
            _ if rng.chance(10) => 100 + rng.below(300),
            _ => 500 + rng.below(200_000),
        };
        let spellings = if self.shape.plain {
            [0, 0]
        } else {
            [0, 1].map(|_| rng.below(8).saturating_sub(4) as u8)
        };
        Capture {
            kind,
            payload,
            date: clock.date(),
            url: self.url(kind),
            size,
            wacz,
            spellings,
        }
    }

    fn names(&mut self, number: u64, waczs: u64) -> (String, Vec<String>) {
        let id = match number % 4 {
            _ if self.shape.plain => format!("crawl-{number:02}-c2d10f7a"),
            0 => format!("manual-2024-{number}"),
            1 => format!("récolte {number} – août"),
            2 => format!("coll/{number}:weekly \"all\""),
            _ => format!("收集-{number} (a*b?[c])"),
        };
        let name = |i: u64| match (number + i) % 4 {
            _ if self.shape.plain => format!("{id}-{i}.wacz"),
            0 => format!("{id}-{i}.wacz"),
            1 => format!("my crawl {number} {i}.wacz"),
            2 => format!("файл-{number}-{i}.wacz"),
            _ => format!("org 7/{number}'{i}\\.wacz"),
        };
        let names = (0..waczs).map(name).collect();
        (id, names)
    }

    fn url(&mut self, kind: Kind) -> String {
        const NAMES: [&str; 8] = [
            "archive", "museum", "gazette", "library", "parish", "kommune", "radio", "journal",
        ];
        const FOLDERS: [&str; 5] = ["news", "images/2026", "article", "en/about", "assets"];
        let rng = &mut self.rng;
        // The product of two uniform random numbers, so that a few hosts have most of the pages.
        let host = rng.below(70) * rng.below(70);
        let name = NAMES[host as usize % NAMES.len()];
        let folder = rng.pick(&FOLDERS);
        let page = rng.below(1 << 32);
        let plain = format!("https://www.{name}-{host}.org/{folder}/{name}-{page:x}.html");
        if kind == Kind::Other {
            return match rng.below(3) {
                0 => format!("urn:text:{plain}"),
                1 => format!("urn:pageinfo:{plain}"),
                _ => format!("dns:www.{name}-{host}.org"),
            };
        }
        if self.shape.plain || rng.chance(60) {
            return plain;
        }
        let page = rng.below(1 << 16);
        match rng.below(7) {
            0 => format!("http://{name}.example/søk/日本語/{page}?q=ümlaut"),
            1 => format!("https://{name}.example/a page/with  spaces {page}"),
            2 => format!("https://{name}.example/\"quoted\"\\{page}?a=%20&b=<c>"),
            3 => format!("HTTP://{name}.EXAMPLE/{page}"),
            4 => format!(
                "https://{name}.example/{page}?{}",
                "long=parameter&".repeat(200)
            ),
            5 => format!("https://{name}.example/🦀/{page}"),
            _ => format!("http://{name}.example:8080/{page}"),
        }
    }
}

/// The clock of a crawl.
struct Clock {
    /// Month of the crawl: crawls are a month apart.
    month: u64,
    seconds: u64,
    millis: bool,
}

impl Clock {
    fn go_on(&mut self, seconds: u64) {
        self.seconds += seconds;
    }

    fn date(&self) -> String {
        let (day, second) = (self.seconds / 86_400 % 28 + 1, self.seconds % 86_400);
        let (year, month) = (2024 + self.month / 12, self.month % 12 + 1);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let millis = if self.millis {
            format!("{:03}", self.seconds * 37 % 1000)
        } else {
            String::new()
        };
        format!("{year}{month:02}{day:02}{hour:02}{minute:02}{second:02}{millis}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_revisit_has_an_earlier_original() {
        let mut crawler = Crawler::new(Rng::seeded(3), Shape::default());
        let mut stored = HashSet::new();
        for _ in 0..4 {
            let crawl = crawler.next_crawl();
            let mut kinds = [0; 3];
            for capture in &crawl.captures {
                match capture.kind {
                    Kind::Response => _ = stored.insert(capture.payload),
                    Kind::Revisit => assert!(stored.contains(&capture.payload), "{capture:?}"),
                    Kind::Other => (),
                }
                kinds[capture.kind as usize] += 1;
            }
            assert!(kinds.iter().all(|n| *n > 3), "{kinds:?}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_crawls() {
        let made = |seed| {
            let mut crawler = Crawler::new(Rng::seeded(seed), Shape::default());
            [(); 2].map(|()| format!("{:?}", crawler.next_crawl()))
        };
        assert_eq!(made(5), made(5));
        assert_ne!(made(5), made(6));
    }
}
