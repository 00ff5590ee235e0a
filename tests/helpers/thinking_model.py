"""A model whose reasoning is also streamed, in its position, as services do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from genai_host.api import (
    Completion,
    Delta,
    NoSettings,
    Provider,
    Reasoning,
    Services,
    StreamEvent,
    Text,
    ToolCall,
    VendorPart,
)
from genai_host.api.codec import default_codec
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import _event, _FakeProvider

__all__ = ["ThinkingModel"]


class ThinkingModel(FakeModel):
    def _open(self, settings: NoSettings, services: Services) -> Provider:
        return _ThinkingProvider(self)


class _ThinkingProvider(_FakeProvider):
    def _events(self, completion: Completion) -> Iterator[StreamEvent]:
        for part in completion.message.content:
            for delta in _deltas(part):
                yield _event({"delta": default_codec().to_json(delta)})
        yield _event({"end": default_codec().to_json(completion)})


def _deltas(part: Any) -> Iterator[Delta]:
    if isinstance(part, Text):
        half = len(part.text) // 2
        yield Delta(part.text[:half])
        yield Delta(part.text[half:])
    elif isinstance(part, Reasoning):
        yield Delta(reasoning=part.text)
    elif isinstance(part, VendorPart):
        yield Delta(opaque=part)
    elif isinstance(part, ToolCall):
        yield Delta(tool_call=part)
