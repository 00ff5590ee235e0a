"""Values for simple JSON Schemas."""

from __future__ import annotations

from typing import Any

import pytest

from genai_host_testing.suites.codec import sample_of


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "sample"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"enum": ["low", "high"]}, "low"),
        ({"const": 7}, 7),
        ({"default": 8, "type": "integer"}, 8),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "array", "items": {"type": "number"}}, [1]),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, {"a": None}),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {}),
        (True, "sample"),
        ({}, "sample"),
    ],
)
def test_a_simple_schema_has_a_sample(schema: Any, value: Any) -> None:
    assert sample_of(schema) == value
