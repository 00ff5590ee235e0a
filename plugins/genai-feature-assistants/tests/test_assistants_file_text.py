"""Files that are made to break those who read them."""

from __future__ import annotations

import os
import zlib

import pytest
from attrs import evolve
from genai_feature_assistants import file_text
from genai_feature_assistants.file_text import UnreadableFile, UnsupportedFile, read_text, text_of

from genai_host.api import Cancellation
from genai_host.errors import Cancelled
from genai_host_testing.internal.assistants_api import MakeApi, until
from genai_host_testing.internal.fixtures import Background
from genai_host_testing.internal.samples import pdf

pytestmark = pytest.mark.process

ENDLESS = b"<p " + b" ".join(b"a%d" % number for number in range(500_000)) + b">x"
"""The parser compares each attribute with all others: it takes half an hour."""

DEEP = b"%PDF-1.7\n1 0 obj\n" + b"<< /A " * 50_000 + b"\nendobj\nstartxref\n9\n%%EOF"
ITS_OWN_PARENT = pdf([b"BT (x) Tj ET"]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
BOMB = pdf([zlib.compress(b"BT " + b"(x) Tj " * 10_000_000 + b"ET", 9)], filter="/FlateDecode")
EXCEEDED = "exceeded the memory or time limit"


@pytest.fixture
def few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_text, "LIMITS", evolve(file_text.LIMITS, cpu_seconds=2))


@pytest.mark.smoke
def test_the_text_of_a_file_is_read_in_another_process() -> None:
    page = pdf([b"BT /F1 12 Tf 10 100 Td (a page) Tj ET"])
    assert read_text(page, "a.bin", Cancellation()).strip() == "a page"
    html = "<meta charset=koi8-r><p>мост".encode("koi8-r")
    assert read_text(html, "a.HTM", Cancellation()) == "мост"


def test_a_reason_comes_from_the_other_process() -> None:
    with pytest.raises(UnreadableFile, match="contains no text") as caught:
        read_text(b"<p> ", "a.html", Cancellation())
    assert caught.value.code == "invalid_file"
    with pytest.raises(UnsupportedFile) as unsupported:
        read_text(b"a\0b", "a.html", Cancellation())
    assert unsupported.value.code == "unsupported_file"


@pytest.mark.parametrize(
    ("name", "data"), [("a.html", ENDLESS), ("a.pdf", BOMB), ("a.pdf", DEEP), ("a", ITS_OWN_PARENT)]
)
@pytest.mark.usefixtures("few_seconds")
def test_what_takes_too_long_or_cannot_be_read_is_told(name: str, data: bytes) -> None:
    with pytest.raises(UnreadableFile, match=rf"{EXCEEDED}|not a readable PDF|no text"):
        read_text(data, name, Cancellation())


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux bounds memory")
def test_what_takes_too_much_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_text, "LIMITS", evolve(file_text.LIMITS, memory=48 * 2**20))
    with pytest.raises(UnreadableFile, match=EXCEEDED):
        read_text(b"<p><i>x</i>" * 1_000_000, "a.html", Cancellation())


def test_a_cancelled_one_is_ended_amid_it(background: Background) -> None:
    limits = Cancellation()
    ended = background(read_text, ENDLESS, "a.html", limits)
    limits.cancel()
    assert isinstance(ended.exception(60), Cancelled)


@pytest.mark.part
@pytest.mark.usefixtures("few_seconds")
def test_the_server_goes_on(make_api: MakeApi) -> None:
    api = make_api()
    files = [api.upload("bad.html", ENDLESS), api.upload("good.txt", b"the sea is blue")]
    path = f"/vector_stores/{api.post('/vector_stores', {'file_ids': files})['id']}"
    until(lambda: api.get(path)["file_counts"]["in_progress"] == 0)
    bad, good = (api.get(f"{path}/files/{file}") for file in files)
    assert (bad["status"], good["status"]) == ("failed", "completed")
    assert bad["last_error"]["code"] == "invalid_file"
    assert EXCEEDED in bad["last_error"]["message"]
    [hit] = api.post(f"{path}/search", {"query": "the sea is blue"})["data"]
    assert hit["filename"] == "good.txt"


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.html", b"<p>" + b"x" * 100), ("a.pdf", pdf([b"BT (" + b"x" * 60 + b") Tj ET"] * 2))],
)
def test_a_long_text_is_cut(name: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_text, "MAX_TEXT", 50)
    assert len(text_of(name, data)) == 50
