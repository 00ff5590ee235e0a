"""Lines and texts of strangers."""

from __future__ import annotations

import pytest
from genai_mcp.text import Lines, clean, one_line
from hypothesis import given
from hypothesis import strategies as st

from genai_host.errors import MalformedReply


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_come_out_as_they_went_in(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    reader, found = Lines(10_000), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += reader.feed(whole[start:end])
    assert found == [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize("blocks", [[b"12345", b"678901"], [b"a\n12345678901\n"]])
def test_a_line_may_be_too_long(blocks: list[bytes]) -> None:
    reader = Lines(10)
    with pytest.raises(MalformedReply, match="longer than 10 bytes"):
        for block in blocks:
            reader.feed(block)


@given(st.text(), st.integers(20, 50))
def test_texts_can_be_shown(text: str, most: int) -> None:
    shown = clean(text, most)
    assert len(shown) <= most
    assert all(each.isprintable() or each in "\n\t" for each in shown)
    assert one_line(text).isprintable()
