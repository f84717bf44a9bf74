//! A small archive, and samples of it.

use redis_tests::archive::collection::{Collection, Shape};
use redis_tests::{Rng, with};
use tempfile::TempDir;

/// Sample files of every kind.
pub struct Samples {
    pub dir: TempDir,
    pub collection: Collection,
}

impl Samples {
    pub fn new() -> Samples {
        let dir = tempfile::tempdir().unwrap();
        let shape = with!(Shape, captures: 150, most: 12, per_file: 60);
        let mut collection = Collection::new(&mut Rng::seeded(5), shape);
        collection.store(&dir.path().join("warcs"));
        Samples { dir, collection }
    }

    /// Returns the index as CDXJ and CDX, and single lines of both.
    pub fn indexes(&self) -> Vec<Vec<u8>> {
        let (cdxj, cdx) = (self.collection.cdxj(), self.collection.cdx());
        let some = |text: &str, lines: usize| -> Vec<u8> {
            text.lines()
                .take(lines)
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into_bytes()
        };
        vec![
            some(&cdxj, 40),
            some(&cdx, 40),
            some(&cdxj, 3),
            some(&cdx, 3),
        ]
    }

    /// Returns the file with this extension, with offset and length of its records.
    pub fn file(&self, ending: &str) -> (Vec<u8>, Vec<(u64, u64)>) {
        let captures = self
            .collection
            .captures
            .iter()
            .filter(|c| c.place.file.ends_with(ending));
        let name = &captures
            .clone()
            .next()
            .expect("there is such a file")
            .place
            .file;
        let places = captures
            .filter(|c| c.place.file == *name)
            .map(|c| (c.place.offset, c.place.length));
        let bytes = std::fs::read(self.dir.path().join("warcs").join(name)).unwrap();
        (bytes, places.collect())
    }
}
