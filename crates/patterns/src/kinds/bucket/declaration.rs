//! Declarations of the kind `bucket`.

use super::Bucket;
use super::settings::{Extent, OnDuplicate, RolledUp, Settings};
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::paths;
use std::sync::Arc;
use value::path::Path;
use value::{DocBuf, Result, Val};

/// The most points of a bucket, if nothing else is said.
const COUNT_MAX: usize = 1000;
/// The most bytes of a bucket's points, if nothing else is said.
const BYTES_MAX: usize = 131_072;
/// The most that can be said: a bucket is one document in the raw view.
const COUNT_LIMIT: usize = 100_000;
const BYTES_LIMIT: usize = 8 << 20;

const STATISTICS: [&str; 4] = ["min", "max", "sum", "count"];

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let keys = key_paths(options)?;
    let time = options.path("time")?.ok_or_else(|| options.missing("time"))?;
    for key in &keys {
        if paths::meet(key, time) {
            return Err(options.bad(format!("'key' and 'time' conflict: '{key}' and '{time}'")));
        }
    }
    if paths::meet(time, "_id") {
        return Err(options.bad("'time' cannot be '_id'"));
    }
    let span = span(options)?;
    let (count_max, bytes_max) = (options.positive("maxCount")?, options.positive("maxBytes")?);
    for (name, given, limit) in
        [("maxCount", count_max, COUNT_LIMIT), ("maxBytes", bytes_max, BYTES_LIMIT)]
    {
        if given.is_some_and(|given| given > limit) {
            return Err(options.bad(format!("'{name}' cannot be above {limit}")));
        }
    }
    let extent = match span {
        Given::Time(ms, _) => Extent::Time(ms),
        _ => Extent::Size,
    };
    let rollup = options.document("rollup")?;
    let (fields, levels) = rolled_up(options, time, &span)?;
    let unique = options.boolean("unique")?.unwrap_or(false);
    let on_duplicate = options.choice("onDuplicate", &["reject", "replace", "keep"], &[])?;
    if on_duplicate != "reject" && !unique {
        return Err(options.bad(format!("'onDuplicate: {on_duplicate}' needs 'unique: true'")));
    }
    let out_of_order = options.choice("outOfOrder", &["accept"], &[])?;
    let expires = options.positive("expireAfterSeconds")?.map(|seconds| seconds as i64);
    // The span of pages says how large they are; of 'maxCount' and 'maxBytes' the other one counts.
    let (count_default, bytes_default) = match span {
        Given::Time(..) => (COUNT_MAX, BYTES_MAX),
        Given::Count(_) => (COUNT_MAX, BYTES_LIMIT),
        Given::Bytes(_) => (COUNT_LIMIT, BYTES_MAX),
    };
    let (count_max, bytes_max) =
        (count_max.unwrap_or(count_default), bytes_max.unwrap_or(bytes_default));
    let declared = DocBuf::build(|out| {
        out.array("key", |list| keys.iter().for_each(|key| list.push(Val::String(key))));
        out.str("time", time);
        match &span {
            Given::Time(_, text) => {
                out.str("span", text);
            }
            Given::Count(count) => {
                out.doc("span", |out| {
                    out.count("count", *count as u64);
                });
            }
            Given::Bytes(bytes) => {
                out.doc("span", |out| {
                    out.count("bytes", *bytes as u64);
                });
            }
        }
        out.count("maxCount", count_max as u64).count("maxBytes", bytes_max as u64);
        if rollup.is_some() {
            out.doc("rollup", |out| {
                out.doc("fields", |out| {
                    for field in &fields {
                        out.array(field.path.text(), |list| {
                            for name in STATISTICS.iter().filter(|name| has(field, name)) {
                                list.push(Val::String(name));
                            }
                        });
                    }
                });
                out.array("levels", |list| {
                    levels.iter().for_each(|(_, text)| list.push(Val::String(text)));
                });
            });
        }
        out.bool("unique", unique).str("onDuplicate", on_duplicate);
        out.str("outOfOrder", out_of_order);
        if let Some(seconds) = expires {
            out.count("expireAfterSeconds", seconds as u64);
        }
    });
    let settings = Settings {
        name: options.text("name")?.unwrap_or("bucket").to_owned(),
        collection: collection.to_owned(),
        keys: keys.iter().map(|key| Path::new(key)).collect(),
        time: Path::new(time),
        extent,
        count_max: match span {
            Given::Count(count) => count,
            _ => count_max,
        },
        bytes_max: match span {
            Given::Bytes(bytes) => bytes,
            _ => bytes_max,
        },
        rolls_up: rollup.is_some(),
        fields,
        levels,
        unique,
        on_duplicate: match on_duplicate {
            "replace" => OnDuplicate::Replace,
            "keep" => OnDuplicate::Keep,
            _ => OnDuplicate::Reject,
        },
        expires,
    };
    let kind = Box::new(Bucket::new(Arc::new(settings)));
    Ok(Parsed { kind, target: collection.to_owned(), declared })
}

fn has(field: &RolledUp, name: &str) -> bool {
    match name {
        "min" => field.min,
        "max" => field.max,
        "sum" => field.sum,
        _ => field.count,
    }
}

fn key_paths<'a>(options: &mut Options<'a>) -> Result<Vec<&'a str>> {
    let list = options.array("key")?.ok_or_else(|| options.missing("key"))?;
    let mut keys: Vec<&str> = Vec::new();
    for (_, key) in list {
        let Some(key) = key.get().as_str() else {
            return Err(options.bad("'key' must be an array of paths"));
        };
        options.check_path("key", key)?;
        if key == "_id" {
            return Err(options.bad("'key' cannot name '_id': every point would be a series"));
        }
        if let Some(known) = keys.iter().find(|known| paths::meet(known, key)) {
            return Err(options.bad(match *known == key {
                true => format!("'key' names '{key}' twice"),
                false => format!("'key' names both '{known}' and '{key}'"),
            }));
        }
        keys.push(key);
    }
    if keys.len() > 16 {
        return Err(options.bad("'key' cannot name more than 16 paths"));
    }
    Ok(keys)
}

/// The option `span` as it was given.
enum Given<'a> {
    Time(i64, &'a str),
    Count(usize),
    Bytes(usize),
}

/// A number and one of the units s, m, h and d, in milliseconds.
fn duration(text: &str) -> Option<i64> {
    let whole = text.strip_suffix(['s', 'm', 'h', 'd'])?;
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    crate::declaration::common::milliseconds(text).and_then(|ms| i64::try_from(ms).ok())
}

fn span<'a>(options: &mut Options<'a>) -> Result<Given<'a>> {
    let wanted = "'span' must be a time such as '30s', '5m', '1h' or '1d' (at most 366d), \
                  {count: …} or {bytes: …}";
    match options.get("span") {
        None => Err(options.missing("span")),
        Some(Val::String(text)) => match duration(text) {
            Some(ms) => Ok(Given::Time(ms, text)),
            None => Err(options.bad(format!("{wanted}, found '{text}'"))),
        },
        Some(Val::Document(doc)) => {
            let (Some((name, value)), 1) = (doc.first(), doc.count()) else {
                return Err(options.bad(wanted));
            };
            let number = value.get().as_i64_exact().and_then(|n| usize::try_from(n).ok());
            match (name, number) {
                ("count", Some(count @ 1..=COUNT_LIMIT)) => Ok(Given::Count(count)),
                ("bytes", Some(bytes @ 1..=BYTES_LIMIT)) => Ok(Given::Bytes(bytes)),
                ("count", _) => Err(options
                    .bad(format!("'span.count' must be a whole number from 1 to {COUNT_LIMIT}"))),
                ("bytes", _) => Err(options
                    .bad(format!("'span.bytes' must be a whole number from 1 to {BYTES_LIMIT}"))),
                (other, _) => Err(options.unknown("span", other, &["count", "bytes"])),
            }
        }
        Some(_) => Err(options.bad(wanted)),
    }
}

type Levels = Vec<(i64, String)>;

fn rolled_up(
    options: &mut Options<'_>,
    time: &str,
    span: &Given<'_>,
) -> Result<(Vec<RolledUp>, Levels)> {
    let Some(doc) = options.document("rollup")? else { return Ok((Vec::new(), Vec::new())) };
    let (mut fields, mut levels): (Vec<RolledUp>, Option<Levels>) = (Vec::new(), None);
    for (name, value) in doc {
        match (name, value.get()) {
            ("fields", Val::Document(list)) => {
                for (path, statistics) in list {
                    fields.push(rolled_up_field(options, time, path, statistics.get(), &fields)?);
                }
            }
            ("fields", _) => return Err(options.bad("'rollup.fields' must be a document")),
            ("levels", Val::Array(list)) => {
                let wanted = "'rollup.levels' must be an array of times such as '1h' or '1d'";
                let mut found = Vec::new();
                for (_, level) in list {
                    let text = level.get().as_str().ok_or_else(|| options.bad(wanted))?;
                    let ms = duration(text)
                        .ok_or_else(|| options.bad(format!("{wanted}, found '{text}'")))?;
                    found.push((ms, text.to_owned()));
                }
                found.sort();
                if found
                    .windows(2)
                    .any(|pair| pair.first().map(|l| l.0) == pair.last().map(|l| l.0))
                {
                    return Err(options.bad("'rollup.levels' names one span twice"));
                }
                if found.len() > 8 {
                    return Err(options.bad("'rollup.levels' cannot name more than 8 spans"));
                }
                levels = Some(found);
            }
            ("levels", _) => return Err(options.bad("'rollup.levels' must be an array")),
            (other, _) => return Err(options.unknown("rollup", other, &["fields", "levels"])),
        }
    }
    let levels = levels.unwrap_or_else(|| match span {
        Given::Time(ms, text) => vec![(*ms, (*text).to_owned())],
        _ => Vec::new(),
    });
    Ok((fields, levels))
}

fn rolled_up_field(
    options: &Options<'_>,
    time: &str,
    path: &str,
    statistics: Val<'_>,
    known: &[RolledUp],
) -> Result<RolledUp> {
    let option = "rollup.fields";
    options.check_path(option, path)?;
    if paths::meet(path, time) {
        return Err(options.bad(format!("'{option}' names the time, '{path}'")));
    }
    if known.iter().any(|known| known.path.text() == path) {
        return Err(options.bad(format!("'{option}' names '{path}' twice")));
    }
    let wanted = format!("'{option}.{path}' must be an array of 'min', 'max', 'sum' and 'count'");
    let Val::Array(list) = statistics else { return Err(options.bad(wanted)) };
    let mut field =
        RolledUp { path: Path::new(path), min: false, max: false, sum: false, count: false };
    for (_, name) in list {
        match name.get() {
            Val::String("min") => field.min = true,
            Val::String("max") => field.max = true,
            Val::String("sum") => field.sum = true,
            Val::String("count") => field.count = true,
            _ => return Err(options.bad(wanted)),
        }
    }
    if list.is_empty() {
        return Err(options.bad(wanted));
    }
    Ok(field)
}
