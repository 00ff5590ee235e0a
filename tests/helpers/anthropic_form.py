"""Blocks of Anthropic's messages, for its tests."""

from __future__ import annotations

from typing import Any


def text(value: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def thinking(thought: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def tool_use(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}
