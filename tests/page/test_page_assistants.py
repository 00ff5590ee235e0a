"""Assistants on the page: made, looked at, deleted, for whom they are; their runs and threads."""

from __future__ import annotations

import base64
import re
import threading

import pytest
from page.assisting import FILE, RIVERS, asking, begin, make, open_thread, searching, with_function
from page.files import DOT, drop
from page.kinds import Assisted, Check, Visiting
from page.visits import Visit
from playwright.sync_api import expect

from genai_host.api import Image, ToolOutput
from genai_host_testing import RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.agents import Counting, calls


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


def test_what_is_cited_can_be_read(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(searching))
    card = make(there, "Geographer", files=FILE)
    expect(card).to_contain_text("search in files")
    card.get_by_text("About Geographer").click()
    expect(card.locator("dl")).to_contain_text("rivers.txt")
    open_thread(there, "Geographer")
    turn = there.hear("how long?")
    expect(there.announcements).to_have_text("Answer: It is **1233 km** long. [1] That is 🏞 long.")
    for _ in range(2):
        expect(there.answer(turn)).to_have_text("It is 1233 km long.1 That is 🏞 long.")
        expect(there.answer(turn).locator("strong")).to_have_text("1233 km")
        mark = there.button("Source 1: rivers.txt", turn)
        passage = turn.get_by_role("list", name="sources").locator("blockquote")
        expect(passage).to_be_hidden()
        mark.click()
        expect(passage).to_have_text(RIVERS.decode())
        there.button("Back to the text", turn).click()
        expect(mark).to_be_focused()
        there.page.reload()


def test_the_keyboard_leads_to_a_source_and_back(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(searching))
    begin(there, "Geographer", files=FILE)
    turn = there.hear("how long?")
    expect(there.field).to_be_focused()
    mark = there.button("Source 1: rivers.txt", turn)
    mark.focus()
    keys = there.page.keyboard
    keys.press("Enter")
    expect(turn.locator(".footnotes summary")).to_be_focused()
    expect(turn.locator(".footnotes blockquote")).to_be_visible()
    keys.press("Tab")
    keys.press("Enter")
    expect(mark).to_be_focused()


def test_it_is_shown_while_it_comes(assisted: Assisted, visit: Visiting) -> None:
    is_seen = threading.Event()

    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if prompt.messages[-1].role != "tool":
            return calls("code_interpreter", input="print(42)", text="Let me see.")
        is_seen.wait(30)
        return "It is 42."

    there = visit(assisted(answer, Counting("sandbox__run", "42")))
    begin(there, "Calculator", code=True)
    turn = there.say("reckon")
    expect(there.answer(turn)).to_have_text("Let me see.")
    turn.locator(".call summary").click()
    expect(turn.locator(".call pre")).to_have_text(["print(42)", "42"])
    expect(turn).to_have_class(re.compile("running"))
    is_seen.set()
    there.wait(turn)
    expect(there.answer(turn)).to_have_text(["Let me see.", "It is 42."])
    expect(turn.locator(".call pre").first).to_be_visible()  # it stays open


def test_code_is_shown_with_what_it_gave(assisted: Assisted, visit: Visiting) -> None:
    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if prompt.messages[-1].role != "tool":
            return calls("code_interpreter", input="print(6 * 7)")
        return "See sandbox:/mnt/data/out.csv."

    fields = {"files": [{"name": "out.csv", "data": base64.b64encode(b"a,b\n").decode()}]}
    gives = ToolOutput(["42\n", Image(DOT, "image/png")], reactions=[{"type": "made", **fields}])
    there = visit(assisted(answer, Counting("sandbox__run", gives)), accept_downloads=True)
    begin(there, "Calculator", code=True)
    turn = there.hear("reckon")
    for _ in range(2):
        expect(there.answer(turn)).to_contain_text("out.csv")
        turn.locator(".call summary").click()
        expect(turn.locator(".call pre")).to_have_text(["print(6 * 7)", "42"])
        picture = turn.get_by_role("img", name="Picture 1 that the code made")
        expect(picture).to_have_js_property("naturalWidth", 1)
        with there.page.expect_download() as download:
            there.button("Save out.csv", turn).click()
        assert download.value.suggested_filename == "out.csv"
        assert download.value.path().read_bytes() == b"a,b\n"
        there.page.reload()


def test_functions_are_answered_by_hand(assisted: Assisted, visit: Visiting) -> None:
    there = visit(assisted(asking))
    with_function(there, "Forecaster")
    open_thread(there, "Forecaster")
    turn = there.say("how is it?")
    form = turn.locator(".paused")
    expect(form).to_contain_text("This page cannot call functions")
    expect(form.locator("pre")).to_have_text(re.compile('"what": "all"'))
    there.page.reload()
    form.get_by_label("Output of weather").fill("rain")
    there.page.keyboard.press("Escape")  # which stops what is at work, and this waits
    there.button("Send", form).click()
    expect(there.answer(turn)).to_have_text("It is rain")
    there.wait(turn)
    turn = there.say("and now?")
    there.button("Cancel the run", turn).click()
    expect(turn).to_contain_text("Stopped.")
    turn = there.say("and now?")
    turn.get_by_label("Output of weather").fill("sun")
    there.button("Send", turn.locator(".paused")).click()
    expect(there.answer(turn)).to_have_text("It is sun")


def test_pictures_are_sent(assisted: Assisted, visit: Visiting) -> None:
    there = visit(
        assisted(lambda prompt: " ".join(part.type for part in prompt.messages[-1].content))
    )
    begin(there, "Looker")
    drop(there, "dropped.png", "image/png")
    expect(there.page.get_by_role("img", name="dropped.png")).to_be_visible()
    turn = there.hear("what is it?")
    expect(there.answer(turn)).to_have_text("image text")
    there.page.reload()
    expect(turn.get_by_role("img", name="Picture that you sent")).to_be_visible()


class TestStopping:
    @staticmethod
    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        return HANG if prompt.text == "hang" else f"heard {prompt.text}"

    def test_a_run_is_stopped(self, assisted: Assisted, visit: Visiting) -> None:
        there = visit(assisted(self.answer))
        begin(there, "Slow")
        turn = there.say("hang")
        there.button("Stop (Esc)").click()
        expect(turn).to_contain_text("Stopped.")
        turn = there.hear("again")
        expect(there.answer(turn)).to_have_text("heard again")

    def test_one_that_went_on_meanwhile_as_well(self, assisted: Assisted, visit: Visiting) -> None:
        is_asked = threading.Event()

        def answer(prompt: RecordedPrompt) -> FakeAnswer:
            is_asked.set()
            return HANG

        there = visit(assisted(answer))
        begin(there, "Slow")
        there.say("hang")
        assert is_asked.wait(20)
        there.page.reload()
        expect(there.turns.last).to_have_class(re.compile("running"))
        there.page.keyboard.press("Escape")
        expect(there.turns.last).to_contain_text("Stopped.")


class TestThreads:
    def test_are_there_after_a_reload(self, assisted: Assisted, visit: Visiting) -> None:
        there = visit(assisted(lambda prompt: f"heard {prompt.text}"))
        begin(there, "Echo")
        there.hear("first")
        there.hear("second")
        there.button("New thread").click()
        expect(there.turns).to_have_count(0)
        there.hear("other")
        there.open("#/assistants")
        there.page.reload()
        listed = there.page.get_by_role("list", name="Threads with Echo").get_by_role("link")
        expect(listed).to_have_text(["other", "first"])
        listed.last.click()
        expect(there.page.locator(".bubble")).to_have_text(["first", "second"])
        expect(there.answer(there.turns)).to_have_text(["heard first", "heard second"])
        expect(there.answer(there.hear("third"))).to_have_text("heard third")

    def test_that_are_gone_are_forgotten(self, assisted: Assisted, visit: Visiting) -> None:
        there = visit(assisted(lambda prompt: "yes"))
        begin(there, "Echo")
        there.hear("first")
        expect(there.page).to_have_url(re.compile("/thread_"))
        thread = there.page.url.rpartition("/")[2]
        there.button("New thread").click()
        there.hear("second")
        assert there.page.request.delete(f"{there.url}/v1/threads/{thread}").ok
        there.open("#/assistants")
        listed = there.page.get_by_role("list", name="Threads with Echo").get_by_role("link")
        expect(listed).to_have_text(["second"])
        assert thread not in there.page.evaluate("localStorage.getItem('genai-host-threads')")

    def test_are_shown_from_their_end(self, assisted: Assisted, visit: Visiting) -> None:
        there = visit(assisted(lambda prompt: f"heard {prompt.text}"))
        make(there, "Echo")
        ask, api = there.page.request, f"{there.url}/v1"
        messages = [
            {"role": role, "content": f"{role} {number}"}
            for number in range(22)
            for role in ("user", "assistant")
        ]
        thread = ask.post(f"{api}/threads", data={"messages": messages}).json()["id"]
        assistant = ask.get(f"{api}/assistants").json()["data"][0]["id"]
        there.page.goto(f"{there.url}/#/assistants/{assistant}/{thread}")
        expect(there.turns).to_have_count(20)
        expect(there.answer(there.turns.first)).to_have_text("assistant 2")
        there.button("Show earlier messages").click()
        expect(there.turns).to_have_count(22)
        expect(there.answer(there.turns.first)).to_have_text("assistant 0")
        expect(there.answer(there.hear("more"))).to_have_text("heard more")

    def test_are_deleted(self, assisted: Assisted, visit: Visiting) -> None:
        there = visit(assisted(lambda prompt: "yes"))
        begin(there, "Echo")
        there.hear("first")
        there.button("Delete the thread").click()
        there.button("Delete", there.dialog).click()
        expect(there.page.locator("h1")).to_have_text("Assistants")
        listed = there.page.get_by_role("list", name="Threads with Echo").get_by_role("listitem")
        expect(listed).to_have_count(0)
