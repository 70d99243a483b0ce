//! Compiling projections: what `find`, `$project`, `$addFields` and `$unset` accept.

use super::tree::{Action, Kind, Slice, Tree};
use super::{Mode, Projection};
use crate::ParseContext;
use crate::expr::Expr;
use crate::field_path;
use crate::filter::Test;
use crate::show::show;
use value::{Code, DocBuf, Error, RawDoc, Result, Val};

impl Projection {
    /// Compiles a projection document.
    ///
    /// # Errors
    /// What MongoDB answers to a projection that it cannot parse.
    pub fn parse(doc: RawDoc<'_>, context: &ParseContext<'_>, mode: Mode) -> Result<Projection> {
        match mode {
            Mode::Find => shape(doc, context, mode),
            Mode::Aggregate => shape(doc, context, mode)
                .map_err(|error| error.context("Invalid $project :: caused by :: ")),
            Mode::AddFields => Projection::parse_add_fields("$addFields", doc, context),
        }
    }

    /// Compiles the argument of `$addFields` under this name or that of `$set`.
    ///
    /// # Errors
    /// What MongoDB answers to a stage that it cannot parse.
    pub fn parse_add_fields(
        name: &str,
        doc: RawDoc<'_>,
        context: &ParseContext<'_>,
    ) -> Result<Projection> {
        add_fields(doc, context)
            .map_err(|error| error.context(format!("Invalid {name} :: caused by :: ")))
    }

    /// Compiles the argument of `$unset`: a field path or an array of them.
    ///
    /// # Errors
    /// What MongoDB answers to an `$unset` that it cannot parse.
    pub fn parse_unset(value: Val<'_>, context: &ParseContext<'_>) -> Result<Projection> {
        let mut names = Vec::new();
        match value {
            Val::String(name) => names.push(name),
            Val::Array(array) => {
                if array.is_empty() {
                    return Err(Error::new(
                        Code(31119),
                        "$unset specification must be a string or an array with at least one field",
                    ));
                }
                for (_, element) in array {
                    let Val::String(name) = element.get() else {
                        return Err(Error::new(
                            Code(31120),
                            "$unset specification must be a string or an array containing only \
                             string values",
                        ));
                    };
                    names.push(name);
                }
            }
            _ => {
                return Err(Error::new(
                    Code(31002),
                    "$unset specification must be a string or an array",
                ));
            }
        }
        let exclusions = DocBuf::build(|out| {
            for name in names {
                out.bool(name, false);
            }
        });
        shape(exclusions.as_doc(), context, Mode::Aggregate)
            .map_err(|error| error.context("Invalid $unset :: caused by :: "))
    }
}

fn shape(doc: RawDoc<'_>, context: &ParseContext<'_>, mode: Mode) -> Result<Projection> {
    if doc.is_empty() && mode == Mode::Aggregate {
        return Err(Error::new(
            Code(51272),
            "projection specification must have at least one field",
        ));
    }
    let mut shaper = Shaper::new(context, mode);
    shaper.document("", doc, 0)?;
    Ok(shaper.finish())
}

/// Deepest nesting of sub-projections; paths and documents are bounded elsewhere.
const DEPTH_MAX: usize = 200;

struct Shaper<'p> {
    context: &'p ParseContext<'p>,
    mode: Mode,
    tree: Tree,
    kind: Option<Kind>,
    /// Whether `_id` is included, if specified.
    id: Option<bool>,
    elem_match: bool,
    slice: bool,
    positional: bool,
}

impl<'p> Shaper<'p> {
    fn new(context: &'p ParseContext<'p>, mode: Mode) -> Shaper<'p> {
        let tree = Tree::default();
        Shaper {
            context,
            mode,
            tree,
            kind: None,
            id: None,
            elem_match: false,
            slice: false,
            positional: false,
        }
    }

    fn document(&mut self, prefix: &str, doc: RawDoc<'_>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::bad_value("the projection is nested too deeply"));
        }
        for (name, value) in doc {
            let value = value.get();
            let positional = self.positional_path(name)?;
            if positional == Some("") {
                return Err(Error::new(
                    Code(5392900),
                    format!("Projection on field {name} is invalid"),
                ));
            }
            let name = positional.unwrap_or(name);
            field_path::check(name)?;
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            if positional.is_some() {
                self.positional(&path, value)?;
            } else {
                self.field(&path, value, depth)?;
            }
        }
        Ok(())
    }

    /// The path in front of a final `.$`, if there is one.
    fn positional_path<'n>(&self, name: &'n str) -> Result<Option<&'n str>> {
        let path = name.strip_suffix(".$");
        if path.is_none() && !name.contains(".$.") {
            return Ok(None);
        }
        if self.mode != Mode::Find {
            return Err(Error::new(
                Code(31324),
                "Cannot use positional projection in aggregation projection",
            ));
        }
        if name.contains(".$.") {
            return Err(Error::new(
                Code(31394),
                "The positional operator may only stand at the end of a path, as in a.b.$; leave \
                 out the parts that follow it.",
            ));
        }
        Ok(path)
    }

    fn positional(&mut self, path: &str, value: Val<'_>) -> Result<()> {
        match value {
            Val::Document(_) => {
                return Err(Error::new(
                    Code(31271),
                    "positional projection cannot be used with an expression or sub object",
                ));
            }
            Val::Bool(_) => {}
            value if value.is_number() => {}
            _ => {
                return Err(Error::new(
                    Code(31308),
                    "positional projection cannot be used with a literal",
                ));
            }
        }
        if !value.truthy() {
            return Err(Error::new(
                Code(31395),
                "positional projection cannot be used with exclusion",
            ));
        }
        if self.positional {
            return Err(Error::new(
                Code(31276),
                "Cannot specify more than one positional projection per query.",
            ));
        }
        self.include_kind(path)?;
        self.positional = true;
        self.check_elem_match()?;
        self.tree.insert(path, Action::Include, true)
    }

    fn check_elem_match(&self) -> Result<()> {
        if self.positional && self.elem_match {
            return Err(Error::new(
                Code(31255),
                "Cannot specify positional operator and $elemMatch.",
            ));
        }
        Ok(())
    }

    fn include_kind(&mut self, path: &str) -> Result<()> {
        if self.kind == Some(Kind::Exclusion) {
            return Err(Error::new(
                Code(31253),
                format!("Cannot do inclusion on field {path} in exclusion projection"),
            ));
        }
        self.kind = Some(Kind::Inclusion);
        Ok(())
    }

    fn field(&mut self, path: &str, value: Val<'_>, depth: usize) -> Result<()> {
        match value {
            Val::Document(doc) => self.object(path, doc, depth),
            Val::Bool(_) | Val::Int32(_) | Val::Int64(_) | Val::Double(_) | Val::Decimal(_) => {
                self.plain(path, value.truthy())
            }
            value => self.compute(path, value),
        }
    }

    /// `{path: 1}` or `{path: 0}`.
    fn plain(&mut self, path: &str, include: bool) -> Result<()> {
        let action = if include { Action::Include } else { Action::Exclude };
        if path == "_id" {
            // Both kinds of projection may include or exclude `_id`.
            self.id = Some(include);
        } else if include {
            self.include_kind(path)?;
        } else {
            if self.kind == Some(Kind::Inclusion) {
                return Err(Error::new(
                    Code(31254),
                    format!("Cannot do exclusion on field {path} in inclusion projection"),
                ));
            }
            self.kind = Some(Kind::Exclusion);
        }
        self.tree.insert(path, action, false)
    }

    fn object(&mut self, path: &str, doc: RawDoc<'_>, depth: usize) -> Result<()> {
        let Some((first, argument)) = doc.first() else {
            return Err(Error::new(
                Code(51270),
                "An empty sub-projection is not a valid value. Found empty object at path",
            ));
        };
        if !first.starts_with('$') || doc.count() > 1 || field_path::is_reference_part(first) {
            return self.document(path, doc, depth + 1);
        }
        match (first, self.mode) {
            ("$slice", Mode::Find) => {
                if let Some(slice) = find_slice(argument.get()) {
                    self.slice = true;
                    return self.tree.insert(path, Action::Slice(slice), false);
                }
                self.compute(path, Val::Document(doc))
            }
            ("$elemMatch", Mode::Find) => self.elem_match(path, argument.get()),
            ("$elemMatch", _) => Err(Error::new(
                Code::INVALID_PIPELINE_OPERATOR,
                "Cannot use $elemMatch in this context",
            )),
            ("$meta", mode) if mode == Mode::Find || self.kind == Some(Kind::Exclusion) => {
                // Does not determine the kind of the projection.
                let expr = Expr::parse(Val::Document(doc), self.context)?;
                self.tree.insert(path, Action::Compute(expr), false)
            }
            _ => self.compute(path, Val::Document(doc)).map_err(|error| {
                let unknown = error.code() == Code::INVALID_PIPELINE_OPERATOR
                    && error.message().contains(&format!("'{first}'"));
                if unknown {
                    Error::new(Code(31325), format!("Unknown expression {first}"))
                } else {
                    error
                }
            }),
        }
    }

    fn elem_match(&mut self, path: &str, argument: Val<'_>) -> Result<()> {
        let Val::Document(doc) = argument else {
            return Err(Error::new(
                Code(31274),
                format!(
                    "elemMatch: Invalid argument, object required, but got {}",
                    argument.kind().name()
                ),
            ));
        };
        self.elem_match = true;
        self.check_elem_match()?;
        if path.contains('.') {
            return Err(Error::new(
                Code(31275),
                "Cannot use $elemMatch projection on a nested field.",
            ));
        }
        let test = Test::parse_elem_match(doc, self.context)?;
        self.tree.insert(path, Action::ElemMatch(test), false)
    }

    fn compute(&mut self, path: &str, value: Val<'_>) -> Result<()> {
        if self.kind == Some(Kind::Exclusion) {
            // MongoDB has one code for paths and one for operators.
            let code = if matches!(value, Val::Document(_)) { 31252 } else { 31310 };
            return Err(Error::new(
                Code(code),
                format!(
                    "Cannot use an expression {path}: {} in an exclusion projection",
                    show(value)
                ),
            ));
        }
        let expr = Expr::parse(value, self.context)?;
        self.kind = Some(Kind::Inclusion);
        self.tree.insert(path, Action::Compute(expr), false)
    }

    fn finish(mut self) -> Projection {
        let kind = self.kind.unwrap_or(match self.id {
            // With a `$slice` the other fields are kept.
            _ if self.elem_match && !self.slice => Kind::Inclusion,
            Some(true) => Kind::Inclusion,
            _ => Kind::Exclusion,
        });
        // An inclusion keeps `_id` unless it is excluded.
        let names_id = self.tree.fields.iter().any(|field| &*field.name == "_id");
        if kind == Kind::Inclusion && !names_id {
            let _ = self.tree.insert("_id", Action::Include, false);
        }
        Projection { kind, tree: self.tree, positional: self.positional }
    }
}

/// `$slice` in the form of `find`: a number, or two of which the second is positive.
fn find_slice(argument: Val<'_>) -> Option<Slice> {
    let whole = |value: Val<'_>| -> Option<i64> {
        match value {
            Val::Double(n) => Some(n as i64),
            Val::Decimal(n) => n.to_i64_truncate(),
            value => value.as_i64_exact(),
        }
    };
    match argument {
        Val::Array(array) => {
            let mut elements = array.iter().map(|(_, element)| element.get());
            let (skip, limit) = (whole(elements.next()?)?, whole(elements.next()?)?);
            (elements.next().is_none() && limit > 0).then_some(Slice::Range(skip, limit))
        }
        value => Some(Slice::Count(whole(value)?)),
    }
}

fn add_fields(doc: RawDoc<'_>, context: &ParseContext<'_>) -> Result<Projection> {
    let mut tree = Tree::default();
    for (name, value) in doc {
        field_path::check(name)?;
        add_field(&mut tree, name, value.get(), doc, context, 0)?;
    }
    Ok(Projection { kind: Kind::AddFields, tree, positional: false })
}

fn not_one_operator(doc: RawDoc<'_>, whole: RawDoc<'_>) -> Error {
    Error::new(
        Code(40181),
        format!(
            "an expression specification must contain exactly one field, the name of the \
             expression. Found {} fields in {}, while parsing object {}",
            doc.count(),
            show(Val::Document(doc)),
            show(Val::Document(whole))
        ),
    )
}

fn add_field(
    tree: &mut Tree,
    path: &str,
    value: Val<'_>,
    whole: RawDoc<'_>,
    context: &ParseContext<'_>,
    depth: usize,
) -> Result<()> {
    if let Val::Document(doc) = value {
        let Some((first, _)) = doc.first() else {
            return Err(Error::new(
                Code(40180),
                format!("an empty object is not a valid value. Found empty object at path {path}"),
            ));
        };
        if first.starts_with('$') {
            if doc.count() > 1 {
                return Err(not_one_operator(doc, whole));
            }
        } else {
            if depth > DEPTH_MAX {
                return Err(Error::bad_value("the specification is nested too deeply"));
            }
            for (name, inner) in doc {
                if name.starts_with('$') {
                    return Err(not_one_operator(doc, whole));
                }
                if name.contains('.') {
                    return Err(Error::new(
                        Code(40183),
                        format!(
                            "cannot use dotted field name '{name}' in a sub object: {}",
                            show(Val::Document(whole))
                        ),
                    ));
                }
                let path = format!("{path}.{name}");
                field_path::check(&path)?;
                add_field(tree, &path, inner.get(), whole, context, depth + 1)?;
            }
            return Ok(());
        }
    }
    let expr = Expr::parse(value, context)?;
    tree.insert(path, Action::Compute(expr), false).map_err(|error| {
        let other = error.message().rsplit(' ').next().unwrap_or_default().to_owned();
        Error::new(
            Code(40176),
            format!(
                "specification contains two conflicting paths. Cannot specify both '{path}' and \
                 '{}': {}",
                path.strip_suffix(&format!(".{other}")).unwrap_or(path),
                show(Val::Document(whole))
            ),
        )
    })
}
