//! `crawlspace serve`, asked over HTTP.

mod access;
mod as_pywb;
mod chain;
mod disclosure;
mod failures;
mod guide;
mod hostile;
mod index_api;
mod loaders;
mod memento;
mod page;
mod records;
mod replay;
mod requests;
mod resource;
mod revisits;
mod shelf;
mod slow_clients;
#[path = "../federation_pywb/stage.rs"]
mod stage;
#[path = "../../../serve/tests/federation_live/stub.rs"]
#[allow(dead_code)] // one test here needs a part of it
mod stub;
mod wabac;
mod wget;
