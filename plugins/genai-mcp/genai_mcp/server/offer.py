"""What a host offers to MCP clients: its tools, and each feature as a tool `ask_FEATURE`.

Offer.tools → Host.offered_tools, Host.registry.features
Offer.begin → _call (a tool) | _ask (a feature) → News, Question ... → Result
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from genai_host.api import Answer, AvailableTool, Feature, Pause, Progress, SchemaValidator
from genai_host.errors import Cancelled, GenaiError, TurnPaused, ValidationError
from genai_mcp import mirrored
from genai_mcp.rpc import clean, one_line
from genai_mcp.server.messages import (
    News,
    Question,
    Steps,
    failed,
    result_of_answer,
    result_of_error,
    result_of_output,
)
from genai_mcp.within import Within

if TYPE_CHECKING:  # a plugin's command is given a host, and imports none
    from genai_host import Conversation, Host
    from genai_host.api.features import Event

ASK = "ask_"
"""What the name of a feature's tool begins with."""

_APPROVAL = "approval"  # what a feature waits for while a human decides on calls of tools
_MOST_ASKED = 2000  # characters of the arguments that a human is shown
_ALLOWED = "start the server with --approve {name} to allow it"

_log = logging.getLogger(__name__)


@frozen
class Choice:
    """What of a host is offered. A name that ends with `*` is for all that begin so.

    tools      names of tools; None for all of them
    features   names of features; None for all of them
    approved   tools that ask for approval, and have it
    model      the model that features use unless the client names another; None for the
               default one
    record     whether conversations are kept in the host's store
    """

    tools: Collection[str] | None = None
    features: Collection[str] | None = None
    approved: Collection[str] = ()
    model: str | None = None
    record: bool = False


@frozen
class Offered:
    """One tool, as clients see it.

    definition   as `tools/list` gives it
    tool         the tool of the host that it is; None for a feature
    feature      the feature that it is; None for a tool
    mirrored     arguments that clients repeat in headers
    """

    definition: Mapping[str, Any]
    tool: AvailableTool | None = None
    feature: Feature[Any] | None = None
    mirrored: mirrored.Places = field(factory=dict)


class Offer:
    """May be used from many threads."""

    def __init__(self, host: Host, choice: Choice | None = None) -> None:
        self._host = host
        self._choice = choice or Choice()
        self._checker = SchemaValidator(_QUESTION)

    def tools(self) -> dict[str, Offered]:
        """All that is offered now, by name, in the order of the names. Sources of tools are
        asked for theirs, which may take its time."""
        found: dict[str, Offered] = {}
        for tool in self._host.offered_tools():
            if _is_among(tool.name, self._choice.tools):
                offered = _of_tool(tool)
                if offered is not None:
                    found[tool.name] = offered
        for feature in self._host.registry.features.values():
            name = f"{ASK}{feature.name}"
            if not _is_among(feature.name, self._choice.features):
                continue
            if name in found:
                _log.warning("the feature %s is not offered: %s is a tool", feature.name, name)
                continue
            found[name] = Offered(_described(name, feature), feature=feature)
        return dict(sorted(found.items()))

    def tool(self, name: str) -> Offered | None:
        """One of them; None if there is none of that name."""
        if _is_among(name, self._choice.tools):
            found = (_of_tool(each) for each in self._host.offered_tools() if each.name == name)
            offered = next(found, None)
            if offered is not None:
                return offered
        feature = self._host.registry.features.get(name.removeprefix(ASK))
        if feature is None or name == feature.name:
            return None
        if not _is_among(feature.name, self._choice.features):
            return None
        return Offered(_described(name, feature), feature=feature)

    def begin(self, offered: Offered, arguments: Mapping[str, Any], limits: Within) -> Steps:
        """Call one of them; `limits` end the call. Raises `Cancelled` then."""
        if offered.tool is not None:
            return self._call(offered.tool, arguments, limits)
        assert offered.feature is not None  # it is one of both
        return self._ask(offered.feature, arguments, limits)

    def _call(self, tool: AvailableTool, arguments: Mapping[str, Any], limits: Within) -> Steps:
        approved = tool.approval == "ask" and self._is_approved(tool.name)
        if tool.approval == "ask" and not approved:
            approved = (yield _question(tool.name, arguments)) is True
            if not approved:
                return failed(f"a human was asked whether {tool.name} may run, and said no")
        output = self._host.call_tool(tool.name, arguments, approved=approved, limits=limits)
        return result_of_output(output)

    def _ask(self, feature: Feature[Any], arguments: Mapping[str, Any], limits: Within) -> Steps:
        try:
            self._checker.check(arguments)
        except ValidationError as error:
            return failed(f"invalid arguments: {error}")
        choice = self._choice
        try:
            conversation = self._host.open(
                feature.name, arguments.get("model") or choice.model, record=choice.record
            )
            with closing(conversation), limits.on_cancel(conversation.close):
                answer = yield from self._converse(conversation, arguments["message"])
        except Cancelled:
            raise
        except GenaiError as error:
            return result_of_error(error)
        return result_of_answer(answer)

    def _converse(
        self, conversation: Conversation, message: str
    ) -> Generator[News | Question, bool | None, Answer]:
        events = conversation.stream(message)
        while True:
            try:
                return (yield from _heard(events))
            except TurnPaused:
                decision = yield from self._decide(conversation.waiting)
                events = conversation.resume_stream(decision)

    def _decide(
        self, waiting: Pause[Any] | None
    ) -> Generator[News | Question, bool | None, dict[str, bool]]:
        """Which of the calls that a turn waits for may be made."""
        kind = "" if waiting is None else waiting.kind
        calls = _calls(waiting.payload) if waiting is not None and kind == _APPROVAL else []
        if not calls:
            raise TurnPaused(f"it waits for {kind!r}, which nobody here can give", kind=kind)
        decisions = {}
        for id, name, arguments in calls:
            is_approved = self._is_approved(name)
            if not is_approved:
                is_approved = (yield _question(name, arguments)) is True
            decisions[id] = is_approved
        return decisions

    def _is_approved(self, tool: str) -> bool:
        return _is_among(tool, self._choice.approved)


def _is_among(name: str, names: Collection[str] | None) -> bool:
    if names is None or name in names:
        return True
    return any(each.endswith("*") and name.startswith(each[:-1]) for each in names)


def _of_tool(tool: AvailableTool) -> Offered | None:
    """None for one that the clients would have to refuse."""
    schema = tool.schema
    try:
        places = mirrored.places(schema.parameters)
    except ValidationError as error:
        _log.warning("the tool %s is not offered: %s", tool.name, error)
        return None
    definition = {
        "name": tool.name,
        "description": schema.description,
        "inputSchema": schema.parameters,
    }
    return Offered(definition, tool=tool, mirrored=places)


_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What to say to it."},
        "model": {
            "type": "string",
            "minLength": 1,
            "description": "The model that answers, as `smollm2` or `smollm2@local`; the "
            "default one unless given.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}


def _described(name: str, feature: Feature[Any]) -> dict[str, Any]:
    what = clean(feature.help, 500).strip() or feature.name
    return {
        "name": name,
        "description": f"Ask {feature.name}: {what}. Each call is a conversation of its own.",
        "inputSchema": _QUESTION,
    }


def _question(tool: str, arguments: Mapping[str, Any]) -> Question:
    tool = one_line(tool)
    shown = clean(json.dumps(arguments, ensure_ascii=False, indent=2), _MOST_ASKED)
    refusal = f"{tool} runs only if a human approves of it, and this client has no way to ask"
    return Question(
        f"May the tool {tool} run, with these arguments?\n{shown}",
        f"{refusal}: {_ALLOWED.format(name=tool)}",
    )


def _calls(payload: Any) -> list[tuple[str, str, Any]]:
    """Id, tool and arguments of the calls that are to be decided on; none if it is about
    something else."""
    calls = payload.get("calls") if isinstance(payload, Mapping) else None
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        return []
    return [
        (str(call.get("id")), str(call.get("tool")), call.get("arguments", {})) for call in calls
    ]


def _heard(events: Generator[Event, None, None]) -> Generator[News, bool | None, Answer]:
    """The answer of a turn, and the news on the way to it."""
    answer = None
    with closing(events):
        for event in events:
            if event.kind == "progress" and isinstance(event.data, Progress):
                yield News(one_line(event.data.text))
            elif event.kind == "step":
                yield News(one_line(event.data.title))
            answer = event.answer or answer
    assert answer is not None  # the last event of a turn that does not raise
    return answer
