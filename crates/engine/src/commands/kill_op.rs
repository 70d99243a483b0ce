//! `killOp`: stops a running operation.

use super::row::Required;
use super::{Command, Context};
use access::Action;
use std::sync::atomic::Ordering;
use value::{Code, Error, Result, Writer};

pub(super) static COMMAND: Command = Command {
    name: "killOp",
    help: "Stops a running operation.",
    fields: Some(&["killOp", "op"]),
    admin: true,
    privilege: Required::Login,
    run: kill_op,
    ..Command::BASE
};

fn kill_op(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let op = match context.args.doc.get("op") {
        None => return Err(Error::new(Code::NO_SUCH_KEY, "Missing expected field \"op\"")),
        Some(value) => value.as_f64().map(|n| n as i64).ok_or_else(|| {
            Error::type_mismatch(format!(
                "Expected field \"op\" to have a value exactly representable as a 64-bit \
                 integer, but found op: {}",
                value.kind().name()
            ))
        })?,
    };
    let op = u64::try_from(op).unwrap_or(0);
    let engine = context.engine;
    let mut found = false;
    if op != 0 {
        for slot in engine.service.slots.lock().values() {
            if slot.operation_id.load(Ordering::Relaxed) == op {
                let user = slot.user.lock().clone();
                if !context.client.login.may_touch(user.as_deref(), Action::Killop) {
                    return Err(not_allowed());
                }
                found = true;
                slot.killed.store(true, Ordering::Relaxed);
            }
        }
        for job in engine.data.jobs.lock().iter().filter(|job| job.id == op) {
            if !context.client.login.may_touch(None, Action::Killop) {
                return Err(not_allowed());
            }
            job.killed.store(true, Ordering::Relaxed);
        }
        engine.data.wake_tailing_cursors();
    }
    // The error does not reveal which operations exist.
    if !found && !context.client.login.may_touch(None, Action::Killop) {
        return Err(not_allowed());
    }
    out.str("info", "attempting to kill op");
    Ok(())
}

fn not_allowed() -> Error {
    Error::new(Code::UNAUTHORIZED, "not authorized on admin to kill this operation")
}
