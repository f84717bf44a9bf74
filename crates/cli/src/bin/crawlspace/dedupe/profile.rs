//! `crawlspace dedupe profile`.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use crawlspace_client::dedupe::Profile;
use serde::Serialize;

use super::Asking;

/// Show or set the key names and the notation of hashes that an index uses.
///
/// The profile can be set until the index has its first crawl.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe profile browsertrix --prefix '{coll-42}:'")]
pub(crate) struct SetProfile {
    #[command(flatten)]
    asking: Asking,
    /// The profile to set.
    #[arg(value_enum)]
    profile: Option<Name>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Key names and notation of the published design.
    Document,
    /// Key names and notation of Browsertrix Crawler.
    Browsertrix,
}

#[derive(Serialize)]
struct Used {
    profile: Profile,
}

impl SetProfile {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        let wanted = self.profile.map(|name| match name {
            Name::Document => Profile::Document,
            Name::Browsertrix => Profile::Browsertrix,
        });
        let profile = match wanted {
            Some(profile) => index.set_profile(profile).map(|()| profile),
            None => index.profile(),
        };
        let profile = profile.map_err(io::Error::other)?;
        self.asking.tell(&Used { profile }, |used| {
            // Print only the word, because scripts read it.
            writeln!(io::stdout(), "{}", used.profile.word())
        })?;
        Ok(true)
    }
}
