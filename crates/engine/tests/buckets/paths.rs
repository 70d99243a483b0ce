//! Collections in buckets as sources of other patterns and of stages: what is derived from points
//! follows them.

use super::harness::{Dice, Server, batch, print};
use super::seed;

/// The answers of a plain collection and of one in buckets to a pipeline, in any order.
fn answers(server: &Server, pipeline: &str) -> [Vec<String>; 2] {
    ["plain", "points"].map(|name| {
        let pipeline = pipeline.replace("<from>", name);
        let (from, pipeline) = match pipeline.strip_prefix("owners ") {
            Some(pipeline) => ("owners", pipeline.to_owned()),
            None => (name, pipeline),
        };
        let command =
            format!("{{aggregate: '{from}', pipeline: {pipeline}, cursor: {{batchSize: 1000}}}}");
        let mut docs: Vec<String> =
            server.docs(&command).iter().map(|doc| print(doc.as_doc())).collect();
        docs.sort();
        docs
    })
}

#[test]
fn derived_values_follow_points() {
    let server = Server::new();
    server.run("{create: 'plain'}");
    server.run("{create: 'points', patterns: [{name: 'b', kind: 'bucket', key: ['s'], time: 'ts', span: '1h', maxCount: 6, rollup: {fields: {v: ['sum']}}}]}");
    server.run("{insert: 'owners', documents: [{_id: 0}, {_id: 1}, {_id: 2}]}");
    for name in ["plain", "points"] {
        server.run(&format!(
            "{{createPatterns: 'owners', patterns: [{{name: 'sum_{name}', kind: 'computed', from: '{name}', on: {{foreign: 's'}}, fields: {{n_{name}: {{$count: {{}}}}, v_{name}: {{$sum: '$v'}}, most_{name}: {{$max: '$v'}}}}}}, {{name: 'top_{name}', kind: 'subset', into: 'top_{name}', from: '{name}', on: {{foreign: 's'}}, sort: {{ts: -1, _id: 1}}, limit: 3, fields: ['ts', 'v']}}]}}"
        ));
    }
    let mut dice = Dice(seed() * 100 + 70);
    for round in 0..120 {
        let (id, s, v) = (dice.below(60), dice.below(3), dice.below(90));
        let ts = format!("{{$date: {{$numberLong: '{}'}}}}", dice.below(30) * 600_000);
        let text = match dice.below(6) {
            0..3 => format!(
                "insert: '<c>', documents: [{{_id: {id}, s: {s}, ts: {ts}, v: {v}}}, {{_id: {}, s: {s}, ts: {ts}, v: 1}}]",
                id + 100
            ),
            3 => format!(
                "update: '<c>', updates: [{{q: {{_id: {id}}}, u: {{$set: {{ts: {ts}, s: {s}}}, $inc: {{v: 1}}}}}}]"
            ),
            4 => format!(
                "update: '<c>', updates: [{{q: {{s: {s}}}, u: {{$inc: {{v: 2}}}}, multi: true}}]"
            ),
            _ => format!("delete: '<c>', deletes: [{{q: {{_id: {id}}}, limit: 1}}]"),
        };
        for name in ["plain", "points"] {
            server.run(&format!("{{{}}}", text.replace("<c>", name)));
        }
        if round % 20 < 19 {
            continue;
        }
        for owner in server.docs("{find: 'owners'}") {
            let shown = |name: &str| {
                let path = |field: &str| {
                    let path = motifdb::value::path::Path::new(&format!("{field}_{name}"));
                    format!("{:?}", path.get(owner.as_doc()))
                };
                ["n", "v", "most", "top"].map(path)
            };
            assert_eq!(shown("plain"), shown("points"), "{}", print(owner.as_doc()));
        }
        for pipeline in [
            "owners [{$lookup: {from: '<from>', localField: '_id', foreignField: 's', as: 'all', pipeline: [{$sort: {_id: 1}}]}}, {$project: {all: 1}}]",
            "[{$lookup: {from: 'owners', localField: 's', foreignField: '_id', as: 'owner'}}, {$project: {owner: '$owner._id', v: 1}}]",
            "[{$facet: {a: [{$match: {s: 1}}, {$count: 'n'}], b: [{$group: {_id: '$s', v: {$sum: '$v'}}}, {$sort: {_id: 1}}]}}]",
            "owners [{$unionWith: '<from>'}, {$match: {v: {$gt: 3}}}, {$project: {v: 1}}]",
            "[{$setWindowFields: {partitionBy: '$s', sortBy: {ts: 1, _id: 1}, output: {r: {$sum: '$v', window: {documents: ['unbounded', 'current']}}}}}]",
        ] {
            let [plain, points] = answers(&server, pipeline);
            assert_eq!(plain, points, "{pipeline}");
        }
    }
    server.verify("points");
    server.verify("owners");
}

#[test]
fn results_are_merged_into_buckets() {
    let server = Server::new();
    server.run("{create: 'points', timeseries: {timeField: 'ts', metaField: 's'}}");
    server.run("{insert: 'from', documents: [{_id: 1, s: 1, ts: {$date: {$numberLong: '1000'}}, v: 1}, {_id: 2, s: 1, ts: {$date: {$numberLong: '2000'}}, v: 2}]}");
    for _ in 0..2 {
        server.run("{aggregate: 'from', pipeline: [{$merge: {into: 'points', whenMatched: [{$set: {seen: true}}]}}], cursor: {}}");
    }
    assert_eq!(server.find("points", "{seen: true, v: {$gt: 0}}").len(), 2);
    assert_eq!(batch(&server.run("{find: 'system.buckets.points'}")).len(), 1);
    server.run("{aggregate: 'from', pipeline: [{$match: {_id: 2}}, {$out: 'points'}], cursor: {}}");
    assert_eq!(server.find("points", "{}").len(), 1);
    assert_eq!(batch(&server.run("{find: 'system.buckets.points'}")).len(), 1);
    server.verify("points");
    assert_eq!(server.0.check(&mut |_, _, _| {}).expect("can be read"), Vec::<String>::new());
}
