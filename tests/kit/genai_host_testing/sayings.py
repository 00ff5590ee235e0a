"""Conversations with parts of all kinds, for property tests of the dialects that encode them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from genai_host.api import File, Image, Message, Part, Role, Text, ToolCall, ToolResult

texts = st.builds(Text, st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
data = st.binary(min_size=1, max_size=9)
urls = st.sampled_from(["http://x/1", "https://y"])
images = st.builds(Image, data, st.sampled_from(["image/png", "image/jpeg"])) | st.builds(
    Image, url=urls
)
files = st.builds(File, data, st.sampled_from(["application/pdf", "text/csv"]), st.just("name"))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
arguments = st.dictionaries(st.text(max_size=3), values, max_size=2)
calls = st.builds(ToolCall, st.text(min_size=1, max_size=3), st.text(max_size=3), arguments)


def conversations(result_parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Message]]:
    results = st.builds(
        ToolResult, st.text(min_size=1, max_size=3), content=st.lists(result_parts, max_size=3)
    )
    return st.lists(
        st.one_of(
            st.builds(Message, st.just("system"), st.lists(texts, max_size=2)),
            st.builds(Message, st.just("user"), st.lists(texts | images | files, max_size=3)),
            st.builds(Message, st.just("assistant"), st.lists(texts | calls, max_size=4)),
            st.builds(Message, st.just("tool"), st.lists(results, max_size=2)),
        ),
        max_size=5,
    )


Said = list[tuple[Role, list[Part]]]


def joined(parts: Iterable[Part]) -> list[Part]:
    """Return the parts with consecutive texts joined."""
    found: list[Part] = []
    for part in parts:
        if found and isinstance(part, Text) and isinstance(found[-1], Text):
            found[-1] = Text(found[-1].text + part.text)
        elif part != Text(""):
            found.append(part)
    return found
