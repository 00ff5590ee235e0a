"""How many tokens a call in OpenAI's responses would take.

Source: OpenAI API reference, "Get input token counts", as of November 2026.
"""

from __future__ import annotations

from genai_host.api import CountDialect, Serve
from genai_host.dialects.openai_responses import OpenAIResponses

_COUNTED = ("parallel_tool_calls", "reasoning_effort", "reasoning_summary")


class OpenAICount(CountDialect):
    name = "openai-count"
    of = OpenAIResponses
    endpoint = Serve(path="/responses/input_tokens")
    parameters = {name: OpenAIResponses.parameters[name] for name in _COUNTED}
    variant = OpenAIResponses.variant
    fields = frozenset(
        {"input", "model", "parallel_tool_calls", "reasoning", "text", "tool_choice", "tools"}
    )
    tokens = "input_tokens"
