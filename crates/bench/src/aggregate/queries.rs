//! The measured pipelines, each with the equivalent SQL over JSONB columns.

/// A pipeline.
pub(super) struct Query {
    pub(super) name: &'static str,
    /// A description for the report.
    pub(super) about: &'static str,
    /// The collections that it reads; the first is the one it runs on.
    pub(super) tables: &'static [&'static str],
    pub(super) pipeline: &'static str,
    pub(super) sql: &'static str,
}

/// All pipelines, in the order in which they run.
pub(super) static ALL: &[Query] = &[
    Query {
        name: "group50",
        about: "group by 50 keys, three accumulators",
        tables: &["sales"],
        pipeline: r#"[{$group: {_id: "$key", n: {$sum: 1}, total: {$sum: "$amount"},
            mean: {$avg: "$quantity"}}}]"#,
        sql: "SELECT d->>'key', count(*), sum((d->>'amount')::float8),
            avg((d->>'quantity')::int) FROM sales GROUP BY 1",
    },
    Query {
        name: "filter",
        about: "filter, group by a nested field, sort",
        tables: &["sales"],
        pipeline: r#"[{$match: {status: "paid", quantity: {$gte: 5}}},
            {$group: {_id: "$address.city", total: {$sum: "$amount"}, most: {$max: "$amount"}}},
            {$sort: {total: -1}}]"#,
        sql: "SELECT d->'address'->>'city', sum((d->>'amount')::float8) AS total,
            max((d->>'amount')::float8) FROM sales
            WHERE d->>'status' = 'paid' AND (d->>'quantity')::int >= 5
            GROUP BY 1 ORDER BY total DESC",
    },
    Query {
        name: "tags",
        about: "unwind tags, count each",
        tables: &["sales"],
        pipeline: r#"[{$unwind: "$tags"}, {$group: {_id: "$tags", n: {$sum: 1}}}]"#,
        sql: "SELECT tag, count(*) FROM sales, jsonb_array_elements_text(d->'tags') AS tag
            GROUP BY 1",
    },
    Query {
        name: "items",
        about: "unwind items, sum of quantity times price for 5000 keys",
        tables: &["sales"],
        pipeline: r#"[{$unwind: "$items"}, {$group: {_id: "$items.sku",
            revenue: {$sum: {$multiply: ["$items.q", "$items.p"]}}}}]"#,
        sql: "SELECT item->>'sku', sum((item->>'q')::int * (item->>'p')::float8)
            FROM sales, jsonb_array_elements(d->'items') AS item GROUP BY 1",
    },
    Query {
        name: "top10",
        about: "filter, first ten by an unindexed field",
        tables: &["sales"],
        pipeline: r#"[{$match: {region: "coast"}}, {$sort: {amount: -1, _id: 1}}, {$limit: 10}]"#,
        sql: "SELECT d FROM sales WHERE d->>'region' = 'coast'
            ORDER BY (d->>'amount')::float8 DESC, id LIMIT 10",
    },
    Query {
        name: "lookup",
        about: "join 1000 rows by key",
        tables: &["sales", "customers"],
        pipeline: r#"[{$match: {_id: {$lt: 1000}}}, {$lookup: {from: "customers",
            localField: "customer", foreignField: "_id", as: "who"}}]"#,
        sql: "SELECT s.d, c.d FROM sales s LEFT JOIN customers c
            ON c.id = (s.d->>'customer')::bigint WHERE s.id < 1000",
    },
    Query {
        name: "lookup2",
        about: "join 1000 rows by a secondary index",
        tables: &["sales", "customers"],
        pipeline: r#"[{$match: {_id: {$lt: 1000}}}, {$lookup: {from: "customers",
            localField: "customer", foreignField: "number", as: "who"}}]"#,
        sql: "SELECT s.d, c.d FROM sales s LEFT JOIN customers c
            ON (c.d->>'number')::bigint = (s.d->>'customer')::bigint WHERE s.id < 1000",
    },
    Query {
        name: "regex",
        about: "count with a regular expression",
        tables: &["sales"],
        pipeline: r#"[{$match: {note: {$regex: "lagoon .*opal"}}}, {$count: "n"}]"#,
        sql: "SELECT count(*) FROM sales WHERE d->>'note' ~ 'lagoon .*opal'",
    },
    Query {
        name: "json1",
        about: "JSONBench 1: events of each collection",
        tables: &["events"],
        pipeline: r#"[{$group: {_id: "$commit.collection", count: {$sum: 1}}},
            {$sort: {count: -1}}]"#,
        sql: "SELECT d->'commit'->>'collection' AS event, count(*) FROM events
            GROUP BY 1 ORDER BY 2 DESC",
    },
    Query {
        name: "json2",
        about: "JSONBench 2: events and distinct users of each collection",
        tables: &["events"],
        pipeline: r#"[{$match: {kind: "commit", "commit.operation": "create"}},
            {$group: {_id: "$commit.collection", count: {$sum: 1}, users: {$addToSet: "$did"}}},
            {$project: {event: "$_id", count: 1, users: {$size: "$users"}}},
            {$sort: {count: -1}}]"#,
        sql: "SELECT d->'commit'->>'collection', count(*), count(DISTINCT d->>'did') FROM events
            WHERE d->>'kind' = 'commit' AND d->'commit'->>'operation' = 'create'
            GROUP BY 1 ORDER BY 2 DESC",
    },
    Query {
        name: "json3",
        about: "JSONBench 3: events of three collections by hour",
        tables: &["events"],
        pipeline: r#"[{$match: {kind: "commit", "commit.operation": "create",
            "commit.collection": {$in: ["app.bsky.feed.post", "app.bsky.feed.repost",
            "app.bsky.feed.like"]}}},
            {$project: {_id: 0, event: "$commit.collection",
            hour: {$hour: {$toDate: {$divide: ["$time_us", 1000]}}}}},
            {$group: {_id: {event: "$event", hour: "$hour"}, count: {$sum: 1}}},
            {$sort: {"_id.hour": 1, "_id.event": 1}}]"#,
        sql: "SELECT d->'commit'->>'collection', extract(hour FROM to_timestamp(
            (d->>'time_us')::bigint / 1000000) AT TIME ZONE 'UTC'), count(*) FROM events
            WHERE d->>'kind' = 'commit' AND d->'commit'->>'operation' = 'create'
            AND d->'commit'->>'collection' IN ('app.bsky.feed.post', 'app.bsky.feed.repost',
            'app.bsky.feed.like') GROUP BY 1, 2 ORDER BY 2, 1",
    },
    Query {
        name: "json4",
        about: "JSONBench 4: the three users who posted first",
        tables: &["events"],
        pipeline: r#"[{$match: {kind: "commit", "commit.operation": "create",
            "commit.collection": "app.bsky.feed.post"}},
            {$project: {_id: 0, user_id: "$did",
            at: {$toDate: {$divide: ["$time_us", 1000]}}}},
            {$group: {_id: "$user_id", first: {$min: "$at"}}},
            {$sort: {first: 1, _id: 1}}, {$limit: 3}]"#,
        sql: "SELECT d->>'did', min((d->>'time_us')::bigint) AS first FROM events
            WHERE d->>'kind' = 'commit' AND d->'commit'->>'operation' = 'create'
            AND d->'commit'->>'collection' = 'app.bsky.feed.post'
            GROUP BY 1 ORDER BY 2, 1 LIMIT 3",
    },
    Query {
        name: "json5",
        about: "JSONBench 5: the three users who posted over the longest time",
        tables: &["events"],
        pipeline: r#"[{$match: {kind: "commit", "commit.operation": "create",
            "commit.collection": "app.bsky.feed.post"}},
            {$project: {_id: 0, user_id: "$did",
            at: {$toDate: {$divide: ["$time_us", 1000]}}}},
            {$group: {_id: "$user_id", first: {$min: "$at"}, last: {$max: "$at"}}},
            {$project: {span: {$dateDiff: {startDate: "$first", endDate: "$last",
            unit: "millisecond"}}}},
            {$sort: {span: -1, _id: 1}}, {$limit: 3}]"#,
        sql: "SELECT d->>'did', max((d->>'time_us')::bigint) - min((d->>'time_us')::bigint) AS span
            FROM events WHERE d->>'kind' = 'commit' AND d->'commit'->>'operation' = 'create'
            AND d->'commit'->>'collection' = 'app.bsky.feed.post'
            GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
    },
];
