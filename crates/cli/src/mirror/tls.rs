//! TLS for connections to PostgreSQL: the trusted certificates.

use std::path::Path;
use std::sync::Arc;

use postgres::config::SslMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Error;

/// Creates the connector for TLS. With `require`, or with a certificate authority given by the user, the server must
/// prove that it is the requested host. With `prefer`, an attacker who can impersonate the server could also claim that
/// it has no TLS, so the certificate is not verified, as in libpq.
pub(super) fn connector(mode: SslMode, ca: Option<&Path>) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Setting(format!("TLS: {error}")))?;
    let config = if mode == SslMode::Require || ca.is_some() {
        let roots = roots(mode, ca)?;
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Returns the certificate authorities of the system and of a file.
fn roots(mode: SslMode, ca: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(ca) = ca {
        let failed = |reason: String| Error::Setting(format!("{}: {reason}", ca.display()));
        let before = roots.len();
        for certificate in
            CertificateDer::pem_file_iter(ca).map_err(|error| failed(error.to_string()))?
        {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| failed(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(failed("it contains no certificate".to_owned()));
        }
    }
    if roots.is_empty() && mode == SslMode::Require {
        return Err(Error::Setting(
            "sslmode=require: the system has no CA certificates; pass a file with --postgres-ca"
                .to_owned(),
        ));
    }
    Ok(roots)
}

/// Accepts every certificate, but verifies that the server holds its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
