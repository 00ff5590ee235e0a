"""The page: its files, and the Markdown of its messages as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import requests
from genai_server.page import POLICY
from genai_server.page.markdown import MAX_LETTERS, tree, trees, web_address
from genai_server.routes import PAGE
from hypothesis import given, strategies as st

from genai_host_testing import RouteServer
from genai_host_testing.internal.fixtures import MakeHost

FOLDER = files("genai_server.page").joinpath("assets")
TEXTS = {each.name: each.read_text(encoding="utf-8") for each in FOLDER.iterdir()}
SCRIPTS = sorted(name for name in TEXTS if name.endswith(".js"))


@pytest.fixture
def url(make_host: MakeHost) -> Iterator[str]:
    with RouteServer(make_host(), PAGE) as server:
        yield server.url


def get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, headers=headers, timeout=30, allow_redirects=False)


@pytest.mark.part
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


@pytest.mark.part
@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"page.html"}))
def test_each_file_is_served_and_not_sent_twice(url: str, name: str) -> None:
    reply = get(f"{url}/page/assets/{name}")
    assert reply.status_code == 200
    assert reply.text == TEXTS[name]
    tag = reply.headers["etag"]
    for etags in (tag, f'W/{tag}, "other"', "*"):
        again = get(f"{url}/page/assets/{name}", **{"If-None-Match": etags})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert get(f"{url}/page/assets/{name}", **{"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.part
@pytest.mark.parametrize(
    "name", ["none.js", "page.html", "..", "..%2froutes.py", "%2e%2e%2f__init__.py", "%00", "."]
)
def test_other_files_are_not_found(url: str, name: str) -> None:
    request = requests.Request("GET", url).prepare()
    request.url = f"{url}/page/assets/{name}"  # which would be made shorter otherwise
    with requests.Session() as session:
        assert session.send(request, timeout=30).status_code == 404


def test_each_file_that_is_asked_for_is_there() -> None:
    names = set(re.findall(r'(?:href|src)="page/assets/([^"]+)"', TEXTS["page.html"]))
    for name in SCRIPTS:
        names |= set(re.findall(r'from "\./([^"]+)"', TEXTS[name]))
    assert names == TEXTS.keys() - {"page.html"}


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


WRONG_TEXTS = (b'"a"', b"[3]", b"[null]", b"[%b]" % b",".join([b'"a"'] * 201))
TAGS = {"p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br", "pre"}
TAGS |= {"em", "strong", "s", "a", "code", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "pre": {"language"}, "th": {"align"}, "td": {"align"}}


def nodes(of: list[Any], deep: int = 0) -> Iterator[Any]:
    assert deep < 200
    for node in of:
        yield node
        if not isinstance(node, str):
            yield from nodes(node[2], deep + 1)


def text_of(of: list[Any]) -> str:
    return "".join(node for node in nodes(of) if isinstance(node, str))


@pytest.mark.parametrize(("text", "expected"), [
    ("a *b* **c** ~~d~~ `e`", ["p", "em", "strong", "s", "code"]),
    ("- a\n- b", ["ul", "li", "li"]), ("3. a\n\n   b", ["ol", "li", "p", "p"]),
    ("> a\n\n---", ["blockquote", "p", "hr"]), ("a  \nb", ["p", "br"]), ("    code\n", ["pre"]),
    ("|a|\n|-|\n|b|", ["table", "thead", "tr", "th", "tbody", "tr", "td"]),
    ("[a](http://x) <mailto:a@b.c>", ["p", "a", "a"]),
    ("![a](http://x)", ["p", "a"]), ("![a](data:image/png;base64,AA)", ["p"]), ("<b>a</b>", ["p"]),
    ("<div>\n\na\n\n</div>", ["p", "p", "p"]),
])  # fmt: skip
def test_elements(text: str, expected: list[str]) -> None:
    assert [node[0] for node in nodes(tree(text)) if not isinstance(node, str)] == expected


@pytest.mark.parametrize("formula", [
    r"\(a^2\)", r"\(a_1 * b_1 * [x](y)\)", r"\[\frac{a}{b} \\ c\]",
    "\\[\n- a\n= b \\\\\n1. c\n\\]", "$$\n# a\n> b\n$$", r"$$a_1 *b* \{c\}$$",
])  # fmt: skip
def test_item_9_a_formula_stays_as_it_is_written(formula: str) -> None:
    assert text_of(tree(formula)) == formula
    assert formula in text_of(tree(f"So:\n{formula}\n\n*then*"))
    assert [node[0] for node in nodes(tree(formula)) if not isinstance(node, str)] == ["p"]


@pytest.mark.parametrize(("text", "expected"), [
    (r"`\(a\)`", r"\(a\)"),
    (r"\*a\* costs $$ or $$", r"*a* costs $$ or $$"),
    (r"\(a", "(a"),
    ("\\[a\n\n- b\\]", "[ab]"),
])  # fmt: skip
def test_what_is_no_formula_is_markdown(text: str, expected: str) -> None:
    assert text_of(tree(text)) == expected


@pytest.mark.parametrize(("text", "levels"), [
    ("# a\n## b\n# c", ["h3", "h4", "h3"]),
    ("### a\n##### b\n# c\n#### d", ["h3", "h4", "h3", "h4"]),
    ("# a\n## b\n### c\n#### d\n##### e\n###### f", ["h3", "h4", "h5", "h6", "h6", "h6"]),
])  # fmt: skip
def test_headings_leave_no_level_out(text: str, levels: list[str]) -> None:
    assert [node[0] for node in tree(text)] == levels


def test_a_language_is_a_word() -> None:
    assert tree("```python x=1\na\n```") == [["pre", {"language": "python"}, ["a\n"]]]
    assert tree('```"><b>\na\n```') == [["pre", {}, ["a\n"]]]


def test_columns_are_aligned() -> None:
    [table] = tree("|a|b|c|\n|:-|:-:|-:|\n|1|2|3|")
    cells = [node[1] for node in nodes([table]) if not isinstance(node, str) and node[0] == "td"]
    assert cells == [{}, {"align": "center"}, {"align": "right"}]


@pytest.mark.parametrize(("address", "is_allowed"), [
    ("https://x.example/a?b#c", True), ("HTTP://x", True), ("mailto:a@b.c", True),
    ("javascript:alert(1)", False), ("\x01javascript:alert(1)", False),
    ("java\nscript:alert(1)", False), ("data:text/html,x", False), ("file:///etc/passwd", False),
    ("//x.example", False), ("/a", False), ("#a", False), ("", False), ("http://[", False),
    (None, False), (3, False),
])  # fmt: skip
def test_addresses(address: Any, is_allowed: bool) -> None:
    assert (web_address(address) == address) is is_allowed or not is_allowed
    assert (web_address(address) is not None) is is_allowed


@given(st.text(alphabet=st.sampled_from("*_`~#>-+.|:[]()!<>/\\&;\n 1ahttp\"'={}\t\0\u202e")))
def test_any_text_is_a_tree_of_what_is_known(text: str) -> None:
    for node in nodes(tree(text)):
        if isinstance(node, str):
            continue
        tag, attributes, _ = node
        assert tag in TAGS
        assert attributes.keys() <= ATTRIBUTES.get(tag, set())
        assert web_address(attributes.get("href", "https://x")) is not None


@pytest.mark.parametrize("text", [
    *(sign * 10_000 for sign in ("*a ", "> ", "- ", "[", "![", "``", "<<")),
    "*a" * 10_000 + "a*" * 10_000,
    "|" * 10_000 + "\n" + "|-" * 10_000,
], ids=range(9))  # fmt: skip
def test_hostile_markdown_is_rendered_quickly(text: str) -> None:
    list(nodes(tree(text)))  # or else the time limit of tests ends it


def test_what_is_too_long_stays_as_it_is() -> None:
    text = "*a*" * MAX_LETTERS
    assert trees([text]) == [[["pre", {}, [text]]]]


def test_what_is_too_long_together_stays_as_it_is() -> None:
    text = "a" * (MAX_LETTERS // 2)
    assert [nodes_of_text[0][0] for nodes_of_text in trees([text] * 4)] == ["p", "p", "pre", "pre"]
    assert trees(["*a*", "b" * MAX_LETTERS, "c"])[2] == [["p", {}, ["c"]]]


@pytest.mark.part
def test_several_texts_over_http(url: str) -> None:
    reply = requests.post(f"{url}/page/markdown", json={"texts": ["*a*", ""]}, timeout=30)
    assert reply.json() == {"trees": [[["p", {}, [["em", {}, ["a"]]]]], []]}


@pytest.mark.part
def test_what_is_no_list_of_texts(url: str) -> None:
    for body in (b"", b"3", b"[]", b"{}", *(b'{"texts":%b}' % each for each in WRONG_TEXTS)):
        reply = requests.post(f"{url}/page/markdown", data=body, timeout=30)
        assert reply.status_code == 400, body
        assert reply.json()["error"]["path"].startswith("$")
    not_json = requests.post(f"{url}/page/markdown", data=b"\xff{", timeout=30)
    assert not_json.status_code == 400
