"""Users, roles and logins: a server with --auth of its own."""

import os
import pathlib
import socket
import subprocess
import time

import pymongo
import pytest
from pymongo.errors import OperationFailure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOTIF = os.environ.get("MOTIF", str(ROOT / "target/debug/motif"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The port of a server that asks for passwords, with the user root."""
    folder = tmp_path_factory.mktemp("guarded")
    port = free_port()
    command = [MOTIF, "serve", "--auth", "--listen", f"127.0.0.1:{port}", "--data", str(folder / "data")]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        add_user(port, "root", "secret", "root")
        yield port, folder
    finally:
        server.terminate()
        server.wait(60)


def add_user(port, name, password, role, login=""):
    uri = f"mongodb://{login}127.0.0.1:{port}"
    command = [MOTIF, "user", "add", name, "--role", role, "--uri", uri]
    subprocess.run(command, input=password, text=True, check=True, timeout=120)


def connect(port, name=None, password="secret", **options):
    return pymongo.MongoClient(
        "127.0.0.1", port, directConnection=True, username=name, password=password if name else None, **options
    )


def refused(action):
    with pytest.raises(OperationFailure) as caught:
        action()
    return caught.value.code


def test_nobody_gets_nothing_but_the_handshake(guarded):
    port, _ = guarded
    stranger = connect(port)
    assert stranger.admin.command("hello")["isWritablePrimary"]
    for command in ({"find": "x"}, {"insert": "x", "documents": [{}]}, {"serverStatus": 1}):
        assert refused(lambda command=command: stranger.test.command(command)) == 13
    # The first user exists, so that nobody makes another.
    assert refused(lambda: stranger.admin.command("createUser", "x", pwd="x", roles=["root"])) == 13


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", None])
def test_both_mechanisms_log_in(guarded, mechanism):
    port, _ = guarded
    options = {"authMechanism": mechanism} if mechanism else {}
    client = connect(port, "root", **options)
    status = client.admin.command("connectionStatus")["authInfo"]
    assert status["authenticatedUsers"] == [{"user": "root", "db": "admin"}]
    assert status["authenticatedUserRoles"] == [{"role": "root", "db": "admin"}]
    assert refused(lambda: connect(port, "root", "Secret", **options).admin.command("ping")) == 18
    assert refused(lambda: connect(port, "nobody", **options).admin.command("ping")) == 18


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_a_user_of_one_mechanism_need_not_name_it(guarded, mechanism):
    port, _ = guarded
    root = connect(port, "root")
    root.admin.command("createUser", "one", pwd="secret", roles=[], mechanisms=[mechanism])
    assert connect(port, "one").admin.command("ping")["ok"] == 1
    root.admin.command("dropUser", "one")


def test_roles_hold_and_change_at_once(guarded):
    port, _ = guarded
    root = connect(port, "root")
    root.shop.orders.insert_one({"_id": 1})
    root.admin.command("createUser", "ada", pwd="secret", roles=[{"role": "read", "db": "shop"}])
    ada = connect(port, "ada")
    assert ada.shop.orders.find_one() == {"_id": 1}
    assert refused(lambda: ada.shop.orders.insert_one({})) == 13
    assert refused(lambda: ada.other.orders.find_one()) == 13
    joined = [{"$lookup": {"from": "x", "localField": "a", "foreignField": "a", "as": "x"}}]
    assert list(ada.shop.orders.aggregate(joined)) == [{"_id": 1, "x": []}]
    assert refused(lambda: list(ada.shop.orders.aggregate([{"$out": "copy"}]))) == 13
    assert [db["name"] for db in ada.list_databases()] == ["shop"]
    # The same connection may more as soon as it is granted, and less when it is revoked.
    root.admin.command("grantRolesToUser", "ada", roles=[{"role": "readWrite", "db": "shop"}])
    ada.shop.orders.insert_one({"_id": 2})
    root.admin.command("revokeRolesFromUser", "ada", roles=[{"role": "readWrite", "db": "shop"}])
    assert refused(lambda: ada.shop.orders.insert_one({"_id": 3})) == 13
    root.admin.command("dropUser", "ada")
    assert refused(lambda: ada.shop.orders.find_one()) == 13


def test_a_role_of_ones_own(guarded):
    port, _ = guarded
    root = connect(port, "root")
    privilege = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find", "update"]}
    root.shop.command("createRole", "clerk", privileges=[privilege], roles=[])
    root.shop.command("createUser", "max", pwd="secret", roles=["clerk"])
    clerk = connect(port, "max", authSource="shop")
    clerk.shop.orders.update_one({"_id": 1}, {"$set": {"seen": True}})
    assert refused(lambda: clerk.shop.orders.update_one({"_id": 9}, {"$set": {"a": 1}}, upsert=True)) == 13
    assert refused(lambda: clerk.shop.customers.find_one()) == 13
    root.shop.command("grantRolesToRole", "clerk", roles=["read"])
    assert clerk.shop.customers.find_one() is None
    root.shop.command("dropRole", "clerk")
    assert refused(lambda: clerk.shop.orders.find_one()) == 13


def test_cursors_belong_to_who_opened_them(guarded):
    port, _ = guarded
    root = connect(port, "root")
    root.shop.many.insert_many([{} for _ in range(10)])
    root.admin.command("createUser", "eve", pwd="secret", roles=[{"role": "read", "db": "shop"}])
    first = root.shop.command("find", "many", batchSize=2)["cursor"]
    eve = connect(port, "eve")
    assert refused(lambda: eve.shop.command({"getMore": first["id"], "collection": "many"})) == 13
    assert refused(lambda: eve.shop.command({"killCursors": "many", "cursors": [first["id"]]})) == 13
    root.admin.command("dropUser", "eve")


def test_passwords_are_nowhere(guarded):
    port, folder = guarded
    root = connect(port, "root")
    root.admin.command("profile", 2)
    root.admin.command("createUser", "quiet", pwd="Zauberwort", roles=[])
    root.admin.command("profile", 0)
    assert "Zauberwort" not in str(list(root.admin["system.profile"].find()))
    assert "Zauberwort" not in str(root.admin["system.users"].find_one({"user": "quiet"}))
    assert "Zauberwort" not in (folder / "log").read_text()
    root.admin.command("dropUser", "quiet")


def test_every_command_with_every_role_as_in_mongodb(guarded):
    port, _ = guarded
    import sys

    script = ROOT / "scripts/roles-against-mongod"
    done = subprocess.run(
        [sys.executable, str(script), f"mongodb://root:secret@127.0.0.1:{port}"],
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
