//! A synthetic web archive: WARC and ARC files, and their indexes in every format that CDX servers
//! read.
//!
//! The archive has several hosts with subdomains, pages with many captures, revisits of the same
//! URL and of another one, redirects, errors, queries, and captures of POST requests. The seed
//! determines the whole archive. The files are valid: lengths and digests are correct.
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
    /// Approximate number of captures.
    pub captures: u64,
    /// Number of captures of the page with the most captures.
    pub most: u64,
    /// Number of captures per file.
    pub per_file: usize,
    /// True if captures are at odd seconds, and false if they are at even seconds. Collections with
    /// different values share only one capture time: the first capture of the page with the most
    /// captures.
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

/// Captures and their locations, in index order.
#[derive(Clone, Debug)]
pub struct Collection {
    /// The shape of the collection.
    pub shape: Shape,
    /// Captures, sorted by urlkey, then time.
    pub captures: Vec<Capture>,
}

impl Collection {
    /// Generates a collection. Captures get their location in [`Collection::store`].
    pub fn new(rng: &mut Rng, shape: Shape) -> Collection {
        let mut captures = site::captures(rng, &shape);
        captures.sort_by(|a, b| (&a.key, &a.timestamp).cmp(&(&b.key, &b.timestamp)));
        Collection { shape, captures }
    }

    /// Writes the files into a folder, and sets the location of each capture.
    ///
    /// Most files are WARC with a gzip member for each record; every third one is uncompressed, and
    /// the last one is an ARC file.
    ///
    /// # Panics
    /// Panics if a file cannot be written.
    pub fn store(&mut self, folder: &Path) {
        std::fs::create_dir_all(folder).expect("a folder");
        // Each file contains captures of about the same time.
        let mut order: Vec<usize> = (0..self.captures.len()).collect();
        order.sort_by(|a, b| {
            self.captures[*a]
                .timestamp
                .cmp(&self.captures[*b].timestamp)
        });
        let files = order.len().div_ceil(self.shape.per_file.max(1));
        for (number, some) in order.chunks(self.shape.per_file.max(1)).enumerate() {
            let storage = match number {
                // ARC has no revisit records.
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
                std::fs::read(folder.path().join(first)).expect("the file was written"),
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
