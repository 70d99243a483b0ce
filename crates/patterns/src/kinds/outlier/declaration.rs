//! The options of `outlier`.

use super::Outlier;
use super::layout::Overflow;
use super::settings::{Bound, Settings, Which};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths::meet;
use value::path::Path;
use value::{DocBuf, Result, Val};

/// What is declared if nothing is said.
const KEEP: usize = 50;
const SPILL_AT: Bound = Bound { count: 200, bytes: 65_536 };
const CHUNK_COUNT: usize = 1000;

/// The bytes after which a chunk is full.
const CHUNK_BYTES: usize = 256 * 1024;

/// The limits of the options.
const KEEP_LIMIT: usize = 10_000;
const COUNT_LIMIT: usize = 1_000_000;
const BYTES_LIMIT: usize = 8 * 1024 * 1024;
const CHUNK_LIMIT: usize = 100_000;

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let array = options.path("array")?.ok_or_else(|| options.missing("array"))?;
    if meet(array, "_id") {
        return Err(options.bad("'array' cannot be '_id' or a part of it"));
    }
    let (spill_count, spill_bytes) = bound(options, "spillAt", &["count", "bytes"])?;
    let spill_at = Bound {
        count: spill_count.unwrap_or(SPILL_AT.count),
        bytes: spill_bytes.unwrap_or(SPILL_AT.bytes),
    };
    let (unspill_count, _) = bound(options, "unspillAt", &["count"])?;
    let unspill_at =
        Bound { count: unspill_count.unwrap_or(spill_at.count / 2), bytes: spill_at.bytes / 2 };
    if unspill_at.count > spill_at.count {
        return Err(options.bad(format!(
            "'unspillAt.count' ({}) cannot be above 'spillAt.count' ({})",
            unspill_at.count, spill_at.count
        )));
    }
    let keep = options.positive("keep")?;
    let keep = keep.unwrap_or(KEEP.min(spill_at.count));
    if keep > spill_at.count || keep > KEEP_LIMIT {
        return Err(options.bad(format!(
            "'keep' ({keep}) cannot be above 'spillAt.count' ({}) or {KEEP_LIMIT}",
            spill_at.count
        )));
    }
    if matches!(options.get("keepWhich"), Some(Val::Document(_))) {
        return Err(options.not_available("'keepWhich' with a sort"));
    }
    let which = options.choice("keepWhich", &["last", "first"], &[])?;
    let (chunk_count, _) = bound(options, "chunk", &["count"])?;
    let chunk = Bound { count: chunk_count.unwrap_or(CHUNK_COUNT), bytes: CHUNK_BYTES };
    if chunk.count > CHUNK_LIMIT {
        return Err(options.bad(format!("'chunk.count' cannot be above {CHUNK_LIMIT}")));
    }
    let (flag, count) = (options.path("flag")?, options.path("count")?);
    for (name, field) in [("flag", flag), ("count", count)] {
        if let Some(field) = field.filter(|field| meet(field, array)) {
            return Err(
                options.bad(format!("'{name}' and 'array' conflict: '{field}' and '{array}'"))
            );
        }
    }
    let read = options.choice("read", &["head", "full"], &[])?;
    let declared = DocBuf::build(|out| {
        out.str("array", array).count("keep", keep as u64).str("keepWhich", which);
        out.doc("spillAt", |out| {
            out.count("count", spill_at.count as u64).count("bytes", spill_at.bytes as u64);
        });
        out.doc("unspillAt", |out| {
            out.count("count", unspill_at.count as u64);
        });
        out.doc("chunk", |out| {
            out.count("count", chunk.count as u64);
        });
        for (name, field) in [("flag", flag), ("count", count)] {
            out.append(name, field.map_or(Val::Missing, Val::String));
        }
        out.str("read", read);
    });
    let settings = Settings {
        array: Path::new(array),
        keep,
        which: if which == "first" { Which::First } else { Which::Last },
        spill_at,
        unspill_at,
        chunk,
        reads_head: read == "head",
        flag: flag.map(Path::new),
        count: count.map(Path::new),
    };
    let kind = Box::new(Outlier { layout: Overflow::new(settings) });
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

/// The numbers of elements and of bytes in an option with these names.
fn bound(
    options: &mut Options<'_>,
    option: &'static str,
    names: &[&str],
) -> Result<(Option<usize>, Option<usize>)> {
    let mut found = (None, None);
    for (name, value) in options.document(option)?.unwrap_or(value::RawDoc::empty()) {
        if !names.contains(&name) {
            return Err(options.unknown(option, name, names));
        }
        let (limit, at) = match name {
            "bytes" => (BYTES_LIMIT, &mut found.1),
            _ => (COUNT_LIMIT, &mut found.0),
        };
        let least = usize::from(option != "unspillAt");
        let number = value.get().as_i64_exact().filter(|_| value.get().is_number());
        let number = number.and_then(|number| usize::try_from(number).ok());
        let fits = number.filter(|number| (least..=limit).contains(number));
        *at = Some(fits.ok_or_else(|| {
            options.bad(format!("'{option}.{name}' must be a whole number from {least} to {limit}"))
        })?);
    }
    Ok(found)
}
