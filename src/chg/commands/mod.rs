//! The `CHG.*` commands: they parse the arguments, run the operation and write the reply.

mod adding;
mod discovering;
mod fetching;
mod frontiers;
mod holding;
mod jobs;
mod listing;
mod metrics;
mod reply;
mod settings;
pub mod store;
pub mod uris;
mod waiter;
mod waiters;

use crate::chg::grammar::{self, Now};
use crate::chg::keys::may_be_ours;
use crawlspace_host::server::alarm;
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::register;
use crawlspace_host::server::info::Named;
use crawlspace_host::server::load::Family;
use crawlspace_host::server::notify::{self, Listener};

/// The family, registered when the module is loaded.
pub const FAMILY: Family = Family {
    settings: settings::SETTINGS,
    metrics: metrics::METRICS,
    named: Named {
        what: "frontier",
        by: "prefix",
        names: frontiers::names,
    },
    register: register_all,
};

/// Registers all commands of the family with the server.
fn register_all(ctx: Ctx) -> Result<(), String> {
    macro_rules! register_each {
        ($($command:ident)+) => { $(register::<grammar::$command>(ctx)?;)+ };
    }
    // SAFETY: called with the context of the module's load.
    unsafe {
        uris::register(ctx)?;
        store::register(ctx)?;
        grammar::all!(register_each);
    }
    alarm::wakes(frontiers::awake);
    notify::listen(Listener {
        cares_for: |key| may_be_ours(key, frontiers::lengths()),
        // Changes by other clients matter only if a frontier is cached.
        marks: |_| false,
        hear: frontiers::on_change,
    });
    Ok(())
}

/// Refuses a time specified by the client unless the setting allows it.
fn allowed(now: Now) -> Result<Now, String> {
    if now.simulated && !settings::SIMULATED_TIME.get() {
        return Err(
            "ERR NOW is for tests and simulations; CONFIG SET crawlspace.chg-simulated-time yes allows it (argument 2)".to_owned(),
        );
    }
    Ok(now)
}
