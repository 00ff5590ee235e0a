"""Citations of web pages that a service of any format gives: for clients of all formats, in the
events of a turn, in the answer, and in the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import genai_feature_agent
import pytest
from cited_replies import (
    CITED,
    FLAT,
    FOUND,
    GROUNDED,
    LOCATION,
    NESTED,
    PAGE,
    SERVICES,
    TEXT,
    UNPLACED,
    pages,
    said,
    unplaced,
)
from conversing import recorded, reopened
from format_services import PLUGINS, Send, provider_at

from genai_host import Config, Conversation, Host, Message
from genai_host.api import (
    Answer,
    Citation,
    Completion,
    Detail,
    Feature,
    FeatureSteps,
    NoSettings,
    Prompt,
    Text,
    Tool,
    ToolCall,
    Turn,
)
from genai_host.conversations.record import StepStarted, TurnEnded, form_of
from genai_host.conversations.transcript import as_markdown
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt, replay_from_every_entry
from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.fixtures import MakeHost


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


@pytest.mark.part
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", SERVICES)
def test_citations_reach_clients_of_all_formats(
    ask: Callable[..., bytes], kind: str, client: str, streamed: bool
) -> None:
    values = data_in(ask(kind, client, streamed=streamed), streamed)
    assert CLIENTS[client][2](values, streamed) == (TEXT, True)


@pytest.mark.part
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_citations_reach_clients_of_a_feature(
    ask: Callable[..., bytes], client: str, streamed: bool
) -> None:
    values = data_in(ask("chat", client, streamed=streamed, model="feature:chat"), streamed)
    assert CLIENTS[client][2](values, streamed) == (TEXT, True)


@pytest.mark.part
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


@pytest.mark.part
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


@pytest.mark.part
def test_citations_of_others_are_not_sent_to_the_service_again(
    ask: Callable[..., bytes], service: FakeService
) -> None:
    """It accepts those that it has encrypted itself."""
    [answer] = data_in(ask("gemini", "anthropic"), streamed=False)
    said = {"role": "assistant", "content": answer["content"]}
    ask("anthropic", "anthropic", messages=[*HI, said, *HI])
    sent = service.requests[-1].json()["messages"][1]["content"]
    assert "citations" not in json.dumps(sent)


SAID = "It is cold."
OSLO = Citation("https://oslo.example", "Oslo", start=6, end=10)
ROME = Citation("https://rome.example")


def cites(*citations: Citation) -> Message:
    return Message("assistant", Text(SAID, citations=citations))


def sources(*pages: tuple[str, str]) -> list[dict[str, Any]]:
    numbered = enumerate(pages, 1)
    return [{"number": at, "title": title, "link": url} for at, (url, title) in numbered]


@pytest.fixture
def citing(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Conversation]:
    """Opens a chat with a service of a format."""
    monkeypatch.setenv("KEY", "k" * 20)

    def open(kind: str, *, streamed: bool = False) -> Conversation:
        reply, provider, settings = SERVICES[kind]
        service.replies = [reply(streamed)]
        gate = provider_at(service.url, provider, settings)
        config = Config(providers={"gate": gate}, provider_order=("gate",))
        return make_host(config=config, **PLUGINS).open("chat", "x")

    return open


@pytest.fixture
def answering(make_host: MakeHost) -> Callable[..., Host]:
    """Makes a host whose model gives these answers in a turn, in order."""

    def make(*answers: Message, **plugins: Any) -> Host:
        def answer(prompt: RecordedPrompt) -> Completion:
            since = [each.role for each in prompt.messages[::-1]].index("user")
            said = sum(each.role == "assistant" for each in prompt.messages[::-1][:since])
            message = answers[min(said, len(answers) - 1)]
            return Completion(message, "tool_calls" if message.tool_calls else "stop")

        config = Config(models={"chat": "fake"})
        return make_host(fake=FakeModel(answer), config=config, **plugins)

    return make


@pytest.mark.part
class TestServices:
    @pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
    @pytest.mark.parametrize("kind", SERVICES)
    def test_the_pages_are_in_the_answer_and_in_the_history(
        self, citing: Callable[..., Conversation], kind: str, streamed: bool
    ) -> None:
        conversation = citing(kind, streamed=streamed)
        events = list(conversation.stream("hi")) if streamed else []
        answer = events[-1].answer if streamed else conversation.say("hi")
        assert answer is not None
        assert (answer.text, pages(answer.citations)) == (TEXT, FOUND)
        shown = [each for event in events if event.kind == "delta" for each in event.data.citations]
        assert pages(shown) == FOUND * streamed
        link = sources((PAGE["url"], PAGE["title"]))
        assert answer.reactions == ({"type": "sources", "sources": link},)
        assert conversation.history[-1] == answer.message
        assert conversation.history[-1].citations == answer.citations

    def test_the_next_request_has_the_text_alone(
        self, citing: Callable[..., Conversation], service: FakeService
    ) -> None:
        conversation = citing("chat")
        conversation.say("hi")
        conversation.say("and now?")
        assert service.requests[-1].json()["messages"][2] == {"role": "assistant", "content": TEXT}


class TestAnswers:
    def test_a_restored_turn_has_them(self, answering: Callable[..., Host]) -> None:
        host = answering(cites(OSLO))
        conversation = host.open()
        answer = conversation.say("hi")
        assert answer.citations == (OSLO,)
        again = reopened(host, recorded(conversation))
        assert again.history == conversation.history
        assert again.history[-1].citations == (OSLO,)
        assert replay_from_every_entry(host, recorded(conversation)) == 3

    def test_an_answer_without_citations_is_stored_as_before(
        self, answering: Callable[..., Host]
    ) -> None:
        host = answering(cites())
        conversation = host.open()
        conversation.say("hi")
        ended = recorded(conversation).entries[-1]
        assert isinstance(ended, TurnEnded)
        assert form_of(ended, host.codec)["answer"].keys() == {"summary", "details", "cost"}
        assert conversation.history[-1] == Message("assistant", SAID)

    def test_the_digest_of_a_prompt_is_the_same(self, answering: Callable[..., Host]) -> None:
        """A turn that began before they were stored can go on."""
        digests = []
        for message in (cites(OSLO), cites()):
            conversation = answering(message).open()
            conversation.say("hi")
            conversation.say("and now?")
            entries = recorded(conversation).entries
            digests.append([each.digest for each in entries if isinstance(each, StepStarted)])
        assert digests[0] == digests[1]

    def test_a_forgetful_chat_has_them_in_its_answer(self, answering: Callable[..., Host]) -> None:
        host = answering(cites(OSLO))
        conversation = host.open(settings={"keep_history": False})
        assert conversation.say("hi").citations == (OSLO,)
        assert conversation.history == ()

    @pytest.mark.parametrize(
        ("text", "given", "expected"),
        [(SAID, [], [OSLO]), (SAID, [ROME], [ROME]), (f"So: {SAID}", [], []), ("", [], [])],
        ids=["of the model", "of the feature", "of another text", "of no text"],
    )
    def test_a_feature_need_not_pass_them_on(
        self,
        answering: Callable[..., Host],
        text: str,
        given: list[Citation],
        expected: list[Citation],
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            completion = yield from Prompt([turn.message])
            yield from Prompt([turn.message, completion.message])  # has another text
            return Answer(text, citations=given)

        feature = InlinePlugin(features=[Feature("f", NoSettings, respond)])
        host = answering(cites(OSLO), Message("assistant", "Warm."), f=feature)
        answer = host.open("f").say("hi")
        assert list(answer.citations) == expected

    def test_the_summary_of_an_agent_has_those_of_all_its_texts(
        self, answering: Callable[..., Host]
    ) -> None:
        looks = Message("assistant", [Text("Rome?", citations=[ROME]), ToolCall("1", "look")])
        look = Tool("look", "looks", lambda arguments, run: "cold", idempotent=True)
        plugins = {"agent": genai_feature_agent, "look": InlinePlugin(tools=[look])}
        host = answering(looks, cites(OSLO), **plugins)
        conversation = host.open("agent")
        for _ in range(2):
            answer = conversation.say("hi")
            assert answer.text == f"Rome?\n{SAID}"
            assert answer.citations == (ROME.within("Rome?"), OSLO.moved(len("Rome?\n")))
        assert replay_from_every_entry(host, recorded(conversation)) > 2


class TestSources:
    def test_a_page_is_listed_once_and_only_if_it_is_on_the_web(self) -> None:
        urls = [
            "https://b.example/x(1)", "javascript:alert(1)", "file:///etc/passwd", "//c.example",
            "https://a b.example", "https://a.example/\x1b[2J", "https://a.example/>", "https://",
            "HTTP://a.example", "https://b.example/x(1)",
        ]  # fmt: skip
        titles = ["", *map(str, range(1, 9)), "B"]
        given = [Citation(url, title) for url, title in zip(urls, titles, strict=True)]
        [reaction] = Answer(SAID, citations=given).reactions
        listed = sources(("https://b.example/x(1)", "B"), ("HTTP://a.example", "8"))
        assert reaction["sources"] == listed

    def test_those_that_a_feature_lists_itself_are_the_only_ones(self) -> None:
        own = {"type": "sources", "sources": sources(("file:///notes", "Notes"))}
        detail = Detail("found", "findings", {"reactions": [own]})
        assert Answer(SAID, [detail], citations=[OSLO]).reactions == (own,)
        assert Answer(SAID).reactions == ()

    def test_a_transcript_lists_them_below_the_text(self) -> None:
        hostile = Citation("https://evil.example", "a\n# b ](javascript:c) <img> `d")
        bare = Citation("https://c.example", "At HTTPS://evil.example, WWW.evil.example: 1//2")
        message = cites(OSLO, ROME, hostile, bare, Citation("javascript:alert(1)", "e"))
        assert as_markdown([message]) == (
            f"## assistant\n\n{SAID}\n\nSources:\n\n"
            "1. Oslo <https://oslo.example>\n"
            "2. <https://rome.example>\n"
            r"3. a # b \](javascript:c) \<img> \`d <https://evil.example>" + "\n"
            r"4. At HTTPS\://evil.example, WWW\.evil.example: 1//2 <https://c.example>" + "\n"
        )
        only = Message("assistant", Text(SAID, citations=[Citation("javascript:alert(1)")]))
        assert as_markdown([only]) == f"## assistant\n\n{SAID}\n"
