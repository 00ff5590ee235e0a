"""API formats that several services share; registered through the hooks, as those of plugins.

- `plain`: the host's own JSON form, for providers in this process
- `openai_chat`: OpenAI's chat completions, which most services support; token counting
- `openai_responses`: OpenAI's responses, their successor; token counting
- `openai_embeddings`: OpenAI's embeddings and moderations
- `anthropic_messages`: Anthropic's messages, at any provider; token counting
- `server_settings`: hints for errors of self-hosted servers
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, hookimpl


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_host.dialects.anthropic_messages import AnthropicCount, AnthropicMessages
    from genai_host.dialects.openai_chat import OpenAIChat, OpenAIChatCount
    from genai_host.dialects.openai_embeddings import OpenAIEmbed, OpenAIModerate
    from genai_host.dialects.openai_responses import OpenAICount, OpenAIResponses
    from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed

    return [
        Plain(),
        PlainEmbed(),
        PlainCount(),
        OpenAIChat(),
        OpenAIResponses(),
        OpenAIEmbed(),
        OpenAIModerate(),
        AnthropicMessages(),
        OpenAIChatCount(),
        OpenAICount(),
        AnthropicCount(),
    ]
