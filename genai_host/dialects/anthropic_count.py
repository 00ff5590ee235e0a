"""How many tokens a call in Anthropic's messages would take.

Source: Claude API reference, "Count tokens in a Message", as of November 2026.
"""

from __future__ import annotations

from genai_host.api import CountDialect, Serve
from genai_host.dialects.anthropic_messages import AnthropicMessages

_COUNTED = (
    "parallel_tool_calls", "prompt_cache", "reasoning_effort", "thinking_budget",
    "thinking_display",
)  # fmt: skip


class AnthropicCount(CountDialect):
    name = "anthropic-count"
    of = AnthropicMessages
    endpoint = Serve(path="/v1/messages/count_tokens")
    parameters = {name: AnthropicMessages.parameters[name] for name in _COUNTED}
    variant = AnthropicMessages.variant
    fields = frozenset(
        {
            "cache_control", "messages", "model", "output_config", "system", "thinking",
            "tool_choice", "tools",
        }
    )  # fmt: skip
    tokens = "input_tokens"
