"""Plugins and providers, the token, and where the page is mounted."""

from __future__ import annotations

import re
import threading

import genai_vendor_mock
import genai_vendor_openai
import pytest
from page.kinds import MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import Locator, Route, expect

from genai_host import Config, Host
from genai_host.config import BudgetConfig, BudgetsConfig, ModelConfig, read_config
from genai_host_testing import FakeModel, RecordedPrompt

KEY = "sk-not-to-be-shown"


class TestPlugins:
    def test_each_has_status_and_hint(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        class Broken:
            def __getattr__(self, name: str) -> object:
                raise ImportError("no module named 'acme'")

        there = visit(make_chat_host(broken=Broken()), "#/plugins")
        cards = there.page.locator("main article")
        expect(cards.filter(has_text="chat").first.locator(".status")).to_have_text("loaded")
        expect(cards.first.locator("h2")).to_have_text("broken")
        expect(cards.first.locator(".status")).to_have_text("broken")
        expect(cards.first).to_contain_text("acme")


class TestModels:
    def test_item_3_configuration(
        self, make_chat_host: MakeChatHost, visit: Visiting, home: object
    ) -> None:
        there = visit(make_chat_host(), "#/models")
        there.page.get_by_text("Add a model configuration").click()
        adding = there.page.locator(".adding")
        adding.get_by_label("Name").fill("gpt-5.5")
        adding.get_by_label("of").fill("fake")
        adding.get_by_label("parameters").fill('{"temperature": 0, "seed": 1}')
        there.button("Add", adding).click()
        card = there.page.locator("main article").filter(has_text="gpt-5.5")
        expect(card.locator(".status")).to_have_text("works")
        card.get_by_label("parameters").fill('{"seed": 2}')
        there.button("Save", card).click()
        expect(there.page.locator(".note").last).to_have_text("gpt-5.5 is saved.")
        assert read_config().model_configs["gpt-5.5"] == ModelConfig("fake", (), {"seed": 2})
        there.page.get_by_role("button", name="New conversation").click()
        offered = there.page.get_by_label("Model", exact=True).locator("option")
        expect(offered.filter(has_text="gpt-5.5")).to_have_count(1)
        there.page.get_by_role("link", name="Models", exact=True).click()
        card.get_by_text("Settings").click()
        there.button("Remove", card).click()
        there.button("Remove", there.dialog).click()
        expect(card).to_have_count(0)
        assert read_config().model_configs == {}


class TestProviders:
    @pytest.fixture
    def host(self, make_chat_host: MakeChatHost, home: object) -> Host:
        return make_chat_host(mock=genai_vendor_mock, openai=genai_vendor_openai)

    def card(self, there: Visit, name: str) -> Locator:
        named = there.page.get_by_role("heading", name=name, exact=True, level=2)
        return there.page.locator("main article").filter(has=named)

    def test_one_is_added_set_switched_off_and_removed(self, host: Host, visit: Visiting) -> None:
        there = visit(host, "#/providers")
        there.page.get_by_text("Add a provider").click()
        adding = there.page.locator(".adding")
        adding.get_by_label("Type").select_option("mock")
        expect(adding.get_by_label("Name")).to_have_value("mock-2")
        adding.get_by_label("Name").fill("script")
        there.button("Add", adding).click()
        card = self.card(there, "script")
        expect(card).to_be_visible()
        card.get_by_label("repeat").select_option(label="yes")
        there.button("Save", card).click()
        expect(there.page.locator(".note").last).to_have_text("script is saved.")
        assert read_config().providers["script"].settings == {"repeat": True}
        there.button("Switch off", card).click()
        expect(card.locator(".status")).to_have_text("disabled")
        there.button("Switch on", card).click()
        expect(there.button("Switch off", card)).to_be_visible()
        there.button("Remove", card).click()
        there.button("Remove", there.dialog).click()
        expect(card).to_have_count(0)
        assert "script" not in read_config().providers

    def test_a_secret_is_never_shown(
        self, host: Host, visit: Visiting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        there = visit(host, "#/providers")
        card = self.card(there, "openai")
        card.locator("summary").click()
        field = card.get_by_label("api key")
        expect(field).to_have_attribute("type", "password")
        expect(field).to_have_value("")
        assert KEY not in there.page.content()

    def test_what_does_not_fit_is_said(self, host: Host, visit: Visiting) -> None:
        there = visit(host, "#/providers")
        card = self.card(there, "openai")
        card.locator("summary").click()
        card.get_by_label("base url").fill("no address")
        there.button("Save", card).click()
        expect(card.get_by_role("alert")).to_contain_text("invalid base URL 'no address'")
        expect(card.locator(".status")).to_have_text("needs")


class TestUsage:
    def test_item_4_usage_is_drawn(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        host = make_chat_host()
        for text in ("one", "two"):
            with host.open("chat", "fake") as conversation:
                conversation.say(text)
        there = visit(host, "#/usage")
        main = there.page.locator("main")
        drawing = main.locator("svg.drawing")
        main.get_by_label("Group by").select_option("model")
        expect(drawing).to_have_attribute("aria-label", re.compile("row chart of calls. fake 2"))
        expect(main.locator("tbody tr")).to_contain_text(["fake2"])
        main.get_by_label("Draw").select_option("tokens")
        expect(drawing).to_have_attribute("aria-label", re.compile("of tokens"))
        main.get_by_label("Group by").select_option("day")
        expect(drawing).to_have_attribute("aria-label", re.compile("^tokens: bar"))

    def test_says_that_there_were_none(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(), "#/usage")
        expect(there.page.locator("main")).to_contain_text("No calls.")

    def test_a_budget_is_shown(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        budgets = BudgetsConfig(user=BudgetConfig(day_tokens=1_000_000))
        host = make_chat_host(config=Config(models={"chat": "fake"}, budgets=budgets))
        host.open("chat", "fake").say("hi")
        main = visit(host, "#/usage").page.locator("main")
        expect(main).to_contain_text("of 1000000 tokens")
        expect(main.get_by_role("progressbar")).to_be_visible()


class TestTheToken:
    def test_is_asked_for_and_kept(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(), token="the-right-token-of-it")
        field = there.dialog.get_by_label("Token")
        expect(field).to_have_attribute("type", "password")
        field.fill("wrong")
        field.press("Enter")
        expect(there.dialog).to_contain_text("not accepted")
        there.dialog.get_by_label("Token").fill("the-right-token-of-it")
        there.button("Continue", there.dialog).click()
        expect(there.answer(there.hear("hi"))).to_have_text("hi")
        there.page.reload()
        expect(there.listed).to_have_text(["hi"])
        expect(there.dialog).to_have_count(0)
        assert there.page.evaluate("Object.keys(localStorage)") == []

    def test_late_refusal_asks_no_more(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(), token="the-right-token-of-it")
        late: list[Route] = []

        def hold(route: Route) -> None:
            if (route.request.headers.get("authorization") == "Bearer wrong") and not late:
                late.append(route)
            else:
                route.continue_()

        there.page.route("**/api/v1/**", hold)
        there.dialog.get_by_label("Token").fill("wrong")
        there.button("Continue", there.dialog).click()
        expect(there.dialog).to_contain_text("not accepted")
        there.dialog.get_by_label("Token").fill("the-right-token-of-it")
        there.button("Continue", there.dialog).click()
        there.hear("hi")
        [held] = late
        with there.page.expect_response(lambda reply: reply.url == held.request.url and reply.ok):
            held.continue_()
        expect(there.dialog).to_have_count(0)

    def test_comes_in_the_address_once(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(
            make_chat_host(), "#token=the-right-token-of-it", token="the-right-token-of-it"
        )
        expect(there.page.locator("#conversations .empty")).to_be_visible()
        assert there.page.url == f"{there.url}/"
        expect(there.dialog).to_have_count(0)

    def test_need_not_be_given(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(), token="the-right-token-of-it")
        there.button("Cancel", there.dialog).click()
        expect(there.page.locator("#conversations")).to_contain_text(
            "a token of this server is required"
        )


def test_it_works_below_another_path(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = visit(make_chat_host(), root="/host")
    expect(there.answer(there.hear("**hi**")).locator("strong")).to_have_text("hi")
    there.page.reload()
    expect(there.answer(there.turns.last)).to_have_text("hi")
    assert there.page.url.startswith(f"{there.url}/#/c/")


def test_it_says_when_the_server_is_gone(there: Visit) -> None:
    there.hear("hi")
    there.page.context.set_offline(True)
    turn = there.hear("are you there?")
    expect(turn.locator(".card.error")).to_contain_text("cannot be reached")
    banner = there.page.locator("#offline")
    expect(banner).to_be_visible()
    there.page.context.set_offline(False)
    expect(banner).to_be_hidden()
    there.button("Try again", turn).click()
    expect(there.answer(there.turns.last)).to_have_text("are you there?")


def test_a_thousand_messages_scroll(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    text = "A line of **text** with `code`.\n\n- one\n- two\n\n```python\nx = 1\n```"
    host = make_chat_host(FakeModel(lambda prompt: f"{prompt.text}: {text}"))
    conversation = host.open("chat")
    with conversation:
        for number in range(500):
            conversation.say(f"message {number}")
    there = visit(host, f"#/c/{conversation.id}")
    expect(there.turns.last.locator(".bubble")).to_have_text("message 499")
    assert there.turns.count() < 100
    frames = there.page.evaluate(
        """async () => {
            const list = document.querySelector(".transcript");
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            const [began, frames] = [performance.now(), []];
            let last = began;
            const isThere = () => document.querySelectorAll(".turn").length === 500;
            while (!(isThere() && list.scrollTop === 0) && last - began < 90_000) {
                list.scrollTop -= 250;
                await frame();
                const now = performance.now();
                frames.push(now - last);
                last = now;
            }
            return frames.sort((one, other) => one - other);
        }"""
    )
    expect(there.turns).to_have_count(500)
    expect(there.turns.first.locator(".bubble")).to_have_text("message 0")
    assert frames[len(frames) // 2] < 50  # ms, on whatever runs this
    assert frames[-1] < 2000
    there.page.locator(".transcript").evaluate("(list) => list.scrollTop = list.scrollHeight")
    expect(there.turns.last).to_be_in_viewport()
    expect(there.answer(there.hear("and on"))).to_contain_text("and on: A line of text")


def test_what_was_said_long_ago_is_gone_to(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    host = make_chat_host()
    with host.open("chat") as conversation:
        for number in range(120):
            conversation.say("a needle" if number == 7 else f"message {number}")
    there = visit(host)
    there.page.get_by_label("Search the conversations").fill("needle")
    there.page.locator("#conversations .found a").first.click()
    expect(there.page.locator(".bubble", has_text="a needle")).to_be_in_viewport()


def test_no_jump_while_an_answer_is_written(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    may_answer = threading.Event()

    def answer(prompt: RecordedPrompt) -> str:
        if prompt.number == 12:
            may_answer.wait(20)
        return "a line\n\n" * 12

    there = visit(make_chat_host(FakeModel(answer)))
    for number in range(12):
        there.hear(f"{number}")
    turn = there.say("more")
    transcript = there.page.locator(".transcript")
    transcript.hover()
    there.page.mouse.wheel(0, -1500)
    below = "list.scrollHeight - list.scrollTop - list.clientHeight"
    there.page.wait_for_function(
        f"() => {{ const list = document.querySelector('.transcript'); return {below} > 500; }}"
    )
    may_answer.set()
    there.wait(turn)
    expect(there.answer(turn)).to_contain_text("a line")
    assert transcript.evaluate(f"(list) => {below}") > 500
