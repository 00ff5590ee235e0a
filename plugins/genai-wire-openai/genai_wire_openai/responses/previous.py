"""Items that a request continues from: of a conversation, or of previous responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

from genai_host.errors import NotFound, ValidationError
from genai_wire_openai.responses.conversations import ConversationStore
from genai_wire_openai.responses.fields import ItemNotFound, PreviousNotFound
from genai_wire_openai.responses.items import with_id
from genai_wire_openai.responses.replies import belongs_to
from genai_wire_openai.responses.state import ResponseStore
from genai_wire_openai.responses.tools import Item

_MOST_READ = 1000  # maximum number of reasoning items that are looked up for one request


def _lacks_data(item: Item) -> bool:
    return item["type"] == "reasoning" and "opaque" not in item and belongs_to(item["id"]) != ""


def _with_data(item: Item, known: Mapping[str, Item]) -> Item:
    """Reasoning with the opaque data of the stored item with its id."""
    kept = known.get(item["id"], {}) if _lacks_data(item) else {}
    return {**item, "opaque": kept["opaque"]} if "opaque" in kept else item


class PreviousItems:
    """Previous items of requests, of all users of one host."""

    def __init__(self, kept: ResponseStore, conversations: ConversationStore) -> None:
        self._kept = kept
        self._conversations = conversations

    def before(self, user: str, previous: str | None, conversation: str | None) -> list[Item]:
        """Return the items of the conversation or of the previous responses, without instructions.
        Raises `NotFound` if the conversation or a response does not exist."""
        if conversation is not None:
            return self._conversations.items(user, conversation)
        turns: list[list[Item]] = []
        while previous is not None:
            try:
                kept = self._kept.find(user, previous)
            except NotFound:
                raise PreviousNotFound(
                    f"response {previous!r} does not exist or is no longer stored"
                ) from None
            response = kept["response"]
            if response["conversation"] is not None:
                raise ValidationError(
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
        """Return the items of a request, with ids and with references replaced by their items.
        Stored reasoning has its opaque data again, which clients seldom send back. Raises
        `NotFound` if an item does not exist."""
        known: dict[str, Item] = {}
        thoughts = [each["id"] for each in items if _lacks_data(each)][-_MOST_READ:]
        if thoughts or any(item["type"] == "item_reference" for item in items):
            known = {item["id"]: item for item in before}
        find = cache(partial(self._of_response, user))
        for id in thoughts:
            if id not in known:
                known.update(find(belongs_to(id)) or self._of_conversation(user, id))
        return [
            self._meant(user, item["id"], known)
            if item["type"] == "item_reference"
            else with_id(_with_data(item, known), new_tail())
            for item in items
        ]

    def _meant(self, user: str, id: str, known: dict[str, Item]) -> Item:
        if id not in known:
            found = self._of_response(user, belongs_to(id))
            known.update(found or self._of_conversation(user, id))
        if id not in known:
            raise ItemNotFound(
                f"unknown item {id!r}", hint="only items of stored responses can be referenced"
            )
        return known[id]

    def _of_response(self, user: str, tail: str) -> Mapping[str, Item]:
        """The items of the response with this end of the id, by their ids."""
        try:
            kept = self._kept.find(user, f"resp_{tail}")
        except NotFound:
            return {}
        return {item["id"]: item for item in (*kept["input"], *kept["response"]["output"])}

    def _of_conversation(self, user: str, id: str) -> Mapping[str, Item]:
        try:
            return {id: self._conversations.item(user, f"conv_{belongs_to(id)}", id)}
        except NotFound:
            return {}
