"""Tools that services run or describe themselves."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from genai_host.api import Message, Prompt, ToolSchema, VendorTool
from genai_host_testing.internal.fixtures import MakeHost

SEARCH = VendorTool("search", "", extra={"other": {"type": "search"}})
WEATHER = ToolSchema("weather", "the weather in a city")


@pytest.mark.parametrize("choice", ["required", "search", None])
@pytest.mark.parametrize(
    ("tools", "sent"), [([WEATHER, SEARCH], ["weather"]), ([SEARCH], [])], ids=["both", "one"]
)
def test_services_of_other_dialects_do_not_receive_them(
    make_host: MakeHost, tools: list[ToolSchema], sent: list[str], choice: str | None
) -> None:
    host = make_host()
    provider: Any = host.instances["mock"].provider
    prompt = Prompt([Message("user", "hi")], tools=tools, tool_choice=choice)
    list(host.prompt(prompt, provider="mock"))
    body = provider.requests[-1]
    assert [each["name"] for each in body.get("tools", [])] == sent
    assert body.get("tool_choice") == (choice if sent and choice != "search" else None)


def test_those_with_parameters_are_functions_for_them(make_host: MakeHost) -> None:
    host = make_host()
    provider: Any = host.instances["mock"].provider
    tool = evolve(SEARCH, description="finds", parameters={"type": "object", "title": "t"})
    prompt = Prompt([Message("user", "hi")], tools=[tool], tool_choice="search")
    list(host.prompt(prompt, provider="mock"))
    [sent] = provider.requests[-1]["tools"]
    assert {name: sent[name] for name in ("name", "description", "parameters")} == {
        "name": "search", "description": "finds", "parameters": tool.parameters,
    }  # fmt: skip
    assert provider.requests[-1]["tool_choice"] == "search"
