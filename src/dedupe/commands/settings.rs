//! Settings of the family.

use crawlspace_host::server::config::{Choice, Setting, Switch};

use crate::dedupe::index::storage::{Layout, Storage};
use crate::dedupe::profile::Profile;

use super::plain;

static PROFILE: Choice = Choice::new("dedupe-profile", || {
    Profile::ALL.iter().map(|profile| profile.name()).collect()
});
static STORAGE: Choice = Choice::new("dedupe-storage", || {
    Storage::ALL.iter().map(|storage| storage.name()).collect()
});

/// Lets plain clients use packed indexes.
pub static PLAIN_COMMANDS: Switch = Switch::watched("dedupe-plain-commands", plain::check_soon);

/// All settings of the family.
pub static SETTINGS: &[Setting] = &[
    Setting::Choice(&PROFILE),
    Setting::Choice(&STORAGE),
    Setting::Switch(&PLAIN_COMMANDS),
];

/// Returns the layout of new indexes.
pub fn layout() -> Layout {
    Layout {
        profile: Profile::ALL[PROFILE.get()],
        storage: Storage::ALL[STORAGE.get()],
    }
}
