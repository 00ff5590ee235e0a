"""A feature: what a user converses with.

    def respond(turn: Turn[Settings]) -> Story:
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)

`respond` is deterministic: time, ids and randomness are steps, and what is in no
order (a set) decides nothing. It puts no effects in `finally`, since a pause
closes the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import converters as convert
from attrs import field, frozen

from genai_host.api.converters import string_set
from genai_host.api.costs import Cost
from genai_host.api.exchange import Operation
from genai_host.api.messages import Image, Message, Usage
from genai_host.api.settings import SETTINGS
from genai_host.api.steps import Step
from genai_host.api.validators import ANY_BY_NAME, CALLABLE, OPERATIONS, TEXT, Must

S = TypeVar("S")


@frozen
class Turn(Generic[S]):
    """What a feature gets to answer.

    message    what the user said
    history    what was said before, oldest first; the agent owns it
    settings   the feature's settings, for this conversation
    context    JSON from the front end, for this turn
    schema     JSON Schema that `Answer.data` must satisfy; None if none was asked
    state      what the last answer left in `Answer.state`
    roles      the roles for which there is a model
    began      when the conversation was opened: ISO 8601 with the local offset; empty where
               its record does not say
    tag        eight hexadecimal digits that tell the conversation from others that were
               opened at the same time
    """

    message: Message
    history: Sequence[Message]
    settings: S
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    state: Any = None
    roles: frozenset[str] = frozenset({"main"})
    began: str = ""
    tag: str = ""


@frozen
class Detail:
    """Something behind an answer, shown on demand.

    kind    what it is, as `prompt`
    title   one line
    data    JSON. Under `reactions` is what a front end is to show or do, each with a
            `type`: tools have theirs there, and a feature may give others
    """

    kind: str = field(validator=TEXT)
    title: str = field(validator=TEXT)
    data: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)


def _details(given: Iterable[Detail]) -> tuple[Detail, ...]:
    return tuple(given)


def _pictures(given: Iterable[Image]) -> tuple[Image, ...]:
    return tuple(given)


def _messages(given: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(given)


_DETAILS = Must("details", lambda given: all(isinstance(each, Detail) for each in given))
_PICTURES = Must("images", lambda given: all(isinstance(each, Image) for each in given))
_MESSAGES = Must("messages", lambda given: all(isinstance(each, Message) for each in given or ()))


def _is_reaction(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


@frozen
class Answer:
    """What a feature answers.

    summary   the answer itself
    details   what is behind it; the host puts the steps of the turn before them
    data      JSON for programs; the value that `Turn.schema` asked for
    adds      what enters the history; None for the message and the summary
    state     JSON to be given back in the next `Turn.state`
    usage     tokens used by all prompts of the turn; filled in by the host
    cost      of all calls of models in the turn; filled in by the host
    pictures  for the user to see; the host puts those that tools gave before them

    Raises `TypeError` where it is made, for what is no text, detail, message or image.
    """

    summary: str = field(validator=TEXT)
    details: Sequence[Detail] = field(default=(), converter=_details, validator=_DETAILS)
    data: Any = None
    adds: Sequence[Message] | None = field(
        default=None, converter=convert.optional(_messages), validator=_MESSAGES
    )
    state: Any = None
    usage: Usage = field(factory=Usage)
    cost: Cost = field(factory=Cost)
    pictures: Sequence[Image] = field(default=(), converter=_pictures, validator=_PICTURES)

    @property
    def text(self) -> str:
        return self.summary

    @property
    def reactions(self) -> tuple[Mapping[str, Any], ...]:
        """What a front end is to show or do beside the text: that of tools in the order of
        their calls, then that of the feature. It is read from the details."""
        given = [detail.data.get("reactions") for detail in self.details]
        lists = [each for each in given if isinstance(each, (list, tuple))]
        return tuple(each for found in lists for each in found if _is_reaction(each))


Story = Generator[Step[Any], Any, Answer]
"""What `respond` is: a generator that yields steps and returns the answer."""


@frozen
class Feature(Generic[S]):
    """What a plugin registers: something to converse with.

    name       unique among all plugins; `[a-z0-9-]+`
    settings   attrs class of its settings; see `genai_host.api.settings`
    respond    answers one turn
    roles      the agents that it prompts, and what each of them is for; `main`
               owns the history
    optional   the roles that it can do without. One that chats is played only by a model that
               is named for it, others by what there is
    version    changes when `respond` takes other steps than before, so that an
               old record is not replayed with it
    help       one line for lists
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    respond: Callable[[Turn[S]], Story] = field(validator=CALLABLE)
    roles: Mapping[str, Operation] = field(factory=lambda: {"main": "chat"}, validator=OPERATIONS)
    optional: frozenset[str] = field(default=frozenset(), converter=string_set)
    version: str = field(default="1", validator=TEXT)
    help: str = field(default="", validator=TEXT)
