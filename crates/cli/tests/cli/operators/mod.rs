//! Tests the operators' command line against a live server.

mod chg;
mod config;
mod copying;
mod dedupe;
mod ends;
mod guide;
mod installed;
mod monitoring;
mod packing;
mod restarts;
mod sharded;
mod stage;
mod terminals;
mod wacz;
