"""Pictures and documents in the messages of a request.

Source: Claude API reference, "ImageBlockParam", "DocumentBlockParam".
"""

from __future__ import annotations

from genai_host.api import File, Image
from genai_host.api.given import Given
from genai_host.errors import InvalidData

_PDF, _TEXT = "application/pdf", "text/plain"


def image(block: Given) -> Image:
    """Raises `InvalidData`."""
    changes = block.object("transformations")
    if changes is not None:
        changes.choice("oversized_image", ("downsize",))
        changes.nothing_else()
    source = _source(block)
    kind = source.text("type")
    if kind == "url":
        found = Image(url=_address(source))
    elif kind == "base64":
        media_type = source.text("media_type")
        if not media_type.startswith("image/"):
            raise InvalidData("this is no picture", path=source.at("media_type"))
        found = Image(_some(source, source.data("data")), media_type)
    else:
        raise _not_taken(source)
    source.nothing_else()
    block.nothing_else()
    return found


def document(block: Given) -> File:
    """A PDF, or a text. Raises `InvalidData`."""
    citations = block.object("citations")
    if citations is not None:
        citations.refuse("enabled")
    block.refuse("context")
    title = block.text("title")
    source = _source(block)
    kind = source.text("type")
    if kind == "url":
        found = File(url=_address(source), media_type=_PDF, name=title)
    elif kind == "base64":
        source.choice("media_type", (_PDF,))
        found = File(_some(source, source.data("data")), _PDF, title)
    elif kind == "text":
        source.choice("media_type", (_TEXT,))
        found = _of_text(source, source.text("data"), title)
    elif kind == "content":
        found = _of_text(source, _joined(source), title)
    else:
        raise _not_taken(source)
    source.nothing_else()
    block.nothing_else()
    return found


def _source(block: Given) -> Given:
    source = block.object("source")
    if source is None:
        raise InvalidData("it is needed", path=block.at("source"))
    return source


def _of_text(source: Given, text: str, title: str) -> File:
    # a half of a surrogate pair, which JSON may have, is no text in UTF-8
    return File(_some(source, text.encode(errors="replace")), _TEXT, title)


def _joined(source: Given) -> str:
    """Blocks of text are there to be cited one by one, which nobody does here."""
    content = source.raw("content")
    if isinstance(content, str):
        return content
    texts = []
    for each in source.objects("content"):
        if each.text("type") != "text":
            raise InvalidData("a document of blocks has texts alone here", path=each.path)
        texts.append(each.text("text"))
    return "\n".join(texts)


def _some(source: Given, data: bytes) -> bytes:
    if not data:
        raise InvalidData("there is nothing in it", path=source.path)
    return data


def _address(source: Given) -> str:
    url = source.text("url")
    if not url.startswith(("https://", "http://")):
        raise InvalidData("this is no http(s) address", path=source.at("url"))
    return url


def _not_taken(source: Given) -> InvalidData:
    kind = source.text("type")
    if kind == "file":
        return InvalidData(
            "there is no Files API here: send what is in the file", path=source.at("type")
        )
    return InvalidData(f"sources of type {kind or '(none)'} are not taken", path=source.at("type"))
