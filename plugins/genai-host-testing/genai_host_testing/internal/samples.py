"""Sample data: conversations with parts of all kinds, for property tests of dialects; hand-written
PDFs, valid and invalid; a trip, as a class of each kind that is supported as an output type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypedDict

import attrs
from hypothesis import strategies as st

from genai_host.api import File, Image, Message, Text, ToolCall, ToolResult

letters = st.characters(exclude_categories=["Cs"])
texts = st.builds(Text, st.text(letters, max_size=9).filter(str.strip))
data = st.binary(min_size=1, max_size=9)
images = st.builds(Image, data.map(b"\x89PNG\r\n\x1a\n".__add__), st.just("image/png"))
files = st.builds(File, data, st.just("application/pdf"), st.just("name"))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
arguments = st.dictionaries(st.text(max_size=3), values, max_size=2)


@st.composite
def conversations(
    draw: st.DrawFn, user_parts: st.SearchStrategy[Any], result_parts: st.SearchStrategy[Any]
) -> list[Message]:
    """Conversations with a result for each call; the last message is the user's."""
    few = st.lists(texts, min_size=1, max_size=2)
    messages = [Message("system", draw(few))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 2))):
        messages.append(Message("user", draw(st.lists(user_parts, min_size=1, max_size=3))))
        ids = [f"call_{turn}_{number}" for number in range(draw(st.integers(0, 2)))]
        calls = [ToolCall(id, "look", draw(arguments)) for id in ids]
        spoken = draw(st.lists(texts, min_size=0 if calls else 1, max_size=2))
        messages.append(Message("assistant", [*spoken, *calls]))
        contents = [draw(st.lists(result_parts, max_size=2)) for _ in ids]
        failed = [draw(st.booleans()) for _ in ids]
        if ids:
            names = ["look"] * len(ids)
            messages.append(Message("tool", map(ToolResult, ids, names, contents, failed)))
    return [*messages, Message("user", draw(st.lists(user_parts, min_size=1, max_size=3)))]


def pdf(contents: Sequence[bytes], title: str = "", filter: str = "") -> bytes:
    """Return a PDF with a page for each content."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R"
            b" >> >> /Contents %d 0 R >>" % (5 + 2 * number)
        )
        objects.append(
            b"<< /Length %d %s >>\nstream\n%s\nendstream"
            % (len(content), f"/Filter {filter}".encode() if filter else b"", content)
        )
    objects.append(f"<< /Title ({title}) >>".encode())
    out, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, len(objects), len(out))
    )


@attrs.frozen
class AttrsTrip:
    city: str
    days: int


@dataclasses.dataclass
class DataTrip:
    city: str
    days: int


class TypedTrip(TypedDict):
    city: str
    days: int
