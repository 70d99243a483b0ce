"""pymongo: the address that an order was sent to stays. Run: MONGODB_URI=... python extended-reference.py"""

import os

import pymongo

db = pymongo.MongoClient(os.environ["MONGODB_URI"])["patterns_reference"]
db.client.drop_database(db.name)

db.customers.insert_one({"_id": 1, "name": "Ann", "address": {"city": "Porto", "zip": "4000"}})
db.command("createPatterns", "orders", patterns=[{
    "name": "shipTo", "kind": "extendedReference", "ref": "customer_id", "from": "customers",
    "fields": ["name", "address.city"], "into": "ship_to", "freshness": "snapshot",
}])
db.orders.insert_one({"_id": 10, "customer_id": 1})
db.customers.update_one({"_id": 1}, {"$set": {"address.city": "Lisbon"}})
order = db.orders.find_one({"_id": 10})
print(order)
assert order["ship_to"] == {"name": "Ann", "address": {"city": "Porto"}}

# Not copied at all: an invoice shows what its customer is called today.
db.command("createPatterns", "invoices", patterns=[{
    "name": "customer", "kind": "extendedReference", "strategy": "pointer", "ref": "customer_id",
    "from": "customers", "fields": ["name"], "into": "customer",
}])
db.invoices.insert_one({"_id": 1, "customer_id": 1})
db.customers.update_one({"_id": 1}, {"$set": {"name": "Anna"}})
assert db.invoices.find_one({"customer.name": "Anna"}) == {"_id": 1, "customer_id": 1, "customer": {"name": "Anna"}}
