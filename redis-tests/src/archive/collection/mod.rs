//! A made-up web archive: WARC and ARC files, and indexes of them in every form that CDX servers read.
//!
//! Several hosts with hosts below them, pages that were captured many times, revisits of the same URL and of another
//! one, redirects, errors, queries, captures of POST requests. Everything follows from the seed. What is in the
//! files is valid: lengths and digests are right.
//!
//! ```no_run
//! use redis_tests::archive::collection::{Collection, Shape};
//! use redis_tests::Rng;
//! let folder = tempfile::tempdir().unwrap();
//! let mut made = Collection::new(&mut Rng::seeded(1), Shape::default());
//! made.store(folder.path());
//! std::fs::write(folder.path().join("index.cdxj"), made.cdxj()).unwrap();
//! ```

mod capture;
mod index;
mod record;
mod site;

use std::path::Path;

use crate::rng::Rng;
pub use capture::{Capture, Place, sha1_base32, urlkey};
pub use index::cluster_of;
pub use record::Storage;

/// The shape of a collection.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Prefix of the file names, and the seed of the page contents.
    pub name: &'static str,
    /// Captures, about.
    pub captures: u64,
    /// Captures of the page that has the most.
    pub most: u64,
    /// Captures in a file.
    pub per_file: usize,
    /// Captures are at odd seconds, and so at others than those of a collection where this is not so. Only the
    /// first of the page that has the most is at the same second in both.
    pub odd: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            name: "north",
            captures: 2_000,
            most: 180,
            per_file: 300,
            odd: false,
        }
    }
}

/// Captures and where they lie, in the order of their index.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Shape that it was made from.
    pub shape: Shape,
    /// By urlkey, then time.
    pub captures: Vec<Capture>,
}

impl Collection {
    /// Makes one up. Captures have no place yet.
    pub fn new(rng: &mut Rng, shape: Shape) -> Collection {
        let mut captures = site::captures(rng, &shape);
        captures.sort_by(|a, b| (&a.key, &a.timestamp).cmp(&(&b.key, &b.timestamp)));
        Collection { shape, captures }
    }

    /// Writes the files into a folder, and tells each capture where it lies.
    ///
    /// Most files are WARC with a gzip member for each record; every third one is not compressed, and the last one
    /// is an ARC file.
    ///
    /// # Panics
    /// When a file cannot be written.
    pub fn store(&mut self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("a folder");
        // Files hold what was crawled at about the same time.
        let mut order: Vec<usize> = (0..self.captures.len()).collect();
        order.sort_by(|a, b| {
            self.captures[*a]
                .timestamp
                .cmp(&self.captures[*b].timestamp)
        });
        let files = order.len().div_ceil(self.shape.per_file.max(1));
        for (number, some) in order.chunks(self.shape.per_file.max(1)).enumerate() {
            let storage = match number {
                // A revisit cannot be told in an ARC file.
                _ if number + 1 == files && files > 1 => Storage::Arc,
                _ if number % 3 == 2 => Storage::Plain,
                _ => Storage::Gzip,
            };
            self.store_in(folder, number, storage, some);
        }
    }

    fn store_in(&mut self, folder: &Path, number: usize, storage: Storage, some: &[usize]) {
        let name = format!("{}-{number:03}.{}", self.shape.name, storage.extension());
        let mut bytes = record::beginning(storage, &name);
        for at in some {
            let capture = &mut self.captures[*at];
            let offset = bytes.len() as u64;
            record::append(&mut bytes, storage, capture);
            capture.place = Place {
                file: name.clone(),
                offset,
                length: bytes.len() as u64 - offset,
            };
        }
        std::fs::write(folder.join(&name), bytes).expect("the folder is writable");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_files() {
        let made = |seed| {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let mut collection = Collection::new(&mut Rng::seeded(seed), Shape::default());
            collection.store(folder.path());
            let first = collection.captures[0].place.file.clone();
            (
                collection.cdxj(),
                std::fs::read(folder.path().join(first)).expect("it was written"),
            )
        };
        assert!(made(7) == made(7));
        assert!(made(7).0 != made(8).0);
    }

    #[test]
    fn every_kind_of_capture_is_there() {
        let collection = Collection::new(&mut Rng::seeded(3), Shape::default());
        let count =
            |what: fn(&Capture) -> bool| collection.captures.iter().filter(|c| what(c)).count();
        assert!(count(|_| true) >= 1_900);
        assert!(count(|c| c.original.is_some()) > 100, "revisits");
        assert!(
            count(|c| c.status == 301 && c.location.is_some()) > 20,
            "redirects"
        );
        assert!(count(|c| c.status == 404) > 20, "errors");
        assert!(count(|c| c.posted.is_some()) > 10, "POST");
        assert!(count(|c| c.url.contains('?')) > 50, "queries");
        assert!(
            count(|c| c.key.starts_with("com,example,")) > 50,
            "hosts below"
        );
        let home = count(|c| c.key == "com,example)/");
        assert!(home as u64 >= Shape::default().most, "{home}");
    }
}
