//! The `TAGS.*` commands: they parse the arguments, run the operation and write the reply.

mod edges;
mod filtering;
mod listing;
mod loading;
mod metrics;
mod points;
mod rules;
mod settings;
mod store;

use crate::tags::grammar;
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::register;
use crawlspace_host::server::info::Named;
use crawlspace_host::server::load::Family;

/// The family, registered when the module is loaded.
pub const FAMILY: Family = Family {
    settings: settings::SETTINGS,
    metrics: metrics::METRICS,
    named: Named {
        what: "space",
        by: "key",
        names: store::names,
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
        store::register_type(ctx)?;
        grammar::all!(register_each);
        Ok(())
    }
}
