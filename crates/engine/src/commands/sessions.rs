//! Shared code of the commands about logical sessions: reading the sessions that a command names,
//! and stopping their operations.

use super::Context;
use crate::session;
use crate::shared::Inner;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use value::{Code, Error, RawDoc, Result, Val};

/// The sessions in the command's first field.
pub(super) fn named(context: &Context<'_>) -> Result<Vec<[u8; 16]>> {
    let args = &context.args;
    let list = args.optional_array(context.name)?.ok_or_else(|| args.missing(context.name))?;
    let mut ids = Vec::new();
    for (_, entry) in list {
        let id = entry.as_doc().and_then(|entry| entry.get("id"));
        match id {
            Some(Val::Binary(4, bytes)) if bytes.len() == 16 => {
                ids.extend(bytes.first_chunk::<16>().copied());
            }
            _ => {
                return Err(Error::new(
                    Code::INVALID_OPTIONS,
                    format!("{}: each session must have the form {{id: UUID}}", context.name),
                ));
            }
        }
    }
    Ok(ids)
}

/// Keeps the sessions that belong to the client; others are ignored.
pub(super) fn own(context: &Context<'_>, ids: Vec<[u8; 16]>) -> HashSet<[u8; 16]> {
    let login = &context.client.login;
    let own = login.required.then(|| context.engine.service.sessions.of(login.owner().as_deref()));
    ids.into_iter().filter(|id| own.as_ref().is_none_or(|own| own.contains(id))).collect()
}

pub(super) fn close_cursors(engine: &Inner, which: impl Fn(&[u8; 16]) -> bool) {
    engine.service.cursors.close_where(|cursor| cursor.session.as_ref().is_some_and(&which));
}

/// Stops the commands and closes the cursors of sessions, except for the current command.
pub(super) fn stop(context: &Context<'_>, which: impl Fn(&[u8; 16]) -> bool) {
    let engine = context.engine;
    let own = context.op.slot().connection_id;
    for slot in engine.service.slots.lock().values().filter(|slot| slot.connection_id != own) {
        if slot.operation_id.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let current = slot.current.lock();
        if current.command.is_empty() {
            continue;
        }
        let session = session::session_of(RawDoc::new(&current.command)).ok().flatten();
        if session.as_ref().is_some_and(&which) {
            slot.killed.store(true, Ordering::Relaxed);
        }
    }
    engine.data.wake_tailing_cursors();
    engine.service.sessions.transactions.kill(&engine.data, &which);
    close_cursors(engine, which);
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, Options};
    use value::{DocBuf, Val, ejson};

    #[test]
    fn ending_a_session_closes_its_cursors() {
        let engine = Engine::open(Options::default()).expect("memory opens");
        let run = |command: &DocBuf| engine.run_command("t", command.as_doc());
        let text = |text: &str| ejson::parse_doc(text).expect("test text");
        run(&text("{insert: 'c', documents: [{}, {}, {}]}")).expect("works");
        let started = run(&text("{startSession: 1}")).expect("works");
        let id = started.as_doc().get("id").expect("an id");
        let find = DocBuf::build(|out| {
            out.str("find", "c").i32("batchSize", 1).append("lsid", id);
        });
        run(&find).expect("works");
        assert_eq!(engine.inner().service.cursors.counts().0, 1);
        let end = DocBuf::build(|out| {
            out.array("endSessions", |sessions| sessions.push(id));
        });
        run(&end).expect("works");
        assert_eq!(engine.inner().service.cursors.counts().0, 0);
        let wrong = run(&text("{endSessions: 1}")).expect_err("is no list");
        assert_eq!(wrong.code().0, 14);
        assert_eq!(run(&text("{killAllSessions: []}")).map(|_| Val::Null).ok(), Some(Val::Null));
    }
}
