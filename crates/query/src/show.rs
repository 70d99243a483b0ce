//! Values in error messages, in the form that MongoDB's messages have: `{ a: 1, b: "x" }`.

use value::{RawDoc, Val};

/// Maximum length of a value in a message; the rest is omitted.
const LENGTH_MAX: usize = 400;

/// A value as messages show it.
pub(crate) fn show(value: Val<'_>) -> String {
    let mut out = String::new();
    write(&mut out, value, LENGTH_MAX);
    if cut(&mut out, LENGTH_MAX) {
        out.push_str("...");
    }
    out
}

/// Cuts text off at a number of bytes. Returns whether it was longer.
fn cut(text: &mut String, most: usize) -> bool {
    let longer = text.len() > most;
    if longer {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    longer
}

/// The first bytes of a document as messages show it.
#[must_use]
pub fn show_doc_up_to(doc: RawDoc<'_>, most: usize) -> String {
    let mut out = String::new();
    write(&mut out, Val::Document(doc), most);
    cut(&mut out, most);
    out
}

/// A document as messages show it.
#[must_use]
pub fn show_doc(doc: RawDoc<'_>) -> String {
    show(Val::Document(doc))
}

fn write(out: &mut String, value: Val<'_>, most: usize) {
    use std::fmt::Write as _;
    if out.len() > most {
        return;
    }
    let result = match value {
        Val::Missing => write!(out, "MISSING"),
        Val::Undefined => write!(out, "undefined"),
        Val::Null => write!(out, "null"),
        Val::Bool(b) => write!(out, "{b}"),
        Val::Int32(n) => write!(out, "{n}"),
        Val::Int64(n) => write!(out, "{n}"),
        Val::Double(n) if n.fract() == 0.0 && n.abs() < 1e15 => write!(out, "{n:.1}"),
        Val::Double(n) => write!(out, "{}", double_text(n)),
        Val::Decimal(n) => write!(out, "{n}"),
        Val::String(text) | Val::Symbol(text) => write!(out, "\"{text}\""),
        Val::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        Val::DateTime(ms) => write!(out, "new Date({ms})"),
        Val::Timestamp(t) => write!(out, "Timestamp({}, {})", t >> 32, t & 0xFFFF_FFFF),
        Val::Regex(pattern, options) => write!(out, "/{pattern}/{options}"),
        Val::Binary(subtype, bytes) => write!(out, "BinData({subtype}, {} bytes)", bytes.len()),
        Val::MinKey => write!(out, "MinKey"),
        Val::MaxKey => write!(out, "MaxKey"),
        Val::Code(code) | Val::CodeWithScope(code, _) => write!(out, "{code}"),
        Val::DbPointer(namespace, id) => write!(out, "DBRef('{namespace}', {id})"),
        Val::Document(doc) => {
            out.push('{');
            for (at, (name, element)) in doc.iter().enumerate() {
                out.push_str(if at == 0 { " " } else { ", " });
                out.push_str(name);
                out.push_str(": ");
                write(out, element.get(), most);
            }
            out.push_str(if doc.is_empty() { "}" } else { " }" });
            Ok(())
        }
        Val::Array(array) => {
            out.push('[');
            for (at, (_, element)) in array.iter().enumerate() {
                out.push_str(if at == 0 { " " } else { ", " });
                write(out, element.get(), most);
            }
            out.push_str(if array.is_empty() { "]" } else { " ]" });
            Ok(())
        }
    };
    debug_assert!(result.is_ok(), "writing into a string cannot fail");
}

/// A double as text, as MongoDB prints it: shortest form, exponents outside 1e-5..1e16.
pub(crate) fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if n == 0.0 {
        return if n.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let text = format!("{n:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{n}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_without_loss() {
        for (n, text) in [
            (1.0, "1"),
            (1.5, "1.5"),
            (-0.0, "-0"),
            (1e20, "1e+20"),
            (1e-7, "1e-07"),
            (1_234_567.891, "1234567.891"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(n), text);
        }
    }
}
