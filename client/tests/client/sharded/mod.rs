//! Tests a sharded index: it must return the same results as a single index, and every interrupted
//! operation must be finishable.

mod crashes;
mod faults;
mod one_of_many;
mod storages;

use crawlspace_client::dedupe::{Added, Revisited};
use redis_tests::{DATE, sha256_of, size_of, url_of};

/// A generated record, which owns the data of its fields.
struct Record {
    hash: String,
    url: String,
    size: u64,
}

impl Record {
    fn of(number: u64) -> Record {
        Record {
            hash: sha256_of(number),
            url: url_of(number),
            size: size_of(number),
        }
    }

    fn added(&self, wacz_index: u64) -> Added<'_> {
        Added::new(
            self.hash.as_bytes(),
            wacz_index,
            DATE.as_bytes(),
            self.url.as_bytes(),
            self.size,
        )
    }

    fn revisited(&self) -> Revisited<'_> {
        Revisited {
            hash: self.hash.as_bytes(),
            size: 300,
            original: None,
        }
    }
}

fn records(numbers: impl IntoIterator<Item = u64>) -> Vec<Record> {
    numbers.into_iter().map(Record::of).collect()
}

fn added(records: &[Record]) -> Vec<Added<'_>> {
    records.iter().map(|record| record.added(0)).collect()
}

fn hashes(records: &[Record]) -> Vec<&[u8]> {
    let hashes = records.iter().map(|record| record.hash.as_bytes());
    hashes.collect()
}
