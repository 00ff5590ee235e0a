"""Errors in the replies of services, in any form.

A dialect knows the error object of its format. Servers, gateways and proxies of the same format
reply with other forms: a list, a text, the `detail` of a web framework, an HTML page.
`explain_reply` converts all of them to the object that the dialect knows.

Replies are untrusted: messages are truncated, and unprintable characters are removed.
`with_server_setting` adds the option of a self-hosted server to an error.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from genai_host.api.json_text import read_json
from genai_host.api.provider_requests import ProviderReply
from genai_host.errors import (
    ContextOverflow,
    GenaiError,
    MalformedReply,
    ProviderError,
    error_of_status,
)

_MAX_MESSAGE = 1000
_MAX_WAIT = 1e9  # seconds; replies of the server repeat the number
_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_MAX_TEXT = 20_000  # bytes of a body that is not JSON
_DEPTH = 5  # objects within objects
_MAX_ITEMS = 10  # of a list
_MESSAGES = (
    "title", "error", "message", "detail", "errors", "msg", "error_msg",
    "error_description", "error_message", "errormessage", "metadata", "raw",
    "base_resp", "status_msg",
)  # fmt: skip
"""Fields with error messages, in lower case."""
_CONTAINERS = ("error", "detail", "errors")
_TITLE = re.compile(r"<(title|h1)\b[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_CHARSET = re.compile(r"charset=\"?([\w-]+)", re.ASCII | re.IGNORECASE)

ErrorIn = Callable[[Mapping[str, Any], int | None], GenaiError | None]
"""Finds the error in an object; None if there is none. It also receives the HTTP status, or None
for a reply with status 200."""


def explain_reply(reply: ProviderReply, error_in: ErrorIn) -> GenaiError | None:
    """The error of a reply of status 400 or more.

    Args:
        reply: The reply.
        error_in: Receives an object with the field `error`; if the reply has a message in any form,
            that is an object with the field `message`.

    Returns:
        The error; None if the reply has no description of it.
    """
    try:
        data = _as_error(read_json(reply.body.removeprefix(_MARK)))
    except ValueError:
        data = _as_error(_event_in(reply.body))
        if data is None:
            return _explain_text(reply, error_in)
    return error_in(data, reply.status) if data else None


def raise_error_in(value: Any, error_in: ErrorIn, answer: Collection[str] = ()) -> None:
    """Raise the error in a reply with status 200, or in an event of a stream.

    Args:
        value: JSON value.
        error_in: As for `explain_reply`.
        answer: Fields of an answer. An object with none of them is an error if it has a message, in
            whatever form; empty if only the field `error` and the type `error` count.
    """
    is_error = False
    if isinstance(value, dict):
        error = value.get("error")
        is_error = any(error.values()) if isinstance(error, dict) else bool(error)
        is_error = is_error or "error" in (value.get("object"), value.get("type"))
        if not is_error and (not answer or _has_any(value, answer)):
            return
    elif not isinstance(value, list):
        return
    data = _as_error(value) or ({"error": value} if is_error else {})
    found = error_in(data, None)
    if found is not None:
        raise found


def _has_any(value: Mapping[str, Any], names: Collection[str]) -> bool:
    for name in names:  # noqa: SIM110 - a generator takes twice the time, for each event
        if value.get(name) is not None:
            return True
    return False


def error_of_reply(reply: ProviderReply) -> ProviderError:
    """The error of a reply of status 400 or more in an unknown format."""
    found = explain_reply(reply, plain_error_in)
    if isinstance(found, ProviderError):
        return found
    return error_of_status(reply.status, f"the service answered with status {reply.status}")


def explain_unreadable(reply: ProviderReply) -> MalformedReply | None:
    """The error of a reply with status 200 that is an HTML page, a text or empty, instead of JSON.
    None for other replies."""
    start = reply.body[:_MAX_TEXT].removeprefix(_MARK).lstrip()
    if start.startswith((b"{", b"[")) or (start and _is_json(reply.body)):
        return None
    text, is_page = _text_of(reply)
    if start and not is_page and not text:
        return None  # bytes of a binary format
    what = "a page of HTML, not JSON" if is_page else "a text, not JSON" if start else "empty"
    detail = f": {text}" if text else ""
    return MalformedReply(f"the reply is {what}{detail}", hint=_OTHER_SERVICE)


def service_error(
    status: int, message: str, words: str = "", *, retry_after: float | None = None
) -> ProviderError:
    """The error of a status and a message; many services report an exceeded context window only in
    words.

    Args:
        status: HTTP status.
        message: Message for the user; see `one_line`.
        words: Further text of the error, such as its code and type.
        retry_after: Seconds to wait, as requested by the service.
    """
    if status in _OVERFLOW_STATUSES and _overflow().search(f"{words[:_MAX_MESSAGE]} {message}"):
        return ContextOverflow(message, status=status, hint=_SEND_LESS)
    return error_of_status(status, message, retry_after=retry_after)


def error_object(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The field `error` of an object in a reply; None if it is missing or empty. A value of another
    type is the message of the object."""
    error = data.get("error")
    if not error:
        return None
    return error if isinstance(error, dict) else {"message": message_in(error)}


def message_in(error: Any) -> str:
    """The message of an error, which can be a text, an object or a list; safe to display."""
    return one_line(_error_text(error)) or one_line(repr(error))


def one_line(text: str) -> str:
    """A text of a service, in one line that is safe to display."""
    text = "".join(
        each if each.isprintable() else " " if each.isspace() else ""
        for each in text[: 2 * _MAX_MESSAGE]
    )
    return " ".join(text.split())[:_MAX_MESSAGE]


_NO_SUCH_PATH = frozenset({404, 405})
_OTHER_SERVICE = (
    "check base_url: it must be the address of the API, for example https://HOST/v1; "
    "a proxy or a sign-in page may have answered"
)
_SEND_LESS = "send fewer or shorter messages, or lower max_tokens"

_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
"""Statuses that can mean an exceeded context window; 429, for example, means tokens per minute."""
_OVERFLOWS = (
    # codes and types
    r"context_length_exceeded",
    r"context_?window_?exceeded",
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
    r"input is too long",
    r"too long to fit into the model",
    r"exceeds maximum context [\d,]+",
    r"exceeds session_len",
    r"should not exceed max_num_tokens",
    r"increase the physical batch size",
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
"""Messages of services about an exceeded context window."""


@cache
def _overflow() -> re.Pattern[str]:
    """Compiled on first use, since that takes 10 ms."""
    return re.compile("|".join(_OVERFLOWS), re.IGNORECASE)


def plain_error_in(data: Mapping[str, Any], status: int | None) -> ProviderError | None:
    """The error in an object of an unknown format; see `ErrorIn`."""
    error = data.get("error")
    return service_error(status or 500, message_in(error)) if error else None


def _as_error(data: Any) -> Mapping[str, Any] | None:
    """A reply as an object with the field `error`; None if it contains no error."""
    if isinstance(data, list):
        whole = next((each for each in data if isinstance(each, dict) and each.get("error")), None)
        data = whole or {"errors": data}
    elif isinstance(data, str):
        data = {"message": data}
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    message = one_line(_error_text(data))
    if not message:
        return data if error else None
    return {**data, "error": {**(error if isinstance(error, dict) else data), "message": message}}


def _error_text(value: Any, depth: int = _DEPTH) -> str:
    """The text of an error, from the fields that servers use."""
    if isinstance(value, str):
        text = value[:_MAX_TEXT]
        if depth and text.startswith(("{", "[")):  # the error of another service, unchanged
            with contextlib.suppress(ValueError):
                return _error_text(read_json(text), depth - 1) or text
        return text
    if depth == 0:
        return ""
    if isinstance(value, list):
        return "; ".join(
            filter(None, (_error_text(each, depth - 1) for each in value[:_MAX_ITEMS]))
        )
    if not isinstance(value, dict):
        return ""
    by_name = {name.lower(): each for name, each in value.items()}
    found: list[str] = []
    for name in _MESSAGES:
        message = _error_text(by_name.get(name), depth - 1)
        if not message and name in _CONTAINERS:
            message = _error_text_by_field(by_name.get(name), depth - 1)
        if message and not any(message in each for each in found):
            found = [each for each in found if each not in message]
            found.append(message)
    place = by_name.get("loc")
    if found and isinstance(place, list):
        found.insert(0, ".".join(str(each) for each in place[:_MAX_ITEMS]))
    return ": ".join(found)


def _error_text_by_field(value: Any, depth: int) -> str:
    """Errors by field of a request: `{"messages": ["is required"]}`."""
    if not isinstance(value, dict):
        return ""
    fields = list(value.items())[:_MAX_ITEMS]
    messages = ((name, _error_text(each, depth - 1)) for name, each in fields)
    return "; ".join(f"{name}: {text}" for name, text in messages if text)


def _event_in(body: bytes) -> Any:
    """The first event of a body meant as a stream; None if there is none."""
    for line in body[:_MAX_TEXT].splitlines():
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
    message = f"the service answered with status {reply.status}: {text}"
    error = error_in({"error": {"message": message}}, reply.status)
    is_elsewhere = reply.status in _NO_SUCH_PATH or (is_page and reply.status < 500)
    if error is not None and is_elsewhere:
        error.hint = _OTHER_SERVICE
    return error


def _text_of(reply: ProviderReply) -> tuple[str, bool]:
    """The text of a body that is not JSON, and whether it is an HTML page, of which it is the
    title."""
    kind = next((v for name, v in reply.headers.items() if name.lower() == "content-type"), "")
    charset = _CHARSET.search(kind)
    raw = reply.body[:_MAX_TEXT]
    try:
        text = raw.decode(charset[1] if charset else "utf-8", "replace")
    except (LookupError, UnicodeError):
        text = raw.decode("utf-8", "replace")
    is_page = text.lstrip("\ufeff \t\r\n").startswith("<")
    if is_page:
        from html import unescape  # takes 4 ms to import

        title = _TITLE.search(text)
        text = unescape(title[2] if title and title[2].strip() else _TAG.sub(" ", text))
    elif "\0" in text or 10 * text.count("\ufffd") > len(text):
        return "", False  # binary data
    line = one_line(text)
    return (line if any(map(str.isalnum, line)) else ""), is_page


def _is_json(body: bytes) -> bool:
    try:
        read_json(body)
    except ValueError:
        return False
    return True


_OF_WINDOW: Mapping[str, str] = {
    "maximum context length is": "--max-model-len",
    "context length is only": "--max-model-len",
    "maximum model length": "--max-model-len",
    "fit into the model": "--max-model-len",
    "physical batch size": "--ubatch-size",
    "session_len": "--session-len",
    "available context size": "--ctx-size",
    "context size has been exceeded": "--ctx-size",
    "model's context length": "--context-length",
    "max_new_tokens": "--max-total-tokens",
    "max_seq_len": "max_seq_len",
}
"""Messages about an exceeded context window, with the option of the server that sets it."""


def with_server_setting(error: GenaiError) -> GenaiError:
    """The error with the option of the server in its hint, if the message identifies the server."""
    if isinstance(error, ContextOverflow):
        message = error.message.lower()
        option = next((option for phrase, option in _OF_WINDOW.items() if phrase in message), "")
        if option:
            error.hint = f"{error.hint}; on your own server, increase {option}"
    return error


def retry_after_of(reply: ProviderReply, now: datetime) -> float | None:
    """Seconds to wait as requested by the service: a number or a date (RFC 9110, 10.2.3), or
    `retry-after-ms`. None if there is none.

    Args:
        reply: The reply.
        now: The current time, with a time zone.
    """
    headers = {name.lower(): value for name, value in reply.headers.items()}
    seconds = _number(headers.get("retry-after-ms", ""), 0.001)
    if seconds is None:
        value = headers.get("retry-after", "")
        seconds = _number(value.partition(",")[0])  # the first, if it was given twice
        if seconds is None:
            from email.utils import parsedate_to_datetime

            try:
                seconds = (parsedate_to_datetime(value) - now).total_seconds()
            except (ValueError, TypeError):  # not a date, or one without an offset
                return None
    return min(max(seconds, 0.0), _MAX_WAIT)


def _number(text: str, unit: float = 1.0) -> float | None:
    try:
        number = float(text) * unit
    except ValueError:
        return None
    return number if math.isfinite(number) else None
