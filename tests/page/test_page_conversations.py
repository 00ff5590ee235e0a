"""The list of conversations, and what is kept of them."""

from __future__ import annotations

import re

from page.kinds import MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import Route, expect

from genai_host_testing import FakeModel
from genai_host_testing.fake_service import HANG


def test_they_are_kept(there: Visit) -> None:
    expect(there.page.locator("#conversations .empty")).to_have_text(
        "Your conversations appear here."
    )
    there.hear("about apples")
    expect(there.listed).to_have_text(["about apples"])
    expect(there.page).to_have_url(re.compile("#/c/"))
    there.page.reload()
    expect(there.answer(there.turns.last)).to_have_text("about apples")
    expect(there.page).to_have_title("about apples - genai-host")


def test_one_goes_from_one_to_another(there: Visit) -> None:
    there.hear("about apples")
    there.button("New conversation").click()
    there.hear("about pears")
    expect(there.listed).to_have_text(["about pears", "about apples"])
    expect(there.listed.first).to_have_attribute("aria-current", "page")
    there.listed.last.click()
    expect(there.answer(there.turns.last)).to_have_text("about apples")
    there.hear("and more apples")
    expect(there.listed.first).to_have_text("about apples")
    there.page.go_back()
    expect(there.answer(there.turns.last)).to_have_text("about pears")


def test_one_answers_while_another_is_shown(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    model = FakeModel(lambda prompt: HANG if prompt.text == "hang" else prompt.text)
    there = visit(make_chat_host(model))
    there.hear("quick")
    there.button("New conversation").click()
    there.say("hang")
    assert model.hanging.wait(20)
    there.listed.filter(has_text="quick").click()
    expect(there.page.locator("h1")).to_have_text("quick")
    there.hear("also quick")
    there.listed.filter(has_text="hang").click()
    expect(there.page.locator("h1")).to_have_text("hang")
    expect(there.turns.last).to_have_class(re.compile("running"))
    there.button("Stop (Esc)").click()
    expect(there.turns.last).to_contain_text("Stopped.")


def test_late_reply_does_not_rename_another(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    host = make_chat_host()
    there = visit(host)
    for text in ("one", "two"):
        there.button("New conversation").click()
        there.hear(text)
    late, shown = (each.id for each in reversed(host.conversations()))
    there = visit(host)
    held: list[Route] = []
    there.page.route(f"**/conversations/{late}?*", lambda route: held.append(route))
    there.page.goto(f"{there.url}/#/c/{late}")
    expect(there.page.get_by_text("Loading …")).to_be_visible()
    there.page.goto(f"{there.url}/#/c/{shown}")
    expect(there.page).to_have_title("two - genai-host")
    with there.page.expect_response(f"**/conversations/{late}?*"):
        held[0].continue_()
    # by the time that another has been answered, it would be shown
    there.page.evaluate("() => fetch('api/v1').then((reply) => reply.text())")
    expect(there.page).to_have_title("two - genai-host")


def test_an_address_that_is_none_is_told(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = visit(make_chat_host(), "#/c/%")
    expect(there.page.get_by_role("alert")).to_contain_text("unknown conversation")


def test_they_are_renamed(there: Visit) -> None:
    there.hear("about apples")
    there.listed.first.hover()
    there.button("Rename about apples").click()
    field = there.dialog.get_by_label("Name")
    expect(field).to_be_focused()
    field.fill("Fruit")
    field.press("Enter")
    expect(there.listed).to_have_text(["Fruit"])
    expect(there.page.get_by_role("heading", level=1)).to_have_text("Fruit")
    there.page.reload()
    expect(there.page.get_by_role("heading", level=1)).to_have_text("Fruit")


def test_they_are_deleted(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    host = make_chat_host()
    there = visit(host)
    there.hear("about apples")
    there.listed.first.hover()
    there.button("Delete about apples").click()
    there.button("Cancel", there.dialog).click()
    expect(there.listed).to_have_count(1)
    there.listed.first.hover()
    there.button("Delete about apples").click()
    there.button("Delete", there.dialog).click()
    expect(there.listed).to_have_count(0)
    expect(there.page.get_by_text("What would you like to talk about?")).to_be_visible()
    assert host.conversations() == []


def test_they_are_found_by_what_was_said(there: Visit) -> None:
    for text in ("about apples", "about pears"):
        there.button("New conversation").click()
        there.hear(text)
    there.page.get_by_label("Search the conversations").fill("pears")
    expect(there.listed).to_have_count(2)  # what was said, and the answer
    expect(there.listed.first).to_contain_text("pears")
    there.listed.first.click()
    expect(there.answer(there.turns.last)).to_have_text("about pears")
    there.page.get_by_label("Search the conversations").fill("nothing of the kind")
    expect(there.page.locator("#conversations")).to_have_text("Nothing found.")
    there.page.get_by_label("Search the conversations").fill("")
    expect(there.listed).to_have_count(2)


def test_late_page_does_not_replace_a_search(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    host = make_chat_host()
    for number in range(31):
        host.open("chat").say(f"about {number} apples")
    there = visit(host)
    held: list[Route] = []
    there.page.route("**/conversations?*after=*", lambda route: held.append(route))
    there.button("Show more").click()
    there.page.get_by_label("Search the conversations").fill("17")
    expect(there.listed).to_have_count(2)
    with there.page.expect_response("**/conversations?*after=*"):
        held[0].continue_()
    # by the time that another has been answered, they would be shown
    there.page.evaluate("() => fetch('api/v1').then((reply) => reply.text())")
    expect(there.listed).to_have_count(2)


def test_they_are_exported(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    there = visit(make_chat_host(), accept_downloads=True)
    there.hear("about apples")
    for name, suffix in (("Markdown", ".md"), ("JSON", ".json")):
        there.button("Export the conversation").click()
        with there.page.expect_download() as download:
            there.button(name, there.dialog).click()
        assert download.value.suggested_filename.endswith(suffix)
        with open(download.value.path(), encoding="utf-8") as file:
            assert "about apples" in file.read()


def test_model_and_parameters_are_changed(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    model = FakeModel(
        lambda prompt: f"{prompt.parameters.get('max_tokens')} {prompt.messages[0].text}"
    )
    there = visit(make_chat_host(model))
    there.page.get_by_label("Model", exact=True).select_option("fake")
    there.page.get_by_text("Parameters and settings").click()
    there.page.get_by_label("max tokens").fill("7")
    turn = there.hear("hi")
    expect(there.answer(turn)).to_contain_text("7 ")
    there.page.get_by_role("button", name=re.compile("^Model, provider")).click()
    there.dialog.get_by_text("Parameters and settings").click()
    expect(there.dialog.get_by_label("max tokens")).to_have_value("7")
    there.dialog.get_by_label("max tokens").fill("9")
    there.dialog.get_by_label("system prompt").fill("Be brief.")
    there.button("Save", there.dialog).click()
    expect(there.dialog).to_have_count(0)
    turn = there.hear("hi")
    expect(there.answer(turn)).to_have_text("9 Be brief.")
    there.page.get_by_role("button", name=re.compile("^Model, provider")).click()
    there.dialog.get_by_text("Parameters and settings").click()
    there.dialog.get_by_label("max tokens").fill("")
    there.button("Save", there.dialog).click()
    expect(there.dialog).to_have_count(0)
    turn = there.hear("hi")
    expect(there.answer(turn)).to_have_text("None Be brief.")


def test_only_pairs_that_run_are_offered(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    import genai_vendor_mock
    import genai_vendor_openai

    there = visit(make_chat_host(mock=genai_vendor_mock, openai=genai_vendor_openai))
    provider = there.page.get_by_label("Provider", exact=True)
    expect(provider.locator("option")).to_have_text(["whichever runs it", "mock", "fake"])
    there.page.get_by_label("Model", exact=True).select_option("fake")
    expect(provider.locator("option")).to_have_text(["whichever runs it", "fake"])
    there.button("Unavailable models").click()
    there.dialog.get_by_role("searchbox").fill("openai")
    expect(there.dialog.locator(".reasons > ul > li").first).to_contain_text("openai")
    there.dialog.get_by_role("searchbox").fill("nothing of the kind")
    expect(there.dialog.locator(".reasons")).to_have_text("Nothing found.")
