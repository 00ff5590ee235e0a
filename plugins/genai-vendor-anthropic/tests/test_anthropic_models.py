"""The declared models: that their data is sane, and costs nothing to register."""

from __future__ import annotations

import json
import subprocess
import sys

import genai_vendor_anthropic
import pytest
from genai_vendor_anthropic import CHAT
from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host.api import Model, SchemaValidator
from genai_host_testing.internal.fixtures import MakeHost

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
    most = SchemaValidator(model.parameters["max_tokens"])
    most.check(model.max_output)
    assert model.capabilities == {"tools", "schema", "images", "files", "reasoning"}


@each_model
def test_there_is_one_way_to_let_it_think(model: Model) -> None:
    variant = {**AnthropicMessages.variant, **model.variant.get("anthropic-messages", {})}
    if variant["thinking"] == "budget":
        assert model.parameters.get("thinking_budget") is not False
    else:
        assert "high" in model.parameters["reasoning_effort"]["enum"]


@pytest.mark.parametrize(
    ("name", "efforts"),
    [
        ("claude-fable-5-2", ["low", "medium", "high", "xhigh", "max"]),
        ("claude-sonnet-5-5", ["none", "low", "medium", "high", "xhigh", "max"]),
        ("claude-opus-4-6", ["none", "low", "medium", "high", "max"]),
        ("claude-opus-4-5", ["low", "medium", "high"]),
    ],
)
def test_how_much_it_can_think(name: str, efforts: list[str]) -> None:
    assert NAMED[name].parameters["reasoning_effort"]["enum"] == efforts


def test_what_guides_the_choice_of_tokens_is_taken_by_the_older_ones_alone() -> None:
    assert {model.name for model in CHAT if model.parameters.get("top_k") is not False} == {
        "claude-opus-4-6", "claude-sonnet-4-6",
        "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5",
    }  # fmt: skip


def test_a_host_knows_them(make_host: MakeHost) -> None:
    host = make_host(anthropic=genai_vendor_anthropic)
    assert host.plugins.broken == []
    for model in CHAT:
        for name in (model.name, *model.aliases):
            assert host.explain(name)[0].model == model
    default = host.instances["anthropic"].provider.default_models["chat"]
    assert host.explain(default)[0].model in CHAT


@pytest.mark.smoke
@pytest.mark.process
def test_declaring_them_imports_nothing_heavy() -> None:
    program = (
        "import json, sys; before = set(sys.modules)\n"
        "import genai_vendor_anthropic; models = list(genai_vendor_anthropic.genai_models())\n"
        "print(json.dumps([len(models), sorted(set(sys.modules) - before)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    count, modules = json.loads(done.stdout)
    assert count == len(CHAT)
    heavy = {"requests", "urllib3", "jsonschema", "msgspec", "click", "anthropic", "rich", "ssl"}
    assert heavy.isdisjoint(modules)
