//! Files and folders that only their owner can read. Documents and credentials are in them.
//!
//! The library of the trees makes files with the rights that the process gives by default. The server
//! sets those to the owner's alone; for others the folder itself is closed.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// The rights of others than the owner.
const OTHERS: u32 = 0o077;

/// Creates a folder, and those above it that do not exist.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Options for opening a file; if they create it, only its owner can read it.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE);
    options
}

/// Creates a file, or empties it.
pub(crate) fn create_file(path: &Path) -> io::Result<fs::File> {
    options().write(true).create(true).truncate(true).open(path)
}

/// Whether others than the owner have any rights.
pub(crate) fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.mode() & OTHERS != 0)
}

/// Removes the permissions of others from a folder and everything in it. Returns how many files and
/// folders others could read, write or enter.
///
/// # Errors
/// When a folder cannot be read, or rights cannot be changed, for instance because somebody else
/// owns it.
pub(crate) fn tighten(path: &Path) -> io::Result<u64> {
    let metadata = path.symlink_metadata()?;
    // The rights of a link have no effect, and what it leads to may belong to somebody else.
    // File systems keep `lost+found` for themselves.
    if metadata.is_symlink() || path.file_name().is_some_and(|name| name == "lost+found") {
        return Ok(0);
    }
    let mut changed = 0;
    let mode = metadata.mode();
    if mode & OTHERS != 0 {
        let wanted = if metadata.is_dir() { FOLDER } else { FILE };
        fs::set_permissions(path, Permissions::from_mode(wanted))?;
        changed += 1;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            changed += tighten(&entry?.path())?;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("is there").mode() & 0o777
    }

    #[test]
    fn what_is_made_belongs_to_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        create_folder(&inner).expect("makes");
        create_file(&inner.join("file")).expect("makes");
        assert_eq!([mode(&inner), mode(&inner.join("file"))], [0o700, 0o600]);
    }

    #[test]
    fn open_folders_are_closed_and_links_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::NamedTempFile::new().expect("a file");
        fs::set_permissions(outside.path(), Permissions::from_mode(0o644)).expect("changes");
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("log")).expect("makes");
        fs::write(data.join("log/file"), b"x").expect("writes");
        std::os::unix::fs::symlink(outside.path(), data.join("link")).expect("makes");
        fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("changes");
        fs::set_permissions(data.join("log"), Permissions::from_mode(0o750)).expect("changes");
        fs::set_permissions(data.join("log/file"), Permissions::from_mode(0o644)).expect("changes");
        assert_eq!(tighten(&data).expect("works"), 3);
        let modes = ["", "log", "log/file"].map(|name| mode(&data.join(name)));
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        assert_eq!(mode(outside.path()), 0o644);
        assert_eq!(tighten(&data).expect("works"), 0);
    }
}
