//! One HTTP/1.1 request and its answer, to the byte (RFC 9112).
//!
//! What is sent is what was asked for, in that order, bar what belongs to one connection alone. What comes back is the
//! header as it was received, and the body without its transfer coding. An answer that is not whole is an error: it
//! must not pass for one that is. Each exchange has a connection of its own. Redirects are answers like any other.

mod body;
mod dialogue;
mod outgoing;

use std::net::SocketAddr;

pub use self::body::Incoming;
pub use self::outgoing::{Body, Outgoing, Version, is_token};

use self::dialogue::{Dialogue, deadline};
use super::Net;
use crate::Error;
use crate::source::Limits;
use crawlspace_warc::http::{Head, Status};

/// An answer whose header is there, and whose body is read as it comes.
pub struct Exchange {
    /// The header.
    pub head: Head<Status>,
    /// The server that it came from.
    pub remote: SocketAddr,
    /// The body. Dropping it closes the connection.
    pub body: Incoming,
}

impl Net {
    /// Sends a request and waits for the header of its answer; interim answers (status 1xx) are skipped.
    ///
    /// The limits are those on the connection, on the wait for the header from when the request is sent, on silence,
    /// on the time that everything takes, and on the bytes of the body, as they are sent.
    ///
    /// # Errors
    /// [`Error::Request`] when the request cannot be sent; other errors when no answer comes, or one that
    /// is not HTTP/1.
    pub async fn exchange(&self, request: Outgoing, limits: &Limits) -> Result<Exchange, Error> {
        let until = deadline(limits.total);
        let head = request.head()?;
        let without_body = request.method == http::Method::HEAD;
        let (wire, remote) = self.connect(&request.url, limits.connect).await?;
        let mut dialogue = Dialogue::new(wire, head, request.body, until, limits);
        let head = dialogue.answer().await?;
        let body = Incoming::new(dialogue, &head, without_body)?;
        Ok(Exchange { head, remote, body })
    }
}
