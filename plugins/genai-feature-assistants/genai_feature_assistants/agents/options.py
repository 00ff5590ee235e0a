"""Options of agents, invocations, threads and polling.

The option classes share the validators at the top. `Pace` polls and retries as `PollingOptions`
specify. `checked_metadata` and `checked_files` enforce the limits of the service before anything
is sent.

Source: OpenAI's OpenAPI document 2.3.0 (`Metadata`, `CreateAssistantRequest.tool_resources`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import field, frozen

from genai_host.api import TEXT_BY_NAME, TEXT_OR_NONE, Clock, Message, Must
from genai_host.errors import GenaiError, ValidationError


def _or_none(is_so: Any) -> Any:
    return lambda value: value is None or is_so(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


BOOLEAN_OR_NONE = Must("True, False or None", _or_none(lambda value: isinstance(value, bool)))
COUNT_OR_NONE = Must(
    "an integer of at least 0, or None",
    _or_none(lambda value: type(value) is int and value >= 0),
)
NUMBER_OR_NONE = Must("a finite number or None", _or_none(_is_number))
MESSAGES = Must("messages", lambda value: all(isinstance(each, Message) for each in value))
TEXTS = Must("strings", lambda value: all(isinstance(each, str) for each in value))


def one_or_none(kind: type[Any]) -> Must:
    """Return a validator for an object of a class, or None."""
    return Must(f"of class {kind.__name__}, or None", _or_none(lambda v: isinstance(v, kind)))


def listed(given: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values as a tuple.

    Raises:
        ValidationError: The value is a string, a mapping, or not iterable.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise ValidationError(f"expected a list, not {type(given).__name__}")
    return tuple(given)


@frozen
class OpenAIAssistantToolCallBehavior:
    """Which tools an assistant or a run must use.

    It is stored with the assistant and returned, but not sent as `tool_choice`: document 002 leaves
    that for a later model of choosing functions.

    Attributes:
        require_code_interpreter: Whether the code interpreter must be used.
        require_function: Name of the function that must be called.
        require_file_search: Whether files must be searched.
    """

    require_code_interpreter: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    require_function: str | None = field(default=None, validator=TEXT_OR_NONE)
    require_file_search: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)


@frozen
class OpenAIAssistantExecutionOptions:
    """Options of runs that are stored with the assistant. None leaves an option to the service.

    They are stored in the metadata of the assistant, as JSON of at most 512 characters.

    Attributes:
        max_completion_tokens: Limit for all completions of a run together.
        max_prompt_tokens: Limit for all prompts of a run together.
        parallel_tool_calls_enabled: Whether the model may make several calls at once.
        truncation_message_count: Number of messages, the newest, that the model is shown.
        tool_call_behavior: Which tools must be used.
        additional_instructions: Text added to the instructions.

    Source: document 002; `CreateRunRequest` of OpenAI's OpenAPI document 2.3.0.
    """

    max_completion_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    max_prompt_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    parallel_tool_calls_enabled: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    truncation_message_count: int | None = field(default=None, validator=COUNT_OR_NONE)
    tool_call_behavior: OpenAIAssistantToolCallBehavior | None = field(
        default=None, validator=one_or_none(OpenAIAssistantToolCallBehavior)
    )
    additional_instructions: str | None = field(default=None, validator=TEXT_OR_NONE)


@frozen
class OpenAIAssistantInvocationOptions:
    """Options of one run. They precede those of the thread and of the definition.

    None inherits a value; 0, False and an empty text do not. Options that are not listed here are
    those of `OpenAIAssistantExecutionOptions`.

    Attributes:
        model_name: The model that answers.
        enable_code_interpreter: Whether the model may run code.
        enable_file_search: Whether the model may search files.
        enable_json_response: Whether the answer is JSON.
        temperature: Sampling temperature, as the model takes it.
        top_p: Nucleus sampling, as the model takes it.
        metadata: Added to the metadata of the thread and of the definition.
        additional_messages: Added to the thread before the run; of roles user and assistant.
    """

    model_name: str | None = field(default=None, validator=TEXT_OR_NONE)
    enable_code_interpreter: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    enable_file_search: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    enable_json_response: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    max_completion_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    max_prompt_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    parallel_tool_calls_enabled: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    truncation_message_count: int | None = field(default=None, validator=COUNT_OR_NONE)
    temperature: float | None = field(default=None, validator=NUMBER_OR_NONE)
    top_p: float | None = field(default=None, validator=NUMBER_OR_NONE)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    tool_call_behavior: OpenAIAssistantToolCallBehavior | None = field(
        default=None, validator=one_or_none(OpenAIAssistantToolCallBehavior)
    )
    additional_instructions: str | None = field(default=None, validator=TEXT_OR_NONE)
    additional_messages: tuple[Message, ...] = field(
        default=(), converter=listed, validator=MESSAGES
    )


@frozen
class OpenAIThreadCreationOptions:
    """What a thread starts with. Its files precede those of the definition.

    Attributes:
        code_interpreter_file_ids: Files for the code interpreter, at most 20.
        messages: Messages of roles user and assistant, oldest first.
        vector_store_id: Vector store to search.
        metadata: At most 16 pairs, of 64 and 512 characters.
    """

    code_interpreter_file_ids: tuple[str, ...] = field(
        default=(), converter=listed, validator=TEXTS
    )
    messages: tuple[Message, ...] = field(default=(), converter=listed, validator=MESSAGES)
    vector_store_id: str | None = field(default=None, validator=TEXT_OR_NONE)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)


T = TypeVar("T")

MAX_WAIT = 60.0
"""Longest `Retry-After`, in seconds, after which a request is retried."""

_SECONDS = Must(
    "a number of seconds of at least 0", lambda value: type(value) in (int, float) and value >= 0
)
_COUNT = Must("an integer above 0", lambda value: type(value) is int and value > 0)


@frozen
class PollingOptions:
    """How a run is polled. Times are in seconds.

    Attributes:
        interval: Wait before each of the first polls.
        back_off: Wait before each later poll.
        back_off_after: Number of the first polls.
        timeout: Time limit of a run, from its start, or from the submission of outputs, until it
            requires an action or ends.
        tries: Attempts of a request that only reads.
        round_trips: How often a run may call functions.
    """

    interval: float = field(default=0.25, validator=_SECONDS)
    back_off: float = field(default=1.0, validator=_SECONDS)
    back_off_after: int = field(default=2, validator=_COUNT)
    timeout: float = field(default=60.0, validator=_SECONDS)
    tries: int = field(default=3, validator=_COUNT)
    round_trips: int = field(default=100, validator=_COUNT)


class TimeIsUp(Exception):
    """The time limit is over. Never leaves this package."""


class Pace:
    """Polls and retries as `options` specify. Without a clock it uses that of the system."""

    def __init__(self, options: PollingOptions, clock: Clock | None = None) -> None:
        self.options = options
        self._clock = clock

    def until(self, fetch: Callable[[], T], is_open: Callable[[T], bool], found: T) -> T:
        """Poll until the result is no longer open, and return it.

        Raises:
            TimeIsUp: The result was still open at the time limit.
        """
        begun = self.now()
        polls = 0
        while is_open(found):
            left = begun + self.options.timeout - self.now()
            if left <= 0:
                raise TimeIsUp
            first = polls < self.options.back_off_after
            self.wait(min(self.options.interval if first else self.options.back_off, left))
            found = self.tried(fetch, by=begun + self.options.timeout)
            polls += 1
        return found

    def tried(
        self,
        fetch: Callable[[], T],
        passing: Callable[[Any], bool] | None = None,
        by: float = math.inf,
    ) -> T:
        """Fetch a value, with retries.

        Args:
            fetch: Makes one attempt.
            passing: Decides whether an error may be temporary. None uses `retryable` of the error.
            by: Time, as of `now`, after which no attempt starts.

        Raises:
            GenaiError: The error of the last attempt, or of an earlier one if the service asks for
                a
                longer wait than there is time.
        """
        for _ in range(self.options.tries - 1):
            try:
                return fetch()
            except GenaiError as error:
                if not (error.retryable or (passing is not None and passing(error))):
                    raise
                asked = getattr(error, "retry_after", None) or 0.0
                seconds = max(asked, self.options.back_off)
                if asked > MAX_WAIT or self.now() + seconds >= by:
                    raise
                self.wait(seconds)
        return fetch()

    def now(self) -> float:
        return time.monotonic() if self._clock is None else self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        if self._clock is None:
            time.sleep(seconds)
            return
        come = threading.Event()
        with self._clock.call_later(seconds, come.set):
            come.wait()


MAX_PAIRS = 16
"""Limit of metadata, including the pairs that agents add."""

MAX_KEY = 64
MAX_VALUE = 512
"""In characters."""

MAX_FILES = 20
"""Files for the code interpreter of an assistant or a thread."""


def checked_metadata(metadata: Mapping[str, str], whose: str) -> dict[str, str]:
    """Return the metadata.

    Args:
        metadata: Pairs of texts.
        whose: What they belong to, for the error.

    Raises:
        ValidationError: The service would refuse them.
    """
    if len(metadata) > MAX_PAIRS:
        raise ValidationError(
            f"the metadata of {whose} has {len(metadata)} pairs; the limit is {MAX_PAIRS}",
            path="$.metadata",
            hint="the execution options of a definition count as one pair",
        )
    for key, value in metadata.items():
        for what, text, most in (("a key", key, MAX_KEY), (key, value, MAX_VALUE)):
            if len(text) > most:
                raise ValidationError(
                    f"{what} in the metadata of {whose} has {len(text)} characters; the limit is "
                    f"{most}",
                    path=f"$.metadata.{key[:MAX_KEY]}",
                )
    return dict(metadata)


def checked_files(ids: Sequence[str], whose: str) -> list[str]:
    """Return the ids of files for the code interpreter.

    Raises:
        ValidationError: There are too many.
    """
    if len(ids) > MAX_FILES:
        raise ValidationError(
            f"{whose} has {len(ids)} files for the code interpreter; the limit is {MAX_FILES}",
            path="$.code_interpreter_file_ids",
        )
    return list(ids)
