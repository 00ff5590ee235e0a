"""What assistants have and say stays text, as all else on the page."""

from __future__ import annotations

import pytest
from page.assisting import MARK, begin, open_thread, result_of, with_function
from page.hostile import HOSTILE, look, trapped
from page.kinds import Assisted, Visiting
from playwright.sync_api import expect

from genai_host.api import Image, ToolOutput
from genai_host.errors import ServiceUnavailable
from genai_host_testing import RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import Counting, calls


def test_names_and_instructions(assisted: Assisted, visit: Visiting) -> None:
    there = trapped(visit(assisted(lambda prompt: "yes")))
    data = {"model": "fake", "name": f"{HOSTILE[1]}\u202e", "instructions": " ".join(HOSTILE)}
    id = there.page.request.post(f"{there.url}/v1/assistants", data=data).json()["id"]
    there.open("#/assistants")
    expect(there.page.locator("h2 .odd")).to_have_text("U+202E")
    there.page.locator("main summary").last.click()
    look(there, forms=1)
    there.page.goto(f"{there.url}/#/assistants/{id}")
    expect(there.page.locator("h1")).to_contain_text(HOSTILE[1])
    there.hear(HOSTILE[0])
    there.page.locator("main summary").first.click()
    look(there)
    there.page.goto(f"{there.url}/#/assistants/{id}/..%2F..%2Fx")
    expect(there.page.get_by_role("alert")).to_be_visible()
    there.open("#/assistants")
    expect(there.page.get_by_role("link", name=HOSTILE[0])).to_be_visible()
    look(there, forms=1)


def test_answers_passages_and_calls(assisted: Assisted, visit: Visiting) -> None:
    everything = " ".join(HOSTILE)

    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if prompt.messages[-1].role != "tool":
            return calls("file_search", "code_interpreter", query=everything, input=everything)
        marks = "".join(MARK.findall(result_of(prompt))[:1])
        own = f"{marks} 【†1†】 【†9†】 【7:7†x】"
        return f"{own} {everything} {own} sandbox:/mnt/data/<img"

    ran = ToolOutput([everything, Image(b"<svg onload=hit()>", "image/svg+xml")])
    there = trapped(visit(assisted(answer, Counting("sandbox__run", ran))))
    file = {
        "name": "<img src=x onerror=hit()>.txt",
        "mimeType": "text/plain",
        "buffer": everything.replace("\0", "").encode(),
    }
    begin(there, "Hostile", files=file, code=True)
    turn = there.hear("x")
    for _ in range(2):
        expect(turn.get_by_role("list", name="sources")).to_contain_text("onerror")
        expect(turn.get_by_text("cannot be shown")).to_be_visible()
        for summary in turn.locator("summary:visible").all():
            summary.click()
        look(there)
        there.page.reload()


def test_functions_and_errors(assisted: Assisted, visit: Visiting) -> None:
    def answer(prompt: RecordedPrompt) -> FakeAnswer:
        if prompt.messages[-1].role == "tool":
            raise ServiceUnavailable(HOSTILE[1])
        return calls("weather", **{HOSTILE[1]: "\u202e" + HOSTILE[0]})

    there = trapped(visit(assisted(answer)))
    with_function(there, "Forecaster")
    open_thread(there, "Forecaster")
    turn = there.say("x")
    expect(turn.locator(".paused .odd")).to_have_text("U+202E")
    look(there, forms=1)
    turn.get_by_label("Output of weather").fill(HOSTILE[0])
    there.button("Send", turn.locator(".paused")).click()
    expect(turn.locator(".card.error")).to_contain_text(HOSTILE[1])
    turn.locator(".call summary").click()
    look(there)


@pytest.mark.parametrize(
    "stored", ["{", "null", "[1, null, {}]", '[{"id": 1}]', '{"__proto__": []}']
)
def test_what_is_kept_in_the_browser(assisted: Assisted, visit: Visiting, stored: str) -> None:
    there = visit(assisted(lambda prompt: "yes"))
    there.page.evaluate("(kept) => localStorage.setItem('genai-host-threads', kept)", stored)
    begin(there, "Echo")
    expect(there.answer(there.hear("hello"))).to_have_text("yes")
    there.open("#/assistants")
    listed = there.page.get_by_role("list", name="Threads with Echo").get_by_role("link")
    expect(listed).to_have_text(["hello"])
