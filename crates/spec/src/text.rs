//! Values in test files: extended JSON in the syntax of the shell, with placeholders (`<db>`,
//! `<cursor>`, `<lsid>`), generators of large values, and wildcards.

use value::ejson::{self, Format, Mode, Parser};
use value::{DocBuf, RawDoc, RawVal, Result};

/// The string that stands for `_` after reading: any value.
pub const ANY: &str = "«any»";
/// The string that stands for `absent` after reading: no such field.
pub const ABSENT: &str = "«absent»";

/// The values of the placeholders of a running test.
#[derive(Debug, Clone)]
pub struct Names {
    /// `<db>`: the database of this test.
    pub database: String,
    /// `<cursor>`: the id of the last cursor in a reply.
    pub cursor: i64,
    /// `<lsid>`: the session of this test, as 32 hexadecimal digits.
    pub session: String,
}

impl Names {
    /// Fills in placeholders and generators.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        let text = text
            .replace("<db>", &self.database)
            .replace("<cursor>", &format!("NumberLong(\"{}\")", self.cursor))
            .replace("<lsid>", &format!("{{id: UUID(\"{}\")}}", self.session))
            .replace("<lsid:2>", &format!("{{id: UUID(\"{}\")}}", self.other_session()));
        let text = generate(&text, "<text:", |n| format!("\"{}\"", "x".repeat(n)));
        let text = generate(&text, "<nest:", |n| format!("{}1{}", "{a: ".repeat(n), "}".repeat(n)));
        let text = generate(&text, "<lists:", |n| format!("{}1{}", "[".repeat(n), "]".repeat(n)));
        generate(&text, "<many:", |n| vec!["{}"; n].join(", "))
    }

    /// `<lsid:2>`: another session of this test.
    fn other_session(&self) -> String {
        let swapped = |digit: char| match digit {
            '0' => '1',
            _ => '0',
        };
        let (first, rest) = self.session.split_at_checked(1).unwrap_or(("", &self.session));
        format!("{}{rest}", first.chars().map(swapped).collect::<String>())
    }

    /// Replaces the name of the database by `<db>`.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        text.replace(&self.database, "<db>")
    }
}

/// Replaces `<name:NUMBER>` by what `make` gives for the number.
fn generate(text: &str, opening: &str, make: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(opening) {
        out.push_str(before);
        let (number, behind) = after.split_once('>').unwrap_or((after, ""));
        out.push_str(&make(number.trim().parse().unwrap_or(0)));
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Reads one document.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn doc(text: &str) -> Result<DocBuf> {
    ejson::parse_doc(text)
}

/// Reads documents that stand one after another.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn docs(text: &str) -> Result<Vec<DocBuf>> {
    let mut parser = Parser::new(text, Mode::Shell);
    let mut all = Vec::new();
    while let Some(doc) = parser.next_doc()? {
        all.push(doc);
    }
    Ok(all)
}

/// Reads one value as a document `{value: …}`. Returns it with the rest of the text.
///
/// # Errors
/// `FailedToParse` with line and column.
pub fn value_and_rest(text: &str) -> Result<(DocBuf, &str)> {
    let mut parser = Parser::new(text, Mode::Shell);
    let value = parser.value()?;
    let holder = DocBuf::build(|out| {
        out.append("value", value.get());
    });
    Ok((holder, parser.rest().trim()))
}

/// Turns the bare words `_` and `absent` into the strings that stand for them.
#[must_use]
pub fn mark_wildcards(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut word = String::new();
    let mut escaped = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if let Some(open) = quote {
            out.push(character);
            if !escaped && character == open {
                quote = None;
            }
            escaped = !escaped && character == '\\';
            continue;
        }
        if character.is_alphanumeric() || matches!(character, '_' | '$') {
            word.push(character);
            if characters.peek().is_some() {
                continue;
            }
        }
        let ends_here = !(character.is_alphanumeric() || matches!(character, '_' | '$'));
        let is_name = ends_here && character == ':';
        match word.as_str() {
            "_" if !is_name => out.push_str(&format!("\"{ANY}\"")),
            "absent" if !is_name => out.push_str(&format!("\"{ABSENT}\"")),
            other => out.push_str(other),
        }
        word.clear();
        if ends_here {
            if matches!(character, '"' | '\'') {
                quote = Some(character);
            }
            out.push(character);
        }
    }
    out
}

/// One document on one line, so that it can be read back.
#[must_use]
pub fn print_doc(doc: RawDoc<'_>) -> String {
    unmark(&ejson::print(doc, Format::Shell))
}

/// Fields of replies that differ from run to run.
pub const VOLATILE: &[&str] = &["$clusterTime", "operationTime", "electionId", "opTime"];

/// A reply on one line, without what differs from run to run.
#[must_use]
pub fn print_reply(reply: RawDoc<'_>) -> String {
    let stable = DocBuf::build(|out| {
        for (name, value) in reply.iter().filter(|(name, _)| !VOLATILE.contains(name)) {
            out.raw(name, value);
        }
    });
    print_doc(stable.as_doc())
}

/// One value on one line.
#[must_use]
pub fn print_value(value: RawVal<'_>) -> String {
    unmark(&ejson::print_value(value.get(), Format::Shell))
}

fn unmark(text: &str) -> String {
    text.replace(&format!("\"{ANY}\""), "_").replace(&format!("\"{ABSENT}\""), "absent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_words_outside_of_strings() {
        let marked = mark_wildcards("{a: _, b: '_', _id: [_], c: \"x _\", _: _, d: absent}");
        let any = format!("\"{ANY}\"");
        let absent = format!("\"{ABSENT}\"");
        assert_eq!(
            marked,
            format!("{{a: {any}, b: '_', _id: [{any}], c: \"x _\", _: {any}, d: {absent}}}")
        );
        assert_eq!(mark_wildcards("_"), any);
        assert_eq!(mark_wildcards("a_b"), "a_b");
    }

    #[test]
    fn generators_make_large_values() {
        let names = Names { database: "d".into(), cursor: 5, session: String::new() };
        assert_eq!(names.fill("{a: <text:3>}"), "{a: \"xxx\"}");
        assert_eq!(names.fill("<nest:2>"), "{a: {a: 1}}");
        assert_eq!(names.fill("[<many:2>]"), "[{}, {}]");
        assert_eq!(names.fill("<db>.c <cursor>"), "d.c NumberLong(\"5\")");
    }
}
