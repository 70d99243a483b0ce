//! The documents of the aggregation workloads: sales of about 400 bytes, the customers that they
//! refer to, and events in the form of JSONBench's data (a public stream of posts, likes and follows).

use crate::data::Dice;
use value::Val;
use value::writer::write_doc;

/// A collection, or table.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its number of documents, given the value of `--docs`.
    pub(super) count: fn(u64) -> u64,
    /// Appends the document with this number (second argument), given the value of `--docs` (third).
    pub(super) write: fn(&mut Vec<u8>, u64, u64),
    /// The fields of its index.
    pub(super) index: Option<&'static [&'static str]>,
    /// The same index on the column `d` of a table.
    pub(super) sql_index: Option<&'static str>,
}

/// All collections.
pub(super) static TABLES: &[Table] = &[
    Table {
        name: "sales",
        count: |documents| documents,
        write: write_sale,
        index: None,
        sql_index: None,
    },
    Table {
        name: "customers",
        count: |documents| (documents / CUSTOMER_SHARE).max(1),
        write: write_customer,
        index: Some(&["number"]),
        sql_index: Some("((d->>'number')::bigint)"),
    },
    Table {
        name: "events",
        count: |documents| documents,
        write: write_event,
        index: Some(&["kind", "commit.operation", "commit.collection", "did", "time_us"]),
        sql_index: Some(
            "(d->>'kind'), (d->'commit'->>'operation'), (d->'commit'->>'collection'), \
             (d->>'did'), ((d->>'time_us')::bigint)",
        ),
    },
];

/// Sales for each customer.
const CUSTOMER_SHARE: u64 = 10;

const STATES: [&str; 4] = ["new", "paid", "shipped", "returned"];
const REGIONS: [&str; 8] =
    ["north", "south", "east", "west", "centre", "coast", "islands", "hills"];
const CITIES: [&str; 12] = [
    "Leipzig", "Porto", "Gdansk", "Nantes", "Bergen", "Graz", "Turku", "Lugano", "Split", "Cork",
    "Malaga", "Brno",
];
const WORDS: [&str; 16] = [
    "amber", "basalt", "cobalt", "dune", "ember", "fjord", "granite", "harbour", "indigo",
    "juniper", "kelp", "lagoon", "meadow", "nectar", "opal", "prairie",
];

fn pick<'a>(dice: &mut Dice, list: &[&'a str]) -> &'a str {
    let at = dice.below(list.len().max(1) as u64) as usize;
    list.get(at).copied().unwrap_or("")
}

fn write_sale(bytes: &mut Vec<u8>, id: u64, documents: u64) {
    let dice = &mut Dice::new(id ^ 0x5A1E);
    write_doc(bytes, |sale| {
        sale.i64("_id", id as i64);
        sale.str("key", &format!("k{:02}", dice.below(50)));
        sale.i64("customer", dice.below((documents / CUSTOMER_SHARE).max(1)) as i64);
        sale.str("status", pick(dice, &STATES));
        sale.str("region", pick(dice, &REGIONS));
        // Multiples of 0.25: their sums are exact in any order, so that results can be compared.
        sale.f64("amount", dice.below(4_000_000) as f64 / 4.0);
        sale.i32("quantity", dice.below(20) as i32);
        sale.doc("address", |address| {
            address.str("street", pick(dice, &WORDS));
            address.str("city", pick(dice, &CITIES));
            address.str("code", &format!("{:05}", dice.below(100_000)));
        });
        sale.array("tags", |tags| {
            for _ in 0..3 {
                tags.push(Val::String(pick(dice, &WORDS)));
            }
        });
        sale.array("items", |items| {
            for _ in 0..2 {
                items.push_doc(|item| {
                    item.i32("sku", dice.below(5000) as i32);
                    item.i32("q", dice.below(9) as i32 + 1);
                    item.f64("p", dice.below(4000) as f64 / 4.0);
                });
            }
        });
        let mut note = String::with_capacity(96);
        while note.len() < 60 {
            note.push_str(pick(dice, &WORDS));
            note.push(' ');
        }
        sale.str("note", note.get(..60).unwrap_or(&note));
    });
}

fn write_customer(bytes: &mut Vec<u8>, id: u64, _: u64) {
    let dice = &mut Dice::new(id ^ 0xC057);
    write_doc(bytes, |customer| {
        customer.i64("_id", id as i64);
        customer.i64("number", id as i64);
        customer.str("name", &format!("{} {}", pick(dice, &WORDS), pick(dice, &CITIES)));
        customer.str("region", pick(dice, &REGIONS));
        customer.i32("since", dice.below(30) as i32 + 1990);
    });
}

/// Kinds of events with their share in percent, about as in JSONBench's data.
const EVENTS: [(&str, u64); 7] = [
    ("app.bsky.feed.like", 45),
    ("app.bsky.graph.follow", 22),
    ("app.bsky.feed.post", 14),
    ("app.bsky.feed.repost", 9),
    ("app.bsky.graph.block", 5),
    ("app.bsky.actor.profile", 3),
    ("app.bsky.graph.listitem", 2),
];

fn text(dice: &mut Dice, length: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
    (0..length)
        .map(|_| char::from(LETTERS.get(dice.below(32) as usize).copied().unwrap_or(b'a')))
        .collect()
}

fn write_event(bytes: &mut Vec<u8>, id: u64, documents: u64) {
    let dice = &mut Dice::new(id ^ 0xB1E5);
    let user = {
        // Most events are from few users.
        let share = dice.unit();
        (share * share * (documents / 4).max(1) as f64) as u64
    };
    let did = format!("did:plc:{}", text(&mut Dice::new(user), 24));
    let is_commit = dice.below(100) > 0;
    write_doc(bytes, |event| {
        event.i64("_id", id as i64);
        event.str("did", &did);
        event.i64(
            "time_us",
            1_732_206_349_000_000 + (id * 86_400_000_000 / documents.max(1)) as i64,
        );
        event.str("kind", if is_commit { "commit" } else { "identity" });
        if !is_commit {
            return;
        }
        let mut share = dice.below(100);
        let mut collection = EVENTS[0].0;
        for (name, percent) in EVENTS {
            collection = name;
            if share < percent {
                break;
            }
            share -= percent;
        }
        let create = dice.below(100) < 92;
        event.doc("commit", |commit| {
            commit.str("rev", &text(dice, 13));
            commit.str("operation", if create { "create" } else { "delete" });
            commit.str("collection", collection);
            commit.str("rkey", &text(dice, 13));
            if !create {
                return;
            }
            commit.doc("record", |record| {
                record.str("$type", collection);
                record.str("createdAt", "2024-11-21T16:25:49.000Z");
                record.doc("subject", |subject| {
                    subject.str("cid", &text(dice, 59));
                    subject.str("uri", &format!("at://did:plc:{}", text(dice, 24)));
                });
            });
            commit.str("cid", &text(dice, 59));
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sales_have_about_400_bytes_and_are_always_the_same() {
        let (mut once, mut again) = (Vec::new(), Vec::new());
        for id in 0..1000 {
            write_sale(&mut once, id, 1000);
            write_sale(&mut again, id, 1000);
        }
        assert_eq!(once, again);
        let mean = once.len() / 1000;
        assert!((370..=430).contains(&mean), "mean size is {mean}");
    }

    #[test]
    fn most_events_are_commits_that_create() {
        let mut commits = 0;
        for id in 0..1000 {
            let mut bytes = Vec::new();
            write_event(&mut bytes, id, 1000);
            let doc = value::RawDoc::new(&bytes);
            commits += usize::from(doc.get("commit").is_some());
        }
        assert!((970..1000).contains(&commits), "{commits}");
    }
}
