//! A client of a server of indexes, which keeps what it gets.

mod hostile;
mod parcels;
mod requests;
