"""Wire formats that many vendors share, registered through the hooks like a stranger's.

plain                messages in the host's own JSON form, for providers in this process
openai_chat          what most services and servers speak
openai_responses     its successor, which reasons on across turns
openai_embed         embeddings in the same form
openai_moderate      moderation in the same form
anthropic_messages   what Claude is spoken to in, wherever it runs
openai_count         how many tokens a call in these would take
anthropic_count
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, hookimpl


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_host.dialects.anthropic_count import AnthropicCount
    from genai_host.dialects.anthropic_messages import AnthropicMessages
    from genai_host.dialects.openai_chat import OpenAIChat
    from genai_host.dialects.openai_count import OpenAICount
    from genai_host.dialects.openai_embed import OpenAIEmbed
    from genai_host.dialects.openai_moderate import OpenAIModerate
    from genai_host.dialects.openai_responses import OpenAIResponses
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
        OpenAICount(),
        AnthropicCount(),
    ]
