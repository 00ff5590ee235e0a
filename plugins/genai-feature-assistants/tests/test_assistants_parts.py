"""What the Assistants' server is made of, part by part, and its feature `assistant`, without a
server."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import genai_feature_assistants
import pytest
from genai_feature_assistants.file_text import UnreadableFile, text_of
from genai_feature_assistants.service.fields import matches, must_be_filter
from genai_feature_assistants.service.indexing import Held, Passages, nearest, passages, unit_rows
from genai_feature_assistants.service.run_tools import AnnotatedPieces, annotations_of, mark
from hypothesis import given, settings, strategies as st

from genai_host import Config, Conversation
from genai_host.api import Message
from genai_host.errors import ContextOverflow, TurnPaused, UnexpectedFinish, ValidationError
from genai_host_testing import FakeModel, RecordedPrompt, replay_from_every_entry
from genai_host_testing.internal.assistants_api import calls, outputs_in, says
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.samples import pdf

PDF = pdf([b"BT /F1 12 Tf 10 100 Td (a page) Tj ET"])
NAMES = st.text(max_size=120)
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 3), st.integers(0, 3), NAMES), max_size=6))
def test_item_12_indices_slice_to_the_text_of_the_annotation(
    marks: list[tuple[str, int, int, str]],
) -> None:
    text = "".join(before + mark(round, number, name) for before, round, number, name in marks)
    files = {0: ["file_a"], 1: ["file_b", "file_c"]}
    annotations = annotations_of(text, files, {})
    ends = 0
    for each in annotations:
        assert text[each["start_index"] : each["end_index"]] == each["text"]
        assert each["start_index"] >= ends
        ends = each["end_index"]
    cited = [each["file_citation"]["file_id"] for each in annotations]
    expected = [
        files[round][number] for _, round, number, _ in marks if number < len(files.get(round, ()))
    ]
    assert [each for each in cited if each in ("file_a", "file_b", "file_c")] == cited
    assert len(cited) >= len(expected)


@given(TEXTS)
def test_any_text_has_annotations(text: str) -> None:
    for each in annotations_of(text, {0: ["a"]}, {"b": "c"}):
        assert text[each["start_index"] : each["end_index"]] == each["text"]


def test_a_path_ends_before_what_closes_the_sentence() -> None:
    text = "See sandbox:/mnt/data/a.csv. Or (sandbox:/mnt/data/b.csv)."
    annotations = annotations_of(text, {}, {"a.csv": "file_a", "b.csv": "file_b"})
    expected = ["sandbox:/mnt/data/a.csv", "sandbox:/mnt/data/b.csv"]
    assert [each["text"] for each in annotations] == expected
    assert [each["file_path"]["file_id"] for each in annotations] == ["file_a", "file_b"]


@given(
    st.lists(st.text(alphabet=string.ascii_letters, min_size=1, max_size=50), max_size=200),
    st.integers(100, 300),
)
def test_passages_have_every_word_of_a_text_whole_and_are_bounded(
    words: list[str], tokens: int
) -> None:
    text = " ".join(words)
    pieces = passages(text, tokens, tokens // 2)
    assert all(len(each) <= tokens * 4 for each in pieces)
    assert all(each in text for each in pieces)
    assert all(any(word in each.split() for each in pieces) for word in words)


@pytest.mark.parametrize(("data", "name", "text"), [
    (b"plain", "a.txt", "plain"),
    ("\ufeffmärk".encode(), "a.md", "märk"),
    ("zwei".encode("utf-16"), "a.txt", "zwei"),
    (b"<title>no</title><p>one</p><script>x</script><p>two", "a.html", "one\ntwo"),
    (b"<p><b>W</b>ater is H<sub>2</sub>O<p>two", "a.html", "Water is H2O\ntwo"),
    ("<meta charset=koi8-r><p>мост".encode("koi8-r"), "a.html", "мост"),
    ("<meta charset=iso-8859-1><p>für €".encode(), "a.html", "für €"),
    (b"caf\xe9", "a.txt", "café"),
    (PDF, "a.bin", "a page"),
])  # fmt: skip
def test_the_text_of_a_file(data: bytes, name: str, text: str) -> None:
    assert text_of(name, data).strip() == text


@given(st.binary(max_size=300), st.sampled_from(["a.pdf", "a.html", "a.txt", "a"]))
@settings(deadline=None)
def test_whatever_bytes_have_a_text_or_a_reason(data: bytes, name: str) -> None:
    try:
        assert text_of(name, data).strip()
    except UnreadableFile as error:
        assert error.code in ("unsupported_file", "invalid_file")


def test_passages_come_back_from_their_bytes() -> None:
    passages = Passages("m@p", ["one", "zw\u00f6lf"], unit_rows([[3.0, 4.0], [0.0, 0.0]]))
    again = Passages.from_bytes(passages.to_bytes("store/file"))
    assert (again.embedder, list(again.texts)) == ("m@p", ["one", "zw\u00f6lf"])
    assert again.vectors.tolist() == passages.vectors.tolist()
    assert again.vectors.tolist()[0] == pytest.approx([0.6, 0.8])
    assert passages.to_bytes("a") != passages.to_bytes("b")


def test_the_nearest_come_first_and_others_embedders_vectors_are_not_compared() -> None:
    one = Passages("m", ["x", "y"], unit_rows([[1, 0], [0, 1]]))
    other = Passages("n", ["z"], unit_rows([[1, 0, 0]]))
    hits = nearest([("a", one), ("b", other)], lambda embedder: unit_rows([[1, 0]]), 5)
    assert [(hit.key, hit.text, hit.score) for hit in hits] == [("a", "x", 1.0), ("a", "y", 0.0)]
    assert nearest([("a", one)], lambda embedder: unit_rows([[1, 0]]), 5, least=0.5) == hits[:1]


class Blobs:
    def __init__(self, data: bytes) -> None:
        self.reads = 0
        self._data = data

    def get(self, id: str) -> Any:
        self.reads += 1
        return iter([self._data])


def test_passages_that_were_read_lately_are_held_as_far_as_they_fit() -> None:
    data = Passages("m", ["a" * 500], unit_rows([[1.0] * 100])).to_bytes("x")
    held, blobs = Held(size=2000), Blobs(data)
    for id in ("a", "b", "a", "c", "a", "b"):
        held.get(id, blobs)  # type: ignore[arg-type] # it stands in for those of a store
    assert blobs.reads == 4


@pytest.mark.parametrize(("filter", "passes"), [
    ({"type": "eq", "key": "a", "value": 1}, True),
    ({"type": "eq", "key": "a", "value": True}, False),
    ({"type": "ne", "key": "b", "value": 1}, True),
    ({"type": "gte", "key": "a", "value": 1}, True),
    ({"type": "lt", "key": "a", "value": "x"}, False),
    ({"type": "in", "key": "a", "value": [1, 2]}, True),
    ({"type": "nin", "key": "a", "value": [1, 2]}, False),
    ({"type": "and", "filters": [{"type": "eq", "key": "a", "value": n} for n in (1, 1)]}, True),
    ({"type": "and", "filters": [{"type": "eq", "key": "a", "value": n} for n in (1, 2)]}, False),
    ({"type": "or", "filters": [{"type": "eq", "key": "a", "value": n} for n in (1, 2)]}, True),
    ({"type": "or", "filters": [{"type": "eq", "key": "a", "value": n} for n in (2, 3)]}, False),
])  # fmt: skip
def test_filters(filter: Any, passes: bool) -> None:
    must_be_filter(filter, "$")
    assert matches({"a": 1, "c": "x"}, filter) is passes


DEEP: Any = {"type": "eq", "key": "a", "value": 1}
for _ in range(50):
    DEEP = {"type": "and", "filters": [DEEP]}


@pytest.mark.parametrize("filter", [
    [], {}, {"type": "like", "key": "a", "value": 1}, {"type": "eq", "value": 1},
    {"type": "eq", "key": "a"}, {"type": "in", "key": "a", "value": 1},
    {"type": "eq", "key": "a", "value": [1]}, {"type": "and", "filters": 1}, DEEP,
])  # fmt: skip
def test_what_is_no_filter(filter: Any) -> None:
    with pytest.raises(ValidationError):
        must_be_filter(filter, "$")


FOUND = {0: ["f1", "f2"], 2: ["f3"]}
MADE = {"a.csv": "f9"}
TEXT = (
    "Hi【0:1†b】 and 【x】【【2:0†q】 sands sandbox:/mnt/data/a.csv, sandbox:/mnt/data/ s "
    "[it](sandbox:/mnt/data/a.csv). 【5:0†z】 sandbo 【0:0†a】【0:"
)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 21, 34, 55, len(TEXT)])
def test_pieces(width: int) -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    chunks = [
        piece for at in range(0, len(TEXT), width) for piece in pieces.add(TEXT[at : at + width])
    ]
    chunks += pieces.rest()
    assert "".join(piece["value"] for piece in chunks) == TEXT
    annotations = annotations_of(TEXT, FOUND, MADE)
    assert pieces.annotations == annotations
    assert len(annotations) == 5
    numbered = [{"index": number, **each} for number, each in enumerate(annotations)]
    assert [each for piece in chunks for each in piece.get("annotations", ())] == numbered
    for piece in chunks:
        for each in piece.get("annotations", ()):
            assert each["text"] in piece["value"]


def test_incomplete_mark_is_released() -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    for opening in ("【", "sandbox:/mnt/data/"):
        assert list(pieces.add(opening)) == []
        chunks = list(pieces.add("a" * 300))
        assert "".join(piece["value"] for piece in chunks) == opening + "a" * 300


def test_a_text_without_marks_comes_as_it_is() -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    assert [list(pieces.add(text)) for text in ("so ", "it ", "is")] == [
        [{"value": "so "}], [{"value": "it "}], [{"value": "i"}],
    ]  # fmt: skip
    assert list(pieces.rest()) == [{"value": "s"}]  # a path may begin with it


TOOL = {"name": "look", "description": "", "parameters": {"type": "object"}}
Open = Callable[..., tuple[Conversation, FakeModel]]


@pytest.fixture
def open_with(make_host: MakeHost) -> Open:
    def opened(answer: Any, **options: Any) -> tuple[Conversation, FakeModel]:
        fake = FakeModel(answer)
        host = make_host(
            fake=fake, assistants=genai_feature_assistants, config=Config(models={"chat": "fake"})
        )
        return host.open("assistant", "fake", **options), fake

    return opened


def looks(prompt: RecordedPrompt) -> Any:
    outputs = outputs_in(prompt)
    return (
        says(f"it is {outputs[0]}") if outputs else calls(("c1", "look", {"at": "é"}), text="Hm.")
    )


def test_it_waits_for_tools_and_goes_on_with_their_outputs(open_with: Open) -> None:
    conversation, _ = open_with(looks)
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    waiting = conversation.current_pause
    assert waiting is not None
    assert waiting.kind == "tools"
    assert waiting.payload == {
        "round": 0,
        "text": "Hm.",
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        "calls": [{"id": "c1", "name": "look", "arguments": '{"at":"é"}'}],
    }
    answer = conversation.resume({"c1": "blue"})
    assert answer.text == "it is blue"
    assert answer.state["round"] == 1
    assert conversation.state == answer.state


def test_it_is_the_same_on_replay(make_host: MakeHost) -> None:
    host = make_host(
        fake=FakeModel(looks),
        assistants=genai_feature_assistants,
        config=Config(models={"chat": "fake"}),
    )
    conversation = host.open("assistant", "fake")
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    conversation.resume({"c1": "blue"})
    assert conversation.record is not None
    assert replay_from_every_entry(host, conversation.record, give=lambda kind: {"c1": "blue"}) > 3  # type: ignore[arg-type]


def test_what_is_too_much_for_the_model_is_left_out_from_the_oldest_on(open_with: Open) -> None:
    history = [Message("system", "Be brief."), *(Message("user", f"{n}") for n in range(7))]
    conversation, fake = open_with(lambda prompt: says("ok"), history=history)
    fake.faults = {0: ContextOverflow("too long"), 1: ContextOverflow("too long")}
    assert conversation.say("last").text == "ok"
    [prompt] = fake.prompts
    assert [message.text for message in prompt.messages] == ["Be brief.", "6", "last"]


def test_of_what_tools_gave_half_is_left_out_where_it_is_too_much(open_with: Open) -> None:
    conversation, fake = open_with(looks, history=[Message("user", "a")])
    fake.faults = {1: ContextOverflow("too long"), 2: ContextOverflow("too long")}
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    assert conversation.resume({"c1": "blue" * 1000}).text == f"it is {'blue' * 500} [...]"
    assert [message.text for message in fake.prompts[-1].messages[:1]] == ["look"]


def test_short_outputs_are_not_shortened(open_with: Open) -> None:
    conversation, fake = open_with(looks)
    fake.faults = {1: ContextOverflow("too long")}
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL]})
    with pytest.raises(ContextOverflow):
        conversation.resume({"c1": "blue"})


def test_a_run_that_must_see_all_fails_where_it_is_too_much(open_with: Open) -> None:
    conversation, fake = open_with(looks, history=[Message("user", "a")])
    fake.faults = {0: ContextOverflow("too long")}
    with pytest.raises(ContextOverflow):
        conversation.say("last", context={"drops": False})


@pytest.mark.parametrize(("bounds", "reason"), [
    ({"most_completion": 10}, "max_completion_tokens"),
    ({"most_prompt": 20}, "max_prompt_tokens"),
])  # fmt: skip
def test_no_tool_is_called_beyond_a_bound(open_with: Open, bounds: Any, reason: str) -> None:
    conversation, _ = open_with(looks)
    answer = conversation.say("look", context={"tools": [TOOL], **bounds})
    assert (answer.text, answer.state["incomplete"]) == ("Hm.", reason)


def test_one_call_at_a_time_where_that_is_wanted(open_with: Open) -> None:
    conversation, _ = open_with(
        lambda prompt: calls(("c1", "look", {"n": 1}), ("c2", "look", {"n": 2}))
    )
    with pytest.raises(TurnPaused):
        conversation.say("look", context={"tools": [TOOL], "parallel": False})
    assert conversation.current_pause is not None
    assert [call["id"] for call in conversation.current_pause.payload["calls"]] == ["c1"]


def test_an_answer_that_was_filtered_is_an_error(open_with: Open) -> None:
    conversation, _ = open_with(lambda prompt: says("", finish="content_filter"))
    with pytest.raises(UnexpectedFinish, match="content_filter"):
        conversation.say("hi")
