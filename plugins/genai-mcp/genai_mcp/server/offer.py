"""The MCP tools of a host: its tools, and each feature as a tool `ask_FEATURE`.

Offer.tools → Host.offered_tools, Host.registry.features
Offer.begin → _call (a tool) | _ask (a feature) → ProgressUpdate, ApprovalRequest ... → Result
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from attrs import frozen
from mcp.shared.inbound import X_MCP_HEADER_KEY, find_invalid_x_mcp_header

from genai_host.api import (
    Answer,
    AvailableTool,
    CancelToken,
    Feature,
    Pause,
    Progress,
    SchemaValidator,
)
from genai_host.errors import Cancelled, GenaiError, TurnPaused, ValidationError
from genai_mcp.server.messages import (
    ApprovalRequest,
    ProgressUpdate,
    Steps,
    failed,
    result_of_answer,
    result_of_error,
    result_of_output,
)
from genai_mcp.text import clean, one_line

if TYPE_CHECKING:  # only for types: the command receives a host
    from genai_host.api import ConversationHandle, Event, HostServices

ASK = "ask_"
"""Prefix of the name of a feature's tool."""

_APPROVAL = "approval"  # name of the pause in which a human decides on tool calls
_MAX_ASKED = 2000  # characters of the arguments in a question

_log = logging.getLogger(__name__)


@frozen
class Choice:
    """Which tools and features to offer. A name that ends with `*` is a prefix.

    Attributes:
        tools: Names of tools; None for all of them.
        features: Names of features; None for all of them.
        approved: Tools that run without approval although they require it.
        model: Model of features unless the client names another; None for the default.
        record: Whether conversations are stored.
        can_ask: Whether clients can ask their users. Their answers need the process of the call.
        how_to_allow: What allows a tool to run without approval.
    """

    tools: Collection[str] | None = None
    features: Collection[str] | None = None
    approved: Collection[str] = ()
    model: str | None = None
    record: bool = False
    can_ask: bool = True
    how_to_allow: str = "to allow it: genai-host config set approvals.{name}=allow"


@frozen
class Offered:
    """One MCP tool, with its definition for `tools/list`: a tool of the host, or a feature."""

    definition: Mapping[str, Any]
    tool: AvailableTool | None = None
    feature: Feature[Any] | None = None


class Offer:
    """The MCP tools of a host. Thread-safe. `marked` has the schemas of the tools listed or called
    before that have arguments in headers."""

    def __init__(self, host: HostServices, choice: Choice | None = None) -> None:
        self._host = host
        self.clock = host.clock
        self.marked: dict[str, Mapping[str, Any]] = {}
        self._choice = choice or Choice()
        self.can_ask = self._choice.can_ask
        self._checker = SchemaValidator(_QUESTION)

    def tools(self) -> dict[str, Offered]:
        """Return the current tools by name, sorted. Querying tool sources can take long."""
        found: dict[str, Offered] = {}
        for tool in self._host.offered_tools():
            if _is_among(tool.name, self._choice.tools) and (offered := self._of_tool(tool)):
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
        """Return a tool; None if it does not exist."""
        if _is_among(name, self._choice.tools):
            for tool in self._host.offered_tools():
                if tool.name == name and (offered := self._of_tool(tool)):
                    return offered
        feature = self._host.registry.features.get(name.removeprefix(ASK))
        if feature is None or name == feature.name:
            return None
        is_offered = _is_among(feature.name, self._choice.features)
        return Offered(_described(name, feature), feature=feature) if is_offered else None

    def begin(
        self,
        offered: Offered,
        arguments: Mapping[str, Any],
        limits: CancelToken,
        user: str | None = None,
    ) -> Steps:
        """Call a tool within `limits`. Raises `Cancelled` when they end. `user` is whose budget is
        charged; None for the owner of the store."""
        if offered.tool is not None:
            return self._call(offered.tool, arguments, limits)
        assert offered.feature is not None  # it is a tool or a feature
        return self._ask(offered.feature, arguments, limits, user)

    def _call(
        self, tool: AvailableTool, arguments: Mapping[str, Any], limits: CancelToken
    ) -> Steps:
        asks = tool.approval == "ask"
        if asks and not (yield from self._is_allowed(tool.name, arguments)):
            return failed(f"the user did not approve the tool {tool.name}")
        output = self._host.call_tool(tool.name, arguments, approved=asks, limits=limits)
        return result_of_output(output)

    def _ask(
        self,
        feature: Feature[Any],
        arguments: Mapping[str, Any],
        limits: CancelToken,
        user: str | None,
    ) -> Steps:
        try:
            self._checker.check(arguments)
        except ValidationError as error:
            return failed(f"invalid arguments: {error}")
        choice = self._choice
        try:
            model = arguments.get("model") or choice.model
            conversation = self._host.open(feature.name, model, record=choice.record, owner=user)
            with closing(conversation), limits.on_cancel(conversation.close):
                answer = yield from self._converse(conversation, arguments["message"])
        except Cancelled:
            raise
        except GenaiError as error:
            return result_of_error(error)
        return result_of_answer(answer)

    def _converse(
        self, conversation: ConversationHandle, message: str
    ) -> Generator[ProgressUpdate | ApprovalRequest, bool | None, Answer]:
        events = conversation.stream(message)
        while True:
            try:
                return (yield from _progress_of(events))
            except TurnPaused:
                decision = yield from self._decide(conversation.current_pause)
                events = conversation.resume_stream(decision)

    def _decide(
        self, waiting: Pause[Any] | None
    ) -> Generator[ProgressUpdate | ApprovalRequest, bool | None, dict[str, bool]]:
        """Ask for a decision on each pending tool call of a turn."""
        kind = "" if waiting is None else waiting.kind
        calls = _calls(waiting.payload) if waiting is not None and kind == _APPROVAL else []
        if not calls:
            raise TurnPaused(
                f"the turn is paused for {kind!r}, which is not supported here", kind=kind
            )
        decisions = {}
        for id, name, arguments in calls:
            decisions[id] = yield from self._is_allowed(name, arguments)
        return decisions

    def _is_allowed(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> Generator[ApprovalRequest, bool | None, bool]:
        """Ask for a decision, unless the tool is approved."""
        return _is_among(tool, self._choice.approved) or (
            (yield self._request(tool, arguments)) is True
        )

    def _of_tool(self, tool: AvailableTool) -> Offered | None:
        """Return the MCP tool; None if clients would have to reject it."""
        schema = tool.schema
        reason = find_invalid_x_mcp_header(schema.parameters)
        if reason is not None:
            _log.warning("the tool %s is not offered: %s", tool.name, reason)
            return None
        if X_MCP_HEADER_KEY in json.dumps(schema.parameters):
            self.marked[tool.name] = schema.parameters
        else:
            self.marked.pop(tool.name, None)
        shown = {"description": schema.description, "inputSchema": schema.parameters}
        return Offered({"name": tool.name, **shown}, tool=tool)

    def _request(self, tool: str, arguments: Mapping[str, Any]) -> ApprovalRequest:
        tool = one_line(tool)
        shown = clean(json.dumps(arguments, ensure_ascii=False, indent=2), _MAX_ASKED)
        who = "this client" if self.can_ask else "a server with several workers"
        refusal = f"{tool} requires approval, and {who} cannot ask the user"
        return ApprovalRequest(
            f"May the tool {tool} run, with these arguments?\n{shown}",
            f"{refusal}; {self._choice.how_to_allow.format(name=tool)}",
        )


def _is_among(name: str, names: Collection[str] | None) -> bool:
    if names is None or name in names:
        return True
    return any(each.endswith("*") and name.startswith(each[:-1]) for each in names)


_QUESTION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "The message."},
        "model": {
            "type": "string",
            "minLength": 1,
            "description": "The model, for example `smollm2` or `smollm2@local`; the "
            "default model if omitted.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}


def _described(name: str, feature: Feature[Any]) -> dict[str, Any]:
    what = clean(feature.help, 500).strip() or feature.name
    return {
        "name": name,
        "description": f"Ask {feature.name}: {what}. Each call is a separate conversation.",
        "inputSchema": _QUESTION,
    }


def _calls(payload: Any) -> list[tuple[str, str, Any]]:
    """Return id, tool and arguments of the calls in an approval; empty for other payloads."""
    calls = payload.get("calls") if isinstance(payload, Mapping) else None
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        return []
    return [
        (str(call.get("id")), str(call.get("tool")), call.get("arguments", {})) for call in calls
    ]


def _progress_of(
    events: Generator[Event, None, None],
) -> Generator[ProgressUpdate, bool | None, Answer]:
    """Yield the progress of a turn, and return its answer."""
    answer = None
    with closing(events):
        for event in events:
            if event.kind == "progress" and isinstance(event.data, Progress):
                yield ProgressUpdate(one_line(event.data.text))
            elif event.kind == "step":
                yield ProgressUpdate(one_line(event.data.title))
            answer = event.answer or answer
    assert answer is not None  # a turn that does not raise ends with it
    return answer
