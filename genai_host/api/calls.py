"""One call of a model, free of any wire format, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api.exchange import Encoded
from genai_host.api.messages import Message, Opaque, ToolCall, Usage
from genai_host.errors import ErrorPlace

Finish = Literal["stop", "length", "tool_calls", "content_filter", "other"]
"""Why a model stopped, in the words that every dialect is brought to.

stop             it was done, or met a stop sequence
length           it reached its token limit
tool_calls       it wants tools to be run
content_filter   it, or its service, refused or cut the answer
other            anything else; `Completion.vendor_finish` has the vendor's word
"""


@frozen
class ToolSchema:
    """A tool as the model sees it; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Call:
    """What every operation shares.

    model_id     the model's id at the provider
    parameters   by the host's names (`temperature`, `max_tokens` ...), validated
    variant      which of its variants the dialect is to write
    stream       whether the reply is to come in pieces
    """

    model_id: str
    parameters: Mapping[str, Any] = field(factory=dict)
    variant: Mapping[str, Any] = field(factory=dict)
    stream: bool = False


@frozen(kw_only=True)
class ChatCall(Call):
    """Continue a conversation.

    messages      what was said, oldest first
    tools         the tools that the model may ask for
    tool_choice   `auto`, `none`, `required` or the name of a tool; None leaves it
                  to the model
    schema        JSON Schema that the answer must satisfy; None for free text
    draft         what was written for the calls before it; the host's
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    _draft: Draft = field(factory=lambda: Draft(), eq=False, repr=False)

    def written(self, key: Hashable, write: Callable[[Message], bytes]) -> list[Encoded]:
        """The messages as a dialect writes them, each of them written once.

        key     names the form: the dialect, and what else of the call the form
                depends on
        write   one message as JSON: a value, several joined by commas, or nothing
        """
        return [Encoded(self._draft.written(tuple(self.messages), key, write))]


class Draft:
    """What was written for the last call of a conversation. The next one begins alike, and
    only what is new of it is written."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Message, ...], bytes]] = {}

    def written(
        self, messages: tuple[Message, ...], key: Hashable, write: Callable[[Message], bytes]
    ) -> bytes:
        """The messages as JSON, joined by commas; see `ChatCall.written`."""
        before, data = self._last.get(key, ((), b""))
        if messages[: len(before)] != before:  # which is quick where they are the same objects
            before, data = (), b""
        new = [message.remember(key, write) for message in messages[len(before) :]]
        data = b",".join(filter(None, [data, *new]))
        self._last[key] = messages, data
        return data


@frozen(kw_only=True)
class EmbedCall(Call):
    """Turn texts into vectors, one each, in order.

    purpose   what the vectors are for: some models embed a search query otherwise
              than the documents that it is to find
    """

    texts: Sequence[str]
    purpose: Literal["query", "document"] = "document"


@frozen(kw_only=True)
class ModerateCall(Call):
    """Judge a text by the rules of a service."""

    text: str


@frozen
class Delta:
    """A piece of an answer that is still being written.

    opaque   a vendor's own part that is whole, as thoughts that are signed: for who passes
             the answer on in pieces; it shows nothing
    """

    text: str = ""
    reasoning: str = ""
    tool_call: ToolCall | None = None
    opaque: Opaque | None = None


@frozen
class RouteInfo:
    """Which model answered, at which provider instance, in which dialect."""

    model: str
    provider: str
    dialect: str


@frozen
class Completion:
    """A model's whole answer to one prompt.

    message         what it said, role `assistant`
    finish          why it stopped
    usage           tokens used
    value           the JSON value of the answer, where a schema was given
    vendor_finish   why it stopped, in the vendor's word
    route           which way it was called; filled in by the host
    seconds         how long it took; filled in by the host
    cost            US dollars, by the list price of that time; None if it is not known;
                    filled in by the host
    raw_reply       the file that the service's reply was added to as it came, where a
                    prompt says that; filled in by the host
    """

    message: Message
    finish: Finish = "stop"
    usage: Usage = field(factory=Usage)
    value: Any = None
    vendor_finish: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
    raw_reply: str = ""

    @property
    def reason(self) -> str:
        """Why it stopped, in the vendor's word where it has one."""
        return self.vendor_finish or self.finish

    @property
    def place(self) -> ErrorPlace:
        """Where it comes from, for an error about it."""
        route = self.route
        return {
            "provider": route.provider if route else "",
            "model": route.model if route else "",
            "raw_reply": self.raw_reply,
        }

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls


@frozen
class Vectors:
    """Embeddings: one vector for each text, in order, all of one size."""

    vectors: Sequence[Sequence[float]]
    model: str = ""
    usage: Usage = field(factory=Usage)
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None


@frozen
class TokenCount:
    """How many tokens a call would take, by the service that would answer it.

    tokens    of all that the model would be given
    route     which way it was asked; filled in by the host
    seconds   how long it took; filled in by the host
    cost      US dollars: no service takes any for it
    """

    tokens: int
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float = 0.0


@frozen
class Verdict:
    """What a service thinks of a text.

    flagged      whether it breaks the service's rules
    categories   name to how sure it is, 0 to 1
    model        the model that judged, as the service names it
    route        which way it was called; filled in by the host
    seconds      how long it took; filled in by the host
    cost         as that of a `Completion`
    """

    flagged: bool
    categories: Mapping[str, float] = field(factory=dict)
    model: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
