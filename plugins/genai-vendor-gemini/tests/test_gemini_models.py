"""The declared models: that their data is sane, and what they are asked with."""

from __future__ import annotations

import genai_vendor_gemini
import pytest
from genai_vendor_gemini import CHAT, CLAUDE

from genai_host.api import Model, SchemaValidator
from genai_host.errors import ValidationError

MODELS = list(genai_vendor_gemini.genai_models())
THINKING = {
    "gemini-4-neon": "low medium high xhigh", "gemini-4-hydrogen": "low medium high xhigh",
    "gemini-4-carbon": "low medium high", "gemini-3.8-flash": "low medium high",
    "gemini-3.5-flash-lite": "minimal low medium high", "gemini-3.1-pro-preview": "low medium high",
}  # fmt: skip

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))


@each_model
def test_it_is_to_be_had_at_both_services(model: Model) -> None:
    assert model.at == {"gemini": model.name, "vertex": model.name}


@pytest.mark.parametrize("name", THINKING)
def test_it_thinks_as_much_as_it_can(name: str) -> None:
    (model,) = (each for each in CHAT if each.name == name)
    checker = SchemaValidator(model.parameters["reasoning_effort"])
    for effort in ("minimal", "low", "medium", "high", "xhigh"):
        if effort in THINKING[name].split():
            checker.check(effort)
        else:
            with pytest.raises(ValidationError):
                checker.check(effort)


def test_claude_is_offered_under_the_ids_that_vertex_has() -> None:
    assert {each.provider for each in CLAUDE} == {"vertex"}
    ids = {each.model: each.id for each in CLAUDE}
    assert ids["claude-opus-5"] == "claude-opus-5"
    assert ids["claude-haiku-4-5"] == "claude-haiku-4-5@20251001"
