//! Documents in columns: documents with the same fields in the same order share one list of names
//! and types (a shape), and the values of each field are stored together. Every document is
//! returned with the same bytes.
//!
//! Times and whole numbers are stored as lists of differences, doubles with few decimal places as
//! whole numbers, repeated texts once. What fits no shape is stored as it is.

use super::bytes::{self, Reader, damaged};
use std::collections::HashMap;
use value::{RawDoc, Result, writer};

/// The most shapes of one bucket; documents of further shapes are stored as they are.
const SHAPES_MAX: usize = 32;
/// How deep embedded documents are taken apart.
const DEPTH_MAX: usize = 8;

/// In a shape: the end of an embedded document, an embedded document that is stored as it is, and
/// a whole document that is stored as it is. No BSON type has these numbers.
const END: u8 = 0;
const EMBEDDED: u8 = 0xF3;
const WHOLE: u8 = 0xF0;
/// A column of doubles that are no whole numbers when multiplied.
const BITS: u8 = 0xFF;
/// The highest power of ten that doubles are multiplied by.
const SCALE_MAX: u8 = 9;

type Leaf<'d> = (u8, &'d [u8]);

/// Appends the names and types of a document to `shape` and its values to `leaves`. False if the
/// document could not be written again with the same bytes.
fn take_apart<'d>(
    doc: RawDoc<'d>,
    depth: usize,
    shape: &mut Vec<u8>,
    leaves: &mut Vec<Leaf<'d>>,
) -> bool {
    let whole = doc.bytes();
    let declared = whole.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize);
    if declared != Some(whole.len()) || whole.last() != Some(&0) {
        return false;
    }
    let (at, known) = (shape.len(), leaves.len());
    let mut elements = doc.iter();
    while let Some((name, value)) = elements.next_bytes() {
        if value.kind == 0x03 && depth < DEPTH_MAX {
            let before = shape.len();
            shape.push(value.kind);
            shape.extend_from_slice(name);
            shape.push(0);
            if take_apart(RawDoc::new(value.bytes), depth + 1, shape, leaves) {
                shape.push(END);
                continue;
            }
            shape.truncate(before);
        }
        let kind = if value.kind == 0x03 { EMBEDDED } else { value.kind };
        shape.push(kind);
        shape.extend_from_slice(name);
        shape.push(0);
        leaves.push((kind, value.bytes));
    }
    if !elements.rest().is_empty() {
        shape.truncate(at);
        leaves.truncate(known);
        return false;
    }
    true
}

/// Documents of one shape.
struct Rows<'d> {
    shape: Vec<u8>,
    /// The values of all documents, one document after the other.
    leaves: Vec<Leaf<'d>>,
    /// Values of one document.
    width: usize,
}

/// Appends documents in columns.
pub(super) fn encode<'d>(out: &mut Vec<u8>, docs: impl ExactSizeIterator<Item = &'d [u8]>) {
    let mut shapes: Vec<Rows<'d>> = Vec::new();
    let mut which: Vec<i64> = Vec::with_capacity(docs.len());
    let (mut shape, mut leaves) = (Vec::new(), Vec::new());
    let mut last = 0;
    for doc in docs {
        shape.clear();
        leaves.clear();
        let fits = take_apart(RawDoc::new(doc), 0, &mut shape, &mut leaves);
        let has = |rows: &Rows<'_>| rows.shape == shape;
        let mut at = match shapes.get(last).is_some_and(has) {
            true => Some(last),
            false => shapes.iter().position(has),
        };
        if !fits || (at.is_none() && shapes.len() >= SHAPES_MAX) {
            shape.clear();
            shape.push(WHOLE);
            leaves.clear();
            leaves.push((WHOLE, doc));
            at = shapes.iter().position(|rows| rows.shape == shape);
        }
        let at = at.unwrap_or_else(|| {
            let width = leaves.len();
            shapes.push(Rows { shape: shape.clone(), leaves: Vec::new(), width });
            shapes.len() - 1
        });
        if let Some(rows) = shapes.get_mut(at) {
            rows.leaves.extend_from_slice(&leaves);
        }
        which.push(at as i64);
        last = at;
    }
    bytes::number(out, which.len() as u64);
    bytes::number(out, shapes.len() as u64);
    for rows in &shapes {
        bytes::sized(out, &rows.shape);
    }
    bytes::list(out, &which);
    let mut column = Vec::new();
    for rows in &shapes {
        for field in 0..rows.width {
            column.clear();
            let values = rows.leaves.iter().skip(field).step_by(rows.width).map(|leaf| leaf.1);
            let kind = rows.leaves.get(field).map_or(WHOLE, |leaf| leaf.0);
            encode_column(&mut column, kind, values);
            bytes::sized(out, &column);
        }
    }
}

fn eight(bytes: &[u8]) -> i64 {
    bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

fn four(bytes: &[u8]) -> i64 {
    bytes.first_chunk().map_or(0, |bytes| i64::from(i32::from_le_bytes(*bytes)))
}

fn encode_column<'d>(out: &mut Vec<u8>, kind: u8, values: impl Iterator<Item = &'d [u8]>) {
    match kind {
        0x09 | 0x11 | 0x12 => bytes::list(out, &values.map(eight).collect::<Vec<_>>()),
        0x10 => bytes::list(out, &values.map(four).collect::<Vec<_>>()),
        0x08 => {
            let first = |bytes: &[u8]| bytes.first().map_or(0, |byte| i64::from(*byte));
            bytes::list(out, &values.map(first).collect::<Vec<_>>());
        }
        0x01 => encode_doubles(out, &values.map(eight).collect::<Vec<_>>()),
        0x07 => {
            let (mut times, mut places, mut counts) = (Vec::new(), Vec::new(), Vec::new());
            for id in values {
                let part = |from: usize, to: usize| {
                    let bytes = id.get(from..to).unwrap_or(&[]);
                    bytes.iter().fold(0_i64, |value, byte| value << 8 | i64::from(*byte))
                };
                times.push(part(0, 4));
                places.push(part(4, 9));
                counts.push(part(9, 12));
            }
            bytes::list(out, &times);
            bytes::list(out, &places);
            bytes::list(out, &counts);
        }
        0x06 | 0x0A | 0x7F | 0xFF => {}
        _ => encode_texts(out, &values.collect::<Vec<_>>()),
    }
}

/// Whether a double is a whole number of the inverse of a power of ten, and which.
fn scaled(bits: i64, power: f64) -> Option<i64> {
    let value = f64::from_bits(bits as u64);
    let whole = (value * power).round();
    if whole.abs() > 4_503_599_627_370_496.0 || whole.is_nan() {
        return None;
    }
    let whole = whole as i64;
    ((whole as f64 / power).to_bits() == bits as u64).then_some(whole)
}

fn encode_doubles(out: &mut Vec<u8>, values: &[i64]) {
    let mut scale = 0_u8;
    let mut power = 1.0_f64;
    for value in values {
        while scale <= SCALE_MAX && scaled(*value, power).is_none() {
            scale += 1;
            power = 10_f64.powi(i32::from(scale));
        }
        if scale > SCALE_MAX {
            break;
        }
    }
    if scale <= SCALE_MAX {
        let whole: Option<Vec<i64>> = values.iter().map(|value| scaled(*value, power)).collect();
        if let Some(whole) = whole {
            out.push(scale);
            bytes::list(out, &whole);
            return;
        }
    }
    out.push(BITS);
    let mut last = 0_i64;
    for value in values {
        // Neighbours share their first bits, which become the last ones.
        bytes::number(out, ((value ^ last) as u64).reverse_bits());
        last = *value;
    }
}

fn encode_texts(out: &mut Vec<u8>, values: &[&[u8]]) {
    let mut known: HashMap<&[u8], i64> = HashMap::new();
    let mut distinct: Vec<&[u8]> = Vec::new();
    let mut places = Vec::with_capacity(values.len());
    for value in values {
        let next = distinct.len() as i64;
        let at = *known.entry(value).or_insert_with(|| {
            distinct.push(value);
            next
        });
        places.push(at);
        if distinct.len() > 8 && distinct.len() * 2 > values.len() {
            break;
        }
    }
    if places.len() == values.len() {
        out.push(1);
        bytes::number(out, distinct.len() as u64);
        for value in &distinct {
            bytes::sized(out, value);
        }
        bytes::list(out, &places);
        return;
    }
    out.push(0);
    bytes::list(out, &values.iter().map(|value| value.len() as i64).collect::<Vec<_>>());
    for value in values {
        out.extend_from_slice(value);
    }
}

/// A column that was read.
enum Column<'a> {
    Whole { kind: u8, values: Vec<i64> },
    Doubles(Vec<i64>),
    Ids([Vec<i64>; 3]),
    Texts(Vec<&'a [u8]>),
    Nothing,
}

impl<'a> Column<'a> {
    fn read(kind: u8, bytes: &'a [u8], count: usize) -> Result<Column<'a>> {
        let reader = &mut Reader(bytes);
        Ok(match kind {
            0x08 | 0x09 | 0x10..=0x12 => {
                Column::Whole { kind, values: bytes::read_list(reader, count)? }
            }
            0x01 => Column::Doubles(read_doubles(reader, count)?),
            0x07 => Column::Ids([
                bytes::read_list(reader, count)?,
                bytes::read_list(reader, count)?,
                bytes::read_list(reader, count)?,
            ]),
            0x06 | 0x0A | 0x7F | 0xFF => Column::Nothing,
            _ => Column::Texts(read_texts(reader, count)?),
        })
    }

    /// Appends the value of a row.
    fn write(&self, out: &mut Vec<u8>, row: usize) -> Result<()> {
        match self {
            Column::Whole { kind, values } => {
                let value = values.get(row).ok_or_else(damaged)?;
                match kind {
                    0x08 => out.push(*value as u8),
                    0x10 => out.extend_from_slice(&(*value as i32).to_le_bytes()),
                    _ => out.extend_from_slice(&value.to_le_bytes()),
                }
            }
            Column::Doubles(values) => {
                out.extend_from_slice(&values.get(row).ok_or_else(damaged)?.to_le_bytes());
            }
            Column::Ids([times, places, counts]) => {
                let part = |list: &[i64]| list.get(row).copied().ok_or_else(damaged);
                out.extend_from_slice(&(part(times)? as u32).to_be_bytes());
                out.extend_from_slice(part(places)?.to_be_bytes().get(3..).unwrap_or(&[]));
                out.extend_from_slice(part(counts)?.to_be_bytes().get(5..).unwrap_or(&[]));
            }
            Column::Texts(values) => {
                out.extend_from_slice(values.get(row).ok_or_else(damaged)?);
            }
            Column::Nothing => {}
        }
        Ok(())
    }
}

fn read_doubles(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>> {
    let scale = reader.byte()?;
    if scale != BITS {
        let power = 10_f64.powi(i32::from(scale));
        let whole = bytes::read_list(reader, count)?;
        return Ok(whole.iter().map(|n| (*n as f64 / power).to_bits() as i64).collect());
    }
    let mut last = 0_i64;
    let mut values = Vec::with_capacity(count.min(1 << 16));
    for _ in 0..count {
        last ^= reader.number()?.reverse_bits() as i64;
        values.push(last);
    }
    Ok(values)
}

fn read_texts<'a>(reader: &mut Reader<'a>, count: usize) -> Result<Vec<&'a [u8]>> {
    if reader.byte()? == 1 {
        let mut distinct = Vec::new();
        for _ in 0..reader.length()? {
            distinct.push(reader.sized()?);
        }
        let value = |at: &i64| {
            let at = usize::try_from(*at).map_err(|_| damaged())?;
            distinct.get(at).copied().ok_or_else(damaged)
        };
        return bytes::read_list(reader, count)?.iter().map(value).collect();
    }
    let lengths = bytes::read_list(reader, count)?;
    let text = |length: &i64| reader.take(usize::try_from(*length).map_err(|_| damaged())?);
    lengths.iter().map(text).collect()
}

/// Reads the documents in their order.
///
/// # Errors
/// If they cannot be read.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader(bytes);
    let count = reader.length()?;
    let mut shapes = Vec::new();
    for _ in 0..reader.length()? {
        shapes.push(reader.sized()?);
    }
    let which = bytes::read_list(&mut reader, count)?;
    let mut totals = vec![0_usize; shapes.len()];
    for shape in &which {
        let at = usize::try_from(*shape).map_err(|_| damaged())?;
        *totals.get_mut(at).ok_or_else(damaged)? += 1;
    }
    let mut columns: Vec<Vec<Column<'_>>> = Vec::new();
    for (shape, count) in shapes.iter().zip(&totals) {
        let mut own = Vec::new();
        for kind in leaf_kinds(shape)? {
            own.push(Column::read(kind, reader.sized()?, *count)?);
        }
        columns.push(own);
    }
    let mut next = vec![0_usize; shapes.len()];
    let mut docs = Vec::with_capacity(count.min(1 << 16));
    let mut room = 64;
    for at in which {
        let at = at as usize;
        let (Some(shape), Some(columns), Some(row)) =
            (shapes.get(at), columns.get(at), next.get_mut(at))
        else {
            return Err(damaged());
        };
        let mut doc = Vec::with_capacity(room);
        put_together(&mut doc, shape, columns, *row)?;
        *row += 1;
        room = room.max(doc.len());
        docs.push(doc);
    }
    Ok(docs)
}

/// The number of documents.
pub(super) fn count(bytes: &[u8]) -> Result<usize> {
    Reader(bytes).length()
}

/// The type and the name of a field in a shape, and the rest of the shape.
fn field(shape: &[u8]) -> Result<(u8, &[u8], &[u8])> {
    let (kind, rest) = shape.split_first().ok_or_else(damaged)?;
    if matches!(*kind, END | WHOLE) {
        return Ok((*kind, &[], rest));
    }
    let end = rest.iter().position(|byte| *byte == 0).ok_or_else(damaged)?;
    let (name, rest) = rest.split_at_checked(end + 1).ok_or_else(damaged)?;
    Ok((*kind, name, rest))
}

fn leaf_kinds(mut shape: &[u8]) -> Result<Vec<u8>> {
    let mut kinds = Vec::new();
    while !shape.is_empty() {
        let (kind, _, rest) = field(shape)?;
        if kind != END && kind != 0x03 {
            kinds.push(kind);
        }
        shape = rest;
    }
    Ok(kinds)
}

fn put_together(
    doc: &mut Vec<u8>,
    mut shape: &[u8],
    columns: &[Column<'_>],
    row: usize,
) -> Result<()> {
    let mut columns = columns.iter();
    if shape == [WHOLE] {
        return columns.next().ok_or_else(damaged)?.write(doc, row);
    }
    let mut open = vec![writer::open(doc)];
    while !shape.is_empty() {
        let (kind, name, rest) = field(shape)?;
        shape = rest;
        match kind {
            END => writer::close(doc, open.pop().ok_or_else(damaged)?),
            0x03 => {
                doc.push(kind);
                doc.extend_from_slice(name);
                open.push(writer::open(doc));
            }
            kind => {
                doc.push(if kind == EMBEDDED { 0x03 } else { kind });
                doc.extend_from_slice(name);
                columns.next().ok_or_else(damaged)?.write(doc, row)?;
            }
        }
    }
    while let Some(start) = open.pop() {
        writer::close(doc, start);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::ejson;

    fn same(texts: &[&str]) -> usize {
        let docs: Vec<_> =
            texts.iter().map(|text| ejson::parse_doc(text).expect("test text")).collect();
        let mut out = Vec::new();
        encode(&mut out, docs.iter().map(|doc| doc.bytes()));
        let back = decode(&out).expect("whole");
        assert_eq!(back, docs.iter().map(|doc| doc.bytes().to_vec()).collect::<Vec<_>>());
        out.len()
    }

    #[test]
    fn documents_come_back_byte_for_byte() {
        same(&[]);
        same(&["{}"]);
        same(&[
            "{_id: 1, s: 'a', v: 22.1, n: NumberLong(7), d: NumberDecimal('1.0')}",
            "{_id: 2, s: 'a', v: 22.3, n: NumberLong(8), d: NumberDecimal('1.00')}",
            "{s: 'a', _id: 3, v: -0.0}",
            "{_id: 4, v: {$numberDouble: 'NaN'}, m: {a: {b: [1, 2]}, c: null}, t: true}",
            "{_id: {$oid: '507f1f77bcf86cd799439011'}, m: {}, a: [], x: {$minKey: 1}}",
            "{_id: {$oid: '507f1f77bcf86cd799439012'}, m: {}, a: [], x: {$minKey: 1}}",
            "{_id: 5, v: 1e300, b: {$binary: {base64: 'AA==', subType: '04'}}}",
            "{_id: 6, v: 0.1, re: /a/i, ts: Timestamp(1, 2), '': 1, '': 2}",
        ]);
    }

    #[test]
    fn many_shapes_and_deep_documents_are_kept_as_they_are() {
        let texts: Vec<String> = (0..100).map(|n| format!("{{_id: {n}, f{n}: {n}}}")).collect();
        same(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let deep = format!("{}1{}", "{a: ".repeat(20), "}".repeat(20));
        same(&[&deep, &deep]);
    }

    #[test]
    fn readings_take_few_bytes() {
        let texts: Vec<String> = (0..1000)
            .map(|n| {
                format!(
                    "{{_id: {{$oid: '507f1f77bcf86cd799{:06x}'}}, sensor_id: 7, ts: {{$date: {{$numberLong: '{}'}}}}, temp: {}.{}}}",
                    n * 50,
                    1_700_000_000_000_i64 + n * 30_000,
                    20 + n % 3,
                    n % 7
                )
            })
            .collect();
        let bytes = same(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(bytes < 1500, "{bytes}");
    }

    #[test]
    fn damaged_columns_are_refused() {
        let doc = ejson::parse_doc("{_id: 1, v: 1.5, s: 'x', o: {p: 1}}").expect("test text");
        let mut out = Vec::new();
        encode(&mut out, [doc.bytes(), doc.bytes()].into_iter());
        for at in 0..out.len() {
            let _ = decode(&out[..at]);
            for bit in 0..8 {
                let mut other = out.clone();
                other[at] ^= 1 << bit;
                let _ = decode(&other);
            }
        }
    }
}
