//! The `DEDUPE.*` commands: argument parsing and replies. The rules are in the other modules of
//! [`crate::dedupe`].

mod begin;
mod claims;
mod crawls;
mod indexes;
mod jobs;
mod lookup;
mod metrics;
mod pack;
mod plain;
mod records;
mod settings;
mod store;
mod urls;
mod wacz;

use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::register;
use crawlspace_host::server::info::Named;
use crawlspace_host::server::instead;
use crawlspace_host::server::load::Family;
use crawlspace_host::server::notify::{self, Listener};

use super::grammar;
use super::keys::{marks_an_index, may_be_ours};

/// The command family, which the module registers at load.
pub const FAMILY: Family = Family {
    settings: settings::SETTINGS,
    metrics: metrics::METRICS,
    named: Named {
        what: "index",
        by: "prefix",
        names: indexes::names,
    },
    register: register_all,
};

/// Registers all commands of the family with the server.
fn register_all(ctx: Ctx) -> Result<(), String> {
    macro_rules! register_each {
        ($($command:ident)+) => { $(register::<grammar::$command>(ctx)?;)+ };
    }
    macro_rules! register_instead {
        ($($command:ident)+) => { $(instead::register::<grammar::$command>(ctx)?;)+ };
    }
    // SAFETY: called with the context of the module's load.
    unsafe {
        grammar::all!(register_each);
        grammar::plain!(register_instead);
        store::register(ctx)?;
    }
    claims::start();
    // Use one listener for the whole family, because the server notifies every listener of every
    // change of every key.
    notify::listen(Listener {
        cares_for: |key| may_be_ours(key, indexes::lengths()),
        marks: marks_an_index,
        hear: |ctx, change| {
            indexes::on_change(ctx, change);
            claims::on_change(ctx, change);
        },
    });
    Ok(())
}
