//! The two storages: plain keys and a packed value.

/// The storage of an index or a frontier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Plain keys, as documented.
    #[default]
    Plain,
    /// A single packed value.
    Packed,
}

impl Storage {
    /// All storages, in the order of their configuration values.
    pub const ALL: [Storage; 2] = [Storage::Plain, Storage::Packed];

    /// Returns the name of the storage in commands, configuration and the `crawlspace` key.
    pub fn name(self) -> &'static str {
        match self {
            Storage::Plain => "plain",
            Storage::Packed => "packed",
        }
    }

    /// Parses a name, ignoring case.
    pub fn parse(name: &[u8]) -> Option<Storage> {
        Storage::ALL
            .into_iter()
            .find(|storage| name.eq_ignore_ascii_case(storage.name().as_bytes()))
    }
}
