//! Outliers: arrays that spill into chunks. The scenarios of the specification, and what clients might
//! do to such arrays. `layouts.rs` compares such a collection with a plain one.

mod harness;

use harness::{Server, batch, print, text, whole, within};
use motifdb::value::path::Path;
use motifdb::value::{DocBuf, RawDoc, Val, ejson};

const COMMENTS: &str = "{name: 'comments', kind: 'outlier', array: 'comments', keep: 50, \
     keepWhich: 'last', spillAt: {count: 200, bytes: 65536}, unspillAt: {count: 100}, \
     chunk: {count: 1000}, flag: 'has_overflow', count: 'comment_count', read: 'full'}";

fn declare(server: &Server, pattern: &str) {
    server.run(&format!("{{createPatterns: 'posts', patterns: [{pattern}]}}"));
}

fn push(server: &Server, id: &str, number: usize) {
    server.run(&format!("{{update: 'posts', updates: [{{q: {{_id: {id}}}, u: {{$push: {{comments: {{author: 'u{number}', n: {number}}}}}}}}}]}}"));
}

/// The numbers in the elements of an array.
fn numbers(doc: &DocBuf, path: &str) -> Vec<i64> {
    let Val::Array(array) = Path::new(path).get(doc.as_doc()) else {
        panic!("no array: {}", print(doc.as_doc()))
    };
    let number = |value: Val<'_>| {
        let inside = value.as_doc().and_then(|doc| doc.get("n"));
        inside.unwrap_or(value).as_i64_exact()
    };
    array.iter().map(|(_, value)| number(value.get()).expect("a number")).collect()
}

/// The flag and the count of a post.
fn shown(server: &Server, id: &str) -> (bool, i64) {
    let doc = server.get("posts", id);
    let Some(Val::Bool(flag)) = doc.as_doc().get("has_overflow") else {
        panic!("no flag: {}", print(doc.as_doc()))
    };
    assert!(matches!(doc.as_doc().get("comment_count"), Some(Val::Int32(_))));
    (flag, whole(&doc, "comment_count"))
}

#[test]
fn scenarios_1_to_5_an_array_spills_and_comes_back() {
    let server = Server::new();
    declare(&server, COMMENTS);
    server.run("{createIndexes: 'posts', indexes: [{key: {'comments.author': 1}, name: 'author'}, {key: {has_overflow: 1}, name: 'flag'}]}");
    server.run("{insert: 'posts', documents: [{_id: 'p', title: 'viral'}, {_id: 'q'}]}");
    assert_eq!(shown(&server, "'p'"), (false, 0));
    for number in 1..=200 {
        push(&server, "'p'", number);
    }
    assert_eq!(shown(&server, "'p'"), (false, 200));
    push(&server, "'p'", 201);
    assert_eq!(shown(&server, "'p'"), (true, 201));
    let flagged = "{find: 'posts', filter: {has_overflow: true}, hint: 'flag'}";
    assert_eq!(server.docs(flagged).len(), 1);

    let by_author = "find: 'posts', filter: {'comments.author': 'u1'}";
    assert_eq!(server.docs(&format!("{{{by_author}}}")).len(), 1);
    let plan = print(server.run(&format!("{{explain: {{{by_author}}}}}")).as_doc());
    assert!(plan.contains("IXSCAN"), "{plan}");

    let unwound = server.docs("{aggregate: 'posts', pipeline: [{$match: {_id: 'p'}}, {$unwind: '$comments'}, {$replaceWith: '$comments'}], cursor: {batchSize: 1000}}");
    let all: Vec<i64> = unwound.iter().map(|doc| whole(doc, "n")).collect();
    assert_eq!(all, (1..=201).collect::<Vec<_>>());

    server.run(
        "{update: 'posts', updates: [{q: {_id: 'p'}, u: {$pull: {comments: {author: 'u1'}}}}]}",
    );
    assert_eq!(shown(&server, "'p'"), (true, 200));
    assert_eq!(server.find("posts", "{comments: {$size: 200}}").len(), 1);
    assert_eq!(server.find("posts", "{'comments.0.author': 'u2'}").len(), 1);
    assert_eq!(server.docs(&format!("{{{by_author}}}")).len(), 0, "the entry is gone");
    server.verify("posts");

    server.run(
        "{update: 'posts', updates: [{q: {_id: 'p'}, u: {$pull: {comments: {n: {$lte: 100}}}}}]}",
    );
    assert_eq!(shown(&server, "'p'"), (true, 101));
    server.run("{update: 'posts', updates: [{q: {_id: 'p'}, u: {$pop: {comments: -1}}}]}");
    assert_eq!(shown(&server, "'p'"), (false, 100));
    assert!(whole(&server.pattern("posts"), "stats.bytes") < 200, "no chunk is left");
    let post = server.get("posts", "'p'");
    assert_eq!(numbers(&post, "comments"), (102..=201).collect::<Vec<_>>());
    assert_eq!(text(&post, "title"), "viral");
    server.verify("posts");
}

#[test]
fn scenario_6_concurrent_pushes_are_all_there() {
    let (clients, each) = (8_usize, 250_usize);
    let server = Server::new();
    declare(&server, COMMENTS);
    server.run("{insert: 'posts', documents: [{_id: 1}]}");
    std::thread::scope(|scope| {
        for client in 0..clients {
            let server = &server;
            scope.spawn(move || {
                for number in 0..each {
                    push(server, "1", client * each + number);
                }
            });
        }
    });
    assert_eq!(shown(&server, "1"), (true, (clients * each) as i64));
    let all = numbers(&server.get("posts", "1"), "comments");
    for client in 0..clients {
        let of_client = (client * each) as i64..((client + 1) * each) as i64;
        let own: Vec<i64> = all.iter().copied().filter(|n| of_client.contains(n)).collect();
        assert_eq!(own, of_client.collect::<Vec<_>>(), "in the client's order");
    }
    server.verify("posts");
}

/// Inserts a post with so many comments.
fn insert(server: &Server, id: i32, comments: std::ops::Range<i32>) {
    let command = DocBuf::build(|out| {
        out.str("insert", "posts").array("documents", |list| {
            list.push_doc(|out| {
                out.i32("_id", id).str("title", "t").array("comments", |list| {
                    for n in comments {
                        list.push_doc(|out| {
                            out.i32("n", n).str("text", &"x".repeat(100));
                        });
                    }
                });
                out.i32("likes", 0);
            });
        });
    });
    let reply = server.0.run_command("t", command.as_doc()).expect("is inserted");
    assert!(reply.as_doc().get("writeErrors").is_none(), "{reply:?}");
}

/// A figure of `executionStats`.
fn figure(server: &Server, command: &str, name: &str) -> i64 {
    let reply = server.run(&format!("{{explain: {{{command}}}, verbosity: 'executionStats'}}"));
    let found = whole(&reply, &format!("executionStats.{name}"));
    assert!(found >= 0, "{command}: {}", print(reply.as_doc()));
    found
}

#[test]
fn other_fields_are_read_and_written_without_the_chunks() {
    let server = Server::new();
    declare(&server, COMMENTS);
    insert(&server, 1, 0..20_000);
    let all = figure(&server, "find: 'posts'", "bytesRead");
    assert!(all > 2_000_000, "{all}");
    for command in [
        "find: 'posts', projection: {title: 1, comment_count: 1}",
        "find: 'posts', filter: {has_overflow: true}, projection: {comments: 0}",
        "count: 'posts', query: {likes: 0}",
        "update: 'posts', updates: [{q: {_id: 1}, u: {$inc: {likes: 1}}}]",
    ] {
        let read = figure(&server, command, "bytesRead");
        assert!(read > 0 && read < 25_000, "{command}: {read}");
    }
    let update = "update: 'posts', updates: [{q: {_id: 1}, u: {$inc: {likes: 1}}}]";
    assert!(figure(&server, update, "bytesWritten") < 25_000);
    // What changes in the middle writes the chunk there.
    let change =
        "update: 'posts', updates: [{q: {_id: 1}, u: {$set: {'comments.7777.text': 'y'}}}]";
    let written = figure(&server, change, "bytesWritten");
    assert!(written < 200_000, "{written}");
    server.run(&format!("{{{update}}}"));
    server.run(&format!("{{{change}}}"));
    let post = server.get("posts", "1");
    assert_eq!(whole(&post, "likes"), 1);
    assert_eq!(text(&post, "comments.7777.text"), "");
    assert_eq!(numbers(&post, "comments"), (0..20_000).collect::<Vec<_>>());
    assert_eq!(server.find("posts", "{'comments.7777.text': 'y'}").len(), 1);
    server.verify("posts");
}

#[test]
fn existing_documents_are_converted_and_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    for id in 0..40 {
        insert(&server, id, 0..if id % 10 == 3 { 3_000 } else { 20 });
    }
    let stored = |server: &Server| {
        let found = server.docs("{find: 'posts', sort: {_id: 1}, projection: {has_overflow: 0, comment_count: 0}, batchSize: 1000}");
        found.iter().map(|doc| doc.bytes().to_vec()).collect::<Vec<_>>()
    };
    let before = stored(&server);
    let slow = COMMENTS.replace("keep: 50", "backfill: {batch: 5}, keep: 50");
    server.run(&format!("{{createPatterns: 'posts', patterns: [{slow}], wait: false}}"));
    // Readers get the values of documents that are not reached yet.
    assert_eq!(shown(&server, "33"), (true, 3_000));
    assert!(stored(&server) == before);
    server.close();
    let server = Server::on(folder.path());
    while text(&server.pattern("posts"), "state") != "ready" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(server.find("posts", "{has_overflow: true}").len(), 4);
    assert_eq!((shown(&server, "4"), shown(&server, "13")), ((false, 20), (true, 3_000)));
    assert!(stored(&server) == before);
    server.verify("posts");
    // Another form, suspended and resumed.
    server.run("{modifyPattern: 'posts', name: 'comments', set: {keepWhich: 'first', keep: 5, spillAt: {count: 10}, unspillAt: {count: 8}}}");
    assert_eq!(server.find("posts", "{has_overflow: true}").len(), 40);
    assert!(stored(&server) == before);
    server.run("{suspendPatterns: 'posts'}");
    server.run("{update: 'posts', updates: [{q: {_id: 4}, u: {$set: {comments: []}}}]}");
    server.run("{resumePatterns: 'posts'}");
    assert_eq!((shown(&server, "4"), shown(&server, "5")), ((false, 0), (true, 20)));
    server.verify("posts");
    server.run("{dropPatterns: 'posts', names: ['comments']}");
    let found =
        server.docs("{find: 'posts', filter: {_id: {$ne: 4}}, sort: {_id: 1}, batchSize: 1000}");
    let left: Vec<Vec<u8>> = found.iter().map(|doc| doc.bytes().to_vec()).collect();
    let mut expected = before;
    expected.remove(4);
    assert!(left == expected, "no flag, no count, whole arrays");
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}

#[test]
fn the_flag_and_the_count_belong_to_the_database() {
    let server = Server::new();
    declare(&server, COMMENTS);
    insert(&server, 1, 0..300);
    let update =
        |change: &str| format!("{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {change}}}]}}");
    assert_eq!(server.code(&update("{$set: {has_overflow: false}}")), 96001);
    assert_eq!(server.code(&update("{$inc: {comment_count: 1}}")), 96001);
    server
        .run(&update("{title: 'other', has_overflow: true, comment_count: 5, comments: [{n: 1}]}"));
    assert_eq!(shown(&server, "1"), (false, 1));
    server.run(&update("{$set: {comments: 'none'}}"));
    assert_eq!(shown(&server, "1"), (false, 0));
    server.run(&update("{$unset: {comments: 1}}"));
    assert_eq!(shown(&server, "1"), (false, 0));
    server.run("{insert: 'posts', documents: [{_id: 2, comments: [1, 2], has_overflow: true}]}");
    assert_eq!(shown(&server, "2"), (false, 2));
    server.run(
        "{update: 'posts', updates: [{q: {_id: 9}, u: {$push: {comments: 1}}, upsert: true}]}",
    );
    assert_eq!(shown(&server, "9"), (false, 1));
    server.verify("posts");
}

#[test]
fn a_transaction_covers_both_parts() {
    let server = Server::new();
    declare(&server, COMMENTS);
    insert(&server, 1, 0..5_000);
    for (number, verb, count) in [(1, "abortTransaction", 5_000), (2, "commitTransaction", 4_500)] {
        let pull = format!(
            "{{update: 'posts', updates: [{{q: {{_id: 1}}, u: {{$pull: {{comments: {{n: {{$lt: 500}}}}}}}}}}]{}}}",
            within(1, number, true)
        );
        server.run(&pull);
        let own = server.docs(&format!(
            "{{aggregate: 'posts', pipeline: [{{$project: {{n: {{$size: '$comments'}}}}}}], cursor: {{}}{}}}",
            within(1, number, false)
        ));
        assert_eq!(whole(own.first().expect("one"), "n"), 4_500);
        assert_eq!(server.end(verb, 1, number), 0);
        assert_eq!(shown(&server, "1"), (true, count));
        assert_eq!(numbers(&server.get("posts", "1"), "comments").len() as i64, count);
    }
    server.run("{delete: 'posts', deletes: [{q: {_id: 1}, limit: 1}]}");
    assert!(whole(&server.pattern("posts"), "stats.bytes") < 200, "no chunk is left");
    server.verify("posts");
}

#[test]
fn a_value_that_looks_like_a_stand_in_is_a_value() {
    let server = Server::new();
    let value = |id: i32| {
        DocBuf::build(|out| {
            let mut bytes = b"\xC0\x1Dspilled\0\xA3\x5E\x91\x0B\x77".to_vec();
            bytes.extend_from_slice(&[0; 15]);
            bytes.extend_from_slice(&[9, 5, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
            out.i32("_id", id).append("comments", Val::Binary(0x80, &bytes)).i32("n", 1);
        })
    };
    let insert = |id: i32| {
        let command = DocBuf::build(|out| {
            out.str("insert", "posts")
                .array("documents", |list| list.push_doc_bytes(value(id).bytes()));
        });
        server.0.run_command("t", command.as_doc()).expect("is inserted");
    };
    insert(1);
    declare(&server, "{name: 'comments', kind: 'outlier', array: 'comments', read: 'full'}");
    insert(2);
    for change in ["{$inc: {n: 1}}", "{$inc: {n: -1}}"] {
        server
            .run(&format!("{{update: 'posts', updates: [{{q: {{}}, u: {change}, multi: true}}]}}"));
    }
    for id in [1, 2] {
        assert_eq!(server.get("posts", &id.to_string()).bytes(), value(id).bytes());
    }
    server.verify("posts");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let server = Server::new();
    let refused = |pattern: &str, code: i32, reason: &str| {
        let command =
            format!("{{createPatterns: 'posts', patterns: [{{kind: 'outlier', {pattern}}}]}}");
        let command = ejson::parse_doc(&command).expect("test text");
        let error = server.0.run_command("t", command.as_doc()).expect_err("is refused");
        assert_eq!(error.code().0, code, "{error}");
        assert!(error.message().contains(reason), "{error}");
    };
    refused("keep: 3", 9, "the option 'array' is missing");
    refused("array: '_id'", 2, "'array' cannot be '_id'");
    refused("array: 'a', keep: 300", 2, "'keep' (300) cannot be above 'spillAt.count' (200)");
    refused("array: 'a', unspillAt: {count: 201}", 2, "'unspillAt.count' (201) cannot be above");
    refused("array: 'a', spillAt: {count: 0}", 2, "'spillAt.count' must be a whole number");
    refused("array: 'a', spillAt: {size: 5}", 2, "'spillAt.size' is unknown");
    refused("array: 'a', chunk: {count: 1000000}", 2, "'chunk.count' cannot be above");
    refused("array: 'a', flag: 'a.b'", 2, "'flag' and 'array' conflict");
    refused("array: 'a', flag: 'f', count: 'f'", 2, "conflict with each other");
    refused("array: 'a', keepWhich: 'all'", 2, "'keepWhich' must be one of");
    refused("array: 'a', keepWhich: {sort: {n: 1}}", 238, "'keepWhich' with a sort");
    refused("array: 'a', mode: {every: '1h'}", 2, "'mode' must be 'sync'");
    refused("array: 'a', from: 'b'", 9, "'from' is not an option of the kind 'outlier'");
    declare(&server, "{kind: 'outlier', array: 'a'}");
    refused("name: 'other', array: 'a.b'", 2, "would both decide");
    let declared = server.pattern("posts");
    assert_eq!(text(&declared, "name"), "outlier_a");
    assert_eq!(whole(&declared, "declaration.spillAt.count"), 200);
    assert_eq!(whole(&declared, "declaration.unspillAt.count"), 100);
    let _: Vec<RawDoc<'_>> = batch(&server.run("{find: 'posts'}"));
}

/// What a find of one post shows of its comments.
fn comments(server: &Server, options: &str) -> Vec<i64> {
    let found = server.docs(&format!("{{find: 'posts', {options}}}")).pop();
    numbers(&found.unwrap_or_else(|| panic!("{options}: nothing")), "comments")
}

#[test]
fn readers_get_the_head_or_all_of_it() {
    let server = Server::new();
    for (which, shown) in
        [("last", (950..1_000).collect::<Vec<i64>>()), ("first", (0..50).collect())]
    {
        server.run("{dropDatabase: 1}");
        server.run("{create: 'other'}");
        declare(
            &server,
            &COMMENTS
                .replace("read: 'full'", "read: 'head'")
                .replace("'last'", &format!("'{which}'")),
        );
        server.run("{createIndexes: 'posts', indexes: [{key: {'comments.n': 1}, name: 'n'}]}");
        insert(&server, 1, 0..1_000);
        insert(&server, 2, 0..150);
        let all: Vec<i64> = (0..1_000).collect();
        for (options, expected) in [
            ("filter: {_id: 1}", &shown),
            ("filter: {_id: 1}, read: 'head'", &shown),
            ("filter: {_id: 1}, read: 'full'", &all),
            ("filter: {has_overflow: true}", &shown),
            ("filter: {'comments.n': 500, _id: 1}", &shown),
            ("filter: {_id: 1}, projection: {comments: 1}", &shown),
            ("filter: {_id: 1}, projection: {comments: 1, _id: 0}", &shown),
            (
                "filter: {'comments.n': 500, likes: 0, _id: 1}, projection: {comments: 1, _id: 0}",
                &shown,
            ),
            ("filter: {_id: 1}, projection: {title: 0}", &shown),
            ("filter: {_id: 1}, projection: {comments: 1, n: {$size: '$comments'}}", &shown),
            ("filter: {_id: 1}, projection: {comments: {$slice: 1000}}", &all),
            ("filter: {_id: 1}, projection: {'comments.n': 1}", &all),
            (
                "filter: {_id: 1}, projection: {comments: {$filter: {input: '$comments', cond: true}}}",
                &all,
            ),
            ("filter: {_id: 2}", &(0..150).collect()),
        ] {
            assert_eq!(comments(&server, options), *expected, "{which}: {options}");
        }
        let sized = server.docs("{find: 'posts', filter: {comments: {$size: 1000}}, projection: {n: {$size: '$comments'}}}");
        assert_eq!(whole(sized.first().expect("one"), "n"), 1_000);
        for (pipeline, read, expected) in [
            ("[{$match: {_id: 1}}]", "", &shown),
            ("[{$match: {_id: 1}}]", ", read: 'full'", &all),
            ("[{$match: {'comments.n': 7, _id: 1}}, {$sort: {_id: 1}}, {$limit: 1}]", "", &shown),
            ("[{$match: {_id: 1}}, {$set: {n: {$size: '$comments'}}}]", "", &shown),
            ("[{$limit: 1}, {$match: {'comments.n': 500}}]", "", &shown),
            ("[{$match: {_id: 1}}, {$unset: 'title'}, {$skip: 0}]", "", &shown),
            ("[{$match: {_id: 1}}, {$project: {comments: 1}}]", "", &shown),
            (
                "[{$match: {_id: 1}}, {$lookup: {from: 'other', localField: 'likes', foreignField: 'x', as: 'y'}}]",
                "",
                &shown,
            ),
            (
                "[{$match: {_id: 1}}, {$set: {comments: {$concatArrays: ['$comments', []]}}}]",
                "",
                &all,
            ),
            (
                "[{$match: {_id: 1}}, {$group: {_id: null, comments: {$first: '$comments'}}}]",
                "",
                &all,
            ),
            ("[{$match: {_id: 1}}, {$replaceWith: {comments: '$comments'}}]", "", &all),
        ] {
            let text = format!("{{aggregate: 'posts', pipeline: {pipeline}, cursor: {{}}{read}}}");
            let found = server.docs(&text);
            assert_eq!(
                numbers(found.first().expect("one"), "comments"),
                *expected,
                "{which}: {text}"
            );
        }
        let unwound = server.docs("{aggregate: 'posts', pipeline: [{$match: {_id: 1}}, {$unwind: '$comments'}, {$count: 'n'}], cursor: {}}");
        assert_eq!(whole(unwound.first().expect("one"), "n"), 1_000);
        // A view shows what its collection shows.
        server.run("{create: 'seen', viewOn: 'posts', pipeline: [{$match: {likes: 0}}]}");
        let found = server.docs("{find: 'seen', filter: {_id: 1}}");
        assert_eq!(numbers(found.first().expect("one"), "comments"), shown);
        let modify = |more: &str| {
            let reply = server.run(&format!("{{findAndModify: 'posts', query: {{_id: 1}}, update: {{$inc: {{likes: 1}}}}{more}}}"));
            numbers(&reply, "value.comments")
        };
        assert_eq!(modify(""), shown);
        assert_eq!(modify(", new: true"), shown);
        assert_eq!(modify(", read: 'full'"), all);
        assert_eq!(modify(", fields: {comments: {$slice: 1000}}"), all);
        assert_eq!(modify(", fields: {comments: 1}, new: true"), shown);
        // Only what is shown is read.
        assert!(figure(&server, "find: 'posts', filter: {_id: 1}", "bytesRead") < 25_000);
        assert!(
            figure(&server, "find: 'posts', filter: {_id: 1}, read: 'full'", "bytesRead") > 100_000
        );
        server.verify("posts");
    }
    assert_eq!(server.code("{find: 'posts', read: 'tail'}"), 2);
    assert_eq!(server.code("{find: 'posts', read: 1}"), 14);
    server.run("{find: 'other', read: 'head'}");
    // The declaration decides for those who do not say.
    server.run("{modifyPattern: 'posts', name: 'comments', set: {read: 'full'}}");
    assert_eq!(comments(&server, "filter: {_id: 1}").len(), 1_000);
}

#[test]
fn an_array_between_the_bounds_is_shown_as_it_is_stored() {
    let server = Server::new();
    declare(
        &server,
        &COMMENTS.replace(", flag: 'has_overflow', count: 'comment_count', read: 'full'", ""),
    );
    insert(&server, 1, 0..150);
    insert(&server, 2, 0..250);
    let cut =
        "{update: 'posts', updates: [{q: {_id: 2}, u: {$pull: {comments: {n: {$gte: 150}}}}}]}";
    server.run(cut);
    for options in ["filter: {_id: ID}", "filter: {_id: ID, 'comments.n': 3}"] {
        assert_eq!(comments(&server, &options.replace("ID", "1")).len(), 150);
        assert_eq!(comments(&server, &options.replace("ID", "2")).len(), 50, "it is spilled");
    }
    server.verify("posts");
}

#[test]
fn a_head_cannot_replace_its_document() {
    let server = Server::new();
    declare(&server, &COMMENTS.replace(", read: 'full'", ""));
    insert(&server, 1, 0..300);
    let head = server.get("posts", "1");
    assert_eq!(numbers(&head, "comments").len(), 50);
    let replace = |doc: &DocBuf| {
        let command = DocBuf::build(|out| {
            out.str("update", "posts").array("updates", |list| {
                list.push_doc(|out| {
                    out.doc("q", |out| {
                        out.i32("_id", 1);
                    });
                    out.append("u", Val::Document(doc.as_doc()));
                });
            });
        });
        server.code(&ejson::print(command.as_doc(), ejson::Format::Canonical))
    };
    assert_eq!(replace(&head), 96001);
    assert_eq!(shown(&server, "1"), (true, 300));
    let whole = server.docs("{find: 'posts', filter: {_id: 1}, read: 'full'}").remove(0);
    assert_eq!(replace(&whole), 0);
    assert_eq!(shown(&server, "1"), (true, 300));
    // Updates by operators may leave just these.
    server.run("{update: 'posts', updates: [{q: {_id: 1}, u: {$push: {comments: {$each: [], $slice: -50}}}}]}");
    assert_eq!(shown(&server, "1"), (false, 50));
    assert_eq!(replace(&head), 0);
    server.verify("posts");
}

#[test]
fn a_page_reads_the_chunks_that_have_it() {
    let server = Server::new();
    declare(&server, COMMENTS);
    insert(&server, 1, 0..20_000);
    insert(&server, 2, 0..100);
    let page = |id: i32, slice: &str, more: &str| {
        comments(
            &server,
            &format!("filter: {{_id: {id}}}, projection: {{comments: {{$slice: {slice}}}{more}}}"),
        )
    };
    let all: Vec<i64> = (0..20_000).collect();
    for (slice, range) in [
        ("20", 0..20),
        ("-20", 19_980..20_000),
        ("[995, 10]", 995..1_005),
        ("[-5000, 20]", 15_000..15_020),
        ("[19990, 20]", 19_990..20_000),
        ("[30000, 20]", 0..0),
        ("[0, 20000]", 0..20_000),
        ("-30000", 0..20_000),
    ] {
        assert_eq!(page(1, slice, ""), all[range], "{slice}");
    }
    assert_eq!(page(1, "[5, 2]", ", title: 1"), [5, 6]);
    assert_eq!(page(1, "[5, 2]", ", title: 0"), [5, 6]);
    assert_eq!(page(1, "[5, 2]", ", n: {$size: '$comments'}"), [5, 6]);
    assert_eq!(page(2, "[5, 2]", ""), [5, 6]);
    assert_eq!(page(2, "-3", ""), [97, 98, 99]);
    let both = "filter: {_id: 1, 'comments.n': 7}, projection: {comments: {$slice: [9, 2]}}";
    assert_eq!(comments(&server, both), [9, 10]);
    assert_eq!(server.code("{find: 'posts', projection: {comments: {$slice: [1, 0]}}}"), 28_724);
    let read = |slice: &str| {
        let find = format!(
            "find: 'posts', filter: {{_id: 1}}, projection: {{comments: {{$slice: {slice}}}}}"
        );
        figure(&server, &find, "bytesRead")
    };
    let (one, two) = (read("[5010, 20]"), read("[4990, 20]"));
    assert!(one > 100_000 && one < 170_000 && two > one && two < 300_000, "{one} {two}");
    assert!(read("-20") < 30_000);
}

#[test]
fn a_dropped_pattern_may_leave_its_values() {
    let server = Server::new();
    declare(&server, COMMENTS);
    insert(&server, 1, 0..300);
    insert(&server, 2, 0..3);
    server.run("{dropPatterns: 'posts', names: ['comments'], keepValues: true}");
    assert_eq!((shown(&server, "1"), shown(&server, "2")), ((true, 300), (false, 3)));
    assert_eq!(numbers(&server.get("posts", "1"), "comments").len(), 300);
    // They are the client's now.
    server.run("{update: 'posts', updates: [{q: {_id: 1}, u: {$set: {comment_count: 7}}}]}");
    assert_eq!(shown(&server, "1"), (true, 7));
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}
