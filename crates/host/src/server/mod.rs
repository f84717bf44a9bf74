//! Code that calls the server: the module API, keys, replies, blocked clients, jobs in slices.
//!
//! The command families use only this layer to reach the server.

pub mod acl;
pub mod alarm;
pub mod allocator;
pub mod api;
pub mod blocked;
mod call_reply;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod config;
mod event;
mod facts;
pub mod filter;
pub mod guard;
mod include;
pub mod info;
pub mod instead;
pub mod job;
pub mod keyspace;
pub mod line;
pub mod load;
pub mod main_thread;
pub mod metric;
pub mod native;
pub mod notify;
pub mod registry;
pub mod replication;
pub mod reply;
pub mod scope;
pub mod turn;
pub mod worker;
