//! The commands about logical sessions: `startSession`, `endSessions`, `refreshSessions`,
//! `killSessions`, `killAllSessions`, `killAllSessionsByPattern`.

use super::row::{Required, StableApi};
use super::{Command, Context};
use crate::engine::Inner;
use crate::session;
use ::access::Action;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static START: Command = Command {
    name: "startSession",
    help: "Begins a session.",
    fields: Some(&["startSession"]),
    privilege: Required::Login,
    run: start,
    ..Command::BASE
};

pub(super) static END: Command = Command {
    name: "endSessions",
    help: "Ends sessions.",
    fields: Some(&["endSessions"]),
    privilege: Required::Login,
    stable_api: StableApi::Included,
    run: end,
    ..Command::BASE
};

pub(super) static REFRESH: Command = Command {
    name: "refreshSessions",
    help: "Keeps sessions alive.",
    fields: Some(&["refreshSessions"]),
    privilege: Required::Login,
    stable_api: StableApi::Included,
    run: refresh,
    ..Command::BASE
};

pub(super) static KILL: Command = Command {
    name: "killSessions",
    help: "Stops what runs in sessions.",
    fields: Some(&["killSessions"]),
    privilege: Required::Login,
    run: kill,
    ..Command::BASE
};

pub(super) static KILL_ALL: Command = Command {
    name: "killAllSessions",
    help: "Stops what runs in all sessions.",
    fields: Some(&["killAllSessions"]),
    privilege: Required::Cluster(&[Action::KillAnySession]),
    audited: true,
    run: kill_all,
    ..Command::BASE
};

pub(super) static KILL_BY_PATTERN: Command = Command {
    name: "killAllSessionsByPattern",
    help: "Stops what runs in the sessions that a pattern names.",
    fields: Some(&["killAllSessionsByPattern"]),
    privilege: Required::Cluster(&[Action::KillAnySession]),
    run: kill_by_pattern,
    ..Command::BASE
};

fn start(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let id = value::random::uuid();
    context.engine.service.sessions.touch(id, context.client.login.owner().as_deref())?;
    out.doc("id", |out| {
        out.append("id", Val::Binary(4, &id));
    });
    out.i32("timeoutMinutes", 30);
    Ok(())
}

/// The sessions in the command's first field.
fn named(context: &Context<'_>) -> Result<Vec<[u8; 16]>> {
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

/// Those of these sessions that are the client's own; it knows of no others.
fn own(context: &Context<'_>, ids: Vec<[u8; 16]>) -> HashSet<[u8; 16]> {
    let login = &context.client.login;
    let own = login.required.then(|| context.engine.service.sessions.of(login.owner().as_deref()));
    ids.into_iter().filter(|id| own.as_ref().is_none_or(|own| own.contains(id))).collect()
}

fn end(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let ids = own(context, named(context)?);
    ids.iter().for_each(|id| context.engine.service.sessions.end(*id));
    context.engine.service.sessions.transactions.kill(context.engine, |id| ids.contains(id));
    close_cursors(context.engine, |id| ids.contains(id));
    Ok(())
}

fn refresh(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let (ids, owner) = (named(context)?, context.client.login.owner());
    ids.into_iter().try_for_each(|id| context.engine.service.sessions.touch(id, owner.as_deref()))
}

fn kill(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let named = named(context)?;
    let login = &context.client.login;
    // An empty list means all sessions of the user.
    if named.is_empty() && !login.required {
        stop(context, |_| true);
        return Ok(());
    }
    let ids = match named.is_empty() {
        true => context.engine.service.sessions.of(login.owner().as_deref()),
        false => own(context, named),
    };
    stop(context, |id| ids.contains(id));
    Ok(())
}

fn kill_all(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    // The list names users; without users, it can only mean everybody.
    args.optional_array("killAllSessions")?.ok_or_else(|| args.missing("killAllSessions"))?;
    stop(context, |_| true);
    Ok(())
}

fn kill_by_pattern(context: &mut Context<'_>, _: &mut Writer<'_>) -> Result<()> {
    let args = &context.args;
    let list = args.optional_array(context.name)?.ok_or_else(|| args.missing(context.name))?;
    let mut ids = HashSet::new();
    // Without users, a pattern that names no session can only mean everybody.
    let mut all = list.is_empty();
    for (at, pattern) in list {
        let Some(pattern) = pattern.as_doc() else {
            let name = format!("{}.{at}", context.name);
            return Err(args.wrong_type(&name, pattern.get(), "object"));
        };
        match session::session_of(pattern)? {
            Some(id) => _ = ids.insert(id),
            None => all = true,
        }
    }
    stop(context, |id| all || ids.contains(id));
    Ok(())
}

fn close_cursors(engine: &Inner, which: impl Fn(&[u8; 16]) -> bool) {
    engine.service.cursors.close_where(|cursor| cursor.session.as_ref().is_some_and(&which));
}

/// Stops the commands and closes the cursors of sessions, but for the command that asks for it.
fn stop(context: &Context<'_>, which: impl Fn(&[u8; 16]) -> bool) {
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
    engine.service.sessions.transactions.kill(engine, &which);
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
