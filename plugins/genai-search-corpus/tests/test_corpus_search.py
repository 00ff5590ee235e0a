"""Searching a folder: by words and by meaning, while it changes, and whatever is asked."""

from __future__ import annotations

import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from genai_search_corpus import Settings, corpus as module, documents
from genai_search_corpus.corpus import Corpus, CorpusState
from genai_search_corpus.documents import files_in, read_all
from genai_search_corpus.index import Index
from hypothesis import given, strategies as st

from genai_host.api import Cancellation
from genai_host.cli.main import run
from genai_host.errors import Cancelled, ConfigurationError
from genai_host_testing.internal.samples import pdf

Search = Callable[..., list[str]]

TEXTS = {
    "rivers.md": "# Rivers\n\nWater that flows downhill, and ends in the ocean.\n",
    "bread.md": "# Bread\n\nFlour is kneaded with yeast, and baked in an oven.\n",
    "codes.txt": "The part number is QX-7714-B.\n",
    "law.md": "# Law\n\nA contract binds those who have signed it.\n",
}


NOTHING = Cancellation()
"""What keeps nobody from going on."""


def make_notes(within: Path) -> Path:
    notes = within / "notes"
    notes.mkdir()
    for name, text in TEXTS.items():
        (notes / name).write_text(text)
    return notes


@pytest.fixture(scope="module", autouse=True)
def vectors_by_text() -> Iterator[None]:
    """Compute the vector of each text once for all tests."""
    known: dict[tuple[str, bool], bytes] = {}
    compute = module._Model.vector

    def vector(model: module._Model, text: str, *, is_query: bool) -> bytes:
        if (text, is_query) not in known:
            known[text, is_query] = compute(model, text, is_query=is_query)
        return known[text, is_query]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Model, "vector", vector)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_notes(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """For tests that change nothing."""
    within = tmp_path_factory.mktemp("corpus")
    return Corpus(Settings(str(make_notes(within)), str(within / "index.db")))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index" / "corpus.db"


@pytest.fixture
def corpus(folder: Path, index: Path) -> Corpus:
    return Corpus(Settings(str(folder), str(index)))


def names(corpus: Corpus, query: str, most: int = 10) -> list[str]:
    return [each.path for _, each in corpus.search(query, most, NOTHING)]


@pytest.mark.part
def test_a_rare_word_is_found(shared: Corpus) -> None:
    assert names(shared, "QX-7714-B")[0] == "codes.txt"


def test_what_means_the_same_is_found_without_a_common_word(shared: Corpus) -> None:
    assert names(shared, "how do streams reach the sea")[0] == "rivers.md"
    assert names(shared, "recipe for a loaf")[0] == "bread.md"


def test_the_best_come_first_and_not_more_than_asked(shared: Corpus) -> None:
    assert names(shared, "flour contract signed oven kneaded yeast baked", 1) == ["bread.md"]
    assert len(names(shared, "flour contract water number")) >= 3


def test_a_link_leads_to_the_document(corpus: Corpus, folder: Path) -> None:
    ((link, passage),) = corpus.search("QX-7714-B", 1, NOTHING)
    assert link == (folder / "codes.txt").as_uri()
    assert passage.text == "The part number is QX-7714-B."


def test_what_changes_is_found_and_what_is_gone_is_not(corpus: Corpus, folder: Path) -> None:
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"
    (folder / "codes.txt").write_text("Now it is ZZ-1000-A, and longer than before.\n")
    (folder / "new.md").write_text("# New\n\nTulips are flowers.\n")
    assert names(corpus, "ZZ-1000-A")[0] == "codes.txt"
    assert names(corpus, "tulips")[0] == "new.md"
    (folder / "new.md").unlink()
    assert "new.md" not in names(corpus, "tulips")
    assert all("7714" not in passage.text for _, passage in corpus.search("7714", 10, NOTHING))


def test_index_is_kept(
    corpus: Corpus, folder: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(corpus, "rivers")

    def unread(*args: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(documents, "load", unread)
    assert names(Corpus(Settings(str(folder), str(index))), "rivers")[0] == "rivers.md"


def test_only_the_user_can_read_the_index(corpus: Corpus, index: Path) -> None:
    names(corpus, "rivers")
    assert index.stat().st_mode & 0o077 == 0
    assert index.parent.stat().st_mode & 0o077 == 0


@pytest.mark.part
@pytest.mark.parametrize(
    ("kept", "damage"),
    [(0, b"no database at all" * 100), (0, b"SQLite format 3\0" + b"\xff" * 8000), (4096, b"\xff")],
    ids=["none", "head", "within"],
)
def test_damaged_index_is_made_anew(corpus: Corpus, index: Path, kept: int, damage: bytes) -> None:
    names(corpus, "rivers")
    for name in ("-wal", "-shm"):
        Path(f"{index}{name}").unlink(missing_ok=True)
    data = index.read_bytes()
    index.write_bytes(data[:kept] + (damage * (len(data) - kept) if kept else damage))
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"


def test_words_are_found_without_time(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"
    assert corpus.make(NOTHING, lambda state: None).embedded == 4


def test_what_is_done_when_it_is_cancelled_is_kept(corpus: Corpus) -> None:
    class Enough(Cancellation):
        calls = 0

        def check(self) -> None:
            self.calls += 1
            if self.calls == 7:  # four documents are read, and then each passage is embedded
                raise Cancelled("enough")

    with pytest.raises(Cancelled):
        corpus.search("rivers", 1, Enough())
    states: list[CorpusState] = []
    corpus.make(NOTHING, states.append)
    assert (states[0].documents, states[0].embedded) == (4, 2)
    assert (states[-1].passages, states[-1].embedded) == (4, 4)


def test_cancelling_keeps_documents_that_were_read(corpus: Corpus, index: Path) -> None:
    cancelled = Cancellation()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        corpus.search("rivers", 1, cancelled)
    with Index(str(index)).opened() as session:
        assert len(session.files()) == 1


@pytest.mark.part  # one that finds the file busy waits
def test_several_at_once_make_one_index(folder: Path, index: Path) -> None:
    links: list[str] = []
    begin = threading.Barrier(4, timeout=60)

    def search() -> None:
        begin.wait()
        links.append(names(Corpus(Settings(str(folder), str(index))), "QX-7714-B")[0])

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert links == ["codes.txt"] * 4
    state = Corpus(Settings(str(folder), str(index))).make(NOTHING, lambda state: None)
    assert (state.documents, state.passages, state.embedded) == (4, 4, 4)


def test_a_search_finds_what_another_process_indexes_again(
    corpus: Corpus, folder: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked = Corpus._ranked

    def after_another(*args: Any) -> list[int]:
        ranks = ranked(*args)
        with monkeypatch.context() as patch, Index(str(index)).opened() as other:
            # it has listed the files before they were indexed
            patch.setattr(other, "files", dict)
            module._update(other, str(folder), NOTHING)
        return ranks

    monkeypatch.setattr(Corpus, "_ranked", after_another)
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"


@pytest.mark.process
def test_what_is_made_to_break_its_reader_is_left_out(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("LIMITS", "BATCH_LIMITS"):
        monkeypatch.setattr(documents, each, evolve(getattr(documents, each), cpu_seconds=2))
    names_of_attributes = " ".join(f"a{number}" for number in range(500_000))
    (folder / "endless.html").write_text(f"<p {names_of_attributes}>x")
    bomb = zlib.compress(b"BT " + b"(x) Tj " * 10_000_000 + b"ET", 9)
    (folder / "bomb.pdf").write_bytes(pdf([bomb], filter="/FlateDecode"))
    deep = b"%PDF-1.7\n1 0 obj\n" + b"<< /A " * 50_000 + b"\nendobj\nstartxref\n9\n%%EOF"
    (folder / "deep.pdf").write_bytes(deep)
    (folder / "page.html").write_text("<p>Deserts are dry.")
    reasons = dict(corpus.make(NOTHING, lambda state: None).left_out)
    assert reasons.keys() == {"endless.html", "bomb.pdf", "deep.pdf"}
    assert reasons["endless.html"] == "reading it exceeds the memory or time limit"
    assert names(corpus, "deserts")[0] == "page.html"


@pytest.mark.process
def test_batch_with_an_unreadable_file_is_read_singly(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("LIMITS", "BATCH_LIMITS"):
        monkeypatch.setattr(documents, each, evolve(getattr(documents, each), cpu_seconds=2))
    attributes = " ".join(f"a{number}" for number in range(500_000))
    (folder / "a.html").write_text(f"<p {attributes}>x")
    (folder / "b.html").write_text("<p>Deserts are dry.")
    files = [each for each in files_in(str(folder)) if each.path.endswith(".html")]
    found = [(file.path, read.why) for file, read in read_all(str(folder), files, NOTHING)]
    assert found == [("b.html", ""), ("a.html", "reading it exceeds the memory or time limit")]


def test_a_search_can_find_an_unreadable_file_within_the_time_limit_of_the_tool() -> None:
    for each in (documents.LIMITS, documents.BATCH_LIMITS):
        assert each.cpu_seconds is not None
        assert each.seconds is not None
        assert each.cpu_seconds < each.seconds
    assert (documents.BATCH_LIMITS.seconds or 0) + (documents.LIMITS.seconds or 0) < module.TIMEOUT


def test_frozen_without_html(corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "page.html").write_text("<p>Deserts are dry.")
    with monkeypatch.context() as patch:
        patch.setattr("genai_host.api.child_process.has_interpreter", lambda: False)
        assert names(corpus, "QX-7714-B")[0] == "codes.txt"
        [(name, why)] = corpus.make(NOTHING, lambda state: None).left_out
        assert (name, "frozen" in why) == ("page.html", True)


@pytest.mark.process
def test_what_cannot_be_read_is_left_out_and_told(corpus: Corpus, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 no")
    (folder / "binary.md").write_bytes(b"\0\1")
    state = corpus.make(NOTHING, lambda state: None)
    assert [path for path, _ in state.left_out] == ["binary.md", "broken.pdf"]
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"


ODD = ['"', "*", "NEAR(a b, 3)", "a AND", "title:x", "^a", "{a}", "a" * 1000, "\0", "-", "é ü 漢字"]


def test_what_could_not_be_opened_is_tried_again(
    corpus: Corpus, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with corpus._index.opened() as session, monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *given: os.read(-1, 1))
        for _ in range(2):
            module._update(session, str(folder), NOTHING)
            assert dict(session.left_out())["codes.txt"] == "Bad file descriptor"
    assert names(corpus, "QX-7714-B")[0] == "codes.txt"


@pytest.mark.parametrize("query", ["re\u0301sume\u0301", "İSTANBUL"])
def test_words_are_found_in_any_form_of_unicode(index: Path, query: str) -> None:
    with Index(str(index)).opened() as session:
        session.put(documents.CorpusFile("a.txt", 1, 1), documents.of_text("résumé İstanbul", "a"))
        assert session.with_words(query, 10)


@pytest.mark.parametrize("query", ODD)
def test_no_query_is_too_odd(shared: Corpus, query: str) -> None:
    assert isinstance(names(shared, query), list)


@given(query=st.text(min_size=1, max_size=200))
def test_no_query_raises(shared: Corpus, query: str) -> None:
    names(shared, query)


def test_a_folder_has_to_be_named_and_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="folder is not set"):
        Corpus(Settings()).search("a", 1, NOTHING)
    with pytest.raises(ConfigurationError, match="no such directory"):
        Corpus(Settings(str(tmp_path / "nowhere"))).search("a", 1, NOTHING)


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert names(Corpus(Settings(str(empty), str(tmp_path / "index.db"))), "anything") == []


class TestCommand:
    @pytest.mark.smoke
    @pytest.mark.process
    def test_folder_is_searched(
        self, home: Path, folder: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "bad.pdf").write_bytes(b"%PDF no")
        assert run(["config", "set", f"tools.corpus.folder={folder}"]) == 0
        capfd.readouterr()
        assert run(["corpus", "index"]) == 0
        captured = capfd.readouterr()
        assert captured.out == "5 documents, 4 passages\n"
        assert "not indexed: bad.pdf: not a readable PDF" in captured.err
        assert run(["corpus", "search", "-n", "1", "streams", "and", "the", "sea"]) == 0
        assert "rivers.md" in capfd.readouterr().out
        assert run(["corpus", "search", "--json", "QX-7714-B"]) == 0
        assert json.loads(capfd.readouterr().out)[0]["title"] == "codes.txt"

    def test_other_folder(
        self, home: Path, folder: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["corpus", "index", "--json", "--folder", str(folder)]) == 0
        assert json.loads(capfd.readouterr().out) == {"documents": 4, "passages": 4, "left_out": []}

    def test_without_a_folder(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert run(["corpus", "index"]) == 1
        assert "tools.corpus.folder" in capfd.readouterr().err

    def test_no_controls(self, home: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        (folder / "esc.md").write_text("# A \x1b]52;c;x\x07 b\n\nwhales \x1b[2J\n")
        assert run(["corpus", "search", "--folder", str(folder), "whales"]) == 0
        output = capfd.readouterr().out
        assert "whales" in output
        assert all(each.isprintable() or each == "\n" for each in output)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are always Unicode")
def test_name_that_is_no_utf_8_is_found_and_forgotten(folder: Path, corpus: Corpus) -> None:
    odd = os.fsencode(folder) + b"/lakes\xff.md"
    with open(odd, "w") as stream:
        stream.write("# Lakes\n\nThey stand still.\n")
    hits = corpus.search("lakes", 1, NOTHING)
    assert [(each.title, link.rpartition("/")[2]) for link, each in hits] == [
        ("Lakes", "lakes%FF.md")
    ]
    os.unlink(odd)
    assert all(each.title != "Lakes" for _, each in corpus.search("lakes", 5, NOTHING))


def test_halves_of_characters_in_a_document_are_replaced(
    folder: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_text", lambda *given: "Deserts \ud835 are dry.")
    (folder / "deserts.txt").write_bytes(b"-")
    ((_, passage),) = corpus.search("deserts", 1, NOTHING)
    assert passage.text == "Deserts \ufffd are dry."


def test_halves_of_characters_in_a_query_are_no_error(shared: Corpus) -> None:
    ((_, passage),) = shared.search("rivers \ud800", 1, NOTHING)
    assert passage.title == "Rivers"


@pytest.mark.part
def test_an_index_may_be_made_by_many_at_once(tmp_path: Path) -> None:
    """Of several that have SQLite write ahead to a log, some fail without having waited."""
    failed: list[BaseException] = []

    def make(index: Index, begin: threading.Barrier) -> None:
        begin.wait()
        try:
            with index.opened() as session:
                session.files()
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            failed.append(error)

    for number in range(100):
        index, begin = Index(str(tmp_path / f"{number}.db")), threading.Barrier(8, timeout=60)
        threads = [threading.Thread(target=make, args=(index, begin)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
