"""JSON as text: what is JSON, and nothing else."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from genai_host.api.json_text import read_json, write_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e308", 1e308),
        ("-1.5E+2", -150.0),
        ("1e-999", 0.0),
        ('[0.5, 12, true, null, "é"]', [0.5, 12, True, None, "é"]),
        ('{"a": {"b": []}}', {"a": {"b": []}}),
    ],
)
def test_what_is_json_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value
    assert read_json(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "'a'",
        "1e999",
        '{"a": [-1e999]}',
        "[" * 99_999,
    ],
    ids=lambda text: text[:12],
)
def test_what_is_none_is_refused(text: str) -> None:
    """Numbers that Python has no place for as well: written again, they would be no JSON."""
    for given in (text, text.encode()):
        with pytest.raises(ValueError, match=r".+"):
            read_json(given)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        read_json(b'{"a": "\xff"}')


def test_json_is_written_compactly() -> None:
    value = {"a": ["é", 1.5, None], "b": MappingProxyType({"c": True})}
    assert write_json(value) == '{"a":["é",1.5,null],"b":{"c":true}}'.encode()
    assert json.loads(write_json("\ud800")) == "\ud800"
    with pytest.raises(TypeError, match="set has no JSON form"):
        write_json({1})
