"""Web pages that an answer cites, as services of all formats give them: in the events of a turn, in
the answer, and in the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import genai_feature_agent
import pytest
from cited_replies import FOUND, PAGE, SERVICES, TEXT, pages
from conversing import recorded, reopened
from format_services import PLUGINS, provider_at

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
