//! HTTP/1.1 requests and their responses, byte for byte (RFC 9112).
//!
//! The request is sent exactly as given, with its fields in the given order, except for the fields that belong to a
//! single connection. The response has its header as received, and its body without the transfer coding. An incomplete
//! response is an error, so that it is never mistaken for a complete response. Each exchange uses a separate
//! connection. Redirects are returned like any other response.

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

/// A response whose header has been received and whose body is read as it arrives.
pub struct Exchange {
    /// The header.
    pub head: Head<Status>,
    /// The address of the server.
    pub remote: SocketAddr,
    /// The body. Dropping the body closes the connection.
    pub body: Incoming,
}

impl Net {
    /// Sends a request and waits for the header of its response; interim responses (status 1xx) are skipped.
    ///
    /// There are limits for the time to connect, the time from the end of the request to the header, the time
    /// without data, the time of the whole exchange, and the number of body bytes before decoding.
    ///
    /// # Errors
    /// [`Error::Request`] if the request cannot be sent; other errors if there is no response, or one that is not
    /// HTTP/1.
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
