//! Checks of field paths in sorts, projections and stages.

use value::{Code, Error, Result};

/// Most parts that a path may have.
const PARTS_MAX: usize = 200;

/// Checks a dotted path.
///
/// # Errors
/// 40352, 40353, 15998, 16410 or `Overflow`, as MongoDB gives them.
pub fn check(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::new(Code(40352), "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(Error::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    path.split('.').try_for_each(check_part)?;
    if path.split('.').count() > PARTS_MAX {
        return Err(Error::new(Code::OVERFLOW, "FieldPath is too long"));
    }
    Ok(())
}

/// Whether this is a name with a dollar that a path may have: the parts of a DBRef.
pub(crate) fn is_reference_part(name: &str) -> bool {
    matches!(name, "$id" | "$ref" | "$db")
}

/// Checks one part of a path.
///
/// # Errors
/// 15998 if it is empty, 16410 if it begins with a dollar and is no part of a DBRef.
pub(crate) fn check_part(part: &str) -> Result<()> {
    if part.is_empty() {
        return Err(Error::new(Code(15998), "FieldPath field names may not be empty strings."));
    }
    if part.starts_with('$') && !is_reference_part(part) {
        return Err(Error::new(
            Code(16410),
            "FieldPath field names may not start with '$'. Consider using $getField or $setField.",
        ));
    }
    Ok(())
}
