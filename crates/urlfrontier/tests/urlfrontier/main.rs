//! Tests of the URLFrontier service with clients, on a real server with the module.

mod calls;
mod faults;
mod operators;
mod peers;
mod stage;
mod streams;
mod wire;
