//! The modifiers: the registry of update operators, and those that change one value. Operators on
//! arrays are in `array`.

use super::array::{self, Pull, Push};
use super::array_filter::ArrayFilters;
use super::rename::Rename;
use super::tree::{Tree, identifier};
use crate::ParseContext;
use crate::expr::number;
use crate::show::{show, show_doc};
use std::cell::Cell;
use std::sync::Arc;
use value::compare::compare_with;
use value::{Code, Collation, DocBuf, Error, OwnedVal, RawDoc, RawVal, Result, Val, Writer};

/// All modifiers of an update.
#[derive(Debug)]
pub(super) struct Modifiers {
    pub(super) tree: Tree,
    pub(super) modifiers: Vec<Modifier>,
    pub(super) array_filters: ArrayFilters,
    renames: Vec<Rename>,
    /// Whether some path has the positional `$`.
    pub(super) positional: bool,
    /// Deepest nesting that the update can write.
    pub(super) deepest: usize,
    /// A top-level name with a dollar that the update writes; only an upsert that inserts may.
    pub(super) dollar_name: Option<Box<str>>,
    pub(super) collation: Option<Arc<Collation>>,
}

impl Modifiers {
    /// Adds the paths of all modifiers but `$setOnInsert`.
    pub(super) fn named_paths(&self, out: &mut Vec<String>) {
        self.tree.walk("", &mut |path, leaf| {
            if !matches!(self.modifiers.get(leaf), None | Some(Modifier::SetOnInsert(_))) {
                out.push(path.to_owned());
            }
        });
    }
}

/// What one modifier does to the value at its path.
#[derive(Debug)]
pub(super) enum Modifier {
    Set(OwnedVal),
    SetOnInsert(OwnedVal),
    Unset,
    Increment(OwnedVal),
    Multiply(OwnedVal),
    Min(OwnedVal),
    Max(OwnedVal),
    Bits(Vec<(Bits, OwnedVal)>),
    /// Receives the value of this rename.
    RenameTo(usize),
    /// Is the source of this rename.
    RenameFrom(usize),
    Push(Push),
    AddToSet(Vec<OwnedVal>),
    /// Removes the first or the last element.
    Pop {
        first: bool,
    },
    Pull(Pull),
}

/// A bitwise operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
}

/// The document and the path that a modifier changes.
pub(super) struct ModifierContext<'d> {
    pub(super) doc: RawDoc<'d>,
    /// The path, with array positions as numbers.
    pub(super) path: String,
    /// Whether an upsert inserts.
    pub(super) inserting: bool,
    /// Whether the value is an array element: removing leaves null.
    pub(super) in_array: bool,
    /// The values that are renamed, by rename.
    pub(super) renamed: Vec<Option<RawVal<'d>>>,
    /// The collation of comparisons.
    pub(super) collation: Option<&'d Collation>,
    /// Whether the update counts as a change although the bytes are the same: MongoDB does not
    /// compare arrays that it sorted or truncated, nor NaN.
    pub(super) touched: Cell<bool>,
}

impl ModifierContext<'_> {
    /// The document's `_id` for messages.
    pub(super) fn id(&self) -> String {
        match self.doc.get("_id") {
            Some(id) => format!("{{_id: {}}}", show(id)),
            None => "{no id}".into(),
        }
    }

    fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or("")
    }
}

type ParseModifier = fn(&mut Builder<'_>, &str, Val<'_>) -> Result<()>;

/// The registry, sorted by name.
static OPERATORS: &[(&str, ParseModifier)] = &[
    ("$addToSet", add_to_set),
    ("$bit", bit),
    ("$currentDate", current_date),
    ("$inc", inc),
    ("$max", max),
    ("$min", min),
    ("$mul", mul),
    ("$pop", pop),
    ("$pull", pull),
    ("$pullAll", pull_all),
    ("$push", push),
    ("$rename", rename),
    ("$set", set),
    ("$setOnInsert", set_on_insert),
    ("$unset", unset),
];

/// The names of all update operators.
pub fn operators() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name)
}

/// Collects modifiers while an update is compiled.
struct Builder<'c> {
    ctx: &'c ParseContext<'c>,
    update: Modifiers,
}

impl Modifiers {
    /// Compiles a document of modifiers.
    pub(super) fn parse(
        doc: RawDoc<'_>,
        ctx: &ParseContext<'_>,
        array_filters: &[RawDoc<'_>],
    ) -> Result<Modifiers> {
        let mut builder = Builder {
            ctx,
            update: Modifiers {
                tree: Tree::Fields(Vec::new()),
                modifiers: Vec::new(),
                array_filters: ArrayFilters::parse(array_filters, ctx)?,
                renames: Vec::new(),
                positional: false,
                deepest: 0,
                dollar_name: None,
                collation: ctx.collation.cloned(),
            },
        };
        for (operator, fields) in doc {
            let Ok(at) = OPERATORS.binary_search_by(|(name, _)| (*name).cmp(operator)) else {
                return Err(Error::failed_to_parse(format!(
                    "Unknown modifier: {operator}. Expected a valid update modifier or \
                     pipeline-style update specified as an array"
                )));
            };
            let Some(fields) = fields.as_doc() else {
                return Err(Error::failed_to_parse(format!(
                    "Modifiers operate on fields but we found type {} instead. For example: \
                     {{$mod: {{<field>: ...}}}} not {{{operator}: {}}}",
                    fields.kind().name(),
                    show(fields.get())
                )));
            };
            let Some((_, parse)) = OPERATORS.get(at) else { continue };
            for (path, value) in fields {
                parse(&mut builder, path, value.get())?;
            }
        }
        builder.update.array_filters.check_all_used(doc)?;
        Ok(builder.update)
    }

    /// The values that `$rename` moves, found before anything changes.
    pub(super) fn find_renamed<'d>(&self, doc: RawDoc<'d>) -> Result<Vec<Option<RawVal<'d>>>> {
        self.renames.iter().map(|rename| rename.find(doc)).collect()
    }
}

impl Builder<'_> {
    fn add(&mut self, path: &str, modifier: Modifier) -> Result<()> {
        self.check_path(path)?;
        let written = match &modifier {
            Modifier::Set(value) | Modifier::SetOnInsert(value) => nesting(value.get()),
            Modifier::Push(push) => 1 + push.nesting(),
            Modifier::AddToSet(values) => {
                1 + values.iter().map(|v| nesting(v.get())).max().unwrap_or(0)
            }
            // The value of a rename is not known in advance.
            Modifier::RenameTo(_) => value::limits::DEPTH_MAX,
            _ => 0,
        };
        self.update.deepest = self.update.deepest.max(path.split('.').count() + written);
        let name = path.split('.').next().unwrap_or("");
        let writes = !matches!(
            modifier,
            Modifier::Unset | Modifier::RenameFrom(_) | Modifier::SetOnInsert(_)
        );
        if name.starts_with('$') && writes {
            self.update.dollar_name.get_or_insert(name.into());
        }
        let leaf = self.update.modifiers.len();
        self.update.modifiers.push(modifier);
        self.update.tree.insert(path, leaf)
    }

    fn check_path(&mut self, path: &str) -> Result<()> {
        if path.is_empty() {
            return Err(Error::new(Code::EMPTY_FIELD_NAME, "An empty update path is not valid."));
        }
        check_path_length(path)?;
        let mut positional = 0;
        for (at, part) in path.split('.').enumerate() {
            if part.is_empty() {
                return Err(Error::new(
                    Code::EMPTY_FIELD_NAME,
                    format!(
                        "The update path '{path}' contains an empty field name, which is not \
                         allowed."
                    ),
                ));
            }
            if part == "$" {
                positional += 1;
                if at == 0 {
                    return Err(Error::bad_value(format!(
                        "Cannot have positional (i.e. '$') element in the first position in path \
                         '{path}'"
                    )));
                }
            }
            if let Some(name) = identifier(part) {
                if at == 0 {
                    return Err(Error::bad_value(format!(
                        "Cannot have array filter identifier (i.e. '$[<id>]') element in the first \
                         position in path '{path}'"
                    )));
                }
                self.update.array_filters.mark_used(name, path)?;
            }
        }
        if positional > 1 {
            return Err(Error::bad_value(format!(
                "Too many positional (i.e. '$') elements found in path '{path}'"
            )));
        }
        self.update.positional |= positional == 1;
        Ok(())
    }
}

/// Refuses paths that are longer than any document is deep.
pub(super) fn check_path_length(path: &str) -> Result<()> {
    if path.split('.').count() > 2 * value::limits::DEPTH_MAX {
        return Err(Error::new(Code::OVERFLOW, "the path has more parts than a document can have"));
    }
    Ok(())
}

/// How deep a value is nested; scalars are not.
pub(super) fn nesting(value: Val<'_>) -> usize {
    match value {
        Val::Document(doc) | Val::Array(doc) => super::depth(doc, 1),
        _ => 0,
    }
}

/// The refusal of an update that writes a top-level name with a dollar.
pub(super) fn dollar_name_error(name: &str) -> Error {
    Error::new(
        Code::DOLLAR_PREFIXED_FIELD_NAME,
        format!(
            "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an \
             update's replacement document. Consider using an aggregation pipeline with $replaceWith."
        ),
    )
}

/// The logical clock, or the wall clock where there is none.
pub(super) fn now_timestamp(ctx: &ParseContext<'_>) -> u64 {
    if ctx.cluster_time != 0 {
        return ctx.cluster_time;
    }
    let seconds = u64::try_from(ctx.now_ms / 1000).unwrap_or(0);
    seconds << 32 | 1
}

fn set(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Set(OwnedVal::new(value)))
}

fn set_on_insert(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::SetOnInsert(OwnedVal::new(value)))
}

fn unset(builder: &mut Builder<'_>, path: &str, _: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Unset)
}

fn numeric(path: &str, value: Val<'_>, verb: &str) -> Result<OwnedVal> {
    if value.is_number() {
        return Ok(OwnedVal::new(value));
    }
    Err(Error::type_mismatch(format!(
        "Cannot {verb} with non-numeric argument: {{{path}: {}}}",
        show(value)
    )))
}

fn inc(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Increment(numeric(path, value, "increment")?))
}

fn mul(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Multiply(numeric(path, value, "multiply")?))
}

fn min(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Min(OwnedVal::new(value)))
}

fn max(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Max(OwnedVal::new(value)))
}

fn current_date(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let timestamp = match value {
        Val::Bool(_) => false,
        Val::Document(doc) => {
            let mut timestamp = None;
            for (name, kind) in doc {
                if name != "$type" {
                    return Err(Error::bad_value(format!(
                        "Unrecognized $currentDate option: {name}"
                    )));
                }
                timestamp = match kind.get() {
                    Val::String("date") => Some(false),
                    Val::String("timestamp") => Some(true),
                    _ => None,
                };
            }
            timestamp.ok_or_else(|| {
                Error::bad_value(
                    "The '$type' string field is required to be 'date' or 'timestamp': \
                     {$currentDate: {field : {$type: 'date'}}}",
                )
            })?
        }
        other => {
            return Err(Error::bad_value(format!(
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
                 expression ({{$type: 'timestamp/date'}}).",
                other.kind().name()
            )));
        }
    };
    let now = if timestamp {
        Val::Timestamp(now_timestamp(builder.ctx))
    } else {
        Val::DateTime(builder.ctx.now_ms)
    };
    builder.add(path, Modifier::Set(OwnedVal::new(now)))
}

fn bit(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let Some(doc) = value.as_doc() else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
             {{$bit: {{field: {{and/or/xor: #}}}}",
            value.kind().name()
        )));
    };
    let mut operations = Vec::new();
    for (name, operand) in doc {
        let operation = match name {
            "and" => Bits::And,
            "or" => Bits::Or,
            "xor" => Bits::Xor,
            _ => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is \
                     an unknown operator: {{{name}: {}}}",
                    show(operand.get())
                )));
            }
        };
        if !matches!(operand.get(), Val::Int32(_) | Val::Int64(_)) {
            return Err(Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported \
                 here: {{{name}: {}}}",
                operand.kind().name(),
                show(operand.get())
            )));
        }
        operations.push((operation, OwnedVal::new(operand.get())));
    }
    if operations.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: \
             {and/or/xor: #}}",
        ));
    }
    builder.add(path, Modifier::Bits(operations))
}

fn rename(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let Some(to) = value.as_str() else {
        return Err(Error::bad_value(format!(
            "The 'to' field for $rename must be a string: {path}: {}",
            show(value)
        )));
    };
    let number = builder.update.renames.len();
    builder.update.renames.push(Rename { from: path.into(), to: to.into() });
    builder.add(path, Modifier::RenameFrom(number))?;
    let dynamic = |path: &str| path.split('.').any(|p| p == "$" || identifier(p).is_some());
    let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
    if path == to {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must differ: {path}: \"{to}\""
        )));
    }
    if below(path, to) || below(to, path) {
        return Err(Error::bad_value(format!(
            "The source and target field for $rename must not be on the same path: {path}: \"{to}\""
        )));
    }
    if dynamic(path) {
        return Err(Error::bad_value(format!(
            "The source field for $rename may not be dynamic: {path}"
        )));
    }
    if dynamic(to) {
        return Err(Error::bad_value(format!(
            "The destination field for $rename may not be dynamic: {to}"
        )));
    }
    builder.add(to, Modifier::RenameTo(number))
}

fn push(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    builder.add(path, Modifier::Push(Push::parse(value)?))
}

fn add_to_set(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let collation = builder.ctx.collation.map(|collation| &**collation);
    let values = array::parse_add_to_set(value, collation)?;
    builder.add(path, Modifier::AddToSet(values))
}

fn pop(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    if !value.is_number() {
        return Err(Error::failed_to_parse(format!(
            "Expected a number in: {path}: {}",
            show(value)
        )));
    }
    let first = match value.as_i64_exact() {
        Some(1) => false,
        Some(-1) => true,
        _ => {
            return Err(Error::failed_to_parse(format!(
                "$pop expects 1 or -1, found: {}",
                show(value)
            )));
        }
    };
    builder.add(path, Modifier::Pop { first })
}

fn pull(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let pull = Pull::parse(value, builder.ctx)?;
    builder.add(path, Modifier::Pull(pull))
}

fn pull_all(builder: &mut Builder<'_>, path: &str, value: Val<'_>) -> Result<()> {
    let Some(array) = value.as_array() else {
        return Err(Error::bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            value.kind().name()
        )));
    };
    let values = array.iter().map(|(_, value)| OwnedVal::new(value.get())).collect();
    builder.add(path, Modifier::Pull(Pull::Any(values)))
}

impl Modifier {
    /// Whether the modifier creates what does not exist.
    pub(super) fn creates(&self, context: &ModifierContext<'_>) -> bool {
        match self {
            Modifier::Unset
            | Modifier::RenameFrom(_)
            | Modifier::Pop { .. }
            | Modifier::Pull(_) => false,
            Modifier::SetOnInsert(_) => context.inserting,
            Modifier::RenameTo(number) => renamed(context, *number).is_some(),
            _ => true,
        }
    }

    /// Whether a modifier that creates nothing ignores a path that could not be created.
    pub(super) fn tolerates_any_path(&self) -> bool {
        !matches!(self, Modifier::Pop { .. } | Modifier::Pull(_))
    }

    /// Writes the element after the change; nothing where it is removed or not created.
    pub(super) fn apply(
        &self,
        name: &str,
        old: Option<RawVal<'_>>,
        context: &ModifierContext<'_>,
        out: &mut Writer<'_>,
    ) -> Result<()> {
        match self {
            Modifier::Set(value) => {
                out.raw(name, value.raw());
            }
            Modifier::SetOnInsert(value) => {
                write(out, name, if context.inserting { Some(value.raw()) } else { old });
            }
            Modifier::Unset => {
                if old.is_some() && context.in_array {
                    out.append(name, Val::Null);
                }
            }
            Modifier::Increment(amount) => {
                let sum = match old {
                    None => amount.get(),
                    Some(old) => arithmetic("$inc", old.get(), amount.get(), context)?,
                };
                number_or_old(name, old, sum, context, out);
            }
            Modifier::Multiply(factor) => {
                let before = old.map_or(Val::Int32(0), RawVal::get);
                let product = arithmetic("$mul", before, factor.get(), context)?;
                number_or_old(name, old, product, context, out);
            }
            Modifier::Min(value) => {
                let keep = old
                    .filter(|old| compare_with(old.get(), value.get(), context.collation).is_le());
                out.raw(name, keep.unwrap_or(value.raw()));
            }
            Modifier::Max(value) => {
                let keep = old
                    .filter(|old| compare_with(old.get(), value.get(), context.collation).is_ge());
                out.raw(name, keep.unwrap_or(value.raw()));
            }
            Modifier::Bits(operations) => {
                out.append(name, bits(operations, old, context)?);
            }
            Modifier::RenameTo(number) => write(out, name, renamed(context, *number).or(old)),
            Modifier::RenameFrom(number) => {
                if renamed(context, *number).is_none() {
                    write(out, name, old);
                }
            }
            Modifier::Push(push) => push.apply(name, old, context, out)?,
            Modifier::AddToSet(values) => array::add_to_set(values, name, old, context, out)?,
            Modifier::Pop { first } => array::pop(*first, name, old, context, out)?,
            Modifier::Pull(pull) => pull.apply(name, old, context, out)?,
        }
        Ok(())
    }
}

fn renamed<'d>(context: &ModifierContext<'d>, number: usize) -> Option<RawVal<'d>> {
    context.renamed.get(number).copied().flatten()
}

fn write(out: &mut Writer<'_>, name: &str, value: Option<RawVal<'_>>) {
    if let Some(value) = value {
        out.raw(name, value);
    }
}

/// Writes a computed number, or the old one if it equals it in value and type: zeros keep their
/// sign and decimals their exponent. NaN equals nothing.
fn number_or_old(
    name: &str,
    old: Option<RawVal<'_>>,
    new: Val<'_>,
    context: &ModifierContext<'_>,
    out: &mut Writer<'_>,
) {
    let is_nan = match new {
        Val::Double(n) => n.is_nan(),
        Val::Decimal(n) => n.is_nan(),
        _ => false,
    };
    if is_nan {
        context.touched.set(true);
    }
    let same = old
        .filter(|old| !is_nan && old.kind() == new.kind() && value::compare::equal(old.get(), new));
    match same {
        Some(old) => out.raw(name, old),
        None => out.append(name, new),
    };
}

fn arithmetic(
    operator: &str,
    old: Val<'_>,
    operand: Val<'_>,
    context: &ModifierContext<'_>,
) -> Result<Val<'static>> {
    if !old.is_number() {
        return Err(Error::type_mismatch(format!(
            "Cannot apply {operator} to a value of non-numeric type. {} has the field '{}' of \
             non-numeric type {}",
            context.id(),
            context.name(),
            old.kind().name()
        )));
    }
    let result = if operator == "$inc" {
        number::checked_add(old, operand)
    } else {
        number::checked_mul(old, operand)
    };
    result.ok_or_else(|| {
        let kind = if matches!(old, Val::Int32(_)) { "NumberInt" } else { "NumberLong" };
        Error::bad_value(format!(
            "Failed to apply {operator} operations to current value (({kind}){}) for document {}",
            show(old),
            context.id()
        ))
    })
}

fn bits(
    operations: &[(Bits, OwnedVal)],
    old: Option<RawVal<'_>>,
    context: &ModifierContext<'_>,
) -> Result<Val<'static>> {
    let old = old.map_or(Val::Int32(0), RawVal::get);
    let (mut bits, mut long) = match old {
        Val::Int32(n) => (i64::from(n), false),
        Val::Int64(n) => (n, true),
        other => {
            return Err(Error::bad_value(format!(
                "Cannot apply $bit to a value of non-integral type.{} has the field {} of \
                 non-integer type {}",
                context.doc.get("_id").map_or_else(String::new, |id| format!("_id: {}", show(id))),
                context.name(),
                other.kind().name()
            )));
        }
    };
    for (operation, operand) in operations {
        let operand = match operand.get() {
            Val::Int64(n) => {
                long = true;
                n
            }
            other => other.as_i64_exact().unwrap_or(0),
        };
        bits = match operation {
            Bits::And => bits & operand,
            Bits::Or => bits | operand,
            Bits::Xor => bits ^ operand,
        };
    }
    // 32-bit operands stay within 32 bits under all three operations.
    match (long, i32::try_from(bits)) {
        (false, Ok(small)) => Ok(Val::Int32(small)),
        _ => Ok(Val::Int64(bits)),
    }
}

/// The update as messages show it.
pub(super) fn show_update(doc: RawDoc<'_>) -> String {
    show_doc(doc)
}

/// A document of one element, for filters on single values.
pub(super) fn wrap(name: &str, value: RawVal<'_>) -> DocBuf {
    DocBuf::build(|out| {
        out.raw(name, value);
    })
}
