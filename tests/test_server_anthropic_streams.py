"""Streams of our Anthropic API: the blocks that the pieces of an answer become."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from genai_host.api import Completion, Delta, Message, Opaque, Reasoning, Text
from genai_host.server.anthropic.replies import Writer
from genai_host.server.asking import Answering

OWN = "anthropic-messages"


def streamed(*deltas: Delta, said: Any, shows: bool = True) -> list[dict[str, Any]]:
    """The blocks that an answer becomes, put together."""

    def answer() -> Generator[Delta, None, Completion]:
        yield from deltas
        return Completion(Message("assistant", said))

    blocks: list[dict[str, Any]] = []
    for event in Writer("m", in_json=False, shows_thoughts=shows).events(Answering(answer())):
        data = json.loads(event.partition(b"data: ")[2])
        if data["type"] == "content_block_start":
            blocks.append(data["content_block"])
        if data["type"] == "content_block_delta":
            (name,) = data["delta"].keys() - {"type"}
            blocks[data["index"]][name] += data["delta"][name]
    return blocks


@pytest.mark.parametrize("shows", [False, True])
def test_thoughts_of_a_stream_are_signed_each(shows: bool) -> None:
    one, two = (
        Opaque(OWN, {"type": "thinking", "thinking": thought, "signature": sign})
        for thought, sign in (("one", "MQ"), ("two", "Mg"))
    )
    deltas = [
        Delta(reasoning="o"), Delta(reasoning="ne"), Delta(opaque=one),
        Delta(reasoning="\n\ntwo"), Delta(opaque=two), Delta("so"),
    ]  # fmt: skip
    said = [Reasoning("one"), one, Reasoning("two"), two, Text("so")]
    blocks = streamed(*deltas, said=said, shows=shows)
    assert blocks == [one.data, two.data, {"type": "text", "text": "so"}]


def test_what_did_not_come_in_pieces_comes_at_the_end() -> None:
    hidden = Opaque(OWN, {"type": "redacted_thinking", "data": "c2Vj"})
    text = {"type": "text", "text": "so"}
    said = [Reasoning("hm"), Text("so"), hidden, Opaque("other", {"type": "x"})]
    assert streamed(Delta("so"), said=said) == [text, hidden.data]
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert streamed(Delta("so"), said=said[:2]) == [text, thought]
    assert streamed(Delta("so"), said=said[:2], shows=False) == [text]
