//! Replies as values. A command builds its complete reply before it sends the first byte.

/// Reply of a command. Maps are sent as RESP3 maps, and as flat arrays in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Null.
    Nil,
    /// `+OK`.
    Ok,
    /// An integer.
    Int(i64),
    /// A bulk string of any bytes.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// A map; the keys keep their order.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// Makes a bulk string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// Creates an integer. Counts above `i64::MAX`, which cannot occur, become `i64::MAX`.
    pub fn count(n: u64) -> Reply {
        Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// Makes an array of counts.
    pub fn counts(counts: &[u64]) -> Reply {
        Reply::Array(counts.iter().map(|&n| Reply::count(n)).collect())
    }

    /// Makes a map with names as keys.
    pub fn named<N: AsRef<[u8]>>(entries: impl IntoIterator<Item = (N, Reply)>) -> Reply {
        Reply::Map(
            entries
                .into_iter()
                .map(|(name, value)| (Reply::bulk(name), value))
                .collect(),
        )
    }
}
