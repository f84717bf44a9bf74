//! `crawlspace serve`, asked over HTTP.

mod guide;
mod index_api;
mod requests;
mod resource;
mod slow_clients;
#[path = "../federation_pywb/stage.rs"]
mod stage;
