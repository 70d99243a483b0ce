//! `$group` by the time, by fields of the key, or by both, answered from the statistics of a level.

use super::bytes::damaged;
use super::raw::point_of_series;
use super::record::{LEVEL, parse_level_key};
use super::settings::{Settings, aligned};
use super::stats::{FieldStats, Stats};
use crate::answers::{GroupAnswer, GroupQuery, Question, equal_to, written};
use crate::layout::{Area, Records, Span};
use std::collections::HashMap;
use value::{DocBuf, OwnedVal, RawDoc, Result, Val, Writer, compare, keys};

/// 2000-01-01, to which `$dateTrunc` aligns its spans.
const REFERENCE: i64 = 946_684_800_000;
/// More groups are not put into one answer.
const GROUPS_MAX: usize = 50_000;

/// A part of `_id`.
enum Part {
    /// A field of the key, by its number.
    Key(usize),
    /// The start of the span of this length.
    Time(i64),
    Constant(OwnedVal),
}

enum Id {
    One(Part),
    Fields(Vec<(String, Part)>),
}

/// What a field of the result is made of.
enum Value {
    Points,
    Min(usize),
    Max(usize),
    Sum(usize),
    Average(usize),
}

/// A `$group` that statistics can answer.
struct Asked {
    id: Id,
    values: Vec<(String, Value)>,
    /// The times of the points, from the first up to the second, exclusive.
    first: Option<i64>,
    end: Option<i64>,
    /// Values that fields of the key must have.
    keys: Vec<(usize, OwnedVal)>,
}

/// The answer to a `$group`; `None` if the statistics do not have it.
pub(super) fn group(
    settings: &Settings,
    question: &Question<'_>,
    query: &GroupQuery<'_>,
) -> Result<Option<GroupAnswer>> {
    if settings.collection != question.collection || settings.levels.is_empty() {
        return Ok(None);
    }
    let Some(asked) = asked(settings, query) else { return Ok(None) };
    let Some(level) = level_for(settings, &asked) else { return Ok(None) };
    let Some(records) = question.snapshot.records(question.collection, question.pattern.id) else {
        return Ok(None);
    };
    // The statistics know nothing of documents that are stored as they are.
    if records.scan(Area::Documents, &Span::all())?.next()?.is_some() {
        return Ok(None);
    }
    let Some(groups) = groups(settings, &*records, level, &asked)? else { return Ok(None) };
    let docs = written(|list| {
        for (id, stats) in &groups {
            list.push_doc(|out| {
                match &asked.id {
                    Id::One(_) => {
                        let value = id.as_doc().get("v").unwrap_or(Val::Null);
                        out.append("_id", value);
                    }
                    Id::Fields(_) => {
                        out.append("_id", Val::Document(id.as_doc()));
                    }
                }
                asked.values.iter().for_each(|(name, value)| write(out, name, value, stats));
            });
        }
    });
    let stage = DocBuf::build(|out| {
        out.doc("$documents", |out| {
            out.append("$literal", Val::Array(docs.as_doc()));
        });
    });
    Ok(Some(GroupAnswer { collection: None, stage }))
}

fn write(out: &mut Writer<'_>, name: &str, value: &Value, stats: &Stats) {
    let field = |at: &usize| stats.fields.get(*at);
    let bound = |out: &mut Writer<'_>, bound: Option<&OwnedVal>| {
        out.append(name, bound.map_or(Val::Null, OwnedVal::get));
    };
    match value {
        Value::Points => {
            let points = i64::try_from(stats.points).unwrap_or(i64::MAX);
            out.append(name, i32::try_from(points).map_or(Val::Int64(points), Val::Int32));
        }
        Value::Min(at) => bound(out, field(at).and_then(|field| field.min.as_ref())),
        Value::Max(at) => bound(out, field(at).and_then(|field| field.max.as_ref())),
        Value::Sum(at) => {
            out.append(name, field(at).map_or(Val::Int32(0), |field| field.sum.total()));
        }
        Value::Average(at) => {
            let average = |field: &FieldStats| match field.numbers {
                0 => Val::Null,
                _ => field.sum.average(),
            };
            out.append(name, field(at).map_or(Val::Null, average));
        }
    }
}

/// Reads a `$group` with its filter; `None` for one that is more than statistics know.
fn asked(settings: &Settings, query: &GroupQuery<'_>) -> Option<Asked> {
    let mut asked = Asked {
        id: id(settings, query.group.get("_id")?)?,
        values: Vec::new(),
        first: None,
        end: None,
        keys: Vec::new(),
    };
    for (name, value) in query.group {
        if name != "_id" {
            asked.values.push((name.to_owned(), accumulated(settings, value.as_doc()?)?));
        }
    }
    for (name, value) in query.conditions(None)? {
        if name == settings.time.text() {
            let bounds = value.as_doc().filter(|doc| !doc.is_empty())?;
            for (operator, bound) in bounds {
                let Val::DateTime(ms) = bound.get() else { return None };
                match operator {
                    "$gte" => asked.begin(ms),
                    "$gt" => asked.begin(ms.checked_add(1)?),
                    "$lt" => asked.stop(ms),
                    "$lte" => asked.stop(ms.checked_add(1)?),
                    _ => return None,
                }
            }
            continue;
        }
        let at = settings.keys.iter().position(|key| key.text() == name)?;
        let wanted = equal_to(value).filter(|value| !matches!(value, Val::Document(_)))?;
        asked.keys.push((at, OwnedVal::new(wanted)));
    }
    Some(asked)
}

impl Asked {
    fn begin(&mut self, ms: i64) {
        self.first = Some(self.first.map_or(ms, |first| first.max(ms)));
    }

    fn stop(&mut self, ms: i64) {
        self.end = Some(self.end.map_or(ms, |end| end.min(ms)));
    }
}

fn id(settings: &Settings, value: Val<'_>) -> Option<Id> {
    let Val::Document(doc) = value else { return part(settings, value).map(Id::One) };
    if doc.first().is_some_and(|(name, _)| name.starts_with('$')) {
        return part(settings, value).map(Id::One);
    }
    let mut fields = Vec::new();
    for (name, value) in doc {
        if name.starts_with('$') || name.contains('.') {
            return None;
        }
        fields.push((name.to_owned(), part(settings, value.get())?));
    }
    (!fields.is_empty()).then_some(Id::Fields(fields))
}

fn part(settings: &Settings, value: Val<'_>) -> Option<Part> {
    match value {
        Val::String(text) => {
            let path = text.strip_prefix('$')?;
            let at = settings.keys.iter().position(|key| key.text() == path)?;
            Some(Part::Key(at))
        }
        Val::Null | Val::Int32(_) | Val::Bool(_) => Some(Part::Constant(OwnedVal::new(value))),
        Val::Document(doc) if doc.count() == 1 => {
            truncation(settings, doc.get("$dateTrunc")?.as_doc()?).map(Part::Time)
        }
        _ => None,
    }
}

/// The length of the spans of a `$dateTrunc` of the time, if they are aligned to 1970 too.
fn truncation(settings: &Settings, doc: RawDoc<'_>) -> Option<i64> {
    let (mut unit, mut size, mut date) = (None, 1_i64, false);
    for (name, value) in doc {
        match (name, value.get()) {
            ("date", Val::String(text)) => {
                date = text.strip_prefix('$') == Some(settings.time.text());
            }
            ("unit", Val::String(text)) => unit = Some(text),
            ("binSize", number) => size = number.as_i64_exact().filter(|size| *size > 0)?,
            _ => return None,
        }
    }
    let unit = match unit? {
        "second" => 1000,
        "minute" => 60_000,
        "hour" => 3_600_000,
        "day" => 86_400_000,
        _ => return None,
    };
    let span = size.checked_mul(unit)?;
    (date && REFERENCE % span == 0).then_some(span)
}

fn accumulated(settings: &Settings, doc: RawDoc<'_>) -> Option<Value> {
    let (operator, argument) = doc.first().filter(|_| doc.count() == 1)?;
    let argument = argument.get();
    if operator == "$count" {
        return argument.as_doc().filter(|doc| doc.is_empty()).map(|_| Value::Points);
    }
    if operator == "$sum" && argument == Val::Int32(1) {
        return Some(Value::Points);
    }
    let path = argument.as_str()?.strip_prefix('$')?;
    let at = settings.fields.iter().position(|field| field.path.text() == path)?;
    let field = settings.fields.get(at)?;
    match operator {
        "$min" if field.min => Some(Value::Min(at)),
        "$max" if field.max => Some(Value::Max(at)),
        "$sum" if field.sum => Some(Value::Sum(at)),
        "$avg" if field.sum => Some(Value::Average(at)),
        _ => None,
    }
}

/// The coarsest level whose spans lie inside those of the question.
fn level_for(settings: &Settings, asked: &Asked) -> Option<usize> {
    let parts: Vec<&Part> = match &asked.id {
        Id::One(part) => vec![part],
        Id::Fields(fields) => fields.iter().map(|(_, part)| part).collect(),
    };
    let fits = |span: i64| {
        let divides = |part: &&Part| match part {
            Part::Time(asked) => asked % span == 0,
            _ => true,
        };
        let bounds = [asked.first, asked.end];
        parts.iter().all(divides) && bounds.iter().flatten().all(|ms| ms.rem_euclid(span) == 0)
    };
    (0..settings.levels.len())
        .rev()
        .find(|at| settings.levels.get(*at).is_some_and(|(span, _)| fits(*span)))
}

type Groups = Vec<(DocBuf, Stats)>;

/// The groups in the order in which they are met; `None` if there are too many.
fn groups(
    settings: &Settings,
    records: &dyn Records,
    level: usize,
    asked: &Asked,
) -> Result<Option<Groups>> {
    let (mut groups, mut places): (Groups, HashMap<Vec<u8>, usize>) = (Vec::new(), HashMap::new());
    let span = Span {
        from: vec![LEVEL, level as u8],
        to: Some(vec![LEVEL, level as u8 + 1]),
        backward: false,
    };
    let mut stored = records.scan(Area::Own, &span)?;
    // The current series: its values of the key, `None` if they are not wanted.
    let mut series: Option<(Vec<u8>, Option<Vec<u8>>)> = None;
    let mut key = Vec::new();
    while let Some((stats_key, stats)) = stored.next()? {
        query::interrupt::check()?;
        let (own, start) = parse_level_key(stats_key)?;
        if asked.first.is_some_and(|first| start < first)
            || asked.end.is_some_and(|end| start >= end)
        {
            continue;
        }
        if series.as_ref().is_none_or(|(known, _)| known != own) {
            let point = point_of_series(records, own)?;
            let is_wanted = asked.keys.iter().all(|(at, wanted)| {
                let path = settings.keys.get(*at);
                path.is_some_and(|path| compare::equal(path.get(RawDoc::new(&point)), wanted.get()))
            });
            series = Some((own.to_vec(), is_wanted.then_some(point)));
        }
        let Some((_, Some(point))) = &series else { continue };
        let id = write_id(settings, &asked.id, RawDoc::new(point), start);
        key.clear();
        match &asked.id {
            // A missing value and null are one group.
            Id::One(_) => keys::encode(&mut key, id.as_doc().get("v").unwrap_or(Val::Null), false),
            Id::Fields(_) => keys::encode(&mut key, Val::Document(id.as_doc()), false),
        }
        let stats = Stats::from_doc(settings, RawDoc::new(stats));
        match places.get(&key) {
            Some(at) => groups.get_mut(*at).ok_or_else(damaged)?.1.merge(&stats),
            None => {
                places.insert(key.clone(), groups.len());
                groups.push((id, stats));
            }
        }
        if groups.len() > GROUPS_MAX {
            return Ok(None);
        }
    }
    Ok(Some(groups))
}

/// The `_id` of a group; a single value in the field `v`.
fn write_id(settings: &Settings, id: &Id, point: RawDoc<'_>, start: i64) -> DocBuf {
    DocBuf::build(|out| {
        let mut write = |name: &str, part: &Part| match part {
            Part::Key(at) => {
                if let Some(value) = settings.keys.get(*at).and_then(|path| path.find(point)) {
                    out.raw(name, value);
                }
            }
            Part::Time(span) => {
                out.append(name, Val::DateTime(aligned(start, *span)));
            }
            Part::Constant(value) => {
                out.append(name, value.get());
            }
        };
        match id {
            Id::One(part) => write("v", part),
            Id::Fields(fields) => fields.iter().for_each(|(name, part)| write(name, part)),
        }
    })
}
