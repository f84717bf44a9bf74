//! What must hold of the crate `wacz`, as other crates use it.

mod hostile;
mod lists;
mod members;
mod packages;
mod remote;
mod tools;
mod writing;
mod zipped;

use std::path::{Path, PathBuf};

use crawlspace_wacz::{Error, Location, Options, Wacz};

#[global_allocator]
static HEAP: redis_tests::fuzz::Heap = redis_tests::fuzz::Heap;

/// A file of these bytes.
fn saved(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(path: &Path) -> Result<Wacz, Error> {
    Wacz::open(&Location::from(path), &Options::default())
}

/// All lines of all indexes, in order.
fn all_lines(wacz: &Wacz) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for index in wacz.indexes() {
        let mut lines = wacz.lines(index)?;
        while let Some(line) = lines.next()? {
            all.push(String::from_utf8_lossy(line).into_owned());
        }
    }
    Ok(all)
}

/// The names of the indexes.
fn index_names(wacz: &Wacz) -> Vec<&str> {
    wacz.indexes().iter().map(|index| index.name()).collect()
}

/// A package of these bytes, and all of its lines.
fn read(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "test.wacz", bytes);
    all_lines(&open(&path)?)
}
