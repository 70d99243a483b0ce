"""What the tests with pymongo share: a connection to MONGODB_URI, and a database for each test."""

import os
import uuid

import pymongo
import pytest


@pytest.fixture(scope="module")
def client():
    with pymongo.MongoClient(os.environ["MONGODB_URI"], serverSelectionTimeoutMS=60000) as connected:
        yield connected


@pytest.fixture
def db(client):
    name = "clients_py_" + uuid.uuid4().hex[:12]
    yield client[name]
    client.drop_database(name)
