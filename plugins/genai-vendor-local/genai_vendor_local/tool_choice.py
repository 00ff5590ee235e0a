"""Tool calls of a model that was never taught any: a choice held to a grammar.

The model is shown, as if it had been said before, what each tool is good for and
how it is asked for, and then made by a JSON Schema to answer with one of

    {"tool": "get_weather", "arguments": {"city": "Oslo"}}
    {"tool": "none", "answer": "..."}

The first form becomes a tool call, the second an answer. Showing does far better
than telling: of ten questions, SmolLM2-135M chose the right tool nine times when it
was shown the tools, and twice when it was told of them. It also copies what it is shown:
with questions that are about the arguments shown, and values of which each is another, it
took the arguments from the question instead in 12 of 38 cases, and before in 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.errors import BadRequest
from genai_vendor_local.examples import Examples

_LONGEST_ESCAPE = 13  # as of a pair of surrogates, and one more
_OF_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})


class ToolChoice:
    """How one request with tools is asked, and how its reply is read.

    Args:
        body: A chat completion request in OpenAI's form.

    Raises:
        BadRequest: It chooses a tool that it does not have.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        self._tools = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
        self._choice = body.get("tool_choice", "auto")
        self._none = "none"
        while self._none in self._tools:
            self._none += "_"
        if isinstance(self._choice, Mapping):
            name = self._choice["function"]["name"]
            if name not in self._tools:
                known = ", ".join(self._tools)
                raise BadRequest(f"unknown tool {name!r} to choose: there are {known}")
            self._tools = {name: self._tools[name]}

    def request(self) -> dict[str, Any]:
        """The same request for a model that knows of no tools."""
        body = {key: value for key, value in self._body.items() if key not in _OF_TOOLS}
        body["messages"] = self._messages()
        schema = {"name": "tool", "schema": self._schema(), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def delta(self, text: str) -> dict[str, Any]:
        """The reply as OpenAI's form has it: what the model wrote, as a tool call or
        as an answer. Of an answer that was cut there is what came of it; a call that was
        is given as it is."""
        try:
            chosen = json.loads(text)
            tool = chosen["tool"]
        except (ValueError, LookupError, TypeError):
            answer = self._cut_answer(text)
            return {"content": text if answer is None else answer}
        if tool == self._none:
            answer = chosen.get("answer", "")
            as_json = "response_format" in self._body or not isinstance(answer, str)
            return {"content": json.dumps(answer, ensure_ascii=False) if as_json else answer}
        arguments = json.dumps(chosen.get("arguments", {}), ensure_ascii=False)
        function = {"name": tool, "arguments": arguments}
        before = sum(len(message.get("tool_calls") or ()) for message in self._body["messages"])
        return {
            "tool_calls": [
                {"index": 0, "id": f"call_{before}", "type": "function", "function": function}
            ]
        }

    def _cut_answer(self, text: str) -> str | None:
        """What came of an answer in words; None if it is none."""
        head = re.match(rf'\s*{{\s*"tool"\s*:\s*"{self._none}"\s*,\s*"answer"\s*:\s*"', text)
        if head is None or "response_format" in self._body:
            return None
        said = text[head.end() :]
        for end in range(len(said), max(-1, len(said) - _LONGEST_ESCAPE), -1):
            try:
                whole = str(json.loads(f'"{said[:end]}"'))
                return whole[:-1] if "\ud800" <= whole[-1:] < "\udc00" else whole  # half a pair
            except ValueError:  # it was cut within an escape, or after what ends the text
                continue
        return None

    def _schema(self) -> dict[str, Any]:
        """A branch for each tool that may be chosen, and one for none of them."""
        inner = {
            name: tool.get("parameters") or {"type": "object"} for name, tool in self._tools.items()
        }
        branches = [_branch(name, "arguments", name) for name in inner]
        if self._choice == "auto":
            inner[self._none] = self._answer_schema()
            branches.append(_branch(self._none, "answer", self._none))
        definitions = {name: _moved(schema, name) for name, schema in inner.items()}
        return {"oneOf": branches, "$defs": definitions}

    def _answer_schema(self) -> Any:
        """An answer may be held to a schema of its own at the same time."""
        asked = self._body.get("response_format") or {}
        return (asked.get("json_schema") or {}).get("schema") or {"type": "string"}

    def _messages(self) -> list[dict[str, Any]]:
        """The conversation, after what the tools are shown to be good for."""
        said = list(in_words(self._body["messages"]))
        told = [message for message in said if message["role"] == "system"]
        shown: list[dict[str, Any]] = []
        examples = Examples()
        for name, tool in self._tools.items():
            arguments = examples.of(tool.get("parameters") or {"type": "object"})
            question = _as_said(tool.get("description") or name, arguments)
            shown += _exchange(question, {"tool": name, "arguments": arguments})
        if self._choice == "auto":
            answer = {"tool": self._none, "answer": "I am an assistant."}
            shown += _exchange("Who are you?", answer)
        return [*told, *shown, *(message for message in said if message["role"] != "system")]


def _branch(tool: str, field: str, definition: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool}, field: {"$ref": f"#/$defs/{definition}"}},
        "required": ["tool", field],
        "additionalProperties": False,
    }


def _moved(schema: Any, name: str) -> Any:
    """A schema that now stands below `#/$defs/name`: what it refers to moves along."""
    if isinstance(schema, Mapping):
        moved = {key: _moved(value, name) for key, value in schema.items()}
        target = schema.get("$ref")
        if isinstance(target, str) and target.startswith("#"):
            moved["$ref"] = f"#/$defs/{name}{target[1:]}"
        return moved
    if isinstance(schema, list):
        return [_moved(item, name) for item in schema]
    return schema


def _exchange(question: str, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": json.dumps(answer, ensure_ascii=False)},
    ]


def _as_said(description: str, arguments: Any) -> str:
    """A question that is about the arguments, so that the model sees where they come from."""
    if not isinstance(arguments, Mapping) or not arguments:
        return description
    values = [
        f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    ]
    return f"{description} ({', '.join(values)})"


def in_words(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Messages without tool calls and results: told instead, in plain messages."""
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "tool":
            name = names.get(message["tool_call_id"], "a tool")
            yield {"role": "user", "content": f"The result of {name}: {message['content']}"}
        elif message.get("tool_calls"):
            names.update((call["id"], call["function"]["name"]) for call in message["tool_calls"])
            calls = [_call_in_words(call["function"]) for call in message["tool_calls"]]
            yield {"role": "assistant", "content": "\n".join([*_texts(message), *calls])}
        else:
            yield message


def _call_in_words(function: Mapping[str, Any]) -> str:
    """As the model would have made it; what it wrote instead of JSON stays as it is."""
    try:
        arguments = json.dumps(json.loads(function["arguments"]), ensure_ascii=False)
    except ValueError:
        arguments = function["arguments"]
    return f'{{"tool": "{function["name"]}", "arguments": {arguments}}}'


def _texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content") or []
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]
