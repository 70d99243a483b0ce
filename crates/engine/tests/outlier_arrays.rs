//! Outliers with very large arrays: what `$push` reads and writes, and arrays that are larger than a
//! document may be.

mod harness;

use harness::{Server, batch, print, whole, within};
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

const COMMENTS: &str = "{name: 'comments', kind: 'outlier', array: 'comments', keep: 50, \
     spillAt: {count: 200}, flag: 'has_overflow', count: 'comment_count'}";

fn server() -> Server {
    let server = Server::new();
    server.run(&format!("{{createPatterns: 'posts', patterns: [{COMMENTS}]}}"));
    server
}

/// Pushes comments with texts of so many bytes.
fn push(server: &Server, id: i32, numbers: std::ops::Range<i32>, bytes: usize) {
    let command = DocBuf::build(|out| {
        out.str("update", "posts").array("updates", |list| {
            list.push_doc(|out| {
                out.doc("q", |out| {
                    out.i32("_id", id);
                });
                out.doc("u", |out| {
                    out.doc("$inc", |out| {
                        out.i32("pushes", 1);
                    });
                    out.doc("$push", |out| {
                        out.doc("comments", |out| {
                            out.array("$each", |list| {
                                for n in numbers {
                                    list.push_doc(|out| {
                                        out.i32("n", n).str("text", &"x".repeat(bytes));
                                    });
                                }
                            });
                        });
                    });
                });
                out.bool("upsert", true);
            });
        });
    });
    let reply = server.0.run_command("t", command.as_doc()).expect("is pushed");
    assert!(reply.as_doc().get("writeErrors").is_none(), "{}", print(reply.as_doc()));
}

fn shown(server: &Server, id: i32) -> (bool, i64) {
    let doc = server.get("posts", &id.to_string());
    (doc.as_doc().get("has_overflow") == Some(Val::Bool(true)), whole(&doc, "comment_count"))
}

/// What is counted by `$unwind` in a post, and the sum of the numbers.
fn unwound(server: &Server, id: i32) -> (i64, i64) {
    let found = server.docs(&format!("{{aggregate: 'posts', pipeline: [{{$match: {{_id: {id}}}}}, {{$unwind: '$comments'}}, {{$group: {{_id: null, n: {{$sum: 1}}, sum: {{$sum: '$comments.n'}}}}}}], cursor: {{}}}}"));
    let doc = found.first().expect("one");
    (whole(doc, "n"), whole(doc, "sum"))
}

#[test]
fn a_push_reads_and_writes_the_end() {
    let server = server();
    for start in (0..20_000).step_by(1_000) {
        push(&server, 1, start..start + 1_000, 100);
    }
    let read = || whole(&server.run("{serverStatus: 1}"), "metrics.queryExecutor.scannedObjects");
    let (before, pushes) = (read(), 200);
    for n in 20_000..20_000 + pushes {
        push(&server, 1, n..n + 1, 100);
    }
    // The document and the directory of its chunks.
    assert_eq!(read() - before, 2 * i64::from(pushes));
    let count = 20_000 + i64::from(pushes);
    assert_eq!(shown(&server, 1), (true, count));
    assert_eq!(unwound(&server, 1), (count, count * (count - 1) / 2));
    assert_eq!(whole(&server.get("posts", "1"), "pushes"), 20 + i64::from(pushes));
    server.verify("posts");
}

#[test]
fn a_push_is_told_and_indexed_like_any_other() {
    let (plain, with) = (Server::new(), server());
    let mut cursors = Vec::new();
    for server in [&plain, &with] {
        server.run("{createIndexes: 'posts', indexes: [{key: {'comments.n': 1}, name: 'n'}, {key: {'comments.n': 1, 'comments.text': -1}, name: 'nt'}, {key: {pushes: 1, 'comments.n': 1}, name: 'pn'}]}");
        push(server, 1, 0..300, 3);
        let reply = server.run("{aggregate: 'posts', pipeline: [{$changeStream: {}}], cursor: {}}");
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        cursors.push(cursor.get("id").and_then(Val::as_i64_exact).expect("is open"));
        // One index has a field that changes with every push: then all entries do.
        for step in 0..30 {
            push(server, 1, 300 + step * 7..300 + step * 7 + 7, 3);
            if step == 10 {
                server.run("{dropIndexes: 'posts', index: 'pn'}");
            }
            // The same key as that of an element in a chunk, as another type.
            server.run("{update: 'posts', updates: [{q: {_id: 1}, u: {$push: {comments: {n: 5.0, text: 'xxx'}}}}]}");
        }
        server.run("{update: 'posts', updates: [{q: {_id: 1}, u: {$pull: {comments: {n: {$type: 'double'}}}}}]}");
    }
    let told = |server: &Server, cursor: i64| {
        let reply = server.run(&format!("{{getMore: NumberLong({cursor}), collection: 'posts', batchSize: 1000, maxTimeMS: 1000}}"));
        let cursor = reply.as_doc().get("cursor").and_then(Val::as_doc).expect("a cursor");
        let events = cursor.get("nextBatch").and_then(Val::as_array).expect("a batch");
        let fields = |event: RawDoc<'_>| {
            let description = event.get("updateDescription").and_then(Val::as_doc)?;
            let updated = description.get("updatedFields").and_then(Val::as_doc)?;
            let own = |name: &str| matches!(name, "has_overflow" | "comment_count");
            let kept = DocBuf::build(|out| {
                updated.iter().filter(|(name, _)| !own(name)).for_each(|(name, value)| {
                    out.raw(name, value);
                });
            });
            Some(print(kept.as_doc()))
        };
        events.iter().filter_map(|(_, event)| fields(event.as_doc()?)).collect::<Vec<_>>()
    };
    let [one, other] = [(&plain, 0), (&with, 1)].map(|(server, at)| told(server, cursors[at]));
    assert_eq!(one.len(), 61);
    // A whole array is told as it is stored; compare what was told of single elements.
    assert_eq!(one[..60], other[..60]);
    for filter in ["{'comments.n': 5}", "{'comments.n': 507}", "{'comments.n': {$gt: 509}}"] {
        let count = |server: &Server| server.find("posts", filter).len();
        assert_eq!(count(&plain), count(&with), "{filter}");
    }
    assert_eq!(unwound(&plain, 1), unwound(&with, 1));
    with.verify("posts");
}

#[test]
fn pushes_of_transactions_are_there_when_they_commit() {
    let server = server();
    push(&server, 1, 0..1_000, 10);
    let change = format!(
        "{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {{$push: {{comments: {{n: 1}}}}, $inc: {{pushes: 1}}}}}}]{}}}",
        within(1, 1, true)
    );
    server.run(&change);
    assert_eq!(shown(&server, 1), (true, 1_000));
    assert_eq!(server.end("commitTransaction", 1, 1), 0);
    assert_eq!(shown(&server, 1), (true, 1_001));
    server.verify("posts");
}

#[test]
fn an_array_may_be_larger_than_a_document() {
    let server = server();
    for n in 0..250 {
        push(&server, 1, n..n + 1, 100_000);
    }
    push(&server, 2, 0..3, 10);
    assert_eq!(shown(&server, 1), (true, 250));
    assert_eq!(unwound(&server, 1), (250, 250 * 249 / 2));
    // A reply takes a part of it.
    let refused = |text: &str| {
        let command = ejson::parse_doc(text).expect("test text");
        let error = server.0.run_command("t", command.as_doc()).expect_err("is refused");
        (error.code().0, error.message().to_owned())
    };
    for options in ["filter: {_id: 1}", "filter: {_id: {$gte: 1}}"] {
        let (code, message) = refused(&format!("{{find: 'posts', {options}, read: 'full'}}"));
        assert!(code == 10334 && message.contains("$unwind"), "{code} {message}");
    }
    let page = server
        .docs("{find: 'posts', filter: {_id: 1}, projection: {comments: {$slice: [100, 3]}}}");
    let page = page.first().and_then(|doc| doc.as_doc().get("comments")).and_then(Val::as_array);
    assert_eq!(page.expect("a page").count(), 3);
    assert_eq!(server.docs("{find: 'posts', filter: {'comments.n': 249}}").len(), 1);
    assert_eq!(server.docs("{find: 'posts', filter: {comments: {$size: 250}}}").len(), 1);
    // Every kind of write goes on.
    for change in [
        "{$set: {title: 'large'}}",
        "{$set: {'comments.7.text': 'short'}}",
        "{$pull: {comments: {n: 100}}}",
        "{$push: {comments: {$each: [{n: 1000}], $position: 0}}}",
        "[{$set: {title: 'larger'}}]",
    ] {
        server.run(&format!("{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {change}}}]}}"));
    }
    assert_eq!(unwound(&server, 1), (250, 250 * 249 / 2 + 900));
    let found = server.run("{findAndModify: 'posts', query: {_id: 1}, update: {$inc: {pushes: 1}}, fields: {title: 1}}");
    assert_eq!(harness::text(&found, "value.title"), "larger");
    // What is not in chunks has its limit.
    let long = format!(
        "{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {{$set: {{long: '{}'}}}}}}]}}",
        "y".repeat(17_000_000)
    );
    assert_eq!(server.code(&long), 10334);
    let (code, message) = refused("{dropPatterns: 'posts', names: ['comments']}");
    assert!(code == 10334 && message.contains("_id: 1"), "{code} {message}");
    assert_eq!(harness::text(&server.pattern("posts"), "state"), "ready");
    server.verify("posts");
    server
        .run("{update: 'posts', updates: [{q: {_id: 1}, u: {$pull: {comments: {n: {$gt: 20}}}}}]}");
    server.run("{dropPatterns: 'posts', names: ['comments']}");
    assert_eq!(unwound(&server, 1).0, 21);
    let left = server.run("{find: 'posts', filter: {_id: 2}}");
    assert_eq!(batch(&left).len(), 1);
}
