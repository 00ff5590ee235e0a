"""Tokens that budgets count if a service reports none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import genai_vendor_openai
import pytest

from genai_host import Config, Host
from genai_host.api import Embeddings, File, Transcription
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import BudgetExceeded
from genai_host_testing import FakeService, ManualClock
from genai_host_testing.fake_service import json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = pytest.mark.part


@pytest.mark.parametrize(
    ("reply", "call", "tokens"),
    [
        ({"data": [{"embedding": [0.5]}] * 2}, lambda host: embed(host, "é" * 20, "a"), 11),
        ({"data": [{"embedding": [0.5]}] * 2}, lambda host: embed(host, [1, 2, 3], "abcd"), 4),
        ({"text": "one two three"}, lambda host: transcribe(host), 4),
    ],
    ids=["texts", "token ids", "speech"],
)
def test_tokens_of_embeddings_and_transcriptions_are_estimated(
    make_host: MakeHost,
    make_store: MakeStore,
    service: FakeService,
    reply: Any,
    call: Callable[[Host], Any],
    tokens: int,
) -> None:
    service.replies = [json_reply(reply)] * 2
    budgets = BudgetsConfig(user=BudgetConfig(day_tokens=tokens))
    host = make_host(
        config=Config(budgets=budgets),
        prices=SimpleNamespace(price=lambda *_: None),
        store=make_store(),
        clock=ManualClock(),  # a day does not end amid a test
        openai=genai_vendor_openai,
    )
    host.instances.add("gate", "openai-compatible", {"base_url": service.url})
    assert call(host).usage.total == 0  # it is what the service reports
    with pytest.raises(BudgetExceeded, match=f" {tokens} of {tokens} tokens"):
        call(host)


def embed(host: Host, *texts: str | list[int]) -> Embeddings:
    return host.embed(texts, model="gate/m")


def transcribe(host: Host) -> Transcription:
    return host.transcribe(File(b"sound", "audio/wav", "a.wav"), model="gate/m")
