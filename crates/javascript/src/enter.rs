//! Values on their way from BSON into JavaScript.
//!
//! Whole numbers of 32 bits and doubles become numbers, everything that the language lacks an object
//! of its type. A document remembers which of its fields were whole numbers of 32 bits, so that they
//! are that again when it comes back.

use crate::failure::Failure;
use base64::Engine as _;
use rquickjs::object::Property;
use rquickjs::{Array, Ctx, Function, Object, String, Symbol, Value};
use value::{RawDoc, Val};

/// What a function sees as `this`.
#[derive(Clone, Copy, Debug)]
pub enum This<'a> {
    /// An empty object.
    Nothing,
    /// A document.
    Document(RawDoc<'a>),
    /// A document that the global variable `obj` has, too.
    Object(RawDoc<'a>),
}

/// What is needed to make values of a context.
pub(crate) struct Entry<'js> {
    ctx: Ctx<'js>,
    make: Function<'js>,
    ints: Symbol<'js>,
}

impl<'js> Entry<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Result<Entry<'js>, Failure> {
        let host: Object<'js> = ctx.globals().get("__motif")?;
        Ok(Entry { ctx: ctx.clone(), make: host.get("make")?, ints: host.get("ints")? })
    }

    /// The value in JavaScript.
    pub(crate) fn value(&self, value: Val<'_>) -> Result<Value<'js>, Failure> {
        let ctx = || self.ctx.clone();
        Ok(match value {
            Val::Missing | Val::Undefined => Value::new_undefined(ctx()),
            Val::Null => Value::new_null(ctx()),
            Val::Bool(value) => Value::new_bool(ctx(), value),
            Val::Int32(value) => Value::new_int(ctx(), value),
            Val::Double(value) => Value::new_number(ctx(), value),
            Val::String(text) | Val::Symbol(text) => self.text(text)?,
            Val::Document(doc) => self.document(doc)?,
            Val::Array(elements) => {
                let array = Array::new(ctx())?;
                for (at, (_, element)) in elements.iter().enumerate() {
                    array.set(at, self.value(element.get())?)?;
                }
                array.into_value()
            }
            Val::MinKey => self.make.call(("minKey",))?,
            Val::MaxKey => self.make.call(("maxKey",))?,
            Val::Int64(value) => self.make.call(("long", value.to_string()))?,
            Val::Decimal(value) => self.make.call(("decimal", value.to_string()))?,
            Val::Binary(kind, bytes) => {
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                self.make.call(("binary", kind, text))?
            }
            Val::ObjectId(id) => self.make.call(("objectId", id.to_string()))?,
            Val::DateTime(ms) => self.make.call(("date", ms as f64))?,
            Val::Timestamp(value) => {
                let (seconds, count) = ((value >> 32) as u32, value as u32);
                self.make.call(("timestamp", f64::from(seconds), f64::from(count)))?
            }
            Val::Regex(pattern, options) => {
                let flags: std::string::String =
                    options.chars().filter(|flag| matches!(flag, 'i' | 'm' | 's')).collect();
                self.make.call(("regex", pattern, flags))?
            }
            Val::Code(code) => self.make.call(("code", code))?,
            Val::CodeWithScope(code, scope) => {
                self.make.call(("code", code, self.document(scope)?))?
            }
            Val::DbPointer(name, id) => self.make.call(("pointer", name, id.to_string()))?,
        })
    }

    fn text(&self, text: &str) -> Result<Value<'js>, Failure> {
        Ok(String::from_str(self.ctx.clone(), text)?.into_value())
    }

    fn document(&self, doc: RawDoc<'_>) -> Result<Value<'js>, Failure> {
        let object = Object::new(self.ctx.clone())?;
        let mut ints = std::string::String::new();
        for (name, value) in doc {
            let value = value.get();
            if matches!(value, Val::Int32(_)) {
                ints.push_str(name);
                ints.push('\0');
            }
            object.set(name, self.value(value)?)?;
        }
        if !ints.is_empty() {
            object.prop(self.ints.as_atom(), Property::from(self.text(&ints)?))?;
        }
        Ok(object.into_value())
    }
}
