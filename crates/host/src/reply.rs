//! A reply as a value, so that what a command found is complete before the first byte goes out.

/// What a command answers. Maps are RESP3 maps and flat arrays in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A null.
    Nil,
    /// `+OK`.
    Ok,
    /// An integer.
    Int(i64),
    /// A bulk string of any bytes.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// A map; keys in the order given.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// A bulk string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// An integer; counts above the signed range cannot occur, and would show as its end.
    pub fn count(n: u64) -> Reply {
        Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// An array of counts.
    pub fn counts(counts: &[u64]) -> Reply {
        Reply::Array(counts.iter().map(|&n| Reply::count(n)).collect())
    }

    /// A map with names as keys.
    pub fn named<N: AsRef<[u8]>>(entries: impl IntoIterator<Item = (N, Reply)>) -> Reply {
        Reply::Map(
            entries
                .into_iter()
                .map(|(name, value)| (Reply::bulk(name), value))
                .collect(),
        )
    }
}
