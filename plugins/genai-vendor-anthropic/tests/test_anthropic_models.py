"""The declared models: that their data is sane, and costs nothing to register."""

from __future__ import annotations

import pytest
from genai_vendor_anthropic import CHAT
from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host.api import Model, SchemaValidator
from genai_host_testing.internal.vendors import modules_after

NAMED = {model.name: model for model in CHAT}
each_model = pytest.mark.parametrize("model", CHAT, ids=lambda model: str(model.name))


def test_the_families_are_declared() -> None:
    assert {name.split("-")[1] for name in NAMED} == {"fable", "opus", "sonnet", "haiku"}


@each_model
def test_its_data_is_sane(model: Model) -> None:
    assert model.window is not None
    assert model.max_output is not None
    usual = {**AnthropicMessages.variant, **model.variant.get("anthropic-messages", {})}
    assert usual["max_tokens"] < model.max_output < model.window
    SchemaValidator(model.parameters["max_tokens"]).check(model.max_output)
    assert model.capabilities == {"tools", "schema", "images", "files", "reasoning"}


@each_model
def test_there_is_one_way_to_let_it_think(model: Model) -> None:
    variant = {**AnthropicMessages.variant, **model.variant.get("anthropic-messages", {})}
    if variant["thinking"] == "budget":
        assert model.parameters.get("thinking_budget") is not False
    else:
        assert "high" in model.parameters["reasoning_effort"]["enum"]


@pytest.mark.parametrize(("name", "efforts"), [
    ("claude-fable-5-2", ["low", "medium", "high", "xhigh", "max"]),
    ("claude-sonnet-5-5", ["none", "low", "medium", "high", "xhigh", "max"]),
    ("claude-opus-4-6", ["none", "low", "medium", "high", "max"]),
    ("claude-opus-4-5", ["low", "medium", "high"]),
])  # fmt: skip
def test_how_much_it_can_think(name: str, efforts: list[str]) -> None:
    assert NAMED[name].parameters["reasoning_effort"]["enum"] == efforts


def test_what_guides_the_choice_of_tokens_is_taken_by_the_older_ones_alone() -> None:
    assert {model.name for model in CHAT if model.parameters.get("top_k") is not False} == {
        "claude-opus-4-6", "claude-sonnet-4-6",
        "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5",
    }  # fmt: skip


@pytest.mark.smoke
@pytest.mark.process
def test_declaring_them_imports_nothing_heavy() -> None:
    heavy = {"requests", "urllib3", "jsonschema", "msgspec", "click", "anthropic", "rich", "ssl"}
    program = "import genai_vendor_anthropic; assert list(genai_vendor_anthropic.genai_models())"
    assert heavy.isdisjoint(modules_after(program))
