//! One runtime with one context: limits, compiling, calling, errors.

use crate::enter::{Entry, This};
use crate::failure::Failure;
use crate::leave::Exit;
use crate::natives;
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Exception, Function, Object, Runtime, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use value::{Code, Error, OwnedVal, RawDoc, Result, Val};

/// The maximum memory of one context, in bytes.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The maximum number of contexts of all operations.
pub const CONTEXTS_MAX: usize = 256;

static CONTEXTS: AtomicUsize = AtomicUsize::new(0);

/// The maximum stack of functions, in bytes; threads have more.
const STACK_BYTES_MAX: usize = 512 * 1024;

/// Runs in a new context before any function of a client: a function of the native helpers.
const PRELUDE: &str = include_str!("prelude.js");

/// The enabled parts of the language. Without promises, proxies and clocks other than dates, no code
/// runs later or waits, and no object pretends to be an array.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
);

/// A context in which the functions of a program are defined.
pub(crate) struct Machine {
    context: Context,
    _counted: Counted,
}

/// Counts a context as long as it exists.
struct Counted;

impl Counted {
    fn new() -> Result<Counted> {
        let counted = Counted;
        if CONTEXTS.fetch_add(1, Ordering::Relaxed) >= CONTEXTS_MAX {
            return Err(Error::new(
                Code::EXCEEDED_MEMORY_LIMIT,
                format!("more than {CONTEXTS_MAX} functions in JavaScript run at once"),
            ));
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CONTEXTS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Machine {
    pub(crate) fn new(
        functions: &[String],
        scope: Option<RawDoc<'_>>,
        stops: fn() -> bool,
    ) -> Result<Machine> {
        let counted = Counted::new()?;
        let runtime = Runtime::new().map_err(|_| out_of_memory())?;
        runtime.set_memory_limit(MEMORY_BYTES_MAX);
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        runtime.set_interrupt_handler(Some(Box::new(stops)));
        let context = Context::custom::<Language>(&runtime).map_err(|_| out_of_memory())?;
        let machine = Machine { context, _counted: counted };
        machine.with(|ctx| {
            let prelude: Function<'_> = eval(ctx, PRELUDE)?;
            let () = prelude.call((natives::natives(ctx, stops)?,))?;
            if let Some(scope) = scope {
                let entry = Entry::new(ctx)?;
                let globals = ctx.globals();
                for (name, value) in scope {
                    globals.set(name, entry.value(value.get())?)?;
                }
            }
            let host: Object<'_> = ctx.globals().get("__motif")?;
            let compiled: Object<'_> = host.get("functions")?;
            for (at, source) in functions.iter().enumerate() {
                compiled.set(at as u32, compile(ctx, source)?)?;
            }
            Ok(())
        })?;
        Ok(machine)
    }

    pub(crate) fn call(
        &self,
        function: usize,
        this: This<'_>,
        args: &[Val<'_>],
    ) -> Result<OwnedVal> {
        self.with(|ctx| {
            let result = invoke(ctx, function, this, args)?;
            Exit::new(ctx)?.value(result)
        })
    }

    pub(crate) fn truth(&self, function: usize, this: This<'_>) -> Result<bool> {
        self.with(|ctx| {
            let result = invoke(ctx, function, this, &[])?;
            let truth: Function<'_> = ctx.globals().get("Boolean")?;
            Ok(match result.as_bool() {
                Some(truth) => truth,
                None => truth.call((result,))?,
            })
        })
    }

    pub(crate) fn emitted(&self, function: usize, this: This<'_>) -> Result<OwnedVal> {
        self.with(|ctx| {
            invoke(ctx, function, this, &[])?;
            let host: Object<'_> = ctx.globals().get("__motif")?;
            let emitted: Function<'_> = host.get("emitted")?;
            let emitted: Value<'_> = emitted.call(())?;
            Exit::new(ctx)?.value(emitted)
        })
    }

    /// Runs `run` in the context. An exception becomes an error.
    fn with<T>(&self, run: impl FnOnce(&Ctx<'_>) -> Result<T, Failure>) -> Result<T> {
        self.context.with(|ctx| {
            run(&ctx).map_err(|failure| match failure {
                Failure::Refused(error) => error,
                Failure::Engine(rquickjs::Error::Exception) => thrown(&ctx),
                Failure::Engine(rquickjs::Error::Allocation) => out_of_memory(),
                Failure::Engine(error) => failed(error.to_string()),
            })
        })
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(Code::JS_INTERPRETER_FAILURE, message)
}

fn out_of_memory() -> Error {
    failed("Out of memory")
}

/// The error for the exception of the context.
fn thrown(ctx: &Ctx<'_>) -> Error {
    let exception = ctx.catch();
    if exception.is_uncatchable_error() {
        return failed("JavaScript execution interrupted");
    }
    if exception.is_null() {
        // The engine throws this if there is no memory for an error.
        return failed("Out of memory, or null was thrown");
    }
    let described = ctx.globals().get::<_, Object<'_>>("__motif").and_then(|host| {
        let describe: Function<'_> = host.get("describe")?;
        describe.call::<_, Vec<String>>((exception.clone(),))
    });
    // Reading the exception ran code of the client, which may have failed too.
    let Ok(parts) = described else {
        ctx.catch();
        let message = exception.as_exception().and_then(Exception::message);
        return message.map_or_else(out_of_memory, failed);
    };
    let part = |at: usize| parts.get(at).map_or("", String::as_str);
    match part(0) {
        "error" if part(2) == "out of memory" => out_of_memory(),
        "error" if part(2) == "emit takes 2 args" => {
            Error::new(Code(31220), format!("{} :\n{}", part(2), part(3)))
        }
        "error" => failed(format!("{}: {} :\n{}", part(1), part(2), part(3))),
        "object" => failed(format!("{} :\nundefined", part(1))),
        _ => Error::new(Code::UNKNOWN_ERROR, format!("uncaught exception: {}", part(1))),
    }
}

fn eval<'js, T: rquickjs::FromJs<'js>>(ctx: &Ctx<'js>, source: &str) -> Result<T, Failure> {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(String::new());
    if source.contains('\0') {
        return Err(Failure::Refused(failed("SyntaxError: illegal character in a function")));
    }
    Ok(ctx.eval_with_options(source, options)?)
}

/// Compiles the source of a client: a function, an expression, statements whose last value is the
/// result, or the body of a function.
fn compile<'js>(ctx: &Ctx<'js>, source: &str) -> Result<Function<'js>, Failure> {
    let source = source.trim().trim_end_matches(';');
    let named = source.strip_prefix("function").is_some_and(|rest| {
        !rest.starts_with(|first: char| first.is_alphanumeric() || first == '_' || first == '$')
    });
    if named {
        return eval(ctx, &format!("({source}\n)"));
    }
    let expression = eval(ctx, &format!("(function(){{return (\n{source}\n)}})"));
    let Err(failure) = expression else { return expression };
    if matches!(failure, Failure::Engine(rquickjs::Error::Exception)) {
        ctx.catch();
    } else {
        return Err(failure);
    }
    let body: Function<'js> = eval(ctx, &format!("(function(){{\n{source}\n}})"))?;
    if words(source).any(|word| word == "return") {
        return Ok(body);
    }
    // `eval` returns the value of the last statement.
    let around: Function<'js> =
        eval(ctx, "(function(source){return function(){return eval(source)}})")?;
    Ok(around.call((source,))?)
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
}

fn invoke<'js>(
    ctx: &Ctx<'js>,
    function: usize,
    this: This<'_>,
    values: &[Val<'_>],
) -> Result<Value<'js>, Failure> {
    let entry = Entry::new(ctx)?;
    let host: Object<'js> = ctx.globals().get("__motif")?;
    let functions: Object<'js> = host.get("functions")?;
    let function: Function<'js> = functions.get(function as u32)?;
    let mut args = Args::new(ctx.clone(), values.len());
    match this {
        This::Nothing => args.this(Object::new(ctx.clone())?)?,
        This::Document(doc) => args.this(entry.value(Val::Document(doc))?)?,
        This::Object(doc) => {
            let object = entry.value(Val::Document(doc))?;
            ctx.globals().set("obj", object.clone())?;
            args.this(object)?;
        }
    }
    for value in values {
        args.push_arg(entry.value(*value)?)?;
    }
    Ok(function.call_arg(args)?)
}
