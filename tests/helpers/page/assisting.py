"""Assistants on the page: models that play their part, and what a user does there."""

from __future__ import annotations

import re
from typing import Any

from page.visits import Visit
from playwright.sync_api import Locator, expect

from genai_host_testing import RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.internal.agents import calls

RIVERS = b"The Rhine is 1233 km long. <img src=x onerror=hit()>"
MARK = re.compile(r"【[^】]+】")
"""What a model is shown with each passage."""

FILE: Any = {"name": "rivers.txt", "mimeType": "text/plain", "buffer": RIVERS}


def searching(prompt: RecordedPrompt) -> FakeAnswer:
    """It searches, and cites what it finds."""
    if prompt.messages[-1].role != "tool":
        return calls("file_search", query=RIVERS.decode())  # equal texts are near
    mark = MARK.findall(result_of(prompt))[0]
    return f"It is **1233 km** long.{mark} That is 🏞 long."


def asking(prompt: RecordedPrompt) -> FakeAnswer:
    if prompt.messages[-1].role != "tool":
        return calls("weather", what="all")
    return f"It is {result_of(prompt)}"


def result_of(prompt: RecordedPrompt) -> str:
    """What the tools gave."""
    return "".join(
        part.text
        for result in prompt.messages[-1].content
        for part in getattr(result, "content", ())
        if hasattr(part, "text")
    )


def make(there: Visit, name: str, *, instructions: str = "", **tools: Any) -> Locator:
    """Make an assistant on the page; its card."""
    page = there.open("#/assistants").page
    page.get_by_text("Make an assistant").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Model").select_option("fake")
    page.get_by_label("Instructions").fill(instructions)
    if "files" in tools:
        page.get_by_label("Search in files").check()
        page.get_by_label("Files for the tools").set_input_files(tools["files"])
    if tools.get("code"):
        page.get_by_label("Run code").check()
    there.button("Make").click()
    card = page.locator("article.card").filter(has=page.get_by_role("heading", name=name))
    expect(card).to_be_visible()
    return card


def open_thread(there: Visit, name: str) -> None:
    """Go from the list to a new thread."""
    there.page.get_by_role("link", name=f"Talk to {name}").click()
    expect(there.page.locator("h1")).to_have_text(name)


def begin(there: Visit, name: str, **options: Any) -> Locator:
    """Make an assistant, and go to a new thread with it; its card."""
    card = make(there, name, **options)
    open_thread(there, name)
    return card


def with_function(there: Visit, name: str, function: str = "weather") -> None:
    """Have an assistant made as a program would, and open the list."""
    tool = {"type": "function", "function": {"name": function}}
    response = there.page.request.post(
        f"{there.url}/v1/assistants", data={"model": "fake", "name": name, "tools": [tool]}
    )
    assert response.ok, response.text()
    there.open("#/assistants")
