//! Reading a `collation` document, with MongoDB's errors, into its full form.

use super::locale::Locale;
use crate::{Code, DocBuf, Error, RawDoc, Result, Val, ejson};

/// The collation version of MongoDB 6, which drivers and dumps repeat.
const VERSION: &str = "57.1";

/// All options of a collation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) locale: Locale,
    pub(super) case_level: bool,
    pub(super) case_first: CaseFirst,
    /// 1 to 5.
    pub(super) strength: u8,
    pub(super) numeric_ordering: bool,
    pub(super) shifted: bool,
    /// Symbols and spaces only, not punctuation.
    pub(super) space_only: bool,
    pub(super) normalization: bool,
    pub(super) backwards: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseFirst {
    Off,
    Lower,
    Upper,
}

/// The options as the client gave them, before the locale's own rules fill the rest.
#[derive(Default)]
struct GivenOptions<'a> {
    locale: Option<&'a str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<u8>,
    numeric_ordering: Option<bool>,
    shifted: Option<bool>,
    space_only: Option<bool>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'a str>,
}

/// Which option names the collation; it decides the defaults and the error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollationSource {
    /// The option of a command or an index: omitted options have the locale's defaults.
    Command,
    /// `create`: omitted options have the general defaults, for every locale.
    Create,
}

impl CollationSource {
    fn prefix(self) -> &'static str {
        match self {
            CollationSource::Command => "collation",
            CollationSource::Create => "create.collation",
        }
    }
}

/// Reads a collation; `None` is the simple one, which compares bytes.
pub(super) fn parse(doc: RawDoc<'_>, place: CollationSource) -> Result<Option<(Spec, DocBuf)>> {
    let mut written = read(doc, place)?;
    let Some(name) = written.locale else {
        return Err(Error::new(
            Code(40414),
            format!("BSON field '{}.locale' is missing but a required field", place.prefix()),
        ));
    };
    if place == CollationSource::Create {
        written.case_level.get_or_insert(false);
        written.case_first.get_or_insert(CaseFirst::Off);
        written.strength.get_or_insert(3);
        written.numeric_ordering.get_or_insert(false);
        written.shifted.get_or_insert(false);
        written.space_only.get_or_insert(false);
        written.normalization.get_or_insert(false);
    }
    let shown = || match place {
        CollationSource::Command => show(doc),
        CollationSource::Create => show(complete(&written).as_doc()),
    };
    if name == "simple" {
        return Ok(None);
    }
    if name.is_empty() {
        let message = format!("Field 'locale' cannot be the empty string in: {}", shown());
        return Err(Error::bad_value(message));
    }
    if name.contains('\0') {
        let message =
            format!("Field 'locale' cannot contain null byte. Collation spec: {}", shown());
        return Err(Error::bad_value(message));
    }
    let Some(locale) = Locale::find(name) else {
        let hint = Locale::nearest(name).map(|known| format!(". Did you mean '{known}'?"));
        return Err(Error::bad_value(format!(
            "Field 'locale' is invalid in: {}{}",
            shown(),
            hint.unwrap_or_default()
        )));
    };
    if let Some(version) = written.version
        && version != VERSION
    {
        return Err(Error::new(
            Code::INCOMPATIBLE_COLLATION_VERSION,
            format!(
                "Requested collation version {version} but the only available collator version \
                 was {VERSION}. Requested collation spec: {}",
                shown()
            ),
        ));
    }
    let own_case = if locale.upper_first() { CaseFirst::Upper } else { CaseFirst::Off };
    let spec = Spec {
        locale,
        case_level: written.case_level.unwrap_or(false),
        case_first: written.case_first.unwrap_or(own_case),
        strength: written.strength.unwrap_or(3),
        numeric_ordering: written.numeric_ordering.unwrap_or(false),
        shifted: written.shifted.unwrap_or_else(|| locale.shifted()),
        space_only: written.space_only.unwrap_or(false),
        normalization: written.normalization.unwrap_or_else(|| locale.normalized()),
        backwards: written.backwards.unwrap_or_else(|| locale.backwards()),
    };
    if spec.backwards && spec.strength == 1 {
        let message = format!("'backwards' is invalid with 'strength' of 1 in: {}", shown());
        return Err(Error::bad_value(message));
    }
    if spec.case_first != CaseFirst::Off && !spec.case_level && spec.strength < 3 {
        return Err(Error::bad_value(format!(
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {}",
            shown()
        )));
    }
    let full = complete(&GivenOptions {
        locale: Some(name),
        case_level: Some(spec.case_level),
        case_first: Some(spec.case_first),
        strength: Some(spec.strength),
        numeric_ordering: Some(spec.numeric_ordering),
        shifted: Some(spec.shifted),
        space_only: Some(spec.space_only),
        normalization: Some(spec.normalization),
        backwards: Some(spec.backwards),
        version: Some(VERSION),
    });
    Ok(Some((spec, full)))
}

fn read<'a>(doc: RawDoc<'a>, place: CollationSource) -> Result<GivenOptions<'a>> {
    let mut written = GivenOptions::default();
    let prefix = place.prefix();
    for (name, value) in doc {
        let value = value.get();
        if matches!(value, Val::Null | Val::Undefined) {
            continue;
        }
        match name {
            "locale" => written.locale = Some(text(prefix, name, value)?),
            "caseLevel" => written.case_level = Some(flag(prefix, name, value)?),
            "caseFirst" => {
                written.case_first = Some(match text(prefix, name, value)? {
                    "off" => CaseFirst::Off,
                    "lower" => CaseFirst::Lower,
                    "upper" => CaseFirst::Upper,
                    other => return Err(not_valid(prefix, name, other)),
                });
            }
            "strength" => written.strength = Some(strength(prefix, value)?),
            "numericOrdering" => written.numeric_ordering = Some(flag(prefix, name, value)?),
            "alternate" => {
                written.shifted = Some(match text(prefix, name, value)? {
                    "shifted" => true,
                    "non-ignorable" => false,
                    other => return Err(not_valid(prefix, name, other)),
                });
            }
            "maxVariable" => {
                written.space_only = Some(match text(prefix, name, value)? {
                    "space" => true,
                    "punct" => false,
                    other => return Err(not_valid(prefix, name, other)),
                });
            }
            "normalization" => written.normalization = Some(flag(prefix, name, value)?),
            "backwards" => {
                let Val::Bool(backwards) = value else {
                    return Err(Error::type_mismatch(format!(
                        "Field 'backwards' should be a boolean value, but found: {}",
                        value.kind().name()
                    )));
                };
                written.backwards = Some(backwards);
            }
            "version" => written.version = Some(text(prefix, name, value)?),
            other => {
                return Err(Error::new(
                    Code(40415),
                    format!("BSON field '{prefix}.{other}' is an unknown field."),
                ));
            }
        }
    }
    Ok(written)
}

fn wrong_type(prefix: &str, name: &str, value: Val<'_>, expected: &str) -> Error {
    Error::type_mismatch(format!(
        "BSON field '{prefix}.{name}' is the wrong type '{}', expected {expected}",
        value.kind().name()
    ))
}

fn not_valid(prefix: &str, name: &str, value: &str) -> Error {
    Error::bad_value(format!(
        "Enumeration value '{value}' for field '{prefix}.{name}' is not a valid value."
    ))
}

fn text<'a>(prefix: &str, name: &str, value: Val<'a>) -> Result<&'a str> {
    match value {
        Val::String(text) => Ok(text),
        _ => Err(wrong_type(prefix, name, value, "type 'string'")),
    }
}

fn flag(prefix: &str, name: &str, value: Val<'_>) -> Result<bool> {
    match value {
        Val::Bool(flag) => Ok(flag),
        _ => Err(wrong_type(prefix, name, value, "type 'bool'")),
    }
}

fn strength(prefix: &str, value: Val<'_>) -> Result<u8> {
    if !value.is_number() {
        let expected = "types '[long, int, decimal, double']";
        return Err(wrong_type(prefix, "strength", value, expected));
    }
    let number = value.as_f64().map_or(0.0, f64::trunc);
    if number > 5.0 {
        return Err(Error::new(
            Code(51024),
            format!("BSON field 'strength' value must be <= 5, actual value '{number}'"),
        ));
    }
    if number < 0.0 {
        return Err(Error::new(
            Code(51024),
            format!("BSON field 'strength' value must be >= 0, actual value '{number}'"),
        ));
    }
    match number as u8 {
        0 => Err(not_valid("collation", "strength", "0")),
        number => Ok(number),
    }
}

/// The document of all options, in MongoDB's order.
fn complete(written: &GivenOptions<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.str("locale", written.locale.unwrap_or(""));
        if let Some(case_level) = written.case_level {
            out.bool("caseLevel", case_level);
        }
        if let Some(case_first) = written.case_first {
            out.str(
                "caseFirst",
                match case_first {
                    CaseFirst::Off => "off",
                    CaseFirst::Lower => "lower",
                    CaseFirst::Upper => "upper",
                },
            );
        }
        if let Some(strength) = written.strength {
            out.i32("strength", i32::from(strength));
        }
        if let Some(numeric_ordering) = written.numeric_ordering {
            out.bool("numericOrdering", numeric_ordering);
        }
        if let Some(shifted) = written.shifted {
            out.str("alternate", if shifted { "shifted" } else { "non-ignorable" });
        }
        if let Some(space_only) = written.space_only {
            out.str("maxVariable", if space_only { "space" } else { "punct" });
        }
        if let Some(normalization) = written.normalization {
            out.bool("normalization", normalization);
        }
        if let Some(backwards) = written.backwards {
            out.bool("backwards", backwards);
        }
        if let Some(version) = written.version {
            out.str("version", version);
        }
    })
}

/// `{ locale: "fr" }`.
pub(super) fn show(doc: RawDoc<'_>) -> String {
    let text = ejson::print(doc, ejson::Format::Shell);
    match text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(inner) if !inner.trim().is_empty() => format!("{{ {} }}", inner.trim()),
        _ => "{}".to_owned(),
    }
}
