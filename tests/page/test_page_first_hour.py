"""The first hour on the page: nothing is configured, and a person makes it work."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_openai
import pytest
from attrs import define, field
from page.kinds import Check, Visiting
from page.visits import Visit
from playwright.sync_api import Locator, expect

from genai_host import Config, Host, RetryPolicy
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    NoSettings,
    Preparation,
    PreparationProgress,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Secret,
)
from genai_host.config import read_config
from genai_host.errors import Interrupted
from genai_host.store import Store
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import CUT, HOLD, FakeService, Received, Reply, json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

KEY = "sk-canary-first-hour"


class Acme:
    """A service in OpenAI's form, with a key; what is asked is said again.

    The answer to `wait` is held up before its end, and that to `cut` ends there. To `busy` it
    says when to come again.
    """

    def __init__(self) -> None:
        self.service = FakeService(answer=self.answer)

    def answer(self, received: Received) -> Reply:
        if received.headers.get("authorization") != f"Bearer {KEY}":
            return json_reply({"error": {"message": "Incorrect API key provided"}}, 401)
        if received.method == "GET":
            return json_reply({"data": [{"id": "acme/small"}, {"id": "large"}]})
        body = received.json()
        text = body["messages"][-1]["content"]
        if text == "busy":
            return json_reply({}, 429, {"Retry-After": "40"})
        reply = chat(f"{body['model']} heard: {text}", streamed=body.get("stream", False))
        middle = len(reply.steps) - 8
        if "wait" in text:
            return Reply([*reply.steps[:middle], HOLD, *reply.steps[middle:]])
        return Reply([*reply.steps[:middle], CUT]) if "cut" in text else reply


@pytest.fixture
def acme() -> Iterator[Acme]:
    new_acme = Acme()
    with new_acme.service:
        yield new_acme


@pytest.fixture
def bare(make_host: MakeHost, home: Path) -> Iterator[Callable[..., Host]]:
    """Makes hosts in which nothing can answer: vendors without keys."""
    home.mkdir(exist_ok=True)
    with Store(home / "conversations.db") as store:

        def make(**plugins: Any) -> Host:
            vendors = {
                "anthropic": genai_vendor_anthropic,
                "gemini": genai_vendor_gemini,
                "openai": genai_vendor_openai,
            }
            return make_host(
                store=store, config=Config(), patience=RetryPolicy(), **vendors, **plugins
            )

        yield make


def card(there: Visit, name: str) -> Locator:
    named = there.page.get_by_role("heading", name=name, exact=True, level=2)
    return there.page.locator("main article").filter(has=named)


def add_acme(there: Visit, acme: Acme, key: str = KEY) -> Locator:
    there.page.get_by_text("Add a provider").click()
    adding = there.page.locator(".adding")
    adding.get_by_label("Type").select_option("openai-compatible")
    adding.get_by_label("Name").fill("acme")
    adding.get_by_label("base url").fill(f"{acme.service.url}/v1")
    adding.get_by_label("api key").fill(key)
    there.button("Add", adding).click()
    expect(card(there, "acme")).to_be_visible()
    return card(there, "acme")


def test_item_9_setup(bare: Callable[..., Host], visit: Visiting, acme: Acme, check: Check) -> None:
    there = visit(bare())
    expect(there.page.locator(".chooser")).to_contain_text("No model is ready to answer")
    there.page.locator(".chooser").get_by_role("link", name="provider").click()
    expect(add_acme(there, acme).locator(".status")).to_have_text("works")
    assert KEY not in there.page.content()
    assert KEY not in Path(read_config().file).read_text(encoding="utf-8")
    check(there, "a provider is added")

    there.page.get_by_role("button", name="New conversation").click()
    there.page.get_by_label("Model", exact=True).select_option("acme/acme/small")
    expect(there.answer(there.hear("hello"))).to_have_text("acme/small heard: hello")

    stopped = there.say("wait for me")
    expect(stopped.locator(".writing")).to_contain_text("acme/small")
    there.button("Stop (Esc)").click()
    expect(stopped).to_contain_text("Stopped.")
    there.page.reload()
    expect(there.turns).to_have_count(2)
    expect(there.answer(there.turns.first)).to_have_text("acme/small heard: hello")
    expect(there.turns.last).to_contain_text("acme/small")
    expect(there.turns.last).to_contain_text("Stopped.")

    there.page.get_by_label("Search the conversations").fill("hello")
    there.page.locator("#conversations .found a").first.click()
    expect(there.turns.first).to_be_in_viewport()
    there.page.get_by_label("Search the conversations").fill("")
    expect(there.listed).to_have_count(1)
    there.page.get_by_role("button", name=re.compile("^Delete")).first.click()
    there.button("Delete", there.dialog).click()
    expect(there.listed).to_have_count(0)
    expect(there.page.locator(".greeting")).to_be_visible()


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai"])
def test_item_9_forms_take_addresses(bare: Callable[..., Host], visit: Visiting, name: str) -> None:
    there = visit(bare(), "#/providers")
    vendor = card(there, name)
    vendor.locator("summary").click()
    vendor.get_by_label("base url").fill("http://127.0.0.1:9")
    vendor.get_by_label("api key").fill(KEY)
    there.button("Save", vendor).click()
    expect(there.page.locator(".note").last).to_contain_text(f"{name} is saved")
    assert read_config().providers[name].settings == {"base_url": "http://127.0.0.1:9"}
    expect(vendor.locator(".status")).to_have_text("unreachable")


def test_item_9_wrong_key_is_told(bare: Callable[..., Host], visit: Visiting, acme: Acme) -> None:
    there = visit(bare(), "#/providers")
    add_acme(there, acme, "sk-wrong")
    there.page.get_by_role("button", name="New conversation").click()
    chooser = there.page.locator(".chooser")
    expect(chooser).to_contain_text("acme cannot answer: the service refused the key")


def test_item_9_wait_for_a_busy_service(host_of_acme: Host, visit: Visiting, check: Check) -> None:
    there = visit(host_of_acme)
    there.listed.first.click()
    expect(there.turns).to_have_count(1)
    turn = there.say("busy")
    progress = turn.locator(".progress")
    expect(progress).to_contain_text("acme: ")
    expect(progress).to_contain_text(re.compile("429.*Next attempt in [1-9][0-9]? s"))
    check(there, "it waits for the service")
    there.page.keyboard.press("Escape")
    expect(turn).to_contain_text("Stopped.")
    expect(progress).not_to_contain_text("Next attempt")
    there.hear("hello again")
    expect(there.answer(there.turns.last)).to_have_text("large heard: hello again")


@define
class Step:
    """What the step of a provider does, which needs weights."""

    is_there: bool = False
    go_on: threading.Event = field(factory=threading.Event)
    fails: bool = False

    def run(self, report: Callable[[PreparationProgress], None], limits: CancelToken) -> None:
        report(PreparationProgress("Downloading the weights of tiny", 30_000_000, 98_000_000))
        with limits.on_cancel(self.go_on.set):
            self.go_on.wait(60)
        limits.check()
        if self.fails:
            raise OSError("the disk is full")
        self.is_there = True


@pytest.fixture
def step() -> Step:
    return Step()


@pytest.fixture
def needy(step: Step) -> InlinePlugin:
    class Needy(Provider):
        serves = {"openai-chat": DialectEndpoint(unsupported={"stream"})}
        default_models = {"chat": "needy/tiny"}

        def unavailable_reason(self) -> str | None:
            return None if step.is_there else "the weights of tiny are missing"

        def preparation(self, model_id: str = "") -> Preparation | None:
            label = "Download the weights of tiny (98 MB)"
            return None if step.is_there else Preparation(label, step.run)

        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            message = {"role": "assistant", "content": "tiny heard you"}
            body = {"choices": [{"message": message, "finish_reason": "stop"}]}
            return ProviderReply(json.dumps(body).encode())

        def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            return self.send(request, limits)

    opened = ProviderType("needy", NoSettings, lambda settings, services: Needy())
    return InlinePlugin(providers=[opened])


DOWNLOAD = "Download the weights of tiny (98 MB)"


def test_item_9_weights_are_got_from_the_page(
    bare: Callable[..., Host], visit: Visiting, step: Step, needy: InlinePlugin, check: Check
) -> None:
    there = visit(bare(needy=needy))
    there.button(DOWNLOAD).click()
    chooser = there.page.locator(".chooser")
    expect(chooser).to_contain_text("Downloading the weights of tiny: 30 of 98 MB")
    expect(chooser.get_by_role("progressbar")).to_have_attribute("value", "30000000")
    check(there, "weights are downloaded")
    there.button("Stop").click()
    expect(there.button(DOWNLOAD)).to_be_visible()
    assert step.go_on.wait(60)  # it was cancelled
    step.go_on.clear()
    there.button(DOWNLOAD).click()
    expect(chooser.get_by_role("progressbar")).to_be_visible()
    step.go_on.set()
    expect(there.page.locator(".note").last).to_have_text("needy is ready.")
    expect(there.button(DOWNLOAD)).to_have_count(0)
    there.page.get_by_label("Provider", exact=True).select_option("needy")
    expect(there.answer(there.hear("hi"))).to_have_text("tiny heard you")


def test_item_9_a_download_that_fails_says_why(
    bare: Callable[..., Host], visit: Visiting, step: Step, needy: InlinePlugin
) -> None:
    step.fails = True
    step.go_on.set()
    there = visit(bare(needy=needy), "#/providers")
    there.button(DOWNLOAD).click()
    expect(card(there, "needy").get_by_role("alert").first).to_contain_text("the disk is full")
    step.fails = False
    there.button(DOWNLOAD).click()
    expect(card(there, "needy").locator(".status")).to_have_text("works")


def add(host: Host, acme: Acme) -> None:
    settings = {"base_url": f"{acme.service.url}/v1", "api_key": Secret(KEY)}
    host.instances.add("acme", "openai-compatible", settings)


@pytest.fixture
def host_of_acme(bare: Callable[..., Host], acme: Acme) -> Host:
    """A host with one conversation, `hello`, at Acme."""
    host = bare()
    add(host, acme)
    with host.open("chat", "acme/large") as conversation:
        conversation.say("hello")
    return host


class TestItem9WhatWasCut:
    """An answer that has not come to its end is shown after a reload as far as it came."""

    def test_by_the_service(self, host_of_acme: Host, visit: Visiting) -> None:
        there = visit(host_of_acme)
        there.listed.first.click()
        expect(there.turns).to_have_count(1)
        turn = there.hear("cut it")
        for _ in range(2):
            expect(there.answer(turn)).to_contain_text("large heard")
            expect(turn.locator(".card.error")).to_be_visible()
            there.page.reload()
            turn = there.turns.last

    def test_by_the_end_of_the_server(
        self, host_of_acme: Host, make_host: MakeHost, visit: Visiting, acme: Acme, home: Path
    ) -> None:
        [summary] = host_of_acme.conversations()
        with Store(home / "conversations.db") as store:  # that of a server that ends
            host = make_host(store=store, openai=genai_vendor_openai)
            add(host, acme)
            with host.conversation(summary.id) as conversation:
                events = conversation.stream("wait for the end")
                assert next(events).kind == "delta"
                conversation.close(Interrupted("the server is shutting down"))
                with suppress(Interrupted):
                    next(events)
        there = visit(host_of_acme, f"#/c/{summary.id}")
        turn = there.turns.last
        expect(turn).to_contain_text("This turn was interrupted before it was answered.")
        there.button("Try again", turn).click()
        expect(there.turns).to_have_count(2)
        expect(there.turns.last.locator(".writing")).to_contain_text("large heard")

    def test_other_window_answers_it(self, host_of_acme: Host, visit: Visiting, acme: Acme) -> None:
        one = visit(host_of_acme)
        one.listed.first.click()
        expect(one.turns).to_have_count(1)
        one.say("wait for both")
        expect(one.turns.last.locator(".writing")).to_contain_text("large heard")
        other = visit(host_of_acme, one.page.url.removeprefix(f"{one.url}/"))
        expect(other.turns.last).to_contain_text("This turn is in progress")
        acme.service.let_go()
        expect(other.answer(other.turns.last)).to_have_text("large heard: wait for both")
