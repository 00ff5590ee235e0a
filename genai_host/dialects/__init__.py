"""Wire formats that many vendors share, registered through the hooks like a stranger's.

- `plain`: messages in the host's own JSON form, for providers in this process
- `openai_chat`: what most services and servers speak; how many tokens a call takes
- `openai_responses`: its successor, which reasons on across turns; how many tokens a call takes
- `openai_embeddings`: embeddings and moderation in the same form
- `anthropic_messages`: what Claude is spoken to in, wherever it runs; how many tokens a call takes
- `server_settings`: the options of servers that help with their errors
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
