//! Orders in a folder: MotifDB inside the program, without a server.
//!
//! Run it with `cargo run -p motifdb --example orders`; the folder may follow after `--`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use motifdb::bson::doc;
use motifdb::{Database, Result};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    number: i32,
    customer: String,
    items: Vec<Item>,
    paid: bool,
}

#[derive(Serialize, Deserialize)]
struct Item {
    name: String,
    cents: i64,
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "orders-data".to_owned());
    let db = Database::open(folder)?;
    let orders = db.collection::<Order>("orders");
    orders.drop()?; // what an earlier run left

    orders.create_index(doc! {"customer": 1, "_id": -1}).run()?;
    orders
        .insert_many([
            order(1, "Ada", &[("tea", 450), ("cup", 1200)]),
            order(2, "Max", &[("coffee", 600)]),
            order(3, "Ada", &[("tea", 450)]),
        ])
        .run()?;
    orders.update_one(doc! {"_id": 1}, doc! {"$set": {"paid": true}}).run()?;

    println!("unpaid:");
    for order in orders.find(doc! {"paid": false}).sort(doc! {"_id": 1}).run()? {
        let order = order?;
        println!("  {} for {}: {} items", order.number, order.customer, order.items.len());
    }

    println!("spent:");
    let spent = orders.aggregate([
        doc! {"$unwind": "$items"},
        doc! {"$group": {"_id": "$customer", "cents": {"$sum": "$items.cents"}}},
        doc! {"$sort": {"cents": -1}},
    ]);
    for customer in spent.run()? {
        println!("  {}", customer?);
    }
    db.close()
}

fn order(number: i32, customer: &str, items: &[(&str, i64)]) -> Order {
    let item = |&(name, cents): &(&str, i64)| Item { name: name.to_owned(), cents };
    let items = items.iter().map(item).collect();
    Order { number, customer: customer.to_owned(), items, paid: false }
}
