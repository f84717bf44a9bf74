//! Tests of the URLFrontier service with clients, on a real server with the module.

mod calls;
mod faults;
mod operators;
mod peers;
mod secure;
mod stage;
mod streams;
mod wire;
