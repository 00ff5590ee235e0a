"""The chat on the page: streaming, stop, regenerate, and edited messages."""

from __future__ import annotations

import re
from typing import Any

import genai_vendor_mock
from page.files import DOT, FILE, drop
from page.kinds import MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import expect

from genai_host import Config, Host
from genai_host.errors import ServiceUnavailable
from genai_host_testing import FakeModel, ManualClock, RecordedPrompt
from genai_host_testing.fake_service import HANG

TABLE = "| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n```python\nx = 1\n```\n\n- one\n- *two*"


def scripted(make_chat_host: MakeChatHost, clock: ManualClock | None, *replies: Any) -> Host:
    host = make_chat_host(
        clock=clock, mock=genai_vendor_mock, config=Config(models={"chat": "mock"})
    )
    host.instances.add("script", "mock", {"replies": list(replies)})
    return host


def choose_provider(visit: Visit, name: str) -> None:
    visit.page.get_by_label("Provider", exact=True).select_option(name)


class TestAnAnswer:
    def test_is_markdown(self, there: Visit) -> None:
        turn = there.hear(TABLE)
        answer = there.answer(turn)
        expect(answer.locator("th")).to_have_text(["a", "b"])
        expect(answer.locator("td").last).to_have_class("align-right")
        expect(answer.locator("pre code")).to_have_text("x = 1")
        expect(answer.locator("li em")).to_have_text("two")
        expect(turn.locator(".bubble")).to_have_text(TABLE)

    def test_item_9_formulas_are_kept(self, there: Visit) -> None:
        turn = there.hear(r"**So** \(a^2_1 * b_1 * c\)")
        expect(there.answer(turn).locator("strong")).to_have_text("So")
        expect(there.answer(turn)).to_have_text(r"So \(a^2_1 * b_1 * c\)")

    def test_is_streamed(
        self, make_chat_host: MakeChatHost, visit: Visiting, clock: ManualClock
    ) -> None:
        there = visit(scripted(make_chat_host, clock, {"text": "one two **three**", "pace": 1}))
        choose_provider(there, "script")
        turn = there.say("count")
        clock.wait_for_alarm_in(1)
        expect(turn.locator(".writing")).to_contain_text("one")
        expect(turn.locator(".writing")).not_to_contain_text("three")
        assert "three" not in (there.announcements.text_content() or "")
        for _ in range(10):
            clock.advance(1)
            if "running" not in (turn.get_attribute("class") or ""):
                break
            there.page.wait_for_timeout(20)  # lets the browser hear of it
        there.wait(turn)
        expect(there.answer(turn).locator("strong")).to_have_text("three")
        expect(there.announcements).to_have_text("Answer: one two **three**")

    def test_can_be_copied(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(), permissions=["clipboard-read", "clipboard-write"])
        turn = there.hear("```sh\nls -l\n```")
        there.button("Copy the code", turn).click()
        expect(there.page.locator(".note")).to_have_text("Copied.")
        assert there.page.evaluate("navigator.clipboard.readText()") == "ls -l\n"
        there.button("Copy the answer", turn).click()
        there.page.wait_for_function(
            "() => navigator.clipboard.readText().then((text) => text.startsWith('```sh'))"
        )

    def test_has_details(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        reply = {"text": "hello", "usage": {"input_tokens": 30, "output_tokens": 12}}
        there = visit(scripted(make_chat_host, None, reply))
        choose_provider(there, "script")
        turn = there.hear("hi")
        toggle = turn.locator(".foot .text-button")
        expect(toggle).to_contain_text("42 tokens")
        expect(toggle).to_have_attribute("aria-expanded", "false")
        toggle.click()
        expect(toggle).to_have_attribute("aria-expanded", "true")
        behind = turn.locator(".behind")
        expect(behind).to_contain_text("prompt of main to mock@script")
        behind.locator("summary").click()
        expect(behind.locator(".message-part").last).to_contain_text("hello")
        toggle.click()
        expect(behind).to_be_hidden()

    def test_has_details_when_reopened(self, there: Visit) -> None:
        there.hear("hi")
        there.page.reload()
        turn = there.turns.first
        turn.locator(".foot .text-button").click()
        expect(turn.locator(".behind")).to_contain_text("prompt of main to fake@fake")


class TestStopping:
    def test_keeps_text(
        self, make_chat_host: MakeChatHost, visit: Visiting, clock: ManualClock
    ) -> None:
        there = visit(scripted(make_chat_host, clock, {"text": "one two", "pace": 5}, "again"))
        choose_provider(there, "script")
        turn = there.say("count")
        clock.wait_for_alarm_in(5)
        expect(turn.locator(".writing")).to_contain_text("one")
        there.button("Stop (Esc)").click()
        expect(turn).to_contain_text("Stopped.")
        expect(turn.locator(".writing")).to_contain_text("one")
        there.button("Try again", turn).click()
        expect(there.turns).to_have_count(1)
        expect(there.answer(there.turns.last)).to_have_text("again")

    def test_frees_the_model_at_once(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        model = FakeModel(lambda prompt: HANG if prompt.number == 0 else "well")
        there = visit(make_chat_host(model))
        turn = there.say("hang")
        assert model.hanging.wait(20)
        there.page.keyboard.press("Escape")
        expect(turn).to_contain_text("Stopped.")
        there.hear("now")
        expect(there.answer(there.turns.last)).to_have_text("well")


class TestSayingItAgain:
    def test_replaces_the_last_answer(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        model = FakeModel(lambda prompt: f"answer {prompt.number}, {len(prompt.messages)}")
        there = visit(make_chat_host(model))
        there.hear("first")
        there.hear("second")
        there.button("Ask again", there.turns.last).click()
        expect(there.answer(there.turns.last)).to_have_text("answer 2, 4")
        expect(there.turns).to_have_count(2)
        there.page.reload()
        expect(there.turns).to_have_count(2)
        expect(there.answer(there.turns.last)).to_have_text("answer 2, 4")

    def test_otherwise(self, there: Visit) -> None:
        there.hear("first")
        there.hear("secnod")
        expect(there.button("Edit the message and send it again")).to_have_count(1)
        there.button("Edit the message and send it again").click()
        expect(there.field).to_have_value("secnod")
        there.field.fill("second")
        there.field.press("Enter")
        expect(there.answer(there.turns.last)).to_have_text("second")
        expect(there.turns).to_have_count(2)
        expect(there.turns.last.locator(".bubble")).to_have_text("second")

    def test_is_given_up_by_escape(self, there: Visit) -> None:
        there.hear("first")
        there.button("Edit the message and send it again").click()
        there.page.keyboard.press("Escape")
        expect(there.page.get_by_text("Editing the last message")).to_be_hidden()
        expect(there.field).to_have_value("")

    def test_is_given_up_by_a_retry(self, there: Visit) -> None:
        there.hear("first")
        there.button("Edit the message and send it again").click()
        there.button("Ask again").click()
        expect(there.page.get_by_text("Editing the last message")).to_be_hidden()
        there.wait(there.turns.last)
        there.hear("second")
        expect(there.turns).to_have_count(2)
        there.page.reload()
        expect(there.turns).to_have_count(2)

    def test_failure_leaves_the_answer(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        model = FakeModel()
        model.faults[1] = ServiceUnavailable("gone for now", hint="wait a little")
        there = visit(make_chat_host(model))
        there.hear("first")
        there.button("Ask again").click()
        expect(there.page.locator(".card.error")).to_contain_text("gone for now")
        expect(there.turns).to_have_count(2)
        expect(there.answer(there.turns.first)).to_have_text("first")


class TestAFailure:
    def test_is_told_with_what_to_do(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        model = FakeModel()
        model.faults[0] = ServiceUnavailable("gone for now", hint="wait a little")
        there = visit(make_chat_host(model))
        turn = there.hear("first")
        expect(turn.locator(".card.error")).to_contain_text("gone for now")
        expect(turn.locator(".card.error")).to_contain_text("wait a little")
        expect(there.announcements).to_have_text(re.compile("It failed: .*gone for now"))
        there.button("Try again", turn).click()
        expect(there.answer(there.turns.last)).to_have_text("first")
        expect(there.turns).to_have_count(1)
        there.page.reload()
        expect(there.turns).to_have_count(1)

    def test_where_nothing_can_run(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = visit(make_chat_host(config=Config(models={"chat": "unheard-of"})))
        there.field.fill("hi")
        there.field.press("Enter")
        expect(there.page.get_by_role("alert")).to_contain_text("unheard-of")
        expect(there.field).to_have_value("hi")


def test_a_model_thinks(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = visit(scripted(make_chat_host, None, {"text": "so", "reasoning": "let me see"}))
    choose_provider(there, "script")
    turn = there.hear("think")
    turn.get_by_text("Thinking").click()
    expect(turn.locator(".thinking")).to_contain_text("let me see")


def test_pictures_are_sent(make_chat_host: MakeChatHost, visit: Visiting, tmp_path: Any) -> None:
    def describe(prompt: RecordedPrompt) -> str:
        return ", ".join(
            f"{part.type} {len(getattr(part, 'data', b''))}" for part in prompt.messages[-1].content
        )

    there = visit(make_chat_host(FakeModel(describe)))
    picture = tmp_path / "dot.png"
    picture.write_bytes(DOT)
    there.page.locator("input[type=file]").set_input_files(picture)
    expect(there.page.locator(".thumbs img")).to_have_attribute("alt", "dot.png")
    drop(there, "dropped.png", "image/png")
    paste(there)
    expect(there.page.locator(".thumbs img")).to_have_count(3)
    there.button("Remove dropped.png").click()
    turn = there.hear("What is this?")
    expect(there.answer(turn)).to_have_text(f"image {len(DOT)}, image {len(DOT)}, text 0")
    expect(turn.locator(".bubble img")).to_have_count(2)
    there.page.reload()
    expect(there.turns.first.locator(".bubble img")).to_have_count(2)


def test_other_files_are_not(there: Visit) -> None:
    there.page.wait_for_function("() => document.querySelector('.composer')")
    drop(there, "page.svg", "image/svg+xml")
    expect(there.page.locator(".note")).to_contain_text("page.svg is no PNG")
    expect(there.page.locator(".thumbs img")).to_have_count(0)


def paste(there: Visit) -> None:
    there.page.evaluate(
        "() => {"
        + FILE % (list(DOT), "pasted.png", "image/png")
        + """document.querySelector(".composer textarea").dispatchEvent(
            new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));}"""
    )
