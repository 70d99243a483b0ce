//! Laws of geospatial and text indexes: with and without an index the same documents are found,
//! `$near` gives them by distance, and writes keep the entries right.

use motifdb::bson::{Bson, Document, doc};
use motifdb::{Collection, Database};
use proptest::prelude::*;

type Point = (f64, f64);

fn point() -> impl Strategy<Value = Point> {
    let near = (-30.0..30.0f64, -20.0..20.0f64);
    let far = (-180.0..180.0f64, -89.0..89.0f64);
    prop_oneof![3 => near, 1 => far]
}

fn ring((x, y): Point, radius: f64) -> Bson {
    let corner = |a: f64, b: f64| {
        let x = (x + a * radius).clamp(-179.9, 179.9);
        let y = (y + b * radius).clamp(-89.0, 89.0);
        Bson::from(vec![x, y])
    };
    let first = corner(-1.0, -1.0);
    Bson::Array(vec![first.clone(), corner(1.0, -0.9), corner(0.8, 1.0), corner(-1.0, 0.7), first])
}

fn shape() -> impl Strategy<Value = Bson> {
    prop_oneof![
        4 => point().prop_map(|(x, y)| Bson::from(vec![x, y])),
        2 => point().prop_map(|(x, y)| Bson::from(doc! {"type": "Point", "coordinates": [x, y]})),
        2 => (point(), point()).prop_map(|(a, b)| {
            Bson::from(doc! {"type": "LineString", "coordinates": [[a.0, a.1], [b.0, b.1]]})
        }),
        2 => (point(), 0.1..20.0f64).prop_map(|(centre, radius)| {
            Bson::from(doc! {"type": "Polygon", "coordinates": [ring(centre, radius)]})
        }),
        1 => (point(), point()).prop_map(|(a, b)| {
            Bson::from(doc! {"type": "MultiPoint", "coordinates": [[a.0, a.1], [b.0, b.1]]})
        }),
    ]
}

fn filled(name: &str, db: &Database, locations: &[Bson]) -> Collection<Document> {
    let collection: Collection<Document> = db.collection(name);
    for (at, location) in locations.iter().enumerate() {
        let id = i32::try_from(at).expect("few documents");
        // A line between antipodes or a ring through a pole may be refused: in both collections.
        let _ = collection.insert_one(&doc! {"_id": id, "l": location.clone(), "a": id % 3}).run();
    }
    collection
}

fn ids(collection: &Collection<Document>, filter: Document) -> Vec<i32> {
    let found = collection.find(filter).projection(doc! {"_id": 1}).run().expect("finds");
    found.map(|doc| doc.expect("a document").get_i32("_id").expect("a number")).collect()
}

fn sorted(mut ids: Vec<i32>) -> Vec<i32> {
    ids.sort_unstable();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_2dsphere_index_changes_no_result(
        locations in prop::collection::vec(shape(), 1..40),
        regions in prop::collection::vec((shape(), point(), 0.01..3.0f64, 0.1..60.0f64), 1..6),
    ) {
        let db = Database::in_memory().expect("opens");
        let plain = filled("plain", &db, &locations);
        let indexed: Collection<Document> = db.collection("indexed");
        indexed.create_index(doc! {"a": 1, "l": "2dsphere"}).run().expect("indexes");
        indexed.create_index(doc! {"l": "2dsphere"}).run().expect("indexes");
        let kept = filled("indexed", &db, &locations);
        let kept = sorted(ids(&kept, doc! {}));
        plain.delete_many(doc! {"_id": {"$nin": kept}}).run().expect("deletes");
        // Moving some around exercises the entries that go.
        for collection in [&plain, &indexed] {
            collection
                .update_many(doc! {"_id": {"$mod": [5, 2]}}, doc! {"$set": {"l": [1.5, 2.5]}})
                .run()
                .expect("updates");
        }
        for (shape, centre, angle, radius) in regions {
            let polygon = doc! {"type": "Polygon", "coordinates": [ring(centre, radius)]};
            for filter in [
                doc! {"l": {"$geoIntersects": {"$geometry": shape}}},
                doc! {"l": {"$geoWithin": {"$geometry": polygon.clone()}}},
                doc! {"l": {"$geoIntersects": {"$geometry": polygon}}, "a": 1},
                doc! {"l": {"$geoWithin": {"$centerSphere": [[centre.0, centre.1], angle]}}},
            ] {
                let expected = sorted(ids(&plain, filter.clone()));
                prop_assert_eq!(sorted(ids(&indexed, filter.clone())), expected, "{}", filter);
            }
        }
    }

    #[test]
    fn a_2d_index_changes_no_result_and_near_goes_outwards(
        points in prop::collection::vec(point(), 1..60),
        centre in point(),
        radius in 0.0..90.0f64,
    ) {
        let db = Database::in_memory().expect("opens");
        let locations: Vec<Bson> = points.iter().map(|(x, y)| Bson::from(vec![*x, *y])).collect();
        let plain = filled("plain", &db, &locations);
        let indexed = filled("indexed", &db, &locations);
        indexed.create_index(doc! {"l": "2d"}).run().expect("indexes");
        let (x, y) = centre;
        let corners = [[x - radius, y - radius], [x + radius, y], [x, y + radius]];
        let polygon: Vec<Bson> = corners.iter().map(|corner| Bson::from(corner.to_vec())).collect();
        let circle = doc! {"l": {"$geoWithin": {"$center": [[x, y], radius]}}};
        for filter in [
            circle.clone(),
            doc! {"l": {"$geoWithin": {"$box": [[x - radius, y], [x, y + radius]]}}},
            doc! {"l": {"$geoWithin": {"$polygon": polygon}}},
            doc! {"l": {"$geoWithin": {"$centerSphere": [[x, y], radius / 60.0]}}},
        ] {
            let expected = sorted(ids(&plain, filter.clone()));
            prop_assert_eq!(sorted(ids(&indexed, filter.clone())), expected, "{}", filter);
        }
        let near = ids(&indexed, doc! {"l": {"$near": [x, y], "$maxDistance": radius}});
        prop_assert_eq!(sorted(near.clone()), sorted(ids(&plain, circle)));
        let distance = |id: &i32| {
            let (a, b) = points[usize::try_from(*id).expect("from 0")];
            (a - x).hypot(b - y)
        };
        prop_assert!(near.iter().map(distance).is_sorted());
    }

    #[test]
    fn a_text_index_finds_the_documents_that_have_a_word(
        texts in prop::collection::vec("[a-e]{1,2}( [a-e]{1,2}){0,5}", 1..40),
        changed in prop::collection::vec("[a-e]{1,2}( [a-e]{1,2}){0,5}", 1..10),
        wanted in "[a-e]{1,2}",
        unwanted in "[a-e]{1,2}",
    ) {
        let db = Database::in_memory().expect("opens");
        let words: Collection<Document> = db.collection("words");
        let command = doc! {"createIndexes": "words", "indexes": [
            {"key": {"t": "text"}, "name": "t", "default_language": "none"},
        ]};
        db.run_command(command).expect("indexes");
        let mut all = texts;
        for (at, text) in all.iter().enumerate() {
            let id = i32::try_from(at).expect("few documents");
            words.insert_one(&doc! {"_id": id, "t": text}).run().expect("inserts");
        }
        for (at, text) in changed.into_iter().enumerate().take(all.len()) {
            let id = i32::try_from(at).expect("few documents");
            let set = doc! {"$set": {"t": &text}};
            words.update_one(doc! {"_id": id}, set).run().expect("updates");
            all[at] = text;
        }
        let has = |text: &str, word: &str| text.split(' ').any(|other| other == word);
        let found = ids(&words, doc! {"$text": {"$search": format!("{wanted} -{unwanted}")}});
        let expected: Vec<i32> = (0..)
            .zip(&all)
            .filter(|(_, text)| has(text, &wanted) && !has(text, &unwanted))
            .map(|(id, _)| id)
            .collect();
        prop_assert_eq!(sorted(found), expected);
    }
}
