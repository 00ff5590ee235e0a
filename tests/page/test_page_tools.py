"""What tools give, and whether they may run."""

from __future__ import annotations

from typing import Any

import pytest
from page.charts import AGENT, CHART, DATA
from page.kinds import MakeChatHost, Visiting
from page.visits import Visit
from playwright.sync_api import expect

from genai_host.api import Citation, Completion, Image, Message, Part, Text, ToolOutput
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.agents import Counting, calls, in_turn


def with_reactions(
    make_chat_host: MakeChatHost, visit: Visiting, *reactions: Any, **fields: Any
) -> Visit:
    tool = Counting("look", ToolOutput("found", reactions=list(reactions), **fields))
    there = visit(make_chat_host(in_turn(calls("look"), "Here it is."), tool, config=AGENT))
    there.page.get_by_label("Feature").select_option("agent")
    there.hear("look")
    return there


class TestReactions:
    def test_a_table(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(make_chat_host, visit, {"type": "table", **DATA, "more": True})
        figure = there.page.locator("figure")
        expect(figure.locator("th")).to_have_text(["month", "north", "south"])
        expect(figure.locator("tbody tr").last.locator("td")).to_have_text(["Feb", "2", "3"])
        expect(figure).to_contain_text("The tool omitted rows")

    def test_sources_and_warnings(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(
            make_chat_host,
            visit,
            {
                "type": "sources",
                "sources": [
                    {"number": 2, "title": "Rivers <b>", "link": "https://rivers.example/a"},
                    {"number": 5, "title": "Mine", "link": "javascript:alert(1)"},
                ],
            },
            {"type": "warnings", "warnings": ["the search failed <i>"]},
        )
        listed = there.page.get_by_role("list", name="sources").get_by_role("listitem")
        expect(listed).to_have_text(["Rivers <b>", "Mine"])
        expect(listed.first).to_have_attribute("value", "2")
        expect(listed.first.get_by_role("link")).to_have_attribute(
            "href", "https://rivers.example/a"
        )
        expect(listed.last.get_by_role("link")).to_have_count(0)
        warned = there.page.get_by_role("list", name="warnings").get_by_role("listitem")
        expect(warned).to_have_text(["the search failed <i>"])

    def test_pages_an_answer_cites(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        urls = ["https://oslo.example/a", "javascript:alert(1)"]
        said = Text("It is cold.", citations=[Citation(url, "Oslo <b>") for url in urls])
        model = FakeModel(lambda prompt: Completion(Message("assistant", said)))
        there = visit(make_chat_host(model))
        there.hear("hi")
        for _ in range(2):
            listed = there.page.get_by_role("list", name="sources").get_by_role("link")
            expect(listed).to_have_text(["Oslo <b>"])
            expect(listed).to_have_attribute("href", urls[0])
            there.page.reload()

    def test_chart_is_drawn_as_wished(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        figure = with_reactions(make_chat_host, visit, CHART).page.locator("figure")
        expect(figure.locator("figcaption")).to_have_text("Sales")
        expect(figure.locator("rect")).to_have_count(4)
        label = figure.get_by_role("img").get_attribute("aria-label")
        assert label == "Sales: bar chart of north, south. Jan 1, 4; Feb 2, 3"
        for kind, drawn, count in (
            ("row", "rect", 4),
            ("line", "path.line", 2),
            ("area", "path.area", 2),
            ("pie", "path.slice", 2),
            ("scalar", "text.scalar", 1),
            ("table", "tbody tr", 2),
        ):
            figure.get_by_label("Shown as").select_option(kind)
            expect(figure.locator(drawn)).to_have_count(count)

    def test_a_chart_without_values(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(make_chat_host, visit, {**CHART, "values": ["west"]})
        figure = there.page.locator("figure")
        for kind in ("row", "line", "pie", "scalar"):
            figure.get_by_label("Shown as").select_option(kind)
            expect(figure).to_contain_text("No data to draw.")

    def test_years_and_ids_are_not_written_as_quantities(
        self, make_chat_host: MakeChatHost, visit: Visiting
    ) -> None:
        columns = ["shop_id", "zip", "built", "year", "open", "sales"]
        rows = [[123456, 10115, 1998, 1250, 1800, 123456], [7654321, 99423, None, 2024, 2500, 20.5]]
        data = {"columns": columns, "rows": rows, "more": False}
        chart = {"type": "chart", "title": "Shops", "label": "shop_id", **data}
        there = with_reactions(
            make_chat_host,
            visit,
            {**chart, "display-type": "bar", "values": ["built", "year", "sales"]},
            {**chart, "display-type": "scalar", "values": ["year"]},
            {"type": "table", **data},
        )
        figures = there.page.locator("figure")
        expect(figures).to_have_count(3)
        several, one, table = figures.all()
        label = several.get_by_role("img").get_attribute("aria-label")
        assert label is not None
        assert label.endswith(" 123456 1998, 1250, 123.46K; 7654321 \N{EN DASH}, 2024, 20.5")
        expect(one.locator("text.scalar")).to_have_text("1250")
        one.get_by_label("Shown as").select_option("bar")
        expect(one.locator("text.tick.end").last).to_have_text("2500")
        expect(table.locator("tbody td")).to_have_text(
            [
                *("123456", "10115", "1998", "1250", "1,800", "123.46K"),
                *("7654321", "99423", "\N{EN DASH}", "2024", "2,500", "20.5"),
            ]
        )

    def test_its_display_can_change(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(
            make_chat_host,
            visit,
            CHART,
            {"type": "change-display-type", "display-type": "table"},
            {"type": "change-table-visualization-settings", "visible-columns": ["month", "south"]},
        )
        expect(there.page.locator("figure th")).to_have_text(["month", "south"])

    def test_a_redirect_is_asked_about(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(make_chat_host, visit, {"type": "redirect", "url": "/elsewhere?x=1"})
        there.page.get_by_role("button", name="Open the address …").click()
        expect(there.dialog).to_contain_text(f"{there.url}/elsewhere?x=1")
        with there.page.context.expect_page() as opened:
            there.button("Open", there.dialog).click()
        assert opened.value.url == f"{there.url}/elsewhere?x=1"
        assert opened.value.evaluate("window.opener") is None

    @pytest.mark.parametrize("options", [["Yes", "No"], {"Yes": "Yes", "No": 3}])
    def test_confirmation(
        self, make_chat_host: MakeChatHost, visit: Visiting, options: Any
    ) -> None:
        reaction = {"type": "confirmation", "description": "Send it?", "options": options}
        there = with_reactions(make_chat_host, visit, reaction)
        expect(there.button("No")).to_be_visible()
        there.button("Yes").click()
        expect(there.turns).to_have_count(2)
        expect(there.turns.last.locator(".bubble")).to_have_text("Yes")

    def test_others_are_said(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        there = with_reactions(
            make_chat_host,
            visit,
            {
                "type": "api-call",
                "method": "DELETE",
                "url": "/api/v1/conversations",
                "body": {"a": 1},
            },
            {"type": "goto-question", "question_id": 7},
            {"type": "message", "message": "Aside"},
            {"type": "writeback", "message": "row 3"},
            {"type": "unheard-of", "x": 1},
        )
        after = there.turns.last.locator(".after")
        expect(after).to_contain_text('DELETE /api/v1/conversations {"a":1}')
        expect(after).to_contain_text("Question to go to: 7")
        expect(after).to_contain_text("Aside")
        expect(after).to_contain_text("row 3")
        expect(after).to_contain_text("Reaction: unheard-of")
        expect(there.listed).to_have_count(1)

    def test_pictures_are_shown(self, make_chat_host: MakeChatHost, visit: Visiting) -> None:
        from page.files import DOT

        pictures: list[str | Part] = [
            "found",
            Image(DOT, "image/png"),
            Image(b"<svg/>", "image/svg+xml"),
        ]
        tool = Counting("look", ToolOutput(pictures))
        there = visit(make_chat_host(in_turn(calls("look"), "Here."), tool, config=AGENT))
        there.page.get_by_label("Feature").select_option("agent")
        turn = there.hear("look")
        expect(turn.locator(".pictures img")).to_have_count(1)
        there.page.wait_for_function(
            "() => document.querySelector('.pictures img').naturalWidth === 1"
        )
        expect(turn.locator(".pictures")).to_contain_text("of a kind that is not shown")


def wiping(prompt: RecordedPrompt) -> Any:
    last = prompt.messages[-1]
    if last.role == "tool":
        return f"{len(last.content)} done"
    return calls(*["wipe"] * int(last.text), what="all")


def test_tools_show_while_the_model_goes_on(make_chat_host: MakeChatHost, visit: Visiting) -> None:
    look = Counting("look", "found")
    model = FakeModel(lambda prompt: HANG if prompt.number else calls("look"))
    there = visit(make_chat_host(model, look, config=AGENT))
    there.page.get_by_label("Feature").select_option("agent")
    turn = there.say("look")
    expect(turn.locator(".progress .good")).to_have_text("tool look")
    there.page.keyboard.press("Escape")
    expect(turn).to_contain_text("Stopped.")


class TestApprovals:
    @pytest.fixture
    def wipe(self) -> Counting:
        return Counting("wipe", "wiped", approval="ask")

    @pytest.fixture
    def there(self, make_chat_host: MakeChatHost, visit: Visiting, wipe: Counting) -> Visit:
        there = visit(make_chat_host(FakeModel(wiping), wipe, config=AGENT))
        there.page.get_by_label("Feature").select_option("agent")
        return there

    def test_it_may_run_once(self, there: Visit, wipe: Counting) -> None:
        turn = there.hear("1")
        expect(turn.locator(".paused")).to_contain_text('"what": "all"')
        expect(there.announcements).to_have_text("A tool wants to run: wipe")
        assert wipe.calls == []
        there.button("Allow once").click()
        expect(there.answer(turn)).to_have_text("1 done")
        assert wipe.calls == [{"what": "all"}]
        there.hear("1")
        expect(there.button("Allow once")).to_be_visible()

    def test_it_may_not(self, there: Visit, wipe: Counting) -> None:
        turn = there.hear("1")
        there.button("Deny").click()
        expect(there.answer(turn)).to_have_text("1 done")
        assert wipe.calls == []

    def test_each_is_decided_on(self, there: Visit, wipe: Counting) -> None:
        turn = there.hear("2")
        there.button("Allow once").first.click()
        there.button("Deny").click()
        there.wait(turn)
        expect(there.answer(turn)).to_contain_text("done")
        assert len(wipe.calls) == 1

    def test_it_may_always(self, there: Visit, wipe: Counting) -> None:
        there.hear("1")
        there.button("Always allow here").click()
        expect(there.answer(there.turns.last)).to_have_text("1 done")
        there.hear("1")
        expect(there.answer(there.turns.last)).to_have_text("1 done")
        assert len(wipe.calls) == 2
        there.button("New conversation").click()
        there.page.get_by_label("Feature").select_option("agent")
        there.hear("1")
        expect(there.button("Allow once")).to_be_visible()

    def test_it_waits_after_a_reload(self, there: Visit, wipe: Counting) -> None:
        there.hear("1")
        expect(there.button("Allow once")).to_be_visible()
        expect(there.page.locator("#conversations .mark.paused")).to_be_visible()
        there.page.reload()
        there.button("Allow once").click()
        expect(there.answer(there.turns.last)).to_have_text("1 done")
        assert len(wipe.calls) == 1
