"""The parts of a message: texts, pictures, documents.

Source: OpenAI API reference, "ChatCompletionRequestUserMessageContentPart".
"""

from __future__ import annotations

import re

from genai_host.api import File, Image, Part, Text
from genai_host.api.given import Given, bytes_of
from genai_host.errors import InvalidData

_DATA = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,")


def parts_in(given: Given, name: str = "content") -> list[Part]:
    """What a message holds: a text, or a list of parts. Raises `InvalidData`."""
    content = given.raw(name)
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_part(each) for each in given.objects(name)]


def texts_in(given: Given, name: str = "content") -> list[Text]:
    """The same where there may be texts alone."""
    found = []
    for part in parts_in(given, name):
        if not isinstance(part, Text):
            raise InvalidData("there may be texts alone here", path=given.at(name))
        found.append(part)
    return found


def _part(given: Given) -> Part:
    kind = given.text("type")
    if kind == "text":
        return Text(given.text("text"))
    if kind == "refusal":
        return Text(given.text("refusal"))
    if kind == "image_url":
        inner = given.object("image_url")
        if inner is None:
            raise InvalidData("there is no image_url", path=given.path)
        return image_at(inner.text("url"), inner.at("url"))
    if kind == "file":
        inner = given.object("file")
        if inner is None:
            raise InvalidData("there is no file", path=given.path)
        inner.refuse("file_id")
        return file_of(inner.text("file_data"), inner.text("filename"), inner.at("file_data"))
    raise InvalidData(f"{kind or 'this'} is no kind of part that is taken here", path=given.path)


def image_at(url: str, path: str) -> Image:
    """A picture by its address, or the data in it. Raises `InvalidData`."""
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    kind, data = _data(url, path)
    if not kind.startswith("image/"):
        raise InvalidData("this is no picture", path=path)
    return Image(data, kind)


def file_of(data: str, name: str, path: str) -> File:
    """A document, from its data as an address or in base64 alone. Raises `InvalidData`."""
    kind, content = _data(data, path) if data.startswith("data:") else ("", bytes_of(data, path))
    if not content:
        raise InvalidData("there is nothing in it", path=path)
    return File(content, kind or "application/pdf", name)


def _data(url: str, path: str) -> tuple[str, bytes]:
    found = _DATA.match(url)
    if found is None:
        raise InvalidData("this is neither an http(s) address nor data in base64", path=path)
    content = bytes_of(url[found.end() :], path)
    if not content:
        raise InvalidData("there is nothing in it", path=path)
    return found[1].lower(), content
