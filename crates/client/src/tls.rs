//! An encrypted connection to a server, and the authorities that this client trusts.

use crate::uri::TlsTarget;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use value::{Code, Error, Result};

/// A socket with TLS on it.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// The usual files of the system's trusted authorities.
const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Performs the TLS handshake.
///
/// # Errors
/// `FailedToParse` for files that are wrong, `SSLHandshakeFailed` when the ends do not agree.
pub(crate) fn encrypt(stream: TcpStream, host: &str, target: &TlsTarget) -> Result<TlsStream> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::failed_to_parse(format!("`{host}` cannot be in a certificate")))?;
    let session = ClientConnection::new(Arc::new(config(target)?), name).map_err(|e| failed(&e))?;
    let mut stream = TlsStream::new(session, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| failed(&error))?;
    }
    Ok(stream)
}

fn failed(cause: &dyn std::fmt::Display) -> Error {
    Error::new(Code::SSL_HANDSHAKE_FAILED, format!("TLS handshake: {cause}"))
}

fn config(target: &TlsTarget) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .map_err(|error| failed(&error))?;
    let builder = if target.allow_invalid_certificates {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    } else {
        builder.with_root_certificates(authorities(target.ca_file.as_deref())?)
    };
    let Some(file) = &target.certificate_key_file else {
        return Ok(builder.with_no_client_auth());
    };
    let bytes = read(file)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(file, &error))?;
    builder
        .with_client_auth_cert(certificates(file, &bytes)?, key)
        .map_err(|error| wrong(file, &error))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        for certificate in certificates(file, &read(file)?)? {
            roots.add(certificate).map_err(|error| wrong(file, &error))?;
        }
        return Ok(roots);
    }
    let Some(file) = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|file| file.exists()) else {
        return Err(Error::failed_to_parse("this system names no authorities: give tlsCAFile"));
    };
    // Some certificates of a system may not be supported by the library.
    roots.add_parsable_certificates(certificates(file, &read(file)?)?);
    Ok(roots)
}

fn certificates(file: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| wrong(file, &error))?;
    if all.is_empty() { Err(wrong(file, &"it has no CERTIFICATE")) } else { Ok(all) }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| wrong(file, &error))
}

fn wrong(file: &Path, cause: &dyn std::fmt::Display) -> Error {
    Error::failed_to_parse(format!("cannot use {}: {cause}", file.display()))
}

/// Accepts every certificate, as `tlsAllowInvalidCertificates` asks; what is signed must still be
/// signed by the key of that certificate.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
