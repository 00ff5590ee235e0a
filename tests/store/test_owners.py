"""One store, several owners: what one has is nothing to another."""

from __future__ import annotations

import pytest

from genai_host import Host
from genai_host.errors import NotFound, ValidationError
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, begin


@pytest.fixture
def host(make_host: MakeHost, store: Store) -> Host:
    return make_host(fake=FakeModel(), store=store)


def test_each_sees_their_own(host: Host, store: Store) -> None:
    mine = host.open("chat", "fake", owner="ann")
    mine.say("hello")
    assert [each.id for each in host.store_for("ann").conversations()] == [mine.id]
    assert host.store_for("bob").conversations() == host.conversations() == []
    assert host.conversation(mine.id, owner="ann").history == mine.history
    for owner in ("bob", "", None):
        with pytest.raises(NotFound):
            host.conversation(mine.id, owner=owner)


def test_what_one_does_the_other_cannot(store: Store) -> None:
    mine, theirs = store.for_owner("ann"), store.for_owner("bob")
    id, other = begin(mine).id, begin(theirs).id
    for act in (
        lambda: theirs.find(id),
        lambda: theirs.entries(id, CODEC),
        lambda: theirs.rename(id, "mine"),
        lambda: theirs.delete(id),
        lambda: theirs.fork(id),
        lambda: theirs.export(id),
        lambda: theirs.summary(id),
        lambda: theirs.attempts(id),
    ):
        with pytest.raises(NotFound):
            act()
    assert mine.summary(id).title == ""
    assert [[each.id for each in of.conversations()] for of in (mine, theirs)] == [[id], [other]]


@pytest.mark.parametrize("name", ["a\0", "\ud800", "x" * 251], ids=ascii)
def test_a_name_that_no_database_stores_is_no_owner(store: Store, name: str) -> None:
    with pytest.raises(ValidationError, match="invalid user name"):
        store.for_owner(name)
    for accepted in ("x" * 250, "ann"):
        assert store.for_owner(accepted) is store.for_owner(accepted)
    assert store.for_owner("") is store
