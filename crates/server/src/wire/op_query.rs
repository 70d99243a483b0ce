//! `OP_QUERY`: the old form of a command, a query on `database.$cmd`, answered by `OP_REPLY`.
//!
//! MongoDB 6 accepts only handshakes in this form. MotifDB accepts every command, because old tools
//! still use it; queries on collections are refused as in MongoDB.

use super::header::{HEADER_BYTES, Header, OP_REPLY};
use super::{Reader, Rejected, document};
use value::{Code, DocBuf, Error, RawDoc, RawVal};

/// Flag of a reply: the query failed; the document has the error.
const QUERY_FAILURE: i32 = 1 << 1;
/// Flag of a reply that every server sets since 2008.
const AWAIT_CAPABLE: i32 = 1 << 3;
/// Header, flags, cursor id, starting point, count.
const REPLY_PREFIX_BYTES: usize = HEADER_BYTES + 20;

/// A command that came as a query.
#[derive(Debug)]
pub(crate) struct Query {
    /// The command with `$db`, as `OP_MSG` would have carried it.
    pub(crate) body: DocBuf,
}

/// Why a query is not run.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is no message at all, or a command that is answered with an error.
    Rejected(Rejected),
    /// It queries a collection, which only the old protocol allowed.
    Collection,
}

impl<T: Into<Rejected>> From<T> for Refused {
    fn from(rejected: T) -> Refused {
        Refused::Rejected(rejected.into())
    }
}

/// Reads a whole message, header included.
pub(crate) fn parse(message: &[u8]) -> Result<Query, Refused> {
    let mut reader = Reader { rest: message.get(HEADER_BYTES..).unwrap_or(&[]) };
    reader.i32()?;
    let namespace = reader.cstring()?;
    reader.i32()?;
    let count = reader.i32()?;
    let (query, rest) = document(reader.rest)?;
    if !rest.is_empty() {
        // The fields to return, which commands ignore.
        document(rest)?;
    }
    let Some(db) = namespace.strip_suffix(".$cmd") else { return Err(Refused::Collection) };
    if count != 1 && count != -1 {
        return Err(Error::new(
            Code(16979),
            format!("Bad numberToReturn ({count}) for $cmd type ns - can only be 1 or -1"),
        )
        .into());
    }
    Ok(Query { body: command(db, query) })
}

/// The command inside a query document, which may wrap it, with the database that the name says.
fn command(db: &str, query: RawDoc<'_>) -> DocBuf {
    let wrapped = match query.first() {
        Some((name @ ("$query" | "query"), value)) => value.as_doc().map(|doc| (name, doc)),
        _ => None,
    };
    let inner = wrapped.map_or(query, |(_, doc)| doc);
    DocBuf::build(|body| {
        for (name, value) in inner {
            if name != "$db" {
                body.raw(name, value);
            }
        }
        if let Some(preference) = outer_preference(query, inner, wrapped.is_some()) {
            body.raw("$readPreference", preference);
        }
        body.str("$db", db);
    })
}

fn outer_preference<'a>(query: RawDoc<'a>, inner: RawDoc<'_>, wrapped: bool) -> Option<RawVal<'a>> {
    if !wrapped || inner.find("$readPreference").is_some() {
        return None;
    }
    query.find("$readPreference")
}

/// Begins a reply in an empty buffer: room for everything in front of the one document.
pub(crate) fn begin_reply(reply: &mut Vec<u8>) {
    reply.clear();
    reply.extend_from_slice(&[0; REPLY_PREFIX_BYTES]);
}

/// Ends a reply behind whose prefix a document was appended.
pub(crate) fn finish_reply(reply: &mut [u8], request_id: i32, response_to: i32) {
    finish(reply, request_id, response_to, AWAIT_CAPABLE);
}

/// Writes the whole reply to a query on a collection.
pub(crate) fn refuse_collection(reply: &mut Vec<u8>, request_id: i32, response_to: i32) {
    begin_reply(reply);
    value::writer::write_doc(reply, |doc| {
        doc.str(
            "$err",
            "OP_QUERY on collections is no longer supported; the client driver may need an upgrade",
        );
        doc.i32("code", 5_739_101);
        doc.f64("ok", 0.0);
    });
    finish(reply, request_id, response_to, QUERY_FAILURE);
}

fn finish(reply: &mut [u8], request_id: i32, response_to: i32, flags: i32) {
    Header { length: reply.len(), request_id, response_to, opcode: OP_REPLY }.write(reply);
    if let Some(slot) = reply.get_mut(HEADER_BYTES..HEADER_BYTES + 4) {
        slot.copy_from_slice(&flags.to_le_bytes());
    }
    // Cursor id and starting point stay zero; one document follows.
    if let Some(slot) = reply.get_mut(HEADER_BYTES + 16..HEADER_BYTES + 20) {
        slot.copy_from_slice(&1i32.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::OP_QUERY;
    use proptest::prelude::*;

    fn message(namespace: &str, count: i32, query: &DocBuf) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES + 4];
        bytes.extend_from_slice(namespace.as_bytes());
        bytes.extend_from_slice(&[0; 5]);
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(query.bytes());
        let length = bytes.len();
        Header { length, request_id: 1, response_to: 0, opcode: OP_QUERY }.write(&mut bytes);
        bytes
    }

    fn hello() -> DocBuf {
        DocBuf::build(|doc| {
            doc.i32("hello", 1).str("$db", "wrong");
        })
    }

    #[test]
    fn the_database_comes_from_the_name() {
        let query = parse(&message("shop.$cmd", -1, &hello())).expect("a command");
        assert_eq!(query.body.as_doc().get("$db").and_then(|v| v.as_str()), Some("shop"));
        assert_eq!(query.body.as_doc().first().map(|(name, _)| name), Some("hello"));
        assert_eq!(query.body.as_doc().count(), 2);
    }

    #[test]
    fn a_wrapped_command_is_taken_out_and_keeps_the_read_preference() {
        for wrapper in ["$query", "query"] {
            let query = DocBuf::build(|doc| {
                doc.doc(wrapper, |inner| {
                    inner.i32("ping", 1);
                });
                doc.doc("$readPreference", |inner| {
                    inner.str("mode", "secondary");
                });
            });
            let query = parse(&message("a.$cmd", 1, &query)).expect("a command");
            let names: Vec<_> = query.body.as_doc().iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["ping", "$readPreference", "$db"]);
        }
    }

    #[test]
    fn queries_on_collections_and_wrong_counts_are_refused() {
        assert!(matches!(parse(&message("a.b", 1, &hello())), Err(Refused::Collection)));
        match parse(&message("a.$cmd", 5, &hello())) {
            Err(Refused::Rejected(Rejected::Command(error))) => assert_eq!(error.code().0, 16979),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes).is_ok();
        }
    }
}
