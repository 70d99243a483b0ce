//! Declarations of the kind `approximation`.

use super::Approximations;
use crate::declaration::Parsed;
use crate::declaration::options::Options;
use crate::fold::sketch::bits_for;
use crate::fold::{Accumulator, Folded, Sketch, SketchForm};
use crate::kinds::computed::declaration::{FieldForm, fields_of, fold, skips_errors};
use crate::paths;
use query::ParseContext;
use query::expr::Expr;
use value::{DocBuf, Error, RawDoc, Result, Val, Writer};

/// The error of a field that declares none.
const ERROR: f64 = 0.01;
/// What a field may be.
const FORMS: &[&str] = &["distinct", "count"];
/// Forms of the specification that are not implemented yet.
const LATER: &[&str] = &["topK", "percentiles"];

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
            out.doc(path, |out| form.write(out));
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
    let read = fold(options, collection, &field_form)?;
    let (mut fold, read) = read.ok_or_else(|| options.missing("from"))?;
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
    let known = |name: &str| FORMS.contains(&name) || LATER.contains(&name);
    let mut named = spec.iter().filter(|(name, _)| known(name));
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
    if LATER.contains(&form) {
        return Err(options.not_available(format!("'{place}.{form}'")));
    }
    paths::check_deterministic(operand, &format!("{place}.{form}"))?;
    let allowed: &[&str] = if form == "distinct" { &["distinct", "error"] } else { &["count"] };
    if let Some((name, _)) = spec.iter().find(|(name, _)| !allowed.contains(name)) {
        if (form, name) == ("count", "flush") {
            return Err(options.not_available(format!("'{place}.flush'")));
        }
        return Err(options.unknown(&place, name, allowed));
    }
    match form {
        "count" => match operand {
            Val::Document(empty) if empty.is_empty() => Ok(FieldSpec::Count),
            _ => Err(options.bad(format!("'{place}.count' must be an empty document"))),
        },
        _ => {
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
    }
}

fn error_of(options: &Options<'_>, place: &str, spec: RawDoc<'_>) -> Result<f64> {
    match spec.get("error") {
        None | Some(Val::Null) => Ok(ERROR),
        Some(given) => given.as_f64().ok_or_else(|| {
            options.bad(format!("'{place}.error' must be a number, found {}", given.kind().name()))
        }),
    }
}

impl FieldSpec<'_> {
    /// Appends the form with its defaults.
    fn write(&self, out: &mut Writer<'_>) {
        match self {
            FieldSpec::Distinct { value, error, .. } => {
                out.append("distinct", *value).f64("error", *error);
            }
            FieldSpec::Count => {
                out.doc("count", |_| {});
            }
        }
    }

    fn compile(&self, path: &str) -> Result<Accumulator> {
        match self {
            FieldSpec::Distinct { value, bits, .. } => {
                let value = Expr::parse(*value, &ParseContext::new(0))
                    .map_err(|error| error.context(format!("fields.{path}: ")))?;
                let form = SketchForm::Distinct { bits: *bits };
                Ok(Accumulator::Sketch(Sketch { value, form }))
            }
            FieldSpec::Count => Ok(Accumulator::Count),
        }
    }
}
