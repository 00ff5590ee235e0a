"""The parts of an answer as blocks.

Source: Claude API reference, "Create a Message": "ContentBlock".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from genai_host.api import Opaque, Part, Reasoning, Text, ToolCall
from genai_host.server.anthropic.conversation import MALFORMED, OWN

Block = dict[str, Any]


def wire_blocks(parts: Sequence[Part], *, shows_thoughts: bool) -> Iterator[Block]:
    """
    shows_thoughts   whether those are shown that are not signed
    """
    citations: Block = {}
    for part, following in zip_longest(parts, parts[1:]):
        own = own_block(part)
        if own is not None:
            yield own
        elif isinstance(part, Text):
            yield {"type": "text", "text": part.text, **citations}
            citations = {}
        elif isinstance(part, ToolCall):
            yield wire_call(part)
        elif isinstance(part, Reasoning):
            if shows_thoughts and not _signs(following):
                yield thoughts(part.text)
        elif isinstance(part, Opaque) and part.dialect == OWN and isinstance(part.data, Mapping):
            citations = dict(part.data)  # of the text that follows


def own_block(part: Part | None) -> Block | None:
    """The block of the vendor's own that a part is, as it came; None if it is none."""
    if not isinstance(part, Opaque) or part.dialect != OWN or not isinstance(part.data, Mapping):
        return None
    return dict(part.data) if isinstance(part.data.get("type"), str) else None


def thoughts(text: str) -> Block:
    """Those that nobody signed."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def wire_call(call: ToolCall) -> Block:
    given = {MALFORMED: call.malformed} if call.malformed else dict(call.arguments)
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _signs(part: Part | None) -> bool:
    """Whether it has the thoughts before it, signed."""
    own = own_block(part)
    return own is not None and own["type"] == "thinking"
