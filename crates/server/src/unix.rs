//! A Unix socket beside the TCP addresses. Its file is there while the server listens.

use mio::net::UnixListener;
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why a Unix socket cannot be used.
#[derive(Debug)]
pub enum UnixSocketError {
    /// Something else has the name.
    NotASocket(PathBuf),
    /// Another process listens on it.
    InUse(PathBuf),
    /// The operating system refused.
    Failed(PathBuf, String),
}

impl fmt::Display for UnixSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnixSocketError::NotASocket(path) => {
                write!(f, "{} exists and is not a socket", path.display())
            }
            UnixSocketError::InUse(path) => {
                write!(f, "{} is in use by another process", path.display())
            }
            UnixSocketError::Failed(path, reason) => write!(f, "{}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for UnixSocketError {}

/// A Unix socket that listens. Its file is removed when it is dropped.
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Makes the socket, which only the user of this process can use. Replaces the file that a
    /// process left that ended without removing it.
    ///
    /// # Errors
    /// With `UnixSocketError` as its cause.
    pub(crate) fn bind(path: &Path) -> io::Result<UnixSocket> {
        let path = std::path::absolute(path)?;
        remove_leftover(&path).map_err(io::Error::other)?;
        let failed = |error: io::Error| {
            io::Error::other(UnixSocketError::Failed(path.clone(), error.to_string()))
        };
        let listener = UnixListener::bind(&path).map_err(failed)?;
        // From here on the file is removed whatever happens.
        let socket = UnixSocket { listener, path: path.clone() };
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(socket)
    }

    /// What `hello` returns to clients of the socket, if drivers understand it as its path: they
    /// take such an address in small letters, and know it by its end.
    pub(crate) fn address(&self) -> Option<String> {
        let path = self.path.to_str()?;
        let plain = path.ends_with(".sock") && !path.contains(char::is_uppercase);
        plain.then(|| path.to_owned())
    }
}

fn remove_leftover(path: &Path) -> Result<(), UnixSocketError> {
    let failed = |error: io::Error| UnixSocketError::Failed(path.to_owned(), error.to_string());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(UnixSocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // Nobody listens.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
        Ok(_) => Err(UnixSocketError::InUse(path.to_owned())),
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, file = %self.path.display(), "cannot remove the Unix socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_belongs_to_its_owner_and_goes_with_the_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("motif.sock");
        let socket = UnixSocket::bind(&path).expect("binds");
        assert_eq!(path.metadata().expect("is there").permissions().mode() & 0o777, 0o600);
        let again = UnixSocket::bind(&path).err().expect("is taken").to_string();
        assert!(again.contains("in use"), "{again}");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_leftover_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("motif.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
        assert!(path.exists(), "it stays when its process ends");
        drop(UnixSocket::bind(&path).expect("replaces it"));
        std::fs::write(&path, "x").expect("writes");
        let refused = UnixSocket::bind(&path).err().expect("is a file").to_string();
        assert!(refused.contains("not a socket"), "{refused}");
        assert!(path.exists());
    }
}
