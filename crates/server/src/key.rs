//! The server's private key from a PEM file, with or without a password.
//!
//! With a password it is in the form of PKCS #8 (`ENCRYPTED PRIVATE KEY`), which OpenSSL writes.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::SecretDocument;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;

const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// A password; its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Keeps a password.
    #[must_use]
    pub fn new(password: String) -> Password {
        Password(password)
    }
}

impl fmt::Debug for Password {
    /// Passwords stay out of logs.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<password>")
    }
}

/// The key in a PEM file.
///
/// # Errors
/// A sentence about the file, if it has none or the password does not fit.
pub(crate) fn read(
    file: &[u8],
    password: Option<&Password>,
) -> Result<PrivateKeyDer<'static>, String> {
    if let (Some(section), Some(password)) = (encrypted_section(file), password) {
        return decrypt(section, password);
    }
    PrivateKeyDer::from_pem_slice(file).map_err(|error| match error {
        pem::Error::NoItemsFound if encrypted_section(file).is_some() => {
            "its private key is encrypted; --tls-certificate-key-file-password gives the password"
                .to_owned()
        }
        pem::Error::NoItemsFound => {
            "it has no PRIVATE KEY; certificate and key stand in one file".to_owned()
        }
        error => not_pem(&error),
    })
}

/// The error for a file with other content.
pub(crate) fn not_pem(error: &pem::Error) -> String {
    format!("it is not a PEM file: {error}")
}

/// The part of a file that has a key with a password.
fn encrypted_section(file: &[u8]) -> Option<&str> {
    // There may be comments in any encoding around the sections; the sections are ASCII.
    let find = |mark: &str| file.windows(mark.len()).position(|part| part == mark.as_bytes());
    let (begin, end) = (find(BEGIN)?, find(END)?.checked_add(END.len())?);
    std::str::from_utf8(file.get(begin..end)?).ok()
}

fn decrypt(section: &str, password: &Password) -> Result<PrivateKeyDer<'static>, String> {
    let broken = |error: &dyn fmt::Display| format!("its encrypted private key is broken: {error}");
    let (_, sealed) = SecretDocument::from_pem(section).map_err(|error| broken(&error))?;
    let sealed =
        EncryptedPrivateKeyInfoRef::try_from(sealed.as_bytes()).map_err(|error| broken(&error))?;
    let key = sealed
        .decrypt(&password.0)
        .map_err(|error| format!("its private key does not open with this password: {error}"))?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}
