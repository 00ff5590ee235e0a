"""Tools that services run or describe themselves."""

from __future__ import annotations

from typing import Any

import pytest

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
