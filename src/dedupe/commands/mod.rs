//! The `DEDUPE.*` commands: arguments in, reply out. The rules are in the other modules of
//! [`crate::dedupe`].

mod begin;
mod claims;
mod crawls;
mod indexes;
mod jobs;
mod lookup;
mod metrics;
mod pack;
mod records;
mod settings;
mod store;
mod wacz;

use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::command::register;
use crawlspace_host::server::load::Family;
use crawlspace_host::server::notify::{self, Listener};

use super::digest::Digest;
use super::keys::{check_crawl_id, marks_an_index, may_be_ours};
use super::sequence::{Sequence, WRITER_BYTES};

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
        register::<lookup::Lookup>(ctx)?;
        register::<claims::Claim>(ctx)?;
        register::<claims::Unclaim>(ctx)?;
        register::<begin::Begin>(ctx)?;
        register::<records::Add>(ctx)?;
        register::<records::Revisit>(ctx)?;
        register::<wacz::Open>(ctx)?;
        register::<wacz::Close>(ctx)?;
        register::<wacz::List>(ctx)?;
        register::<jobs::Commit>(ctx)?;
        register::<jobs::Cancel>(ctx)?;
        register::<jobs::Retain>(ctx)?;
        register::<jobs::Remove>(ctx)?;
        register::<jobs::Requires>(ctx)?;
        register::<jobs::RequiredBy>(ctx)?;
        register::<crawls::Stats>(ctx)?;
        register::<crawls::Crawls>(ctx)?;
        register::<crawls::Check>(ctx)?;
        register::<crawls::Repair>(ctx)?;
        register::<crawls::Profile>(ctx)?;
        register::<pack::Pack>(ctx)?;
        register::<pack::Unpack>(ctx)?;
        store::register(ctx)?;
    }
    claims::start();
    for hear in [indexes::on_change, claims::on_change] {
        notify::listen(Listener {
            cares_for: may_be_ours,
            marks: marks_an_index,
            hear,
        });
    }
    Ok(())
}

/// Reads a crawl id.
fn crawl_argument<'a>(args: &mut Args<'a>) -> Result<&'a [u8], String> {
    let crawl = args.next("crawl")?;
    check_crawl_id(crawl).map_err(|error| format!("{error} (argument {})", args.position()))?;
    Ok(crawl)
}

/// Reads a hash in any spelling.
fn hash_argument<'a>(args: &mut Args<'a>) -> Result<(&'a [u8], Digest), String> {
    let hash = args.next("hash")?;
    let digest =
        Digest::parse(hash).map_err(|error| format!("{error} (argument {})", args.position()))?;
    Ok((hash, digest))
}

/// Reads what follows `SEQ`.
fn sequence_argument<'a>(args: &mut Args<'a>) -> Result<Sequence<'a>, String> {
    Ok(Sequence {
        writer: args.bytes("writer", WRITER_BYTES)?,
        n: args.unsigned("sequence number", 1, i64::MAX as u64)?,
    })
}
