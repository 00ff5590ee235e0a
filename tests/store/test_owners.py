"""One store, several owners: what one has is nothing to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genai_host import Host
from genai_host.errors import NotFound, ValidationError
from genai_host.store import Store
from genai_host_testing import FakeModel

MakeHost = Callable[..., Host]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


@pytest.fixture
def host(make_host: MakeHost, store: Store) -> Host:
    return make_host(fake=FakeModel(), store=store)


def test_each_sees_their_own(host: Host, store: Store) -> None:
    with store:
        mine = host.open("chat", "fake", owner="ann")
        mine.say("hello")
        assert [each.id for each in host.store_for("ann").conversations()] == [mine.id]
        assert host.store_for("bob").conversations() == host.conversations() == []
        assert host.conversation(mine.id, owner="ann").history == mine.history
        for owner in ("bob", "", None):
            with pytest.raises(NotFound):
                host.conversation(mine.id, owner=owner)


def test_what_one_does_the_other_cannot(host: Host, store: Store) -> None:
    with store:
        id = host.open("chat", "fake", owner="ann").id
        theirs = store.for_owner("bob")
        for act in (
            lambda: theirs.rename(id, "mine"),
            lambda: theirs.delete(id),
            lambda: theirs.fork(id),
            lambda: theirs.export(id),
            lambda: theirs.summary(id),
            lambda: theirs.attempts(id),
        ):
            with pytest.raises(NotFound):
                act()
        assert store.for_owner("ann").summary(id).title == ""


@pytest.mark.parametrize("name", ["a\0", "\ud800", "x" * 251], ids=ascii)
def test_a_name_that_no_database_stores_is_no_owner(store: Store, name: str) -> None:
    with store:
        with pytest.raises(ValidationError, match="invalid user name"):
            store.for_owner(name)
        assert store.for_owner("x" * 250) is store.for_owner("x" * 250)


def test_an_owner_is_made_once_and_whose_it_is_is_itself(store: Store) -> None:
    with store:
        assert store.for_owner("") is store
        assert store.for_owner("ann") is store.for_owner("ann")
