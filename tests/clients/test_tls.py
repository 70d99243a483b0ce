"""TLS and certificates: servers of their own, clients of several kinds.

Certificates are made by tests/certificates/make. What is expected of logins by certificate was seen on a
real MongoDB 6.
"""

import os
import pathlib
import signal
import socket
import subprocess
import time

import pymongo
import pytest
from bson import SON
from pymongo.errors import ConnectionFailure, OperationFailure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOTIF = os.environ.get("MOTIF", str(ROOT / "target/debug/motif"))
ENVIRONMENT = ROOT / ".test-env"
MONGOSH = os.environ.get("MONGOSH", str(ENVIRONMENT / "node_modules/.bin/mongosh"))
NODE_PATH = os.environ.get("NODE_PATH", str(ENVIRONMENT / "node_modules"))
ADA = "CN=ada,OU=People,O=Motif Tests,C=DE"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run([ROOT / "tests/certificates/make", folder], check=True, timeout=120)
    return folder


class Server:
    """A server with TLS, stopped at the end of a `with`."""

    def __init__(self, folder, files, *flags, mode="requireTLS", certificate="server.pem"):
        self.files = files
        self.log = folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [MOTIF, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(folder / "data")]
        self.command += ["--tls-mode", mode, "--tls-certificate-key-file", str(files / certificate), *map(str, flags)]

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
        raise AssertionError("the server does not come up")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def uri(self, certificate=None, user="", **options):
        options = {"directConnection": "true", "tls": "true", "tlsCAFile": self.files / "ca.pem", **options}
        if certificate:
            options["tlsCertificateKeyFile"] = self.files / certificate
        options = "&".join(f"{name}={value}" for name, value in options.items() if value is not None)
        return f"mongodb://{user}127.0.0.1:{self.port}/?{options}"

    def connect(self, certificate=None, user="", **options):
        options.setdefault("serverSelectionTimeoutMS", 5000)
        return pymongo.MongoClient(self.uri(certificate, user, **options))

    def tool(self, *arguments, uri=None, text=None):
        command = [MOTIF, *arguments, "--uri", uri or self.uri(directConnection=None)]
        return subprocess.run(command, input=text, text=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, files):
    """A server that asks for certificates and logins, with the users root (by password) and ada."""
    folder = tmp_path_factory.mktemp("guarded")
    with Server(folder, files, "--auth", "--tls-ca-file", files / "ca.pem",
                "--tls-allow-connections-without-certificates") as server:
        made = server.tool("user", "add", "root", "--role", "root", text="secret")
        assert made.returncode == 0, made.stderr
        with server.connect(user="root:secret@") as root:
            root["$external"].command("createUser", ADA, roles=[{"role": "readWrite", "db": "shop"}])
        yield server


def refused(action):
    with pytest.raises(OperationFailure) as caught:
        action()
    return caught.value.code


def authenticate(client, **fields):
    return client["$external"].command(SON([("authenticate", 1), *fields.items()]))


def test_passwords_work_over_tls(guarded):
    for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        with guarded.connect(user="root:secret@", authMechanism=mechanism) as client:
            users = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
            assert users == [{"user": "root", "db": "admin"}]
    with guarded.connect(user="root:wrong@") as client:
        assert refused(lambda: client.admin.command("ping")) == 18


@pytest.mark.parametrize("user", ["", "CN%3Dada%2COU%3DPeople%2CO%3DMotif%20Tests%2CC%3DDE@"])
def test_a_certificate_logs_in(guarded, user):
    with guarded.connect("ada.pem", user, authMechanism="MONGODB-X509") as client:
        status = client.admin.command("connectionStatus")["authInfo"]
        assert status["authenticatedUsers"] == [{"user": ADA, "db": "$external"}]
        assert status["authenticatedUserRoles"] == [{"role": "readWrite", "db": "shop"}]
        client.shop.orders.insert_one({"by": "ada"})
        assert client.shop.orders.count_documents({"by": "ada"}) >= 1
        assert refused(lambda: client.other.orders.find_one()) == 13


def test_what_does_not_prove_the_user_is_refused(guarded):
    mechanism = "MONGODB-X509"
    nobody, ada = guarded.connect(), guarded.connect("ada.pem")
    assert refused(lambda: authenticate(nobody, mechanism=mechanism)) == 18
    assert refused(lambda: authenticate(nobody, mechanism=mechanism, user=ADA)) == 18
    assert refused(lambda: authenticate(ada, mechanism=mechanism, user="CN=other")) == 18
    assert refused(lambda: authenticate(ada, mechanism=mechanism, user=1)) == 14
    assert refused(lambda: authenticate(ada, user=ADA)) == 40414
    assert refused(lambda: authenticate(ada, mechanism="FOO")) == 334
    assert refused(lambda: authenticate(ada, mechanism=mechanism, db="$external")) == 40415
    wrong_db = SON([("authenticate", 1), ("mechanism", mechanism)])
    assert refused(lambda: ada.admin.command(wrong_db)) == 17
    sasl = SON([("saslStart", 1), ("mechanism", mechanism), ("payload", b"")])
    assert refused(lambda: ada["$external"].command(sasl)) == 334
    # It shows a good certificate, but nobody made a user of its name.
    assert refused(lambda: authenticate(guarded.connect("names.pem"), mechanism=mechanism)) == 11
    # It looks like a server of the same cluster.
    assert refused(lambda: authenticate(guarded.connect("member.pem"), mechanism=mechanism)) == 18
    assert authenticate(ada, mechanism=mechanism, user="")["user"] == ADA
    assert authenticate(ada, mechanism=mechanism)["dbname"] == "$external"


def test_names_have_the_form_that_mongodb_gives_them(guarded):
    name = (
        r"CN=\#ada=1,emailAddress=a@b.c,serialNumber=77,UID=u7+OU=a,"
        r"O=Gr\C3\B6\C3\9Fe\, \"Co\" \<x\>\;y#\ ,DC=motif,DC=org"
    )
    with guarded.connect(user="root:secret@") as root:
        root["$external"].command("createUser", name, roles=[])
    assert authenticate(guarded.connect("names.pem"), mechanism="MONGODB-X509")["user"] == name


def test_hello_logs_in_at_once(guarded):
    def speculate(**fields):
        client = guarded.connect("ada.pem")
        ask = SON([("authenticate", 1), ("mechanism", "MONGODB-X509"), *fields.items()])
        return client.admin.command(SON([("hello", 1), ("speculativeAuthenticate", ask)])).get("speculativeAuthenticate")

    done = {"dbname": "$external", "user": ADA}
    assert speculate(db="$external") == done
    assert speculate() == done
    assert speculate(user=ADA, db="$external") == done
    assert speculate(user="CN=other", db="$external") is None


def test_users_of_certificates_are_made_by_root_only_in_external(guarded):
    with guarded.connect(user="root:secret@") as root:
        external = root["$external"]
        assert refused(lambda: external.command("createUser", "CN=x", pwd="x", roles=[])) == 2
        assert refused(lambda: external.command("updateUser", ADA, pwd="x")) == 2
        member = "CN=node2,OU=Servers,O=Motif Tests"
        assert refused(lambda: external.command("createUser", member, roles=[])) == 2
        assert refused(lambda: root.admin.command("createUser", "x", pwd="x", roles=[], mechanisms=["MONGODB-X509"])) == 2
        external.command("createUser", "CN=y", roles=[], mechanisms=["MONGODB-X509"])
        users = external.command("usersInfo", "CN=y", showCredentials=True)["users"]
        assert users[0]["credentials"] == {"external": True} and users[0]["mechanisms"] == ["external"]
        security = root.admin.command("serverStatus")["security"]
        assert security["SSLServerSubjectName"] == "CN=localhost,OU=Servers,O=Motif Tests"
        counted = security["authentication"]["mechanisms"]["MONGODB-X509"]["authenticate"]
        assert counted["received"] >= counted["successful"] > 0


def test_the_command_line_speaks_tls(guarded):
    listed = guarded.tool("user", "list", uri=guarded.uri(user="root:secret@", directConnection=None))
    assert listed.returncode == 0 and ADA in listed.stdout, listed.stderr
    by_certificate = guarded.uri("ada.pem", authMechanism="MONGODB-X509", directConnection=None)
    made = guarded.tool("user", "add", "x", "--role", "root", uri=by_certificate, text="x")
    assert made.returncode != 0 and "not authorized" in made.stderr
    strange = guarded.tool("user", "list", uri=guarded.uri(tlsCAFile=guarded.files / "other-ca.pem", directConnection=None))
    assert strange.returncode != 0 and "certificate" in strange.stderr


def test_mongosh_logs_in_both_ways(guarded):
    script = "JSON.stringify(db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers)"
    for uri, user in (
        (guarded.uri(user="root:secret@", authSource="admin"), "root"),
        (guarded.uri("ada.pem", authMechanism="MONGODB-X509", authSource="%24external"), ADA),
    ):
        said = subprocess.run([MONGOSH, "--quiet", uri, "--eval", script], capture_output=True, text=True, timeout=120)
        assert f'"user":"{user}"' in said.stdout, said.stdout + said.stderr


def test_the_node_driver_logs_in_both_ways(guarded):
    script = """
        const { MongoClient } = require("mongodb");
        (async () => {
            for (const uri of process.argv.slice(1)) {
                const client = await MongoClient.connect(uri);
                const status = await client.db("admin").command({ connectionStatus: 1 });
                console.log(status.authInfo.authenticatedUsers[0].user);
                await client.close();
            }
        })().catch((error) => { console.error(error); process.exit(1); });
    """
    uris = [
        guarded.uri(user="root:secret@"),
        guarded.uri("ada.pem", authMechanism="MONGODB-X509", authSource="%24external"),
    ]
    environment = {**os.environ, "NODE_PATH": NODE_PATH}
    said = subprocess.run(["node", "-e", script, *uris], capture_output=True, text=True, timeout=60, env=environment)
    assert said.stdout.split("\n")[:2] == ["root", ADA], said.stdout + said.stderr


def test_restricted_users_come_from_where_they_may(guarded):
    with guarded.connect(user="root:secret@") as root:
        admin = root.admin
        here, elsewhere = [{"clientSource": ["127.0.0.1"]}], [{"clientSource": ["10.0.0.0/8"]}]
        admin.command("createRole", "near", privileges=[], roles=[], authenticationRestrictions=here)
        admin.command("createRole", "far", privileges=[], roles=[], authenticationRestrictions=elsewhere)
        admin.command("createRole", "outer", privileges=[], roles=["far"])

        def login(name, restrictions=(), roles=()):
            admin.command("createUser", name, pwd="x", roles=list(roles), authenticationRestrictions=list(restrictions))
            with guarded.connect(user=f"{name}:x@") as client:
                try:
                    return client.admin.command("ping")["ok"]
                except OperationFailure as error:
                    return error.code

        assert login("free") == 1
        assert login("a", here) == 1
        assert login("b", elsewhere) == 18
        assert login("c", here + elsewhere) == 1
        assert login("d", [{"clientSource": ["127.0.0.1"], "serverAddress": ["10.0.0.1"]}]) == 18
        assert login("e", [{"serverAddress": ["127.0.0.0/8"]}]) == 1
        assert login("f", [{"clientSource": []}]) == 18
        assert login("g", roles=["near"]) == 1
        assert login("h", roles=["near", "far"]) == 18
        assert login("i", roles=["outer"]) == 18
        assert login("j", [{"clientSource": ["::1"]}]) == 18
        for wrong, code in (([1], 14), ([{}], 162), ([{"clientSource": ["x"]}], 2), ([{"x": ["::1"]}], 40415)):
            make = lambda wrong=wrong: admin.command("createUser", "z", pwd="x", roles=[], authenticationRestrictions=wrong)
            assert refused(make) == code
        shown = admin.command("usersInfo", "h", showAuthenticationRestrictions=True)["users"][0]
        assert shown["authenticationRestrictions"] == []
        inherited = shown["inheritedAuthenticationRestrictions"]
        assert [{"clientSource": ["127.0.0.1/32"]}] in inherited and [{"clientSource": ["10.0.0.0/8"]}] in inherited
        role = admin.command("rolesInfo", "far", showAuthenticationRestrictions=True)["roles"][0]
        assert role["authenticationRestrictions"] == [elsewhere]
        # Who is inside already is out as soon as the restriction is made, and may come back after it.
        with guarded.connect(user="a:x@") as client:
            assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
            admin.command("updateUser", "a", authenticationRestrictions=elsewhere)
            assert not client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        admin.command("updateUser", "a", authenticationRestrictions=[])
        assert "authenticationRestrictions" not in root.admin["system.users"].find_one({"user": "a"})


def test_a_driver_that_looks_for_a_replica_set_stays_with_the_name(guarded):
    uri = guarded.uri(user="root:secret@", directConnection=None).replace("127.0.0.1", "localhost")
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=5000) as client:
        assert client.admin.command("ping")["ok"] == 1
        assert client.nodes == {("localhost", guarded.port)}


def test_plain_clients_are_turned_away(guarded):
    plain = pymongo.MongoClient("127.0.0.1", guarded.port, directConnection=True, serverSelectionTimeoutMS=1500)
    with pytest.raises(ConnectionFailure):
        plain.admin.command("ping")
    with pytest.raises(ConnectionFailure):
        guarded.connect("ada-strange.pem", serverSelectionTimeoutMS=1500).admin.command("ping")


def test_certificates_are_changed_without_a_stop(tmp_path, files):
    current = tmp_path / "server.pem"
    current.write_bytes((files / "server.pem").read_bytes())
    with Server(tmp_path, files, mode="preferTLS", certificate=current) as server:
        status = lambda: server.connect().admin.command("serverStatus")["security"]
        old = server.connect()
        expires = status()["SSLServerCertificateExpirationDate"]
        current.write_text("no certificate")
        server.process.send_signal(signal.SIGHUP)
        for _ in range(600):
            if "stay as they were" in server.log.read_text():
                break
            time.sleep(0.1)
        assert "it has no CERTIFICATE" in server.log.read_text()
        assert status()["SSLServerCertificateExpirationDate"] == expires
        assert refused(lambda: old.admin.command("rotateCertificates", 1)) == 140
        time.sleep(1)
        current.write_bytes((files / "server-2.pem").read_bytes())
        server.process.send_signal(signal.SIGHUP)
        for _ in range(600):
            if "were read again" in server.log.read_text():
                break
            time.sleep(0.1)
        assert old.admin.command("ping")["ok"] == 1
        assert server.connect().admin.command("rotateCertificates", 1)["ok"] == 1
        # Plain clients are served beside the others.
        plain = pymongo.MongoClient("127.0.0.1", server.port, directConnection=True, serverSelectionTimeoutMS=5000)
        assert plain.admin.command("ping")["ok"] == 1


def test_a_key_with_a_password(tmp_path, files):
    flags = ("--tlsCertificateKeyFilePassword", "secret")
    with Server(tmp_path, files, *flags, certificate="encrypted.pem") as server:
        options = server.connect().admin.command("getCmdLineOpts")
        assert "--tlsCertificateKeyFilePassword" in options["argv"] and "secret" not in str(options)
        assert "secret" not in server.log.read_text()


@pytest.mark.parametrize(
    "certificate, reason",
    [
        ("none.pem", "cannot read"),
        ("wrong-key.pem", "does not belong to its certificate"),
        ("encrypted.pem", "its private key is encrypted"),
        ("expired-server.pem", "is expired"),
        ("ca.pem", "it has no PRIVATE KEY"),
    ],
)
def test_a_server_with_wrong_files_does_not_start_and_says_why(tmp_path, files, certificate, reason):
    server = Server(tmp_path, files, certificate=certificate)
    said = subprocess.run(server.command, capture_output=True, text=True, timeout=120)
    assert said.returncode != 0 and reason in said.stderr and certificate in said.stderr
