"""The research assistant with real parts, none of which needs a network or a key: the embedded
model, its embedder, the search engine over this project's own documents, the list of words."""

from __future__ import annotations

import re
from pathlib import Path

import genai_feature_research
import genai_search_corpus
import genai_tools_pages
import genai_vendor_wordlist
import pytest
from genai_feature_research.assistant import Assistant
from genai_feature_research.prompts import FLAGGED

from genai_host import Host
from genai_host_testing.internal.fixtures import MakeHost

DOCS = Path(__file__).parents[3] / "docs"

pytestmark = [pytest.mark.slow, pytest.mark.weights, pytest.mark.timeout(600)]


@pytest.fixture
def host(make_local_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("GENAI_TOOLS_CORPUS", str(DOCS))
    plugins = {
        "research": genai_feature_research, "corpus": genai_search_corpus,
        "pages": genai_tools_pages, "wordlist": genai_vendor_wordlist,
    }  # fmt: skip
    return make_local_host(plugins=plugins, window=4096)


def test_the_whole_of_it_over_the_documents_of_this_project(host: Host) -> None:
    assistant = Assistant(host, "smollm2", settings={"max_tokens": 60, "temperature": 0.2})
    request = {
        "input_text": "Where are conversations kept?",
        "additional_searches": ["conversations.store"],
        "settings": {"num_of_excerpts": 3, "style_pass": True},
    }
    used = []
    events = assistant.stream(request)
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            result = end.value
            break
        if event.kind == "step" and event.data.kind == "prompt":
            used.append(event.data.data["usage"])

    assert result["warnings"] == [each for each in result["warnings"] if "left out" in each]
    assert len(used) == 3, "a query, an answer and the style pass"
    assert (
        result["tokens_used"]
        == sum(each["input_tokens"] + each["output_tokens"] for each in used)
        > 0
    )
    facts = result["search_history"]
    assert all(each["link"].startswith(DOCS.as_uri()) for each in facts)
    expected = ("configuration.md", "conversations.md", "backup.md")
    assert any(each["link"].endswith(expected) for each in facts), [each["link"] for each in facts]
    assert all(len(each["ada_search"]) == 384 for each in facts)
    assert result["similar_search_results"].count(DOCS.as_uri()) == 3
    assert all(int(each) <= 3 for each in re.findall(r"\[(\d+)\]", result["answer"]))
    rows = result["conversation_history"]
    assert [row["text"] for row in rows] == ["Where are conversations kept?", result["answer"]]
    assert all(len(row["ada_search"]) == 384 for row in rows)

    again = assistant.answer(
        {
            **request,
            "conversation_history": rows,
            "search_history": facts,
            "settings": {"num_of_excerpts": 3},
        }
    )
    assert again["search_history"] == facts, "what was found is not searched for again"
    assert len(again["conversation_history"]) == 4


def test_what_the_list_of_words_flags_is_declined(host: Host) -> None:
    assistant = Assistant(host, "smollm2")
    for text, declined in (("You fucking idiot", True), ("Where is Scunthorpe?", False)):
        settings = {"moderate": True, "answer_with_search": False, "max_tokens": 20}
        result = assistant.answer({"input_text": text, "settings": settings})
        assert (result["answer"] == FLAGGED) is declined
        assert (result["tokens_used"] == 0) is declined
