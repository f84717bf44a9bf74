//! The two spellings of the key layout that are in use.

/// How an index names its keys and fields: as the documents do, or as the crawler in the field does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// `allhashes`, fields with prefix (`sha256:9f86…`), `<uuid>:duperefs`.
    #[default]
    Document,
    /// `alldupes`, fields without prefix, `<uid>:duperef`.
    Browsertrix,
}

impl Profile {
    /// All profiles, in the order of their configuration values and of the names in [`super::keys`].
    pub const ALL: [Profile; 2] = [Profile::Document, Profile::Browsertrix];

    /// The profile's name in commands, configuration and the `crawlspace` key.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Document => "document",
            Profile::Browsertrix => "browsertrix",
        }
    }

    /// Reads a name, in any case.
    pub fn parse(name: &[u8]) -> Option<Profile> {
        Profile::ALL
            .into_iter()
            .find(|profile| name.eq_ignore_ascii_case(profile.name().as_bytes()))
    }
}
