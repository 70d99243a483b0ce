//! Reads documents from a file in any of the formats, one at a time, so that memory does not depend
//! on the size of the file.

use super::FileFormat;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, Read};
use value::ejson::{self, Mode};
use value::{DocBuf, Val, Writer, limits, validate};

/// Documents of a file.
pub(super) enum Input<R: BufRead> {
    Json(JsonReader<R>),
    Lines(LineReader<R>),
    Csv(Box<CsvReader<R>>),
    Bson(BsonReader<R>),
}

/// How cells of a CSV file become values.
#[derive(Clone, Default)]
pub(super) struct CsvOptions {
    /// Names of the columns; if empty, they are in the first row.
    pub(super) fields: Vec<String>,
    /// Whether to omit fields whose cell is empty.
    pub(super) ignore_blanks: bool,
    /// Whether every cell is a string.
    pub(super) strings: bool,
}

impl<R: BufRead> Input<R> {
    pub(super) fn new(format: FileFormat, reader: R, csv: CsvOptions) -> Result<Input<R>> {
        Ok(match format {
            FileFormat::Json => Input::Json(JsonReader::new(reader)),
            FileFormat::Ndjson => Input::Lines(LineReader { reader, line: 0, text: Vec::new() }),
            FileFormat::Csv => Input::Csv(Box::new(CsvReader::new(reader, csv)?)),
            FileFormat::Bson => Input::Bson(BsonReader { reader, offset: 0 }),
        })
    }

    /// The next document, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<DocBuf>> {
        match self {
            Input::Json(reader) => reader.next(),
            Input::Lines(reader) => reader.next(),
            Input::Csv(reader) => reader.next(),
            Input::Bson(reader) => reader.next(),
        }
    }
}

/// The maximum length of one document as text.
const TEXT_BYTES_MAX: usize = 16 * limits::DOCUMENT_BYTES_MAX;

/// One document on each line.
pub(super) struct LineReader<R> {
    reader: R,
    line: u64,
    text: Vec<u8>,
}

impl<R: BufRead> LineReader<R> {
    fn next(&mut self) -> Result<Option<DocBuf>> {
        loop {
            self.text.clear();
            self.line += 1;
            let limit = TEXT_BYTES_MAX as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.text);
            if read.context("cannot read the file")? == 0 {
                return Ok(None);
            }
            if self.text.len() > TEXT_BYTES_MAX {
                bail!("line {} is too long for a document", self.line);
            }
            if !self.text.trim_ascii().is_empty() {
                return parse(&self.text, self.line).map(Some);
            }
        }
    }
}

fn parse(text: &[u8], line: u64) -> Result<DocBuf> {
    let text = std::str::from_utf8(text)
        .with_context(|| format!("the document that begins at line {line} is not UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ejson::parse_doc_as(text, Mode::Json)
        .with_context(|| format!("the document that begins at line {line} cannot be read"))
}

/// Documents in an array or one after another. Finds the end of each by its braces, so that only
/// one is in memory at a time.
pub(super) struct JsonReader<R> {
    reader: R,
    line: u64,
    /// Whether the file is one array, once its beginning was read.
    array: Option<bool>,
    ended: bool,
    text: Vec<u8>,
}

impl<R: BufRead> JsonReader<R> {
    fn new(reader: R) -> JsonReader<R> {
        JsonReader { reader, line: 1, array: None, ended: false, text: Vec::new() }
    }

    fn byte(&mut self) -> Result<Option<u8>> {
        let byte = self.reader.fill_buf().context("cannot read the file")?.first().copied();
        if byte.is_some() {
            self.reader.consume(1);
        }
        if byte == Some(b'\n') {
            self.line += 1;
        }
        Ok(byte)
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        loop {
            let Some(byte) = self.byte()? else {
                if self.array == Some(true) && !self.ended {
                    bail!("the file ends before its array does");
                }
                return Ok(None);
            };
            match byte {
                // White space, or the byte order mark at the beginning.
                b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF => {}
                b'[' if self.array.is_none() => self.array = Some(true),
                b',' if self.array == Some(true) && !self.ended => {}
                b']' if self.array == Some(true) && !self.ended => self.ended = true,
                b'{' if !self.ended => {
                    self.array.get_or_insert(false);
                    let line = self.line;
                    self.read_object(line)?;
                    return parse(&self.text, line).map(Some);
                }
                other => bail!(
                    "line {}: expected a document, found `{}`",
                    self.line,
                    other.escape_ascii()
                ),
            }
        }
    }

    /// Reads up to the brace that closes the one that was read last.
    fn read_object(&mut self, line: u64) -> Result<()> {
        self.text.clear();
        self.text.push(b'{');
        let mut depth = 1u32;
        let mut in_string = false;
        while depth > 0 {
            let Some(byte) = self.byte()? else {
                bail!("the file ends inside the document that begins at line {line}");
            };
            self.text.push(byte);
            match byte {
                b'"' => in_string = !in_string,
                b'\\' if in_string => {
                    let escaped = self.byte()?;
                    self.text.extend(escaped);
                }
                b'{' if !in_string => depth += 1,
                b'}' if !in_string => depth -= 1,
                _ => {}
            }
            if self.text.len() > TEXT_BYTES_MAX {
                bail!("the document that begins at line {line} is too long");
            }
        }
        Ok(())
    }
}

/// Documents one after another, as bytes.
pub(super) struct BsonReader<R> {
    reader: R,
    offset: u64,
}

impl<R: BufRead> BsonReader<R> {
    fn next(&mut self) -> Result<Option<DocBuf>> {
        if self.reader.fill_buf().context("cannot read the file")?.is_empty() {
            return Ok(None);
        }
        let mut prefix = [0u8; 4];
        let cut = || format!("the document at byte {} is cut off", self.offset);
        self.reader.read_exact(&mut prefix).with_context(cut)?;
        let length = usize::try_from(i32::from_le_bytes(prefix)).unwrap_or(0);
        if !(5..=limits::DOCUMENT_BYTES_MAX_INTERNAL).contains(&length) {
            bail!("there is no BSON document at byte {}: its length is wrong", self.offset);
        }
        let mut bytes = vec![0; length];
        let (start, rest) = bytes.split_at_mut(4);
        start.copy_from_slice(&prefix);
        self.reader.read_exact(rest).with_context(cut)?;
        validate::validate(&bytes, limits::DEPTH_MAX_WIRE)
            .with_context(|| format!("the document at byte {} is damaged", self.offset))?;
        self.offset += length as u64;
        Ok(Some(DocBuf::from_bytes(bytes)))
    }
}

/// One document on each row.
pub(super) struct CsvReader<R> {
    reader: csv::Reader<R>,
    /// Columns as paths with their position in a row; those with the same parent are adjacent.
    columns: Vec<(Vec<String>, usize)>,
    options: CsvOptions,
    record: csv::StringRecord,
}

impl<R: BufRead> CsvReader<R> {
    fn new(reader: R, options: CsvOptions) -> Result<CsvReader<R>> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(options.fields.is_empty())
            .flexible(true)
            .from_reader(reader);
        let names: Vec<String> = if options.fields.is_empty() {
            let headers = reader.headers().context("cannot read the names of the columns")?;
            headers.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect()
        } else {
            options.fields.clone()
        };
        let columns = columns(&names)?;
        Ok(CsvReader { reader, columns, options, record: csv::StringRecord::new() })
    }

    fn next(&mut self) -> Result<Option<DocBuf>> {
        if !self.reader.read_record(&mut self.record).context("cannot read a row")? {
            return Ok(None);
        }
        if self.record.len() > self.columns.len() {
            let line = self.record.position().map_or(0, csv::Position::line);
            bail!(
                "line {line} has {} cells, but there are {} columns",
                self.record.len(),
                self.columns.len()
            );
        }
        let doc = DocBuf::build(|out| self.write(out, 0, 0, self.columns.len()));
        Ok(Some(doc))
    }

    /// Writes the columns from `from` to `to`, which have their first `depth` names in common.
    fn write(&self, out: &mut Writer<'_>, depth: usize, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let Some((path, column)) = self.columns.get(at) else { return };
            let Some(name) = path.get(depth) else { return };
            if path.len() == depth + 1 {
                if let Some(cell) = self.record.get(*column)
                    && !(cell.is_empty() && self.options.ignore_blanks)
                {
                    let value = if self.options.strings { Val::String(cell) } else { guess(cell) };
                    out.append(name, value);
                }
                at += 1;
            } else {
                let same = |(other, _): &(Vec<String>, usize)| other.get(depth) == Some(name);
                let group = self.columns.get(at..to).unwrap_or(&[]);
                let end = at + group.iter().take_while(|column| same(column)).count();
                out.doc(name, |nested| self.write(nested, depth + 1, at, end));
                at = end;
            }
        }
    }
}

/// Splits dotted names and groups columns with the same parent, otherwise in file order.
fn columns(names: &[String]) -> Result<Vec<(Vec<String>, usize)>> {
    let mut columns: Vec<(Vec<String>, usize)> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            bail!("column {} has an empty name or part of a name: `{name}`", number + 1);
        }
        if path.len() > limits::DEPTH_MAX {
            bail!("column `{name}` is nested too deeply");
        }
        for (other, _) in &columns {
            if path.starts_with(other) || other.starts_with(&path) {
                bail!("column `{name}` conflicts with column `{}`", other.join("."));
            }
        }
        // After the column with which it has most names in common.
        let shared = |other: &[String]| {
            other.iter().zip(&path).take_while(|(theirs, ours)| theirs == ours).count()
        };
        let longest = columns.iter().map(|(other, _)| shared(other)).max().unwrap_or(0);
        let place = match longest {
            0 => columns.len(),
            _ => columns
                .iter()
                .rposition(|(other, _)| shared(other) == longest)
                .map_or(columns.len(), |last| last + 1),
        };
        columns.insert(place, (path, number));
    }
    Ok(columns)
}

/// The value of a cell: a number or boolean if its text is in the usual form of one, otherwise a
/// string. Dates, and numbers that would be printed differently (`007`, `+1`, `.5`, `1_000`), stay
/// strings.
fn guess(cell: &str) -> Val<'_> {
    match cell {
        "true" => return Val::Bool(true),
        "false" => return Val::Bool(false),
        _ => {}
    }
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    let starts_well = match digits.as_bytes() {
        [b'0'] => true,
        [b'0', second, ..] => *second == b'.',
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    if !starts_well || !digits.ends_with(|c: char| c.is_ascii_digit()) {
        return Val::String(cell);
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if let Ok(small) = cell.parse::<i32>() {
            return Val::Int32(small);
        }
        // A number of more than 64 bits is more likely an identifier than a quantity.
        return cell.parse::<i64>().map_or(Val::String(cell), Val::Int64);
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) {
        return match cell.parse::<f64>() {
            Ok(number) if number.is_finite() => Val::Double(number),
            _ => Val::String(cell),
        };
    }
    Val::String(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(format: FileFormat, bytes: &[u8], csv: CsvOptions) -> Result<Vec<String>> {
        let mut input = Input::new(format, bytes, csv)?;
        let mut all = Vec::new();
        while let Some(doc) = input.next()? {
            all.push(ejson::print(doc.as_doc(), ejson::Format::Shell));
        }
        Ok(all)
    }

    fn text(format: FileFormat, text: &str) -> Result<Vec<String>> {
        read_all(format, text.as_bytes(), CsvOptions::default())
    }

    fn shell(text: &str) -> String {
        ejson::print(ejson::parse_doc(text).unwrap().as_doc(), ejson::Format::Shell)
    }

    #[test]
    fn a_json_array_is_read_document_by_document() {
        let file = "\u{feff}[\n {\"a\": \"}{\\\"\", \"b\": {\"c\": [1, {}]}},\n{\"_id\": {\"$numberLong\": \"5\"}}\n]\n";
        let expected = [shell("{a: '}{\\\"', b: {c: [1, {}]}}"), shell("{_id: NumberLong(5)}")];
        assert_eq!(text(FileFormat::Json, file).unwrap(), expected);
    }

    #[test]
    fn json_documents_may_follow_each_other() {
        assert_eq!(text(FileFormat::Json, "{\"a\":1}\n{\"a\":2}{\"a\":3}").unwrap().len(), 3);
        assert_eq!(text(FileFormat::Json, "").unwrap().len(), 0);
        assert_eq!(text(FileFormat::Json, "[]").unwrap().len(), 0);
    }

    #[test]
    fn broken_json_says_where() {
        for (file, word) in [
            ("[{\"a\":1}", "ends before its array"),
            ("[{\"a\":1", "begins at line 1"),
            ("{\"a\":1}\n\n{\"a\":}", "begins at line 3"),
            ("[1]", "found `1`"),
            ("[] {\"a\":1}", "found `{`"),
        ] {
            let error = format!("{:#}", text(FileFormat::Json, file).unwrap_err());
            assert!(error.contains(word), "{file}: {error}");
        }
    }

    #[test]
    fn lines_are_documents_and_empty_ones_are_skipped() {
        let lines = "{\"a\":1}\n\n  \n{\"a\":{\"$date\":\"2020-01-01T00:00:00Z\"}}";
        assert_eq!(text(FileFormat::Ndjson, lines).unwrap().len(), 2);
        let error = format!("{:#}", text(FileFormat::Ndjson, "{}\n{\"a\"").unwrap_err());
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn bson_is_checked() {
        let doc = ejson::parse_doc("{a: 1, b: 'x'}").unwrap();
        let mut bytes = [doc.bytes(), doc.bytes()].concat();
        assert_eq!(read_all(FileFormat::Bson, &bytes, CsvOptions::default()).unwrap().len(), 2);
        for length in doc.bytes().len() + 1..bytes.len() {
            let cut = read_all(FileFormat::Bson, &bytes[..length], CsvOptions::default());
            assert!(cut.is_err(), "cut at {length}");
        }
        bytes[4] = 0x77;
        assert!(read_all(FileFormat::Bson, &bytes, CsvOptions::default()).is_err());
        assert!(read_all(FileFormat::Bson, &[0; 8], CsvOptions::default()).is_err());
    }

    #[test]
    fn csv_cells_become_values_by_their_look() {
        let rows = "_id,a.b,c,a.d\n1,2.5,true,x\n12345678901,,2020-01-01,007\n";
        assert_eq!(
            text(FileFormat::Csv, rows).unwrap(),
            [
                shell("{_id: 1, a: {b: 2.5, d: 'x'}, c: true}"),
                shell("{_id: NumberLong(12345678901), a: {b: '', d: '007'}, c: '2020-01-01'}"),
            ]
        );
        for (cell, expected) in [
            ("0", Val::Int32(0)),
            ("-5", Val::Int32(-5)),
            ("0.5", Val::Double(0.5)),
            ("1e3", Val::Double(1000.0)),
            ("1e999", Val::String("1e999")),
            ("+1", Val::String("+1")),
            (".5", Val::String(".5")),
            ("5.", Val::String("5.")),
            ("NaN", Val::String("NaN")),
            ("-", Val::String("-")),
            ("1-2", Val::String("1-2")),
            ("TRUE", Val::String("TRUE")),
            ("99999999999999999999", Val::String("99999999999999999999")),
        ] {
            assert_eq!(guess(cell), expected, "{cell}");
        }
    }

    #[test]
    fn csv_options_name_columns_and_keep_text() {
        let options = CsvOptions {
            fields: vec!["a".to_owned(), "b".to_owned()],
            ignore_blanks: true,
            strings: true,
        };
        let rows = read_all(FileFormat::Csv, b"1,\n2,3\n4\n", options).unwrap();
        assert_eq!(rows, [shell("{a: '1'}"), shell("{a: '2', b: '3'}"), shell("{a: '4'}")]);
    }

    #[test]
    fn contradicting_columns_and_long_rows_are_refused() {
        assert!(text(FileFormat::Csv, "a,a\n1,2\n").is_err());
        assert!(text(FileFormat::Csv, "a,a.b\n1,2\n").is_err());
        assert!(text(FileFormat::Csv, "a,\n1,2\n").is_err());
        assert!(text(FileFormat::Csv, "a\n1,2\n").is_err());
    }
}
