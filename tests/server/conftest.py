"""Fixtures of the tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from format_services import send_to
from served_api import api

from genai_host.store import Store

__all__ = ["api", "send_to"]


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "kept.db") as store:
        yield store


@pytest.fixture
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session
