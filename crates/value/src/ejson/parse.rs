//! The reader: JSON with Extended JSON's wrapper objects, and what MongoDB's shell allows beyond
//! (unquoted names, single quotes, trailing commas, comments, `/regex/`, constructor calls).
//!
//! Values are written as BSON while they are read; nothing in between is allocated.

use super::{OwnedVal, construct, wrapper};
use crate::writer::{close, open, write_index, write_value};
use crate::{DocBuf, Error, RawDoc, Result, Val};

/// Deepest nesting that is read.
pub const DEPTH_LIMIT: usize = 250;

/// Which notation a text is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// JSON syntax; objects with a wrapper's key must be proper wrappers.
    Json,
    /// The shell's notation; objects become wrapped values only where they have exactly the
    /// shape, so that query documents stay as they are.
    Shell,
}

/// Reads values from a text, one after another.
pub struct Parser<'a> {
    text: &'a str,
    at: usize,
    mode: Mode,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Begins at the start of a text.
    #[must_use]
    pub fn new(text: &'a str, mode: Mode) -> Parser<'a> {
        Parser { text, at: 0, mode, depth: 0 }
    }

    /// Reads one value.
    ///
    /// # Errors
    /// `FailedToParse` with line and column.
    pub fn value(&mut self) -> Result<OwnedVal> {
        let mut bytes = Vec::new();
        let kind = self.write_next(&mut bytes)?;
        Ok(OwnedVal::from_raw(kind, &bytes))
    }

    /// Reads one value that must be a document.
    ///
    /// # Errors
    /// `FailedToParse` with line and column.
    pub fn doc(&mut self) -> Result<DocBuf> {
        self.skip_space()?;
        let start = self.at;
        let mut bytes = Vec::with_capacity(128);
        if self.write_next(&mut bytes)? != 0x03 {
            self.at = start;
            return Err(self.error("expected a document"));
        }
        Ok(DocBuf::from_bytes(bytes))
    }

    /// Reads the next document, if the text does not end before: for files with many.
    ///
    /// # Errors
    /// `FailedToParse` with line and column.
    pub fn next_doc(&mut self) -> Result<Option<DocBuf>> {
        if self.at_end()? { Ok(None) } else { self.doc().map(Some) }
    }

    /// Reads the next value, if the text does not end before.
    ///
    /// # Errors
    /// `FailedToParse` with line and column.
    pub fn next_value(&mut self) -> Result<Option<OwnedVal>> {
        if self.at_end()? { Ok(None) } else { self.value().map(Some) }
    }

    /// Whether nothing but space and comments is left.
    ///
    /// # Errors
    /// `FailedToParse` for a comment without end.
    pub fn at_end(&mut self) -> Result<bool> {
        self.skip_space()?;
        Ok(self.peek().is_none())
    }

    /// Makes sure that nothing but space and comments is left.
    ///
    /// # Errors
    /// `FailedToParse` with line and column of what is there.
    pub fn end(&mut self) -> Result<()> {
        if self.at_end()? { Ok(()) } else { Err(self.error("expected the end of the text")) }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Moves to a byte position, for callers that read parts of the text themselves. One inside
    /// a character or beyond the end is taken as the end.
    pub fn seek(&mut self, offset: usize) {
        self.at = if self.text.is_char_boundary(offset) { offset } else { self.text.len() };
    }

    /// What is left of the text.
    #[must_use]
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Line and column of the current position, both from 1.
    #[must_use]
    pub fn position(&self) -> (usize, usize) {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        (line, before.get(line_start..).unwrap_or("").chars().count() + 1)
    }

    #[cold]
    pub(super) fn error(&self, message: impl std::fmt::Display) -> Error {
        let (line, column) = self.position();
        Error::failed_to_parse(format!("{message} at line {line}, column {column}"))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.skip_space()?;
        if self.take(byte) {
            return Ok(());
        }
        Err(self.error(format!("expected '{}'", char::from(byte))))
    }

    pub(super) fn skip_space(&mut self) -> Result<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') if self.mode == Mode::Shell && self.rest().starts_with("//") => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                Some(b'/') if self.mode == Mode::Shell && self.rest().starts_with("/*") => {
                    let Some(length) = self.rest().find("*/") else {
                        return Err(self.error("a comment has no end"));
                    };
                    self.at += length + 2;
                }
                // Spaces beyond ASCII, and the mark some editors put at the start of files.
                Some(0x80..) => match self.rest().chars().next() {
                    Some(c) if c.is_whitespace() || c == '\u{FEFF}' => self.at += c.len_utf8(),
                    _ => return Ok(()),
                },
                _ => return Ok(()),
            }
        }
    }

    /// Reads a value and appends its bytes; gives its type.
    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        self.skip_space()?;
        match self.peek() {
            Some(b'{') => self.nested(out, Self::object),
            Some(b'[') => self.nested(out, Self::array),
            Some(b'"') => self.string(out),
            Some(b'\'') if self.mode == Mode::Shell => self.string(out),
            Some(b'/') if self.mode == Mode::Shell => self.regex(out),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(out),
            Some(b) if b.is_ascii_alphabetic() || b == b'_' || b == b'$' => self.word(out),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("expected a value but the text ended")),
        }
    }

    fn nested(
        &mut self,
        out: &mut Vec<u8>,
        read: fn(&mut Self, &mut Vec<u8>) -> Result<u8>,
    ) -> Result<u8> {
        if self.depth >= DEPTH_LIMIT {
            return Err(self.error(format!("nested deeper than {DEPTH_LIMIT}")));
        }
        self.depth += 1;
        let kind = read(self, out);
        self.depth -= 1;
        kind
    }

    fn object(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        let begin = self.at;
        self.at += 1;
        let start = open(out);
        let mut wrapper_like = false;
        self.skip_space()?;
        let mut first = true;
        while !self.take(b'}') {
            if !first {
                self.expect(b',')?;
                self.skip_space()?;
                if self.mode == Mode::Shell && self.take(b'}') {
                    break;
                }
            }
            let kind_at = out.len();
            out.push(0);
            let name = self.name()?;
            wrapper_like |= first && name.starts_with('$');
            out.extend_from_slice(name.as_bytes());
            out.push(0);
            self.expect(b':')?;
            let kind = self.write_next(out)?;
            if let Some(slot) = out.get_mut(kind_at) {
                *slot = kind;
            }
            self.skip_space()?;
            first = false;
        }
        close(out, start);
        if wrapper_like {
            let replaced = wrapper::unwrap(RawDoc::new(out.get(start..).unwrap_or(&[])), self.mode)
                .map_err(|message| {
                    Parser { text: self.text, at: begin, mode: self.mode, depth: 0 }.error(message)
                })?;
            if let Some(value) = replaced {
                out.truncate(start);
                write_value(out, value.get());
                return Ok(value.get().kind() as u8);
            }
        }
        Ok(0x03)
    }

    fn array(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        self.at += 1;
        let start = open(out);
        self.skip_space()?;
        let mut next = 0;
        while !self.take(b']') {
            if next > 0 {
                self.expect(b',')?;
                self.skip_space()?;
                if self.mode == Mode::Shell && self.take(b']') {
                    break;
                }
            }
            let kind_at = out.len();
            out.push(0);
            write_index(out, next);
            out.push(0);
            let kind = self.write_next(out)?;
            if let Some(slot) = out.get_mut(kind_at) {
                *slot = kind;
            }
            self.skip_space()?;
            next += 1;
        }
        close(out, start);
        Ok(0x04)
    }

    /// A member's name, quoted or (in the shell) bare.
    fn name(&mut self) -> Result<String> {
        self.skip_space()?;
        let name = match self.peek() {
            Some(b'"') => self.quoted()?,
            Some(b'\'') if self.mode == Mode::Shell => self.quoted()?,
            _ if self.mode == Mode::Shell => self.bare_name().to_owned(),
            _ => return Err(self.error("expected a name in quotes")),
        };
        if name.contains('\0') {
            return Err(self.error("a name may not contain a zero byte"));
        }
        // The empty name is fine in quotes only.
        if name.is_empty()
            && !matches!(self.text.as_bytes().get(self.at.wrapping_sub(1)), Some(b'"' | b'\''))
        {
            return Err(self.error("expected a name"));
        }
        Ok(name)
    }

    fn bare_name(&mut self) -> &'a str {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
            .unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or("")
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        let text = self.quoted()?;
        write_value(out, Val::String(&text));
        Ok(0x02)
    }

    /// A text in quotes of either kind.
    pub(super) fn quoted(&mut self) -> Result<String> {
        let start = self.at;
        let Some(quote) = self.peek() else { return Err(self.error("expected a string")) };
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let plain = rest
                .bytes()
                .position(|b| b == quote || b == b'\\' || b < 0x20)
                .unwrap_or(rest.len());
            text.push_str(rest.get(..plain).unwrap_or(""));
            self.at += plain;
            match self.peek() {
                Some(b) if b == quote => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut text)?;
                }
                Some(_) => return Err(self.error("a string holds an unescaped control character")),
                None => {
                    self.at = start;
                    return Err(self.error("a string has no end"));
                }
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<()> {
        let Some(letter) = self.rest().chars().next() else {
            return Err(self.error("a string has no end"));
        };
        self.at += letter.len_utf8();
        text.push(match letter {
            '"' | '\\' | '/' => letter,
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unicode_escape()?,
            '\'' | '`' if self.mode == Mode::Shell => letter,
            'v' if self.mode == Mode::Shell => '\u{B}',
            '0' if self.mode == Mode::Shell => '\0',
            'x' if self.mode == Mode::Shell => char::from(self.hex(2)? as u8),
            _ => return Err(self.error("a string holds an unknown escape")),
        });
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let mut code = self.hex(4)?;
        if (0xD800..0xDC00).contains(&code) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.hex(4)?;
            if !(0xDC00..0xE000).contains(&low) {
                return Err(self.error("a string holds half a surrogate pair"));
            }
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        char::from_u32(code).ok_or_else(|| self.error("a string holds half a surrogate pair"))
    }

    fn hex(&mut self, count: usize) -> Result<u32> {
        let digits = self
            .rest()
            .get(..count)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("expected hexadecimal digits"))?;
        self.at += count;
        Ok(digits)
    }

    fn regex(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        let start = self.at;
        self.at += 1;
        let (mut escaped, mut class) = (false, false);
        let rest = self.rest();
        let end = rest.char_indices().find_map(|(at, c)| {
            let closes = c == '/' && !escaped && !class;
            class = (class || (c == '[' && !escaped)) && (c != ']' || escaped);
            escaped = c == '\\' && !escaped;
            (closes || c == '\n').then_some((at, closes))
        });
        let Some((length, true)) = end else {
            self.at = start;
            return Err(self.error("a regular expression has no end"));
        };
        let pattern = rest.get(..length).unwrap_or("");
        self.at += length + 1;
        let mut options: Vec<char> = self.bare_name().chars().collect();
        options.sort_unstable();
        let options: String = options.into_iter().collect();
        if pattern.contains('\0') {
            return Err(self.error("a regular expression may not contain a zero byte"));
        }
        write_value(out, Val::Regex(pattern, &options));
        Ok(0x0B)
    }

    fn number(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        let rest = self.rest();
        let digits_at = usize::from(rest.starts_with(['-', '+']));
        if self.mode == Mode::Shell
            && rest.get(digits_at..).is_some_and(|r| r.starts_with("Infinity"))
        {
            let sign = if rest.starts_with('-') { -1.0 } else { 1.0 };
            self.at += digits_at + "Infinity".len();
            write_value(out, Val::Double(sign * f64::INFINITY));
            return Ok(0x01);
        }
        let length = number_length(rest);
        let literal = rest.get(..length).unwrap_or("");
        let value = read_number(literal, self.mode);
        let Some(value) = value else { return Err(self.error("this is not a number")) };
        self.at += length;
        write_value(out, value);
        Ok(value.kind() as u8)
    }

    /// A word of JSON or, in the shell, a constant or a call.
    fn word(&mut self, out: &mut Vec<u8>) -> Result<u8> {
        let start = self.at;
        let mut word = self.bare_name();
        if self.mode == Mode::Shell && word == "new" {
            self.skip_space()?;
            word = self.bare_name();
        }
        let value = match word {
            "true" => OwnedVal::new(Val::Bool(true)),
            "false" => OwnedVal::new(Val::Bool(false)),
            "null" => OwnedVal::new(Val::Null),
            _ if self.mode == Mode::Shell => {
                let arguments = self.arguments()?;
                match construct::construct(word, arguments.as_deref()) {
                    Ok(value) => value,
                    Err(message) => {
                        self.at = start;
                        return Err(self.error(message));
                    }
                }
            }
            _ => {
                self.at = start;
                return Err(self.error("expected a value"));
            }
        };
        write_value(out, value.get());
        Ok(value.get().kind() as u8)
    }

    /// The arguments of a call, if there are parentheses.
    fn arguments(&mut self) -> Result<Option<Vec<OwnedVal>>> {
        self.skip_space()?;
        if !self.take(b'(') {
            return Ok(None);
        }
        if self.depth >= DEPTH_LIMIT {
            return Err(self.error(format!("nested deeper than {DEPTH_LIMIT}")));
        }
        self.depth += 1;
        let mut arguments = Vec::new();
        self.skip_space()?;
        while !self.take(b')') {
            if !arguments.is_empty() {
                self.expect(b',')?;
            }
            arguments.push(self.value()?);
            self.skip_space()?;
        }
        self.depth -= 1;
        Ok(Some(arguments))
    }
}

/// How many bytes of the text can belong to a number.
fn number_length(text: &str) -> usize {
    let mut before = 0;
    text.bytes()
        .position(|b| {
            let sign = matches!(b, b'-' | b'+') && matches!(before, 0 | b'e' | b'E');
            before = b;
            !(sign || b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'$'))
        })
        .unwrap_or(text.len())
}

/// A number literal: whole ones become the smallest integer type that holds them.
fn read_number(literal: &str, mode: Mode) -> Option<Val<'static>> {
    let unsigned = literal.strip_prefix('-').unwrap_or(literal);
    let unsigned = match unsigned.strip_prefix('+') {
        Some(rest) if mode == Mode::Shell && !literal.starts_with('-') => rest,
        Some(_) => return None,
        None => unsigned,
    };
    let negative = literal.starts_with('-');
    if mode == Mode::Shell
        && let Some(hex) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X"))
    {
        let number = i64::try_from(u64::from_str_radix(hex, 16).ok()?).ok()?;
        return Some(smallest(if negative { -number } else { number }));
    }
    let whole = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let strict = whole > 0 && (whole == 1 || !unsigned.starts_with('0'));
    if whole == unsigned.len() {
        if !strict {
            return None;
        }
        return match literal.trim_start_matches('+').parse::<i64>() {
            Ok(number) => Some(smallest(number)),
            Err(_) => literal.parse().ok().map(Val::Double),
        };
    }
    let fraction = unsigned.get(whole..)?;
    let point = fraction.starts_with('.');
    let places = fraction.get(1..)?.bytes().take_while(u8::is_ascii_digit).count();
    if mode == Mode::Json && (!strict || (point && places == 0)) {
        return None;
    }
    // The standard library also reads words such as «inf», which have no place here.
    let only_digits = fraction.bytes().all(|b| b.is_ascii_digit() || b"eE.+-".contains(&b));
    if !only_digits || (whole == 0 && places == 0) {
        return None;
    }
    literal.parse().ok().map(Val::Double)
}

fn smallest(number: i64) -> Val<'static> {
    i32::try_from(number).map_or(Val::Int64(number), Val::Int32)
}
