//! `crawlspace serve`, asked over HTTP.

mod index_api;
mod requests;
#[path = "../federation_pywb/stage.rs"]
mod stage;
