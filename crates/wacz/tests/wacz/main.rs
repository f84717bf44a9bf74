//! Tests the public interface of the crate `wacz`.

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

/// Saves these bytes as a file.
fn saved(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn open(path: &Path) -> Result<Wacz, Error> {
    Wacz::open(&Location::from(path), &Options::default())
}

/// Returns the lines of all indexes, in order.
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

/// Returns the names of the indexes.
fn index_names(wacz: &Wacz) -> Vec<&str> {
    wacz.indexes().iter().map(|index| index.name()).collect()
}

/// Reads all lines of a package with these bytes.
fn read(bytes: &[u8]) -> Result<Vec<String>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "test.wacz", bytes);
    all_lines(&open(&path)?)
}
