//! The two key layouts in use.

/// The layout of an index: the names of its keys and fields, as documented or as Browsertrix writes
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// `allhashes`, fields with a label (`sha256:9f86…`), `<uuid>:duperefs`.
    #[default]
    Document,
    /// `alldupes`, fields without a label, `<uid>:duperef`.
    Browsertrix,
}

impl Profile {
    /// All profiles, in the order of their configuration values and of the names in [`super::keys`].
    pub const ALL: [Profile; 2] = [Profile::Document, Profile::Browsertrix];

    /// Returns the name of the profile in commands, configuration and the `crawlspace` key.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Document => "document",
            Profile::Browsertrix => "browsertrix",
        }
    }

    /// Parses a name, ignoring case.
    pub fn parse(name: &[u8]) -> Option<Profile> {
        Profile::ALL
            .into_iter()
            .find(|profile| name.eq_ignore_ascii_case(profile.name().as_bytes()))
    }
}
