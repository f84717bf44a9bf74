//! `TAGS.*`: arguments in, reply out.

mod arguments;
mod edges;
mod filtering;
mod listing;
mod loading;
mod metrics;
mod points;
mod rules;
mod settings;
mod store;

use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::register;
use crawlspace_host::server::load::Family;

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
        store::register_type(ctx)?;
        register::<edges::Add>(ctx)?;
        register::<edges::Rem>(ctx)?;
        register::<edges::Get>(ctx)?;
        register::<loading::Load>(ctx)?;
        register::<loading::Swap>(ctx)?;
        register::<rules::RuleSet>(ctx)?;
        register::<rules::RuleDel>(ctx)?;
        register::<rules::List>(ctx)?;
        register::<points::PointSet>(ctx)?;
        register::<points::PointDel>(ctx)?;
        register::<points::List>(ctx)?;
        register::<filtering::Filter>(ctx)?;
        register::<filtering::Explain>(ctx)?;
        register::<listing::List>(ctx)?;
        register::<listing::Scan>(ctx)?;
        register::<listing::Info>(ctx)
    }
}
