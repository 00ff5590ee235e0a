"""Tools that services run themselves, replaced by tools of the host.

A service of another format does not receive such a tool (`VendorTool`). If `server.service_tools`
names a tool of the host for its kind, the model is offered that tool as a function:

    answer_with_tools → the model calls it → Host.call_tool → the model gets the output → ...

Clients see the texts of all rounds, and neither these calls nor their outputs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import count

from attrs import evolve

from genai_host.api import (
    CancelToken,
    Completion,
    Delta,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    ToolSchema,
    VendorPart,
    VendorTool,
)
from genai_host.api.calls import OF_SERVICE
from genai_host.api.tools import tool_message
from genai_host.errors import ConfigurationError, LimitExceeded, ValidationError
from genai_host.host import Host

MAX_ROUNDS = 10
"""Maximum number of rounds of calls. Then the model is asked to answer without tools."""

MAX_CALLS = 32
"""Maximum number of calls in all rounds. The model learns that further ones were not run."""

_NOT_RUN = f"not run: at most {MAX_CALLS} calls are allowed"
_log = logging.getLogger(__name__)
_PARAGRAPH = "\n\n"
_NOTHING = Delta()
_Ask = Callable[[Prompt], Generator[Delta, None, Completion]]


def with_host_tools(host: Host, tools: Sequence[ToolSchema]) -> list[ToolSchema]:
    """The tools, in which those that the host replaces have the parameters of its tool. If the
    service has a tool itself, a mistake in the configuration of the host's tool is only logged.
    Raises `ConfigurationError` if `server.service_tools` names a tool that is unknown or needs
    approval."""
    kinds = host.config.server.service_tools
    found: list[ToolSchema] = []
    for tool in tools:
        if isinstance(tool, VendorTool) and kinds.get(tool.kind, OF_SERVICE) != OF_SERVICE:
            try:
                tool = _described(host, tool, kinds[tool.kind])
            except ConfigurationError as error:
                if not tool.extra:
                    raise
                _log.warning("%s", error)
        found.append(tool)
    return found


def _described(host: Host, tool: VendorTool, name: str) -> VendorTool:
    place = f"server.service_tools.{tool.kind}"
    try:
        found = host.tool(name)
        schema = host.toolbox.schema(found)
    except (ConfigurationError, ValidationError) as error:
        raise ConfigurationError(f"{place}: {error}", hint=error.hint) from error
    if found.approval != "allow":
        why = "is denied" if found.approval == "deny" else "needs approval: no client can give it"
        raise ConfigurationError(
            f"{place}: {name} {why}", hint=f"allow it: genai-host config set approvals.{name}=allow"
        )
    return evolve(tool, description=schema.description, parameters=schema.parameters)


def replaced_in(tools: Sequence[ToolSchema]) -> dict[str, str]:
    """The kinds of the tools that the host replaces, by name."""
    own = (tool for tool in tools if isinstance(tool, VendorTool))
    return {tool.name: tool.kind for tool in own if tool.function is not None}


def answer_with_tools(
    host: Host, prompt: Prompt, ask: _Ask, limits: CancelToken
) -> Generator[Delta, None, Completion]:
    """Ask a model, run its calls of replaced tools, and ask again, until it answers or calls a tool
    of the client. Calls of replaced tools are left out beside those of the client, and if the
    request forbids calls. The tools of the prompt are those of `with_host_tools`. Raises
    `LimitExceeded` if the model calls replaced tools without end."""
    kinds = replaced_in(prompt.tools)
    if not kinds:
        return (yield from ask(prompt))
    # parts of a service that runs the tools itself stay where they are in the stream
    holds = not any(tool.extra for tool in prompt.tools if tool.name in kinds)
    shown: list[Part] = []
    left = MAX_CALLS
    before: Completion | None = None
    for number in count():
        held: list[VendorPart] | None = [] if holds else None
        begin = sum(len(part.text) for part in shown if isinstance(part, Text))
        pieces = ask(prompt)
        with_text = prompt.schema is None
        completion = yield from _visible(pieces, kinds, held, begin, with_text=with_text)
        completion = before = _added(before, completion)
        calls = [call for call in completion.tool_calls if call.name in kinds]
        if not calls or len(calls) < len(completion.tool_calls):
            break
        if number == 0 and prompt.tool_choice == "none":
            completion = evolve(completion, finish="stop")
            break
        if number == MAX_ROUNDS:
            name = calls[0].name
            raise LimitExceeded(f"the model called {name} more than {number} times", limit="steps")
        outputs = [_output(host, call, kinds[call.name], limits) for call in calls[:left]]
        outputs += [ToolOutput(_NOT_RUN, error=True)] * (len(calls) - len(outputs))
        left = max(left - len(calls), 0)
        parts = _shown(kinds, completion, prompt)
        yield from _end_paragraph(parts)
        shown += parts
        prompt = evolve(
            prompt,
            messages=[*prompt.messages, completion.message, tool_message(calls, outputs)],
            # a choice that the model has followed would make it call without end
            tool_choice="none" if number + 1 == MAX_ROUNDS else None,
        )
    if prompt.schema is not None:
        yield Delta(completion.text)
    last = list(_without_calls(kinds, completion))
    if held:
        yield from (Delta(opaque=part) for part in last if isinstance(part, VendorPart))
    content = [*shown, *last]
    return evolve(completion, message=evolve(completion.message, content=content))


def _visible(
    pieces: Generator[Delta, None, Completion],
    kinds: Collection[str],
    held: list[VendorPart] | None,
    begin: int,
    *,
    with_text: bool,
) -> Generator[Delta, None, Completion]:
    """The chunks of a round for the client. An answer by a schema is sent at its end, since texts
    of other rounds would make it invalid. Vendor parts are added to `held`, unless it is None: they
    are of the client only if the round is the last one. `begin` is the length of texts before."""
    with closing(pieces):
        while True:
            try:
                delta = next(pieces)
            except StopIteration as end:
                completion: Completion = end.value
                return completion
            if delta.tool_call is not None and delta.tool_call.name in kinds:
                delta = evolve(delta, tool_call=None)
            if held is not None and delta.opaque is not None:
                held.append(delta.opaque)
                delta = evolve(delta, opaque=None)
            if not with_text:
                delta = evolve(delta, text="", citations=())
            elif delta.citations and begin:
                delta = evolve(delta, citations=tuple(c.moved(begin) for c in delta.citations))
            if delta != _NOTHING:
                yield delta


def _output(host: Host, call: ToolCall, kind: str, limits: CancelToken) -> ToolOutput:
    if call.malformed:
        return ToolOutput("the arguments are not a JSON object", error=True)
    name = host.config.server.service_tools[kind]
    return host.call_tool(name, call.arguments, limits=limits)


def _shown(kinds: Collection[str], completion: Completion, prompt: Prompt) -> list[Part]:
    """The parts of a round for the client, without what the service signed for the calls."""
    hidden = VendorPart if prompt.schema is None else (VendorPart, Text)
    return [part for part in _without_calls(kinds, completion) if not isinstance(part, hidden)]


def _without_calls(kinds: Collection[str], completion: Completion) -> Iterator[Part]:
    """The parts without the calls of replaced tools, each with its signature."""
    is_hidden = False
    for part in completion.message.content:
        if isinstance(part, ToolCall):
            is_hidden = part.name in kinds
        elif not isinstance(part, VendorPart):
            is_hidden = False
        if not is_hidden:
            yield part


def _end_paragraph(parts: list[Part]) -> Iterator[Delta]:
    """Separate texts of a round from those of the next one."""
    last = parts[-1] if parts else None
    if isinstance(last, Text):
        parts[-1] = evolve(last, text=last.text + _PARAGRAPH)
        yield Delta(_PARAGRAPH)
    elif isinstance(last, Reasoning):
        yield Delta(reasoning=_PARAGRAPH)


def _added(before: Completion | None, completion: Completion) -> Completion:
    """A completion with the usage and the cost of the rounds before."""
    if before is None:
        return completion
    is_known = before.cost is not None and completion.cost is not None
    return evolve(
        completion,
        usage=before.usage + completion.usage,
        seconds=before.seconds + completion.seconds,
        cost=(before.cost or 0) + (completion.cost or 0) if is_known else None,
    )
