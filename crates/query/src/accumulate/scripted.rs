//! `$accumulator`, whose functions clients write in JavaScript, and the `reduce` of `mapReduce`.

use crate::ParseContext;
use crate::expr::{Env, Expr};
use crate::script::{self, Script};
use crate::show::show;
use bumpalo::Bump;
use value::writer::ArrayWriter;
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// What `mapReduce` makes of its `reduce`: written as `{data: value, eval: function}`.
pub(super) const REDUCE: &str = "$_internalJsReduce";

/// Values that wait for `reduce` are reduced to one when they take more memory.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// The places of the functions in the script of an `$accumulator`.
const INIT: usize = 0;
const ACCUMULATE: usize = 1;
const MERGE: usize = 2;
const FINALIZE: usize = 3;

/// The functions of an accumulator.
#[derive(Debug)]
pub(super) struct Functions {
    script: Script,
    /// The arguments of `init`; `None` for `reduce`.
    init_args: Option<Expr>,
    finalizes: bool,
}

impl Functions {
    /// `{init, initArgs, accumulate, accumulateArgs, merge, finalize, lang}`. Also returns the
    /// arguments of `accumulate`.
    pub(super) fn parse(spec: Val<'_>, ctx: &ParseContext<'_>) -> Result<(Functions, Expr)> {
        let Some(doc) = spec.as_doc() else {
            let found = spec.kind().name();
            return Err(Error::new(
                Code(4_544_703),
                format!("$accumulator expects an object as an argument; found: {found}"),
            ));
        };
        script::check_enabled(ctx)?;
        let mut sources: [Option<String>; 4] = [None, None, None, None];
        let (mut init_args, mut args) = (None, None);
        for (name, value) in doc {
            let value = value.get();
            let place = match name {
                "init" => INIT,
                "accumulate" => ACCUMULATE,
                "merge" => MERGE,
                "finalize" => FINALIZE,
                "initArgs" => {
                    init_args = Some(Expr::parse(value, ctx)?);
                    continue;
                }
                "accumulateArgs" => {
                    args = Some(Expr::parse(value, ctx)?);
                    continue;
                }
                "lang" if value.as_str() == Some("js") => continue,
                "lang" => {
                    let message = "$accumulator only supports lang: 'js'";
                    return Err(Error::new(Code(4_544_705), message));
                }
                other => {
                    return Err(Error::new(
                        Code(4_544_706),
                        format!("$accumulator got an unexpected field: {other}"),
                    ));
                }
            };
            let source = script::source(value).ok_or_else(|| {
                Error::new(
                    Code(4_544_702),
                    format!("$accumulator '{name}' must be a String or Code"),
                )
            })?;
            if let Some(slot) = sources.get_mut(place) {
                *slot = Some(source);
            }
        }
        let missing = |code: i32, name: &str| {
            Error::new(Code(code), format!("$accumulator missing required argument '{name}'"))
        };
        let [init, accumulate, merge, finalize] = sources;
        let init = init.ok_or_else(|| missing(4_544_707, "init"))?;
        let accumulate = accumulate.ok_or_else(|| missing(4_544_708, "accumulate"))?;
        let merge = merge.ok_or_else(|| missing(4_544_709, "merge"))?;
        let args = args.ok_or_else(|| missing(4_544_710, "accumulateArgs"))?;
        let finalizes = finalize.is_some();
        let mut all = vec![init, accumulate, merge];
        all.extend(finalize);
        let none = || Expr::constant(Val::Array(RawDoc::empty()));
        let init_args = Some(init_args.unwrap_or_else(none));
        Ok((Functions { script: Script::new(all, ctx), init_args, finalizes }, args))
    }

    /// `{data: value, eval: function}`.
    pub(super) fn parse_reduce(spec: Val<'_>, ctx: &ParseContext<'_>) -> Result<(Functions, Expr)> {
        let doc = spec.as_doc().unwrap_or(RawDoc::empty());
        let source = doc.get("eval").and_then(script::source);
        let (Some(source), Some(data)) = (source, doc.get("data")) else {
            let message = format!("{REDUCE} requires 'data' and a function as 'eval'");
            return Err(Error::new(Code(31349), message));
        };
        script::check_enabled(ctx)?;
        let script = Script::new(vec![source], ctx);
        let data = Expr::parse(data, ctx)?;
        Ok((Functions { script, init_args: None, finalizes: false }, data))
    }
}

/// Refuses arguments of `accumulate` that are not an array.
pub(super) fn check_args(args: Val<'_>) -> Result<()> {
    is_array("accumulateArgs", 4_544_712, args).map(|_| ())
}

fn is_array<'v>(name: &str, code: i32, value: Val<'v>) -> Result<RawDoc<'v>> {
    value.as_array().ok_or_else(|| {
        let shown = if value.is_missing() { "MISSING".to_owned() } else { show(value) };
        let message = format!("$accumulator {name} must evaluate to an array: {shown}");
        Error::new(Code(code), message)
    })
}

/// The state of one group.
#[derive(Debug)]
pub(super) struct Scripted {
    functions: std::sync::Arc<Functions>,
    /// The key of the group, for `reduce`.
    key: OwnedVal,
    /// The state of an accumulator; the values that wait for `reduce`.
    states: Vec<OwnedVal>,
    /// Whether values came already.
    began: bool,
    bytes: usize,
}

impl Scripted {
    /// The state of a new group.
    pub(super) fn new(functions: std::sync::Arc<Functions>, group: Val<'_>) -> Result<Scripted> {
        let mut states = Vec::new();
        if let Some(args) = &functions.init_args {
            let arena = Bump::new();
            let root = group.as_doc().unwrap_or(RawDoc::empty());
            let args = args.eval(&Env::new(root, &arena))?;
            let args = is_array("initArgs", 4_544_711, args)?;
            let args: Vec<Val<'_>> = args.iter().map(|(_, value)| value.get()).collect();
            states.push(functions.script.call(INIT, &args)?);
        }
        let key = OwnedVal::new(group);
        let mut state = Scripted { functions, key, states, began: false, bytes: 0 };
        state.measure();
        Ok(state)
    }

    fn reduces(&self) -> bool {
        self.functions.init_args.is_none()
    }

    fn state(&self) -> Val<'_> {
        self.states.first().map_or(Val::Null, OwnedVal::get)
    }

    /// Adds the arguments of `accumulate`, or a value for `reduce`.
    pub(super) fn add(&mut self, value: Val<'_>) -> Result<()> {
        self.began = true;
        if self.reduces() {
            return self.wait(value);
        }
        let mut args = vec![self.state()];
        args.extend(is_array("accumulateArgs", 4_544_712, value)?.iter().map(|(_, arg)| arg.get()));
        let state = self.functions.script.call(ACCUMULATE, &args)?;
        self.set(state);
        Ok(())
    }

    fn set(&mut self, state: OwnedVal) {
        self.states.clear();
        self.states.push(state);
        self.measure();
    }

    fn measure(&mut self) {
        let size = |value: &OwnedVal| size_of::<OwnedVal>() + value.raw().bytes.len();
        self.bytes = self.states.iter().map(size).sum();
    }

    fn wait(&mut self, value: Val<'_>) -> Result<()> {
        let value = OwnedVal::new(value);
        self.bytes += size_of::<OwnedVal>() + value.raw().bytes.len();
        self.states.push(value);
        if self.bytes > PENDING_BYTES_MAX && self.states.len() > 1 {
            let reduced = self.reduced()?;
            self.set(reduced);
        }
        Ok(())
    }

    fn reduced(&self) -> Result<OwnedVal> {
        let mut values = Vec::new();
        value::writer::write_array(&mut values, |out| {
            // The newest first, as in MongoDB.
            self.states.iter().rev().for_each(|value| out.push_raw(value.raw()));
        });
        let values = Val::Array(RawDoc::new(&values));
        self.functions.script.call(0, &[self.key.get(), values])
    }

    /// The result.
    pub(super) fn result(&self) -> Result<OwnedVal> {
        if self.reduces() {
            return self.reduced().map(null);
        }
        let state = self.state();
        if self.functions.finalizes {
            return self.functions.script.call(FINALIZE, &[state]).map(null);
        }
        Ok(null(OwnedVal::new(state)))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Scripted>() + self.key.raw().bytes.len() + self.bytes
    }

    pub(super) fn save(&self, out: &mut ArrayWriter<'_>) {
        out.push(Val::Bool(self.began));
        self.states.iter().for_each(|state| out.push_raw(state.raw()));
    }

    /// Merges the saved state of the same group.
    pub(super) fn absorb(&mut self, saved: RawDoc<'_>) -> Result<()> {
        let mut values = saved.iter().map(|(_, value)| value.get());
        if values.next() != Some(Val::Bool(true)) {
            return Ok(());
        }
        let first = !std::mem::replace(&mut self.began, true);
        for value in values {
            if self.reduces() {
                self.wait(value)?;
            } else if first {
                self.set(OwnedVal::new(value));
            } else {
                let merged = self.functions.script.call(MERGE, &[self.state(), value])?;
                self.set(merged);
            }
        }
        Ok(())
    }
}

/// A function without a result gives null.
fn null(value: OwnedVal) -> OwnedVal {
    if value.get() == Val::Undefined { OwnedVal::new(Val::Null) } else { value }
}
