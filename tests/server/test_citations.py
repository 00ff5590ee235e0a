"""Citations of web pages that a service of any format gives, for clients of all formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cited_replies import (
    CITED,
    FLAT,
    GROUNDED,
    LOCATION,
    NESTED,
    PAGE,
    SERVICES,
    TEXT,
    UNPLACED,
    said,
    unplaced,
)
from format_services import Send, provider_at

from genai_host_testing.fake_service import FakeService

pytestmark = pytest.mark.part


def data_in(body: bytes, streamed: bool) -> list[Any]:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in lines if each != "[DONE]"] if streamed else [
        json.loads(body)
    ]  # fmt: skip


def seen_in_chat(values: list[Any], streamed: bool) -> Any:
    pieces = [each["choices"][0]["delta" if streamed else "message"] for each in values]
    text = "".join(each.get("content") or "" for each in pieces)
    [found] = [note for each in pieces for note in each.get("annotations", ())]
    return text, found == NESTED


def seen_in_responses(values: list[Any], streamed: bool) -> Any:
    *events, last = values
    kind = "response.output_text.annotation.added"
    added = [each["annotation"] for each in events if each["type"] == kind]
    assert added == [FLAT] * streamed
    output = last.get("response", last)["output"]
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    ended = [each["part"] for each in events if each["type"] == "response.content_part.done"]
    assert ended == parts * streamed
    begin, found = 0, []
    for part in parts:
        for each in part["annotations"]:
            places = {name: each[name] + begin for name in ("start_index", "end_index")}
            found.append({**each, **places})
        begin += len(part["text"])
    return "".join(part["text"] for part in parts), found == [FLAT]


def seen_in_anthropic(values: list[Any], streamed: bool) -> Any:
    """The passage of a stream that has been sent before its citation is the whole block."""
    blocks = [] if streamed else values[0]["content"]
    for each in values:
        if each["type"] == "content_block_start":
            blocks.append(each["content_block"])
        elif each["type"] == "content_block_delta":
            delta = each["delta"]
            if delta["type"] == "citations_delta":
                blocks[-1]["citations"].append(delta["citation"])
            else:
                blocks[-1]["text"] += delta["text"]
    [(passage, cited)] = [(each["text"], each["citations"]) for each in blocks if each["citations"]]
    assert passage == CITED or (streamed and passage == TEXT)
    expected = {"type": LOCATION["type"], **PAGE}
    same = [{name: each[name] for name in expected} == expected for each in cited]
    assert {"cited_text", "encrypted_index"} <= cited[0].keys()
    return "".join(each["text"] for each in blocks), same == [True]


def seen_in_gemini(values: list[Any], streamed: bool) -> Any:
    candidates = [each["candidates"][0] for each in values]
    parts = [part for each in candidates for part in each["content"]["parts"]]
    [found] = [each["groundingMetadata"] for each in candidates if "groundingMetadata" in each]
    [support] = found["groundingSupports"]
    segment = support["segment"]
    texts = [part["text"] for part in parts]
    whole = "".join(texts) if streamed else texts[segment.pop("partIndex", 0)]
    assert whole.encode()[segment["startIndex"] : segment["endIndex"]].decode() == CITED
    same = found["groundingChunks"] == GROUNDED["groundingChunks"] and segment["text"] == CITED
    return "".join(texts), same and support["groundingChunkIndices"] == [0]


HI = [{"role": "user", "content": "hi"}]
GEMINI = "/v1beta/models/{}:generateContent", "/v1beta/models/{}:streamGenerateContent"
CLIENTS: Mapping[str, tuple[tuple[str, str], Any, Callable[[list[Any], bool], Any]]] = {
    "chat": (("/v1/chat/completions",) * 2, {"messages": HI}, seen_in_chat),
    "responses": (("/v1/responses",) * 2, {"input": "hi", "store": False}, seen_in_responses),
    "anthropic": (("/v1/messages",) * 2, {"max_tokens": 9, "messages": HI}, seen_in_anthropic),
    "gemini": (GEMINI, {"contents": [{"parts": [{"text": "hi"}]}]}, seen_in_gemini),
}  # fmt: skip


@pytest.fixture
def ask(service: FakeService, send_to: Send) -> Callable[..., bytes]:
    """Sends requests to a server with a service of a format."""

    def ask(
        kind: str, client: str, *, streamed: bool = False, model: str = "x", **more: Any
    ) -> bytes:
        reply, provider, settings = SERVICES[kind]
        service.replies = [reply(streamed)]
        (whole, stream), body, _ = CLIENTS[client]
        is_gemini = client == "gemini"
        named = {} if is_gemini else {"model": model, "stream": streamed}
        found = send_to(
            (stream if streamed else whole).format(model), {**body, **named, **more},
            {"gate": provider_at(service.url, provider, settings)},
            query={"alt": "sse"} if is_gemini else {},
        )  # fmt: skip
        data = found.body if isinstance(found.body, bytes) else b"".join(map(bytes, found.body))
        assert found.status == 200, data
        return data

    return ask


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", SERVICES)
def test_citations_reach_clients_of_all_formats(
    ask: Callable[..., bytes], kind: str, client: str, streamed: bool
) -> None:
    values = data_in(ask(kind, client, streamed=streamed), streamed)
    assert CLIENTS[client][2](values, streamed) == (TEXT, True)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_citations_reach_clients_of_a_feature(
    ask: Callable[..., bytes], client: str, streamed: bool
) -> None:
    values = data_in(ask("chat", client, streamed=streamed, model="feature:chat"), streamed)
    assert CLIENTS[client][2](values, streamed) == (TEXT, True)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_citation_without_a_passage_is_of_the_whole_text(
    ask: Callable[..., bytes], client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some services give no positions."""
    monkeypatch.setitem(SERVICES, "chat", (unplaced, *SERVICES["chat"][1:]))
    [found] = data_in(ask("chat", client), streamed=False)
    if client == "anthropic":
        [block] = found["content"]
        assert (block["text"], block["citations"][0]["url"]) == (TEXT, PAGE["url"])
    elif client == "gemini":
        [support] = found["candidates"][0]["groundingMetadata"]["groundingSupports"]
        segment = {"startIndex": 0, "endIndex": len(TEXT.encode()), "text": TEXT}
        assert support["segment"] == segment
    elif client == "responses":
        assert found["output"][0]["content"][0]["annotations"][0]["end_index"] == len(TEXT)
    else:  # the format of the service
        assert found["choices"][0]["message"]["annotations"] == [UNPLACED]


def test_blanks_are_no_block_of_their_own(
    ask: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [(1, 4), (5, 6), (7, 8)]
    notes = [
        {**FLAT, "url": f"https://{at}", "start_index": at, "end_index": end} for at, end in places
    ]
    reply = said(" One a b.\n", notes)
    monkeypatch.setitem(SERVICES, "chat", (lambda _: reply, *SERVICES["chat"][1:]))
    [found] = data_in(ask("chat", "anthropic"), streamed=False)
    blocks = [(each["text"], [c["url"] for c in each["citations"]]) for each in found["content"]]
    assert blocks == [
        (" One", ["https://1"]), (" a", ["https://5"]), (" b", ["https://7"]), (".\n", [])
    ]  # fmt: skip


def test_citations_of_others_are_not_sent_to_the_service_again(
    ask: Callable[..., bytes], service: FakeService
) -> None:
    """It accepts those that it has encrypted itself."""
    [answer] = data_in(ask("gemini", "anthropic"), streamed=False)
    said = {"role": "assistant", "content": answer["content"]}
    ask("anthropic", "anthropic", messages=[*HI, said, *HI])
    sent = service.requests[-1].json()["messages"][1]["content"]
    assert "citations" not in json.dumps(sent)
