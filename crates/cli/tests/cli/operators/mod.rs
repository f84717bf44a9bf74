//! Tests the operators' command line against a live server.

mod chg;
mod config;
mod dedupe;
mod ends;
mod guide;
mod installed;
mod monitoring;
mod packing;
mod restarts;
mod stage;
mod terminals;
mod wacz;
