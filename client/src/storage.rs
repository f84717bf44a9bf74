//! Storage formats of indexes and frontiers: plain keys or one packed value.

use redis::{FromRedisValue, ParsingError, Value};
use serde::Serialize;

/// Storage format of a frontier, or of the committed part of a dedupe index: the merged index and the records
/// of committed crawls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// The documented plain keys, which any client can read.
    Plain,
    /// A packed value, which takes a fraction of the memory.
    Packed,
    /// Being packed, or interrupted while packing: `pack` resumes.
    Packing,
    /// Being unpacked, or interrupted while unpacking: `unpack` resumes.
    Unpacking,
}

impl Storage {
    /// Returns the keyword of the storage format in replies.
    pub fn word(self) -> &'static str {
        match self {
            Storage::Plain => "plain",
            Storage::Packed => "packed",
            Storage::Packing => "packing",
            Storage::Unpacking => "unpacking",
        }
    }

    /// Returns true if a conversion to another storage format is running or was interrupted.
    pub fn is_moving(self) -> bool {
        matches!(self, Storage::Packing | Storage::Unpacking)
    }
}

impl FromRedisValue for Storage {
    fn from_redis_value(value: Value) -> Result<Storage, ParsingError> {
        // Version 0.1.0 does not report the storage of frontiers, which is always plain.
        match Option::<String>::from_redis_value(value)?.as_deref() {
            None | Some("plain") => Ok(Storage::Plain),
            Some("packed") => Ok(Storage::Packed),
            Some("packing") => Ok(Storage::Packing),
            Some("unpacking") => Ok(Storage::Unpacking),
            Some(other) => Err(format!("unknown storage {other}").into()),
        }
    }
}
