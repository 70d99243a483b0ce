//! Authentication: shared code of `saslStart`, `saslContinue`, `authenticate`, `logout` and
//! `hello`.

use super::Context;
use crate::access::login::Answer;
use crate::access::{EXTERNAL, X509};
use crate::args::Args;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use value::{Code, Error, RawDoc, Result, Val, Writer};

/// The id of every SASL conversation: a connection has one at a time.
pub(super) const CONVERSATION: i32 = 1;

pub(super) fn start(
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

pub(super) fn payload(doc: RawDoc<'_>) -> Result<Cow<'_, [u8]>> {
    match doc.get("payload") {
        Some(Val::Binary(_, bytes)) => Ok(Cow::Borrowed(bytes)),
        Some(Val::String(text)) => value::ejson::decode_base64(text)
            .map(Cow::Owned)
            .ok_or_else(|| Error::new(Code(10270), "Failed decoding SASL payload: invalid base64")),
        _ => Ok(Cow::Borrowed(&[])),
    }
}

pub(super) fn write(out: &mut Writer<'_>, answer: &Answer) {
    out.i32("conversationId", CONVERSATION).bool("done", answer.done);
    out.append("payload", Val::Binary(0, answer.payload.as_bytes()));
}

pub(super) fn authenticate(
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

/// Runs `speculativeAuthenticate` of `hello`. On failure it is left out of the reply, and the
/// client authenticates as usual.
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

/// Writes the mechanisms with which a user can log in. Unknown users look like known ones.
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
