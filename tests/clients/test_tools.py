"""What MongoDB's command-line tools send, in their order: mongodump, mongorestore, mongoimport."""

import uuid

import pymongo
import pytest
from bson import SON, Timestamp
from pymongo.errors import OperationFailure


def restore_documents(database, name, documents):
    """As mongorestore and mongoimport insert: in batches, with the field for servers of 8.0."""
    command = SON([("insert", name), ("documents", documents), ("ordered", False)])
    if major_version(database.client) >= 8:
        command["bypassEmptyTsReplacement"] = True
    reply = database.command(command)
    assert reply["n"] == len(documents), reply


def major_version(client):
    return client.server_info()["versionArray"][0]


@pytest.fixture
def names(client):
    """A database and names of a user and a role of it; removed at the end."""
    name = "clients_tools_" + uuid.uuid4().hex[:12]
    yield name
    client[name].command("dropAllUsersFromDatabase", 1)
    client[name].command("dropAllRolesFromDatabase", 1)
    client.drop_database(name)


def dumped(client, collection, name):
    return list(client.admin[collection].find({"db": name}))


def merge(client, name, drop, users=None, roles=None):
    """What mongorestore does with users and roles: into collections of its own, then one command."""
    command = SON([("_mergeAuthzCollections", 1)])
    for field, collection, documents in [
        ("tempUsersCollection", "tempusers", users),
        ("tempRolesCollection", "temproles", roles),
    ]:
        client.admin[collection].drop()
        if documents is not None:
            restore_documents(client.admin, collection, documents)
            command[field] = "admin." + collection
    command["drop"] = drop
    command["db"] = name
    command["writeConcern"] = {"w": "majority"}
    try:
        return client.admin.command(command)
    finally:
        client.admin.tempusers.drop()
        client.admin.temproles.drop()


def test_users_and_roles_travel_in_dumps(client, names):
    db = client[names]
    db.command("createRole", "auditor", privileges=[{"resource": {"db": names, "collection": "c"}, "actions": ["find"]}], roles=[])
    db.command("createUser", "ada", pwd="first", roles=["auditor", {"role": "read", "db": "admin"}])
    db.command("createUser", "bob", pwd="bobs", roles=[])
    # mongodump asks for the version of the form, and looks for the document of it.
    assert client.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"] == 5
    assert client.admin["system.version"].find_one({"_id": "authSchema"})["currentVersion"] == 5
    users, roles = dumped(client, "system.users", names), dumped(client, "system.roles", names)
    assert [user["_id"] for user in users] == [names + ".ada", names + ".bob"]
    db.command("dropUser", "bob")
    db.command("dropRole", "auditor")
    db.command("updateUser", "ada", pwd="second")
    db.command("createUser", "eve", pwd="x", roles=[])

    # Without --drop what is there stays.
    merge(client, names, False, users, roles)
    assert [user["user"] for user in db.command("usersInfo", 1)["users"]] == ["ada", "bob", "eve"]
    assert dumped(client, "system.roles", names) == roles
    authenticates(client, names, "ada", "second")
    authenticates(client, names, "bob", "bobs")

    # With it the dump replaces it.
    merge(client, names, True, users, roles)
    assert dumped(client, "system.users", names) == users
    authenticates(client, names, "ada", "first")
    with pytest.raises(OperationFailure):
        authenticates(client, names, "ada", "second")
    # Users alone.
    merge(client, names, True, users=users[:1])
    assert dumped(client, "system.users", names) == users[:1]
    assert dumped(client, "system.roles", names) == roles


def authenticates(client, db, user, password):
    host, port = client.address
    with pymongo.MongoClient(host, port, username=user, password=password, authSource=db, directConnection=True) as other:
        assert other[db].command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": user, "db": db}]


def test_the_merge_says_what_is_wrong(client, names):
    for command, code in [
        ({"drop": True, "db": names}, 2),
        ({"tempUsersCollection": "admin.tempusers", "drop": True}, 40414),
        ({"tempUsersCollection": 5, "drop": True, "db": names}, 14),
    ]:
        with pytest.raises(OperationFailure) as failed:
            client.admin.command(SON([("_mergeAuthzCollections", 1), *command.items()]))
        assert failed.value.code == code, command
    with pytest.raises(OperationFailure):
        client[names].command("_mergeAuthzCollections", 1, tempUsersCollection="admin.x", drop=True, db=names)


def test_a_collection_is_restored_as_it_was(client, db):
    documents = [{"_id": 1, "t": Timestamp(0, 0), "in": {"t": Timestamp(0, 0)}}, {"_id": 2}]
    if major_version(client) < 8:
        pytest.skip("MongoDB 8.0 and later")
    db.command("create", "c", comment="mongorestore")
    restore_documents(db, "c", documents)
    assert list(db.c.find().sort("_id", 1)) == documents
    # mongodump reads by `_id`, with a hint, and without a timeout.
    assert len(list(db.c.find(hint=[("_id", 1)], no_cursor_timeout=True, comment="mongodump"))) == 2
    db.command("update", "c", updates=[{"q": {"_id": 2}, "u": {"t": Timestamp(0, 0)}, "upsert": True}], bypassEmptyTsReplacement=True)
    assert db.c.find_one({"_id": 2}) == {"_id": 2, "t": Timestamp(0, 0)}
