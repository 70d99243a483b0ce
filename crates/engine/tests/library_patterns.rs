//! The builders of patterns declare what the commands declare.

use motifdb::bson::{Bson, Document, doc};
use motifdb::{
    BackfillRate, ChangeEvents, ClientWrites, Collection, Computed, Database, DuringBuild, Every,
    ExtendedReference, Freshness, Mode, OnDelete, OnDrift, OnError, OnMissing, OnMissingNode,
    OnMissingParent, OnSourceDelete, OverLimit, Pattern, PatternState, Result, Strategy, Subset,
    Tree,
};
use std::time::Duration;

/// The declarations that `listPatterns` shows for patterns of a collection.
fn shown(db: &Database, collection: &str) -> Result<Vec<Document>> {
    let listed = db.run_command(doc! {"listPatterns": collection, "cursor": {}})?;
    let batch = listed.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let entries = batch.expect("a batch").iter().filter_map(Bson::as_document);
    Ok(entries.map(|entry| entry.get_document("declaration").expect("one").clone()).collect())
}

/// Declares a pattern by its builder, and the same by a command on another database.
fn same(collection: &str, pattern: impl Into<Pattern>, command: Document) -> Result<()> {
    let pattern = pattern.into();
    let (built, sent) = (Database::in_memory()?, Database::in_memory()?);
    built.collection::<Document>(collection).create_patterns([pattern.clone()]).run()?;
    sent.run_command(doc! {"createPatterns": collection, "patterns": [command]})?;
    let (left, right) = (shown(&built, collection)?, shown(&sent, collection)?);
    assert_eq!(left.len(), 1);
    assert_eq!(left, right, "{:?}", pattern.declaration());
    let listed = built.list_patterns()?;
    assert_eq!((listed[0].state.clone(), &listed[0].declaration), (PatternState::Ready, &left[0]));
    Ok(())
}

#[test]
fn computed_patterns_are_those_of_the_command() -> Result<()> {
    same(
        "orders",
        Computed::in_document("total")
            .field("total", doc! {"$sum": "$items.price"})
            .on_error(OnError::Skip)
            .client_writes(ClientWrites::Ignore),
        doc! {"name": "total", "kind": "computed", "fields": {"total": {"$sum": "$items.price"}},
        "onError": "skip", "clientWrites": "ignore"},
    )?;
    same(
        "products",
        Computed::over("sales", "orders", "product_id")
            .local("sku")
            .filter(doc! {"status": {"$ne": "cancelled"}})
            .field("revenue", doc! {"$sum": "$price"})
            .field("first", doc! {"$first": "$price"})
            .order(doc! {"at": 1})
            .on_missing_parent(OnMissingParent::Reject)
            .mode(Mode::Async { max_lag: Duration::from_secs(2) })
            .max_staleness(Duration::from_secs(9))
            .during_build(DuringBuild::Missing)
            .backfill(50, BackfillRate::PerSecond(700))
            .change_events(ChangeEvents::Flagged)
            .rewrite(false)
            .verify("2/hour", OnDrift::Report),
        doc! {"name": "sales", "kind": "computed", "from": "orders",
        "on": {"local": "sku", "foreign": "product_id"}, "filter": {"status": {"$ne": "cancelled"}},
        "fields": {"revenue": {"$sum": "$price"}, "first": {"$first": "$price"}}, "order": {"at": 1},
        "onMissingParent": "reject", "mode": {"async": {"maxLagMS": 2000_i64}},
        "maxStalenessMS": 9000_i64, "duringBuild": "missing",
        "backfill": {"batch": 50_i64, "rate": 700_i64}, "changeEvents": "flagged",
        "rewrite": false, "verify": {"scrub": "2/hour", "onDrift": "report"}},
    )?;
    same(
        "orders",
        Computed::groups("months", "sales_by_month", doc! {"m": "$month"})
            .field("orders", doc! {"$count": {}})
            .window("at", Every::Days(30))
            .mode(Mode::Every(Every::Hours(1))),
        doc! {"name": "months", "kind": "computed", "into": "sales_by_month",
        "groupBy": {"m": "$month"}, "fields": {"orders": {"$count": {}}},
        "window": {"field": "at", "last": "30d"}, "mode": {"every": "1h"}},
    )
}

#[test]
fn references_subsets_and_trees_are_those_of_the_command() -> Result<()> {
    same(
        "orders",
        ExtendedReference::new("customer", "customer._id", "customers", "customer")
            .field("name")
            .field_as("tier", "$loyalty.tier")
            .freshness(Freshness::Live)
            .strategy(Strategy::Copy)
            .on_missing(OnMissing::Reject)
            .on_source_delete(OnSourceDelete::Restrict)
            .fanout_limit(10, OverLimit::Reject),
        doc! {"name": "customer", "kind": "extendedReference", "ref": "customer._id",
        "from": "customers", "match": "_id", "fields": ["name", {"as": "tier", "expr": "$loyalty.tier"}],
        "into": "customer", "freshness": "live", "strategy": "copy", "onMissing": "reject",
        "onSourceDelete": "restrict", "fanoutLimit": 10_i64, "overLimit": "reject"},
    )?;
    same(
        "products",
        Subset::new("best", "reviews", "product_id", "best", doc! {"stars": -1, "_id": -1}, 5)
            .filter(doc! {"status": "published"})
            .fields(["stars", "author"])
            .id_as("review_id")
            .count("review_count"),
        doc! {"name": "best", "kind": "subset", "into": "best", "from": "reviews",
        "on": {"local": "_id", "foreign": "product_id"}, "sort": {"stars": -1, "_id": -1},
        "limit": 5_i64, "filter": {"status": "published"}, "fields": ["stars", "author"],
        "idAs": "review_id", "count": "review_count"},
    )?;
    same(
        "categories",
        Tree::new("tree", "parent")
            .ancestors("ancestors")
            .path("path", ",", "$_id")
            .depth("depth")
            .child_count("children")
            .descendant_count("below")
            .nested_set("lft", "rgt", false)
            .order("name")
            .scope("forest")
            .on_missing_parent(OnMissingNode::Defer)
            .on_delete(OnDelete::Adopt)
            .strategy(Strategy::Copy),
        doc! {"name": "tree", "kind": "tree", "parent": "parent",
        "maintain": {"ancestors": "ancestors", "path": {"into": "path", "sep": ",", "segment": "$_id"},
            "depth": "depth", "childCount": "children", "descendantCount": "below",
            "nestedSet": {"lft": "lft", "rgt": "rgt", "dense": false}},
        "order": "name", "scope": "forest", "onMissingParent": "defer", "onDelete": "adopt",
        "strategy": "copy"},
    )
}

fn products() -> Result<(Database, Collection<Document>)> {
    let db = Database::in_memory()?;
    let products = db.collection::<Document>("products");
    products.insert_one(doc! {"_id": "tea"}).run()?;
    let orders = (1..=4).map(|n| doc! {"_id": n, "product": "tea", "n": n});
    db.collection::<Document>("orders").insert_many(orders).run()?;
    let last = Subset::new("last", "orders", "product", "last", doc! {"n": -1}, 2).count("orders");
    products.create_patterns([last.fields(["n"])]).run()?;
    Ok((db, products))
}

fn listed(products: &Collection<Document>) -> Result<usize> {
    let tea = products.find_one(doc! {"_id": "tea"}).run()?.expect("it is there");
    Ok(tea.get_array("last").expect("a list").len())
}

#[test]
fn patterns_are_changed_checked_suspended_and_dropped() -> Result<()> {
    let (db, products) = products()?;
    assert_eq!(listed(&products)?, 2);
    products.modify_pattern("last").set("limit", 3).run()?;
    assert_eq!(listed(&products)?, 3);
    let wider = Subset::new("last", "orders", "product", "last", doc! {"n": -1}, 4);
    products.modify_pattern("last").declaration(wider).run()?;
    assert_eq!(listed(&products)?, 4);
    let error = products.modify_pattern("last").set("limits", 3).run();
    assert!(error.is_err(), "an unknown option");

    let checks = products.validate_patterns().names(["last"]).run()?;
    assert_eq!((checks.len(), checks[0].name.as_str()), (1, "last"));
    assert_eq!((checks[0].checked, checks[0].drift), (1, 0));
    db.run_command(doc! {"update": "products", "bypassPatterns": true,
    "updates": [{"q": {"_id": "tea"}, "u": {"$set": {"last": []}}}]})?;
    assert_eq!(products.list_patterns()?[0].state, PatternState::Degraded);
    let checks = products.validate_patterns().filter(doc! {"_id": "tea"}).run()?;
    assert_eq!((checks[0].drift, checks[0].repaired, checks[0].samples.len()), (1, 0, 1));
    let checks = products.validate_patterns().repair(true).run()?;
    assert_eq!((checks[0].drift, checks[0].repaired), (1, 1));
    assert_eq!((listed(&products)?, products.validate_patterns().run()?[0].drift), (4, 0));

    products.suspend_patterns(["last"]).run()?;
    assert_eq!(products.list_patterns()?[0].state, PatternState::Suspended);
    db.collection::<Document>("orders").delete_one(doc! {"_id": 4}).run()?;
    assert_eq!(listed(&products)?, 4);
    products.resume_patterns(["last"]).run()?;
    assert_eq!(
        (listed(&products)?, &products.list_patterns()?[0].state),
        (3, &PatternState::Ready)
    );

    products.drop_patterns(["last"]).keep_values(true).run()?;
    assert_eq!((listed(&products)?, products.list_patterns()?.len()), (3, 0));
    assert!(products.drop_patterns(["last"]).run().is_err(), "there is none");
    Ok(())
}
