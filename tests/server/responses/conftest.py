"""Fixtures of the tests of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from responses_api import Api, responses_api

from genai_host.store import Store
from genai_host_testing.internal.fixtures import MakeHost


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with responses_api(make_host) as api:
        yield api


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "kept.db") as store:
        yield store
