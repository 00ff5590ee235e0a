"""A program that uses our MCP client: `mcp_peer.py URL`, as the conformance package starts it.
What it is to do stands in the environment."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from genai_mcp.client.servers import McpServer
from genai_mcp.client.source import McpSource

from genai_host.api import Cancellation, CancelToken
from genai_host.errors import GenaiError

SECONDS = 20.0


@frozen
class Run:
    limits: CancelToken
    context: Mapping[str, Any] = field(factory=dict)


def main(url: str) -> None:
    source, limits = McpSource(McpServer("peer", url=url)), Cancellation()
    timer = threading.Timer(SECONDS, limits.cancel)
    timer.start()
    try:
        tools = {tool.name: tool for tool in source.tools(limits)}
        for name, arguments in _calls(tools):
            if name in tools:
                with contextlib.suppress(GenaiError):  # it is the other end that judges
                    tools[name].run(arguments, Run(limits))
    finally:
        timer.cancel()
        source.close()


def _calls(tools: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if "toolCalls" in context:
        return [(call["name"], call["arguments"]) for call in context["toolCalls"]]
    if scenario == "json-schema-2020-12-preservation":
        schema = tools["json_schema_2020_12_tool"].schema.parameters
        return [("json_schema_echo", {"schema": schema})]
    if scenario == "json-schema-ref-no-deref":
        return []
    arguments = {"a": 2, "b": 3} if scenario == "tools_call" else {}
    return [(name, arguments) for name in tools]


if __name__ == "__main__":
    main(sys.argv[1])
