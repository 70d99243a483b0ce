"""A MotifDB server in front of a real replica set: what clients see there is what the set gives them.

Needs mongod (scripts/mongod fetches it) in MONGOD, and MOTIF.
"""

import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pymongo
import pytest
from bson import encode
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure

MEMBERS = 3
# Seconds until an event that must come is missed; nothing waits that long unless it fails.
LIMIT = 120


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def eventually(what, seconds=LIMIT):
    """Waits until `what` returns something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


class Set:
    """A replica set."""

    def __init__(self, folder, members, *options):
        self.folder = folder
        self.options = options
        self.ports = [free_port() for _ in range(members)]
        self.processes = {}
        for port in self.ports:
            (folder / str(port)).mkdir()
            self.start(port)
        first = self.direct(self.ports[0])
        hosts = [
            {"_id": i, "host": f"127.0.0.1:{port}", "tags": {"member": str(i)}}
            for i, port in enumerate(self.ports)
        ]
        config = {"_id": "rs0", "members": hosts, "settings": {"electionTimeoutMillis": 2000}}
        first.admin.command("replSetInitiate", config)
        eventually(lambda: first.admin.command("hello").get("isWritablePrimary"))
        first.close()

    def start(self, port):
        command = [os.environ["MONGOD"], "--dbpath", self.folder / str(port), "--port", str(port)]
        command += ["--bind_ip", "127.0.0.1", "--replSet", "rs0", "--wiredTigerCacheSizeGB", "0.25"]
        with open(self.folder / f"{port}.log", "a") as log:
            self.processes[port] = subprocess.Popen([*command, *self.options], stdout=log)

    @staticmethod
    def direct(port, **options):
        return pymongo.MongoClient("127.0.0.1", port, directConnection=True, **options)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.ports[0]},127.0.0.1:{self.ports[1 % len(self.ports)]}/?replicaSet=rs0"

    def primary(self):
        """The port of the primary, as a majority sees it."""

        def found():
            for port in self.ports:
                try:
                    with self.direct(port, serverSelectionTimeoutMS=1000) as member:
                        hello = member.admin.command("hello")
                        if hello.get("isWritablePrimary"):
                            return port
                except AutoReconnect:
                    pass
            return None

        return eventually(found)

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


class Router:
    """A MotifDB server in front of a replica set."""

    def __init__(self, uri, folder, port=None):
        self.port = port or free_port()
        self.log = open(folder / f"motif-{self.port}.log", "ab")
        command = [os.environ["MOTIF"], "serve", "--upstream", uri]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        # It says where it is as soon as it serves.
        self.greeting = b""
        while b"Access" not in self.greeting:
            line = self.process.stdout.readline()
            assert line, "the server did not start"
            self.greeting += line

    def client(self, **options):
        return pymongo.MongoClient("127.0.0.1", self.port, **options)

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return code


@pytest.fixture(scope="module")
def replica_set(tmp_path_factory):
    started = Set(tmp_path_factory.mktemp("set"), MEMBERS, "--setParameter", "enableTestCommands=1")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def router(replica_set, tmp_path_factory):
    started = Router(replica_set.uri, tmp_path_factory.mktemp("router"))
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def client(router):
    with router.client() as connected:
        yield connected


@pytest.fixture
def coll(client):
    found = client.upstream.c.with_options(write_concern=WriteConcern("majority"))
    found.drop()
    yield found


def reader(coll, preference):
    return coll.with_options(read_preference=preference)


def everywhere(coll):
    """The collection, whose writes wait for all members."""
    return coll.with_options(write_concern=WriteConcern(MEMBERS))


def port_of(coll):
    """The member that runs a read."""
    plan = coll.database.command(
        "explain", {"find": coll.name}, read_preference=coll.read_preference
    )
    return plan["serverInfo"]["port"]


def test_drivers_see_a_router(client, replica_set):
    hello = client.admin.command("hello")
    assert hello["msg"] == "isdbgrid"
    assert "setName" not in hello and "hosts" not in hello
    # That of MongoDB 6.0: what members do not speak is not promised.
    assert hello["maxWireVersion"] == 17
    assert client.topology_description.topology_type_name == "Sharded"
    # Members check the cluster time that drivers hand them.
    with replica_set.direct(replica_set.primary()) as direct:
        newest = direct.admin.command("hello")["$clusterTime"]["clusterTime"]
    assert hello["$clusterTime"]["clusterTime"] <= newest


def test_reads_go_where_the_read_preference_says(client, coll, replica_set):
    everywhere(coll).insert_one({"_id": 1})
    primary = replica_set.primary()
    assert port_of(coll) == primary
    secondaries = set(replica_set.ports) - {primary}
    assert port_of(reader(coll, ReadPreference.SECONDARY)) in secondaries
    for i, port in enumerate(replica_set.ports):
        tagged = pymongo.read_preferences.Nearest([{"member": str(i)}])
        assert port_of(reader(coll, tagged)) == port


def test_cursors_stay_with_their_member(coll):
    everywhere(coll).insert_many([{"_id": i} for i in range(1000)])
    secondary = reader(coll, ReadPreference.SECONDARY)
    cursors = [c.find({}, batch_size=7).sort("_id", 1) for c in [coll, secondary] * 5]
    rows = [[] for _ in cursors]
    for _ in range(1000):
        for cursor, row in zip(cursors, rows):
            row.append(next(cursor)["_id"])
    assert all(row == list(range(1000)) for row in rows)


def test_cursors_of_several_members_are_closed_by_one_command(client, coll):
    everywhere(coll).insert_many([{"_id": i} for i in range(100)])
    db = client.upstream
    preferences = [ReadPreference.PRIMARY, ReadPreference.SECONDARY]
    ids = [
        db.command("find", "c", batchSize=2, read_preference=preference)["cursor"]["id"]
        for preference in preferences
    ]
    killed = db.command("killCursors", "c", cursors=[*ids, 12345])
    assert sorted(killed["cursorsKilled"]) == sorted(ids)
    assert killed["cursorsNotFound"] == [12345]
    for cursor in ids:
        with pytest.raises(OperationFailure) as raised:
            db.command("getMore", cursor, collection="c")
        assert raised.value.code == 43


def test_transactions(client, coll):
    coll.insert_one({"_id": 0, "n": 0})
    with client.start_session() as session:
        with session.start_transaction():
            coll.insert_one({"_id": 1}, session=session)
            coll.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
            assert coll.count_documents({}) == 1
        assert coll.count_documents({}) == 2
        session.start_transaction()
        coll.insert_one({"_id": 2}, session=session)
        session.abort_transaction()
    assert coll.count_documents({}) == 2

    def add(session):
        coll.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)

    def work():
        with client.start_session() as session:
            for _ in range(10):
                session.with_transaction(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert coll.find_one({"_id": 0})["n"] == 41


def test_writes_without_a_reply_are_not_overtaken(coll):
    silent = coll.with_options(write_concern=WriteConcern(w=0))
    for i in range(200):
        silent.insert_one({"_id": i})
    # On one connection, commands run in their order.
    assert coll.count_documents({}) == 200


def test_change_streams_resume(coll):
    with coll.watch() as stream:
        coll.insert_many([{"_id": i} for i in range(3)])
        first = next(stream)
        assert first["documentKey"] == {"_id": 0}
        token = stream.resume_token
    with coll.watch(resume_after=token) as stream:
        assert [next(stream)["documentKey"]["_id"] for _ in range(2)] == [1, 2]


def test_errors_are_those_of_the_member(client, coll):
    coll.insert_one({"_id": 1})
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        coll.insert_one({"_id": 1})
    with pytest.raises(ExecutionTimeout):
        coll.find_one({"$where": "sleep(5000) || true"}, max_time_ms=50)
    for command in ["createPatterns", "listPatterns"]:
        with pytest.raises(OperationFailure) as raised:
            client.upstream.command(command, "c")
        assert raised.value.code == 115
    with pytest.raises(OperationFailure) as raised:
        client.admin.command("shutdown")
    assert raised.value.code == 115


def test_large_and_compressed_messages(router, coll):
    with router.client(compressors="zlib") as client:
        packed = client.upstream.c
        text = os.urandom(4_000_000).hex()
        packed.insert_many([{"_id": i, "text": text} for i in range(3)])
        assert all(doc["text"] == text for doc in packed.find())
        assert len(encode(packed.find_one())) > 8_000_000


def test_many_clients_share_connections(router, replica_set, coll):
    coll.insert_one({"_id": 1})
    clients = [router.client(maxPoolSize=1) for _ in range(60)]
    for each in clients:
        assert each.upstream.c.find_one() == {"_id": 1}
    with replica_set.direct(replica_set.primary()) as direct:
        ops = direct.admin.aggregate([{"$currentOp": {"idleConnections": True, "allUsers": True}}])
        ours = [op for op in ops if op.get("appName") == "MotifDB"]
    # One that watches and those that were in use at the same time.
    assert 2 <= len(ours) < 30
    [each.close() for each in clients]


def test_the_operation_of_a_client_that_has_gone_ends(router, replica_set, coll):
    coll.insert_one({"_id": 1})
    mark = "gone" + os.urandom(4).hex()
    with replica_set.direct(replica_set.primary()) as direct:

        def running():
            ops = direct.admin.aggregate([{"$currentOp": {}}])
            return [op for op in ops if op.get("command", {}).get("comment") == mark]

        with socket.create_connection(("127.0.0.1", router.port)) as sock:
            body = {"find": "c", "filter": {"$where": "sleep(600000) || true"}, "comment": mark}
            section = b"\0\0\0\0\0" + encode({**body, "$db": "upstream"})
            header = [16 + len(section), 1, 0, 2013]
            sock.sendall(b"".join(n.to_bytes(4, "little") for n in header) + section)
            eventually(running)
        eventually(lambda: not running())


def test_acknowledged_writes_survive_a_change_of_the_primary(coll, replica_set):
    written = []
    stop = threading.Event()

    def write():
        while not stop.is_set():
            coll.insert_one({"_id": len(written)})
            written.append(len(written))

    writer = threading.Thread(target=write)
    writer.start()
    eventually(lambda: len(written) > 20)
    before = replica_set.primary()
    with replica_set.direct(before) as direct:
        direct.admin.command("replSetStepDown", 30, secondaryCatchUpPeriodSecs=20, force=True)
    eventually(lambda: replica_set.primary() != before)
    count = len(written)
    eventually(lambda: len(written) > count + 20)
    stop.set()
    writer.join()
    found = {doc["_id"] for doc in coll.find()}
    assert found >= set(written)
    # A retried write is not written twice, and nothing was refused.
    assert len(found) == len(written)


def test_a_member_is_killed_and_comes_back(coll, replica_set):
    coll.insert_many([{"_id": i} for i in range(10)])
    port = replica_set.primary()
    replica_set.processes[port].kill()
    replica_set.processes[port].wait()
    # The driver tries again what may be tried again; the server waits for a new primary.
    coll.insert_one({"_id": 10})
    assert coll.count_documents({}) == 11
    replica_set.start(port)
    eventually(lambda: port_of(reader(coll, ReadPreference.NEAREST)) == port)


def test_several_servers_in_one_uri(replica_set, router, tmp_path):
    second = Router(replica_set.uri, tmp_path)
    uri = f"mongodb://127.0.0.1:{router.port},127.0.0.1:{second.port}/"
    with pymongo.MongoClient(uri, w="majority") as client:
        found = client.upstream.several
        found.drop()
        for i in range(50):
            found.insert_one({"_id": i})
        assert len(client.nodes) == 2
        second.stop(signal.SIGKILL)
        for i in range(50, 100):
            found.insert_one({"_id": i})
        assert found.count_documents({}) == 100


def test_a_cursor_outlives_the_server_that_opened_it(replica_set, tmp_path):
    port = free_port()
    first = Router(replica_set.uri, tmp_path, port)
    with first.client() as client, client.start_session() as session:
        db = client.upstream
        db.outlives.drop()
        db.outlives.insert_many([{"_id": i} for i in range(100)])
        found = db.command("find", "outlives", batchSize=10, session=session)
        first.stop(signal.SIGKILL)
        second = Router(replica_set.uri, tmp_path, port)

        def go_on():
            cursor = found["cursor"]["id"]
            try:
                return db.command("getMore", cursor, collection="outlives", session=session)
            except AutoReconnect:
                return None

        assert len(eventually(go_on)["cursor"]["nextBatch"]) == 90
    second.stop()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A replica set that asks for logins."""
    folder = tmp_path_factory.mktemp("guarded")
    key = folder / "key"
    key.write_text("a" * 64)
    key.chmod(0o600)
    started = Set(folder, 1, "--auth", "--keyFile", str(key))
    with started.direct(started.ports[0]) as direct:
        direct.admin.command("createUser", "root", pwd="r", roles=["root"])
    with started.direct(started.ports[0], username="root", password="r") as direct:
        direct.shop.command("createUser", "ada", pwd="a", roles=[{"role": "read", "db": "shop"}])
        direct.shop.orders.insert_one({"_id": 1})
    yield started
    started.stop()


def test_clients_have_the_rights_of_their_own_users(guarded, tmp_path):
    router = Router(guarded.uri, tmp_path)
    with router.client() as stranger, pytest.raises(OperationFailure) as raised:
        stranger.shop.orders.find_one()
    assert raised.value.code == 13
    with router.client(username="ada", password="a", authSource="shop") as ada:
        assert ada.shop.orders.find_one() == {"_id": 1}
        preferred = reader(ada.shop.orders, ReadPreference.SECONDARY_PREFERRED)
        assert preferred.find_one() == {"_id": 1}
        with pytest.raises(OperationFailure) as raised:
            ada.shop.orders.insert_one({"_id": 2})
        assert raised.value.code == 13
        with pytest.raises(OperationFailure) as raised:
            reader(ada.shop.orders, ReadPreference.SECONDARY).find_one()
        assert raised.value.code == 133
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"]:
        with router.client(username="root", password="r", authMechanism=mechanism) as root:
            root.shop.orders.update_one({"_id": 1}, {"$set": {mechanism: True}})
            with root.start_session() as session, session.start_transaction():
                root.shop.orders.insert_one({"_id": mechanism}, session=session)
    with router.client(username="ada", password="wrong", authSource="shop") as wrong:
        with pytest.raises(OperationFailure) as raised:
            wrong.shop.orders.find_one()
        assert raised.value.code == 18
    # A login ends with its connection: the next client has no rights.
    with router.client() as stranger, pytest.raises(OperationFailure) as raised:
        stranger.shop.orders.find_one()
    assert raised.value.code == 13
    router.stop()


def test_a_cluster_that_is_not_there_is_named():
    uri = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=300"
    command = [os.environ["MOTIF"], "serve", "--listen", "127.0.0.1:0", "--upstream", uri]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "cannot connect to the cluster" in ended.stderr
    assert "Connection refused" in ended.stderr


def test_options_without_effect_are_refused(tmp_path):
    for options in (["--data", tmp_path / "x"], ["--auth"], ["--topology", "router"]):
        command = [os.environ["MOTIF"], "serve", "--upstream", "mongodb://127.0.0.1", *options]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 1 and "no effect" in ended.stderr
        assert not (pathlib.Path(tmp_path) / "x").exists()
