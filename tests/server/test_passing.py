"""Requests to a service of the same format: only model and usage are looked at."""

from __future__ import annotations

import json
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_openai
import pytest
import requests

from genai_host import Config, Host, RetryPolicy
from genai_host.api import Cancellation, Completion, RouteRequest, Usage, hookimpl
from genai_host.config import BudgetConfig, BudgetsConfig, InstanceConfig, ModelConfig, ServerConfig
from genai_host.serving import fields_to_pass
from genai_host_testing import FakeService, RouteServer
from genai_host_testing.fake_service import CUT, json_reply, reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

# spelled as no encoder would
CHAT = (
    b'{ "model":"gate/m", "messages":[ {"role":"user","content":"h\\u0069, JSON","seen" : 1.50} ],'
    b' "n":2, "logprobs":true, "response_format":{"type":"json_object"}, "tomorrow":{"a":[1e2]} }'
)
CHAT_REPLY = (
    b'{"id":"x", "choices":[{"index":0,"message":{"role":"assistant","content":"one"},'
    b'"finish_reason":"stop","logprobs":{"content":[]}},{"index":1,"message":{"role":"assistant",'
    b'"content":"two"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5},'
    b'"new" : 1.0, "system_fingerprint":null}'
)
MESSAGE = (
    b'{"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":'
    b'"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}],"tomorrow":1.0}],'
    b'"context_management":{"edits":[{"type":"clear_thinking_20251015"}]},'
    b'"tools":[{"type":"web_search_20250305","name":"web_search"}]}'
)
MESSAGE_REPLY = (
    b'{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"","signature"'
    b':"c2ln"},{"type":"text","text":"hello","new":1.0}],"stop_reason":"end_turn",'
    b'"usage":{"input_tokens":3,"output_tokens":5}}'
)
CONTENT = (
    b'{"contents":[{"role":"user","parts":[{"text":"hi","new":1.0}]}],"tools":[{"googleSearch":{}}],'
    b'"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{"includeThoughts":true}}}'
)
CONTENT_REPLY = (
    b'{"candidates":[{"content":{"role":"model","parts":[{"text":"hello","thoughtSignature":"c2"}]},'
    b'"finishReason":"STOP","groundingMetadata":{"x":1.0}}],'
    b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5}}'
)
REQUEST = (
    b'{ "model":"gate/m", "store":false, "input":[ {"type":"message","role":"user","id":"msg_1",'
    b'"content":"h\\u0069","seen" : 1.50}, {"type":"reasoning","id":"rs_1","summary":[],'
    b'"encrypted_content":"b3BlbmFp"} ], "tools":[{"type":"web_search"}], "tomorrow":{"a":[1e2]} }'
)
RESPONSE = (
    b'{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message",'
    b'"id":"msg_2","role":"assistant","status":"completed","content":[{"type":"output_text",'
    b'"text":"so","annotations":[{"type":"new"}]}]}],"new" : 1.0,'
    b'"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}'
)

HI = {"role": "user", "content": "hi"}

PASSING_USERS = ServerConfig(pass_through=True, users={"ann": {"env": "TOKEN"}})


class Observer:
    """Notes the results of calls."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    @hookimpl
    def genai_on_call_end(self, result: Any) -> None:
        self.results.append(result)


class Gate:
    """A host between a client and a service."""

    def __init__(self, host: Host, url: str, service: FakeService, observer: Observer) -> None:
        self.host = host
        self.service = service
        self.observer = observer
        self._url = url

    def post(self, path: str, body: Any, **headers: str) -> requests.Response:
        """Send bytes, or a value as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return requests.post(f"{self._url}{path}", data, headers=headers, timeout=30)

    def chat(self, body: Any) -> requests.Response:
        return self.post("/v1/chat/completions", body)

    @property
    def usage(self) -> list[Usage]:
        results = self.observer.results
        return [each.usage for each in results if isinstance(each, Completion)]

    def sent(self) -> dict[str, Any]:
        body: dict[str, Any] = self.service.requests[-1].json()
        return body


@pytest.fixture
def gate(
    request: pytest.FixtureRequest,
    make_host: MakeHost,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", "key")
    observer = Observer()
    options: dict[str, Any] = dict(getattr(request, "param", {}))
    betas = {"betas": options.pop("betas")} if "betas" in options else {}
    instances: list[tuple[str, str, dict[str, Any]]] = [
        ("gate", "openai-compatible", {"serves": ["openai-responses", "openai-chat"]}),
        ("chat", "openai-compatible", {}), ("openai", "openai", {}),
        ("anthropic", "anthropic", betas), ("gemini", "gemini", {}),
    ]  # fmt: skip
    providers = {
        name: InstanceConfig(kind, settings={"base_url": service.url, **settings})
        for name, kind, settings in instances
    }
    config = Config(providers=providers, **options)
    host = make_host(
        config=config, openai=genai_vendor_openai, anthropic=genai_vendor_anthropic,
        gemini=genai_vendor_gemini, observer=observer,
        patience=RetryPolicy(max_attempts=2, min_backoff=0.0),
    )  # fmt: skip
    with RouteServer(host) as server:
        yield Gate(host, server.url, service, observer)


PLAIN_TEXT = (
    b'{"model":"gate/m","messages":[{"role":"user","content":"hi","seen" : 1.50}],'
    b'"response_format":{"type":"text"}}'
)
BARE_VALUE = (
    b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":'
    b'{"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["A"]}}}'
)
PASSING = {
    "chat": ("/v1/chat/completions", CHAT, CHAT_REPLY, {"model": "m"}),
    "deployment": (
        "/openai/deployments/gate%2Fm/chat/completions",
        CHAT.replace(b'"gate/m"', b"null"), CHAT_REPLY, {"model": "m"}),
    "plain text": ("/v1/chat/completions", PLAIN_TEXT, CHAT_REPLY, {"model": "m"}),
    "message": ("/v1/messages", MESSAGE, MESSAGE_REPLY, {}),
    "response": ("/v1/responses", REQUEST, RESPONSE, {"model": "m"}),
    "enum": ("/v1beta/models/gemini-4-neon:generateContent", BARE_VALUE, CONTENT_REPLY, {}),
}  # fmt: skip
SPELLINGS = (b'"seen" : 1.50', b"h\\u0069", b"[1e2]", b'"n":2', b'"tomorrow":1.0')


@pytest.mark.parametrize(("path", "body", "written", "renamed"), PASSING.values(), ids=PASSING)
def test_item_3_a_request_passes_with_all_of_its_fields(
    gate: Gate, path: str, body: bytes, written: bytes, renamed: dict[str, str]
) -> None:
    gate.service.replies = [reply(written)]
    answer = gate.post(path, body)
    assert (answer.status_code, answer.content) == (200, written)
    received = gate.service.requests[0].body
    assert [each in received for each in SPELLINGS] == [each in body for each in SPELLINGS]
    assert gate.sent() == {**json.loads(body), **renamed}
    assert gate.usage == [Usage(3, 5)]


@pytest.mark.parametrize("stream", [False, True])
def test_item_3_contents_pass_with_all_of_their_fields(gate: Gate, stream: bool) -> None:
    gate.service.replies = [sse_reply([CONTENT_REPLY]) if stream else reply(CONTENT_REPLY)]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    answer = gate.post(f"/v1beta/models/gemini-4-neon:{method}", CONTENT)
    written = b"data: " + CONTENT_REPLY + b"\n\n" if stream else CONTENT_REPLY
    assert (answer.status_code, answer.content) == (200, written)
    assert gate.sent() == json.loads(CONTENT)
    assert gate.service.requests[0].path.endswith(f"/models/gemini-4-neon:{method}")
    assert gate.usage == [Usage(3, 5)]


def test_item_6_a_field_that_clients_require_is_added(gate: Gate) -> None:
    """The SDK of OpenRouter refuses an answer without it."""
    gate.service.replies = [reply(CHAT_REPLY.replace(b', "system_fingerprint":null', b""))]
    answer = gate.chat(CHAT).json()
    assert answer == {**json.loads(CHAT_REPLY), "system_fingerprint": ""}


COUNT_REPLY = b'{"input_tokens":5 ,"context_management":{"original_input_tokens":7}}'


def test_a_request_to_count_tokens_passes_as_the_message_does(gate: Gate) -> None:
    found = {"type": "search_result", "title": "a", "source": "b", "content": []}
    file = {"type": "document", "source": {"type": "file", "file_id": "f_1"}}
    messages = [{"role": "user", "content": [found, file]}]
    servers = [{"type": "url", "url": "https://mcp.test", "name": "a"}]
    body = {"model": "claude-opus-5-5", "messages": messages, "mcp_servers": servers}
    gate.service.replies = [reply(COUNT_REPLY)]
    headers = {"anthropic-beta": "new-2026", "anthropic-version": "2023-06-01"}
    answer = gate.post("/v1/messages/count_tokens", body, **headers)
    assert (answer.status_code, answer.content) == (200, COUNT_REPLY)
    (received,) = gate.service.requests
    assert received.path == "/v1/messages/count_tokens"
    assert received.json() == body
    assert headers.items() <= dict(received.headers).items()
    assert gate.usage == []


def test_a_count_of_a_service_of_another_format_is_read(gate: Gate) -> None:
    gate.service.replies = [reply(b'{"totalTokens":5}')]
    body = {"model": "gemini-4-neon", "messages": [{"role": "user", "content": "hi"}]}
    answer = gate.post("/v1/messages/count_tokens", body)
    assert answer.json() == {"input_tokens": 5}
    assert gate.service.requests[0].path.endswith("countTokens")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"input_tokens":-1}'])
def test_a_count_that_is_none_is_an_error(gate: Gate, body: bytes) -> None:
    gate.service.replies = [reply(body)] * 2
    answer = gate.post("/v1/messages/count_tokens", MESSAGE)
    assert answer.status_code == 502


@pytest.mark.parametrize(("version", "model", "fields", "sent"), [
    ("2023-06-01", "claude-opus-5-5", {}, "2023-06-01"),
    ("2026-10-21", "claude-opus-5-5", {}, "2026-10-21"),
    ("2099-01-01", "claude-opus-5-5", {}, "2026-10-21"),
    ("", "claude-opus-5-5", {}, "2026-10-21"),
    ("2023-06-01", "claude-haiku-4-5", {"temperature": 0.5, "top_k": 3}, "2023-06-01"),
    ("2026-10-21", "claude-haiku-4-5", {"temperature": 0.5}, None),
    ("2023-06-01", "claude-opus-5-5", {"temperature": 0.5}, None),
])  # fmt: skip
def test_a_message_passes_by_the_rules_of_the_version_of_the_client(
    gate: Gate, version: str, model: str, fields: Any, sent: str | None
) -> None:
    gate.service.replies = [reply(MESSAGE_REPLY)]
    body = {**json.loads(MESSAGE), "model": model, **fields}
    answer = gate.post("/v1/messages", body, **({"anthropic-version": version} if version else {}))
    assert answer.status_code == (200 if sent else 400), answer.text
    received = [each.headers["anthropic-version"] for each in gate.service.requests]
    assert received == ([sent] if sent else [])
    assert not sent or answer.content == MESSAGE_REPLY


@pytest.mark.parametrize("blank", [b"", b" \n"])
def test_blocks_that_the_host_wrote_for_other_services_are_left_out(gate: Gate, blank: Any) -> None:
    """The service would refuse their empty signature and index."""
    cited = {"type": "web_search_result_location", "url": "https://a.test", "encrypted_index": ""}
    for block in (
        {"type": "thinking", "thinking": "hmm", "signature": ""},
        {"type": "text", "text": "so", "citations": [cited]},
    ):
        content = [block, {"type": "text", "text": "then"}]
        messages = [HI, {"role": "assistant", "content": content}, HI]
        body = json.dumps({**json.loads(MESSAGE), "messages": messages, "tools": []}).encode()
        gate.service.replies = [reply(MESSAGE_REPLY)]
        answer = gate.post("/v1/messages", body.replace(b': ""', b":" + blank + b'""'))
        assert answer.status_code == 200, answer.text
        sent = gate.service.requests[-1].body
        assert b"signature" not in sent
        assert b"encrypted_index" not in sent
        assert b"then" in sent


BLOCKED = (
    b'{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},'
    b'"usageMetadata":{"promptTokenCount":3}}'
)


@pytest.mark.parametrize("stream", [False, True])
def test_a_blocked_prompt_passes_and_is_not_sent_again(gate: Gate, stream: bool) -> None:
    gate.service.replies = [sse_reply([BLOCKED]) if stream else reply(BLOCKED)] * 3
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    answer = gate.post(f"/v1beta/models/gemini-4-neon:{method}", CONTENT)
    written = b"data: " + BLOCKED + b"\n\n" if stream else BLOCKED
    assert (answer.status_code, answer.content) == (200, written)
    others = {"model": "gemini-4-neon", "max_tokens": 9, "stream": stream,
              "messages": [{"role": "user", "content": "hi"}]}  # fmt: skip
    for path, reason in (("chat/completions", "content_filter"), ("messages", "refusal")):
        answer = gate.post(f"/v1/{path}", others)
        assert answer.status_code == 200
        assert f'_reason":"{reason}"' in answer.text.replace(" ", "")
    assert len(gate.service.requests) == 3
    assert gate.usage == [Usage(3)] * 3


VECTORS = {"embeddings": [{"values": [1, 2]}]}
EMBEDDED = {"content": {"parts": [{"text": "a"}]}}
CLUSTERED = {"taskType": "CLUSTERING", "title": "T"}
EMBED = "/v1beta/models/gemini-embedding-001:embedContent"


@pytest.mark.parametrize(("path", "body", "more"), [
    (EMBED, EMBEDDED, {}),
    (EMBED, {**EMBEDDED, **CLUSTERED}, CLUSTERED),
    ("/v1/embeddings", {"model": "gemini-embedding-001", "input": "a"}, {}),
    ("/api/embed", {"model": "gemini-embedding-001", "input": "a"}, {}),
])  # fmt: skip
def test_vectors_have_no_purpose_that_was_not_asked_for(
    gate: Gate, path: str, body: Any, more: Any
) -> None:
    gate.service.replies = [json_reply(VECTORS)]
    assert gate.post(path, body).status_code == 200
    (sent,) = gate.sent()["requests"]
    assert sent == {"model": "models/gemini-embedding-001", **EMBEDDED, **more}


CALLED = {"functionCall": {"id": "c1", "name": "look", "args": {}}}


@pytest.mark.parametrize(
    ("part", "is_passed"),
    [(CALLED, False), ({**CALLED, "thoughtSignature": "c2ln"}, True),
     ({"function_call": CALLED["functionCall"]}, False), ({"text": "functionCall"}, True)],
)  # fmt: skip
def test_calls_of_other_models_are_read_to_sign_them(gate: Gate, part: Any, is_passed: Any) -> None:
    gate.service.replies = [reply(CONTENT_REPLY)]
    contents = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [part]}]
    answer = gate.post("/v1beta/models/gemini-3.5-flash:generateContent", {"contents": contents})
    assert (answer.content == CONTENT_REPLY) is is_passed
    (sent,) = gate.sent()["contents"][1]["parts"]
    signature = "skip_thought_signature_validator"
    assert sent == (part if is_passed else {**CALLED, "thoughtSignature": signature})


def streamed(body: bytes, **more: Any) -> bytes:
    return json.dumps({**json.loads(body), "stream": True, **more}).encode()


PIECE = b'{"choices":[{"index":0,"delta":{"content":"so"},"finish_reason":null}],"new":1.0}'
LAST = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
USED = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}'


@pytest.mark.parametrize("is_requested", [True, False])
def test_item_3_the_usage_is_requested_and_its_chunk_left_out(
    gate: Gate, is_requested: bool
) -> None:
    gate.service.replies = [sse_reply([PIECE, LAST, USED, b"[DONE]"])]
    options = {"stream_options": {"include_usage": True, "x": 1}} if is_requested else {}
    answer = gate.chat(streamed(CHAT, **options))
    events = [PIECE, LAST, *([USED] if is_requested else []), b"[DONE]"]
    assert answer.content == b"".join(b"data: " + each + b"\n\n" for each in events)
    assert gate.sent()["stream_options"]["include_usage"] is True
    assert gate.sent()["stream_options"].get("x") == (1 if is_requested else None)
    assert gate.usage == [Usage(3, 5)]


EVENTS = (
    b'{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}',
    b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2"}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"something_new","x":1.0}',
    b'{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}',
    b'{"type":"content_block_stop","index":1}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}',
    b'{"type":"message_stop"}',
)


def named(events: Any) -> list[bytes]:
    return [b"event: %b\ndata: %b\n\n" % (json.loads(e)["type"].encode(), e) for e in events]


def test_item_3_events_pass_byte_for_byte(gate: Gate) -> None:
    sent = b"".join(named(EVENTS))
    gate.service.replies = [reply(sent, headers={"content-type": "text/event-stream"})]
    answer = gate.post("/v1/messages", streamed(MESSAGE))
    assert answer.content == sent
    assert gate.usage == [Usage(3, 5)]


def test_item_3_events_without_a_name_get_it(gate: Gate) -> None:
    gate.service.replies = [sse_reply([*EVENTS, b"[DONE]"])]
    assert gate.post("/v1/messages", streamed(MESSAGE)).content == b"".join(named(EVENTS))


@pytest.mark.parametrize("body", [CHAT[:-1], CHAT.replace(b"one", b"\xff"), CHAT, CHAT + b"x"])
def test_item_3_a_body_that_is_no_json_is_refused_here(gate: Gate, body: bytes) -> None:
    broken = body.replace(b'"hi"', b'"\xff"').replace(b"h\\u0069", b"\xff")
    assert gate.chat(broken).status_code == 400
    assert not gate.service.requests


@pytest.mark.parametrize(("gate", "sent"), [
    ({}, "new-2026"),
    ({"betas": ["own-2026"]}, "own-2026,new-2026"),
], indirect=["gate"])  # fmt: skip
def test_item_3_betas_of_the_client_and_of_the_user_are_joined(gate: Gate, sent: str) -> None:
    gate.service.replies = [reply(MESSAGE_REPLY)]
    gate.post("/v1/messages", MESSAGE, **{"anthropic-beta": "new-2026"})
    assert gate.service.requests[0].headers["anthropic-beta"] == sent


def test_item_3_before_the_first_byte_a_call_is_repeated(gate: Gate) -> None:
    gate.service.replies = [reply(b"{}", 503), reply(CHAT_REPLY)]
    assert gate.chat(CHAT).content == CHAT_REPLY
    assert len(gate.service.requests) == 2


def test_item_3_a_stream_that_breaks_off_ends_in_an_error(gate: Gate) -> None:
    gate.service.replies = [sse_reply([PIECE, CUT])]
    *before, last = gate.chat(streamed(CHAT)).content.split(b"\n\n")[:-1]
    assert before == [b"data: " + PIECE]
    assert json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert len(gate.service.requests) == 1


def test_item_3_errors_have_the_form_of_the_api(gate: Gate) -> None:
    gate.service.replies = [reply(b'{"error":{"message":"no such field: tomorrow"}}', 400)]
    answer = gate.chat(CHAT)
    assert answer.status_code == 400
    assert "no such field: tomorrow" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("gate", "body"),
    [
        ({}, {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
        ({}, {"response_format": {"type": "json_object", "schema": {"type": "object"}}}),
        ({"server": ServerConfig(pass_through=False)}, {}),
        ({"server": ServerConfig(users={"ann": {"env": "TOKEN"}})}, {}),
        ({"model_configs": {"mine": ModelConfig("chat/m", parameters={"seed": 7})}},
         {"model": "mine"}),
    ],
    ids=["the answer is checked", "an object", "not enabled", "users", "configured"],
    indirect=["gate"],
)  # fmt: skip
def test_item_3_what_is_looked_at_does_not_pass(gate: Gate, body: Any) -> None:
    gate.service.replies = [json_reply(json.loads(CHAT_REPLY))]
    plain = {"model": "chat/m", "messages": [{"role": "user", "content": "hi", "seen": 1}], **body}
    text = json.dumps(plain).replace('"seen": 1', '"seen" : 1')
    answer = gate.chat(text.encode())
    assert answer.content != CHAT_REPLY
    assert b'"seen" : 1' not in gate.service.requests[-1].body
    assert gate.sent()["messages"][0]["seen"] == 1


@pytest.mark.parametrize("gate", [{"server": PASSING_USERS}], indirect=True)
def test_item_3_requests_of_users_pass_if_enabled(gate: Gate) -> None:
    gate.service.replies = [reply(CHAT_REPLY)]
    assert gate.chat(CHAT).content == CHAT_REPLY


def test_item_3_the_limit_gets_the_name_of_the_service(gate: Gate) -> None:
    gate.service.replies = [reply(CHAT_REPLY)]
    body = json.loads(CHAT) | {"max_completion_tokens": 9}
    assert gate.chat(body).content == CHAT_REPLY
    assert gate.sent()["max_tokens"] == 9
    assert "max_completion_tokens" not in gate.sent()


@pytest.mark.parametrize("passes", [None, True])
def test_item_3_with_budgets_requests_pass_only_if_enabled(
    make_host: MakeHost, passes: bool | None
) -> None:
    """The host does not know the prices of all that a service offers."""
    budgets = BudgetsConfig(user=BudgetConfig(day=1.0))
    host = make_host(config=Config(server=ServerConfig(pass_through=passes), budgets=budgets))
    request = RouteRequest("POST", "/v1/chat/completions", body=CHAT, limits=Cancellation())
    assert (fields_to_pass(host, request) is not None) == bool(passes)


@pytest.mark.parametrize("gate", [{}, {"server": ServerConfig(pass_through=False)}], indirect=True)
def test_item_3_tools_of_an_unknown_model_are_refused_first(gate: Gate) -> None:
    """Gemini CLI asks a model with a fixed name to search, and repeats that on 404."""
    body = {**json.loads(CONTENT), "generationConfig": {"temperature": 0}}
    answer = gate.post("/v1beta/models/nobody:generateContent", body)
    assert answer.status_code == 400
    assert "googleSearch" in answer.json()["error"]["message"]


PLAIN = {"model": "gate/m", "store": False, "input": "hi"}
RESPONSE_EVENTS = (
    b'{"type":"response.created","response":{"id":"resp_1","status":"in_progress"},"new":1.0}',
    b'{"type":"response.something_new","x":1.0}',
    b'{"type":"response.output_text.delta","item_id":"msg_2","output_index":0,"delta":"so"}',
    b'{"type":"response.completed","response":%b}' % RESPONSE,
)


@pytest.mark.parametrize("names", [True, False])
def test_item_3_events_of_a_response_pass_byte_for_byte(gate: Gate, names: bool) -> None:
    sent = b"".join(named(RESPONSE_EVENTS))
    streamed_reply = reply(sent, headers={"content-type": "text/event-stream"})
    gate.service.replies = [streamed_reply if names else sse_reply([*RESPONSE_EVENTS, b"[DONE]"])]
    assert gate.post("/v1/responses", streamed(REQUEST)).content == sent
    assert gate.usage == [Usage(3, 5)]


@pytest.mark.parametrize("number", [None, 7, "x"])
def test_item_3_a_response_that_breaks_off_has_failed(gate: Gate, number: Any) -> None:
    numbered = {"type": "response.new", "sequence_number": number}
    events = [*RESPONSE_EVENTS[:3], json.dumps(numbered).encode()]
    gate.service.replies = [sse_reply([*events, CUT])]
    *before, last = gate.post("/v1/responses", streamed(REQUEST)).content.split(b"\n\n")[:-1]
    assert [each + b"\n\n" for each in before] == named(events)
    name, data = last.split(b"\ndata: ")
    failed = json.loads(data)
    assert (name, failed["type"]) == (b"event: response.failed", "response.failed")
    assert failed.get("sequence_number") == (8 if number == 7 else None)
    assert failed["response"].pop("error")["code"] == "server_error"
    begun = json.loads(RESPONSE_EVENTS[0])["response"]
    assert failed["response"] == {**begun, "status": "failed"}


@pytest.mark.parametrize(("path", "body", "written", "part", "end"), [
    ("chat/completions", json.loads(CHAT), CHAT_REPLY, b'"content":"one"', b"data: [DONE]"),
    ("responses", PLAIN, RESPONSE, b'"delta":"so"', b"event: response.completed"),
    # the host cannot read it
    ("responses", {**PLAIN, "top_p": 7}, RESPONSE, b"top_p", b"event: response.failed"),
], ids=["chat", "response", "invalid"])  # fmt: skip
def test_item_3_an_answer_that_was_not_streamed_is_written_as_events(
    gate: Gate, path: str, body: Any, written: bytes, part: bytes, end: bytes
) -> None:
    gate.service.replies = [reply(written)]
    received = gate.post(f"/v1/{path}", {**body, "stream": True}).content
    assert part in received
    *_, last, rest = received.split(b"\n\n")
    assert (last.partition(b"\ndata: ")[0], rest) == (end, b"")


@pytest.mark.parametrize("more", [
    {"store": None},
    {"store": True},
    {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}},
])  # fmt: skip
def test_item_3_responses_that_are_stored_or_checked_do_not_pass(gate: Gate, more: Any) -> None:
    body = RESPONSE.replace(b'"so"', b'"{}"')
    gate.service.replies = [reply(body)]
    answer = gate.post("/v1/responses", {**PLAIN, **more})
    assert answer.status_code == 200
    assert answer.json()["id"] != "resp_1"


def test_item_3_what_this_host_has_stored_does_not_pass(gate: Gate) -> None:
    """Its ids and its sealed reasoning mean nothing to the service."""
    reasoning = b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VhbGVk"}'
    first = RESPONSE.replace(b'"output":[', b'"output":[%b,' % reasoning)
    gate.service.replies = [reply(first), *[reply(RESPONSE)] * 5]

    def respond(**fields: Any) -> Any:
        body = {"model": "gate/m", "include": ["reasoning.encrypted_content"], **fields}
        written = json.dumps(body).encode().replace(b"\\u0000id", b"\\u0069d")
        answer = gate.post("/v1/responses", written)
        assert answer.status_code == 200, answer.text
        return answer.json()

    stored = respond(input="hi")
    sealed, message = stored["output"]
    assert sealed["encrypted_content"] != "c2VhbGVk"
    for items in (
        [sealed, message],
        [{"type": "item_reference", "id": message["id"]}],
        [{"id": message["id"]}],
        [{"\x00id": message["id"]}],
        [{name: value for name, value in sealed.items() if name != "encrypted_content"}],
    ):
        again = respond(store=False, input=[*items, {"role": "user", "content": "more"}])
        assert again["id"] != "resp_1"


@pytest.mark.parametrize(("role", "is_passed"), [("developer", True), ("system", False)])
def test_item_3_a_model_that_prefers_another_format_takes_this_one(
    gate: Gate, role: str, is_passed: bool
) -> None:
    """A role that the model has another name for is renamed."""
    gate.service.replies = [reply(CHAT_REPLY)]
    messages = [{"role": role, "content": "be brief"}, {"role": "user", "content": "hi"}]
    body = {"model": "gpt-5.5@openai", "messages": messages, "tomorrow": 1}
    answer = gate.chat(body)
    if is_passed:
        assert answer.content == CHAT_REPLY
        assert gate.sent() == {**body, "model": "gpt-5.5"}
    else:
        assert gate.service.requests[0].path == "/responses"
