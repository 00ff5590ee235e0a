"""Assistants on the page: made, looked at, deleted; for whom they are there."""

from __future__ import annotations

import re

import pytest
from page.assisting import FILE, asking, begin, make, open_thread, searching, with_function
from page.kinds import Assisted, Check, Visiting
from page.visits import Visit
from playwright.sync_api import expect

from genai_host_testing import RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer


def test_one_is_made_and_run(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(lambda prompt: f"{prompt.messages[0].text} and {prompt.text}"))
    card = make(there, "Echo", instructions="Be brief.")
    expect(card).to_contain_text("fake")
    card.get_by_text("About Echo").click()
    expect(card.locator("dl")).to_contain_text("Be brief.")
    open_thread(there, "Echo")
    turn = there.hear("hello")
    expect(there.answer(turn)).to_have_text("Be brief. and hello")
    expect(there.announcements).to_contain_text("Answer: Be brief. and hello")
    expect(there.page).to_have_url(re.compile("#/assistants/asst_[0-9a-f]+/thread_[0-9a-f]+$"))
    turn = there.hear("go on")
    expect(there.answer(turn)).to_have_text("Be brief. and go on")


def test_one_is_deleted(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(searching))
    card = begin(there, "Geographer", files=FILE)
    there.hear("how long?")
    thread = there.page.url.rpartition("/")[2]
    there.open("#/assistants")
    there.button("Delete Geographer").click()
    there.button("Cancel", there.dialog).click()
    expect(card).to_be_visible()
    there.button("Delete Geographer").click()
    there.dialog.get_by_label("Also delete its files").check()
    there.button("Delete", there.dialog).click()
    expect(there.page.get_by_text("No assistants yet.")).to_be_visible()
    ask = there.page.request
    assert ask.get(f"{there.url}/v1/threads/{thread}").status == 404
    for path in ("assistants", "files", "vector_stores"):
        assert ask.get(f"{there.url}/v1/{path}").json()["data"] == []


def test_what_cannot_be_made_or_run_is_told(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(lambda prompt: "yes"))
    begin(there, "Calculator", code=True)
    turn = there.hear("reckon")
    expect(turn.locator(".card.error")).to_contain_text("code_interpreter is unavailable")
    expect(there.field).to_have_value("reckon")
    there.page.goto(f"{there.url}/#/assistants/asst_none")
    expect(there.page.get_by_role("alert")).to_contain_text("No assistant found")
    expect(there.page.locator(".composer")).to_be_hidden()


def test_a_file_that_cannot_be_read_is_told(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(searching))
    file = {"name": "<b>.bin", "mimeType": "application/octet-stream", "buffer": b"\xff\x00"}
    card = make(there, "Geographer", files=file)
    alert = there.page.locator(".adding").get_by_role("alert")
    expect(alert).to_contain_text("<b>.bin cannot be searched: ")
    card.get_by_text("About Geographer").click()
    expect(card.locator("dl")).to_contain_text("<b>.bin cannot be searched: ")


def test_without_the_plugin_nothing_is_shown(there: Visit) -> None:
    with there.page.expect_response("**/v1/assistants?limit=1") as response:
        there.page.reload()
    assert response.value.status == 404
    there.page.evaluate("() => fetch('api/v1').then((reply) => reply.text())")
    expect(there.page.get_by_role("link", name="Assistants", include_hidden=True)).to_be_hidden()
    expect(there.page.get_by_role("link", name="Providers")).to_be_visible()


def test_with_a_token(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(searching), "#token=canary-token-7731", token="canary-token-7731")
    begin(there, "Geographer", files=FILE)
    expect(there.answer(there.hear("how long?"))).to_contain_text("1233 km")


@pytest.mark.parametrize("size", [(1180, 800), (375, 720)], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    assisted: Assisted, visit: Visiting, check: Check, scheme: str, size: tuple[int, int]
) -> None:
    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        return asking(prompt) if "weather" in prompt.tools else searching(prompt)

    viewport = {"width": size[0], "height": size[1]}
    there = visit(assisted(answer), color_scheme=scheme, viewport=viewport)
    card = begin(there, "Geographer", files=FILE)
    check(there, "new")
    expect(there.hear("how long?").get_by_role("list", name="sources")).to_be_visible()
    for summary in there.page.locator("main summary:visible").all():
        summary.click()
    expect(there.page.locator("main dl")).to_contain_text("rivers.txt")
    check(there, "answered")
    with_function(there, "Forecaster")
    expect(card).to_be_visible()
    for summary in there.page.locator("main summary").all():
        summary.click()
    there.page.get_by_label("Search in files").check()
    expect(card.locator("dl")).to_contain_text("rivers.txt")
    check(there, "list")
    there.button("Delete Geographer").click()
    check(there, "dialog")
    there.page.keyboard.press("Escape")
    open_thread(there, "Forecaster")
    there.say("how is it?")
    expect(there.page.locator(".paused")).to_be_visible()
    check(there, "paused")
