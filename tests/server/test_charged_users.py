"""Requests to the routes of plugins are charged to their user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import genai_feature_agent
import genai_feature_assistants
import genai_feature_research
import genai_mcp
import pytest
import requests

from genai_host import Config
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.store import Store
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.assistants_api import Api
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

VERSION = "io.modelcontextprotocol/protocolVersion", "2026-07-28"
CHAT = {
    "_meta": dict([VERSION, ("io.modelcontextprotocol/clientCapabilities", {})]),
    "name": "ask_chat",
    "arguments": {"message": "hi"},
}
HEADERS = {
    "accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION[1],
    "mcp-method": "tools/call", "mcp-name": "ask_chat",
}  # fmt: skip
UI_MESSAGE = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


@pytest.mark.parametrize(("path", "body"), [
    ("/api/agent", {"message": "hi", "context": {}, "history": []}),
    ("/api/agent-streaming", {"message": "hi", "context": {}, "history": []}),
    ("/api/agent-chat", {"id": "1", "messages": [UI_MESSAGE]}),
    ("/api/assistant", {"input_text": "hi", "settings": {"answer_with_search": False}}),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CHAT}),
    ("/v1/vector_stores/{store}/search", {"query": "the sea"}),
])  # fmt: skip
def test_a_call_is_charged_to_the_user_of_its_request(
    make_host: MakeHost, tmp_path: Path, path: str, body: Any
) -> None:
    budgets = BudgetsConfig(user=BudgetConfig(day_tokens=1_000_000))
    config = Config(models={"chat": "fake", "embed": "fake-embed"}, budgets=budgets)
    with Store(tmp_path / "store.db") as store:
        host = make_host(
            config=config, store=store, fake=FakeModel(), agent=genai_feature_agent,
            research=genai_feature_research, assistants=genai_feature_assistants, mcp=genai_mcp,
        )  # fmt: skip
        with RouteServer(host, user="ann") as server:
            if "{store}" in path:
                path = path.format(store=Api(server.url, FakeModel()).store_of(sea="the sea"))
            reply = requests.post(f"{server.url}{path}", json=body, headers=HEADERS, timeout=60)
            assert reply.status_code == 200, reply.text
        spent = {each.user: (each.spent, each.unknown) for each in host.budgets.states(["ann"])}
        assert not any(spent[""])
        assert any(spent["ann"])
