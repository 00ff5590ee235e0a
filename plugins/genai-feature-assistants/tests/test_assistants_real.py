"""Assistants with the embedded model and its embedder: no network, no key."""

from __future__ import annotations

from pathlib import Path

import genai_feature_assistants
import pytest

from genai_host.store import Store
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.assistants_api import SEARCH, Api
from genai_host_testing.internal.fixtures import MakeHost

TEXTS = {
    "water": "Water freezes at zero degrees Celsius, and boils at one hundred.",
    "music": "The orchestra played a symphony by Mahler in the old concert hall.",
    "law": "The parliament passed the budget after a debate of two days.",
}

pytestmark = [pytest.mark.slow, pytest.mark.weights, pytest.mark.timeout(600)]


def test_files_are_found_by_meaning(make_local_host: MakeHost, tmp_path: Path) -> None:
    """Of the model, which is small, only that it answers is expected; of the search, that it
    finds the right document by a question that shares no rare word with it."""
    with Store(tmp_path / "store.db") as store:
        host = make_local_host(
            plugins={"assistants": genai_feature_assistants}, window=4096, store=store
        )
        with RouteServer(host) as server:
            api = Api(server.url, FakeModel())
            vector_store = api.store_of(**TEXTS)
            query = {"query": "At which temperature does water turn into ice?"}
            hits = api.post(f"/vector_stores/{vector_store}/search", query)["data"]
            assert hits[0]["filename"] == "water.txt"
            assert 0.0 < hits[0]["score"] <= 1.0
            resources = {"file_search": {"vector_store_ids": [vector_store]}}
            search = {**SEARCH, "file_search": {"max_num_results": 2}}
            assistant = api.assistant(
                search, model="smollm2", tool_resources=resources, instructions="Be brief."
            )
            run = api.run(
                api.thread("When does water freeze?"), assistant, max_completion_tokens=256,
                tool_choice={"type": "file_search"},
            )  # fmt: skip
            assert run["status"] in ("completed", "incomplete"), run
            assert run["usage"]["completion_tokens"] > 0
            api.close()
