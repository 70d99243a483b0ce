//! JSON as values: `$toArray`, `$toObject` of text, `$serializeEJSON`, `$deserializeEJSON`.
//!
//! Text is read strictly, and wrappers such as `{"$oid": ..}` stay documents: only
//! `$deserializeEJSON` converts them to values.

use super::operator::Operator;
use super::parse::Parser;
use super::{Call, Env, Node};
use crate::path_values::copy_into;
use value::ejson::{self, Format};
use value::{Code, DocBuf, Error, OwnedVal, Result, Val, Writer};

pub(super) static OPERATORS: &[Operator] = &[
    Operator::special_lazy("$deserializeEJSON", parse_operands, deserialize),
    Operator::special_lazy("$serializeEJSON", parse_operands, serialize),
];

/// Arguments are the input, whether numbers are plain, and onError if there is one.
fn parse_operands(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    value: Val<'_>,
) -> Result<Node> {
    let name = operator.name;
    let Val::Document(doc) = value else {
        return Err(Error::failed_to_parse(format!("{name} expects an object of named arguments")));
    };
    let (mut input, mut relaxed, mut on_error) = (None, None, None);
    for (argument, operand) in doc {
        let slot = match argument {
            "input" => &mut input,
            "relaxed" if name == "$serializeEJSON" => &mut relaxed,
            "onError" => &mut on_error,
            unknown => {
                return Err(Error::failed_to_parse(format!(
                    "{name} found an unknown argument: {unknown}"
                )));
            }
        };
        *slot = Some(parser.parse(operand.get())?);
    }
    let input = input
        .ok_or_else(|| Error::failed_to_parse(format!("Missing 'input' parameter to {name}")))?;
    let mut arguments = vec![input, relaxed.unwrap_or_else(|| Node::constant(Val::Bool(true)))];
    arguments.extend(on_error);
    operator.call(parser, arguments)
}

fn serialize<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let input = call.argument(0, env)?;
    if input.is_missing() {
        return Ok(Val::Null);
    }
    let format = match call.argument(1, env)? {
        Val::Bool(true) => Format::Relaxed,
        Val::Bool(false) => Format::Canonical,
        value if value.is_nullish() => return Ok(Val::Null),
        other => {
            return Err(Error::type_mismatch(format!(
                "$serializeEJSON requires 'relaxed' to be a bool, found: {}",
                other.kind().name()
            )));
        }
    };
    finish(call, env, read(&ejson::print_value(input, format)))
}

fn deserialize<'a>(call: &'a Call, env: &Env<'a>) -> Result<Val<'a>> {
    let input = call.argument(0, env)?;
    if input.is_nullish() {
        return Ok(Val::Null);
    }
    // Values other than wrappers are the same after printing and parsing.
    let text = ejson::print_value(input, Format::Canonical);
    let read = ejson::parse_value_as(&text, ejson::Mode::Json);
    let read = read.map(|value| OwnedVal::new(value.get()));
    finish(call, env, read.map_err(|error| failure(error.message())))
}

fn finish<'a>(call: &'a Call, env: &Env<'a>, result: Result<OwnedVal>) -> Result<Val<'a>> {
    match result {
        Ok(value) => Ok(copy_into(value.get(), env.arena())),
        Err(_) if call.arguments.len() > 2 => call.argument(2, env),
        Err(error) => Err(error),
    }
}

fn failure(why: &str) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("{why} in $convert with no onError value"))
}

/// Parses the text of an array, for `$toArray`.
pub(super) fn to_array<'a>(text: &str, env: &Env<'a>) -> Result<Val<'a>> {
    match read(text)?.get() {
        array @ Val::Array(_) => Ok(copy_into(array, env.arena())),
        _ => Err(failure("The text is not a JSON array")),
    }
}

/// Parses the text of a document, for `$toObject`.
pub(super) fn to_object<'a>(text: &str, env: &Env<'a>) -> Result<Val<'a>> {
    match read(text)?.get() {
        object @ Val::Document(_) => Ok(copy_into(object, env.arena())),
        _ => Err(failure("The text is not a JSON object")),
    }
}

/// Reads one JSON value.
fn read(text: &str) -> Result<OwnedVal> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: 0 };
    let holder = DocBuf::build(|out| {
        let done = reader.value(out, "value", 0).filter(|()| reader.at_end());
        if done.is_none() {
            out.str("failed", "");
        }
    });
    let holder = holder.as_doc();
    match holder.get("value") {
        Some(value) if holder.find("failed").is_none() => Ok(OwnedVal::new(value)),
        _ => Err(failure("Failed to parse JSON")),
    }
}

/// Deeper texts are refused: documents do not nest deeper either.
const DEPTH_MAX: usize = 100;

struct Reader<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn at_end(&mut self) -> bool {
        self.blanks();
        self.at == self.bytes.len()
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Appends the next value; `None` where the text is no JSON.
    fn value(&mut self, out: &mut Writer<'_>, name: &str, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.blanks();
        match self.bytes.get(self.at)? {
            b'{' => self.object(out, name, depth),
            b'[' => self.array(out, name, depth),
            b'"' => {
                let text = self.string()?;
                out.str(name, &text);
                Some(())
            }
            b't' if self.word("true") => self.append(out, name, Val::Bool(true)),
            b'f' if self.word("false") => self.append(out, name, Val::Bool(false)),
            b'n' if self.word("null") => self.append(out, name, Val::Null),
            _ => {
                let number = self.number()?;
                self.append(out, name, number)
            }
        }
    }

    fn append(&self, out: &mut Writer<'_>, name: &str, value: Val<'_>) -> Option<()> {
        out.append(name, value);
        Some(())
    }

    fn object(&mut self, out: &mut Writer<'_>, name: &str, depth: usize) -> Option<()> {
        self.at += 1;
        // Of several fields with the same name the last value is used, at the position of the
        // first.
        let mut fields: Vec<(String, DocBuf)> = Vec::new();
        if !self.eat(b'}') {
            loop {
                self.blanks();
                let field = self.string().filter(|field| !field.contains('\0'))?;
                if !self.eat(b':') {
                    return None;
                }
                let mut good = None;
                let value = DocBuf::build(|out| good = self.value(out, "v", depth + 1));
                good?;
                match fields.iter_mut().find(|(known, _)| *known == field) {
                    Some((_, place)) => *place = value,
                    None => fields.push((field, value)),
                }
                if self.eat(b'}') {
                    break;
                }
                if !self.eat(b',') {
                    return None;
                }
            }
        }
        out.doc(name, |out| {
            for (name, value) in &fields {
                out.append(name, value.as_doc().get("v").unwrap_or(Val::Null));
            }
        });
        Some(())
    }

    fn array(&mut self, out: &mut Writer<'_>, name: &str, depth: usize) -> Option<()> {
        self.at += 1;
        let token = out.open(name, true);
        let mut good = Some(());
        if !self.eat(b']') {
            for at in 0.. {
                good = self.value(out, &at.to_string(), depth + 1);
                if good.is_none() || self.eat(b']') {
                    break;
                }
                if !self.eat(b',') {
                    good = None;
                    break;
                }
            }
        }
        out.close(token);
        good
    }

    fn string(&mut self) -> Option<String> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.bytes.get(self.at)? {
                b'"' if !escaped => break,
                0..=0x1F => return None,
                b'\\' => escaped = !escaped,
                _ => escaped = false,
            }
            self.at += 1;
        }
        self.at += 1;
        // Escapes are read as in extended JSON, which shares them.
        let quoted = self.text.get(start..self.at)?;
        let read = ejson::parse_value_as(quoted, ejson::Mode::Json).ok()?;
        read.get().as_str().map(str::to_owned)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    /// Whole numbers take the smallest type that holds them, all others are doubles.
    fn number(&mut self) -> Option<Val<'static>> {
        let start = self.at;
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'-'));
        let first = self.bytes.get(self.at).copied();
        let digits = self.digits();
        if digits == 0 || (digits > 1 && first == Some(b'0')) {
            return None;
        }
        let mut whole = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            whole = false;
            if self.digits() == 0 {
                return None;
            }
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            whole = false;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return None;
            }
        }
        let text = self.text.get(start..self.at)?;
        match (whole, text.parse::<i64>()) {
            (true, Ok(n)) => Some(i32::try_from(n).map_or(Val::Int64(n), Val::Int32)),
            _ => text.parse().ok().map(Val::Double),
        }
    }
}
