//! Converts values from JavaScript to BSON.

use crate::failure::Failure;
use crate::hex;
use rquickjs::object::Filter;
use rquickjs::{Array, Ctx, Function, Object, String as Text, Symbol, Value};
use value::{Code, Decimal128, DocBuf, Error, ObjectId, OwnedVal, RawDoc, Val, Writer};

/// The maximum nesting of objects, which also ends cycles.
const DEPTH_MAX: usize = 150;

/// The largest result.
const BYTES_MAX: usize = value::limits::DOCUMENT_BYTES_MAX_INTERNAL;

/// Reads values of a context.
pub(crate) struct Exit<'js> {
    ctx: Ctx<'js>,
    open: Function<'js>,
    well_formed: Function<'js>,
    ints: Symbol<'js>,
}

impl<'js> Exit<'js> {
    pub(crate) fn new(ctx: &Ctx<'js>) -> Result<Exit<'js>, Failure> {
        let host: Object<'js> = ctx.globals().get("__motif")?;
        Ok(Exit {
            ctx: ctx.clone(),
            open: host.get("open")?,
            well_formed: host.get("wellFormed")?,
            ints: host.get("ints")?,
        })
    }

    /// The value as BSON.
    pub(crate) fn value(&self, value: Value<'js>) -> Result<OwnedVal, Failure> {
        let mut bytes = Vec::new();
        let mut out = Writer::start(&mut bytes);
        self.write(&mut out, "", value, false, 0)?;
        out.finish();
        check_size(bytes.len())?;
        Ok(OwnedVal::new(RawDoc::new(&bytes).get("").unwrap_or_default()))
    }

    fn write(
        &self,
        out: &mut Writer<'_>,
        name: &str,
        value: Value<'js>,
        was_int: bool,
        depth: usize,
    ) -> Result<(), Failure> {
        check_size(out.len())?;
        if depth > DEPTH_MAX {
            return Err(refused(
                17279,
                format!(
                    "Exceeded depth limit of {DEPTH_MAX} when converting js object to BSON. Do you \
                     have a cycle?"
                ),
            ));
        }
        if let Some(number) = value.as_number() {
            let whole = number as i32;
            let is_int = was_int && f64::from(whole) == number;
            out.append(name, if is_int { Val::Int32(whole) } else { Val::Double(number) });
        } else if let Some(truth) = value.as_bool() {
            out.append(name, Val::Bool(truth));
        } else if value.is_null() {
            out.append(name, Val::Null);
        } else if let Some(text) = value.as_string() {
            out.append(name, Val::String(&self.text(text)?));
        } else if let Some(big) = value.as_big_int() {
            let number = big.clone().to_i64()?;
            out.append(name, Val::Int64(number));
        } else if let Some(array) = value.as_array() {
            self.array(out, name, array, depth)?;
        } else if let Some(object) = value.as_object() {
            let parts: Value<'js> = self.open.call((value.clone(),))?;
            match parts.into_array() {
                Some(parts) => self.special(out, name, &parts, depth)?,
                None if value.is_function() => {
                    let source: Function<'js> = object.get("toString")?;
                    let mut args = rquickjs::function::Args::new(self.ctx.clone(), 0);
                    args.this(value.clone())?;
                    let source: Value<'js> = source.call_arg(args)?;
                    let text = source.as_string().map(|text| self.text(text)).transpose()?;
                    out.append(name, Val::Code(&text.unwrap_or_default()));
                }
                None => self.object(out, name, object, depth)?,
            }
        } else {
            out.append(name, Val::Undefined);
        }
        Ok(())
    }

    fn text(&self, text: &Text<'js>) -> Result<String, Failure> {
        if let Ok(text) = text.to_string() {
            return Ok(text);
        }
        // A lone surrogate has no encoding in UTF-8.
        let text: String = self.well_formed.call((text.clone(),))?;
        Ok(text)
    }

    fn array(
        &self,
        out: &mut Writer<'_>,
        name: &str,
        array: &Array<'js>,
        depth: usize,
    ) -> Result<(), Failure> {
        let token = out.open(name, true);
        for at in 0..array.len() {
            self.write(out, &at.to_string(), array.get(at)?, false, depth + 1)?;
        }
        out.close(token);
        Ok(())
    }

    fn object(
        &self,
        out: &mut Writer<'_>,
        name: &str,
        object: &Object<'js>,
        depth: usize,
    ) -> Result<(), Failure> {
        let ints: Option<String> = object.get(self.ints.as_atom())?;
        let ints = ints.unwrap_or_default();
        let token = out.open(name, false);
        for key in object.own_keys::<Text<'js>>(Filter::new().string().enum_only()) {
            let key = key?;
            let value: Value<'js> = object.get(key.clone())?;
            let key = self.text(&key)?;
            if key.contains('\0') {
                return Err(refused(16985, "field name contains a null byte".into()));
            }
            let was_int = !ints.is_empty() && ints.split('\0').any(|int| int == key);
            self.write(out, &key, value, was_int, depth + 1)?;
        }
        out.close(token);
        Ok(())
    }

    /// A value of a type that JavaScript lacks, from the parts of its object.
    fn special(
        &self,
        out: &mut Writer<'_>,
        name: &str,
        parts: &Array<'js>,
        depth: usize,
    ) -> Result<(), Failure> {
        let kind: String = parts.get(0)?;
        let text = |at: usize| parts.get::<String>(at);
        let number = |at: usize| parts.get::<f64>(at);
        let wrong = || refused(13, format!("a value of type {kind} is damaged"));
        match kind.as_str() {
            "plain" => return self.write(out, name, parts.get(1)?, false, depth + 1),
            "date" => out.append(name, Val::DateTime(number(1)? as i64)),
            "regex" => {
                let (source, flags) = (text(1)?, text(2)?);
                if source.contains('\0') {
                    return Err(refused(16985, "a regular expression has a null byte".into()));
                }
                let flags: String = flags.chars().filter(|flag| "ims".contains(*flag)).collect();
                out.append(name, Val::Regex(&source, &flags))
            }
            "long" => {
                let value: Value<'js> = parts.get(1)?;
                let big = value.as_big_int().ok_or_else(wrong)?;
                out.append(name, Val::Int64(big.clone().to_i64()?))
            }
            "int" => out.append(name, Val::Int32(number(1)? as i32)),
            "decimal" => {
                let decimal = Decimal128::parse(&text(1)?).ok_or_else(wrong)?;
                out.append(name, Val::Decimal(decimal))
            }
            "objectId" => {
                let id = ObjectId::parse(&text(1)?).ok_or_else(wrong)?;
                out.append(name, Val::ObjectId(id))
            }
            "timestamp" => {
                let value = (u64::from(number(1)? as u32) << 32) | u64::from(number(2)? as u32);
                out.append(name, Val::Timestamp(value))
            }
            "binary" => {
                let bytes = hex::from_hex(&text(2)?).ok_or_else(wrong)?;
                out.append(name, Val::Binary(number(1)? as u8, &bytes))
            }
            "minKey" => out.append(name, Val::MinKey),
            "maxKey" => out.append(name, Val::MaxKey),
            "code" => {
                let scope: Value<'js> = parts.get(2)?;
                let code = text(1)?;
                if scope.is_object() {
                    let mut bytes = Vec::new();
                    let mut inner = Writer::start(&mut bytes);
                    self.write(&mut inner, "", scope, false, depth + 1)?;
                    inner.finish();
                    let scope = RawDoc::new(&bytes).get("").and_then(Val::as_doc);
                    let scope = DocBuf::from(scope.unwrap_or(RawDoc::empty()));
                    out.append(name, Val::CodeWithScope(&code, scope.as_doc()))
                } else {
                    out.append(name, Val::Code(&code))
                }
            }
            "pointer" => {
                let id = ObjectId::parse(&text(2)?).ok_or_else(wrong)?;
                let namespace = text(1)?;
                out.append(name, Val::DbPointer(&namespace, id))
            }
            _ => return Err(wrong()),
        };
        Ok(())
    }
}

fn check_size(bytes: usize) -> Result<(), Failure> {
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    let limit = format!("Object size exceeds limit of {BYTES_MAX} bytes");
    Err(refused(10334, format!("Converting from JavaScript to BSON failed: {limit}")))
}

fn refused(code: i32, message: String) -> Failure {
    Failure::Refused(Error::new(Code(code), message))
}
