"""Sample data: conversations with parts of all kinds, for property tests of dialects; hand-written
PDFs, valid and invalid; a trip, as a class of each kind that is supported as an output type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import attrs
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
