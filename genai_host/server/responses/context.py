"""What was said before a request, and what its references stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from genai_host.errors import InvalidData, NotFound
from genai_host.server.responses.conversations import Conversations
from genai_host.server.responses.fields import ItemNotFound, PreviousNotFound
from genai_host.server.responses.items import Item, with_id
from genai_host.server.responses.kept import RESPONSES, Kept
from genai_host.server.responses.reply import belongs_to
from genai_host.server.responses.request import Request


class Context:
    """Of the users of one host."""

    def __init__(self, kept: Kept, conversations: Conversations) -> None:
        self._kept = kept
        self._conversations = conversations

    def before(self, user: str, request: Request) -> list[Item]:
        """What was said in its conversation, or in the responses that it goes on from,
        without their instructions. Raises `NotFound`."""
        if request.conversation is not None:
            return self._conversations.items(user, request.conversation)
        turns: list[list[Item]] = []
        previous = request.previous
        while previous is not None:
            try:
                kept = self._kept.find(user, RESPONSES, previous)
            except NotFound:
                raise PreviousNotFound(
                    f"there is no response {previous!r} to go on from, or no longer"
                ) from None
            response = kept["response"]
            if response["conversation"] is not None:
                raise InvalidData(
                    f"{previous} belongs to a conversation: give "
                    f"conversation: {response['conversation']['id']!r} instead",
                    path="$.previous_response_id",
                )
            turns.append([*kept["input"], *response["output"]])
            previous = response["previous_response_id"]
        return [item for turn in reversed(turns) for item in turn]

    def input(
        self,
        user: str,
        items: Sequence[Item],
        before: Iterable[Item],
        new_tail: Callable[[], str],
    ) -> list[Item]:
        """The items of a request, each with an id, and what is meant in place of each
        reference. Raises `NotFound`."""
        known: dict[str, Item] = {}
        if any(item["type"] == "item_reference" for item in items):
            known = {item["id"]: item for item in before}
        return [
            self._meant(user, item["id"], known)
            if item["type"] == "item_reference"
            else with_id(item, new_tail())
            for item in items
        ]

    def _meant(self, user: str, id: str, known: dict[str, Item]) -> Item:
        if id not in known:
            tail = belongs_to(id)
            known.update((item["id"], item) for item in self._items_of(user, tail))
        if id not in known:
            raise ItemNotFound(
                f"there is no item {id!r}", hint="those of what is not stored cannot be referred to"
            )
        return known[id]

    def _items_of(self, user: str, tail: str) -> Sequence[Item]:
        """Of the response, or the conversation, whose id ends so."""
        try:
            kept = self._kept.find(user, RESPONSES, f"resp_{tail}")
            return [*kept["input"], *kept["response"]["output"]]
        except NotFound:
            pass
        try:
            return self._conversations.items(user, f"conv_{tail}")
        except NotFound:
            return ()
