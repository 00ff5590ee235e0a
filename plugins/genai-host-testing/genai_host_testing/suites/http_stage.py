"""Base of the tests for HTTP providers: a fake service on this machine, and valid replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from genai_host.api.settings import describe
from genai_host.config import InstanceConfig
from genai_host.host import Host
from genai_host_testing.fake_service import (
    HANG,
    Act,
    FakeService,
    Received,
    Reply,
    reply,
    stream_reply,
)
from genai_host_testing.suites.provider import ProviderSuite

CANARY = "sk-canary-5f2b91d07c"
"""An API key that only the service may see."""

DEFAULT_LIMITS = {"first_token_timeout": 60, "read_timeout": 60, "timeout": 600}
ANSWER = "hello"


class HttpStage(ProviderSuite):
    """See `HttpProviderSuite`."""

    keys: Sequence[str]
    environment: Mapping[str, str] = {}
    json_type = "application/json"
    stream_type = "text/event-stream"
    closing_events = 1
    malformed = b"{"
    overflow: bytes | None = None
    late_error: bytes | None = None
    filtered: bytes | None = None
    service: FakeService
    _found_keys: Mapping[str, Any]

    def body(self, text: str) -> bytes:
        raise NotImplementedError

    def events(self, pieces: Sequence[str]) -> Sequence[bytes]:
        raise NotImplementedError

    def frame(self, event: bytes) -> bytes:
        return b"data: " + event + b"\n\n"

    def carries_key(self, request: Received) -> bool:
        return any(CANARY in value for value in request.headers.values())

    @pytest.fixture(autouse=True)
    def _served(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("NO_PROXY", "*")
        for name, value in {**self.environment, **dict.fromkeys(self.keys, CANARY)}.items():
            monkeypatch.setenv(name, value)
        with FakeService([reply(status=599)]) as self.service:
            self.settings = {**self._keys(), **self._at_service(self.settings)}
            self.slow = self._at_service(self.slow)
            yield

    def stage(
        self, *, instances: Mapping[str, InstanceConfig] | None = None, **options: Any
    ) -> Host:
        """A host as for any provider, with the default timeouts and no instance at the real address
        of the service."""
        nowhere = InstanceConfig(self.provider, enabled=False)
        others = {self.provider: nowhere, **(instances or {})}
        return super().stage(instances=others, **{**DEFAULT_LIMITS, **options})

    def will_answer(self, way: str) -> None:
        self.service.replies = [self.good(way)]

    def will_stall(self, way: str) -> None:
        if way == "whole":
            self.service.replies = [Reply([HANG])]
        else:
            self.service.replies = [self.streamed([*self.begun(), HANG])]

    def wait_until_under_way(self) -> None:
        self.service.wait_for_requests(1)

    def good(self, way: str) -> Reply:
        """A reply with the text `ANSWER`."""
        if way == "whole":
            return self.reply(self.body(ANSWER))
        return self.streamed(self.frames(["hel", "lo"]))

    def reply(self, body: bytes, status: int = 200, **headers: str) -> Reply:
        """A whole JSON reply; `_` stands for `-` in the names of headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return reply(body, status, {"Content-Type": self.json_type, **named})

    def refusal(self, status: int, message: str = "no", **headers: str) -> Reply:
        return self.reply(json.dumps({"error": {"message": message}}).encode(), status, **headers)

    def streamed(self, frames: Sequence[bytes | Act]) -> Reply:
        return stream_reply(frames, content_type=self.stream_type)

    def frames(self, pieces: Sequence[str]) -> list[bytes]:
        """Events of a whole answer, as bytes."""
        return [self.frame(event) for event in self.events(pieces)]

    def begun(self) -> list[bytes]:
        """Events of an answer up to its first chunk, `hel`."""
        return self.frames(["hel", "lo"])[: self.begins(["hel", "lo"])]

    def begins(self, pieces: Sequence[str]) -> int:
        """Number of events up to the first chunk."""
        return next(
            count for count in range(1, 100) if self.heard(self.events(pieces)[:count], pieces)
        )

    def heard(self, events: Sequence[bytes], pieces: Sequence[str]) -> str:
        """Text in the first events of an answer. Override it if events do not contain chunks
        unchanged; the chunks in the suite are all different."""
        whole = b"".join(events)
        return "".join(piece for piece in pieces if piece.encode() in whole)

    def _keys(self) -> Mapping[str, Any]:
        """Keys by variable, once per class. Variables apply only to the instance that has the name
        of its type."""
        suite = type(self)
        if "_found_keys" not in vars(suite):
            kinds = [each for each in self.declared().providers if each.name == self.provider]
            suite._found_keys = {
                setting.name: {"env": variable}
                for kind in kinds
                for setting in describe(kind.settings)
                for variable in setting.env
                if setting.secret and variable in self.keys
            }
        return suite._found_keys

    def _at_service(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value.replace("{url}", self.service.url) if isinstance(value, str) else value
            for name, value in settings.items()
        }
