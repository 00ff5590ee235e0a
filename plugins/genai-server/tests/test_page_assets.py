"""The files of the page: what the browser gets, and that they hold together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
import requests
from genai_server.page.assets import POLICY
from genai_server.routes import PAGE

from genai_host_testing import RouteServer
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

FOLDER = files("genai_server.page").joinpath("assets")
TEXTS = {each.name: each.read_text(encoding="utf-8") for each in FOLDER.iterdir()}
SCRIPTS = sorted(name for name in TEXTS if name.endswith(".js"))


@pytest.fixture
def url(make_host: MakeHost) -> Iterator[str]:
    with RouteServer(make_host(), PAGE) as server:
        yield server.url


def get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, headers=headers, timeout=30, allow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/page"])
def test_the_page_forbids_what_it_does_not_need(url: str, path: str) -> None:
    reply = get(url + path)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-security-policy"] == POLICY
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    directives = dict(each.split(" ", 1) for each in POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == "'self'"
    assert "unsafe" not in POLICY


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"page.html"}))
def test_each_file_is_served_and_not_sent_twice(url: str, name: str) -> None:
    reply = get(f"{url}/page/assets/{name}")
    assert reply.status_code == 200
    assert reply.text == TEXTS[name]
    tag = reply.headers["etag"]
    for known in (tag, f'W/{tag}, "other"', "*"):
        again = get(f"{url}/page/assets/{name}", **{"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert get(f"{url}/page/assets/{name}", **{"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "name", ["none.js", "page.html", "..", "..%2froutes.py", "%2e%2e%2f__init__.py", "%00", "."]
)
def test_nothing_else_is(url: str, name: str) -> None:
    request = requests.Request("GET", url).prepare()
    request.url = f"{url}/page/assets/{name}"  # which would be made shorter otherwise
    with requests.Session() as session:
        assert session.send(request, timeout=30).status_code == 404


def test_each_file_that_is_asked_for_is_there() -> None:
    asked = set(re.findall(r'(?:href|src)="page/assets/([^"]+)"', TEXTS["page.html"]))
    for name in SCRIPTS:
        asked |= set(re.findall(r'from "\./([^"]+)"', TEXTS[name]))
    assert asked == TEXTS.keys() - {"page.html"}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_nothing_is_inline_nor_elsewhere(name: str) -> None:
    text = TEXTS[name]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert "new Function" not in text
    assert not re.search(r"""(?:src|href|import|url\(|from)\s*=?\s*["'(]?(?:https?:)?//""", text)
    if name == "page.html":
        assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\sstyle=|\son[a-z]+=", text)
        assert not re.search(r'(?:href|src)="/', text)


def test_it_is_small() -> None:
    assert sum(map(len, TEXTS.values())) < 200_000
