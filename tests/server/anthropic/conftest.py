"""A server with the API, in front of a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anthropic_api import Api, anthropic_api

from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with anthropic_api(make_host, FakeModel()) as api:
        yield api
