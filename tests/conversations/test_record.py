"""The event log: entries, JSON form, and the resulting history."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from attrs import fields, frozen
from conversing import as_json, recorded, reopened, scripted

from genai_host import Host, InMemoryRecord, Message
from genai_host.api import Answer, Citation, Codec, Cost, Detail, Image, Part, Usage
from genai_host.api.codec import default_codec
from genai_host.conversations.record import (
    SCHEMA,
    Changed,
    Entry,
    Opened,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    form_of,
)
from genai_host.conversations.replay import MAX_TURNS, check, replay
from genai_host.errors import Cancelled, RateLimited, ReplayError, ValidationError
from genai_host_testing import InlinePlugin

OPENED = Opened("chat", "1", {"main": "mock"})


def turn(
    number: int, *, says: str = "q", answer: str | None = "a", state: Any = None
) -> list[Entry]:
    entries: list[Entry] = [TurnStarted(number, Message("user", says), "1", 0)]
    if answer is not None:
        entries.append(TurnEnded(number, Answer(answer, state=state)))
    return entries


def test_a_failed_turn_stays_on_record_with_its_error(host: Host) -> None:
    conversation = scripted(host, {"status": 429})
    with pytest.raises(RateLimited) as caught:
        conversation.say("hi")
    *first, step, ended = recorded(conversation).entries
    assert [type(entry) for entry in first] == [Opened, TurnStarted, StepStarted]
    assert isinstance(step, StepEnded)
    assert isinstance(ended, TurnEnded)
    assert step.error == ended.error == caught.value
    error = caught.value
    assert (error.provider, error.model, error.status) == ("script", "mock", 429)


def test_it_grows_with_what_is_said_and_not_with_its_square(host: Host) -> None:
    conversation = host.open("chat", "mock")
    sizes = []
    for _ in range(30):
        conversation.say("the same words each time")
        sizes.append(len(json.dumps(as_json(conversation))))
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) - min(grown) < 100


def test_a_conversation_may_leave_no_record(host: Host) -> None:
    conversation = host.open("chat", "mock", record=False)
    conversation.say("hi")
    assert conversation.record is None
    assert len(conversation.history) == 2
    assert conversation.say(regenerate=True).text == "hi"
    conversation.undo()
    assert not conversation.history


def test_no_field_of_an_answer_is_left_out() -> None:
    names = {"summary", "details", "data", "new_messages", "state", "usage", "cost"}
    names |= {"images", "citations"}
    assert {each.name for each in fields(Answer)} == names


@pytest.mark.parametrize("answer", [
    Answer("plain"),
    Answer("told", [Detail("a", "b"), Detail("c", "d", {"e": [1, {"f": None}]})]),
    Answer("full", (), {"x": 1}, [Message("user", "q")], [2], Usage(3, 4), Cost(0.5, 1)),
    Answer("empty", new_messages=()),
    Answer("seen", images=[Image(b"123", "image/png"), Image(url="https://a.example/")]),
    Answer("cited", citations=[Citation("https://a.example", "A", start=1, end=3)]),
])  # fmt: skip
def test_answers_have_the_form_of_the_codec(answer: Answer) -> None:
    codec = Codec()
    entry = TurnEnded(7, answer)
    assert form_of(entry, codec) == {"entry": "turn_ended", **codec.to_json(entry)}
    assert InMemoryRecord.from_json([form_of(entry, codec)], codec).entries == (entry,)


def test_answers_are_read_with_their_former_names() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "q"}]}
    image = {"type": "image", "data": "MTIz", "media_type": "image/png"}
    answer = {"summary": "a", "adds": [message], "pictures": [image]}
    form = {"entry": "turn_ended", "turn": 7, "answer": answer}
    [entry] = InMemoryRecord.from_json([form]).entries
    read = Answer("a", new_messages=[Message("user", "q")], images=[Image(b"123", "image/png")])
    assert entry == TurnEnded(7, read)


def test_it_round_trips_through_json(host: Host) -> None:
    options: Any = {"parameters": {"temperature": 0}, "settings": {"history_turns": 1}}
    conversation = scripted(host, "a", {"status": 503}, "b", "c", **options)
    conversation.say("one")
    with pytest.raises(Exception, match="503"):
        conversation.say("two")
    conversation.undo()
    conversation.say(["three", "four"])
    conversation.use(temperature=1)
    again = reopened(host, recorded(conversation))
    assert recorded(again).entries == recorded(conversation).entries
    assert again.history == conversation.history


@pytest.mark.parametrize("data", [
    *([{"entry": "nonsense"}], [{}], [{"entry": "opened"}], [{"entry": "opened", "x": 1}]),
    *([1], [None], [[]], [["entry", "opened"]], [{"entry": []}], [{"entry": None}]),
    *(["opened"], {"entry": "opened"}, None, 7, "opened"),
], ids=repr)  # fmt: skip
def test_what_is_no_record_is_refused(data: Any) -> None:
    with pytest.raises(ValidationError):
        InMemoryRecord.from_json(data)


class TestRetelling:
    def test_history_and_state_are_those_of_the_turns_that_were_answered(self) -> None:
        replayed = replay([OPENED, *turn(0, state=1), *turn(1, state=2)])
        assert (len(replayed.history), replayed.state, replayed.turns) == (4, 2, 2)
        assert replayed.pending == []

    def test_a_failed_turn_adds_nothing(self) -> None:
        failed = [*turn(1, answer=None), TurnEnded(1, error=Cancelled("x"))]
        replayed = replay([OPENED, *turn(0), *failed])
        assert (len(replayed.history), replayed.turns) == (2, 2)

    def test_a_turn_that_has_not_ended_is_pending(self) -> None:
        begun = [*turn(1, answer=None), StepStarted(1, (0,), "prompt", "x")]
        assert replay([OPENED, *turn(0), *begun]).pending == begun

    def test_turns_that_were_taken_back_are_gone(self) -> None:
        replayed = replay([OPENED, *turn(0), *turn(1, state=5), Rewound(2, 1), *turn(2, says="r")])
        assert [message.text for message in replayed.history] == ["q", "a", "r", "a"]
        assert [mark.history for mark in replayed.marks] == [0, 2]

    def test_turns_that_added_nothing_are_taken_back_alike(self) -> None:
        silent: list[list[Entry]] = [
            [
                TurnStarted(n, Message("user", f"q{n}"), "1", 0),
                TurnEnded(n, Answer("a", new_messages=())),
            ]
            for n in range(3)
        ]
        replayed = replay([OPENED, *silent[0], *silent[1], *silent[2], Rewound(0, 2)])
        assert replayed.history == ()
        assert [mark.started.turn for mark in replayed.marks] == [0, 1]

    def test_a_turn_in_place_of_the_last_counts_once_it_is_answered(self) -> None:
        again: list[Entry] = [TurnStarted(2, Message("user", "r"), "1", 2, again=True)]
        before = [OPENED, *turn(0, state=1), *turn(1, state=2)]
        for replayed in (
            replay([*before, *again]),
            replay([*before, *again, TurnEnded(2, error=Cancelled("x"))]),
        ):
            assert (len(replayed.history), replayed.state, len(replayed.marks)) == (4, 2, 2)
        replayed = replay([*before, *again, TurnEnded(2, Answer("b", state=3))])
        assert [message.text for message in replayed.history] == ["q", "a", "r", "b"]
        assert [(mark.history, mark.state) for mark in replayed.marks] == [(0, None), (2, 1)]
        assert replayed.state == 3

    def test_changes_hold_from_then_on(self) -> None:
        opened = replay(
            [OPENED, *turn(0), Changed({"main": "other"}, {"seed": 1}, {"x": 2})]
        ).opened
        assert (opened.models, opened.parameters) == ({"main": "other"}, {"seed": 1})
        assert opened.settings == {"x": 2}

    @pytest.mark.parametrize(("entries", "message"), [
        ([OPENED, TurnStarted(0, Message("user", "r"), "1", 0, again=True)],
         "replaces a turn that does not exist"),
        ([OPENED, OPENED], "begins twice"),
        ([OPENED, StepStarted(0, (0,), "now", "x")], "outside of a turn"),
        ([OPENED, TurnEnded(0, Answer("a"))], "outside of a turn"),
        ([], "no first entry"),
        (turn(0), "no first entry"),
        ([Opened("chat", "1", {}, schema=SCHEMA + 1)], f"not {SCHEMA} or earlier"),
    ])  # fmt: skip
    def test_what_cannot_be_is_refused(self, entries: list[Entry], message: str) -> None:
        with pytest.raises(ReplayError, match=message):
            replay(entries)


BEGUN = TurnStarted(0, Message("user", "q"), "1", 0)
STEP = StepStarted(0, (0,), "now", "x")
STEPPED = StepEnded(0, (0,), "y")


class TestChecking:
    @pytest.mark.parametrize("entries", [
        [*turn(0), Rewound(0, 0), *turn(1)],
        [*turn(0), *turn(1), Rewound(2, 1)],
        [BEGUN, STEP, STEPPED, TurnEnded(0, Answer("a")), *turn(MAX_TURNS)],
    ])  # fmt: skip
    def test_what_a_conversation_writes_is_accepted(self, entries: list[Entry]) -> None:
        check([OPENED, *entries], default_codec())

    @pytest.mark.parametrize(("entries", "message"), [
        ([BEGUN, BEGUN], "entry 2: a turn begins within another"),
        ([*turn(1), *turn(1)], "entry 3: the number of a turn is less than 2"),
        (turn(MAX_TURNS + 1), "entry 1: the number of a turn"),
        ([STEP], "entry 1: it is of no turn"),
        ([BEGUN, TurnEnded(1, Answer("a"))], "entry 2: it is of another turn"),
        ([BEGUN, STEP, STEP], "entry 3: a step begins twice"),
        ([BEGUN, STEPPED], "entry 2: a step ends that has not begun"),
        ([BEGUN, STEP, STEPPED, STEPPED], "entry 4: a step ends twice"),
        ([BEGUN, Rewound(0, 0)], "entry 2: turns are undone within a turn"),
        *(
            ([*turn(0), Rewound(*place)], "entry 3: more turns are undone than recorded")
            for place in ((-1, 0), (3, 0), (0, -1), (0, 2))
        ),
    ])  # fmt: skip
    def test_other_entries_are_refused(self, entries: list[Entry], message: str) -> None:
        with pytest.raises(ReplayError, match=f"^{message}"):
            check([OPENED, *entries], default_codec())


@frozen
class Place(Part):
    type: ClassVar[str] = "place"
    name: str


def test_parts_of_plugins_are_recorded_and_read_again(make_host: Any) -> None:
    host = make_host(places=InlinePlugin(parts=[Place]))
    conversation = host.open("chat", "mock")
    conversation.say(["where?", Place("Oslo")])
    assert reopened(host, recorded(conversation)).history[0].content[1] == Place("Oslo")
    with pytest.raises(ValidationError, match="unknown part 'place'"):
        InMemoryRecord.from_json(recorded(conversation).to_json(host.codec))
