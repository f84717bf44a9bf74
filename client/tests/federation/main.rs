//! `crawlspace serve`, asked over HTTP.

mod index_api;
mod requests;
mod resource;
#[path = "../federation_pywb/stage.rs"]
mod stage;
