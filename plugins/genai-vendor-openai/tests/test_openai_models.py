"""The declared models: that their data is sane, and costs nothing to register."""

from __future__ import annotations

import genai_vendor_openai
import pytest
from genai_vendor_openai import CHAT, EMBED, MODERATE, TRANSCRIBE

from genai_host.api import Model, SchemaValidator
from genai_host.errors import ValidationError
from genai_host_testing.internal.vendors import modules_after

MODELS = list(genai_vendor_openai.genai_models())
THINKING = [model for model in CHAT if "reasoning" in model.capabilities]

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))


def test_all_families_are_declared() -> None:
    assert [*CHAT, *EMBED, *MODERATE, *TRANSCRIBE] == MODELS
    names = {model.name for model in MODELS}
    assert names >= {"gpt-6.1-sol", "gpt-5", "gpt-4.1", "gpt-4o", "o3", "o4-mini"}
    assert names >= {"text-embedding-3-small", "text-embedding-3-large"}


@each_model
def test_the_id_at_the_service_is_a_name_of_it(model: Model) -> None:
    assert {*model.at.values()} <= {model.name, *model.aliases}


@each_model
def test_its_sizes_are_sane(model: Model) -> None:
    if model.operation not in ("moderate", "transcribe"):  # their windows are not documented
        assert model.window is not None
        assert model.window >= 8192
        assert model.max_output is None or 0 < model.max_output < model.window


@pytest.mark.parametrize("model", THINKING, ids=lambda model: str(model.name))
def test_models_that_think_are_written_as_they_want_it(model: Model) -> None:
    assert model.dialects[0] == "openai-responses"
    chat = model.variant["openai-chat"]
    assert chat == {"max_tokens": "max_completion_tokens", "system_role": "developer"}
    assert model.variant["openai-responses"]["encrypted_reasoning"] is True
    assert model.parameters["stop"] is False
    efforts = SchemaValidator(model.parameters["reasoning_effort"])
    efforts.check("high")
    for none in ("", "most"):
        with pytest.raises(ValidationError):
            efforts.check(none)


@pytest.mark.parametrize(("name", "efforts"), [
    ("gpt-6.1-sol", ["low", "medium", "high", "xhigh", "max"]),
    ("gpt-6-luna", ["none", "low", "medium", "high", "xhigh", "max"]),
    ("gpt-5.1", ["none", "low", "medium", "high"]),
    ("gpt-5", ["minimal", "low", "medium", "high"]),
    ("o3", ["low", "medium", "high"]),
])  # fmt: skip
def test_how_much_it_can_think(name: str, efforts: list[str]) -> None:
    (model,) = (model for model in CHAT if model.name == name)
    assert model.parameters["reasoning_effort"]["enum"] == efforts


def test_what_guides_the_choice_of_tokens_is_taken_where_thinking_is_off() -> None:
    names = {model.name for model in THINKING if "temperature" not in model.parameters}
    assert names == {"gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano", "gpt-5.2", "gpt-5.1"}


@pytest.mark.smoke
@pytest.mark.process
def test_declaring_them_imports_nothing_heavy() -> None:
    heavy = {"requests", "urllib3", "jsonschema", "msgspec", "click", "openai", "rich", "ssl"}
    program = "import genai_vendor_openai; assert list(genai_vendor_openai.genai_models())"
    assert heavy.isdisjoint(modules_after(program))
