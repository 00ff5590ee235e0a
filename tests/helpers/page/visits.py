"""Somebody who has the page open."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

_HARMLESS = "Failed to load resource"  # a status of 400 or more, which tests look at


class Visit:
    """
    url         of the page
    elsewhere   requests for what is not of this server
    problems    errors of scripts, and what the page's policy refused
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.elsewhere: list[str] = []
        self.problems: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("request", self._see)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._collect)
        self.page.set_default_timeout(15_000)

    def _see(self, request: Request) -> None:
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.elsewhere.append(request.url)

    def _collect(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(_HARMLESS):
            self.problems.append(message.text)

    def open(self, place: str = "") -> Visit:
        self.page.goto(f"{self.url}/{place}")
        return self

    # --- saying something

    @property
    def field(self) -> Locator:
        return self.page.get_by_label("Message", exact=True).locator("visible=true").last

    def say(self, text: str) -> Locator:
        """Say it; the turn that it makes."""
        before = self.turns.count()
        self.field.fill(text)
        self.field.press("Enter")
        expect(self.turns).to_have_count(before + 1)
        return self.turns.last

    def hear(self, text: str) -> Locator:
        """Say it, and wait for what comes of it."""
        turn = self.say(text)
        self.wait(turn)
        return turn

    def wait(self, turn: Locator) -> None:
        expect(turn).not_to_have_class(re.compile("running"))

    @property
    def turns(self) -> Locator:
        return self.page.locator(".turn")

    def answer(self, turn: Locator) -> Locator:
        return turn.locator(".markdown")

    # --- getting about

    @property
    def listed(self) -> Locator:
        return self.page.locator("#conversations a")

    def button(self, name: str, within: Locator | None = None) -> Locator:
        return (within or self.page).get_by_role("button", name=name, exact=True)

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def announcements(self) -> Locator:
        """What is said to those who do not see the page."""
        return self.page.locator("#heard")
