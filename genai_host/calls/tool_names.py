"""Names of tools that a service accepts, in place of others.

Clients, MCP servers and formats allow more names than some services, and one such tool would fail
the whole request. The names are replaced for a call, and restored in its answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from re import Pattern

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Message,
    Part,
    ToolCall,
    ToolResult,
    VendorTool,
)

_OTHERS = re.compile(r"[^a-zA-Z0-9_-]")
_SHOWN = 54
"""Length of the beginning of a name that is kept: with the hash, it has at most 64 characters."""


def accepted_name(name: str) -> str:
    """A name that all services accept, in place of one that a service does not."""
    mark = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
    shown = _OTHERS.sub("_", name)[:_SHOWN]
    return f"{'' if shown[:1].isalpha() else '_'}{shown}_{mark}"


def with_accepted_names(
    call: ChatCall, mixed: Sequence[Message], accepted: Pattern[str] | None
) -> tuple[ChatCall, Mapping[str, str]]:
    """Replace names that a service does not accept.

    Args:
        call: The call.
        mixed: Messages with tool calls or results, and maybe others.
        accepted: See `Dialect.tool_names`.

    Returns:
        The call, and the names of its tools by those in their place.
    """
    if accepted is None:
        return call, {}
    own = [tool.name for tool in call.tools if not isinstance(tool, VendorTool)]
    new = {name: accepted_name(name) for name in own if not accepted.fullmatch(name)}
    if new:
        tools = [evolve(tool, name=new.get(tool.name, tool.name)) for tool in call.tools]
        choice = call.tool_choice and new.get(call.tool_choice, call.tool_choice)
        call = evolve(call, tools=tools, tool_choice=choice)
    key, affected = ("tool names", accepted.pattern), partial(_is_affected, accepted=accepted)
    if any(each.remember(("affected", *key), affected) for each in mixed):
        replace = partial(_replaced, accepted=accepted)
        messages = [
            each.remember(key, replace) if affected(each) else each for each in call.messages
        ]
        call = evolve(call, messages=messages)
    return call, {short: name for name, short in new.items()}


def _is_affected(message: Message, accepted: Pattern[str]) -> bool:
    return any(_new_name(part, accepted) for part in message.content)


def _replaced(message: Message, accepted: Pattern[str]) -> Message:
    content = [
        evolve(part, name=name) if (name := _new_name(part, accepted)) else part  # type: ignore[call-arg]  # a call or a result
        for part in message.content
    ]
    return evolve(message, content=content)


def _new_name(part: Part, accepted: Pattern[str]) -> str:
    """The name in place of that of a call or a result; empty for none."""
    if not isinstance(part, (ToolCall, ToolResult)) or not part.name:
        return ""
    return "" if accepted.fullmatch(part.name) else accepted_name(part.name)


def with_own_names(
    pieces: Generator[Delta, None, Completion], names: Mapping[str, str]
) -> Generator[Delta, None, Completion]:
    """Restore the names in an answer.

    Args:
        pieces: Yields the chunks of the answer, and returns it.
        names: As `with_accepted_names` returned them.
    """
    if not names:
        return (yield from pieces)
    with closing(pieces):
        while True:
            try:
                delta = next(pieces)
            except StopIteration as end:
                answer: Completion = end.value
                break
            call = delta.tool_call
            yield evolve(delta, tool_call=_own(call, names)) if call is not None else delta
    content = [
        _own(part, names) if isinstance(part, ToolCall) else part for part in answer.message.content
    ]
    return evolve(answer, message=evolve(answer.message, content=content))


def _own(call: ToolCall, names: Mapping[str, str]) -> ToolCall:
    return evolve(call, name=names.get(call.name, call.name))
