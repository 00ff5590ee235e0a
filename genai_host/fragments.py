"""Fragments: texts that are put before what is asked, as part of it. What is sent along
beside it, as pictures and documents are, is an attachment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from genai_host.attachments import PIPED, each_once, fetched, is_address, read_file, shown
from genai_host.errors import ConfigurationError

MOST_BYTES = 5 * 1024 * 1024
_TEXTS = {"json", "xml", "yaml", "x-yaml", "toml", "javascript", "sql", "x-sh", "x-ndjson"}
_SUFFIXES = ("+json", "+xml", "+yaml")  # RFC 6838, Structured Syntax Name Suffixes


def with_fragments(fragments: Iterable[str], asked: str) -> str:
    """What is asked with fragments before it, as they come from `fragment`."""
    return "\n\n".join(filter(None, [*fragments, asked]))


def read_fragments(sources: Iterable[str], piped: Callable[[], str] | None = None) -> list[str]:
    """The fragments of files and addresses, each read once and given once.

    piped   gives what `-` stands for; without it, that is a file as any
    """
    found: dict[str, None] = {}
    for source in each_once(sources):
        text = piped().rstrip("\n") if piped and source == PIPED else fragment(source)
        found[text] = None
    return [text for text in found if text]


def fragment(source: str) -> str:
    """The text of a file, or of an http(s) address, which is fetched now. Its first line
    says where it is from.

    Raises `ConfigurationError` if there is no such file, for what is no text, and for
    more than 5 MiB; `Unavailable` if an address cannot be read.
    """
    if is_address(source):
        data, media_type = fetched(source, MOST_BYTES)
        return _named(_decoded(data, media_type, shown(source)), shown(source))
    # where a folder is says more of the user than the model needs to know
    name = os.path.basename(source) if os.path.isabs(os.path.expanduser(source)) else source
    return _named(_decoded(read_file(source, MOST_BYTES), "", source), name)


def _named(text: str, name: str) -> str:
    return f"{name}:\n\n{text}".rstrip("\n")


def _decoded(data: bytes, media_type: str, source: str) -> str:
    kind, charset = _said(media_type)
    main, _, sub = kind.partition("/")
    if kind and main != "text" and sub not in _TEXTS and not sub.endswith(_SUFFIXES):
        raise _no_text(source, f" but {kind}")
    try:
        text = data.decode(charset or "utf-8-sig")
    except (ValueError, LookupError) as error:  # it may be no charset at all
        raise _no_text(source, f" in {charset[:40] or 'utf-8'}") from error
    if "\0" in text:
        raise _no_text(source, "")
    return text.replace("\r\n", "\n")


def _said(media_type: str) -> tuple[str, str]:
    """Type and charset of a Content-Type (RFC 9110, section 8.3)."""
    from email.message import Message

    if not media_type:
        return "", ""
    message = Message()
    message["Content-Type"] = media_type.replace("\n", " ").replace("\r", " ")
    return message.get_content_type(), message.get_content_charset() or ""


def _no_text(source: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{source} is no text{what}", file=source, hint=f"send it along: --attach {source}"
    )
