"""JSON-RPC 2.0 as MCP uses it: messages, lines and the versions of the protocol.

Input is untrusted and validated: an id is an integer or a string, a result can be any value, an
error has a number and a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from genai_host.api import ValueBudget, write_json
from genai_host.errors import ValidationError
from genai_mcp.text import one_line

MODERN = "2026-07-28"
"""The version of the protocol without sessions, in which each request is self-contained."""

HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions with sessions, newest first."""

CANCELLED = "notifications/cancelled"
CHANGED = "notifications/tools/list_changed"
LISTEN = "subscriptions/listen"
HEARD = "notifications/subscriptions/acknowledged"

OWN = "io.modelcontextprotocol/"
"""Prefix of the protocol's own names in `_meta`."""

LARGEST = 32 << 20
"""Maximum number of bytes of a message: enough for 20 MiB of images as base64."""


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id: TypeAlias = "int | str"


class RpcError(Exception):
    """The peer answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class WrongMessage(ValidationError):
    """A received message is invalid.

    Args:
        rpc_code: JSON-RPC error code for the reply.

    Attributes:
        id: Id of the invalid request; None if it is unreadable.
    """

    def __init__(self, message: str, rpc_code: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.id: Id | None = None


@frozen
class RpcAnswer:
    """Answer to a request; `id` is None if the peer could not read the id."""

    id: Id | None
    result: Any = None
    error: RpcError | None = None

    def value(self) -> Any:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result


@frozen
class RpcRequest:
    id: Id
    method: str
    params: Mapping[str, Any]


@frozen
class Notification:
    method: str
    params: Mapping[str, Any]


Message: TypeAlias = "RpcAnswer | RpcRequest | Notification"


def read_messages(data: bytes) -> list[Message]:
    """Parse the message in a JSON text, or the messages of a batch, which versions of MCP before
    2025-06-18 allow. Raises `WrongMessage` if one is invalid.
    """
    try:
        value = ValueBudget().read(data)
    except (ValueError, ValidationError) as error:
        raise WrongMessage(f"invalid JSON: {one_line(str(error))}", PARSE_ERROR) from error
    return [_message(each) for each in (value if isinstance(value, list) else [value])]


def is_batch(data: bytes) -> bool:
    """Whether a JSON text is a list."""
    return data.lstrip(b" \t\r\n")[:1] == b"["


def _message(value: Any) -> Message:
    try:
        return _checked(value)
    except WrongMessage as error:
        number = value.get("id") if isinstance(value, dict) else None
        error.id = number if type(number) in (int, str) else None
        raise


def _checked(value: Any) -> Message:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise WrongMessage("not a JSON-RPC 2.0 message")
    method = value.get("method")
    if method is None:
        return _answer(value)
    params = value.get("params")
    if not isinstance(method, str) or not isinstance(params, (dict, type(None))):
        raise WrongMessage("invalid method or params")
    if "id" in value:
        number = _id(value["id"])
        if number is None:
            raise WrongMessage("the id of a request must not be null")
        return RpcRequest(number, method, params or {})
    return Notification(method, params or {})


def _answer(value: Mapping[str, Any]) -> RpcAnswer:
    number = _id(value.get("id"))
    if "error" not in value:
        if "result" not in value:
            raise WrongMessage("neither a request nor a response")
        return RpcAnswer(number, value["result"])
    error = value["error"]
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        raise WrongMessage("the error has no code")
    message = one_line(str(error.get("message") or "")) or "no message"
    return RpcAnswer(number, error=RpcError(error["code"], message, error.get("data")))


def _id(value: Any) -> Id | None:
    """Validate an id; raises `WrongMessage`. Booleans are rejected although True equals 1."""
    if value is None or type(value) in (int, str):
        result: Id | None = value
        return result
    raise WrongMessage("the id must be an integer or a string")


def write_request(number: Id, method: str, params: Mapping[str, Any]) -> bytes:
    return write_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def write_notification(method: str, params: Mapping[str, Any]) -> bytes:
    return write_json({"jsonrpc": "2.0", "method": method, "params": params})


def write_answer(request: RpcRequest, served: Sequence[str] = ("ping",)) -> bytes:
    """Return the answer to a request of a server. Only pings are supported."""
    head = {"jsonrpc": "2.0", "id": request.id}
    if request.method in served:
        return write_json({**head, "result": {}})
    error = {"code": METHOD_NOT_FOUND, "message": "this client only supports ping"}
    return write_json({**head, "error": error})
