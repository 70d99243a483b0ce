//! Declarations of the kind `approximation`.

use super::Approximations;
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::fold::sketch::{bits_for, fraction_bits_for};
use crate::fold::{Accumulator, Flush, Folded, MissingParent, Sketch, SketchForm};
use crate::kinds::computed::declaration::{FieldForm, fields_of, fold, skips_errors};
use crate::paths;
use query::ParseContext;
use query::expr::Expr;
use value::{DocBuf, Error, RawDoc, Result, Val, Writer};

/// The error of a field that declares none.
const ERROR: f64 = 0.01;
/// What a field may be.
const FORMS: &[&str] = &["distinct", "topK", "percentiles", "count"];
/// The most values of `topK`.
const TOP_MAX: i64 = 1000;
/// The most percentiles of a field.
const RANKS_MAX: usize = 100;
/// After how many changes and milliseconds a field with `flush` is written.
const FLUSH: (i64, u64) = (100, 1000);

pub(crate) fn parse(options: &mut Options<'_>, collection: &str) -> Result<Parsed> {
    let declared_fields = fields_of(options)?;
    let mut forms = Vec::new();
    for (path, spec) in declared_fields {
        forms.push((path, form_of(options, path, spec.get())?));
    }
    let deletes = options.choice("deletes", &["exact"], &["rebuild", "ignore"])?;
    let expose = options.choice("expose", &["value", "value+bounds"], &[])?;
    let fields = DocBuf::build(|out| {
        for (path, form) in &forms {
            out.doc(path, |out| {
                form.write(out);
                if let Some(flush) = declared_flush(declared_fields, path) {
                    out.doc("flush", |out| {
                        let (every, after) = flush_parts(flush).unwrap_or(FLUSH);
                        out.count("every", every as u64).count("orMS", after);
                    });
                }
            });
        }
    });
    let field_form = FieldForm {
        fields: fields.as_doc(),
        skip_errors: skips_errors(options)?,
        ordered: false,
        parse: &|path, _, _| match forms.iter().find(|(known, _)| *known == path) {
            Some((_, form)) => form.compile(path),
            None => Err(Error::internal("a field was not read")),
        },
    };
    let flush = flush_of(options, declared_fields)?;
    let read = fold(options, collection, &field_form)?;
    let (mut fold, read) = read.ok_or_else(|| options.missing("from"))?;
    if flush.is_some() && (fold.is_own() || fold.missing == MissingParent::Create) {
        return Err(options.bad(
            "'flush' needs parents that are there: 'into' and onMissingParent: 'create' make them \
             with their first child",
        ));
    }
    fold.flush = flush;
    fold.bounds = expose == "value+bounds";
    let declared = DocBuf::build(|out| {
        out.extend(read.as_doc());
        out.str("deletes", deletes).str("expose", expose);
    });
    let target = fold.target.clone();
    Ok(Parsed { kind: Box::new(Folded { fold, form: Approximations }), target, declared })
}

/// A field as it is declared.
enum FieldSpec<'a> {
    /// The number of distinct values of an expression.
    Distinct { value: Val<'a>, error: f64, bits: u8 },
    /// The most frequent values of an expression.
    Top { value: Val<'a>, limit: usize },
    /// The numbers at these ranks.
    Percentiles { value: Val<'a>, error: f64, bits: u8, ranks: Vec<f64> },
    /// The number of children.
    Count,
}

/// Reads the declaration of a field: its form and the options of that form.
fn form_of<'a>(options: &Options<'_>, path: &str, spec: Val<'a>) -> Result<FieldSpec<'a>> {
    let place = format!("fields.{path}");
    let Val::Document(spec) = spec else {
        return Err(options.bad(format!(
            "'{place}' must be a document like {{distinct: '$field'}}, found {}",
            spec.kind().name()
        )));
    };
    let mut named = spec.iter().filter(|(name, _)| FORMS.contains(name));
    let (form, operand) = match (named.next(), named.next()) {
        (Some((form, operand)), None) => (form, operand.get()),
        (Some((one, _)), Some((other, _))) => {
            return Err(options.bad(format!("'{place}' has both '{one}' and '{other}'")));
        }
        (None, _) => {
            let Some((name, _)) = spec.first() else {
                return Err(options.bad(format!("'{place}' must be one of {}", FORMS.join(", "))));
            };
            return Err(options.unknown(&place, name, FORMS));
        }
    };
    paths::check_deterministic(operand, &format!("{place}.{form}"))?;
    let allowed: &[&str] = match form {
        "distinct" => &["distinct", "error", "flush"],
        "topK" => &["topK", "k", "flush"],
        "percentiles" => &["percentiles", "p", "error", "flush"],
        _ => &["count", "flush"],
    };
    if let Some((name, _)) = spec.iter().find(|(name, _)| !allowed.contains(name)) {
        return Err(options.unknown(&place, name, allowed));
    }
    match form {
        "distinct" => {
            let error = error_of(options, &place, spec)?;
            let bits = bits_for(error).ok_or_else(|| {
                options.bad(format!(
                    "'{place}.error' must be from 0.0021 to 0.26: a smaller one costs more than \
                     the exact number ({{$size: {{$addToSet: ...}}}} of the kind 'computed'), \
                     found {error}"
                ))
            })?;
            Ok(FieldSpec::Distinct { value: operand, error, bits })
        }
        "topK" => match spec.get("k").map_or(Some(10), Val::as_i64_exact) {
            Some(limit @ 1..=TOP_MAX) => {
                Ok(FieldSpec::Top { value: operand, limit: limit as usize })
            }
            _ => {
                Err(options.bad(format!("'{place}.k' must be a whole number from 1 to {TOP_MAX}")))
            }
        },
        "percentiles" => {
            let ranks = ranks_of(spec).ok_or_else(|| {
                options.bad(format!(
                    "'{place}.p' must be an array of 1 to {RANKS_MAX} numbers from 0 to 1"
                ))
            })?;
            let error = error_of(options, &place, spec)?;
            let bits = fraction_bits_for(error).ok_or_else(|| {
                options.bad(format!(
                    "'{place}.error' must be from 0.00013 to 0.2; {{$percentile: ...}} of the kind \
                     'computed' is exact, found {error}"
                ))
            })?;
            Ok(FieldSpec::Percentiles { value: operand, error, bits, ranks })
        }
        _ => match operand {
            Val::Document(empty) if empty.is_empty() => Ok(FieldSpec::Count),
            _ => Err(options.bad(format!("'{place}.count' must be an empty document"))),
        },
    }
}

/// The option `flush` of a field.
fn declared_flush<'a>(fields: RawDoc<'a>, path: &str) -> Option<Val<'a>> {
    let spec = fields.iter().find(|(name, _)| *name == path)?.1.as_doc()?;
    spec.get("flush").filter(|flush| !matches!(flush, Val::Null))
}

/// After how many changes and milliseconds a field is written; `None` if that makes no sense.
fn flush_parts(flush: Val<'_>) -> Option<(i64, u64)> {
    let Val::Document(doc) = flush else { return None };
    let part = |name: &str, default: i64, most: i64| {
        let number = doc.get(name).map_or(Some(default), Val::as_i64_exact)?;
        (1..=most).contains(&number).then_some(number)
    };
    let known = doc.iter().all(|(name, _)| matches!(name, "every" | "orMS"));
    let every = part("every", FLUSH.0, 1_000_000)?;
    let after = part("orMS", FLUSH.1 as i64, 3_600_000)?;
    known.then_some((every, after as u64))
}

/// What is written later: for all fields after the same number of changes and the same time.
fn flush_of(options: &Options<'_>, fields: RawDoc<'_>) -> Result<Option<Flush>> {
    let mut flush: Option<Flush> = None;
    for (at, (path, _)) in fields.iter().enumerate() {
        let Some(declared) = declared_flush(fields, path) else { continue };
        let (every, after_ms) = flush_parts(declared).ok_or_else(|| {
            options.bad(format!(
                "'fields.{path}.flush' must be {{every: 1 to 1000000, orMS: 1 to 3600000}}"
            ))
        })?;
        let later = || vec![false; fields.count()];
        let known = flush.get_or_insert_with(|| Flush { every, after_ms, fields: later() });
        if (known.every, known.after_ms) != (every, after_ms) {
            return Err(options.bad(format!(
                "'fields.{path}.flush' must be that of the other fields: they are written together"
            )));
        }
        if let Some(later) = known.fields.get_mut(at) {
            *later = true;
        }
    }
    Ok(flush)
}

fn error_of(options: &Options<'_>, place: &str, spec: RawDoc<'_>) -> Result<f64> {
    match spec.get("error") {
        None | Some(Val::Null) => Ok(ERROR),
        Some(given) => given.as_f64().ok_or_else(|| {
            options.bad(format!("'{place}.error' must be a number, found {}", given.kind().name()))
        }),
    }
}

/// The option `p`.
fn ranks_of(spec: RawDoc<'_>) -> Option<Vec<f64>> {
    let list = spec.get("p").and_then(Val::as_array)?;
    let ranks = list.iter().map(|(_, rank)| rank.get().as_f64());
    let ranks = ranks.collect::<Option<Vec<f64>>>()?;
    let fits = |rank: &f64| (0.0..=1.0).contains(rank);
    ((1..=RANKS_MAX).contains(&ranks.len()) && ranks.iter().all(fits)).then_some(ranks)
}

impl FieldSpec<'_> {
    /// Appends the form with its defaults.
    fn write(&self, out: &mut Writer<'_>) {
        match self {
            FieldSpec::Distinct { value, error, .. } => {
                out.append("distinct", *value).f64("error", *error);
            }
            FieldSpec::Top { value, limit } => {
                out.append("topK", *value).count("k", *limit as u64);
            }
            FieldSpec::Percentiles { value, error, ranks, .. } => {
                out.append("percentiles", *value);
                out.array("p", |list| ranks.iter().for_each(|rank| list.push(Val::Double(*rank))));
                out.f64("error", *error);
            }
            FieldSpec::Count => {
                out.doc("count", |_| {});
            }
        }
    }

    fn compile(&self, path: &str) -> Result<Accumulator> {
        let (value, form) = match self {
            FieldSpec::Count => return Ok(Accumulator::Count),
            FieldSpec::Distinct { value, bits, .. } => {
                (value, SketchForm::Distinct { bits: *bits })
            }
            FieldSpec::Top { value, limit } => (value, SketchForm::Top { limit: *limit }),
            FieldSpec::Percentiles { value, bits, ranks, .. } => {
                (value, SketchForm::Percentiles { bits: *bits, ranks: ranks.clone() })
            }
        };
        let value = Expr::parse(*value, &ParseContext::new(0))
            .map_err(|error| error.context(format!("fields.{path}: ")))?;
        Ok(Accumulator::Sketch(Sketch { value, form }))
    }
}

#[cfg(test)]
mod tests {
    use value::ejson;

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let cases = [
            ("{kind: 'approximation', fields: {n: {count: {}}}}", "the option 'from' is missing"),
            (
                "{kind: 'approximation', from: 'c', fields: {n: {count: {}}}}",
                "the option 'on' is missing",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: 5}}",
                "'fields.n' must be a document",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {}}}",
                "'fields.n' must be one of",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distnct: '$x'}}}",
                "'fields.n.distnct' is unknown (did you mean 'distinct'?)",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distinct: '$x', count: {}}}}",
                "'fields.n' has both 'distinct' and 'count'",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}, error: 0.01}}}",
                "'fields.n.error' is unknown",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: 5}}}",
                "'fields.n.count' must be an empty document",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distinct: '$x', error: 0.001}}}",
                "'fields.n.error' must be from 0.0021 to 0.26",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distinct: '$x', error: 0.5}}}",
                "'fields.n.error' must be from 0.0021 to 0.26",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distinct: '$x', error: 'low'}}}",
                "'fields.n.error' must be a number",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {distinct: {$rand: {}}}}}",
                "'fields.n.distinct' uses $rand",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}}}, deletes: 'ignore'}",
                "'ignore' is not available",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}}}, expose: 'bounds'}",
                "'expose' must be one of 'value', 'value+bounds'",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}}}, order: {x: 1}}",
                "'order' is not an option of the kind 'approximation'",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {topK: '$x', k: 0}}}",
                "'fields.n.k' must be a whole number from 1 to 1000",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {topK: '$x', error: 0.1}}}",
                "'fields.n.error' is unknown",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {percentiles: '$x'}}}",
                "'fields.n.p' must be an array",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {percentiles: '$x', p: [95]}}}",
                "'fields.n.p' must be an array of 1 to 100 numbers from 0 to 1",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {percentiles: '$x', p: [0.5], error: 0.5}}}",
                "'fields.n.error' must be from 0.00013 to 0.2",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}, flush: 5}}}",
                "'fields.n.flush' must be {every",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}, flush: {every: 0}}}}",
                "'fields.n.flush' must be {every",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {n: {count: {}, flush: {ms: 5}}}}",
                "'fields.n.flush' must be {every",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', fields: {a: {count: {}, flush: {}}, b: {count: {}, flush: {every: 5}}}}",
                "'fields.b.flush' must be that of the other fields",
            ),
            (
                "{kind: 'approximation', from: 'c', on: 'p', mode: {every: '1h'}, fields: {n: {count: {}, flush: {}}}}",
                "'flush' needs the mode 'sync'",
            ),
            (
                "{kind: 'approximation', into: 'g', groupBy: '$p', fields: {n: {count: {}, flush: {}}}}",
                "'flush' needs parents that are there",
            ),
        ];
        for (text, reason) in cases {
            let doc = ejson::parse_doc(text).expect("test text");
            let outcome = crate::declaration::parse("t", doc.as_doc());
            let error = outcome.map(|pattern| pattern.name).expect_err(text);
            assert!(error.message().contains(reason), "{text}: {error}");
        }
    }
}
