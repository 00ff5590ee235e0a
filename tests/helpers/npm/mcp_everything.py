"""The tools that the conformance package of MCP asks servers for, as far as tools of the host
can be like them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.api import Image, Text, Tool, ToolContext, hookimpl
from genai_host_testing.services.mcp import PIXEL

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MARKED = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "query": {"type": "string"},
    }
}
ASKING = (
    "test_elicitation", "test_input_required_result_elicitation",
    "test_input_required_result_request_state", "test_input_required_result_tampered_state",
    "test_missing_capability", "test_streaming_elicitation",
)  # fmt: skip
"""Those that ask for approval: it is that for which the server asks the client."""


def _fail(arguments: Mapping[str, Any], run: ToolContext) -> str:
    raise OSError("This tool intentionally returns an error for testing")


@hookimpl
def genai_tools() -> Iterable[Tool]:
    yield Tool("test_simple_text", "A text.", lambda *_: "This is a simple text response.")
    yield Tool("test_logging_tool", "It logs nothing.", lambda *_: "done")
    yield Tool("test_image_content", "A picture.", lambda *_: Image(PIXEL, "image/png"))
    yield Tool("test_error_handling", "It fails.", _fail)
    yield Tool("json_schema_2020_12_tool", "It has a schema.", lambda *_: "done", SCHEMA)
    yield Tool("test_x_mcp_header", "It is routed.", lambda *_: "done", MARKED)
    yield Tool("test_two", "Two parts.", lambda *_: [Text("a"), Image(PIXEL, "image/png")])
    for name in ASKING:
        yield Tool(name, "It asks.", lambda *_: "done", approval="ask")
