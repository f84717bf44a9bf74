//! Index and resource APIs over HTTP, over many archives at once.
//!
//! A [`Config`](config::Config) names collections. A collection has sources of index [rows](row::Row), which are
//! asked all at once or one step after the other, and loaders, which find the WARC record that a row is about.
//! [`serve`](server::serve) answers for all of them.
//!
//! | folder | what |
//! |---|---|
//! | [`config`] | the configuration file and its normal form |
//! | [`query`] | what a request asks for |
//! | [`row`] | a capture of an index |
//! | [`source`] [`sources`] | where rows come from |
//! | [`collection`] [`group`] [`merge`] | many sources as one |
//! | [`operations`] | filter, clamp, collapse, order, limit |
//! | [`net`] | requests to other servers, and where they may not go |
//! | [`resource`] | rows to WARC records |
//! | [`server`] | HTTP |

pub mod breaker;
pub mod collection;
pub mod config;
pub mod group;
pub mod merge;
pub mod net;
pub mod operations;
pub mod query;
pub mod resource;
pub mod row;
pub mod server;
pub mod source;
pub mod sources;
pub mod timestamp;
