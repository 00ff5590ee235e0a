"""What calls cost: by the real table, and by one that a test gives."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from support import Terminal

from genai_host import Cost, Host, InMemoryRecord, RetryPolicy, TurnLimits, Usage
from genai_host.api import (
    FREE,
    Answer,
    DialectEndpoint,
    Embed,
    Feature,
    FeatureSteps,
    Moderate,
    NoSettings,
    Operation,
    Prompt,
    Turn,
    http_provider,
)
from genai_host.api.results import cost_of_call
from genai_host.catalog.prices import PackagedPrices, installed_prices
from genai_host.cli.terminal import cost_text, dollars_text
from genai_host.conversations.record import StepEnded
from genai_host.dialects.plain import Plain, PlainEmbed
from genai_host.errors import GenaiError, LimitExceeded, OutputValidationError
from genai_host.store import Store
from genai_host_testing import FakeModel, FakeService, InlinePlugin, ManualClock
from genai_host_testing.fake_service import json_reply, stream_reply
from genai_host_testing.internal.stores import CODEC, MakeStore

MakeHost = Callable[..., Host]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
USED = {"input_tokens": 1000, "output_tokens": 100}


@define
class Table:
    """Dollars for a thousand tokens, by seller and model.

    asked   what it was asked
    """

    dollars: dict[tuple[str, str], float]
    asked: list[tuple[str, str, Usage, datetime]] = field(factory=list)

    def price(self, seller: str, model: str, usage: Usage, at: datetime) -> float | None:
        self.asked.append((seller, model, usage, at))
        each = self.dollars.get((seller, model))
        return None if each is None else each * usage.total / 1000


def reply(text: str = "a", **usage: int) -> dict[str, Any]:
    return {"text": text, "usage": {**USED, **usage}}


def twice(turn: Turn[NoSettings]) -> FeatureSteps:
    """Asks two times, whatever becomes of it."""
    for _ in range(2):
        with suppress(GenaiError):
            yield from Prompt([turn.message])
    return Answer("done")


TWICE = InlinePlugin(features=[Feature("twice", NoSettings, twice)])


def scripted(make_host: MakeHost, *replies: Any, seller: str = "acme", **options: Any) -> Host:
    """A host with the mock as `script`, which is sold by acme."""
    options = {"prices": Table({("acme", "m"): 2.0}), "twice": TWICE, **options}
    host = make_host(**options)
    host.instances.add("script", "mock", {"replies": replies, "priced_as": seller})
    return host


class TestPackagedPrices:
    def price(self, seller: str, model: str, *usage: int, at: datetime = NOW) -> float | None:
        return PackagedPrices().price(seller, model, Usage(*usage), at)

    @pytest.mark.parametrize(("seller", "model", "usage", "dollars"), [
        pytest.param(
            "openai",
            "gpt-4o",
            (1000, 100, 400),
            (600 * 2.5 + 400 * 1.25 + 100 * 10) / 1e6,
            id="what comes from the cache has a price of its own",
        ),
        pytest.param(
            "anthropic",
            "claude-sonnet-4-0",
            (1000, 100, 200, 0, 500, 100),
            (300 * 3 + 200 * 0.3 + 400 * 3.75 + 100 * 6 + 100 * 15) / 1e6,
            id="and what is put into the cache",
        ),
        pytest.param(
            "openai",
            "gpt-5",
            (1000, 100, 0, 80),
            0.00225,
            id="reasoning is a part of the output",
        ),
        pytest.param("openai", "gpt-5", (1000, 100), 0.00225, id="so without it"),
        pytest.param("https://api.openai.com/v1", "gpt-4o", (1000,), 0.0025, id="an address"),
        ("https://gateway.example/v1", "gpt-4o", (1000, 100), None),
        ("http://localhost:8000/v1", "gpt-4o", (1000, 100), None),
        ("nobody-of-that-name", "gpt-4o", (1000, 100), None),
        ("openai", "no-model-of-that-name", (1000, 100), None),
        pytest.param("openai", "whisper-1", (1000,), None, id="no price of tokens is not free"),
        ("openai", "text-embedding-3-small", (1000, 100), None),
        ("openai", "text-embedding-3-small", (1000,), 0.00002),
    ])  # fmt: skip
    def test_a_price(self, seller: str, model: str, usage: Any, dollars: float | None) -> None:
        assert self.price(seller, model, *usage) == (dollars and pytest.approx(dollars))

    def test_the_price_is_that_of_the_time(self) -> None:
        before = datetime(2025, 6, 1, tzinfo=UTC)
        assert self.price("openai", "o3", 1000, at=before) == pytest.approx(0.010)
        assert self.price("openai", "o3", 1000) == pytest.approx(0.002)

    def test_usage_that_makes_no_sense_has_no_price(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO", "genai_host"):
            assert self.price("openai", "gpt-4o", 10, 0, 1000) is None
        [message] = caplog.messages
        assert message.startswith("usage of gpt-4o without a matching price: ")

    @pytest.mark.smoke
    @pytest.mark.process
    def test_nobody_is_asked_over_the_network(self) -> None:
        run("""
            sys.addaudithook(refuse)
            from genai_host.catalog.prices import PackagedPrices
            assert PackagedPrices().price("openai", "gpt-4o", Usage(1000), now) == 0.0025
        """)


def run(script: str) -> None:
    """Run it in a process of its own."""
    begin = """
        import sys
        from datetime import datetime, timezone
        from genai_host import Host, Usage
        now = datetime.now(timezone.utc)
        def refuse(event, arguments):
            if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
                raise AssertionError(event)
    """
    text = textwrap.dedent(begin) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class TestInstalled:
    @pytest.mark.process
    def test_it_is_found_without_being_imported(self) -> None:
        run("""
            from genai_host.catalog.prices import installed_prices
            assert installed_prices() is not None
            with Host() as host:
                host.open("chat", provider="mock").say("hi")
            assert "genai_prices" not in sys.modules
        """)

    def test_without_it_nothing_is_known_and_nothing_goes_wrong(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "genai_prices", None)
        assert installed_prices() is None
        host = scripted(make_host, reply(), reply(), prices=None, seller=FREE)
        answer = host.open("twice", "script/m").say("hi")
        assert answer.cost == Cost(unknown=2)
        assert "cost" not in answer.details[0].data

    def test_it_is_what_calls_cost_by(self, make_host: MakeHost) -> None:
        host = scripted(make_host, reply(), prices=None, seller="openai")
        assert host.open("chat", "script/gpt-4o").say("hi").cost == Cost(0.0035, known=1)


class TestCaps:
    """What a turn may cost, of a feature that calls a model two times: each for 2.2 dollars."""

    def cost(self, make_host: MakeHost, most: float | None, *before: Any, **options: Any) -> Cost:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            for _ in range(2):
                yield from Prompt([turn.message])
            return Answer("done")

        host = scripted(make_host, *before, reply(), reply(), **options)
        host.registry.features["capped"] = Feature("capped", NoSettings, respond)
        return host.open("capped", "script/m", turn_limits=TurnLimits(cost=most)).say("hi").cost

    @pytest.mark.parametrize(("most", "options", "message", "hint"), [
        (2.2, {}, r"cost 2\.2 of", ""),
        (0.01, {}, r"cost 2\.2 of", ""),
        (100, {"prices": Table({})}, "the cost of a call is unknown", "TurnLimits.max_model_calls"),
    ])  # fmt: skip
    def test_no_call_comes_after_so_much(
        self, make_host: MakeHost, most: float, options: Any, message: str, hint: str
    ) -> None:
        """What is not known is not free."""
        with pytest.raises(LimitExceeded, match=message) as caught:
            self.cost(make_host, most, **options)
        assert caught.value.limit == "cost"
        assert hint in caught.value.hint

    @pytest.mark.parametrize(("most", "before", "options", "cost"), [
        (2.3, [], {}, Cost(4.4, known=2)),
        (None, [], {}, Cost(4.4, known=2)),
        (0.01, [], {"seller": FREE}, Cost(0.0, known=2)),
        (2.3, [{"status": 503}], {"patience": RetryPolicy(max_attempts=2)}, Cost(4.4, known=2)),
    ])  # fmt: skip
    def test_the_last_one_may_go_beyond(
        self, make_host: MakeHost, most: float | None, before: Any, options: Any, cost: Cost
    ) -> None:
        """Neither calls that are free nor a try that failed on the way end it."""
        assert self.cost(make_host, most, *before, **options) == cost

    def test_a_feature_may_conclude_when_it_has_no_more_dollars(self, make_host: MakeHost) -> None:
        host = scripted(make_host, reply(), reply())
        answer = host.open("twice", "script/m", turn_limits=TurnLimits(cost=1)).say("hi")
        assert (answer.text, answer.cost.known) == ("done", 1)


class TestCalls:
    def test_the_calls_of_a_turn_are_added(self, make_host: MakeHost) -> None:
        answer = scripted(make_host, reply(), reply(output=0)).open("twice", "script/m").say("hi")
        assert answer.cost == Cost(4.2, known=2)
        assert [detail.data["cost"] for detail in answer.details] == pytest.approx([2.2, 2.0])

    def test_the_table_is_asked_for_the_moment_of_the_call(self, make_host: MakeHost) -> None:
        clock, table = ManualClock(), Table({})
        clock.advance(3600)
        host = scripted(make_host, reply(), prices=table, clock=clock)
        assert host.open("chat", "script/m").say("hi").cost == Cost(unknown=1)
        at = datetime(2026, 1, 1, 1, tzinfo=UTC)
        assert table.asked[0] == ("acme", "m", Usage(1000, 100), at)

    def test_a_deployment_has_the_price_of_its_model(self, make_host: MakeHost) -> None:
        table = Table({("acme", "mock"): 1.0})
        host = make_host(prices=table)
        settings = {"replies": [reply()], "priced_as": "acme"}
        host.instances.add("mine", "mock", settings, models={"mock": "my-deployment"})
        assert host.open("chat", "mock@mine").say("hi").cost.dollars == pytest.approx(1.1)
        assert [model for _, model, _, _ in table.asked] == ["my-deployment", "mock"]

    @pytest.mark.parametrize(("reply", "options"), [
        pytest.param(reply(), {"seller": ""}, id="nobody says"),
        pytest.param(reply(), {"seller": "another"}, id="another sells it"),
        pytest.param(reply(input=0, output=0), {}, id="no usage"),
        *(
            pytest.param(
                reply(), {"prices": Table({("acme", "m"): each})}, id=f"no amount: {each}"
            )
            for each in (float("nan"), float("inf"), -1.0)
        ),
    ])  # fmt: skip
    def test_it_may_be_unknown(self, make_host: MakeHost, reply: Any, options: Any) -> None:
        host = scripted(make_host, reply, **options)
        assert host.open("chat", "script/m").say("hi").cost == Cost(unknown=1)

    def test_what_is_free_costs_nothing(self, make_host: MakeHost) -> None:
        table = Table({})
        host = scripted(make_host, reply(input=0, output=0), seller=FREE, prices=table)
        assert host.open("chat", "script/m").say("hi").cost == Cost(0.0, known=1)
        assert table.asked == []

    def test_a_broken_table(self, make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
        class Broken:
            def price(self, *_: object) -> float | None:
                raise RuntimeError("no such shelf")

        answer = scripted(make_host, reply(), prices=Broken()).open("chat", "script/m").say("hi")
        assert (answer.text, answer.cost) == ("a", Cost(unknown=1))
        assert "no such shelf" in caplog.text

    @pytest.mark.parametrize("most", [0, 1])
    def test_embeddings_and_moderation_have_a_cost_as_well(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        monkeypatch.setattr(PlainEmbed, "max_texts", most)

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Embed(["one two", "three"])
            yield from Moderate("four")
            return Answer("done")

        roles: Mapping[str, Operation] = {"embed": "embed", "moderate": "moderate"}
        both = InlinePlugin(features=[Feature("both", NoSettings, respond, roles)])
        host = make_host(prices=Table({("acme", "m"): 1.0}), fake=FakeModel(), both=both)
        host.instances.add("sold", "mock", {"priced_as": "acme"}, models={"mock-embed": "m"})
        models = {"embed": "mock-embed@sold", "moderate": "fake-moderate"}
        answer = host.open("both", models=models).say("hi")
        assert answer.cost == Cost(0.003, known=1, unknown=1)
        assert answer.details[0].data["cost"] == 0.003

    def test_a_call_at_another_price_than_the_lists_has_none(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Plain, "price_parameters", frozenset({"seed"}))
        host = scripted(make_host, reply(), reply())
        assert host.open("chat", "script/m").say("hi").cost.known == 1
        hurried = host.open("chat", "script/m", parameters={"seed": 1})
        assert hurried.say("hi").cost == Cost(unknown=1)

    def test_one_whose_reply_is_kept_has_it(self, make_host: MakeHost, tmp_path: Path) -> None:
        host = scripted(make_host, reply())
        settings = {"keep_raw_engine_responses": True, "raw_engine_responses": str(tmp_path)}
        answer = host.open("chat-model", "script/m", settings=settings).say("hi")
        assert answer.cost == Cost(2.2, known=1)

    @pytest.mark.part
    def test_services_are_known_by_address(self, make_host: MakeHost, service: FakeService) -> None:
        acme = http_provider("acme", f"{service.url}/v1", {"openai-chat": DialectEndpoint()})
        table = Table({(f"{service.url}/v1", "m"): 1.0})
        usage = {"prompt_tokens": 900, "completion_tokens": 100}
        message = {"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
        service.replies.append(json_reply({"choices": [message], "usage": usage}))
        host = make_host(prices=table, acme=InlinePlugin(providers=[acme]))
        assert host.open("chat", "acme/m").say("hi").cost == Cost(1.0, known=1)


class TestFailures:
    def test_a_call_that_was_refused_costs_nothing(self, make_host: MakeHost) -> None:
        patience = RetryPolicy(max_attempts=2, min_backoff=0)
        host = scripted(make_host, {"status": 503}, reply(), reply(), patience=patience)
        assert host.open("twice", "script/m").say("hi").cost == Cost(4.4, known=2)

    def test_of_a_call_that_broke_off_it_is_unknown(self, make_host: MakeHost) -> None:
        host = scripted(make_host, {"text": "a b", "fault": "cut", "pieces": 1}, reply())
        assert host.open("twice", "script/m").say("hi").cost == Cost(2.2, known=1, unknown=1)

    @pytest.mark.part
    def test_errors_amid_a_stream(self, make_host: MakeHost, service: FakeService) -> None:
        """Whatever was written before has its price."""
        acme = http_provider("acme", f"{service.url}/v1", {"openai-chat": DialectEndpoint()})
        begun = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
        failed = {"error": {"message": "overloaded", "type": "server_error", "code": 503}}
        events = [json.dumps(each).encode() for each in (begun, failed)]
        service.replies.extend([stream_reply(events), json_reply({}, 400)])
        plugins = {"acme": InlinePlugin(providers=[acme]), "twice": TWICE}
        host = make_host(prices=Table({}), patience=RetryPolicy(1), **plugins)
        *_, last = host.open("twice", "acme/m").stream("hi")
        assert last.answer is not None
        assert last.answer.cost == Cost(unknown=1)

    def test_what_was_never_sent_is_no_call(self, make_host: MakeHost) -> None:
        def ask(turn: Turn[NoSettings]) -> FeatureSteps:
            with suppress(GenaiError):
                yield from Prompt([turn.message], parameters={"no-such": 1})
            return Answer("done")

        feature = InlinePlugin(features=[Feature("ask", NoSettings, ask)])
        conversation = scripted(make_host, reply(), ask=feature).open("ask", "script/m")
        assert conversation.say("hi").cost == Cost()
        assert isinstance(conversation.record, InMemoryRecord)
        [ended] = [each for each in conversation.record.entries if isinstance(each, StepEnded)]
        assert not ended.tries

    def test_an_answer_that_is_not_what_was_asked_for_has_one(self, make_host: MakeHost) -> None:
        def ask(turn: Turn[NoSettings]) -> FeatureSteps:
            with suppress(OutputValidationError):
                yield from Prompt([turn.message], schema={"type": "object"})
            return Answer("done")

        feature = InlinePlugin(features=[Feature("ask", NoSettings, ask)])
        host = scripted(make_host, reply("no JSON"), ask=feature)
        answer = host.open("ask", "script/m").say("hi")
        assert answer.cost == Cost(2.2, known=1)
        assert answer.usage.total == 1100


def test_it_stays_as_it_was_when_a_turn_is_replayed(make_host: MakeHost) -> None:
    table = Table({("acme", "m"): 2.0})
    replies = [{"text": "a b", "fault": "cut", "pieces": 1}, reply()]
    host = scripted(make_host, *replies, prices=table)
    conversation = host.open("twice", "script/m")
    first = conversation.say("hi")
    assert isinstance(conversation.record, InMemoryRecord)
    table.dollars.clear()
    again = host.reopen(InMemoryRecord(list(conversation.record.entries)[:-1])).resume()
    assert again.cost == first.cost == Cost(2.2, known=1, unknown=1)
    assert again.details == first.details


class TestStore:
    def test_a_conversations_cost_stays(self, make_host: MakeHost, make_store: MakeStore) -> None:
        store = make_store()
        replies = [reply(), {"status": 400}, {"text": "a b", "fault": "cut", "pieces": 1}, reply()]
        conversation = scripted(make_host, *replies, store=store).open("twice", "script/m")
        conversation.say("hi")
        conversation.say("hi")
        conversation.undo()
        cost = Cost(4.4, known=2, unknown=1)
        assert store.summary(conversation.id).cost == cost
        assert [each.cost for each in store.conversations()] == [cost]
        costs = [each.cost for each in store.attempts(conversation.id)]
        assert costs == [pytest.approx(2.2), 0.0, None, pytest.approx(2.2)]

    def test_one_without_calls_cost_nothing(self, make_host: MakeHost, store: Store) -> None:
        assert store.summary(make_host(store=store).open("chat", "mock").id).cost == Cost()

    @pytest.mark.parametrize("cost", [-1, 10**400, True, "1"])
    def test_imported_costs_are_checked(self, make_host: MakeHost, store: Store, cost: Any) -> None:
        conversation = scripted(make_host, reply(), store=store).open("chat", "script/m")
        conversation.say("hi")
        exported = store.export(conversation.id)
        [ended] = [each for each in exported["entries"] if each["entry"] == "step_ended"]
        assert ended["result"]["cost"] == pytest.approx(2.2)
        ended["result"]["cost"] = cost
        assert store.summary(store.import_conversation(exported, CODEC)).cost == Cost(unknown=1)


class TestCommandLine:
    @pytest.fixture
    def sold(self, script: Callable[..., None]) -> Callable[..., None]:
        def configure(*replies: Any) -> None:
            script(replies, priced_as="openai")

        return configure

    def test_details_and_json_have_it(self, terminal: Terminal, sold: Callable[..., None]) -> None:
        sold(reply())
        code, _, err = terminal("ask", "-m", "script/gpt-4o", "hi", "--details")
        assert code == 0
        assert err.endswith("tokens: 1000 in, 100 out\ncost: $0.0035\n")
        _, out, _ = terminal("ask", "-m", "script/gpt-4o", "hi", "--json")
        assert json.loads(out)["cost"] == {"dollars": 0.0035, "known": 1, "unknown": 0}

    def test_conversations_have_a_sum(self, terminal: Terminal, sold: Callable[..., None]) -> None:
        broken = {"text": "a b", "fault": "cut", "pieces": 1}
        sold(reply(), broken)
        terminal("ask", "-m", "script/gpt-4o", "hi")
        sold(broken)
        assert terminal("ask", "-c", "hi")[0] == 1
        expected = {"dollars": 0.0035, "known": 1, "unknown": 1}
        [listed] = json.loads(terminal("conversations", "list", "--json")[1])
        assert listed["cost"] == expected
        shown = json.loads(terminal("conversations", "show", "last", "--json")[1])
        assert shown["cost"] == expected
        assert [each["cost"] for each in shown["tries"]] == [0.0035, None]
        assert shown["turns"][0]["answer"]["cost"]["dollars"] == 0.0035
        out = terminal("conversations", "show", "last", "--details")[1]
        assert "\ncost:     at least $0.0035\n" in out
        assert ", 1000 in, 100 out, $0.0035\n" in out

    def test_unknown_cost_is_not_printed(self, terminal: Terminal) -> None:
        _, out, err = terminal("ask", "-p", "mock", "hi", "--details", "--json")
        assert json.loads(out)["cost"] is None
        assert "cost" not in err
        assert "cost" not in terminal("conversations", "show", "last", "--details")[1]


@pytest.mark.parametrize(("dollars", "text"), [
    (0.0, "0"),
    (12.5, "12.5000"),
    (0.01, "0.0100"),
    (0.0035, "0.0035"),
    (0.000012345, "0.0000123"),
    (1e-9, "0.000000001"),
    (0.009999, "0.01"),
])  # fmt: skip
def test_amounts_can_be_read(dollars: float, text: str) -> None:
    assert dollars_text(dollars) == text


def test_costs_are_added() -> None:
    total = cost_of_call(1.5) + cost_of_call(None) + cost_of_call(0.0)
    assert total == Cost(1.5, known=2, unknown=1)
    assert cost_text(total) == "at least $1.5000"
