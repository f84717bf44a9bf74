//! TLS connections: `rediss://`.

use std::path::{Path, PathBuf};

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError, TlsCertificates,
};
use rustls::crypto::{CryptoProvider, ring};

/// Trusted certificate authorities and the client certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    /// File of CA certificates, which are trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// Files of the client certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Applies the TLS settings to a connection, if it uses TLS.
    pub fn apply(&self, to: ConnectionInfo) -> Result<ConnectionInfo, RedisError> {
        if !matches!(to.addr(), ConnectionAddr::TcpTls { .. }) {
            if self.ca.is_some() || self.client.is_some() {
                return Err((
                    ErrorKind::InvalidClientConfig,
                    "certificates need a URL that begins with rediss://",
                )
                    .into());
            }
            return Ok(to);
        }
        // The `redis` crate uses the default crypto provider of the process. If the program has
        // already chosen a provider, keep it.
        if CryptoProvider::get_default().is_none() {
            // Another thread may have installed a provider first.
            let _ = ring::default_provider().install_default();
        }
        if self.ca.is_none() && self.client.is_none() {
            return Ok(to);
        }
        let client_tls = match &self.client {
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: read(certificate)?,
                client_key: read(key)?,
            }),
            None => None,
        };
        let certificates = TlsCertificates {
            client_tls,
            root_cert: self.ca.as_deref().map(read).transpose()?,
        };
        let client = Client::build_with_tls(to, certificates)?;
        Ok(client.get_connection_info().clone())
    }
}

fn read(file: &Path) -> Result<Vec<u8>, RedisError> {
    std::fs::read(file).map_err(|error| {
        (
            ErrorKind::InvalidClientConfig,
            "a certificate cannot be read",
            format!("{}: {error}", file.display()),
        )
            .into()
    })
}
