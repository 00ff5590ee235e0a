"""Stores for tests: each test with a store runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host.api.codec import usual_codec
from genai_host.conversations.record import Opened
from genai_host.store import Store
from genai_host.store.store import StoredRecord
from genai_host_testing.postgres import postgres

__all__ = ["CODEC", "MakeStore", "begin", "make_store", "place", "postgres_server", "store"]

MakeStore = Callable[..., Store]
CODEC = usual_codec()
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The location of this test's store."""
    if request.param == "sqlite":
        yield str(tmp_path / "kept" / "conversations.db")
        return
    import psycopg

    address: str = request.getfixturevalue("postgres_server")
    name = f"test_{next(_numbers)}"
    with psycopg.connect(address.format(database="postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield address.format(database=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # it has a thousand files


@pytest.fixture
def make_store(place: str) -> Iterator[MakeStore]:
    """Open the store of this test, as another process would."""
    made: list[Store] = []

    def make(**given: Any) -> Store:
        made.append(Store(place, **given))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()


def begin(store: Store, **given: Any) -> StoredRecord:
    """Create a new conversation."""
    return store.create(Opened(**{"feature": "chat", "version": "1", "models": {}, **given}), CODEC)
