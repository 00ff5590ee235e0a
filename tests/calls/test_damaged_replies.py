"""Replies with one fault each."""

from __future__ import annotations

from genai_host_testing.purity import damaged


def test_every_value_of_a_reply_is_damaged_in_turn() -> None:
    found = list(damaged(b'{"a": [1, "x"]}'))
    assert b'{"a": [1' in found
    assert b"{}" in found
    assert b'{"a": null}' in found
    assert b'{"a": [null, "x"]}' in found
    assert b'{"a": [1, []]}' in found
    assert list(damaged(b"no")) == [b"", b"n"]
