//! Sources on other servers: CDX servers, Memento archives, servers of our own kind, and the live web.
//!
//! | file | what |
//! |---|---|
//! | [`cdx`] [`memento`] [`upstream`] [`live`] | the sources, and what each asks |
//! | [`pages`] [`rows`] | an answer of many parts, as rows, and their order |
//! | [`translation`] | filters in the words of other servers |
//! | [`pieces`] [`claim`] | the forms in which rows are written |
//! | [`whitelist`] | what is believed of them |
//! | [`template`] | URLs with places for values |

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
mod whitelist;

pub use cdx::CdxSource;
pub use live::LiveSource;
pub use memento::MementoSource;
pub use upstream::UpstreamSource;

#[cfg(test)]
mod tests;
