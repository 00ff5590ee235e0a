"""What a model, an assistant, a tool or a stranger writes stays text: no script runs, nothing is
fetched."""

from __future__ import annotations

from typing import Any

import pytest
from page.assisting import MARK, begin, open_thread, result_of, with_function
from page.charts import AGENT
from page.hostile import FOUND, HOSTILE, look, trapped
from page.kinds import Assisted, MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import expect

from genai_host import Message
from genai_host.api import Completion, Image, Reasoning, ToolCall, ToolOutput
from genai_host.errors import ServiceUnavailable
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import Counting, calls, in_turn


def test_the_trap_would_be_seen(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = trapped(visit(make_chat_host()))
    there.page.evaluate("window.hit()")
    assert there.page.evaluate(FOUND)["hits"] == 1


def test_policy_refuses_what_slips_through(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = trapped(visit(make_chat_host()))
    # later, as what is evaluated at once is the debugger's, which no policy binds
    refused = there.page.evaluate(
        """() => new Promise((done) => setTimeout(() => {
            const names = [];
            const image = document.createElement("img");
            for (const act of [
                () => { document.body.innerHTML = "<img src=x onerror=hit()>"; },
                () => { image.setAttribute("onerror", "hit()"); },
                () => { (0, eval)("hit()"); },
                () => { new Function("hit()")(); },
            ]) {
                try { act(); names.push("done"); } catch (error) { names.push(error.name); }
            }
            image.src = "https://evil.example/x.png";
            image.addEventListener("error", () => done(names));
        }))"""
    )
    assert refused == ["TypeError", "TypeError", "EvalError", "EvalError"]
    assert there.page.evaluate("window.hits") == 0
    assert there.problems
    there.problems.clear()
    there.elsewhere.clear()


def test_an_answer_is_text(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = trapped(visit(make_chat_host()))
    for number in range(0, len(HOSTILE), 8):
        there.hear("\n\n".join(HOSTILE[number : number + 8]))
    expect(there.turns.last.locator(".markdown")).not_to_have_class("markdown plain")
    look(there)
    there.page.reload()
    expect(there.turns.last.locator(".markdown > *").first).to_be_attached()
    look(there)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_each_answer_is_text(hostile: Visit, text: str) -> None:
    expect(hostile.answer(hostile.hear(text))).not_to_have_class("markdown plain")
    look(hostile)


@pytest.fixture
def hostile(make_chat_host: MakeChatHost, visit: Visiting) -> Visit:
    return trapped(visit(make_chat_host()))


def test_what_is_around_an_answer_is_text(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    everything = " ".join(HOSTILE)
    rows = [[text, number] for number, text in enumerate(HOSTILE)]
    data = {"columns": [HOSTILE[0], HOSTILE[1]], "rows": rows, "more": False}
    chart = {"display-type": "pie", "title": everything, "label": HOSTILE[0]}
    reactions: list[dict[str, Any]] = [
        {"type": "table", **data},
        {"type": "chart", **chart, "values": [HOSTILE[1]], **data},
        {"type": "message", "message": everything},
        {"type": "redirect", "url": "https://evil.example/\u202e"},
        {"type": "confirmation", "description": everything, "options": list(HOSTILE[:5])},
        {"type": "<img src=x onerror=hit()>", "x": everything},
        {"type": "own", "url": "javascript:hit()", "html": everything},
    ]
    tool = Counting("look", ToolOutput(everything, reactions=reactions))
    call = ToolCall("1", "look", {everything: everything})
    asks = Completion(Message("assistant", [Reasoning(everything), call]), "tool_calls")
    there = trapped(visit(make_chat_host(in_turn(asks, everything), tool, config=AGENT)))
    there.page.get_by_label("Feature").select_option("agent")
    turn = there.hear(everything[:2000])
    turn.locator(".foot .text-button").click()
    for summary in turn.locator(".behind summary").all():
        summary.click()
    for kind in ("bar", "row", "line", "area", "table"):
        turn.get_by_label("Shown as").select_option(kind)
    look(there)
    there.page.reload()
    there.turns.first.wait_for()
    look(there)


def test_errors_names_and_searches_are_text(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    model = FakeModel()
    model.faults[0] = ServiceUnavailable(HOSTILE[1], hint=HOSTILE[0])
    there = trapped(visit(make_chat_host(model)))
    there.hear(HOSTILE[1])
    expect(there.turns.last.locator(".card.error")).to_contain_text(HOSTILE[1])
    expect(there.page.locator("h1")).to_have_text(HOSTILE[1])
    there.page.get_by_label("Search the conversations").fill("onerror")
    expect(there.listed.first).to_contain_text("onerror")
    look(there)


def test_calls_that_wait_are_text(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    wipe = Counting("wipe", "wiped", approval="ask")
    model = in_turn(calls("wipe", **{HOSTILE[1]: "\u202e" + HOSTILE[0]}), "done")
    there = trapped(visit(make_chat_host(model, wipe, config=AGENT)))
    there.page.get_by_label("Feature").select_option("agent")
    there.hear("x")
    expect(there.page.locator(".paused .odd")).to_have_text("U+202E")
    look(there)


def test_signs_that_deceive_are_shown(there: Visit) -> None:
    joined = "\U0001f469\u200d\U0001f469 \u0645\u06cc\u200c\u062e"  # by what joins and parts signs
    turn = there.hear(f"a\u202eb\u2066c\u200bd\ufeffe\U000e0041f {joined} `x\u202ey`")
    odd = there.answer(turn).locator(".odd")
    expect(odd).to_have_text(["U+202E", "U+2066", "U+200B", "U+FEFF", "U+E0041", "U+202E"])
    expect(turn.locator(".bubble .odd")).to_have_count(6)


def test_what_is_copied_is_what_was_written(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = visit(make_chat_host(), permissions=["clipboard-read", "clipboard-write"])
    there.button("Copy the code", there.hear("```\nrm x\u202e\n```")).click()
    expect(there.page.locator(".note")).to_have_text("Copied.")
    assert there.page.evaluate("navigator.clipboard.readText()") == "rm x\u202e\n"


def test_a_picture_becomes_a_link(there: Visit) -> None:
    turn = there.hear("![A cat](https://pictures.example/cat.png)")
    link = there.answer(turn).get_by_role("link", name="A cat")
    expect(link).to_have_attribute("href", "https://pictures.example/cat.png")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(link).to_have_attribute("target", "_blank")


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
