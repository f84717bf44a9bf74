//! Reaching a server: one definition of each command, several ways to send it.
//!
//! A [`Call`] is a command with the type of its reply. Whatever takes calls is an [`Ask`]: a [`Server`], which
//! blocks, an [`AsyncServer`], whose answers are futures, or a [`Batch`], which sends many calls at once. The
//! families of commands ([`Index`](crate::dedupe::Index), [`Frontier`](crate::frontier::Frontier),
//! [`TagSpace`](crate::tags::TagSpace)) work over any of them.

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
