"""Arguments of wrong types, in the public methods of `Host`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import File, Message, Prompt
from genai_host.errors import ValidationError
from genai_host.host.arguments import TYPES

VALID: dict[str, dict[str, Any]] = {
    "complete": {"prompt": "hi", "model": "mock"},
    "conversation": {"id": "1"},
    "conversations": {},
    "count_tokens": {"messages": "hi", "model": "mock"},
    "embed": {"texts": ["hi"], "model": "mock-embed"},
    "moderate": {"text": "hi"},
    "open": {"feature": "chat", "model": "mock"},
    "pass_through": {"model": "mock"},
    "prompt": {"prompt": Prompt([Message("user", "hi")]), "model": "mock"},
    "reopen": {},
    "suspends": {"model": "mock"},
    "transcribe": {"audio": File(b"a", "audio/wav", "a.wav")},
}
UNCHECKED = {"self", "operation", "output_type", "request", "state"}
"""Any value is valid, or is checked elsewhere."""
RESEMBLING: dict[str, list[Any]] = {
    "complete.prompt": [[3], [[1.0]]],
    "count_tokens.tools": ["look", ["look"]],
    "history": ["hi", ["hi"], {}],
    "limit": ["3", True],
    "messages": [["hi"]],
    "model": [b"mock"],
    "models": ["mock", {"main": 3}, {3: "mock"}],
    "parameters": ["x", [1], {3: 3}],
    "settings": ["x", {3: 3}],
    "stream": [1],
    "texts": ["hi", [3], [["hi"]]],
    "tools": [[3], {}],
}
"""Wrong values that resemble valid ones."""


def of_method(method: str, name: str) -> str:
    return full if (full := f"{method}.{name}") in TYPES else name


CASES = [
    pytest.param(method, name, value, id=f"{method}-{name}-{value}"[:40])
    for method in VALID
    for name in inspect.signature(getattr(Host, method)).parameters
    if name not in UNCHECKED
    for value in (3.5, *RESEMBLING.get(of_method(method, name), ()))
]


@pytest.mark.parametrize(("method", "name", "value"), CASES)
def test_a_wrong_argument_is_named(host: Host, method: str, name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"^{name} must be ") as caught:
        getattr(host, method)(**{**VALID[method], name: value})
    assert caught.value.path == name


@pytest.mark.parametrize("name", inspect.signature(Host).parameters)
def test_a_wrong_argument_of_the_host_is_named(name: str) -> None:
    wrong: dict[str, Any] = {name: 3.5}
    with pytest.raises(ValidationError, match=f"^{name} must be "):
        Host(**wrong)


def test_arguments_are_also_checked_by_position(host: Host) -> None:
    with pytest.raises(ValidationError, match="model must be a string, not 3"):
        host.open("chat", 3)  # type: ignore[arg-type]  # on purpose


def test_none_is_valid_only_as_a_default(host: Host) -> None:
    assert host.open("chat", "mock", parameters=None).say("hi").text
    with pytest.raises(ValidationError, match="audio must be a File, not None"):
        host.transcribe(None)  # type: ignore[arg-type]  # on purpose
