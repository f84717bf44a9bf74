//! Connections to servers: each command is defined once and can be sent in several ways.
//!
//! A [`Call`] is a command with the type of its reply. Types that send calls implement [`Ask`]: a
//! [`Server`] blocks, an [`AsyncServer`] returns futures, and a [`Batch`] sends many calls at once.
//! The command families ([`Index`](crate::dedupe::Index), [`Frontier`](crate::frontier::Frontier),
//! [`TagSpace`](crate::tags::TagSpace)) work with all of them.

mod ask;
mod asynchronous;
mod batch;
mod blocking;
mod call;
mod code;
mod error;
mod exchange;
mod options;
pub(crate) mod slot;
#[cfg(feature = "tls")]
mod tls;
mod topology;

pub use self::ask::{Ask, Steps};
pub use self::asynchronous::{Answer, AsyncServer};
pub use self::batch::{Batch, Pending};
pub use self::blocking::Server;
pub use self::call::{Call, Unsent};
pub use self::code::Code;
pub use self::error::Error;
pub use self::options::Options;
pub(crate) use self::options::TIMEOUT;
pub use self::options::without_password;
pub use crawlspace_retry::Backoff;
