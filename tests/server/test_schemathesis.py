"""Whatever fits the description of the native API, and much that does not, is no failure of
the server: requests that schemathesis makes of it, to the real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import requests
from genai_server.native.openapi import description

from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import CONFIG
from genai_host_testing.internal.servers import served

schemathesis = pytest.importorskip("schemathesis", reason="of the environment `slow`")

pytestmark = pytest.mark.slow

_EXAMPLES = 25
"""Of each operation; there are some thirty."""

schema = schemathesis.openapi.from_dict(json.loads(json.dumps(description())))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def url(make_host: MakeHost, place: Path) -> Iterator[str]:
    with Store(place / "store.db") as store:
        host = make_host(fake=FakeModel(), config=CONFIG, store=store)
        with served(host) as server:
            yield server.url


def create_object(url: str, path: str) -> str:
    """The id of something that was made now: few find one by chance."""
    body = {"message": "hi"} if path == "jobs" else {}
    reply = requests.post(f"{url}/api/v1/{path}", json=body, timeout=60)
    assert reply.status_code in (201, 202)
    return str(reply.json()["id"])


@schema.parametrize()  # type: ignore[untyped-decorator,unused-ignore]
@hypothesis.settings(
    max_examples=_EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_no_request_is_a_failure_of_the_server(case: Any, url: str) -> None:
    if "{id}" in case.path and len(case.path_parameters["id"]) % 2:
        case.path_parameters["id"] = create_object(url, case.path.split("/")[3])
    case.call_and_validate(
        base_url=url,
        checks=[
            schemathesis.checks.not_a_server_error,
            schemathesis.checks.response_schema_conformance,
            schemathesis.checks.content_type_conformance,
        ],
        timeout=60,
    )
