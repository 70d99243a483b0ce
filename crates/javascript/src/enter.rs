//! Converts values from BSON to JavaScript.
//!
//! 32-bit integers and doubles become numbers; values of types that the language lacks become objects
//! of their type. A document remembers which of its fields were 32-bit integers, so that they keep
//! this type when it is converted back.

use crate::failure::Failure;
use base64::Engine as _;
use rquickjs::object::Property;
use rquickjs::{Array, Ctx, Function, Object, String, Symbol, Value};
use value::{RawDoc, Val};

/// The value of `this` in a function.
#[derive(Clone, Copy, Debug)]
pub enum This<'a> {
    /// An empty object.
    Nothing,
    /// A document.
    Document(RawDoc<'a>),
    /// A document, which is also the global variable `obj`.
    Object(RawDoc<'a>),
}

/// Makes values of a context.
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
