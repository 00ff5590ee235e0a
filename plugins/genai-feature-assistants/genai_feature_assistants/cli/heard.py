"""What is heard of a run as it goes on: printed piece by piece, and known as a whole in the
end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field

from genai_feature_assistants.cli.terminal import note
from genai_host.api import RouteResponse
from genai_host.api.json_text import read_json
from genai_host.errors import Cancelled, GenaiError, GenerationError, ProviderTimeout


def events_in(reply: RouteResponse) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of a reply that is a stream of them, but for the last, `done`."""
    pieces = reply.body
    assert not isinstance(pieces, bytes)
    for piece in pieces:
        head, _, data = piece.decode().partition("\n")
        name = head.removeprefix("event: ")
        if name != "done":
            yield name, read_json(data.removeprefix("data: ").strip())


@define
class Heard:
    """
    show     prints a piece of an answer
    run      how the run was when it was heard of last; empty at first
    text     what was said, messages apart by an empty line
    cited    annotations of the messages, in order
    images   ids of the pictures that code has made
    """

    show: Callable[[str], None]
    run: Mapping[str, Any] = field(factory=dict)
    text: str = ""
    cited: list[Mapping[str, Any]] = field(factory=list)
    images: list[str] = field(factory=list)
    _now: str = ""

    @property
    def has_said(self) -> bool:
        """Whether anything was shown."""
        return bool(self.text or self._now)

    def take(self, name: str, value: Mapping[str, Any]) -> None:
        """An event."""
        if name.startswith("thread.run.step."):
            self._take_step(name, value)
        elif name.startswith("thread.run."):
            self.run = value
        elif name == "thread.message.delta":
            for block in value["delta"]["content"]:
                self._say(block["text"]["value"])
        elif name in ("thread.message.completed", "thread.message.incomplete"):
            self._end_message(value)
        elif name == "error":
            note(str(value["message"]))

    def _say(self, piece: str) -> None:
        if piece and not self._now and self.text:
            self.show("\n\n")
        self._now += piece
        self.show(piece)

    def _end_message(self, message: Mapping[str, Any]) -> None:
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        whole = "".join(text["value"] for text in texts)
        if whole.startswith(self._now):
            self._say(whole[len(self._now) :])
        elif whole != self._now:  # it was begun anew
            self.show(f"\n\n{whole}")
        self.cited += [each for text in texts for each in text["annotations"]]
        self.text = "\n\n".join(filter(None, [self.text, whole]))
        self._now = ""

    def _take_step(self, name: str, step: Mapping[str, Any]) -> None:
        if name != "thread.run.step.completed" or step["type"] != "tool_calls":
            return
        for call in step["step_details"]["tool_calls"]:
            for output in call.get("code_interpreter", {}).get("outputs", ()):
                if output["type"] == "image":
                    self.images.append(output["image"]["file_id"])

    def must_be_answered(self) -> None:
        """Raises an error of the host that says why there is no answer; what ends it early is
        noted."""
        status = self.run.get("status")
        if status == "incomplete":
            note(f"the answer ends early: {self.run['incomplete_details']['reason']}")
        elif status != "completed":
            raise _error(self.run)


def _error(run: Mapping[str, Any]) -> GenaiError:
    status = run.get("status")
    if status == "cancelled":
        return Cancelled("the run was cancelled")
    if status == "expired":
        return ProviderTimeout("the run took longer than it may", hint="say it again, in parts")
    if status == "failed":
        told = run["last_error"]["message"]
        return GenerationError(f"the run failed: {told}")
    if status == "requires_action":
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        names = ", ".join(dict.fromkeys(call["function"]["name"] for call in calls))
        return GenerationError(
            f"the assistant asks for its function {names:.200}, which cannot be called from here",
            hint="run it from the program that has the function: genai-host serve, and its "
            "OpenAI client with base_url http://127.0.0.1:8642/v1",
        )
    return GenerationError("the run has not ended", hint="genai-host serve goes on with it")
