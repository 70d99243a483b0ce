//! Compiles the client's expression into a tree: literals, `"$paths"`, `"$$variables"`, documents,
//! arrays and operators.

use super::{Node, operator};
use crate::ParseContext;
use crate::field_path;
use crate::show::show;
use value::{Code, Error, OwnedVal, Result, Val};

/// Compiles expressions; tracks the variables in scope.
pub(crate) struct Parser<'p> {
    ctx: &'p ParseContext<'p>,
    scope: Vec<(Box<str>, usize)>,
    next_slot: usize,
    /// Whether constants that cannot be computed are left for the run.
    lenient: bool,
}

impl<'p> Parser<'p> {
    pub(crate) fn new(ctx: &'p ParseContext<'p>) -> Parser<'p> {
        Parser { ctx, scope: Vec::new(), next_slot: 0, lenient: ctx.lenient }
    }

    pub(crate) fn context(&self) -> &'p ParseContext<'p> {
        self.ctx
    }

    /// Whether errors of constants are left for execution.
    pub(crate) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Calls a function while errors of constants are left for execution.
    pub(crate) fn leniently<T>(&mut self, run: impl FnOnce(&mut Parser<'p>) -> T) -> T {
        let before = std::mem::replace(&mut self.lenient, true);
        let result = run(self);
        self.lenient = before;
        result
    }

    /// Computes an expression of constants.
    pub(super) fn fold(&self, node: Node) -> Result<Node> {
        let arena = bumpalo::Bump::new();
        let env = super::Env::new(value::RawDoc::empty(), &arena);
        match node.eval(&env) {
            Ok(value) => Ok(Node::constant(value)),
            Err(_) if self.lenient => Ok(node),
            Err(error) => Err(error),
        }
    }

    /// Compiles one expression.
    pub(crate) fn parse(&mut self, value: Val<'_>) -> Result<Node> {
        match value {
            Val::String(text) if text.starts_with('$') => self.reference(text),
            Val::Document(doc) => {
                let Some((first, operand)) = doc.first() else {
                    return Ok(Node::constant(value));
                };
                if !first.starts_with('$') {
                    return self.document(doc);
                }
                if doc.count() != 1 {
                    return Err(Error::new(
                        Code(15983),
                        format!(
                            "An object representing an expression must have exactly one field: {}",
                            show(value)
                        ),
                    ));
                }
                match operator::find(first) {
                    Some(operator) => operator.parse(self, operand.get()),
                    None => Err(Error::new(
                        Code::INVALID_PIPELINE_OPERATOR,
                        format!("Unrecognized expression '{first}'"),
                    )),
                }
            }
            Val::Array(array) => {
                let elements = array
                    .iter()
                    .map(|(_, element)| self.parse(element.get()))
                    .collect::<Result<Vec<Node>>>()?;
                let constant = elements.iter().all(Node::is_constant);
                let node = Node::Array(elements);
                if constant { self.fold(node) } else { Ok(node) }
            }
            other => Ok(Node::constant(other)),
        }
    }

    fn document(&mut self, doc: value::RawDoc<'_>) -> Result<Node> {
        let mut fields: Vec<(Box<str>, Node)> = Vec::new();
        for (name, operand) in doc {
            check_field_name(name)?;
            if fields.iter().any(|(known, _)| **known == *name) {
                return Err(Error::new(
                    Code(16406),
                    format!(
                        "duplicate field name specified in object literal: {}",
                        show(Val::Document(doc))
                    ),
                ));
            }
            fields.push((name.into(), self.parse(operand.get())?));
        }
        let constant = fields.iter().all(|(_, node)| node.is_constant());
        let node = Node::Document(fields);
        if constant { self.fold(node) } else { Ok(node) }
    }

    /// The operands of an operator: an array of them, or one.
    pub(crate) fn operands(&mut self, value: Val<'_>) -> Result<Vec<Node>> {
        match value {
            Val::Array(array) => {
                array.iter().map(|(_, element)| self.parse(element.get())).collect()
            }
            one => Ok(vec![self.parse(one)?]),
        }
    }

    /// A field path or a variable.
    fn reference(&mut self, text: &str) -> Result<Node> {
        if let Some(rest) = text.strip_prefix("$$") {
            return self.variable(rest);
        }
        let path = text.strip_prefix('$').unwrap_or(text);
        if path.is_empty() {
            return Err(Error::new(Code(16872), "'$' by itself is not a valid FieldPath"));
        }
        let path = split_path(path)?;
        Ok(match self.lookup("CURRENT") {
            Some(slot) => Node::Variable { slot, path },
            None => Node::Field(path),
        })
    }

    fn variable(&mut self, text: &str) -> Result<Node> {
        if text.is_empty() {
            return Err(Error::failed_to_parse("empty variable names are not allowed"));
        }
        if text.ends_with('.') {
            return Err(Error::new(Code(40353), "FieldPath must not end with a '.'."));
        }
        let (name, path) = match text.split_once('.') {
            Some((name, path)) => (name, split_path(path)?),
            None => (text, Vec::new()),
        };
        if let Some(slot) = self.lookup(name) {
            return Ok(Node::Variable { slot, path });
        }
        if let Some(deferred) =
            self.ctx.deferred.iter().rev().find(|deferred| deferred.name() == name)
        {
            return Ok(Node::DeferredVariable { place: deferred.slot(), path });
        }
        let constant = match name {
            "ROOT" | "CURRENT" => return Ok(Node::Field(path)),
            "REMOVE" => Val::Missing,
            "NOW" => Val::DateTime(self.ctx.now_ms),
            "CLUSTER_TIME" => {
                if self.ctx.cluster_time == 0 {
                    return Err(Error::new(
                        Code(51144),
                        "system variable $$CLUSTER_TIME is not available in standalone mode",
                    ));
                }
                Val::Timestamp(self.ctx.cluster_time)
            }
            "USER_ROLES" => return self.parse(Val::Array(value::RawDoc::empty())),
            "SEARCH_META" => {
                return Err(Error::new(
                    Code(6347903),
                    "Can't access $$SEARCH_META without a search stage before",
                ));
            }
            "JS_SCOPE" | "IS_MR" => {
                return Err(Error::new(
                    Code(51144),
                    format!("Builtin variable '$${name}' is not available"),
                ));
            }
            _ => match self.ctx.variables.get(name) {
                // A variable of a nested pipeline whose expression evaluated to missing.
                Some(Val::Undefined) => Val::Missing,
                Some(value) => value,
                None => {
                    // Reading allows upper-case names too: they are the server's.
                    if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
                        check_variable_name(name)?;
                    }
                    return Err(Error::new(
                        Code(17276),
                        format!("Use of undefined variable: {name}"),
                    ));
                }
            },
        };
        let arena = bumpalo::Bump::new();
        let env = super::Env::new(value::RawDoc::empty(), &arena);
        Ok(Node::Constant(OwnedVal::new(crate::path_values::path_in(constant, &path, env.arena()))))
    }

    fn lookup(&self, name: &str) -> Option<usize> {
        self.scope.iter().rev().find(|(known, _)| **known == *name).map(|(_, slot)| *slot)
    }

    /// Reserves slots for variables whose values are computed outside their scope.
    pub(crate) fn reserve(&mut self, count: usize) -> usize {
        let slot = self.next_slot;
        self.next_slot += count;
        slot
    }

    /// Compiles with variables bound to the slots from `slot` on.
    pub(crate) fn with_variables<T>(
        &mut self,
        names: &[&str],
        slot: usize,
        parse: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let depth = self.scope.len();
        for (at, name) in names.iter().enumerate() {
            self.scope.push(((*name).into(), slot + at));
        }
        let result = parse(self);
        self.scope.truncate(depth);
        result
    }
}

/// The parts of a path, each a possible field name.
fn split_path(path: &str) -> Result<Vec<Box<str>>> {
    if path.ends_with('.') {
        return Err(Error::new(Code(40353), "FieldPath must not end with a '.'."));
    }
    path.split('.')
        .map(|name| {
            check_path_part(name)?;
            Ok(name.into())
        })
        .collect()
}

fn check_path_part(name: &str) -> Result<()> {
    field_path::check_part(name)?;
    if name.contains('\0') {
        return Err(Error::new(
            Code(16411),
            "FieldPath field names may not contain '\\0'. Consider using $getField or $setField.",
        ));
    }
    Ok(())
}

/// Refuses names that a field of a document expression cannot have.
pub(crate) fn check_field_name(name: &str) -> Result<()> {
    check_path_part(name)?;
    if name.contains('.') {
        return Err(Error::new(
            Code(16412),
            "FieldPath field names may not contain '.'. Consider using $getField or $setField.",
        ));
    }
    Ok(())
}

/// Refuses names that a client's variable cannot have.
pub fn check_variable_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Error::failed_to_parse("empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        return Err(Error::failed_to_parse(format!(
            "'{name}' starts with an invalid character for a user variable name"
        )));
    }
    let bad = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    match bad {
        Some(c) => Err(Error::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{c}'"
        ))),
        None => Ok(()),
    }
}
