"""The progress of a run, for clients: its states, steps and messages, as documents and as events.

All of it may be repeated by a worker that continues after another was killed. The ids of steps
and messages follow from the run, and the first version of each stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from genai_wire_openai.server.objects import Object, ObjectStore, shown

from genai_feature_assistants.service.run_states import (
    USED,
    RunStates,
    Streams,
    end_steps,
    id_of,
    new_step,
    shown_step,
    usage_of,
    without_content,
)
from genai_feature_assistants.service.run_tools import (
    CODE,
    AnnotatedPieces,
    CallResult,
    annotations_of,
    begun,
)
from genai_feature_assistants.service.threads import made, text_content

_CUT = ("cancelled", "expired", "failed")  # states of a run that leave its last message incomplete


@define(eq=False, repr=False)
class RunProgress:
    """The progress of one run, as one worker knows it."""

    _user: str
    run: Object
    _states: RunStates
    _steps: ObjectStore
    _messages: ObjectStore
    _to: Streams
    # of the message that is streamed: its round, or -1, and its texts until it is added
    _streamed_round: int = field(default=-1, init=False)
    _streamed: list[str] = field(factory=list, init=False)
    _pieces: AnnotatedPieces = field(init=False)

    def begin(self, conversation: str) -> None:
        """Mark the run as in progress. `conversation` is the id of its event log."""
        self.run, has_begun = self._states.move(
            self._user, self.run, "in_progress", _conversation=conversation
        )
        if has_begun:
            self._publish("thread.run.in_progress", shown(self.run))

    def rounds(self) -> int:
        """Return the number of rounds of tool calls."""
        return sum(step["type"] == "tool_calls" for step in self._steps.all())

    def publish_text(self, round: int, text: str) -> None:
        """Pass a streamed piece of an answer to the listeners."""
        message = self._message(round)
        if self._streamed_round != round:
            self._streamed_round = round
            self._streamed = []
            self._pieces = AnnotatedPieces(*self._sources())
            self._begin_message(round, message)
        self._streamed.append(text)
        for piece in self._pieces.add(text):
            self._publish_piece(message["id"], piece)

    def discard_text(self) -> None:
        """Discard the streamed text of the current round: its prompt is sent again."""
        self._streamed = []

    def add_message(
        self, round: int, text: str, usage: Mapping[str, int] | None = None, *, cut: bool = False
    ) -> None:
        """Add a complete message. `usage` is None if the tokens count for its tool calls; `cut` is
        whether it ends at a limit."""
        self._streamed = []
        is_begun, self._streamed_round = self._streamed_round == round, -1
        message = self._message(round)
        step = self._step(round, "message_creation", {"message_id": message["id"]})
        if self._steps.find(step["id"]) is not None:  # before its client was asked, or by others
            return
        if not is_begun:
            self._pieces = AnnotatedPieces(*self._sources())
            self._begin_message(round, message)
            for piece in self._pieces.add(text):
                self._publish_piece(message["id"], piece)
        self._keep_message(message, text, "max_tokens" if cut else "")
        step.update(status="completed", completed_at=self._steps.now())
        step["usage"] = dict(usage or dict.fromkeys(USED, 0))
        self._publish_step("completed", self._steps.add_once(step))

    def call(self, round: int, calls: Sequence[Mapping[str, Any]]) -> Object:
        """Add the step of tool calls. The calls are those of the payload of `assistant.TOOLS`."""
        begun_calls = [begun(call) for call in calls]
        private: dict[str, Any] = {"_outputs": {}, "_found": [], "_made": {}}
        new = {**self._step(round, "tool_calls", begun_calls), **private}
        known = self._steps.find(new["id"])
        if known is not None:  # its client has given some outputs, or others were at it
            return known
        step = self._steps.add_once(new)
        empty = {**step, "step_details": {"type": "tool_calls", "tool_calls": []}}
        self._publish_step("created", empty)
        self._publish_step("in_progress", empty)
        self._publish_calls(step["id"], list(enumerate(begun_calls)))
        return step

    def called(self, step: Object, id: str, given: CallResult) -> Object:
        """Add the result of a tool of the server, and return the step."""

        def make(found: Object) -> tuple[Object | None, Object]:
            if id in found["_outputs"]:
                return None, found
            # a mark that a model is shown counts through all passages of its round
            value = {
                **_with_call(found, id, given.step_call),
                "_outputs": {**found["_outputs"], id: given.output},
                "_found": [*found["_found"], *given.found],
                "_made": {**found["_made"], **given.files},
            }
            return value, value

        changed = self._steps.change(step["id"], make)
        number = [call["id"] for call in step["step_details"]["tool_calls"]].index(id)
        step_call = given.step_call if self.run["_content"] else without_content(given.step_call)
        self._publish_calls(step["id"], [(number, _result_delta(step_call))])
        return changed

    def require(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Require the client to call functions."""
        functions = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
        kind = "submit_tool_outputs"
        action = {"type": kind, kind: {"tool_calls": functions}}
        self.run, is_so = self._states.move(
            self._user, self.run, "requires_action", required_action=action
        )
        if is_so:
            self._publish("thread.run.requires_action", shown(self.run))
        else:  # it was cancelled meanwhile
            self.end("cancelled")

    def close_calls(
        self, step: Object, outputs: Mapping[str, str], usage: Mapping[str, int]
    ) -> Mapping[str, str]:
        """Complete the step of a round, and return the outputs that count."""

        def make(found: Object) -> tuple[Object | None, Object]:
            if found["status"] == "completed":
                return None, found
            value = {**found, "_outputs": {**outputs, **found["_outputs"]}}
            for call in found["step_details"]["tool_calls"]:
                if call["type"] == "function":
                    output = value["_outputs"].get(call["id"], "")
                    function = {**call["function"], "output": output}
                    value = _with_call(value, call["id"], {**call, "function": function})
            value.update(status="completed", completed_at=self._steps.now(), usage=dict(usage))
            return value, value

        closed = self._steps.change(step["id"], make)
        self._publish_step("completed", closed)
        given: Mapping[str, str] = closed["_outputs"]
        return given

    def end(self, status: str, **fields: Any) -> None:
        """End the run and its steps. What was streamed of a message is kept."""
        if status in _CUT:
            self._cut_message(f"run_{status}")
        error = {"last_error": fields["last_error"]} if "last_error" in fields else {}
        for step in end_steps(self._steps, status, **error):
            self._publish_step(step["status"], step)
        usage = usage_of(self._steps)
        self.run, has_ended = self._states.move(self._user, self.run, status, usage=usage, **fields)
        if has_ended:
            self._publish(f"thread.run.{status}", shown(self.run))

    def _cut_message(self, reason: str) -> None:
        """Keep an incomplete message, if one was begun, and its step, which is in progress."""
        text = "".join(self._streamed)
        if self._streamed_round < 0 or not self._states.is_active(self._user, self.run):
            return
        message = self._message(self._streamed_round)
        self._keep_message(message, text, reason)
        details = {"message_id": message["id"]}
        self._steps.add_once(self._step(self._streamed_round, "message_creation", details))

    def _keep_message(self, message: dict[str, Any], text: str, incomplete: str) -> None:
        """Add a message that was streamed. `incomplete` is the reason why it is incomplete."""
        for piece in self._pieces.rest():
            self._publish_piece(message["id"], piece)
        if text.strip() or not incomplete:
            message["content"] = [text_content(text, annotations_of(text, *self._sources()))]
        if incomplete:
            now = self._messages.now()
            message.update(status="incomplete", completed_at=None, incomplete_at=now)
            message["incomplete_details"] = {"reason": incomplete}
        kept = self._messages.add_once(message)
        self._publish(f"thread.message.{kept['status']}", shown(kept))

    def _sources(self) -> tuple[dict[int, Sequence[str]], dict[str, str]]:
        """Return the ids of the files of passages by round, and of created files by name."""
        steps = [step for step in self._steps.all() if step["type"] == "tool_calls"]
        made_files: dict[str, str] = {}
        for step in steps:
            made_files.update(step["_made"])
        return {number: step["_found"] for number, step in enumerate(steps)}, made_files

    def _message(self, round: int) -> dict[str, Any]:
        run = self.run
        message = {
            "id": id_of("msg", run["id"], round, "message"),
            "role": "assistant",
            "content": [],
            "attachments": [],
            "assistant_id": run["assistant_id"],
            "run_id": run["id"],
            "metadata": {},
        }
        return made(self._messages, run["thread_id"], message)

    def _begin_message(self, round: int, message: Mapping[str, Any]) -> None:
        step = self._step(round, "message_creation", {"message_id": message["id"]})
        self._publish_step("created", step)
        self._publish_step("in_progress", step)
        begun = {**message, "status": "in_progress", "completed_at": None}
        self._publish("thread.message.created", begun)
        self._publish("thread.message.in_progress", begun)

    def _step(self, round: int, kind: str, details: Any) -> dict[str, Any]:
        return new_step(self.run, round, kind, details, self._steps.now())

    def _publish_step(self, how: str, step: Object) -> None:
        self._publish(f"thread.run.step.{how}", shown_step(step, content=self.run["_content"]))

    def _publish_calls(self, step: str, calls: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        indexed = [{"index": number, **call} for number, call in calls]
        details = {"type": "tool_calls", "tool_calls": indexed}
        self._publish_delta("thread.run.step", step, {"step_details": details})

    def _publish_piece(self, message: str, piece: Mapping[str, Any]) -> None:
        content = [{"index": 0, "type": "text", "text": piece}]
        self._publish_delta("thread.message", message, {"content": content})

    def _publish_delta(self, kind: str, id: str, delta: Any) -> None:
        self._publish(f"{kind}.delta", {"id": id, "object": f"{kind}.delta", "delta": delta})

    def _publish(self, event: str, value: Object) -> None:
        self._to.publish(self.run["id"], event, value)


def _result_delta(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a call, without what was streamed when it began.

    Clients concatenate texts of deltas.
    """
    kind = call["type"]
    if kind == CODE:
        outputs = [{"index": number, **each} for number, each in enumerate(call[kind]["outputs"])]
        return {"type": kind, kind: {"outputs": outputs}}
    return {name: value for name, value in call.items() if name != "id"}


def _with_call(step: Object, id: str, replacement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step in which a call is replaced."""
    calls = step["step_details"]["tool_calls"]
    changed = [replacement if call["id"] == id else call for call in calls]
    return {**step, "step_details": {"type": "tool_calls", "tool_calls": changed}}
