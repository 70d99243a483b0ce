//! Write permission: fields that patterns maintain belong to the database.

use crate::maintain::CollectionPatterns;
use crate::paths::is_within;
use value::{Code, Error, Result};

/// Refuses operators that name a maintained path or one below it. Numbers and `$` in paths mean
/// elements of arrays.
///
/// # Errors
/// PatternViolation.
pub fn check(bound: &CollectionPatterns, named: &[String]) -> Result<()> {
    for pattern in &bound.targets {
        if !pattern.is_maintained() || pattern.common.ignore_client_writes {
            continue;
        }
        for maintained in pattern.maintains() {
            let hit = named.iter().find(|path| {
                is_within(path, &maintained) || is_within(&without_positions(path), &maintained)
            });
            if let Some(path) = hit {
                return Err(Error::new(
                    Code::PATTERN_VIOLATION,
                    format!("'{path}' is maintained by the pattern '{}'", pattern.name),
                ));
            }
        }
    }
    Ok(())
}

fn without_positions(path: &str) -> String {
    let is_position = |part: &&str| {
        part.starts_with('$') || (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    path.split('.').filter(|part| !is_position(part)).collect::<Vec<_>>().join(".")
}
