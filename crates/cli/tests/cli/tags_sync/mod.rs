//! Tests `crawlspace tags sync` between a real PostgreSQL and a real Redis.

mod documented;
mod failures;
mod follow;
mod loads;
mod lock;
mod postgres;
mod readers;
mod refusals;
mod stage;
mod tls;
