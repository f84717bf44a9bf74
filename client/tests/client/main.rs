//! The client against real servers: one, a cluster, and many shards.

mod guide;
mod server;
mod sharded;
