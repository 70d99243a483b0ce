//! Positions in a text: characters around them, newlines, repetitions.

use super::syntax::Lines;

#[inline]
pub(super) fn char_at(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        Some(_) => text.get(at..)?.chars().next(),
        None => None,
    }
}

#[inline]
pub(super) fn char_before(text: &str, at: usize) -> Option<char> {
    match at.checked_sub(1).and_then(|before| text.as_bytes().get(before)) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        Some(_) => text.get(..at)?.chars().next_back(),
        None => None,
    }
}

/// The position a number of characters before.
pub(super) fn back(text: &str, count: usize, at: usize) -> Option<usize> {
    let mut place = at;
    for _ in 0..count {
        place -= char_before(text, place)?.len_utf8();
    }
    Some(place)
}

/// The end of the newline at a position.
pub(super) fn line_end(lines: Lines, text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    match lines {
        Lines::Lf => rest.starts_with('\n').then_some(at + 1),
        Lines::Cr => rest.starts_with('\r').then_some(at + 1),
        Lines::CrLf => rest.starts_with("\r\n").then_some(at + 2),
        Lines::AnyCrLf => newline(text, at, true),
        Lines::Any => newline(text, at, false),
    }
}

/// Whether a newline ends at a position.
pub(super) fn is_after_line(lines: Lines, text: &str, at: usize) -> bool {
    let Some(before) = text.get(..at) else { return false };
    match lines {
        Lines::Lf => before.ends_with('\n'),
        Lines::Cr => before.ends_with('\r'),
        Lines::CrLf => before.ends_with("\r\n"),
        Lines::AnyCrLf | Lines::Any => {
            let ascii = lines == Lines::AnyCrLf;
            // A CR ends a line here even if LF follows.
            let last = before.chars().next_back().map(char::len_utf8);
            last.is_some_and(|length| newline(before, at - length, ascii).is_some())
        }
    }
}

/// The end of `\R` at a position.
pub(super) fn newline(text: &str, at: usize, ascii: bool) -> Option<usize> {
    match char_at(text, at)? {
        '\r' if text.as_bytes().get(at + 1) == Some(&b'\n') => Some(at + 2),
        '\r' | '\n' => Some(at + 1),
        '\x0B' | '\x0C' if !ascii => Some(at + 1),
        other @ ('\u{85}' | '\u{2028}' | '\u{2029}') if !ascii => Some(at + other.len_utf8()),
        _ => None,
    }
}

/// The end of a repetition of `part` at a position of the text.
pub(super) fn repeated(text: &str, at: usize, part: &str, folded: bool) -> Option<usize> {
    if !folded {
        return text.get(at..)?.starts_with(part).then(|| at + part.len());
    }
    let mut place = at;
    for wanted in part.chars() {
        let found = char_at(text, place)?;
        let same = found == wanted
            || found.eq_ignore_ascii_case(&wanted)
            || (!(found.is_ascii() && wanted.is_ascii())
                && (found.to_lowercase().eq(wanted.to_lowercase())
                    || found.to_uppercase().eq(wanted.to_uppercase())));
        if !same {
            return None;
        }
        place += found.len_utf8();
    }
    Some(place)
}
