"""The world around the hosts: a model service, and tools whose side effects are counted.

A model follows the user's message, so that equal messages have equal answers:

    u7|mail|note,pay     first call `mail`, then `note` and `pay` in parallel, then answer "a7"
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    Model,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    StreamEvent,
    Tool,
    ToolContext,
    Usage,
)
from genai_host.errors import ServiceUnavailable
from genai_host_testing import InlinePlugin
from simulation.schedule import Schedule

TOOLS = ("note", "mail", "pay", "late", "boom", "exit")
REPEATABLE = {"note"}
ASKED = {"pay"}
INPUT, OUTPUT = 0.001, 0.002  # US dollars per token
COUNTS = (2**63, 2**64, 2**53, -5, 2**63 - 1, 1e300, 1.5, "3", True, None, [3])
"""Token counts of services that report invalid usage."""


class Trouble:
    """Failures of services, drawn for each call.

    Args:
        share: Share of the calls that fail.
        kinds: The failures.
    """

    KINDS = (
        *("500", "503", "429", "401", "refused", "cut", "garbage"),
        *("hang", "no usage", "huge usage", "odd usage"),
    )

    def __init__(
        self, draw: Callable[[str], random.Random], share: float, kinds: Sequence[str] = KINDS
    ) -> None:
        self.share = share
        self._draw = draw
        self._kinds = kinds

    def next(self) -> str:
        rng = self._draw("service")
        return rng.choice(self._kinds) if rng.random() < self.share else ""

    def seconds(self) -> float:
        return self._draw("latency").choice((0.01, 0.2, 1.0, 4.0))

    def count(self) -> Any:
        return self._draw("count").choice(COUNTS)


class World:
    """Services, tools, and their effects.

    Attributes:
        effects: How often each call of a tool had its side effect, by tool and key; the service
            puts a new key into the arguments of each call.
        logical: The same by tool and position in the user's message, for all keys.
        approved: Keys of calls that the user has approved.
        on_call: Called with the messages of each model call before it is answered.
    """

    def __init__(self, schedule: Schedule, trouble: Trouble) -> None:
        self.schedule = schedule
        self.trouble = trouble
        self.effects: Counter[str] = Counter()
        self.logical: Counter[str] = Counter()
        self.approved: set[str] = set()
        self.calls = 0
        self.on_call: Callable[[Sequence[Mapping[str, Any]]], None] = lambda messages: None
        self._keys = 0

    def plugin(self) -> InlinePlugin:
        return InlinePlugin(
            providers=[
                ProviderType(name, NoSettings, lambda settings, services: Service(self))
                for name in ("near", "far")
            ],
            models=[
                Model(
                    "sim",
                    dialects=["openai-chat"],
                    capabilities={"tools", "stream"},
                    at={"near": "sim", "far": "sim"},
                )
            ],
            tools=[self._tool(name) for name in TOOLS],
        )

    def key(self) -> str:
        self._keys += 1
        return f"k{self._keys}"

    def _tool(self, name: str) -> Tool:
        def run(arguments: Mapping[str, Any], context: ToolContext) -> str:
            self.schedule.pause()
            if name == "late":  # longer than its time limit; it ignores cancellation
                self.schedule.sleep(15.0)
            self.effects[f"{name} {arguments['key']}"] += 1
            self.logical[f"{name} {arguments['of']}"] += 1
            self.schedule.pause()
            if name == "boom":
                raise RuntimeError("boom")
            if name == "exit":
                raise SystemExit(3)
            return f"{name} done"

        return Tool(
            name,
            f"does {name}",
            run,
            {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
            approval="ask" if name in ASKED else "allow",
            idempotent=name in REPEATABLE,
            timeout=5.0,
        )


class Service(Provider):
    """A service with OpenAI's chat API."""

    serves = {"openai-chat": DialectEndpoint()}
    default_models = {"chat": "sim"}

    def __init__(self, world: World) -> None:
        self._world = world

    def price_provider(self, model_id: str) -> str:
        return "sim"

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        trouble, message, usage = self._answer(request, limits)
        if trouble.isdigit():
            return _refusal(int(trouble))
        if trouble == "garbage":
            return ProviderReply(b'{"choices": [{"mess')
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **usage}
        return ProviderReply(json.dumps(body).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> Chunks | ProviderReply:
        trouble, message, usage = self._answer(request, limits)
        if trouble.isdigit():
            return _refusal(int(trouble))
        return Chunks(_chunks(self._world.schedule, limits, trouble, message, usage))

    def _answer(
        self, request: ProviderRequest, limits: CancelToken
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Return the failure, the message and the usage, after a delay."""
        world, body = self._world, json.loads(request.data())
        world.calls += 1
        world.on_call(body["messages"])
        trouble = world.trouble.next()
        if trouble == "refused":
            raise ServiceUnavailable("connection refused")
        ended: list[bool] = []
        with limits.on_cancel(lambda: ended.append(True)):
            seconds = 10_000.0 if trouble == "hang" else world.trouble.seconds()
            world.schedule.sleep(seconds, lambda: bool(ended))
        limits.check()
        usage: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": 2}
        if trouble == "huge usage":
            usage = {"prompt_tokens": 10**9, "completion_tokens": 0}
        if trouble == "odd usage":
            usage = {name: world.trouble.count() for name in usage}
        shown = {} if trouble == "no usage" else {"usage": usage}
        return trouble, _message(world, body["messages"]), shown


class Chunks:
    """A streamed reply."""

    def __init__(self, chunks: Iterator[StreamEvent]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._chunks

    def close(self) -> None:
        """The chunks check their limits, so there is nothing to close."""


def _chunks(
    schedule: Schedule,
    limits: CancelToken,
    trouble: str,
    message: dict[str, Any],
    usage: dict[str, Any],
) -> Iterator[StreamEvent]:
    calls = message.get("tool_calls", [])
    deltas: list[dict[str, Any]] = [{"content": each} for each in message["content"] or ""]
    deltas += [{"tool_calls": [{"index": n, **call}]} for n, call in enumerate(calls)]
    for number, delta in enumerate(deltas):
        schedule.pause()
        limits.check()
        if number == 1 and trouble == "cut":
            raise ServiceUnavailable("connection reset")
        if number == 1 and trouble == "garbage":
            yield StreamEvent(b'{"choices": [{"del')
        yield _event({"choices": [{"index": 0, "delta": delta}]})
    finish = "tool_calls" if calls else "stop"
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **usage})
    yield StreamEvent(b"[DONE]")


def _event(value: Mapping[str, Any]) -> StreamEvent:
    return StreamEvent(json.dumps(value).encode())


def _refusal(status: int) -> ProviderReply:
    return ProviderReply(b'{"error": {"message": "no"}}', status=status)


def _message(world: World, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the next step that the user's last message requests."""
    last = max(n for n, each in enumerate(messages) if each["role"] == "user")
    name, *rounds = text_of(messages[last]).split("|")
    done = sum(each["role"] == "assistant" for each in messages[last:])
    if done >= len(rounds):
        return {"role": "assistant", "content": f"a{name[1:]}"}
    calls = []
    for number, tool in enumerate(rounds[done].split(",")):
        key = world.key()
        arguments = json.dumps({"key": key, "of": f"{name}.{done}.{number}"})
        function = {"name": tool, "arguments": arguments}
        calls.append({"id": f"call_{key}", "type": "function", "function": function})
    return {"role": "assistant", "content": None, "tool_calls": calls}


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, as sent to a service or as stored."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class SimulatedPrices:
    """The price of tokens."""

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float:
        return usage.input_tokens * INPUT + usage.output_tokens * OUTPUT
