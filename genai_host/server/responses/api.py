"""What is answered under the paths of OpenAI's Responses and Conversations.

create → read_request → Context → asked_of → asking.answer → Events | finished → kept
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from genai_host.api import Completion, RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server import asking
from genai_host.server.responses.asked import asked_of, counted
from genai_host.server.responses.context import Context
from genai_host.server.responses.conversations import (
    Conversations,
    must_have,
    read_new_items,
)
from genai_host.server.responses.fields import UnsupportedParameter, fields_of
from genai_host.server.responses.items import Item, Unseal
from genai_host.server.responses.kept import RESPONSES, Kept
from genai_host.server.responses.output import shown
from genai_host.server.responses.pages import listed, page_of
from genai_host.server.responses.reply import Reply
from genai_host.server.responses.request import Request, read_request, reads_encrypted
from genai_host.server.responses.seals import Seals
from genai_host.server.responses.stream import Events

Show = Callable[[Item], Item]


class ResponsesApi:
    """Of one host. What is another's is not found."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kept = Kept(host)
        self._seals = Seals(host)
        self._conversations = Conversations(self._kept)
        self._context = Context(self._kept, self._conversations)

    def create(self, request: RouteRequest) -> RouteReply:
        wanted, reply, said, whole = self._said(request)
        asked = asked_of(self._host, wanted, whole)
        show = self._show(request.user, wanted.encrypted)
        finish = partial(self._finish, request.user, reply, said, show)
        if not wanted.stream:
            completion = asking.whole(self._host, asked, request)
            return json_reply(finish(completion, reply.items(completion)))
        answering = asking.answer(self._host, asked, request)
        events = Events(reply, show, finish, hold=wanted.encrypted)
        return asking.streamed(answering, events.write)

    def count(self, request: RouteRequest) -> RouteReply:
        wanted, _, _, whole = self._said(request)
        tokens = counted(self._host, wanted, whole, request.limits)
        return json_reply({"object": "response.input_tokens", "input_tokens": tokens})

    def show(self, request: RouteRequest) -> RouteReply:
        if request.query.get("stream", "").lower() in ("true", "1"):
            raise UnsupportedParameter(
                "a response is streamed while it is made only", path="$.stream"
            )
        kept = self._kept.find(request.user, RESPONSES, request.parameters["response"])
        show = self._show(request.user, _includes_encrypted(request))
        response = kept["response"]
        return json_reply({**response, "output": [show(item) for item in response["output"]]})

    def delete(self, request: RouteRequest) -> RouteReply:
        id = request.parameters["response"]
        self._kept.delete(request.user, RESPONSES, id)
        return json_reply({"id": id, "object": "response", "deleted": True})

    def cancel(self, request: RouteRequest) -> RouteReply:
        self._kept.find(request.user, RESPONSES, request.parameters["response"])
        raise InvalidData("only responses in the background can be cancelled, and this was none")

    def input_items(self, request: RouteRequest) -> RouteReply:
        kept = self._kept.find(request.user, RESPONSES, request.parameters["response"])
        return self._page(kept["input"], request)

    def create_conversation(self, request: RouteRequest) -> RouteReply:
        given = fields_of(body_of(request).value if request.body else {})
        return json_reply(self._conversations.create(request.user, given, self._unseal(request)))

    def show_conversation(self, request: RouteRequest) -> RouteReply:
        return json_reply(self._conversations.show(request.user, _conversation(request)))

    def update_conversation(self, request: RouteRequest) -> RouteReply:
        given = fields_of(body_of(request).value)
        must_have(given, "metadata")
        return json_reply(self._conversations.update(request.user, _conversation(request), given))

    def delete_conversation(self, request: RouteRequest) -> RouteReply:
        return json_reply(self._conversations.delete(request.user, _conversation(request)))

    def items(self, request: RouteRequest) -> RouteReply:
        items = self._conversations.items(request.user, _conversation(request))
        return self._page(items, request)

    def add_items(self, request: RouteRequest) -> RouteReply:
        given = fields_of(body_of(request).value)
        must_have(given, "items")
        items = read_new_items(given, self._unseal(request))
        added = self._conversations.add(request.user, _conversation(request), items)
        show = self._show(request.user, _includes_encrypted(request))
        return json_reply(listed([show(item) for item in added]))

    def item(self, request: RouteRequest) -> RouteReply:
        id = request.parameters["item"]
        item = self._conversations.item(request.user, _conversation(request), id)
        return json_reply(self._show(request.user, _includes_encrypted(request))(item))

    def delete_item(self, request: RouteRequest) -> RouteReply:
        id = request.parameters["item"]
        return json_reply(self._conversations.delete_item(request.user, _conversation(request), id))

    def _said(self, request: RouteRequest) -> tuple[Request, Reply, list[Item], list[Item]]:
        """The request, its reply to be, what it says, and all that was said."""
        wanted = read_request(body_of(request).value, self._unseal(request))
        reply = Reply(wanted, self._kept.now())
        before = self._context.before(request.user, wanted)
        said = self._context.input(request.user, wanted.input, before, reply.new_tail)
        return wanted, reply, said, [*before, *said]

    def _finish(
        self,
        user: str,
        reply: Reply,
        said: Sequence[Item],
        show: Show,
        completion: Completion,
        output: list[Item],
    ) -> dict[str, Any]:
        """The response as the client sees it; it can be gone on from when this returns."""
        wanted = reply.request
        response = reply.finished(completion, output, self._kept.now())
        if wanted.conversation is not None:
            self._conversations.add(user, wanted.conversation, [*said, *output])
        if wanted.store is not False:
            value = {"response": response, "input": said}
            self._kept.keep_response(user, reply.id, value, asked=wanted.store is True)
        return {**response, "output": [show(item) for item in output]}

    def _page(self, items: Sequence[Item], request: RouteRequest) -> RouteReply:
        show = self._show(request.user, _includes_encrypted(request))
        return json_reply(page_of(items, request.query, show))

    def _show(self, user: str, encrypted: bool) -> Show:
        seal = (lambda value: self._seals.seal(value, user)) if encrypted else None
        return lambda item: shown(item, seal)

    def _unseal(self, request: RouteRequest) -> Unseal:
        return lambda text: self._seals.unseal(text, request.user)


def _conversation(request: RouteRequest) -> str:
    return request.parameters["conversation"]


def _includes_encrypted(request: RouteRequest) -> bool:
    """Whether the query asks for what was thought; clients write a list in several ways."""
    names = ("include", "include[]", "include[0]")
    given = [request.query[name] for name in names if name in request.query]
    words = [word for each in given for word in each.split(",")]
    return reads_encrypted(fields_of({"include": words}))
