"""Tool calls of a model that was never taught any: a choice held to a grammar.

The model is shown, as if it had been said before, what each tool is good for and
how it is asked for, and then made by a JSON Schema to answer with one of

    {"tool": "get_weather", "arguments": {"city": "Oslo"}}
    {"tool": "none", "answer": "..."}

The first form becomes a tool call, the second an answer. Showing does far better
than telling: of ten questions, SmolLM2-135M chose the right tool nine times when it
was shown the tools, and twice when it was told of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_NONE = "none"
_OF_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_PLAINEST: Mapping[str, Any] = {
    "number": 1,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


class ToolChoice:
    """How one request with tools is asked, and how its reply is read.

    body   a chat completion request in OpenAI's form
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
        self._choice = body.get("tool_choice", "auto")

    def request(self) -> dict[str, Any]:
        """The same request for a model that knows of no tools."""
        body = {key: value for key, value in self._body.items() if key not in _OF_TOOLS}
        body["messages"] = self._messages()
        schema = {"name": "tool", "schema": {"oneOf": self._branches()}, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def delta(self, text: str) -> dict[str, Any]:
        """The reply as OpenAI's form has it: what the model wrote, as a tool call or
        as an answer. What was cut is given as it is."""
        try:
            chosen = json.loads(text)
            tool = chosen["tool"]
        except (ValueError, LookupError, TypeError):
            return {"content": text}
        if tool == _NONE:
            answer = chosen.get("answer", "")
            return {"content": answer if isinstance(answer, str) else json.dumps(answer)}
        arguments = json.dumps(chosen.get("arguments", {}), ensure_ascii=False)
        function = {"name": tool, "arguments": arguments}
        calls = sum(len(m.get("tool_calls") or ()) for m in self._body["messages"])
        return {
            "tool_calls": [
                {"index": 0, "id": f"call_{calls}", "type": "function", "function": function}
            ]
        }

    def _branches(self) -> list[dict[str, Any]]:
        """One for each tool that may be chosen, and one for none of them."""
        branches = [
            _branch(name, "arguments", tool.get("parameters") or {"type": "object"})
            for name, tool in self._offered().items()
        ]
        if self._choice == "auto":
            branches.append(_branch(_NONE, "answer", self._answer_schema()))
        return branches

    def _offered(self) -> dict[str, Any]:
        if isinstance(self._choice, Mapping):
            name = self._choice["function"]["name"]
            return {name: self._tools[name]}
        return self._tools

    def _answer_schema(self) -> Any:
        """An answer may be held to a schema of its own at the same time."""
        asked = self._body.get("response_format") or {}
        return (asked.get("json_schema") or {}).get("schema") or {"type": "string"}

    def _messages(self) -> list[dict[str, Any]]:
        """The conversation, after what the tools are shown to be good for."""
        said = list(in_words(self._body["messages"]))
        told = [message for message in said if message["role"] == "system"]
        shown: list[dict[str, Any]] = []
        for name, tool in self._offered().items():
            arguments = _example(tool.get("parameters") or {})
            shown += _exchange(
                tool.get("description") or name, {"tool": name, "arguments": arguments}
            )
        if self._choice == "auto":
            shown += _exchange("Who are you?", {"tool": _NONE, "answer": "I am an assistant."})
        return [*told, *shown, *(message for message in said if message["role"] != "system")]


def _exchange(question: str, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": json.dumps(answer, ensure_ascii=False)},
    ]


def _example(schema: Any) -> Any:
    """Some value of a JSON Schema: the schema's own example, or the plainest."""
    if not isinstance(schema, Mapping):
        return "x"
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if "properties" in schema:
        return {name: _example(inner) for name, inner in schema["properties"].items()}
    return _PLAINEST.get(str(schema.get("type")), "x")


def _branch(tool: str, field: str, schema: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool}, field: schema},
        "required": ["tool", field],
        "additionalProperties": False,
    }


def in_words(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Messages without tool calls and results: told instead, in plain messages."""
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "tool":
            name = names.get(message["tool_call_id"], "a tool")
            yield {"role": "user", "content": f"The result of {name}: {message['content']}"}
        elif message.get("tool_calls"):
            functions = [call["function"] for call in message["tool_calls"]]
            names.update((call["id"], call["function"]["name"]) for call in message["tool_calls"])
            said = [message["content"]] if message.get("content") else []
            for function in functions:
                said.append(
                    f'{{"tool": "{function["name"]}", "arguments": {function["arguments"]}}}'
                )
            yield {"role": "assistant", "content": "\n".join(said)}
        else:
            yield message
