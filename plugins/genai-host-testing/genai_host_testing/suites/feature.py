"""Suite for features: they are deterministic, and can be interrupted and resumed anywhere."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from genai_host.api import Answer, Feature
from genai_host.api.features import Event
from genai_host.config import Config
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.record import InMemoryRecord, StepStarted
from genai_host.errors import Cancelled, GenaiError, PluginError, ServiceUnavailable, TurnPaused
from genai_host.host import Host
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_model import FakeAnswer, FakeModel, RecordedPrompt
from genai_host_testing.fake_service import HANG
from genai_host_testing.purity import Watched
from genai_host_testing.replaying import replay_from_every_entry, timeless
from genai_host_testing.suites import child
from genai_host_testing.suites.base import ONE_ATTEMPT, PluginSuite, in_background
from genai_host_testing.suites.codec import sample_of

_MODELS = {"chat": "fake", "embed": "fake-embed", "moderate": "fake-moderate"}
_MAX = 50  # maximum number of tested interruption points


class FeatureSuite(PluginSuite):
    """Suite for a feature, with a fake model in this process.

        class TestPoet(FeatureSuite):
            plugin = genai_feature_poet
            feature = "poet"
            says = ["autumn", "another one"]

    The attributes and methods are not fixtures, because some tests run in further processes.

    Attributes:
        feature: Name of the feature.
        says: Messages of the user, turn by turn; all different.
        settings: Settings of the feature.
        answers: Method: answer of the model to a prompt; equal prompts must get equal answers. By
            default it echoes the prompt, or returns JSON that matches a simple schema.
        give: Method: value for a paused turn, by the kind of the pause.
    """

    feature: str
    says: Sequence[str] = ("hello there", "and what now?")
    settings: Mapping[str, Any] = {}

    def answers(self, heard: RecordedPrompt) -> FakeAnswer:
        return heard.text if heard.schema is None else json.dumps(sample_of(heard.schema))

    def give(self, kind: str) -> object:
        raise AssertionError(f"it waits for {kind}: override give")

    @pytest.fixture(autouse=True)
    def _ids_are_numbered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ids = 0
        monkeypatch.setattr("secrets.token_hex", self._next_id)

    # declarations

    def test_it_is_declared(self) -> None:
        feature = self.found()
        assert feature.help, "the feature has no `help`"
        assert feature.optional_roles <= feature.roles.keys()

    # answers

    def test_it_answers(self) -> None:
        conversation = self.open()
        for text in self.says:
            answer = self.take(conversation, text)
            assert isinstance(answer, Answer)
            assert answer.text or answer.data is not None

    def test_stream_and_say_give_the_same_answer(self) -> None:
        plain, streamed = self.open(), self.open()
        for text in self.says:
            expected = self.take(plain, text)
            *others, last = self.heard(streamed, text)
            assert last.answer is not None, "the answer comes last"
            assert not any(event.answer for event in others)
            assert timeless(last.answer) == timeless(expected)
        assert plain.history == streamed.history

    def test_details_include_each_prompt(self) -> None:
        host = self.host()
        conversation = self.open(host)
        for text in self.says:
            before = len(self.model.prompts)
            answer = self.take(conversation, text)
            kinds = [detail.kind for detail in answer.details]
            assert kinds.count("prompt") == len(self.model.prompts) - before
            for detail in answer.details:
                assert detail.title
                assert "\n" not in detail.title
                json.dumps(host.codec.to_json(detail))

    def test_history_has_no_duplicate_messages(self) -> None:
        conversation = self.open()
        for text in self.says:
            self.take(conversation, text)
        texts = [message.text for message in conversation.history if message.role == "user"]
        assert all(texts.count(text) <= 1 for text in self.says), f"{texts}"

    def test_it_does_without_its_optional_roles(self) -> None:
        conversation = self.open(optional=False)
        for text in self.says:
            self.take(conversation, text)

    # determinism

    def test_it_takes_the_same_steps_each_time(self) -> None:
        """The steps are the same in another conversation, in another host, and after other
        messages."""
        host = self.host()
        runs = [self.steps(self.open(host)), self.steps(self.open(host)), self.steps(self.open())]
        assert runs[0] == runs[1], "state is shared between conversations"
        assert runs[0] == runs[2]

    def test_concurrent_conversations_are_independent(self) -> None:
        expected = [self.take(self.open(), text) for text in self.says]
        host = self.host()
        streams = [self.heard(self.open(host), text) for text in self.says]
        found: dict[int, Answer] = {}
        while len(found) < len(streams):
            for number, events in enumerate(streams):
                event = next(events, None)
                if event is not None and event.answer is not None:
                    found[number] = event.answer
        for number, answer in enumerate(expected):
            assert timeless(found[number]) == timeless(answer)

    def test_time_and_chance_are_steps(self) -> None:
        """Otherwise, times and random values would differ on replay."""
        self.steps(self.open())  # do lazy imports now
        host = self.host()
        feature = host.registry.features[self.feature]
        watched = Watched(feature.respond)
        host.registry.features[self.feature] = evolve(feature, respond=watched)
        self.steps(self.open(host))
        assert not watched.calls, f"it calls {', '.join(watched.calls)}"

    def test_resume_after_every_entry(self) -> None:
        host = self.host()
        assert replay_from_every_entry(host, self.record(self.open(host)), give=self.give)

    def test_replay_with_another_hash_seed(self, tmp_path: Path) -> None:
        """A record can be replayed in other processes, where sets have another order."""
        for seed in ("1", "2"):
            self._run_child(tmp_path / "record.json", seed)

    # interruption

    def test_a_failure_leaves_the_history_as_it_was(self) -> None:
        """The history is unchanged if any model call fails, unless the feature handles the
        failure."""
        for number in range(self.calls()):
            host = self.host()
            self.model.faults[number] = ServiceUnavailable("injected by the suite", retryable=False)
            self._disturbed(self.open(host), GenaiError)

    def test_a_cancel_ends_it(self) -> None:
        """A turn can be cancelled at any model call."""
        for number in range(self.calls()):
            host = self.host()
            self.model.faults[number] = HANG
            conversation = self.open(host)
            telling = in_background(self._disturbed, conversation, Cancelled)
            assert self.model.hanging.wait(self.patience)
            conversation.cancel()
            error = self.ended(telling)
            if error is not None:
                raise error

    def test_stream_can_be_closed_after_any_event(self) -> None:
        """The reader can close the stream anywhere; `finally` has no effects."""
        host = self.host()
        for count in range(1, _MAX):
            conversation = self.open(host)
            events = conversation.stream(self.says[0])
            try:
                received = [next(events) for _ in range(count)]
            except TurnPaused:
                return
            if received[-1].answer is not None:
                return
            events.close()
            assert conversation.history == ()
            assert conversation.status == "idle"
            self.take(conversation, self.says[0])

    # building blocks

    def found(self) -> Feature[Any]:
        by_name = {each.name: each for each in self.declared().features}
        assert self.feature in by_name, f"the plugin declares {sorted(by_name)}"
        return by_name[self.feature]

    def host(self) -> Host:
        """A host with the feature, and a new model."""
        self.model = FakeModel(self.answers)
        plugins = self.plugins(model=self.model)
        return self.opened_host(
            Config(), discovery=plugins, clock=ManualClock(), retry_policy=ONE_ATTEMPT
        )

    def open(self, host: Host | None = None, *, optional: bool = True) -> Conversation:
        host = host or self.host()
        feature = host.registry.features[self.feature]
        models = {
            role: _MODELS[operation]
            for role, operation in feature.roles.items()
            if optional or role not in feature.optional_roles
        }
        main = models.pop("main", None)
        return host.open(self.feature, main, models=models, settings=self.settings)

    def take(self, conversation: Conversation, said: str) -> Answer:
        """Send a message, and answer all pauses."""
        try:
            return conversation.say(said)
        except TurnPaused as pause:
            waiting = pause
        while True:
            try:
                return conversation.resume(self.give(waiting.kind))
            except TurnPaused as pause:
                waiting = pause

    def heard(self, conversation: Conversation, said: str) -> Iterator[Event]:
        """Like `take`, as a stream of events."""
        events: Iterator[Event] = conversation.stream(said)
        while True:
            try:
                yield from events
                return
            except TurnPaused as waiting:
                events = conversation.resume_stream(self.give(waiting.kind))

    def record(self, conversation: Conversation) -> InMemoryRecord:
        """Record of the conversation after all messages."""
        for text in self.says:
            self.take(conversation, text)
        assert isinstance(conversation.record, InMemoryRecord)
        return conversation.record

    def steps(self, conversation: Conversation) -> list[tuple[Any, ...]]:
        entries = self.record(conversation).entries
        steps = [each for each in entries if isinstance(each, StepStarted)]
        return sorted((each.turn, each.path, each.step, each.digest) for each in steps)

    def calls(self) -> int:
        """Number of model calls, up to the tested maximum."""
        conversation = self.open()
        self.record(conversation)
        return min(self.model.calls, _MAX)

    def go_on(self, file: Path) -> None:
        """Replay the record in a file; write it first if it does not exist. Called in a separate
        process."""
        host = self.host()
        if not file.exists():
            record = self.record(self.open(host))
            file.write_text(json.dumps(record.to_json(host.codec)), encoding="utf-8")
        record = InMemoryRecord.from_json(json.loads(file.read_text(encoding="utf-8")), host.codec)
        assert replay_from_every_entry(host, record, give=self.give)

    def _disturbed(self, conversation: Conversation, expected: type[GenaiError]) -> None:
        """Send all messages, and retry the failing turn."""
        for text in self.says:
            before = conversation.history
            try:
                self.take(conversation, text)
            except expected as error:
                assert not isinstance(error, PluginError), f"it cannot handle a failure: {error}"
                assert conversation.history == before
                assert conversation.status == "idle"
                self.take(conversation, text)

    def _run_child(self, file: Path, seed: str) -> None:
        kind = type(self)
        given = {
            "path": sys.path,
            "file": inspect.getfile(kind),
            "module": kind.__module__,
            "suite": kind.__qualname__,
            "record": str(file),
        }
        done = subprocess.run(
            [sys.executable, child.__file__, json.dumps(given)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )
        assert done.returncode == 0, f"under PYTHONHASHSEED={seed}:\n{done.stderr}"

    def _next_id(self, size: int = 32) -> str:
        self._ids += 1
        return f"{self._ids:0{2 * size}x}"
