"""For everybody: by keyboard, by ear, in the dark, and on a narrow screen."""

from __future__ import annotations

from typing import Any

import genai_vendor_mock
import pytest
from page.charts import CHART
from page.kinds import Check, MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import Locator, expect

from genai_host import Config, Host
from genai_host.api import ToolOutput
from genai_host.errors import ServiceUnavailable
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.agents import Counting, calls

MARKDOWN = """# One

### Three

| a | b |
| --- | --- |
| 1 | 2 |

```python
x = 1
```

> said, with `code` and a [link](https://example.com)

1. one
   - two
"""


def answering(prompt: RecordedPrompt) -> Any:
    last = prompt.messages[-1]
    if last.role == "tool":
        return MARKDOWN
    if last.text in ("look", "wipe"):
        return calls(last.text, what="all")
    return HANG if last.text == "hang" else last.text


@pytest.fixture
def host(make_chat_host: MakeChatHost) -> Host:
    model = FakeModel(answering)
    model.faults[4] = ServiceUnavailable("gone", hint="wait")
    look = Counting("look", ToolOutput("found", reactions=[CHART]))
    wipe = Counting("wipe", "wiped", approval="ask")
    config = Config(feature="agent", models={"chat": "fake"})
    return make_chat_host(model, look, wipe, config=config, mock=genai_vendor_mock)


@pytest.mark.parametrize("size", [(1180, 800), (375, 720)], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    host: Host, visit: Visiting, check: Check, scheme: str, size: tuple[int, int]
) -> None:
    there = visit(host, color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    page = there.page
    expect(page.get_by_label("Feature")).to_have_value("chat")
    check(there, "empty")
    page.get_by_label("Feature").select_option("agent")
    page.get_by_label("Model", exact=True).select_option("fake")
    page.get_by_text("Parameters and settings").click()
    expect(page.get_by_label("max tokens")).to_be_visible()
    check(there, "with parameters")
    turn = there.hear("look")
    expect(turn.locator("figure svg")).to_be_visible()
    turn.locator(".foot .text-button").click()
    for summary in turn.locator(".behind summary").all():
        summary.click()
    check(there, "answered, with details")
    for kind in ("pie", "table"):
        turn.get_by_label("Shown as").select_option(kind)
        check(there, kind)
    there.hear("wipe")
    expect(there.button("Allow once")).to_be_visible()
    check(there, "paused")
    there.button("Deny").click()
    there.wait(there.turns.last)
    there.hear("fail")
    expect(page.locator(".card.error")).to_be_visible()
    check(there, "failed")
    there.say("hang")
    expect(page.get_by_text("Working")).to_be_visible()
    check(there, "running")
    page.keyboard.press("Escape")
    expect(there.turns.last).to_contain_text("Stopped.")
    there.button("Edit the message and send it again").last.click()
    check(there, "editing")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Model, provider and parameters").click()
    expect(there.dialog.get_by_label("Feature")).to_have_value("agent")
    check(there, "dialog")
    there.button("Unavailable models").click()
    expect(there.dialog.last.locator(".reasons")).not_to_contain_text("Loading")
    check(there, "reasons")
    for place in ("plugins", "providers"):
        there.open(f"#/{place}")
        expect(page.locator(".card-head").first).to_be_visible()
        for summary in page.locator("main summary").all():
            summary.click()
        check(there, place)
    if size[0] < 700:
        there.button("Open the list of conversations").click()
        check(there, "drawer")


def test_the_other_colours_are_chosen_and_kept(host: Host, visit: Visiting, check: Check) -> None:
    there = visit(host, color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = there.page.evaluate(paper)
    there.button("Colours: system").click()
    there.button("Colours: light").click()
    expect(there.button("Colours: dark")).to_be_visible()
    dark = there.page.evaluate(paper)
    assert dark != light
    there.page.reload()
    assert there.page.evaluate(paper) == dark
    expect(there.page.get_by_label("Feature")).to_have_value("chat")
    check(there, "dark by choice")


class TestTheKeyboard:
    def test_is_enough(self, host: Host, visit: Visiting) -> None:
        there = visit(host)
        expect(there.field).to_be_focused()
        keys = there.page.keyboard
        keys.type("first")
        keys.press("Shift+Enter")
        keys.type("line")
        keys.press("Enter")
        expect(there.answer(there.turns.last)).to_have_text("first\nline")
        expect(there.field).to_be_focused()
        self.go(there, there.turns.last.locator(".foot .text-button"), "Shift+Tab")
        keys.press("Enter")
        expect(there.turns.last.locator(".behind")).to_be_visible()
        keys.press("Alt+n")
        expect(there.page.get_by_text("What would you like to talk about?")).to_be_visible()
        expect(there.field).to_be_focused()
        self.go(there, there.button("Rename first line"), "Shift+Tab")
        keys.press("Enter")
        keys.type("Renamed")
        keys.press("Enter")
        expect(there.listed).to_have_text(["Renamed"])
        self.go(there, there.listed.first, "Shift+Tab")
        keys.press("Enter")
        expect(there.page.locator("h1")).to_have_text("Renamed")

    @staticmethod
    def go(there: Visit, to: Locator, key: str) -> None:
        for _ in range(60):
            if to.evaluate("(element) => element === document.activeElement"):
                return
            there.page.keyboard.press(key)
        raise AssertionError("the keyboard does not lead there")

    def test_skips_to_the_conversation(self, host: Host, visit: Visiting) -> None:
        there = visit(host)
        expect(there.field).to_be_focused()
        link = there.page.get_by_role("link", name="Skip to the conversation")
        self.go(there, link, "Shift+Tab")
        expect(link).to_be_in_viewport()
        there.page.keyboard.press("Enter")
        expect(there.page.locator("main")).to_be_focused()
        expect(there.field).to_be_visible()

    def test_stops(self, host: Host, visit: Visiting) -> None:
        there = visit(host)
        there.say("hang")
        there.page.keyboard.press("Escape")
        expect(there.turns.last).to_contain_text("Stopped.")
        expect(there.field).to_be_focused()

    def test_closes_a_dialog_and_comes_back(self, host: Host, visit: Visiting) -> None:
        there = visit(host)
        opener = there.button("Unavailable models")
        opener.focus()
        there.page.keyboard.press("Enter")
        expect(there.dialog.get_by_role("searchbox")).to_be_focused()
        there.page.keyboard.press("Escape")
        expect(there.dialog).to_have_count(0)
        expect(opener).to_be_focused()


def test_whole_answers_are_said_and_not_pieces(host: Host, visit: Visiting) -> None:
    there = visit(host)
    there.page.evaluate("""() => {
        const heard = document.getElementById("heard");
        window.said = [];
        new MutationObserver(() => {
            if (heard.textContent) window.said.push(heard.textContent);
        }).observe(heard, { childList: true, characterData: true, subtree: true });
    }""")
    there.hear("a long enough answer that comes in many pieces, one after the other")
    expect(there.announcements).to_contain_text("Answer: a long enough answer")
    assert len(there.page.evaluate("window.said")) == 1
    expect(there.page.locator("main [aria-live]:not([aria-live=off])")).to_have_count(0)


class TestANarrowScreen:
    @pytest.fixture
    def there(self, host: Host, visit: Visiting) -> Visit:
        return visit(host, viewport={"width": 375, "height": 700}, has_touch=True, is_mobile=True)

    def test_nothing_is_wider_than_it(self, there: Visit) -> None:
        wide = "document.documentElement.scrollWidth"
        there.page.get_by_label("Feature").select_option("agent")
        there.page.get_by_text("Parameters and settings").click()
        assert there.page.evaluate(wide) == 375
        turn = there.hear("look")
        turn.locator(".foot .text-button").click()
        for summary in turn.locator(".behind summary").all():
            summary.click()
        there.hear("x" * 500 + " | " + "`" + "y" * 300 + "`")
        assert there.page.evaluate(wide) == 375
        inner = "(e) => e.scrollWidth <= e.clientWidth"
        assert there.page.locator(".transcript").evaluate(inner)

    def test_the_list_is_a_drawer(self, there: Visit) -> None:
        there.hear("first")
        sidebar = there.page.locator("#sidebar")
        expect(sidebar).to_be_hidden()
        there.button("Open the list of conversations").click()
        expect(sidebar).to_be_visible()
        expect(there.button("Close the list")).to_be_focused()
        there.page.keyboard.press("Escape")
        expect(sidebar).to_be_hidden()
        expect(there.button("Open the list of conversations")).to_be_focused()
        there.button("Open the list of conversations").click()
        there.button("New conversation").click()
        expect(sidebar).to_be_hidden()
        there.button("Open the list of conversations").click()
        there.listed.first.click()
        expect(sidebar).to_be_hidden()
        expect(there.answer(there.turns.last)).to_have_text("first")


def test_less_motion_is_no_motion(host: Host, visit: Visiting) -> None:
    there = visit(host, reduced_motion="reduce")
    there.say("hang")
    dots = there.page.locator(".dots")
    assert dots.evaluate("(e) => getComputedStyle(e).animationName") == "none"
    there.page.keyboard.press("Escape")
