"""What is looked at in each tool, wherever it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import ChatCall, Checker, Message, Tool, ToolOutput
from genai_host.api.json_text import read_json
from genai_host.host import Host

Sample = tuple[Mapping[str, Any]] | tuple[Mapping[str, Any], str]
"""Arguments of a call, alone or with the text of its output."""

_DIALECTS = ("openai-chat", "openai-responses")
_LONGEST_DESCRIPTION = 1024  # characters that OpenAI's services take


def check_description(tool: Tool) -> None:
    assert len(tool.description) <= _LONGEST_DESCRIPTION, f"{tool.name}: services refuse it"
    assert tool.description == tool.description.strip()
    assert all(letter.isprintable() or letter == "\n" for letter in tool.description)


def check_parameters(tool: Tool) -> None:
    """A JSON Schema of an object, which requires nothing that it does not tell of."""
    parameters = tool.schema.parameters
    Checker(parameters)
    assert parameters["type"] == "object"
    assert set(parameters.get("required", ())) <= set(parameters["properties"])
    json.dumps(parameters, allow_nan=False)


def check_services_take(tool: Tool, host: Host) -> None:
    """It is written into requests as it is."""
    schema = tool.schema
    call = ChatCall(model_id="some", messages=[Message("user", "hi")], tools=[schema])
    for name in _DIALECTS:
        request = host.registry.dialects[name].prepare_request(call)
        [written] = read_json(request.data())["tools"]
        written = written.get("function", written)
        assert (written["name"], written["description"]) == (schema.name, schema.description)
        assert written["parameters"] == json.loads(json.dumps(dict(schema.parameters)))


def check_output(
    output: ToolOutput, arguments: Mapping[str, Any], expected: Sequence[Any], host: Host
) -> None:
    """No failure, the same when it is read again, and with the text, if one is expected."""
    assert not output.error, f"{arguments}: {output.text}"
    form = json.loads(json.dumps(host.codec.to_json(output)))
    assert host.codec.from_json(form, ToolOutput) == output
    assert [output.text] == (list(expected) or [output.text]), f"{arguments}"
