"""How drivers reach a server: as a router, behind another address, by a Unix socket. Servers of its own."""

import contextlib
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
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


@contextlib.contextmanager
def serving(*more):
    """The port of a server with these options."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [MOTIF, "serve", "--listen", f"127.0.0.1:{port}", "--data", f"{folder}/data", *more]
        with open(f"{folder}/log", "w") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port
        finally:
            server.terminate()
            server.wait(60)


@contextlib.contextmanager
def forwarded(port, outside=0):
    """Another port from which bytes go to this one and back, as a port mapping does."""
    listener = socket.create_server(("127.0.0.1", outside))

    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def works(client):
    """Sessions, transactions and change streams."""
    client.shop.orders.insert_one({"_id": 0})
    with client.shop.orders.watch() as stream:
        with client.start_session() as session:
            def write(session):
                client.shop.orders.insert_one({"_id": 1}, session=session)
                client.shop.orders.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
            session.with_transaction(write)
        assert [next(stream)["operationType"] for _ in range(2)] == ["insert", "update"]
    with client.start_session(snapshot=True) as session:
        assert client.shop.orders.count_documents({}, session=session) == 2


def test_a_router_is_used_at_the_address_that_was_given():
    with serving("--topology", "router") as port, forwarded(port) as outside:
        with pymongo.MongoClient("127.0.0.1", outside) as client:
            works(client)
            assert client.nodes == {("127.0.0.1", outside)}
            assert client.topology_description.topology_type_name == "Sharded"


def test_an_advertised_address_is_followed():
    outside = free_port()
    with serving("--advertise", f"127.0.0.1:{outside}", "--repl-set-name", "shop") as port:
        with forwarded(port, outside):
            with pymongo.MongoClient("127.0.0.1", port) as client:
                works(client)
                assert client.nodes == {("127.0.0.1", outside)}
                assert client.admin.command("hello")["setName"] == "shop"
                with pytest.raises(OperationFailure) as failed:
                    config = {"_id": "shop", "members": [{"_id": 0, "host": "db:1"}]}
                    client.admin.command("replSetInitiate", config)
                assert failed.value.code == 23


def test_a_unix_socket_takes_drivers():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="motif") as folder:
        path = f"{folder.lower()}.sock"
        with serving("--unix-socket", path):
            assert os.stat(path).st_mode & 0o777 == 0o600
            with pymongo.MongoClient("mongodb://" + path.replace("/", "%2F")) as client:
                works(client)
                assert client.topology_description.topology_type_name == "ReplicaSetWithPrimary"
        assert not os.path.exists(path)


def test_monitors_are_told_to_wait():
    class Heartbeats(pymongo.monitoring.ServerHeartbeatListener):
        def __init__(self):
            self.awaited = threading.Event()

        def started(self, event):
            pass

        def succeeded(self, event):
            if event.awaited:
                self.awaited.set()

        def failed(self, event):
            pass

    heartbeats = Heartbeats()
    with serving() as port:
        with pymongo.MongoClient("127.0.0.1", port, event_listeners=[heartbeats], heartbeatFrequencyMS=500) as client:
            client.admin.command("ping")
            assert "topologyVersion" in client.admin.command("hello")
            assert heartbeats.awaited.wait(60)
