//! The server's certificate and key, and the authorities that it trusts, from PEM files.
//!
//! `Tls` holds the configuration of new connections; `reload` reads the files again and keeps the
//! old configuration if they are invalid. `secure` reads and writes encrypted connections.

use crate::key::{self, Password};
use access::x509::{Certificate, Name};
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Which connections are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Those of clients that ask for it. Others get plain connections.
    Allow,
    /// As `Allow`: they differ only between members of a cluster.
    Prefer,
    /// All; plain ones are closed.
    Require,
}

/// The files with the server's identity, and what it requires of clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsOptions {
    /// Which connections are encrypted.
    pub mode: TlsMode,
    /// PEM file with the server's certificate, intermediate certificates, and its key.
    pub certificate_key_file: PathBuf,
    /// The password of the key, if it has one.
    pub certificate_key_password: Option<Password>,
    /// PEM file with the authorities for client certificates. Without it clients are not asked for
    /// certificates.
    pub ca_file: Option<PathBuf>,
    /// PEM file with lists of certificates that were revoked.
    pub crl_file: Option<PathBuf>,
    /// Whether clients may come without a certificate although there is a `ca_file`.
    pub allow_connections_without_certificates: bool,
}

/// The error in a file, with its name.
#[derive(Debug)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// The configuration of encrypted connections.
pub struct Tls {
    options: TlsOptions,
    current: Mutex<Arc<Identity>>,
}

/// The content of the files when they were last read.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// The subject of the server's certificate.
    pub(crate) subject: Name,
    /// The last second of its validity.
    pub(crate) not_after: i64,
    /// Whether clients are asked for certificates.
    pub(crate) asks_clients: bool,
}

impl fmt::Debug for Tls {
    /// Keys stay out of logs.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(out)
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, is not what it should be, does not fit the others, or is expired.
    pub fn load(options: TlsOptions) -> Result<Tls, TlsError> {
        let identity = Identity::load(&options)?;
        Ok(Tls { options, current: Mutex::new(Arc::new(identity)) })
    }

    /// Reads the files again, for new connections. Invalid files change nothing.
    ///
    /// # Errors
    /// As `load`.
    pub fn reload(&self) -> Result<(), TlsError> {
        let identity = Arc::new(Identity::load(&self.options)?);
        *self.current.lock() = identity;
        Ok(())
    }

    pub(crate) fn mode(&self) -> TlsMode {
        self.options.mode
    }

    pub(crate) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.current.lock())
    }
}

impl Identity {
    fn load(options: &TlsOptions) -> Result<Identity, TlsError> {
        let path = &options.certificate_key_file;
        let bytes = read(path)?;
        let chain = certificates(path, &bytes)?;
        let password = options.certificate_key_password.as_ref();
        let key = key::read(&bytes, password).map_err(|error| wrong(path, error))?;
        let first = chain.first().and_then(|first| Certificate::parse(first));
        let own = first.ok_or_else(|| wrong(path, "its certificate cannot be understood"))?;
        if !own.is_valid_at(now()) {
            let what = if now() > own.not_after { "expired" } else { "not valid yet" };
            return Err(wrong(path, format!("the certificate of {} is {what}", own.subject)));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match &options.ca_file {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(ca_file) => verifier(options, ca_file, &provider)?,
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .map_err(|error| wrong(path, error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    wrong(path, "its private key does not belong to its certificate")
                }
                error => wrong(path, error),
            })?;
        Ok(Identity {
            config: Arc::new(config),
            subject: own.subject,
            not_after: own.not_after,
            asks_clients: options.ca_file.is_some(),
        })
    }
}

/// The verifier of client certificates.
fn verifier(
    options: &TlsOptions,
    ca_file: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca_file, &read(ca_file)?)? {
        roots.add(certificate).map_err(|error| wrong(ca_file, error))?;
    }
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if options.allow_connections_without_certificates {
        builder = builder.allow_unauthenticated();
    }
    if let Some(crl_file) = &options.crl_file {
        let bytes = read(crl_file)?;
        let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
            .collect::<Result<_, _>>()
            .map_err(|error| not_pem(crl_file, &error))?;
        if lists.is_empty() {
            return Err(wrong(crl_file, "it has no X509 CRL"));
        }
        // As MongoDB has it: a client's own certificate must be known not to be revoked.
        builder = builder.with_crls(lists).only_check_end_entity_revocation();
    }
    builder.build().map_err(|error| wrong(options.crl_file.as_deref().unwrap_or(ca_file), error))
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| not_pem(path, &error))?;
    if all.is_empty() { Err(wrong(path, "it has no CERTIFICATE")) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path)
        .map_err(|error| TlsError(format!("cannot read {}: {error}", path.display())))
}

fn not_pem(path: &Path, error: &pem::Error) -> TlsError {
    wrong(path, key::not_pem(error))
}

fn wrong(path: &Path, what: impl fmt::Display) -> TlsError {
    TlsError(format!("cannot use {}: {what}", path.display()))
}

/// Seconds since 1970.
fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}
