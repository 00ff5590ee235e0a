"""Tools that services run or describe themselves."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from genai_host.api import Image, Message, Model, Prompt, ToolSchema, VendorPart, VendorTool
from genai_host.api.dropped import ModelParameter
from genai_host.calls.route import Route
from genai_host.catalog.join import Candidate
from genai_host.dialects.plain import Plain, PlainCount
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


class Searching(Plain):
    """A dialect whose services have an own search."""

    service_tools = {"web_search": {"type": "own_search"}}


class CountOfSearching(PlainCount):
    of = Searching
    models_of = "plain"


OWN = VendorTool("search", "", extra={"plain": {"type": "own_search"}})
TRANSLATED = VendorTool("search", "", kind="web_search", translated=True)


@pytest.mark.parametrize("dialect", [Searching(), CountOfSearching()], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("field", "received"),
    [
        (("plain", None), True),
        (("other", None), False),
        (("other", ModelParameter("seed")), True),
        (("plain", ModelParameter("top_k")), False),
        (("other", OWN), True),
        (("other", SEARCH), False),
        (("other", TRANSLATED), True),
        (("other", evolve(TRANSLATED, translated=False)), False),
        (("other", evolve(TRANSLATED, kind="code_execution")), False),
        (("plain", VendorPart("plain", {})), True),
    ],
    ids=str,
)
def test_a_service_receives_what_its_dialect_has(
    dialect: Any, field: tuple[str, Any], received: bool
) -> None:
    if field == ("plain", None) and dialect.name != "plain":
        field = (dialect.name, None)
    route = route_of(dialect, frozenset({"images"}), {"seed": {}})
    assert route.receives(*field) is received
    if field[1] in (OWN, TRANSLATED):
        assert route.accepted([field[1]], "search") == ([OWN], "search")


@pytest.mark.parametrize(
    ("capabilities", "roles"), [({"images"}, {"tool", "assistant"}), (set(), set())]
)
def test_models_without_images_have_none_in_any_message(
    capabilities: set[str], roles: set[str]
) -> None:
    route = route_of(Searching(), frozenset(capabilities), {})
    assert route.roles_with_images == roles
    assert route.receives("other", Image) is bool(roles)


def route_of(dialect: Any, capabilities: frozenset[str], parameters: dict[str, Any]) -> Route:
    nothing: Any = None  # no call is made
    model = Model("m", ["plain"])
    candidate = Candidate(model, "p", "plain", capabilities=capabilities, parameters=parameters)
    return Route(candidate, dialect, nothing, nothing, nothing)
