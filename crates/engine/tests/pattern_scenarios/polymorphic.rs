//! The scenarios of polymorphic.

use crate::harness::{Server, within};
use motifdb::value::{DocBuf, Val, ejson};

/// The declaration of the scenarios; `more` are further options.
fn declaration(more: &str) -> String {
    format!(
        "{{name: 'productTypes', kind: 'polymorphic', discriminator: 'type', common: {{required: ['title']}},
          types: {{book: {{required: ['author', 'pages']}},
                   dvd: {{required: ['duration'], properties: {{region: {{bsonType: 'int'}}}}}},
                   clothing: {{required: ['size', 'color']}}}},
          transitions: {{default: 'deny', allow: [['dvd', 'book']], foreignFields: 'drop'}}, {more}}}"
    )
}

fn declare(server: &Server, more: &str) {
    server.run(&format!("{{createPatterns: 'products', patterns: [{}]}}", declaration(more)));
}

const SEEDS: &str = "{_id: 1, type: 'book', title: 'A', author: 'B', pages: 320},
    {_id: 2, type: 'dvd', title: 'C', duration: 120, region: 1},
    {_id: 3, type: 'clothing', title: 'D', size: 'L', color: 'black'}";

fn with_seeds() -> Server {
    let server = Server::new();
    server.run(&format!("{{insert: 'products', documents: [{SEEDS}]}}"));
    server
}

/// The first write error of a command, or the error that it fails with, as a document.
fn refused(server: &Server, text: &str) -> DocBuf {
    let command = ejson::parse_doc(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    match server.0.run_command("t", command.as_doc()) {
        Err(error) => DocBuf::build(|out| {
            out.i32("code", error.code().0).str("errmsg", error.message());
            if let Some(info) = error.info() {
                out.extend(info.as_doc());
            }
        }),
        Ok(reply) => {
            let errors = reply.as_doc().get("writeErrors").and_then(Val::as_array);
            let first = errors.and_then(|errors| errors.first()).and_then(|(_, e)| e.as_doc());
            first.unwrap_or_else(|| panic!("{text} was accepted")).into()
        }
    }
}

/// Requires that a command fails with this code and that the error, printed, has these words.
fn assert_refused(server: &Server, text: &str, code: i32, words: &[&str]) {
    let error = refused(server, text);
    let shown = ejson::print(error.as_doc(), ejson::Format::Shell);
    assert_eq!(error.as_doc().get("code"), Some(Val::Int32(code)), "{text}: {shown}");
    for word in words {
        assert!(shown.contains(word), "{text}: {shown}: {word}");
    }
}

/// The document with this `_id`, printed.
fn one(server: &Server, id: &str) -> String {
    ejson::print(server.get("products", id).as_doc(), ejson::Format::Shell)
}

/// A field of the pattern in `listPatterns`, printed.
fn listed(server: &Server, field: &str) -> String {
    let pattern = server.pattern("products");
    let value = pattern.as_doc().get(field).unwrap_or(Val::Null);
    ejson::print_value(value, ejson::Format::Shell)
}

#[test]
fn polymorphic_1_a_document_must_be_valid_for_its_type() {
    let server = with_seeds();
    declare(&server, "");
    assert_refused(
        &server,
        "{insert: 'products', documents: [{_id: 4, type: 'book', title: 'X'}]}",
        121,
        &[
            "'book'",
            "'author' is missing; 'pages' is missing",
            "errInfo: { failingDocumentId: 4, pattern: \"productTypes\", type: \"book\"",
            "missingProperties: [\"author\", \"pages\"]",
        ],
    );
    assert_refused(
        &server,
        "{update: 'products', updates: [{q: {_id: 2}, u: {$set: {region: 'one'}}}]}",
        121,
        &["'dvd'", "'region': bsonType: type did not match", "consideredValue: \"one\""],
    );
    assert_refused(
        &server,
        "{findAndModify: 'products', query: {_id: 1}, update: {$unset: {title: 1}}}",
        121,
        &["'title' is missing"],
    );
    assert_refused(
        &server,
        "{insert: 'products', documents: [{_id: 4, title: 'X'}]}",
        121,
        &["the discriminator 'type' is missing"],
    );
    assert_eq!(server.find("products", "{}").len(), 3);
    server.run("{update: 'products', updates: [{q: {_id: 1}, u: {$set: {pages: 321}}}]}");
    server.run("{delete: 'products', deletes: [{q: {_id: 3}, limit: 1}]}");
    let types = listed(&server, "types");
    assert!(types.contains("book: { documents: 1, bytes: "), "{types}");
    assert!(types.contains("clothing: { documents: 0, bytes: 0 }"), "{types}");
    assert_eq!(listed(&server, "unresolved"), "0");
    server.verify("products");
}

#[test]
fn polymorphic_5_and_6_a_change_of_type_is_declared() {
    let server = with_seeds();
    declare(&server, "");
    let update = |id: i32, change: &str| {
        format!("{{update: 'products', updates: [{{q: {{_id: {id}}}, u: {{$set: {change}}}}}]}}")
    };
    server.run(&update(2, "{type: 'book', author: 'A', pages: 10}"));
    assert_eq!(
        one(&server, "2"),
        "{ _id: 2, type: \"book\", title: \"C\", author: \"A\", pages: 10 }"
    );
    assert_refused(
        &server,
        &update(3, "{type: 'dvd', duration: 1}"),
        96001,
        &["'clothing'", "'dvd'"],
    );
    assert_refused(&server, &update(3, "{type: 'vinyl'}"), 121, &["\\\"vinyl\\\""]);
    let whole = "{_id: 1, type: 'dvd', title: 'A', duration: 3}";
    let replace = format!("{{update: 'products', updates: [{{q: {{_id: 1}}, u: {whole}}}]}}");
    assert_refused(&server, &replace, 96001, &["cannot become a 'dvd'"]);
    assert!(one(&server, "3").contains("clothing"));
    server.verify("products");
    // What stays and what is moved is declared.
    server.run(
        "{modifyPattern: 'products', name: 'productTypes',
          set: {transitions: {default: 'allow', deny: [['book', 'dvd']], foreignFields: {move: 'former'}}}}",
    );
    server.run(&update(3, "{type: 'dvd', duration: 1}"));
    assert_eq!(
        one(&server, "3"),
        "{ _id: 3, type: \"dvd\", title: \"D\", duration: 1, former: { size: \"L\", color: \"black\" } }"
    );
    assert_refused(&server, &update(1, "{type: 'dvd', duration: 1}"), 96001, &["'book'"]);
    server.verify("products");
}

#[test]
fn polymorphic_7_old_documents_get_their_types_by_rules() {
    let server = with_seeds();
    server.run(
        "{insert: 'products', documents: [{_id: 10, title: 'E', author: 'F', pages: 7}, {_id: 11, title: 'G'}]}",
    );
    declare(&server, "infer: [{if: {pages: {$exists: true}}, then: 'book'}]");
    assert_eq!(
        one(&server, "10"),
        "{ _id: 10, title: \"E\", author: \"F\", pages: 7, type: \"book\" }"
    );
    assert_eq!(listed(&server, "state"), "\"ready\"");
    assert_eq!(listed(&server, "unresolved"), "1");
    assert_eq!(listed(&server, "unresolvedIds"), "[11]");
    assert!(listed(&server, "warning").contains("1 document has no declared type"));
    server.verify("products");
    // The count follows writes; what has no type may take any, if it is valid for it.
    let set = |change: &str| {
        format!("{{update: 'products', updates: [{{q: {{_id: 11}}, u: {{$set: {change}}}}}]}}")
    };
    server.run(&set("{note: 'still without a type'}"));
    assert_refused(&server, &set("{type: 'clothing'}"), 121, &["'clothing'"]);
    server.run(&set("{type: 'clothing', size: 'M', color: 'red'}"));
    assert_eq!(listed(&server, "unresolved"), "0");
    assert_eq!(listed(&server, "warning"), "null");
    server.verify("products");
}

#[test]
fn polymorphic_8_types_that_are_not_declared() {
    let server = with_seeds();
    declare(&server, "");
    let vinyl = "{insert: 'products', documents: [{_id: 8, type: 'vinyl', title: 'V', speed: 33}]}";
    assert_refused(&server, vinyl, 121, &["'book', 'dvd' and 'clothing'"]);
    server.run("{modifyPattern: 'products', name: 'productTypes', set: {unknown: 'allow'}}");
    server.run(vinyl);
    assert_refused(
        &server,
        "{insert: 'products', documents: [{_id: 9, type: 'vinyl'}]}",
        121,
        &["common to all types", "'title' is missing"],
    );
    assert!(listed(&server, "unknown").starts_with("{ documents: 1, bytes: "));
    server.verify("products");
}

#[test]
fn polymorphic_rules_that_tell_nothing_are_refused() {
    let server = with_seeds();
    server.run("{insert: 'products', documents: [{_id: 10, title: 'E'}, {_id: 11, title: 'F'}]}");
    let declared = |rule: &str| {
        format!(
            "{{createPatterns: 'products', patterns: [{}]}}",
            declaration(&format!("infer: [{rule}]"))
        )
    };
    let all = declared("{if: {title: {$exists: true}}, then: 'book'}");
    assert_refused(&server, &all, 2, &["'infer.0.if' matches all documents", "_id 1, 2, 3"]);
    let none = declared("{if: {isbn: {$exists: true}}, then: 'book'}");
    assert_refused(&server, &none, 2, &["'infer.0.if' matches none", "_id 1, 2, 3"]);
    assert_refused(&server, &declared("{if: {}, then: 'book'}"), 2, &["'infer.0.if'"]);
    assert!(server.docs("{listPatterns: 'products'}").is_empty());
}

#[test]
fn polymorphic_documents_that_are_not_valid_are_counted_and_may_be_corrected() {
    let server = with_seeds();
    server.run(
        "{insert: 'products', documents: [{_id: 4, type: 'book', title: 'X'}, {_id: 5, type: 7}, {_id: 6}, {_id: 7}]}",
    );
    declare(&server, "");
    assert_eq!(listed(&server, "unresolved"), "4");
    assert_eq!(listed(&server, "unresolvedIds"), "[4, 5, 6]");
    server.run("{update: 'products', updates: [{q: {_id: 4}, u: {$set: {author: 'Y'}}}]}");
    server.run("{update: 'products', updates: [{q: {_id: 4}, u: {$set: {pages: 1}}}]}");
    assert_eq!(
        server.code("{update: 'products', updates: [{q: {_id: 4}, u: {$unset: {pages: 1}}}]}"),
        121
    );
    server.run("{delete: 'products', deletes: [{q: {_id: 5}, limit: 1}]}");
    assert_eq!(listed(&server, "unresolvedIds"), "[6, 7]");
    // A write that bypasses patterns shows in the check.
    server.run("{insert: 'products', documents: [{_id: 8, type: 'dvd'}], bypassPatterns: true}");
    assert_eq!(listed(&server, "state"), "\"degraded\"");
    server.run("{validatePatterns: 'products', repair: true}");
    assert_eq!(listed(&server, "unresolvedIds"), "[6, 7, 8]");
    assert_eq!(listed(&server, "state"), "\"ready\"");
    server.verify("products");
    server.run("{dropPatterns: 'products', names: ['productTypes']}");
    assert_eq!(server.code("{insert: 'products', documents: [{_id: 9}]}"), 0);
}

#[test]
fn polymorphic_a_transaction_counts_when_it_commits() {
    let server = with_seeds();
    declare(&server, "");
    let before = listed(&server, "types");
    let insert = "documents: [{_id: 20, type: 'dvd', title: 'T', duration: 1}]";
    server.run(&format!("{{insert: 'products', {insert}{}}}", within(1, 1, true)));
    assert_eq!(listed(&server, "types"), before);
    assert_eq!(server.end("abortTransaction", 1, 1), 0);
    assert_eq!(listed(&server, "types"), before);
    server.run(&format!("{{insert: 'products', {insert}{}}}", within(1, 2, true)));
    let bad = format!(
        "{{insert: 'products', documents: [{{_id: 21, type: 'dvd', title: 'T'}}]{}}}",
        within(2, 1, true)
    );
    assert_refused(&server, &bad, 121, &["'duration' is missing"]);
    assert_eq!(server.end("commitTransaction", 1, 2), 0);
    assert!(
        listed(&server, "types").contains("dvd: { documents: 2"),
        "{}",
        listed(&server, "types")
    );
    server.verify("products");
}
