//! Regular expressions as MongoDB has them.

use value::{Error, Result};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: Box<str>,
    options: Box<str>,
}

impl Regex {
    /// Compiles a pattern with options out of `imsxu`.
    ///
    /// # Errors
    /// 51091 for a pattern that is no regular expression, 51108 for an unknown option.
    pub fn new(pattern: &str, options: &str) -> Result<Regex> {
        let _ = (pattern, options);
        Err(Error::internal("patterns are being built"))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as they were written.
    #[must_use]
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the pattern matches somewhere in the text.
    ///
    /// # Errors
    /// 51156 when the search takes too many steps.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        let _ = text;
        Err(Error::internal("patterns are being built"))
    }

    /// The first match at or after byte `start`: byte ranges of the whole match and of each group.
    ///
    /// # Errors
    /// 51156 when the search takes too many steps.
    pub fn captures_at(&self, text: &str, start: usize) -> Result<Option<Vec<Option<(usize, usize)>>>> {
        let _ = (text, start);
        Err(Error::internal("patterns are being built"))
    }

    /// The literal text with which every match begins, for a pattern anchored at the start.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        None
    }
}
