"""The API of responses and conversations, by path.

    create → read_request → PreviousItems → asked_of → whole → _finish
                                               → answer → Events → _finish

Clients send back data that only the dialect that created it can read. It is put into requests to a
service unchanged, so clients must not be able to forge it: `Seals` signs it for one user. The key
is shared by all servers of a store, and is used for nothing else. Without a store, each process
has a separate key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from attrs import frozen

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    Completion,
    RouteRequest,
    RouteResponse,
    is_blank,
    json_response,
    read_json,
    write_json,
)
from genai_host.errors import Conflict, NoRoute, StoreError, ValidationError
from genai_host.serving import (
    FEATURE,
    ChatRequest,
    CompletionStream,
    answer,
    capabilities,
    count_tokens,
    replaced_kinds,
    streamed,
    warn_unrecorded,
    whole,
)
from genai_wire_openai.dialect.response_replies import NAME
from genai_wire_openai.responses.fields import (
    Fields,
    MissingParameter,
    UnsupportedParameter,
    fields_of,
)
from genai_wire_openai.responses.items import Unseal, compacted, summary_request
from genai_wire_openai.responses.messages import messages_of, shown
from genai_wire_openai.responses.passing import passed
from genai_wire_openai.responses.replies import Events, ResponseHead
from genai_wire_openai.responses.request import ResponsesRequest, read_request, reads_encrypted
from genai_wire_openai.responses.state import (
    ConversationStore,
    PreviousItems,
    ResponseStore,
    must_have,
    read_new_items,
)
from genai_wire_openai.responses.tools import Item
from genai_wire_openai.server.objects import listed, read_page

_SUMMARY = "reasoning_summary"
_SAME = (
    "frequency_penalty", "include", "max_tool_calls", "parallel_tool_calls", "presence_penalty",
)  # fmt: skip
_FIELDS = {
    _SUMMARY: "reasoning.summary",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    **{name: name for name in _SAME},
}
"""Fields of parameters that are hints: a model that does not support them answers without."""


def asked_of(host: Host, request: ResponsesRequest, items: Iterable[Item]) -> ChatRequest:
    """Return the chat request of a request and its items. Raises `ValidationError` if it is
    invalid, and `NoRoute` if the model is unknown."""
    messages = messages_of(items, request.instructions)
    if len(messages) == (request.instructions is not None) or all(map(is_blank, messages)):
        raise MissingParameter("input must contain a message", path="$.input")
    model = request.model
    if model is None:
        try:
            host.default_model()
        except NoRoute as error:
            raise MissingParameter(f"model is missing: {error}", path="$.model") from error
    elif model.startswith(FEATURE) and messages[-1].role != "user":
        raise ValidationError("the last message must have the role user", path="$.input")
    parameters = dict(request.parameters)
    hints = _FIELDS.keys() & parameters.keys()
    if parameters.get(_SUMMARY) != "auto":  # summaries are included anyway
        hints.discard(_SUMMARY)
    if hints:
        taken = capabilities(host, model).parameters
        for name in sorted(hints - taken.keys()):
            del parameters[name]
            request.dropped.append(_FIELDS[name])
    request.dropped.parameters({name: _FIELDS[name] for name in hints & parameters.keys()})
    return ChatRequest(
        model=model,
        messages=messages,
        tools=request.tools.offered,
        tool_choice=request.tools.choice,
        schema=request.schema,
        strict=request.repeated["text"]["format"].get("strict") is True,
        parameters=parameters,
        stream=request.stream,
    )


def page_of(items: Sequence[Item], query: Mapping[str, str]) -> tuple[list[Item], bool]:
    """Return a page of items, which are given oldest first, and whether there are more."""
    limit, newest_first = read_page(query)
    ordered = list(reversed(items) if newest_first else items)
    if after := query.get("after"):
        at = next((n for n, item in enumerate(ordered) if item["id"] == after), None)
        if at is None:
            raise ValidationError(f"unknown item {after!r}", path="$.after")
        ordered = ordered[at + 1 :]
    return ordered[:limit], len(ordered) > limit


_COLLECTION = "response_seals"
_SIZE = hashlib.sha256().digest_size


class Seals:
    """Signatures of opaque data, of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._key = b""

    def _the_key(self) -> bytes:
        """The key, created when first needed."""
        with self._lock:
            if not self._key:
                self._key = self._make_key()
            return self._key

    def _make_key(self) -> bytes:
        key = secrets.token_bytes(_SIZE)
        if self._host.store is None:
            return key
        documents = self._host.store_for("").documents(_COLLECTION)
        try:
            documents.put(_COLLECTION, {"key": key.hex()}, expect=0)
        except Conflict:
            return bytes.fromhex(documents.get(_COLLECTION).value["key"])
        except StoreError as error:
            warn_unrecorded(error)
        return key

    def seal(self, value: Any, user: str) -> str:
        data = write_json(value)
        return base64.urlsafe_b64encode(self._mark(data, user) + data).decode()

    def unseal(self, text: str, user: str) -> Any:
        """Return signed data; None if it was not signed by this host for this user."""
        try:
            whole = base64.urlsafe_b64decode(text)
        except (binascii.Error, ValueError):
            return None
        mark, data = whole[:_SIZE], whole[_SIZE:]
        if not hmac.compare_digest(mark, self._mark(data, user)):
            return None
        return read_json(data)

    def _mark(self, data: bytes, user: str) -> bytes:
        whose = hashlib.sha256(user.encode(errors="surrogatepass")).digest()
        return hmac.digest(self._the_key(), whose + data, "sha256")


Show = Callable[[Item], Item]


Finish = Callable[[Completion, list[Item]], dict[str, Any]]


@frozen
class _Writer:
    """Writes the answer to a request, which is read when it is needed; see `Events`."""

    read: Callable[[], tuple[ChatRequest, ResponseHead, Show, Finish]]

    def whole(self, completion: Completion) -> dict[str, Any]:
        _, reply, _, finish = self.read()
        return finish(completion, reply.joined(completion, ())[0])

    def events(self, answering: CompletionStream) -> Iterator[bytes]:
        _, reply, show, finish = self.read()
        return Events(reply, show, finish, hold=reply.request.encrypted).write(answering)


class ResponsesApi:
    """Handlers of the API, of one host. Users find only their own data."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kept = ResponseStore(host)
        self._seals = Seals(host)
        self._conversations = ConversationStore(self._kept)
        self._context = PreviousItems(self._kept, self._conversations)

    def create(self, request: RouteRequest) -> RouteResponse:
        writer = _Writer(cache(lambda: self._asked(request)))
        reply = passed(request, self._host, self._unseal(request), writer)
        if reply is not None:
            return reply
        asked, *_ = writer.read()
        if not asked.stream:
            return json_response(writer.whole(whole(self._host, asked, request)))
        return streamed(answer(self._host, asked, request), writer.events)

    def count(self, request: RouteRequest) -> RouteResponse:
        wanted, _, _, context = self._read(request)
        tokens = count_tokens(self._host, asked_of(self._host, wanted, context), request.limits)
        return json_response({"object": "response.input_tokens", "input_tokens": tokens})

    def compact(self, request: RouteRequest) -> RouteResponse:
        must_have(fields_of(request), "model")
        wanted, reply, _, context = self._read(request)
        asked = summary_request(asked_of(self._host, wanted, context))
        summary = whole(self._host, asked, request)
        show = self._show(request.user, encrypted=True)
        output = compacted(context, summary, reply.new_id("cmp"))
        return json_response(reply.compacted(summary, [show(item) for item in output]))

    def show(self, request: RouteRequest) -> RouteResponse:
        if request.query.get("stream", "").lower() in ("true", "1"):
            raise UnsupportedParameter("a stored response cannot be streamed", path="$.stream")
        kept = self._kept.find(request.user, request.parameters["response"])
        show = self._show(request.user, _includes_encrypted(request))
        response = kept["response"]
        return json_response({**response, "output": [show(item) for item in response["output"]]})

    def delete(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["response"]
        self._kept.delete(request.user, id)
        return json_response({"id": id, "object": "response", "deleted": True})

    def cancel(self, request: RouteRequest) -> RouteResponse:
        self._kept.find(request.user, request.parameters["response"])
        raise ValidationError("only background responses can be cancelled")

    def input_items(self, request: RouteRequest) -> RouteResponse:
        kept = self._kept.find(request.user, request.parameters["response"])
        return self._listed(request, *page_of(kept["input"], request.query))

    def create_conversation(self, request: RouteRequest) -> RouteResponse:
        given = fields_of(request) if request.body else Fields({}, "$")
        return json_response(self._conversations.create(request.user, given, self._unseal(request)))

    def show_conversation(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._conversations.show(request.user, _conversation(request)))

    def update_conversation(self, request: RouteRequest) -> RouteResponse:
        given = fields_of(request)
        must_have(given, "metadata")
        return json_response(
            self._conversations.update(request.user, _conversation(request), given)
        )

    def delete_conversation(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._conversations.delete(request.user, _conversation(request)))

    def items(self, request: RouteRequest) -> RouteResponse:
        limit, newest_first = read_page(request.query)
        after = request.query.get("after") or None
        page = self._conversations.page(
            request.user, _conversation(request), after, limit, newest_first=newest_first
        )
        return self._listed(request, *page)

    def add_items(self, request: RouteRequest) -> RouteResponse:
        given = fields_of(request)
        must_have(given, "items")
        items = read_new_items(given, self._unseal(request))
        added = self._conversations.add(request.user, _conversation(request), items)
        return self._listed(request, added)

    def item(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["item"]
        item = self._conversations.item(request.user, _conversation(request), id)
        return json_response(self._show(request.user, _includes_encrypted(request))(item))

    def delete_item(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["item"]
        return json_response(
            self._conversations.delete_item(request.user, _conversation(request), id)
        )

    def _read(
        self, request: RouteRequest
    ) -> tuple[ResponsesRequest, ResponseHead, list[Item], list[Item]]:
        """The request, its reply, its items, and all items with previous ones."""
        find_previous = partial(self._context.before, request.user)
        given = fields_of(request)
        model = given.text_or_none("model")  # `given` would keep itself alive
        can = cache(partial(capabilities, self._host, model))
        given.carry(
            NAME,
            lambda: can().dialect == NAME and EXTRA_BODY in can().parameters,
            replaced_kinds(self._host, model),
        )
        unseal = self._unseal(request)
        wanted = read_request(given, unseal, find_previous, lambda: can().capabilities)
        before = wanted.previous_items
        reply = ResponseHead(wanted, self._kept.now())
        new_items = self._context.input(request.user, wanted.input, before, reply.new_tail)
        return wanted, reply, new_items, [*before, *new_items]

    def _asked(self, request: RouteRequest) -> tuple[ChatRequest, ResponseHead, Show, Finish]:
        """The request, read, and what writes the reply."""
        wanted, reply, new_items, context = self._read(request)
        show = self._show(request.user, wanted.encrypted)
        finish = partial(self._finish, request.user, reply, new_items, show)
        return asked_of(self._host, wanted, context), reply, show, finish

    def _finish(
        self,
        user: str,
        reply: ResponseHead,
        new_items: Sequence[Item],
        show: Show,
        completion: Completion,
        output: list[Item],
    ) -> dict[str, Any]:
        """The response for the client. After this, it can be continued."""
        wanted = reply.request
        response = reply.finished(completion, output, self._kept.now())
        if wanted.conversation is not None:
            self._conversations.add(user, wanted.conversation, [*new_items, *output])
        if wanted.store is not False:
            value = {"response": response, "input": new_items}
            self._kept.keep_response(user, reply.id, value, asked=wanted.store is True)
        return {**response, "output": [show(item) for item in output]}

    def _listed(
        self, request: RouteRequest, items: Sequence[Item], more: bool = False
    ) -> RouteResponse:
        show = self._show(request.user, _includes_encrypted(request))
        return json_response(listed([show(item) for item in items], more, no_id=""))

    def _show(self, user: str, encrypted: bool) -> Show:
        seal = (lambda value: self._seals.seal(value, user)) if encrypted else None
        return lambda item: shown(item, seal)

    def _unseal(self, request: RouteRequest) -> Unseal:
        return lambda text: self._seals.unseal(text, request.user)


def _conversation(request: RouteRequest) -> str:
    return request.parameters["conversation"]


def _includes_encrypted(request: RouteRequest) -> bool:
    """Whether the query includes encrypted reasoning; clients encode lists in several ways."""
    names = ("include", "include[]", "include[0]")
    given = [request.query[name] for name in names if name in request.query]
    included = [name for each in given for name in each.split(",")]
    return reads_encrypted(Fields({"include": included}, "$"))
