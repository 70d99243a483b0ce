//! The scenarios of approximation.

use crate::harness::{Dice, Server, text, whole};
use motifdb::value::path::Path;
use motifdb::value::{DocBuf, RawDoc, Val, ejson};
use std::collections::BTreeMap;

const AUDIENCE: &str = "{createPatterns: 'articles', patterns: [{name: 'audience', kind: 'approximation', from: 'views',
    on: {local: '_id', foreign: 'article'}, filter: {bot: {$ne: true}},
    fields: {uniques: {distinct: '$user', error: 0.01}, views: {count: {}}}}]}";

/// All forms of fields at once.
const ALL: &str = "{createPatterns: 'articles', patterns: [{name: 'all', kind: 'approximation', from: 'views', on: 'article',
    fields: {top: {topK: '$user', k: 5}, ranks: {percentiles: '$user', p: [0, 0.5, 0.9, 1], error: 0.05}}}]}";

fn articles() -> Server {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1, title: 'one'}, {_id: 2}]}");
    server.run(AUDIENCE);
    server
}

/// Inserts views of an article by users of these numbers; each has an `_id` of its own.
fn view(server: &Server, article: i64, users: std::ops::Range<i64>) {
    let users: Vec<i64> = users.collect();
    for part in users.chunks(2_000) {
        let list = part.iter().map(|user| {
            format!(
                "{{_id: NumberLong({}), article: {article}, user: {user}}}",
                article * 10_000_000 + user
            )
        });
        let list = list.collect::<Vec<_>>().join(",");
        server.run(&format!("{{insert: 'views', documents: [{list}]}}"));
    }
}

fn numbers(server: &Server, article: i64) -> (i64, i64) {
    let article = server.get("articles", &article.to_string());
    (whole(&article, "uniques"), whole(&article, "views"))
}

fn doc(text: &str) -> DocBuf {
    ejson::parse_doc(text).expect("test text")
}

fn number(doc: &DocBuf, path: &str) -> f64 {
    Path::new(path).get(doc.as_doc()).as_f64().unwrap_or(f64::NAN)
}

/// The statistics of scenario 1 are shown where the sketch is:
/// `a_million_values_are_within_three_times_the_error_in_99_of_100_runs` in `crates/patterns`.
#[test]
fn approximation_1_twenty_thousand_users_are_counted_within_the_error() {
    let server = articles();
    view(&server, 1, 0..20_000);
    let (uniques, views) = numbers(&server, 1);
    assert_eq!(views, 20_000);
    assert!((19_400..=20_600).contains(&uniques), "{uniques}");
    // Who comes again is not counted again.
    server.run("{update: 'views', updates: [{q: {user: {$lt: 10000}}, u: {$inc: {times: 1}}, multi: true}]}");
    server.run("{insert: 'views', documents: [{_id: 'a', article: 1, user: 5}, {_id: 'b', article: 1, user: 5.0},
        {_id: 'c', article: 1, user: NumberLong(5)}]}");
    assert_eq!(numbers(&server, 1), (uniques, 20_003));
    server.verify("articles");
}

#[test]
fn approximation_2_forty_users_are_exactly_forty() {
    let server = articles();
    view(&server, 1, 0..40);
    view(&server, 2, 0..128);
    assert_eq!(numbers(&server, 1), (40, 40));
    assert_eq!(numbers(&server, 2), (128, 128));
    // Values that are equal are one, null is one, a missing field is none.
    server.run("{insert: 'views', documents: [{_id: 'a', article: 1, user: 3.0}, {_id: 'b', article: 1, user: null},
        {_id: 'c', article: 1}, {_id: 'd', article: 1, user: 'x', bot: true}]}");
    assert_eq!(numbers(&server, 1), (41, 43));
    server.run("{delete: 'views', deletes: [{q: {_id: {$in: ['a', 'b', 'c', 'd']}}, limit: 0}]}");
    assert_eq!(numbers(&server, 1), (40, 40));
    server.verify("articles");
}

#[test]
fn approximation_3_what_is_deleted_no_longer_counts() {
    let server = articles();
    view(&server, 1, 0..50_000);
    server.run("{delete: 'views', deletes: [{q: {user: {$gte: 1000}}, limit: 0}]}");
    let (uniques, views) = numbers(&server, 1);
    assert_eq!(views, 1_000);
    assert!((970..=1_030).contains(&uniques), "{uniques}");
    server.verify("articles");
    // To another article, and away.
    server.run("{update: 'views', updates: [{q: {user: {$lt: 100}}, u: {$set: {article: 2}}, multi: true}]}");
    assert_eq!(numbers(&server, 2), (100, 100));
    server.run(
        "{update: 'views', updates: [{q: {article: 2}, u: {$set: {bot: true}}, multi: true}]}",
    );
    assert_eq!(numbers(&server, 2), (0, 0));
    server.run("{delete: 'views', deletes: [{q: {}, limit: 0}]}");
    assert_eq!(numbers(&server, 1), (0, 0));
    server.verify("articles");
    // An empty group is exact again, and keeps nothing.
    let bytes = whole(&server.pattern("articles"), "stats.bytes");
    assert!((0..500).contains(&bytes), "{bytes}");
    view(&server, 1, 0..100);
    assert_eq!(numbers(&server, 1), (100, 100));
}

/// A count that is written after 100 changes, or after a time that the test does not reach.
const FLUSHED: &str = "{createPatterns: 'articles', patterns: [{name: 'views', kind: 'approximation', from: 'views',
    on: {local: '_id', foreign: 'article'}, fields: {views: {count: {}, flush: {every: 100, orMS: 3600000}}}}]}";

fn fresh(server: &Server, article: i64) -> i64 {
    let text = format!(
        "{{find: 'articles', filter: {{_id: {article}}}, readConcern: {{patterns: 'fresh'}}}}"
    );
    whole(&server.docs(&text)[0], "views")
}

fn stored(server: &Server, article: i64) -> i64 {
    whole(&server.get("articles", &article.to_string()), "views")
}

#[test]
fn approximation_4_a_count_is_written_after_a_hundred_changes() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}, {_id: 2}]}");
    server.run(FLUSHED);
    let before = server.writes("articles");
    for user in 0..250 {
        view(&server, 1, user..user + 1);
    }
    assert_eq!(server.writes("articles") - before, 2);
    assert_eq!(stored(&server, 1), 200);
    // It is behind, which is no drift, and is told.
    server.verify("articles");
    let pattern = server.pattern("articles");
    assert_eq!(whole(&pattern, "pending"), 1);
    assert!(whole(&pattern, "lagMS") >= 0, "{pattern:?}");
    // What is counted is exact for who asks for that.
    let counted = server.run("{count: 'views', query: {article: 1}}");
    assert_eq!(whole(&counted, "n"), 250);
    assert_eq!(fresh(&server, 1), 250);
    assert_eq!(stored(&server, 1), 250);
    assert_eq!(server.writes("articles") - before, 3);
    // The number begins anew, a statement with many changes is written at once, and so is the last.
    view(&server, 1, 250..349);
    assert_eq!(stored(&server, 1), 250);
    view(&server, 1, 349..350);
    assert_eq!(stored(&server, 1), 350);
    view(&server, 2, 0..1_000);
    assert_eq!(stored(&server, 2), 1_000);
    server.run("{delete: 'views', deletes: [{q: {user: {$lt: 50}}, limit: 0}]}");
    assert_eq!((stored(&server, 1), stored(&server, 2)), (350, 1_000));
    server.run("{delete: 'views', deletes: [{q: {}, limit: 0}]}");
    assert_eq!((stored(&server, 1), stored(&server, 2)), (0, 0));
    server.verify("articles");
    // A parent that comes later has its value from the start, and a write of the client keeps it.
    view(&server, 3, 0..5);
    server.run("{insert: 'articles', documents: [{_id: 3}]}");
    view(&server, 3, 5..9);
    server.run("{update: 'articles', updates: [{q: {_id: 3}, u: {$set: {title: 'x'}}}]}");
    assert_eq!(stored(&server, 3), 5);
    assert_eq!(fresh(&server, 3), 9);
    server.run("{dropPatterns: 'articles', names: ['views']}");
    assert_eq!(server.get("articles", "1"), doc("{_id: 1}"));
}

#[test]
fn approximation_5_nothing_is_lost_that_was_not_written_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::on(folder.path());
    server.run("{insert: 'articles', documents: [{_id: 1}]}");
    server.run(FLUSHED);
    for user in 0..199 {
        view(&server, 1, user..user + 1);
    }
    assert_eq!(stored(&server, 1), 100);
    server.close();
    let server = Server::on(folder.path());
    assert_eq!(stored(&server, 1), 100);
    assert_eq!(fresh(&server, 1), 199);
    server.verify("articles");
}

#[test]
fn a_count_is_written_after_its_time_too() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}]}");
    server.run(
        &FLUSHED
            .replace("3600000", "20")
            .replace("views: {count", "users: {distinct: '$user'}, views: {count"),
    );
    view(&server, 1, 0..7);
    // Fields without `flush` are never behind.
    assert_eq!(whole(&server.get("articles", "1"), "users"), 7);
    for _ in 0..600 {
        if stored(&server, 1) == 7 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(stored(&server, 1), 7);
    server.verify("articles");
}

/// The numbers 1 to `count`, in an order that looks random.
fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (1..=count).collect();
    let mut dice = Dice(count);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, dice.below(at as u64 + 1) as usize);
    }
    numbers
}

fn insert_views(server: &Server, fields: impl Iterator<Item = String>) {
    let list: Vec<String> = fields.collect();
    for part in list.chunks(2_000) {
        server.run(&format!("{{insert: 'views', documents: [{}]}}", part.join(",")));
    }
}

fn doubles(doc: &DocBuf, path: &str) -> Vec<f64> {
    let list = Path::new(path).get(doc.as_doc()).as_array().expect("a list");
    list.iter().map(|(_, number)| number.get().as_f64().unwrap_or(f64::NAN)).collect()
}

#[test]
fn approximation_6_percentiles_are_within_the_error() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}, {_id: 2}]}");
    server.run("{createPatterns: 'articles', patterns: [{name: 'p', kind: 'approximation', from: 'views', on: 'article',
        fields: {ms: {percentiles: '$ms', p: [0.5, 0.95, 0.99], error: 0.01}}}]}");
    assert_eq!(server.get("articles", "1"), doc("{_id: 1, ms: [null, null, null]}"));
    let numbers = shuffled(100_000);
    insert_views(&server, numbers.iter().map(|n| format!("{{_id: {n}, article: 1, ms: {n}}}")));
    let close = |expected: &[f64]| {
        let found = doubles(&server.get("articles", "1"), "ms");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs();
            assert!(error <= 0.01 * expected.abs(), "{found} instead of {expected}");
        }
    };
    close(&[50_000.0, 95_000.0, 99_000.0]);
    // Half of them go, others change; what is no number does not count.
    server.run("{delete: 'views', deletes: [{q: {ms: {$gt: 50000}}, limit: 0}]}");
    close(&[25_000.0, 47_500.0, 49_500.0]);
    server.run("{update: 'views', updates: [{q: {}, u: [{$set: {ms: {$multiply: ['$ms', -0.001]}}}], multi: true}]}");
    close(&[-25.0, -2.5, -0.5]);
    insert_views(
        &server,
        ["'fast'", "null", "NaN", "[1]"].iter().map(|ms| format!("{{article: 1, ms: {ms}}}")),
    );
    close(&[-25.0, -2.5, -0.5]);
    server.verify("articles");
    // The same by a build, with bounds that always hold.
    server.run("{modifyPattern: 'articles', name: 'p', set: {expose: 'value+bounds'}}");
    let article = server.get("articles", "1");
    let list = Path::new("ms").get(article.as_doc()).as_array().expect("a list");
    let first =
        list.first().and_then(|(_, one)| one.as_doc()).map(DocBuf::from).expect("a document");
    let (low, value, high) =
        (number(&first, "low"), number(&first, "value"), number(&first, "high"));
    assert!(low <= -25.0 && -25.0 <= high && low < value && value < high, "{low} {value} {high}");
    assert_eq!(number(&first, "confidence"), 1.0);
    server.verify("articles");
    server.run("{delete: 'views', deletes: [{q: {}, limit: 0}]}");
    server.verify("articles");
}

/// A stream in which the value n occurs about `1 / n^1.1` times as often as the value 1.
#[test]
fn approximation_7_the_most_frequent_values_are_exact() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}]}");
    server.run("{createPatterns: 'articles', patterns: [{name: 't', kind: 'approximation', from: 'views', on: 'article',
        fields: {top: {topK: '$from', k: 10}}}]}");
    let weights: Vec<f64> = (1..=2_000).map(|n| 1.0 / f64::from(n).powf(1.1)).collect();
    let all: f64 = weights.iter().sum();
    let mut dice = Dice(11);
    let mut draw = || {
        let mut left = dice.below(1 << 30) as f64 / (1_u64 << 30) as f64 * all;
        weights
            .iter()
            .position(|weight| {
                left -= weight;
                left < 0.0
            })
            .unwrap_or(0)
    };
    let drawn: Vec<usize> = (0..30_000).map(|_| draw()).collect();
    insert_views(
        &server,
        drawn.iter().enumerate().map(|(id, n)| format!("{{_id: {id}, article: 1, from: 'r{n}'}}")),
    );
    let check = |left: &[usize]| {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        left.iter().for_each(|n| *counts.entry(format!("r{n}")).or_default() += 1);
        let mut expected: Vec<(String, i64)> = counts.into_iter().collect();
        expected.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let article = server.get("articles", "1");
        let list = Path::new("top").get(article.as_doc()).as_array().expect("a list");
        let found = list.iter().map(|(_, one)| {
            let one = DocBuf::from(one.as_doc().expect("a document"));
            (text(&one, "value").to_owned(), whole(&one, "count"))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected[..10]);
        server.verify("articles");
    };
    check(&drawn);
    // The first half goes, and with it much of the order.
    server.run("{delete: 'views', deletes: [{q: {_id: {$lt: 15000}}, limit: 0}]}");
    check(&drawn[15_000..]);
    server.run("{update: 'views', updates: [{q: {from: 'r0', _id: {$lt: 29000}}, u: {$set: {from: 'r7'}}, multi: true}]}");
    let changed: Vec<usize> = drawn
        .iter()
        .enumerate()
        .skip(15_000)
        .map(|(id, n)| if *n == 0 && id < 29_000 { 7 } else { *n })
        .collect();
    check(&changed);
    server.run("{modifyPattern: 'articles', name: 't', set: {expose: 'value+bounds'}}");
    let article = server.get("articles", "1");
    let list = Path::new("top").get(article.as_doc()).as_array().expect("a list");
    let first = DocBuf::from(list.first().and_then(|(_, one)| one.as_doc()).expect("a document"));
    let count = whole(&first, "count");
    assert!(count > 0 && whole(&first, "low") == count && whole(&first, "high") == count);
}

/// Values are between their bounds; that 95 of 100 are is shown where the sketch is.
#[test]
fn approximation_8_values_show_their_bounds() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}, {_id: 2}]}");
    view(&server, 1, 0..100);
    server.run(&AUDIENCE.replace("fields:", "expose: 'value+bounds', fields:"));
    let article = server.get("articles", "1");
    for path in ["uniques", "views"] {
        for part in ["value", "low", "high"] {
            assert_eq!(whole(&article, &format!("{path}.{part}")), 100, "{path}.{part}");
        }
        assert_eq!(number(&article, &format!("{path}.confidence")), 1.0);
        let at = Path::new(&format!("{path}.asOf")).get(article.as_doc()).kind().name().to_owned();
        assert_eq!(at, "date");
    }
    let empty = server.get("articles", "2");
    assert_eq!(
        empty,
        doc("{_id: 2, uniques: {value: 0, low: 0, high: 0, confidence: 1.0, asOf: null}, \
         views: {value: 0, low: 0, high: 0, confidence: 1.0, asOf: null}}")
    );
    view(&server, 1, 100..5_000);
    let article = server.get("articles", "1");
    let (low, value, high) = (
        whole(&article, "uniques.low"),
        whole(&article, "uniques.value"),
        whole(&article, "uniques.high"),
    );
    assert!(low < value && value < high && low <= 5_000 && 5_000 <= high, "{low} {value} {high}");
    assert_eq!(number(&article, "uniques.confidence"), 0.95);
    assert_eq!(whole(&article, "views.high"), 5_000);
    server.verify("articles");
    // A filter and an index may use the parts.
    let found = server.find("articles", "{'uniques.low': {$gt: 1000}}");
    assert_eq!(found.len(), 1);
}

#[test]
fn values_that_were_there_are_counted_by_the_build_and_dropped_with_the_pattern() {
    let server = Server::new();
    server.run("{insert: 'articles', documents: [{_id: 1}, {_id: 2}]}");
    view(&server, 1, 0..3_000);
    view(&server, 2, 0..50);
    server.run(AUDIENCE);
    let (uniques, views) = numbers(&server, 1);
    assert!(views == 3_000 && (2_910..=3_090).contains(&uniques), "{uniques} {views}");
    assert_eq!(numbers(&server, 2), (50, 50));
    server.verify("articles");
    // Built anew with another error, and wrong values are found and repaired.
    server.run("{modifyPattern: 'articles', name: 'audience', set: {fields: {uniques: {distinct: '$user', error: 0.1}, views: {count: {}}}}}");
    server.verify("articles");
    server.run("{update: 'articles', bypassPatterns: true, updates: [{q: {_id: 2}, u: {$set: {uniques: 7}}}]}");
    let reply = server.run("{validatePatterns: 'articles', repair: true}");
    let report = reply.as_doc().get("patterns").and_then(Val::as_array).and_then(RawDoc::first);
    let drift = report.and_then(|(_, report)| report.as_doc()?.get("drift"));
    assert_eq!(drift, Some(Val::Int32(1)), "{reply:?}");
    assert_eq!(numbers(&server, 2), (50, 50));
    assert_eq!(
        server.code("{update: 'articles', updates: [{q: {_id: 2}, u: {$set: {uniques: 7}}}]}"),
        96001
    );
    server.run("{dropPatterns: 'articles', names: ['audience']}");
    assert_eq!(server.get("articles", "2"), doc("{_id: 2}"));
}

/// In any order of random writes the count of few values is exact, and a recomputation that starts
/// from nothing agrees with a group that has had more.
#[test]
fn random_writes_leave_what_a_recomputation_gives() {
    let server = articles();
    server.run(ALL);
    let mut dice = Dice(7);
    for round in 0..60 {
        let list = (0..40).map(|_| {
            format!(
                "{{q: {{_id: {}}}, u: {{article: {}, user: {}}}, upsert: true}}",
                dice.below(800),
                1 + dice.below(2),
                dice.below(400)
            )
        });
        let list = list.collect::<Vec<_>>().join(",");
        server.run(&format!("{{update: 'views', updates: [{list}]}}"));
        let below = if round % 20 == 19 { 780 } else { dice.below(60) };
        server.run(&format!(
            "{{delete: 'views', deletes: [{{q: {{_id: {{$lt: {below}}}}}, limit: 0}}]}}"
        ));
        server.verify("articles");
    }
}

#[test]
fn distinct_users_by_day_are_groups_of_their_own() {
    let server = Server::new();
    server.run("{createPatterns: 'views', patterns: [{name: 'days', kind: 'approximation', into: 'days', groupBy: '$day',
        fields: {users: {distinct: '$user'}, views: {count: {}}}}]}");
    let list = (0..300).map(|n| format!("{{_id: {n}, day: {}, user: {}}}", n % 3, n % 7));
    server
        .run(&format!("{{insert: 'views', documents: [{}]}}", list.collect::<Vec<_>>().join(",")));
    server.run("{delete: 'views', deletes: [{q: {day: 2}, limit: 0}]}");
    assert_eq!(
        server.docs("{find: \'days\', sort: {_id: 1}}"),
        [doc("{_id: 0, users: 7, views: 100}"), doc("{_id: 1, users: 7, views: 100}")]
    );
    server.verify("views");
}
