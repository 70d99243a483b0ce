//! Helpers of the prelude that are written in Rust.

use crate::failure::Failure;
use crate::hex::{from_hex, to_hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use rquickjs::{Ctx, Exception, Function, Object};
use std::time::{Duration, Instant};
use value::{Decimal128, ObjectId};

/// The interval at which `sleep` checks whether to stop.
const NAP: Duration = Duration::from_millis(5);

/// An object with the helpers.
pub(crate) fn natives<'js>(ctx: &Ctx<'js>, stops: fn() -> bool) -> Result<Object<'js>, Failure> {
    let natives = Object::new(ctx.clone())?;
    natives.set("md5", Function::new(ctx.clone(), |text: String| to_hex(&Md5::digest(text)))?)?;
    natives.set("objectId", Function::new(ctx.clone(), || ObjectId::generate().to_string())?)?;
    natives.set("decimal", Function::new(ctx.clone(), decimal)?)?;
    natives.set("fromBase64", Function::new(ctx.clone(), from_base64)?)?;
    natives.set("toBase64", Function::new(ctx.clone(), to_base64)?)?;
    natives.set("sleep", Function::new(ctx.clone(), move |ms: f64| sleep(ms, stops))?)?;
    Ok(natives)
}

fn decimal(ctx: Ctx<'_>, text: String) -> rquickjs::Result<String> {
    Decimal128::parse(&text)
        .map(|decimal| decimal.to_string())
        .ok_or_else(|| Exception::throw_message(&ctx, "text is not a decimal number"))
}

fn from_base64(ctx: Ctx<'_>, text: String) -> rquickjs::Result<String> {
    STANDARD
        .decode(text)
        .map(|bytes| to_hex(&bytes))
        .map_err(|_| Exception::throw_message(&ctx, "text is not base64"))
}

fn to_base64(ctx: Ctx<'_>, hex: String) -> rquickjs::Result<String> {
    from_hex(&hex)
        .map(|bytes| STANDARD.encode(bytes))
        .ok_or_else(|| Exception::throw_message(&ctx, "text is not hexadecimal"))
}

/// Sleeps until the time is over or the operation stops; then the interrupt handler ends the function.
fn sleep(ms: f64, stops: fn() -> bool) {
    let start = Instant::now();
    let time = Duration::from_secs_f64((ms / 1000.0).clamp(0.0, 1e9));
    while !stops() {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(NAP));
    }
}
