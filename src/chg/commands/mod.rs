//! `CHG.*`: arguments in, reply out.

mod adding;
mod arguments;
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
mod waiters;

use crate::chg::keys::may_be_ours;
use crawlspace_host::server::alarm;
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::{Arg, register};
use crawlspace_host::server::load::Family;
use crawlspace_host::server::notify::{self, Listener};

/// What a client says the time is; for simulations.
const NOW: Arg = Arg::integer("now").after("NOW").optional();

/// The family, for the module's load.
pub const FAMILY: Family = Family {
    settings: settings::SETTINGS,
    metrics: metrics::METRICS,
    register: register_all,
};

/// Makes all commands of the family known to the server.
fn register_all(ctx: Ctx) -> Result<(), String> {
    // SAFETY: called with the context of the module's load.
    unsafe {
        uris::register(ctx)?;
        register::<adding::Add>(ctx)?;
        register::<adding::AddUri>(ctx)?;
        register::<fetching::Next>(ctx)?;
        register::<fetching::Release>(ctx)?;
        register::<fetching::Extend>(ctx)?;
        register::<fetching::Expired>(ctx)?;
        register::<jobs::Sweep>(ctx)?;
        register::<holding::Block>(ctx)?;
        register::<holding::Pause>(ctx)?;
        register::<holding::Resume>(ctx)?;
        register::<holding::Limit>(ctx)?;
        register::<holding::Group>(ctx)?;
        register::<jobs::Drop>(ctx)?;
        register::<jobs::Move>(ctx)?;
        register::<holding::Why>(ctx)?;
        register::<holding::Info>(ctx)?;
        register::<listing::List>(ctx)?;
        register::<listing::Uris>(ctx)?;
        register::<jobs::Check>(ctx)?;
        register::<jobs::Repair>(ctx)?;
    }
    alarm::wakes(frontiers::awake);
    notify::listen(Listener {
        cares_for: may_be_ours,
        // Without a cached frontier nothing that others change matters.
        marks: |_| false,
        hear: frontiers::on_change,
    });
    Ok(())
}
