//! The scenarios of inheritance.

use crate::harness::Server;
use crate::polymorphic::{assert_refused, plan};
use motifdb::value::{Val, ejson};

/// The declaration of the scenarios, with these types below the root besides the first three.
fn declaration(more: &str) -> String {
    format!(
        "{{name: 'media', kind: 'inheritance', discriminator: 'product_type', pathField: '_types',
          root: {{name: 'book', abstract: true, required: ['title', 'author']}},
          types: {{printed: {{extends: 'book', required: ['isbn']}},
                   ebook: {{extends: 'book', required: ['download_url'], indexes: [{{download_url: 1}}]}},
                   audiobook: {{extends: 'book', required: ['narrators']}}, {more}}},
          views: true}}"
    )
}

const ENHANCED: &str = "enhanced_ebook: {extends: 'ebook', required: ['media']}";

fn declared() -> Server {
    let server = Server::new();
    server.run(&format!("{{createPatterns: 'books', patterns: [{}]}}", declaration(ENHANCED)));
    server.run(
        "{insert: 'books', documents: [
           {_id: 1, product_type: 'printed', title: 'A', author: 'B', isbn: 'C'},
           {_id: 2, product_type: 'ebook', title: 'D', author: 'E', download_url: 'F'},
           {_id: 3, product_type: 'enhanced_ebook', title: 'G', author: 'H', download_url: 'I', media: 'J'}]}",
    );
    server
}

fn ids(server: &Server, collection: &str, filter: &str) -> Vec<i64> {
    let found =
        server.docs(&format!("{{find: '{collection}', filter: {filter}, sort: {{_id: 1}}}}"));
    let id = |doc: &motifdb::value::DocBuf| doc.as_doc().get("_id").and_then(Val::as_i64_exact);
    found.iter().filter_map(id).collect()
}

fn path(server: &Server, id: &str) -> String {
    let doc = server.get("books", id);
    let value = doc.as_doc().get("_types").unwrap_or(Val::Null);
    ejson::print_value(value, ejson::Format::Shell)
}

#[test]
fn inheritance_1_to_4_types_have_what_is_above_them() {
    let server = declared();
    assert_eq!(path(&server, "3"), r#"["book", "ebook", "enhanced_ebook"]"#);
    assert_eq!(ids(&server, "books.ebook", "{}"), [2, 3]);
    assert_eq!(ids(&server, "books.book", "{}"), [1, 2, 3]);
    assert_eq!(ids(&server, "books", "{_types: 'ebook'}"), [2, 3]);
    let by_path = |filter: &str| plan(&server, "books", filter);
    assert_eq!(by_path("{_types: 'ebook'}"), ("media__types_1".to_owned(), 2));
    assert_eq!(by_path("{product_type: 'ebook'}"), ("media__types_1".to_owned(), 2));
    assert_eq!(ids(&server, "books", "{product_type: 'ebook'}"), [2]);
    assert_eq!(by_path("{download_url: 'I'}").0, "media_ebook_download_url_1");
    let count = server.run("{count: 'books', query: {_types: 'ebook'}}");
    assert_eq!(count.as_doc().get("n"), Some(Val::Int32(2)));
    let insert = |doc: &str| format!("{{insert: 'books', documents: [{doc}]}}");
    let text = insert("{_id: 4, product_type: 'book', title: 'X', author: 'Y'}");
    assert_refused(&server, &text, 121, &["'book' is abstract"]);
    let text =
        insert("{_id: 4, product_type: 'enhanced_ebook', title: 'X', author: 'Y', media: 'Z'}");
    assert_refused(&server, &text, 121, &["'download_url' is missing"]);
    let text = "{update: 'books', updates: [{q: {_id: 2}, u: {$set: {_types: ['book']}}}]}";
    assert_eq!(server.code(text), 96001);
    // Through the view of an abstract type a document names its own.
    let through = |doc: &str| format!("{{insert: 'books.book', documents: [{doc}]}}");
    let text = through("{_id: 4, title: 'X', author: 'Y', isbn: 'Z'}");
    assert_refused(&server, &text, 96001, &["'product_type' is missing"]);
    server.run(&through("{_id: 4, product_type: 'printed', title: 'X', author: 'Y', isbn: 'Z'}"));
    assert_eq!(path(&server, "4"), r#"["book", "printed"]"#);
    server.run(
        "{update: 'books.ebook', updates: [{q: {_id: 5}, u: {$set: {title: 'X', author: 'Y', download_url: 'Z'}}, upsert: true}]}",
    );
    assert_eq!(path(&server, "5"), r#"["book", "ebook"]"#);
    let all = server.run("{delete: 'books.ebook', deletes: [{q: {}, limit: 0}]}");
    assert_eq!(all.as_doc().get("n"), Some(Val::Int32(3)));
    assert_eq!(ids(&server, "books", "{}"), [1, 4]);
    server.verify("books");
}

#[test]
fn inheritance_5_hierarchies_that_make_no_sense_are_refused() {
    let server = Server::new();
    let create =
        |more: &str| format!("{{createPatterns: 'books', patterns: [{}]}}", declaration(more));
    let loose = create("x: {extends: 'ebook', optional: ['download_url']}");
    assert_refused(
        &server,
        &loose,
        2,
        &["'types.x.optional' has 'download_url', which 'ebook' requires"],
    );
    let cycle = create("x: {extends: 'y'}, y: {extends: 'z'}, z: {extends: 'x'}");
    assert_refused(&server, &cycle, 2, &["in a cycle: 'x' -> 'y' -> 'z' -> 'x'"]);
    assert_refused(
        &server,
        &create("x: {extends: 'nobody'}"),
        2,
        &["'types.x.extends' is 'nobody'"],
    );
    assert_refused(
        &server,
        &create("book: {}"),
        2,
        &["'types' has 'book' twice, or it is the root"],
    );
}

#[test]
fn inheritance_6_a_type_that_moves_takes_its_documents_along() {
    let server = declared();
    let types = "{printed: {extends: 'book', required: ['isbn']}, ebook: {extends: 'book', required: ['download_url']},
          audiobook: {extends: 'book', required: ['narrators']}, enhanced_ebook: {extends: 'audiobook', required: ['media']}}";
    server.run(&format!("{{modifyPattern: 'books', name: 'media', set: {{types: {types}}}}}"));
    assert_eq!(path(&server, "3"), r#"["book", "audiobook", "enhanced_ebook"]"#);
    assert_eq!(ids(&server, "books.audiobook", "{}"), [3]);
    assert_eq!(ids(&server, "books.ebook", "{}"), [2]);
    let listed = server.pattern("books");
    assert_eq!(listed.as_doc().get("unresolved"), Some(Val::Int32(1)));
    server.run("{update: 'books', updates: [{q: {_id: 3}, u: {$set: {narrators: ['K']}}}]}");
    assert_eq!(server.pattern("books").as_doc().get("unresolved"), Some(Val::Int32(0)));
    server.verify("books");
    server.run("{dropPatterns: 'books', names: ['media']}");
    assert_eq!(path(&server, "3"), "null");
}

#[test]
fn inheritance_documents_that_were_there_get_their_paths() {
    let server = Server::new();
    server.run(
        "{insert: 'books', documents: [{_id: 1, product_type: 'ebook', title: 'A', author: 'B', download_url: 'C'},
           {_id: 2, title: 'A', author: 'B', isbn: 'C'}, {_id: 3, product_type: 'book', title: 'A', author: 'B'}]}",
    );
    let declaration = declaration(ENHANCED);
    let declaration = declaration.trim_end_matches('}');
    server.run(&format!(
        "{{createPatterns: 'books', patterns: [{declaration}, infer: [{{if: {{isbn: {{$exists: true}}}}, then: 'printed'}}]}}]}}"
    ));
    assert_eq!(path(&server, "1"), r#"["book", "ebook"]"#);
    assert_eq!(path(&server, "2"), r#"["book", "printed"]"#);
    assert_eq!(path(&server, "3"), r#"["book"]"#);
    let listed = server.pattern("books");
    let ids = listed.as_doc().get("unresolvedIds").unwrap_or(Val::Null);
    assert_eq!(ejson::print_value(ids, ejson::Format::Shell), "[3]");
    server.verify("books");
}
