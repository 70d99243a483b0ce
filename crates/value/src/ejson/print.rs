//! The writers: canonical and relaxed Extended JSON, and the shell's notation.
//!
//! Canonical and shell output read back as the same values (an object that merely looks like a
//! wrapper does not: Extended JSON cannot express it). Relaxed output forgets integer types.

use super::{base64, date};
use crate::{RawDoc, Val};
use std::fmt::Write;

/// Which notation to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Extended JSON with the type of every number.
    Canonical,
    /// Extended JSON with plain numbers and dates.
    Relaxed,
    /// The notation of MongoDB's shell.
    Shell,
}

/// Longest line that `print_pretty` keeps in one piece.
const LINE_MAX: usize = 90;

/// Prints a document on one line.
#[must_use]
pub fn print(doc: RawDoc<'_>, format: Format) -> String {
    print_value(Val::Document(doc), format)
}

/// Prints a value on one line. A missing one, which text cannot express, prints as undefined.
#[must_use]
pub fn print_value(value: Val<'_>, format: Format) -> String {
    let mut printer = Printer { out: String::new(), format };
    printer.value(value);
    printer.out
}

/// Prints a document in shell notation, indented if a line would be too long.
#[must_use]
pub fn print_pretty(doc: RawDoc<'_>) -> String {
    let mut printer = Printer { out: String::new(), format: Format::Shell };
    printer.pretty(Val::Document(doc), 0, 0);
    printer.out
}

struct Printer {
    out: String,
    format: Format,
}

impl Printer {
    fn value(&mut self, value: Val<'_>) {
        match value {
            Val::Document(doc) => self.object(doc),
            Val::Array(array) => self.array(array),
            Val::String(text) => self.string(text),
            Val::Null => self.out.push_str("null"),
            Val::Bool(b) => self.text(format_args!("{b}")),
            value if self.format == Format::Shell => self.shell(value),
            value => self.json(value),
        }
    }

    fn text(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn object(&mut self, doc: RawDoc<'_>) {
        if doc.is_empty() {
            self.out.push_str("{}");
            return;
        }
        let shell = self.format == Format::Shell;
        self.out.push_str(if shell { "{ " } else { "{" });
        for (at, (name, value)) in doc.iter().enumerate() {
            if at > 0 {
                self.out.push_str(if shell { ", " } else { "," });
            }
            self.name(name);
            self.value(value.get());
        }
        self.out.push_str(if shell { " }" } else { "}" });
    }

    fn array(&mut self, array: RawDoc<'_>) {
        self.out.push('[');
        for (at, (_, value)) in array.iter().enumerate() {
            if at > 0 {
                self.out.push_str(if self.format == Format::Shell { ", " } else { "," });
            }
            self.value(value.get());
        }
        self.out.push(']');
    }

    fn name(&mut self, name: &str) {
        if self.format == Format::Shell {
            let mut letters = name.bytes();
            let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$';
            let bare = letters.next().is_some_and(|b| word(b) && !b.is_ascii_digit());
            if bare && letters.all(word) {
                self.out.push_str(name);
            } else {
                self.string(name);
            }
            self.out.push_str(": ");
        } else {
            self.string(name);
            self.out.push(':');
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{C}' => self.out.push_str("\\f"),
                c if c < ' ' || c == '\u{7F}' => self.text(format_args!("\\u{:04x}", c as u32)),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    /// A call with one text: `ObjectId("...")`.
    fn call(&mut self, function: &str, text: &str) {
        self.out.push_str(function);
        self.out.push('(');
        self.string(text);
        self.out.push(')');
    }

    /// Values with a special notation in the shell.
    fn shell(&mut self, value: Val<'_>) {
        match value {
            Val::Int32(n) => self.text(format_args!("{n}")),
            Val::Int64(n) if n.unsigned_abs() < 1 << 53 => {
                self.text(format_args!("NumberLong({n})"));
            }
            Val::Int64(n) => self.text(format_args!("NumberLong(\"{n}\")")),
            Val::Double(n) => self.out.push_str(&double_text(n)),
            Val::Decimal(n) => self.text(format_args!("NumberDecimal(\"{n}\")")),
            Val::DateTime(millis) if date::has_plain_year(millis) => {
                self.text(format_args!("ISODate(\"{}\")", date::print(millis, false)));
            }
            Val::DateTime(millis) => self.text(format_args!("new Date({millis})")),
            Val::ObjectId(id) => self.text(format_args!("ObjectId(\"{id}\")")),
            Val::Timestamp(t) => self.text(format_args!("Timestamp({}, {})", t >> 32, t as u32)),
            Val::Binary(subtype, content) => self.shell_binary(subtype, content),
            Val::Regex(pattern, options) => self.shell_regex(pattern, options),
            Val::Symbol(text) => self.call("Symbol", text),
            Val::Code(code) => self.call("Code", code),
            Val::CodeWithScope(code, scope) => {
                self.out.push_str("Code(");
                self.string(code);
                self.out.push_str(", ");
                self.object(scope);
                self.out.push(')');
            }
            Val::DbPointer(namespace, id) => {
                self.out.push_str("DBPointer(");
                self.string(namespace);
                self.text(format_args!(", ObjectId(\"{id}\"))"));
            }
            Val::MinKey => self.out.push_str("MinKey"),
            Val::MaxKey => self.out.push_str("MaxKey"),
            // The types that are the same everywhere were printed before.
            _ => self.out.push_str("undefined"),
        }
    }

    fn shell_binary(&mut self, subtype: u8, content: &[u8]) {
        match <&[u8; 16]>::try_from(content) {
            Ok(uuid) if subtype == 4 => {
                let digits = u128::from_be_bytes(*uuid);
                self.text(format_args!(
                    "UUID(\"{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\")",
                    digits >> 96,
                    digits >> 80 & 0xFFFF,
                    digits >> 64 & 0xFFFF,
                    digits >> 48 & 0xFFFF,
                    digits & 0xFFFF_FFFF_FFFF,
                ));
            }
            _ => self.text(format_args!("BinData({subtype}, \"{}\")", base64::encode(content))),
        }
    }

    fn shell_regex(&mut self, pattern: &str, options: &str) {
        let literal = literal_pattern(pattern)
            && options.bytes().all(|b| b.is_ascii_lowercase())
            && options.as_bytes().is_sorted();
        if literal {
            self.text(format_args!("/{pattern}/{options}"));
        } else {
            self.out.push_str("RegExp(");
            self.string(pattern);
            self.out.push_str(", ");
            self.string(options);
            self.out.push(')');
        }
    }

    /// Values that Extended JSON writes as an object.
    fn json(&mut self, value: Val<'_>) {
        let canonical = self.format == Format::Canonical;
        match value {
            Val::Int32(n) if canonical => self.text(format_args!("{{\"$numberInt\":\"{n}\"}}")),
            Val::Int64(n) if canonical => self.text(format_args!("{{\"$numberLong\":\"{n}\"}}")),
            Val::Int32(n) => self.text(format_args!("{n}")),
            Val::Int64(n) => self.text(format_args!("{n}")),
            Val::Double(n) if canonical || !n.is_finite() => {
                self.text(format_args!("{{\"$numberDouble\":\"{}\"}}", double_text(n)));
            }
            Val::Double(n) => self.out.push_str(&double_text(n)),
            Val::Decimal(n) => self.text(format_args!("{{\"$numberDecimal\":\"{n}\"}}")),
            Val::DateTime(millis) if !canonical && millis >= 0 && date::has_plain_year(millis) => {
                self.text(format_args!("{{\"$date\":\"{}\"}}", date::print(millis, true)));
            }
            Val::DateTime(millis) => {
                self.text(format_args!("{{\"$date\":{{\"$numberLong\":\"{millis}\"}}}}"));
            }
            Val::ObjectId(id) => self.text(format_args!("{{\"$oid\":\"{id}\"}}")),
            Val::Timestamp(t) => self.text(format_args!(
                "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}",
                t >> 32,
                t as u32
            )),
            Val::Binary(subtype, content) => self.text(format_args!(
                "{{\"$binary\":{{\"base64\":\"{}\",\"subType\":\"{subtype:02x}\"}}}}",
                base64::encode(content)
            )),
            Val::Regex(pattern, options) => {
                self.out.push_str("{\"$regularExpression\":{\"pattern\":");
                self.string(pattern);
                self.out.push_str(",\"options\":");
                self.string(options);
                self.out.push_str("}}");
            }
            Val::Symbol(text) => self.wrapped_string("$symbol", text),
            Val::Code(code) => self.wrapped_string("$code", code),
            Val::CodeWithScope(code, scope) => {
                self.out.push_str("{\"$code\":");
                self.string(code);
                self.out.push_str(",\"$scope\":");
                self.object(scope);
                self.out.push('}');
            }
            Val::DbPointer(namespace, id) => {
                self.out.push_str("{\"$dbPointer\":{\"$ref\":");
                self.string(namespace);
                self.text(format_args!(",\"$id\":{{\"$oid\":\"{id}\"}}}}}}"));
            }
            Val::MinKey => self.out.push_str("{\"$minKey\":1}"),
            Val::MaxKey => self.out.push_str("{\"$maxKey\":1}"),
            // The types that are the same everywhere were printed before.
            _ => self.out.push_str("{\"$undefined\":true}"),
        }
    }

    fn wrapped_string(&mut self, name: &str, text: &str) {
        self.text(format_args!("{{\"{name}\":"));
        self.string(text);
        self.out.push('}');
    }

    /// Prints on one line if it fits behind `column`, else one element per line.
    fn pretty(&mut self, value: Val<'_>, indent: usize, column: usize) {
        let (Val::Document(doc) | Val::Array(doc)) = value else { return self.value(value) };
        let line = print_value(value, self.format);
        if doc.is_empty() || column + line.chars().count() <= LINE_MAX {
            self.out.push_str(&line);
            return;
        }
        let is_array = matches!(value, Val::Array(_));
        self.out.push_str(if is_array { "[\n" } else { "{\n" });
        for (name, element) in doc {
            let before = self.out.len();
            self.text(format_args!("{:1$}", "", (indent + 1) * 2));
            if !is_array {
                self.name(name);
            }
            let column = self.out.len() - before;
            self.pretty(element.get(), indent + 1, column);
            self.out.push_str(",\n");
        }
        self.out.truncate(self.out.len().saturating_sub(2));
        self.text(format_args!("\n{:1$}", "", indent * 2));
        self.out.push(if is_array { ']' } else { '}' });
    }
}

/// The shortest text that reads back as this double, never looking like an integer.
fn double_text(n: f64) -> String {
    if n.is_nan() {
        "NaN".to_owned()
    } else if n.is_infinite() {
        if n > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        format!("{n:?}")
    }
}

/// Whether a pattern can be written between slashes and read back: no slash that would end it, no
/// backslash at the end, nothing that would start a comment, no control characters.
fn literal_pattern(pattern: &str) -> bool {
    let (mut escaped, mut class) = (false, false);
    for c in pattern.chars() {
        if c.is_control() || (c == '/' && !escaped && !class) {
            return false;
        }
        class = (class || (c == '[' && !escaped)) && (c != ']' || escaped);
        escaped = c == '\\' && !escaped;
    }
    !pattern.is_empty() && !pattern.starts_with('*') && !escaped && !class
}
