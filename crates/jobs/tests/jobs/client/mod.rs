//! Tests the client of an index server and its cache.

mod hostile;
mod parcels;
mod requests;
