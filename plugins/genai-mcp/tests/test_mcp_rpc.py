"""What a stranger sends: whatever the bytes are, they are messages or they are refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from genai_mcp import rpc
from hypothesis import given
from hypothesis import strategies as st

from genai_host.errors import ValidationError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": VALUES,
        "method": st.text() | VALUES,
        "params": VALUES,
        "result": VALUES,
        "error": st.fixed_dictionaries(
            {}, optional={"code": VALUES, "message": VALUES, "data": VALUES}
        )
        | VALUES,
    },
)


@given(MESSAGES | VALUES)
def test_any_json_is_messages_or_is_refused(value: Any) -> None:
    try:
        messages = rpc.read_messages(json.dumps(value).encode())
    except ValidationError:
        return
    for message in messages:
        if isinstance(message, rpc.RpcAnswer):
            assert message.id is None or type(message.id) in (int, str)
            assert message.error is None or type(message.error.code) is int
        else:
            assert isinstance(message.method, str)
            assert isinstance(message.params, dict)


@given(st.binary())
def test_any_bytes_are_messages_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(ValidationError):
        assert isinstance(rpc.read_messages(data), list)


@given(st.integers(), st.text(), st.dictionaries(st.text(), SCALARS))
def test_what_is_written_is_read(number: int, method: str, params: dict[str, Any]) -> None:
    [request] = rpc.read_messages(rpc.write_request(number, method, params))
    assert request == rpc.RpcRequest(number, method, params)
    [notification] = rpc.read_messages(rpc.write_notification(method, params))
    assert notification == rpc.Notification(method, params)
    assert b"\n" not in rpc.write_request(number, method, params)


@pytest.mark.parametrize(
    "wrong",
    [
        '{"jsonrpc": "2.0", "id": true, "result": {}}',
        '{"jsonrpc": "2.0", "id": 1.0, "result": {}}',
        '{"jsonrpc": "2.0", "id": null, "method": "ping"}',
        '{"jsonrpc": "1.0", "id": 1, "result": {}}',
        '{"jsonrpc": "2.0", "id": 1, "error": {"code": "1"}}',
        '{"jsonrpc": "2.0", "id": 1}',
        '{"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}',
        "[" * 100_000,
        "INFO starting",
    ],
    ids=lambda text: text[:50],
)
def test_what_is_no_message_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        rpc.read_messages(wrong.encode())


def test_an_error_is_raised() -> None:
    data = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "a\\u001b[1mb\\nc"}}'
    [answer] = rpc.read_messages(data)
    assert isinstance(answer, rpc.RpcAnswer)
    with pytest.raises(rpc.RpcError) as caught:
        answer.value()
    assert (caught.value.code, caught.value.message) == (-1, "a [1mb c")


def test_a_server_is_served_pings_and_nothing_else() -> None:
    [pong] = rpc.read_messages(rpc.write_answer(rpc.RpcRequest("a", "ping", {})))
    assert pong == rpc.RpcAnswer("a", {})
    [refusal] = rpc.read_messages(rpc.write_answer(rpc.RpcRequest(2, "sampling/createMessage", {})))
    assert isinstance(refusal, rpc.RpcAnswer)
    assert refusal.error is not None
    assert refusal.error.code == rpc.METHOD_NOT_FOUND
