//! Writes documents to a file in any of the formats.

use super::FileFormat;
use anyhow::{Context, Result, bail};
use std::io::Write;
use value::ejson::{self, Format};
use value::{RawDoc, Val};

/// A writer of one of the formats.
pub(super) struct Output<W: Write> {
    writer: Writer<W>,
    format: FileFormat,
    text: Format,
    /// Columns of a CSV file.
    fields: Vec<String>,
    count: u64,
}

enum Writer<W: Write> {
    Plain(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> Output<W> {
    /// Begins a file. `canonical` keeps the types of numbers in Extended JSON; `fields` are the
    /// columns of a CSV file.
    pub(super) fn new(
        format: FileFormat,
        writer: W,
        canonical: bool,
        fields: Vec<String>,
    ) -> Result<Output<W>> {
        let mut writer = match format {
            FileFormat::Csv => Writer::Csv(Box::new(csv::Writer::from_writer(writer))),
            _ => Writer::Plain(writer),
        };
        if let Writer::Csv(csv) = &mut writer {
            if fields.is_empty() {
                bail!("a CSV file needs --fields: the columns to write");
            }
            csv.write_record(&fields).context("cannot write")?;
        }
        let text = if canonical { Format::Canonical } else { Format::Relaxed };
        Ok(Output { writer, format, text, fields, count: 0 })
    }

    /// Writes one document.
    pub(super) fn write(&mut self, doc: RawDoc<'_>) -> Result<()> {
        let first = self.count == 0;
        self.count += 1;
        match &mut self.writer {
            Writer::Plain(writer) => match self.format {
                FileFormat::Bson => writer.write_all(doc.bytes())?,
                FileFormat::Json => {
                    writer.write_all(if first { b"[\n" } else { b",\n" })?;
                    writer.write_all(ejson::print(doc, self.text).as_bytes())?;
                }
                _ => {
                    writer.write_all(ejson::print(doc, self.text).as_bytes())?;
                    writer.write_all(b"\n")?;
                }
            },
            Writer::Csv(csv) => {
                csv.write_record(self.fields.iter().map(|field| cell(doc, field)))?;
            }
        }
        Ok(())
    }

    /// Ends the file. Returns its number of documents.
    pub(super) fn finish(mut self) -> Result<u64> {
        match &mut self.writer {
            Writer::Plain(writer) => {
                if self.format == FileFormat::Json {
                    writer.write_all(if self.count == 0 { b"[]\n" } else { b"\n]\n" })?;
                }
                writer.flush()?;
            }
            Writer::Csv(csv) => csv.flush()?,
        }
        Ok(self.count)
    }
}

/// The cell of a column: the plain text of a scalar, otherwise Extended JSON.
fn cell(doc: RawDoc<'_>, path: &str) -> String {
    match value_at(doc, path) {
        Val::Missing | Val::Null | Val::Undefined => String::new(),
        Val::String(text) | Val::Symbol(text) => text.to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int32(number) => number.to_string(),
        Val::Int64(number) => number.to_string(),
        Val::Double(number) => number.to_string(),
        Val::Decimal(number) => number.to_string(),
        Val::ObjectId(id) => id.to_string(),
        Val::DateTime(millis) => ejson::date::print(millis, true),
        other => ejson::print_value(other, Format::Relaxed),
    }
}

/// Follows a dotted path through documents; a number steps into an array.
fn value_at<'a>(doc: RawDoc<'a>, path: &str) -> Val<'a> {
    let mut current = Val::Document(doc);
    for name in path.split('.') {
        current = match current {
            Val::Document(doc) | Val::Array(doc) => doc.get(name).unwrap_or(Val::Missing),
            _ => Val::Missing,
        };
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(format: FileFormat, canonical: bool, fields: &[&str], docs: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fields = fields.iter().map(|&field| field.to_owned()).collect();
        let mut output = Output::new(format, &mut bytes, canonical, fields).unwrap();
        for doc in docs {
            output.write(ejson::parse_doc(doc).unwrap().as_doc()).unwrap();
        }
        assert_eq!(output.finish().unwrap(), docs.len() as u64);
        bytes
    }

    #[test]
    fn json_is_one_array() {
        assert_eq!(write(FileFormat::Json, false, &[], &[]), b"[]\n");
        let two = write(FileFormat::Json, false, &[], &["{a: 1}", "{a: NumberLong(2)}"]);
        assert_eq!(String::from_utf8(two).unwrap(), "[\n{\"a\":1},\n{\"a\":2}\n]\n");
    }

    #[test]
    fn canonical_text_keeps_types() {
        let line = write(FileFormat::Ndjson, true, &[], &["{a: NumberLong(2)}"]);
        assert_eq!(String::from_utf8(line).unwrap(), "{\"a\":{\"$numberLong\":\"2\"}}\n");
    }

    #[test]
    fn csv_has_a_cell_for_every_field() {
        let doc =
            "{a: {b: 'x, \"y\"'}, n: 2.5, d: ISODate('2020-01-02T03:04:05Z'), l: [1, {z: 2}]}";
        let rows = write(FileFormat::Csv, false, &["a.b", "n", "d", "l.1.z", "none"], &[doc]);
        assert_eq!(
            String::from_utf8(rows).unwrap(),
            "a.b,n,d,l.1.z,none\n\"x, \"\"y\"\"\",2.5,2020-01-02T03:04:05Z,2,\n"
        );
    }

    #[test]
    fn csv_without_fields_is_refused() {
        assert!(Output::new(FileFormat::Csv, Vec::new(), false, Vec::new()).is_err());
    }
}
