"""Arbitrary replies of a service, and the errors that they must not cause in a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from genai_host.errors import GenaiError

NESTED = b"[" * 100_000 + b"]" * 100_000
WEIRD: list[Any] = [None, True, False, 0, -1, 7, 2**70, 10**400, 1.5, float("nan"), float("inf"),
                    "", "x", "0", "YQ==", "²²²", "{", [], {}, [None], [[]], [{}], ["x"], {"a": 1},
                    [0] * 3]  # fmt: skip


def leak(act: Callable[[], object]) -> str:
    """Return the error that an act must not raise, or an empty string."""
    try:
        act()
    except GenaiError:
        return ""
    except Exception as error:  # noqa: BLE001  # any of them
        return repr(error)
    return ""


def json_values(keys: Iterable[str]) -> st.SearchStrategy[Any]:
    """Return a strategy for any JSON, with a preference for objects with these names."""
    names = st.sampled_from(sorted(set(keys))) | st.text(max_size=3)
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
        max_leaves=12,
    )


finite_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON that Python writes and reads again."""
cuts = st.lists(st.integers(0, 1_000), max_size=4)
"""Positions at which `cut` splits a value."""


def cut(text: Any, places: list[int]) -> list[Any]:
    """Split a string or bytes into parts, some of which may be empty."""
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]
