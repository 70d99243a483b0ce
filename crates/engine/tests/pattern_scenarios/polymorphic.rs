//! The scenarios of polymorphic.

use crate::harness::{Server, within};
use motifdb::value::path::Path;
use motifdb::value::{DocBuf, Val, ejson};

/// The declaration of the scenarios; `more` are further options.
fn declaration(more: &str) -> String {
    format!(
        "{{name: 'productTypes', kind: 'polymorphic', discriminator: 'type', common: {{required: ['title'], indexes: [{{type: 1, title: 1}}]}},
          types: {{book: {{required: ['author', 'pages'], indexes: [{{pages: 1}}]}},
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
pub fn assert_refused(server: &Server, text: &str, code: i32, words: &[&str]) {
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

/// The name of the index that a find uses, and how many entries it reads.
pub fn plan(server: &Server, collection: &str, filter: &str) -> (String, i64) {
    let reply = server.run(&format!(
        "{{explain: {{find: '{collection}', filter: {filter}}}, verbosity: 'executionStats'}}"
    ));
    let keys = Path::new("executionStats.totalKeysExamined").get(reply.as_doc());
    let mut stage = Path::new("queryPlanner.winningPlan").get(reply.as_doc());
    let mut index = "none".to_owned();
    while let Val::Document(doc) = stage {
        if let Some(name) = doc.get("indexName").and_then(Val::as_str) {
            name.clone_into(&mut index);
        }
        stage = doc.get("inputStage").unwrap_or(Val::Missing);
    }
    (index, keys.as_i64_exact().unwrap_or(-1))
}

#[test]
fn polymorphic_2_a_field_of_one_type_implies_the_type() {
    let server = with_seeds();
    // Books that are shorter: only one entry of the index is of a longer one.
    for id in 50..60 {
        server.run(&format!(
            "{{insert: 'products', documents: [{{_id: {id}, type: 'book', title: 'S', author: 'S', pages: {id}}}]}}"
        ));
    }
    declare(&server, "");
    let long = "{pages: {$gt: 200}}";
    assert_eq!(server.find("products", long).len(), 1);
    assert_eq!(plan(&server, "products", long), ("productTypes_book_pages_1".to_owned(), 1));
    assert_eq!(
        plan(&server, "products", "{type: 'book', pages: {$gt: 200}}").0,
        "productTypes_book_pages_1"
    );
    // What has no pages matches, too.
    assert_eq!(plan(&server, "products", "{pages: null}").0, "none");
    assert_eq!(server.find("products", "{pages: {$exists: false}}").len(), 2);
    assert_eq!(
        plan(&server, "products", "{type: 'dvd', title: 'C'}").0,
        "productTypes_type_1_title_1"
    );
    // A document of another type that has the field is found: nothing is implied then.
    server.run("{insert: 'products', documents: [{_id: 4, type: 'dvd', title: 'E', duration: 1, pages: 500}]}");
    assert_eq!(server.find("products", long).len(), 2);
    assert_eq!(plan(&server, "products", long).0, "none");
    server.run("{delete: 'products', deletes: [{q: {_id: 4}, limit: 1}]}");
    assert_eq!(plan(&server, "products", long).0, "productTypes_book_pages_1");
    assert_eq!(server.code("{dropIndexes: 'products', index: 'productTypes_book_pages_1'}"), 72);
    let count = server.run("{count: 'products', query: {type: 'book'}}");
    assert_eq!(count.as_doc().get("n"), Some(Val::Int32(11)));
    server.run("{delete: 'products', deletes: [{q: {title: 'S'}, limit: 0}]}");
    // Another declaration has other indexes.
    server.run(
        "{modifyPattern: 'products', name: 'productTypes', set: {types: {book: {required: ['author', 'pages'], indexes: [{key: {author: 1}, unique: true}]},
          dvd: {required: ['duration']}, clothing: {required: ['size', 'color']}}}}",
    );
    assert_eq!(plan(&server, "products", "{author: 'B'}").0, "productTypes_book_author_1");
    assert_eq!(plan(&server, "products", long).0, "none");
    let again = "{insert: 'products', documents: [{_id: 5, type: 'book', title: 'A', author: 'B', pages: 1}]}";
    assert_eq!(server.code(again), 11000);
    server.verify("products");
    server.run("{dropPatterns: 'products', names: ['productTypes']}");
    assert_eq!(server.docs("{listIndexes: 'products'}").len(), 1);
}

#[test]
fn polymorphic_3_and_4_views_of_types_read_and_write() {
    let server = with_seeds();
    declare(&server, "views: true");
    let ids = |name: &str| -> Vec<i64> {
        let found = server.docs(&format!("{{find: '{name}', sort: {{_id: 1}}}}"));
        found
            .iter()
            .map(|doc| doc.as_doc().get("_id").and_then(Val::as_i64_exact).unwrap_or(-1))
            .collect()
    };
    let number = |reply: &DocBuf, name: &str| reply.as_doc().get(name).and_then(Val::as_i64_exact);
    assert_eq!(ids("products.book"), [1]);
    let all =
        server.run("{update: 'products.book', updates: [{q: {}, u: {$set: {x: 1}}, multi: true}]}");
    assert_eq!((number(&all, "n"), number(&all, "nModified")), (Some(1), Some(1)));
    assert_eq!(server.find("products", "{x: 1}").len(), 1);
    server
        .run("{insert: 'products.book', documents: [{_id: 9, title: 'Y', author: 'Z', pages: 5}]}");
    assert_eq!(
        one(&server, "9"),
        "{ _id: 9, title: \"Y\", author: \"Z\", pages: 5, type: \"book\" }"
    );
    assert_eq!(ids("products.book"), [1, 9]);
    // Other types are neither changed nor deleted.
    let none = server.run("{update: 'products.book', updates: [{q: {_id: 2}, u: {$set: {y: 1}}}]}");
    assert_eq!(number(&none, "n"), Some(0));
    let none = server.run(
        "{update: 'products.book', updates: [{q: {type: 'dvd'}, u: {$set: {y: 1}}, multi: true}]}",
    );
    assert_eq!(number(&none, "n"), Some(0));
    let none = server.run("{delete: 'products.book', deletes: [{q: {_id: 2}, limit: 1}]}");
    assert_eq!(number(&none, "n"), Some(0));
    let none = server.run("{findAndModify: 'products.dvd', query: {_id: 1}, remove: true}");
    assert_eq!(none.as_doc().get("value"), Some(Val::Null));
    // A wrong type is refused, whichever way it is written.
    let words: &[&str] = &["the view 'products.book' does not show"];
    for text in [
        "{insert: 'products.book', documents: [{_id: 20, type: 'dvd', title: 'T', duration: 1}]}",
        "{update: 'products.book', updates: [{q: {_id: 1}, u: {$set: {type: 'dvd', duration: 1}}}]}",
        "{update: 'products.book', updates: [{q: {_id: 1}, u: {$unset: {type: 1}}}]}",
        "{update: 'products.book', updates: [{q: {_id: 1}, u: [{$set: {type: 'dvd'}}]}]}",
        "{update: 'products.book', updates: [{q: {_id: 1}, u: {type: 'dvd', title: 'A', duration: 1}}]}",
        "{findAndModify: 'products.book', query: {_id: 1}, update: {$set: {type: 'vinyl'}}}",
    ] {
        assert_refused(&server, text, 96001, words);
    }
    assert_refused(
        &server,
        "{insert: 'products.book', documents: [{_id: 20}]}",
        121,
        &["'author' is missing"],
    );
    // An upsert and a replacement get the type.
    server.run(
        "{update: 'products.dvd', updates: [{q: {_id: 30}, u: {$set: {title: 'U', duration: 2}}, upsert: true}]}",
    );
    assert!(one(&server, "30").contains("type: \"dvd\""));
    server.run("{update: 'products.dvd', updates: [{q: {_id: 31}, u: {title: 'V', duration: 2}, upsert: true}]}");
    server.run("{update: 'products.dvd', updates: [{q: {_id: 30}, u: {title: 'W', duration: 3}}]}");
    assert_eq!(one(&server, "30"), "{ _id: 30, title: \"W\", duration: 3, type: \"dvd\" }");
    assert_eq!(ids("products.dvd"), [2, 30, 31]);
    let removed = server.run("{delete: 'products.dvd', deletes: [{q: {}, limit: 0}]}");
    assert_eq!(number(&removed, "n"), Some(3));
    assert_eq!(ids("products"), [1, 3, 9]);
    // In a transaction, too.
    server.run(&format!(
        "{{insert: 'products.dvd', documents: [{{_id: 40, title: 'T', duration: 1}}]{}}}",
        within(1, 1, true)
    ));
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    assert_eq!(ids("products.dvd"), [40]);
    server.verify("products");
}

#[test]
fn polymorphic_views_live_and_end_with_their_pattern() {
    let server = with_seeds();
    server.run("{create: 'products.dvd'}");
    let whole =
        format!("{{createPatterns: 'products', patterns: [{}]}}", declaration("views: true"));
    assert_refused(&server, &whole, 48, &["'products.dvd'"]);
    server.run("{drop: 'products.dvd'}");
    server.run(&whole);
    server.run(&whole);
    let names = || -> Vec<String> {
        let listed = server.docs("{listCollections: 1, nameOnly: true}");
        let mut names: Vec<String> = listed
            .iter()
            .filter_map(|doc| doc.as_doc().get("name").and_then(Val::as_str).map(str::to_owned))
            .filter(|name| !name.starts_with("system."))
            .collect();
        names.sort();
        names
    };
    let four = ["products", "products.book", "products.clothing", "products.dvd"];
    assert_eq!(names(), four);
    assert_eq!(server.code("{drop: 'products.book'}"), 72);
    assert_eq!(server.code("{collMod: 'products.book', viewOn: 'products', pipeline: []}"), 72);
    let rename =
        ejson::parse_doc("{renameCollection: 't.products', to: 't.goods'}").expect("test text");
    server.0.run_command("admin", rename.as_doc()).expect("is renamed");
    assert_eq!(names(), ["goods", "goods.book", "goods.clothing", "goods.dvd"]);
    server.run("{insert: 'goods.dvd', documents: [{_id: 4, title: 'X', duration: 1}]}");
    server.run("{modifyPattern: 'goods', name: 'productTypes', set: {views: false}}");
    assert_eq!(names(), ["goods"]);
    server.run("{modifyPattern: 'goods', name: 'productTypes', set: {views: true}}");
    server.verify("goods");
    server.run("{dropPatterns: 'goods', names: ['productTypes']}");
    assert_eq!(names(), ["goods"]);
    server.run(&format!("{{createPatterns: 'goods', patterns: [{}]}}", declaration("views: true")));
    server.run("{drop: 'goods'}");
    assert_eq!(names(), Vec::<String>::new());
}
