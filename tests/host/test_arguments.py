"""Arguments of wrong types, in the public methods of `Host`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import File, Message, Prompt
from genai_host.config import Config, ModelConfig
from genai_host.errors import ValidationError
from genai_host.host.arguments import TYPES
from genai_host.store import Store
from genai_host_testing.internal.fixtures import MakeHost

VALID: dict[str, dict[str, Any]] = {
    "call_tool": {"name": "clock"},
    "check_configuration": {"name": "mine", "config": ModelConfig("mock")},
    "complete": {"prompt": "hi", "model": "mock"}, "conversation": {"id": "1"}, "conversations": {},
    "count_tokens": {"messages": "hi", "model": "mock"}, "default_model": {},
    "embed": {"texts": ["hi"], "model": "mock-embed"}, "explain": {"model": "mock"},
    "feature": {"name": "chat"}, "jobs": {"queue": "orders"}, "moderate": {"text": "hi"},
    "offered_tools": {}, "open": {"feature": "chat", "model": "mock"},
    "open_executor": {"name": "threads", "settings": {}}, "pass_through": {"model": "mock"},
    "probe": {}, "prompt": {"prompt": Prompt([Message("user", "hi")]), "model": "mock"},
    "reconfigure": {"config": Config()}, "reopen": {}, "store_for": {},
    "suspends": {"model": "mock"}, "tool": {"name": "clock"},
    "transcribe": {"audio": File(b"a", "audio/wav", "a.wav")},
}  # fmt: skip
UNCHECKED = {"self", "output_type", "request", "state"}
"""Any value is valid, or is checked elsewhere."""
RESEMBLING: dict[str, list[Any]] = {
    "complete.prompt": [[3], [[1.0]]], "count_tokens.tools": ["look", ["look"]],
    "history": ["hi", ["hi"], {}], "limit": ["3", True], "messages": [["hi"]], "model": [b"mock"],
    "models": ["mock", {"main": 3}, {3: "mock"}], "parameters": ["x", [1], {3: 3}],
    "settings": ["x", {3: 3}], "stream": [1], "texts": ["hi", [3], [["hi"]]],
    "tools": [[3], {}, "look"],
}  # fmt: skip
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


def test_every_public_method_with_arguments_is_covered() -> None:
    methods = inspect.getmembers(Host, inspect.isfunction)
    with_arguments = {
        name
        for name, each in methods
        if not name.startswith("_") and len(inspect.signature(each).parameters) > 1
    }
    assert with_arguments == VALID.keys()


@pytest.mark.parametrize("name", inspect.signature(Host).parameters)
def test_a_wrong_argument_of_the_host_is_named(name: str) -> None:
    wrong: dict[str, Any] = {name: 3.5}
    with pytest.raises(ValidationError, match=f"^{name} must be "):
        Host(**wrong)


def test_arguments_are_also_checked_by_position(host: Host) -> None:
    with pytest.raises(ValidationError, match="model must be a string, not 3"):
        host.open("chat", 3)  # type: ignore[arg-type]  # on purpose


def test_all_conversations_are_listed_without_a_limit(make_host: MakeHost, store: Store) -> None:
    assert make_host(store=store).conversations(limit=None) == []


def test_none_is_valid_only_if_the_annotation_has_it(host: Host) -> None:
    assert host.open("chat", "mock", parameters=None).say("hi").text
    with pytest.raises(ValidationError, match="audio must be a File, not None"):
        host.transcribe(None)  # type: ignore[arg-type]  # on purpose
