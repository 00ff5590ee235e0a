"""Features, their answers, and the events of a turn.

A feature is what a user converses with:

    def respond(turn: Turn[Settings]) -> FeatureSteps:
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)

A feature does no I/O. It yields steps, each typed by its result, and the host performs, limits
and records them. A feature can therefore be replayed from its event log.

`respond` must be deterministic: time, ids and randomness are steps, and the order of an
unordered collection, such as a set, must not decide anything. `respond` must have no effects in
`finally`, since a pause closes the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal

from attrs import converters as convert, field, frozen
from typing_extensions import TypeVar

from genai_host.api.calls import Operation
from genai_host.api.messages import NO_USAGE, Citation, Image, Message, Text, Usage, cited_pages
from genai_host.api.results import Cost, Delta
from genai_host.api.settings import SETTINGS
from genai_host.api.steps import Step
from genai_host.api.validators import ANY_BY_NAME, CALLABLE, OPERATIONS, TEXT, Must, string_set

S = TypeVar("S")


@frozen
class Turn(Generic[S]):
    """A user's message and its context, for a feature to answer.

    Attributes:
        message: The user's message.
        history: Earlier messages, oldest first; managed by the host.
        settings: Settings of the feature in this conversation.
        context: JSON from the client, for this turn.
        schema: JSON Schema of `Answer.data`; None if none was requested.
        state: `Answer.state` of the previous turn.
        roles: Roles that have a model.
        opened_at: When the conversation was opened: ISO 8601 with the local UTC offset; empty if
            unknown.
        tag: Eight hexadecimal digits that distinguish conversations opened at the same time.
    """

    message: Message
    history: Sequence[Message]
    settings: S
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    state: Any = None
    roles: frozenset[str] = frozenset({"main"})
    opened_at: str = ""
    tag: str = ""


@frozen
class Detail:
    """Background of an answer, shown on request.

    Attributes:
        kind: Kind of detail, for example `prompt`.
        title: One line.
        data: JSON. `reactions` lists client actions, each with a `type`: those of tools, and those
            that a feature adds.
    """

    kind: str = field(validator=TEXT)
    title: str = field(validator=TEXT)
    data: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)


def _details(given: Iterable[Detail]) -> tuple[Detail, ...]:
    return tuple(given)


def _images(given: Iterable[Image]) -> tuple[Image, ...]:
    return tuple(given)


def _messages(given: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(given)


def _citations(given: Iterable[Citation]) -> tuple[Citation, ...]:
    return tuple(given)


def _each(kind: type, given: Iterable[Any]) -> bool:
    for each in given:  # noqa: SIM110 - a generator takes longer, and this runs for each answer
        if not isinstance(each, kind):
            return False
    return True


_DETAILS = Must("details", lambda given: _each(Detail, given))
_IMAGES = Must("images", lambda given: _each(Image, given))
_CITATIONS = Must("citations", lambda given: _each(Citation, given))
_MESSAGES = Must("messages", lambda given: given is None or _each(Message, given))


SOURCES = "sources"
"""Type of the reaction that lists the sources of an answer: its field `sources` has the `number`,
`title` and `link` of each."""


def _is_reaction(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


@frozen
class Answer:
    """A feature's answer.

    Attributes:
        summary: Text of the answer.
        details: Background of the answer; the host inserts the steps of the turn before it.
        data: JSON for programs; it matches `Turn.schema` if there is one.
        new_messages: Messages to add to the history; None for the user's message and the summary.
        state: JSON for the next `Turn.state`.
        usage: Tokens used by all prompts of the turn; set by the host.
        cost: Cost of all model calls of the turn; set by the host.
        images: Images for the user; the host inserts the images of tools before them.
        citations: Web pages that support passages of the summary. If empty, the host uses the
            citations of the turn's last completion with the same text.

    Raises:
        TypeError: A field has a value of the wrong type.
    """

    summary: str = field(validator=TEXT)
    details: Sequence[Detail] = field(default=(), converter=_details, validator=_DETAILS)
    data: Any = None
    new_messages: Sequence[Message] | None = field(
        default=None, converter=convert.optional(_messages), validator=_MESSAGES
    )
    state: Any = None
    usage: Usage = NO_USAGE
    cost: Cost = field(factory=Cost)
    images: Sequence[Image] = field(default=(), converter=_images, validator=_IMAGES)
    citations: Sequence[Citation] = field(default=(), converter=_citations, validator=_CITATIONS)

    @property
    def text(self) -> str:
        """Text of the answer."""
        return self.summary

    @property
    def message(self) -> Message:
        """The summary with its citations, as a message of the assistant."""
        return Message("assistant", Text(self.summary, citations=self.citations))

    @property
    def reactions(self) -> tuple[Mapping[str, Any], ...]:
        """Client actions from the details: those of tools in the order of their calls, then those
        of the feature. Unless these have the type `sources`, one of this type with the cited pages
        comes last."""
        given = [detail.data.get("reactions") for detail in self.details]
        lists = [each for each in given if isinstance(each, (list, tuple))]
        found = tuple(each for given in lists for each in given if _is_reaction(each))
        pages = cited_pages(self.citations)
        if not pages or any(each["type"] == SOURCES for each in found):
            return found
        numbered = enumerate(pages.items(), 1)
        sources = [{"number": at, "title": title, "link": url} for at, (url, title) in numbered]
        return (*found, {"type": SOURCES, "sources": sources})


FeatureSteps = Generator[Step[Any], Any, Answer]
"""Return type of `respond`: a generator that yields steps and returns the answer."""


@frozen
class Feature(Generic[S]):
    """A declaration of a feature, which users converse with.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        respond: Answers one turn.
        roles: Roles with their purpose, one line each. `main` owns the history.
        optional_roles: Roles that may have no model. An optional chat role gets only a model that
            is named for it; other optional roles get any available model.
        version: Change it when `respond` yields other steps than before, so that old event logs are
            not replayed with it.
        help: One line for listings.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    respond: Callable[[Turn[S]], FeatureSteps] = field(validator=CALLABLE)
    roles: Mapping[str, Operation] = field(factory=lambda: {"main": "chat"}, validator=OPERATIONS)
    optional_roles: frozenset[str] = field(default=frozenset(), converter=string_set)
    version: str = field(default="1", validator=TEXT)
    help: str = field(default="", validator=TEXT)


@frozen
class RetryWait:
    """A wait before the next attempt of a call.

    Attributes:
        seconds: Duration of the wait.
        provider: Name of the provider.
        reason: Why the last attempt failed, in one line.
    """

    seconds: float
    provider: str
    reason: str

    @property
    def text(self) -> str:
        """One line for a user."""
        return f"{self.provider}: {self.reason}; next attempt in {self.seconds:.0f} s"


@frozen
class Event:
    """An event of a turn.

    Attributes:
        kind: `delta`: a chunk of the answer. `reset`: discard the chunks so far, since their
            prompt is sent again. `progress`: progress of the feature. `retry`: the host waits
            before another attempt. `step`: a step has ended. `paused`: the turn pauses for a
            result from outside. `answer`: the last event.
        data: By kind: a `Delta`, None, a `Progress`, a `RetryWait`, a `Detail`, a `Pause`, the
            `Answer`.
    """

    kind: Literal["delta", "reset", "progress", "retry", "step", "paused", "answer"]
    data: Any = None

    @property
    def text(self) -> str:
        """Text of a delta, empty for other events. Printed in order, the texts show the answer as
        it is written."""
        return self.data.text if isinstance(self.data, Delta) else ""

    @property
    def answer(self) -> Answer | None:
        """The answer, if this is the last event."""
        return self.data if isinstance(self.data, Answer) else None
