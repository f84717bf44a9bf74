//! Requests to other servers, and where they may not go.
//!
//! No address is connected to that is private, loopback or link-local, unless the configuration allows it; names are
//! resolved here, the addresses that were checked are the ones that are connected to, and every redirect is checked
//! again. Proxies of the environment are not used, since they would go wherever they like.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method};
use url::Url;

use super::config::Network;
use super::source::{Limits, SourceError};

mod guard;
mod names;

use names::Names;

/// The way to other servers, shared by everything that fetches.
pub struct Net {
    allow_private: Vec<Network>,
    names: Names,
}

/// A request to an index, or for a part of a file. Redirects are followed.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`.
    pub method: Method,
    /// An `http` or `https` URL.
    pub url: Url,
    /// Header fields besides those that every request has.
    pub headers: HeaderMap,
    /// The body of a `POST`.
    pub body: Bytes,
}

/// An answer whose head is there, and whose body is read as it comes.
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header.
    pub headers: HeaderMap,
    /// Where it came from after redirects.
    pub url: Url,
    /// The body, unpacked. It ends with an error when it breaks off, or when a limit on time or bytes is reached.
    pub body: BoxStream<'static, Result<Bytes, SourceError>>,
}

impl Net {
    /// A way to other servers, but for private addresses that are not allowed.
    ///
    /// # Errors
    /// When there is no TLS to be had, in words.
    pub fn new(allow_private: &[Network]) -> Result<Arc<Net>, String> {
        Ok(Arc::new(Net {
            allow_private: allow_private.to_vec(),
            names: Names::new(),
        }))
    }

    /// Whether that address may be connected to.
    pub fn permits(&self, address: IpAddr) -> bool {
        guard::permits(&self.allow_private, address)
    }

    /// The addresses of a host that may be connected to.
    ///
    /// # Errors
    /// When it has none, or none that may.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, SourceError> {
        let found = self.names.addresses(host).await;
        let found =
            found.map_err(|why| SourceError::Connection(format!("no address of {host}: {why}")))?;
        let permitted = found.iter().filter(|address| self.permits(**address));
        let permitted: Vec<_> = permitted
            .map(|address| SocketAddr::new(*address, port))
            .collect();
        match (permitted.is_empty(), found.first()) {
            (true, Some(address)) => Err(SourceError::Forbidden(format!(
                "{host} is at {address}, which is not a public address; `allow_private` in the configuration \
                 lists those that may be asked all the same"
            ))),
            _ => Ok(permitted),
        }
    }

    /// Sends a request, over a connection that was kept where there is one.
    ///
    /// # Errors
    /// When no head of an answer comes in time, whatever its status.
    pub async fn send(&self, request: Request, limits: &Limits) -> Result<Answer, SourceError> {
        let _ = (request, limits);
        unimplemented!()
    }
}
