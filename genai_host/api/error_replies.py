"""Errors in the replies of services, whatever form they have.

A dialect knows the error object of its format. Servers, gateways and proxies that speak the format
answer with others: a list, a text, the `detail` of a web framework, a page of HTML. `explain_reply`
turns all of them into the object that the dialect knows.

Whatever a service says is untrusted: it is shortened, and characters that do not show are removed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from genai_host.api.calls import ProviderReply
from genai_host.api.json_text import read_json
from genai_host.errors import (
    ContextOverflow,
    GenaiError,
    MalformedReply,
    ProviderError,
    error_of_status,
)

_LONGEST_MESSAGE = 1000
_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_LARGEST_TEXT = 20_000  # bytes of a body that is not JSON
_DEPTH = 5  # objects within objects
_MOST_ITEMS = 10  # of a list
_MESSAGES = (
    "title", "error", "message", "detail", "errors", "msg",
    "error_description", "error_message", "errormessage", "metadata", "raw",
)  # fmt: skip
"""The fields, in lower case, in which servers put what is wrong."""
_CONTAINERS = ("error", "detail", "errors")
_TITLE = re.compile(r"<(title|h1)\b[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_CHARSET = re.compile(r"charset=\"?([\w-]+)", re.ASCII | re.IGNORECASE)

ErrorIn = Callable[[Mapping[str, Any], int | None], GenaiError | None]
"""Gives the error that an object tells of, None if it tells of none. It gets the status of
the reply as well, None if that was a success."""


def explain_reply(reply: ProviderReply, error_in: ErrorIn) -> GenaiError | None:
    """The error that a reply of status 400 or more tells of; None if it says nothing.

    Args:
        error_in: Gets an object with the field `error`, itself an object with the field `message`
            where a message was found in the reply, in whatever form.
    """
    try:
        data = _as_error(read_json(reply.body.removeprefix(_MARK)))
    except ValueError:
        data = _as_error(_event_in(reply.body))
        if data is None:
            return _explain_text(reply, error_in)
    return error_in(data, reply.status) if data else None


def error_of_reply(reply: ProviderReply) -> ProviderError:
    """The error that a reply of status 400 or more means where its format is not known."""
    found = explain_reply(reply, _error_in)
    if isinstance(found, ProviderError):
        return found
    return error_of_status(reply.status, f"the service answered with status {reply.status}")


def explain_unreadable(reply: ProviderReply) -> MalformedReply | None:
    """The error of a reply with a status of success that is not JSON, but a page of HTML, a text,
    or empty: the service did not write it. None for any other reply."""
    start = reply.body[:_LARGEST_TEXT].removeprefix(_MARK).lstrip()
    if start.startswith((b"{", b"[")) or (start and _is_json(reply.body)):
        return None
    text, is_page = _text_of(reply)
    if start and not is_page and not text:
        return None  # bytes of a format that is none of text
    what = "a page of HTML, not JSON" if is_page else "a text, not JSON" if start else "empty"
    said = f": {text}" if text else ""
    return MalformedReply(f"the reply is {what}{said}", hint=_OTHER_SERVICE)


def service_error(
    status: int, message: str, words: str = "", *, retry_after: float | None = None
) -> ProviderError:
    """The error that a status means, and a message: many services tell of a prompt beyond the
    context window in words alone.

    Args:
        message: Fit to be shown, see `one_line`.
        words: Further words of the error, such as its code and its type.
    """
    if status in _OVERFLOW_STATUSES and _overflow().search(f"{words[:_LONGEST_MESSAGE]} {message}"):
        return ContextOverflow(message, status=status, hint=_SEND_LESS)
    return error_of_status(status, message, retry_after=retry_after)


def message_in(error: Any) -> str:
    """The message of an error, which may be a text, an object or a list; fit to be shown."""
    return one_line(_said_in(error) or str(error))


def one_line(text: str) -> str:
    """What a service says of an error, fit to be shown."""
    text = "".join(
        each if each.isprintable() else " " if each.isspace() else ""
        for each in text[: 2 * _LONGEST_MESSAGE]
    )
    return " ".join(text.split())[:_LONGEST_MESSAGE]


_NO_SUCH_PATH = frozenset({404, 405})
_OTHER_SERVICE = (
    "is base_url the address of the API, such as https://HOST/v1? A proxy or a sign-in page "
    "may have answered"
)
_SEND_LESS = "send fewer or shorter messages, or lower max_tokens"

_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
"""Others mean what they say: with status 429, for one, it is the tokens of a minute."""
_OVERFLOWS = (
    # codes and types
    r"context_length_exceeded",
    r"context_window_exceeded",
    r"exceed_context_size_error",
    r"model_max_prompt_tokens_exceeded",
    # of the window, in words
    r"maximum context length (is|of) [\d,]+",
    r"maximum (prompt|input) length is [\d,]+",
    r"context (length|window) (is )?(only )?exceeded",
    r"context size (has been )?exceeded",
    r"exceed(s|ed)?( [\w']+){0,4} context (length|size|window|limit)",
    r"(greater|longer) than( [\w']+){0,3} context (length|size|window)",
    r"longer than (the )?(maximum )?(model|sequence) length",
    r"context window exceeds limit",
    r"model maximum context length",
    r"larger context length",
    r"context length of only [\d,]+",
    r"context length is only [\d,]+",
    r"configured context size is [\d,]+",
    r"with [\d,]+ maximum context length",
    r"reached context length of [\d,]+",
    r"greater than max_seq_len",
    r"n_keep \([\d,]+\) ?>= ?n_ctx",
    # of the prompt
    r"prompt (is )?too long",
    r"prompt exceeds max(imum)? length",
    r"input is too long for requested model",
    r"input token count is [\d,]+ but",
    r"exceeds (the )?(model'?s )?max(imum)? (input|sequence|prompt) length",
    r"input tokens? (count )?(\([\d,]+\) )?exceed",
    r"exceeds the maximum number of tokens",
    r"exceeded model token limit",
    r"too many (input|prompt) tokens",
    r"too many tokens: ",
    r"prompt token count of [\d,]+ exceeds",
    r"tokens in request more than max tokens allowed",
    r"exceeds (the )?maximum allowed input length",
    r"range of input length should be",
    r"reduce the length of (the messages|the input|either one|your prompt)",
    r"`inputs` (must have less than|tokens \+ `max_new_tokens` must be)",
)
"""What messages say of a prompt beyond the window, each server in its own words."""


@cache
def _overflow() -> re.Pattern[str]:
    """Compiled for the first error, since that takes 10 ms."""
    return re.compile("|".join(_OVERFLOWS), re.IGNORECASE)


def _error_in(data: Mapping[str, Any], status: int | None) -> ProviderError | None:
    error = data.get("error")
    return service_error(status or 500, message_in(error)) if error else None


def _as_error(data: Any) -> Mapping[str, Any] | None:
    """A reply as an object with the field `error`; None if it tells of no error."""
    if isinstance(data, list):
        whole = next((each for each in data if isinstance(each, dict) and each.get("error")), None)
        data = whole or {"errors": data}
    elif isinstance(data, str):
        data = {"message": data}
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    said = one_line(_said_in(data))
    if not said:
        return data if error else None
    return {**data, "error": {**(error if isinstance(error, dict) else data), "message": said}}


def _said_in(value: Any, depth: int = _DEPTH) -> str:
    """What an error says, in the fields that servers have for it."""
    if isinstance(value, str):
        text = value[:_LARGEST_TEXT]
        if depth and text.startswith(("{", "[")):  # the error of another service, as it came
            with contextlib.suppress(ValueError):
                return _said_in(read_json(text), depth - 1) or text
        return text
    if depth == 0:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_said_in(each, depth - 1) for each in value[:_MOST_ITEMS])))
    if not isinstance(value, dict):
        return ""
    by_name = {name.lower(): each for name, each in value.items()}
    found: list[str] = []
    for name in _MESSAGES:
        said = _said_in(by_name.get(name), depth - 1)
        if not said and name in _CONTAINERS:
            said = _said_by_field(by_name.get(name), depth - 1)
        if said and not any(said in each for each in found):
            found = [each for each in found if each not in said]
            found.append(said)
    place = by_name.get("loc")
    if found and isinstance(place, list):
        found.insert(0, ".".join(str(each) for each in place[:_MOST_ITEMS]))
    return ": ".join(found)


def _said_by_field(value: Any, depth: int) -> str:
    """What is wrong with each field of a request: `{"messages": ["is required"]}`."""
    if not isinstance(value, dict):
        return ""
    fields = list(value.items())[:_MOST_ITEMS]
    said = ((name, _said_in(each, depth - 1)) for name, each in fields)
    return "; ".join(f"{name}: {text}" for name, text in said if text)


def _event_in(body: bytes) -> Any:
    """The value of the first event in a body that was meant as a stream; None if there is none."""
    for line in body[:_LARGEST_TEXT].splitlines():
        if line.startswith(b"data:"):
            try:
                return read_json(line.removeprefix(b"data:"))
            except ValueError:
                return None
    return None


def _explain_text(reply: ProviderReply, error_in: ErrorIn) -> GenaiError | None:
    text, is_page = _text_of(reply)
    if not text:
        return None
    said = f"the service answered with status {reply.status}: {text}"
    error = error_in({"error": {"message": said}}, reply.status)
    is_elsewhere = reply.status in _NO_SUCH_PATH or (is_page and reply.status < 500)
    if error is not None and is_elsewhere:
        error.hint = _OTHER_SERVICE
    return error


def _text_of(reply: ProviderReply) -> tuple[str, bool]:
    """What a body that is not JSON says, empty if nothing; and whether it is a page of HTML, of
    which that is the title."""
    kind = next((v for name, v in reply.headers.items() if name.lower() == "content-type"), "")
    charset = _CHARSET.search(kind)
    raw = reply.body[:_LARGEST_TEXT]
    try:
        text = raw.decode(charset[1] if charset else "utf-8", "replace")
    except (LookupError, UnicodeError):
        text = raw.decode("utf-8", "replace")
    is_page = text.lstrip("\ufeff \t\r\n").startswith("<")
    if is_page:
        from html import unescape  # which takes 4 ms to import

        title = _TITLE.search(text)
        text = unescape(title[2] if title and title[2].strip() else _TAG.sub(" ", text))
    elif "\0" in text or 10 * text.count("\ufffd") > len(text):
        return "", False  # bytes of another kind
    said = one_line(text)
    return (said if any(map(str.isalnum, said)) else ""), is_page


def _is_json(body: bytes) -> bool:
    try:
        read_json(body)
    except ValueError:
        return False
    return True
