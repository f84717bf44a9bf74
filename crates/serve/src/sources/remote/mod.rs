//! Sources on other servers: CDX servers, Memento archives, upstream servers, and the live web.
//!
//! | module | content |
//! |---|---|
//! | [`cdx`] [`memento`] [`upstream`] [`live`] | sources, with the queries that they send |
//! | [`pages`] [`rows`] | answers in several parts, and the order of their rows |
//! | [`translation`] | filters in the dialects of other servers |
//! | [`pieces`] [`claim`] | formats of rows |
//! | [`whitelist`] | validation of rows |
//! | [`template`] | URL templates |

mod cdx;
mod claim;
mod live;
mod memento;
mod pages;
mod pieces;
mod rows;
mod template;
mod translation;
mod upstream;
pub(crate) mod whitelist;

pub use cdx::CdxSource;
pub use live::LiveSource;
pub use memento::MementoSource;
pub use upstream::UpstreamSource;

#[cfg(test)]
mod tests;
