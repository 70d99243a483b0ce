//! Logging in and out: `saslStart`, `saslContinue`, `authenticate`, `logout`.

use super::row::{Required, StableApi};
use super::{Command, Context};
use crate::access::login::Answer;
use crate::access::{EXTERNAL, X509};
use crate::args::Args;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use value::{Code, Error, RawDoc, Result, Val, Writer};

pub(super) static START: Command = Command {
    name: "saslStart",
    help: "Begins to log in by a password.",
    fields: Some(&["saslStart", "mechanism", "payload", "autoAuthorize", "options", "db"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run: |context, out| {
        let answer = start(context, context.args.doc, context.db, false)?;
        write(out, &answer);
        Ok(())
    },
    ..Command::BASE
};

pub(super) static CONTINUE: Command = Command {
    name: "saslContinue",
    help: "Goes on with logging in.",
    fields: Some(&["saslContinue", "conversationId", "payload"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run: go_on,
    ..Command::BASE
};

pub(super) static AUTHENTICATE: Command = Command {
    name: "authenticate",
    help: "Logs in by the client's certificate.",
    fields: Some(&["authenticate", "mechanism", "user"]),
    privilege: Required::Nothing,
    credentials: true,
    stable_api: StableApi::Included,
    uncompressed: true,
    run: |context, out| {
        let (doc, db) = (context.args.doc, context.db);
        authenticate(context, doc, db, false, out)
    },
    ..Command::BASE
};

pub(super) static LOGOUT: Command = Command {
    name: "logout",
    help: "Logs out of a database.",
    fields: Some(&["logout"]),
    privilege: Required::Nothing,
    credentials: true,
    run: |context, _| {
        let db = context.db;
        context.client.login.logout(db);
        Ok(())
    },
    ..Command::BASE
};

/// All logins of a conversation have this number: there is one at a time.
const CONVERSATION: i32 = 1;

fn start(
    context: &mut Context<'_>,
    doc: RawDoc<'_>,
    db: &str,
    speculative: bool,
) -> Result<Answer> {
    let mechanism = doc.get("mechanism").and_then(Val::as_str).ok_or_else(|| {
        Error::new(Code(40414), "BSON field 'saslStart.mechanism' is missing but a required field")
    })?;
    let options = doc.get("options").and_then(Val::as_doc).unwrap_or(RawDoc::empty());
    let short = options.get("skipEmptyExchange").is_some_and(Val::truthy);
    let (login, engine) = context.client.login();
    login.start(engine, db, mechanism, &payload(doc)?, short, speculative)
}

fn payload(doc: RawDoc<'_>) -> Result<Cow<'_, [u8]>> {
    match doc.get("payload") {
        Some(Val::Binary(_, bytes)) => Ok(Cow::Borrowed(bytes)),
        Some(Val::String(text)) => value::ejson::decode_base64(text)
            .map(Cow::Owned)
            .ok_or_else(|| Error::new(Code(10270), "Failed decoding SASL payload: invalid base64")),
        _ => Ok(Cow::Borrowed(&[])),
    }
}

fn write(out: &mut Writer<'_>, answer: &Answer) {
    out.i32("conversationId", CONVERSATION).bool("done", answer.done);
    out.append("payload", Val::Binary(0, answer.payload.as_bytes()));
}

fn go_on(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    let doc = context.args.doc;
    if doc.get("conversationId").and_then(Val::as_i64_exact) != Some(i64::from(CONVERSATION)) {
        return Err(Error::new(Code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    let (login, engine) = context.client.login();
    let answer = login.go_on(engine, &payload(doc)?)?;
    write(out, &answer);
    Ok(())
}

fn authenticate(
    context: &mut Context<'_>,
    doc: RawDoc<'_>,
    db: &str,
    speculative: bool,
    out: &mut Writer<'_>,
) -> Result<()> {
    let args = Args::new("authenticate", doc);
    let mechanism = args.string("mechanism")?;
    if mechanism != X509 {
        return Err(Error::new(
            Code::MECHANISM_UNAVAILABLE,
            format!("Received authentication for mechanism {mechanism} which is not enabled"),
        ));
    }
    let named = args.optional_string("user")?.filter(|named| !named.is_empty());
    if db != EXTERNAL {
        return Err(Error::new(
            Code::PROTOCOL_ERROR,
            "X.509 authentication must always use the $external database.",
        ));
    }
    let (login, engine) = context.client.login();
    let user = login.by_certificate(engine, named, speculative)?;
    out.str("dbname", EXTERNAL).str("user", &user);
    Ok(())
}

/// Does in `hello` what the client would ask next. What fails is left out, so that it asks.
pub(super) fn speculate(context: &mut Context<'_>, out: &mut Writer<'_>) {
    let Some(Val::Document(doc)) = context.args.doc.get("speculativeAuthenticate") else { return };
    let db = doc.get("db").and_then(Val::as_str);
    if doc.find("authenticate").is_some() {
        let db = db.unwrap_or(EXTERNAL);
        let mut result = Ok(());
        let reply = value::DocBuf::build(|out| result = authenticate(context, doc, db, true, out));
        if result.is_ok() {
            out.append("speculativeAuthenticate", Val::Document(reply.as_doc()));
        }
    } else if let Ok(answer) = start(context, doc, db.unwrap_or(context.db), true) {
        out.doc("speculativeAuthenticate", |out| write(out, &answer));
    }
}

/// Tells by which mechanisms a user can log in. Users that do not exist look like others.
pub(super) fn write_mechanisms(context: &mut Context<'_>, out: &mut Writer<'_>) -> Result<()> {
    use access::scram::Mechanism;
    let Some(Val::String(named)) = context.args.doc.get("saslSupportedMechs") else {
        return Ok(());
    };
    let (db, name) = named.split_once('.').unwrap_or((named, ""));
    context.engine.service.access.mechanisms_asked.fetch_add(1, Ordering::Relaxed);
    let user = context.client.directory().user(db, name)?;
    out.array("saslSupportedMechs", |names| {
        for mechanism in Mechanism::ALL.into_iter().rev() {
            if user.as_ref().is_none_or(|user| user.credentials(mechanism).is_some()) {
                names.push(Val::String(mechanism.name()));
            }
        }
    });
    Ok(())
}
