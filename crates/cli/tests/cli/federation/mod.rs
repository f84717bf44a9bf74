//! `crawlspace serve`, asked over HTTP.

mod access;
mod as_pywb;
mod cdx_dialect;
mod chain;
mod dedupe_urls;
mod disclosure;
mod doppelganger;
mod endurance;
mod failures;
mod guide;
mod hostile;
mod index_api;
mod loaders;
mod memento;
pub(crate) mod outback;
mod packages;
mod page;
mod records;
mod replay;
mod requests;
mod resource;
mod revisits;
pub(crate) mod shelf;
mod slow_clients;
mod wabac;
mod wget;
