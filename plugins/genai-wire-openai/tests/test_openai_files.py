"""Files: uploads as multipart forms, and the routes, without any other plugin."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import genai_wire_openai
import pytest
import requests
from attrs import evolve
from genai_wire_openai.server.files import Files, _options_in, read_upload
from genai_wire_openai.server.objects import ObjectStore
from hypothesis import given, strategies as st
from requests import Request

from genai_host.api import Cancellation, RouteRequest
from genai_host.errors import Conflict, NotFound, ValidationError
from genai_host_testing import RouteServer
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

OTHER = b'--b\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\nx\r\n--b--\r\n'
DAY = 24 * 3600
FORM = "multipart/form-data; boundary=b"


def form_of(data: bytes, name: str = "a.txt", **fields: str) -> RouteRequest:
    request = Request(
        "POST", "http://x", files={"file": (name, io.BytesIO(data))}, data=fields
    ).prepare()
    assert isinstance(request.body, bytes)
    return sent(request.body, request.headers["content-type"])


def sent(body: bytes, kind: str) -> RouteRequest:
    return RouteRequest(
        "POST", "/v1/files", headers={"content-type": kind}, body=body, limits=Cancellation()
    )


@pytest.mark.parametrize("size", [0, 10, 3 * 2**20])
def test_an_upload_is_read_whole(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    upload = read_upload(form_of(data, "ä b.txt", purpose="assistants", other="é"))
    assert (upload.name, upload.data) == ("ä b.txt", data)
    assert upload.fields == {"purpose": "assistants", "other": "é"}


@pytest.mark.parametrize("name", ["../../etc/passwd", "C:\\x\\passwd", "/passwd"])
def test_an_upload_has_no_folders(name: str) -> None:
    assert read_upload(form_of(b"a", name)).name == "passwd"


@pytest.mark.parametrize(("parameters", "name"), [
    (b"filename*=UTF-8''na%C3%AFve%20a.txt", "na\xefve a.txt"),
    (b"filename*=utf-8'en'..%2Fa%22;%3B", 'a"'),
    (b"FileName*=iso-8859-1''na%EFve.txt", "na\xefve.txt"),
    (b"filename=\"a.txt\"; filename*=UTF-8''b.txt", "a.txt"),
    (b"x=\"; filename*=UTF-8''b.txt\"; filename*=UTF-8''c.txt", "c.txt"),
    (b"filename*=UTF-8''", "file"),
])  # fmt: skip
def test_an_upload_can_have_an_extended_name(parameters: bytes, name: str) -> None:
    """In forms made by RFC 2231 or 8187, which browsers do not use."""
    disposition = b'Content-Disposition: form-data; name="file"; ' + parameters
    upload = read_upload(sent(b"--b\r\n" + disposition + b"\r\n\r\nx\r\n--b--\r\n", FORM))
    assert (upload.name, upload.data) == (name, b"x")


@pytest.mark.parametrize("end", [b"", b"\\", b'\\\n"'])
def test_a_long_quoted_text_takes_no_time(end: bytes) -> None:
    assert b"name" in _options_in(b'form-data; name="f"; x="' + b'\\"' * 200_000 + end)


@pytest.mark.parametrize(("encoding", "data", "read"), [
    (b"base64", b"w6k=", "\xe9".encode()),
    (b"Quoted-Printable", b"=C3=A9", "\xe9".encode()),
    (b"binary", b"=C3=A9", b"=C3=A9"),
])  # fmt: skip
def test_an_upload_can_be_encoded(encoding: bytes, data: bytes, read: bytes) -> None:
    head = b'Content-Disposition: form-data; name="file"; filename="a"\r\n'
    encoded = b"Content-Transfer-Encoding: " + encoding + b"\r\n\r\n" + data
    assert read_upload(sent(b"--b\r\n" + head + encoded + b"\r\n--b--\r\n", FORM)).data == read


@pytest.mark.parametrize(("body", "kind"), [
    (b"{}", "application/json"), (b"", "multipart/form-data"), (b"--b\r\n", FORM),
    (b"--b--\r\n", FORM), (b"nonsense", FORM),
    (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--", FORM),
    (OTHER, FORM),
])  # fmt: skip
def test_what_is_no_upload(body: bytes, kind: str) -> None:
    with pytest.raises(ValidationError):
        read_upload(sent(body, kind))


@given(st.binary(max_size=200))
def test_whatever_is_sent_is_an_upload_or_none(body: bytes) -> None:
    for data in (body, b"--b\r\n" + body + b"\r\n--b--\r\n"):
        with contextlib.suppress(ValidationError):
            read_upload(sent(data, FORM))


def uploaded(url: str, **fields: str) -> requests.Response:
    files = {"file": ("a.jsonl", b"{}")}
    return requests.post(url, files=files, data={"purpose": "batch", **fields}, timeout=60)


@pytest.mark.part
def test_upload_list_read_and_delete(make_host: MakeHost, make_store: MakeStore) -> None:
    """Of one user; other users have none. The paths also work without the `/v1`."""
    host = make_host(openai=genai_wire_openai, store=make_store())
    with RouteServer(host, user="ann") as server, RouteServer(host, user="bob") as other:
        url = f"{server.url}/v1/files"
        file = uploaded(url).json()
        path = f"files/{file['id']}"
        assert (file["object"], file["bytes"], file["purpose"]) == ("file", 2, "batch")
        assert requests.get(f"{server.url}/{path}", timeout=60).json() == file
        assert requests.get(f"{server.url}/v1/{path}/content", timeout=60).content == b"{}"
        assert requests.get(url, timeout=60).json()["data"] == [file]
        assert requests.get(f"{other.url}/v1/files", timeout=60).json()["data"] == []
        assert requests.get(f"{other.url}/v1/{path}", timeout=60).status_code == 404
        assert requests.delete(f"{url}/{file['id']}", timeout=60).json()["deleted"] is True
        assert requests.get(f"{server.url}/v1/{path}", timeout=60).status_code == 404


@pytest.mark.part
def test_without_a_store_no_file_is_accepted(make_host: MakeHost) -> None:
    with RouteServer(make_host(openai=genai_wire_openai)) as server:
        reply = uploaded(f"{server.url}/v1/files")
    assert reply.status_code == 400
    assert "store" in reply.json()["error"]["message"]


@pytest.mark.part
def test_a_file_stays_if_an_equal_one_is_deleted_during_its_upload(
    make_host: MakeHost, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(make_host(store=make_store()))
    first = files.keep("", "a.txt", b"same", "batch")
    add_once = ObjectStore.add_once

    def add_after_deletion(shelf: ObjectStore, value: Any) -> Any:
        files.delete(evolve(sent(b"", ""), parameters={"file": first["id"]}))
        return add_once(shelf, value)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "add_once", add_after_deletion)
        second = files.keep("", "b.txt", b"same", "batch")
    assert files.data("", second["id"]) == b"same"
    files.delete(evolve(sent(b"", ""), parameters={"file": second["id"]}))
    with pytest.raises(NotFound):
        files._host.store_for("").blobs().get(second["_blob"])


@pytest.mark.part
class TestListsGoOnAfterDeletedObjects:
    """A client asks for the next page by the id of the last object that it has."""

    @pytest.fixture
    def shelf(self, make_host: MakeHost, make_store: MakeStore, clock: ManualClock) -> ObjectStore:
        shelf = ObjectStore(make_host(store=make_store(), clock=clock), "ann", "thing")
        for id in "abcde":
            shelf.add({"id": id, "odd": id in "ace"})
        return shelf

    @staticmethod
    def ids(shelf: ObjectStore, where: Any = None, **query: str) -> str:
        return "".join(each["id"] for each in shelf.page(query, where=where)["data"])

    @pytest.mark.parametrize("gone", ["c", "cb", "bc", "cd", "dc", "bcd"])
    def test_in_either_order(self, shelf: ObjectStore, gone: str) -> None:
        for id in gone:
            shelf.delete(id, keep_place=True)
        rest = [id for id in "abcde" if id not in gone]
        newer = "".join(id for id in rest if id > "c")
        older = "".join(id for id in reversed(rest) if id < "c")
        assert self.ids(shelf, after="c") == older
        assert self.ids(shelf, after="c", order="asc") == newer
        assert self.ids(shelf, before="c") == newer[::-1]
        assert self.ids(shelf, before="c", order="asc") == older[::-1]
        assert self.ids(shelf, {"odd": True}, after="c") == "a"

    def test_what_is_added_after_a_deleted_newest_one_follows_it(self, shelf: ObjectStore) -> None:
        shelf.delete("e", keep_place=True)
        shelf.add({"id": "f"})
        assert self.ids(shelf, after="e", order="asc") == "f"
        assert self.ids(shelf, after="e") == "dcba"
        shelf.add({"id": "e"})  # again
        assert self.ids(shelf, after="e", order="asc") == ""
        shelf.delete("e", keep_place=True)
        shelf.add({"id": "g"})
        assert self.ids(shelf, after="e", order="asc") == "g"
        assert self.ids(shelf, after="e") == "fdcba"

    def test_all_may_be_deleted_while_they_are_listed(self, shelf: ObjectStore) -> None:
        listed = ""
        page = shelf.page({"limit": "2"})
        while page["data"]:
            for each in page["data"]:
                listed += each["id"]
                shelf.delete(each["id"], keep_place=True)
            page = shelf.page({"limit": "2", "after": page["last_id"]})
        assert listed == "edcba"

    def test_two_delete_at_once(self, shelf: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """On PostgreSQL, both may insert its place at once."""

        def conflicts(*args: Any, **named: Any) -> int:
            raise Conflict("it has changed")

        monkeypatch.setattr(type(shelf._documents), "put", conflicts)
        shelf.delete("b", keep_place=True)
        with pytest.raises(NotFound):
            shelf.delete("b", keep_place=True)

    def test_what_never_existed_is_refused(self, shelf: ObjectStore) -> None:
        for name in ("after", "before"):
            with pytest.raises(ValidationError, match="unknown thing 'x'"):
                self.ids(shelf, **{name: "x"})

    def test_places_are_kept_for_a_day(self, shelf: ObjectStore, clock: ManualClock) -> None:
        shelf.delete("b", keep_place=True)
        clock.advance(DAY)
        shelf.delete("c", keep_place=True)
        assert self.ids(shelf, after="b") == "a"
        clock.advance(1)
        shelf.delete("d", keep_place=True)
        assert self.ids(shelf, after="c") == "a"
        with pytest.raises(ValidationError, match="unknown thing 'b'"):
            self.ids(shelf, after="b")

    def test_other_objects_leave_nothing(self, shelf: ObjectStore) -> None:
        shelf.delete("b")
        with pytest.raises(ValidationError, match="unknown thing 'b'"):
            self.ids(shelf, after="b")

    def test_a_list_that_is_cleared_keeps_none(self, shelf: ObjectStore) -> None:
        shelf.delete("b", keep_place=True)
        shelf.clear()
        with pytest.raises(ValidationError, match="unknown thing 'b'"):
            self.ids(shelf, after="b")


HOUR = 3600


@pytest.mark.part
def test_a_file_expires(make_host: MakeHost, make_store: MakeStore) -> None:
    clock = ManualClock()
    host = make_host(openai=genai_wire_openai, store=make_store(), clock=clock)
    with RouteServer(host) as server:
        url = f"{server.url}/v1/files"
        stays = uploaded(url).json()
        life = {"expires_after[anchor]": "created_at", "expires_after[seconds]": str(HOUR)}
        file = uploaded(url, **life).json()
        assert file["expires_at"] == file["created_at"] + HOUR
        assert requests.get(url, timeout=60).json()["data"] == [file, stays]
        clock.advance(HOUR)
        for path in ("", "/content"):
            assert requests.get(f"{url}/{file['id']}{path}", timeout=60).status_code == 404
        assert Files(host).name("", file["id"]) == ""
        assert requests.get(url, timeout=60).json()["data"] == [stays]
        assert len(list(ObjectStore(host, "", "file").all())) == 1  # the other is not only hidden
        assert requests.get(f"{url}/{stays['id']}/content", timeout=60).content == b"{}"


@pytest.mark.part
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"expires_after": "3600"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "last_active_at"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds"),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"},
            "expires_after.seconds",
        ),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592001"},
            "expires_after.seconds",
        ),
        (
            {"expires_after[anchor]": "created_at", "expires_after[seconds]": "x"},
            "expires_after.seconds",
        ),
        ({"purpose": "fun"}, "purpose"),
    ],
)
def test_an_invalid_field_is_named(
    make_host: MakeHost, make_store: MakeStore, fields: Any, param: str
) -> None:
    with RouteServer(make_host(openai=genai_wire_openai, store=make_store())) as server:
        reply = uploaded(f"{server.url}/v1/files", **fields)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
