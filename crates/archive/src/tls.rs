//! TLS with web servers, as the authorities of the system vouch for them.

use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// Reading the system's certificates takes milliseconds, and once is enough.
static WEB: OnceLock<Result<ClientConfig, String>> = OnceLock::new();

/// What connections to web servers are made with: certificates are verified, the client shows none. A certificate of
/// the system that cannot be read is skipped.
///
/// # Errors
/// When TLS cannot be set up; the text says why.
pub(crate) fn for_web() -> Result<ClientConfig, String> {
    let config = WEB.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(config)
    });
    config.clone()
}
