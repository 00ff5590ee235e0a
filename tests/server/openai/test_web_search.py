"""The web search of chat completions, which is a field, for services of all formats."""

from __future__ import annotations

from typing import Any

import pytest
from openai_form import READING, gate_api

from genai_host.api import Tool
from genai_host.config import ServerConfig
from genai_host.serving.router import DROPPED
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

OSLO = {"city": "Oslo", "country": "NO"}
OPTIONS = {
    "search_context_size": "low", "user_location": {"type": "approximate", "approximate": OSLO},
    "new": 1,
}  # fmt: skip
SEARCH = {
    "type": "web_search", "search_context_size": "low",
    "user_location": {"type": "approximate", **OSLO},
}  # fmt: skip
CLOCK = {"type": "function", "function": {"name": "web_search", "description": "the client's"}}
SAID = {"message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
REPLY = json_reply({"choices": [SAID], "status": "completed", "output": [ITEM]})


@pytest.mark.parametrize(("dialect", "field", "tools", "dropped"), [
    ("openai-chat", OPTIONS, ["web_search"], None),
    ("openai-responses", None, ["web_search", SEARCH], "web_search_options.new"),
])  # fmt: skip
def test_a_service_of_openai_searches(
    make_host: MakeHost, service: FakeService, dialect: str, field: Any, tools: Any, dropped: Any
) -> None:
    service.replies = [REPLY]
    with gate_api(make_host, service, {"server": READING}, settings={"serves": [dialect]}) as api:
        reply = api.chat(model="gate/m", tools=[CLOCK], web_search_options=OPTIONS)
    assert (reply.status_code, reply.headers.get(DROPPED)) == (200, dropped), reply.text
    sent = service.requests[0].json()
    assert sent.get("web_search_options") == field
    names = [each.get("function", each).get("name", each) for each in sent["tools"]]
    assert names == tools


@pytest.mark.parametrize(("played", "tools", "dropped"), [
    ({}, (), "web_search_options"),
    ({"web_search": "find"}, ("web_search",), "search_context_size user_location new"),
])  # fmt: skip
def test_for_other_services_a_tool_of_the_host_searches(
    make_host: MakeHost, service: FakeService, played: Any, tools: Any, dropped: str
) -> None:
    find = InlinePlugin(tools=[Tool("find", "searches", lambda arguments, context: "cold")])
    config = {"server": ServerConfig(service_tools=played), "models": {"chat": "fake"}}
    with gate_api(make_host, service, config, find=find) as api:
        reply = api.chat(web_search_options=OPTIONS)
        assert reply.status_code == 200, reply.text
        names = reply.headers[DROPPED].replace("web_search_options.", "").split(", ")
        assert names == dropped.split()
        assert [each.tools for each in api.fake.prompts] == [tools]


def test_it_must_be_an_object(make_host: MakeHost, service: FakeService) -> None:
    with gate_api(make_host, service) as api:
        assert api.refused(web_search_options=1)["param"] == "web_search_options"
