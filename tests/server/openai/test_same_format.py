"""What an application writes reaches a service of the same format; others name what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai_form import HI, READING, Api, gate_api, reading_api, streamed

from genai_host.api import Message, Prompt
from genai_host.serving import CompletionStream
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

SCHEMA = {
    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
    "additionalProperties": False,
}  # fmt: skip
ASK = {"role": "user", "content": "as JSON"}


OBJECT = json_reply(
    {"choices": [{"index": 0, "message": {"content": '{"a": "b"}'}, "finish_reason": "stop"}]}
)


@pytest.fixture
def api(make_host: MakeHost, service: FakeService) -> Iterator[Api]:
    service.replies = [OBJECT]
    with gate_api(make_host, service, {"server": READING}) as api:
        yield api


def json_schema(name: str, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, **more}}


NAMED = {**SCHEMA, "title": "verdict"}


@pytest.mark.parametrize(("form", "expected"), [
    ({"type": "json_object"}, {"type": "json_object"}),
    ({"type": "json_object", "schema": SCHEMA}, json_schema("answer", strict=False)),
    (json_schema("verdict"), json_schema("verdict", NAMED, strict=False)),
    (json_schema("verdict", strict=True), json_schema("verdict", NAMED, strict=True)),
], ids=["an object", "an object with a schema", "with a name", "strict"])  # fmt: skip
def test_item_5_the_format_of_an_answer(
    api: Api, service: FakeService, form: Any, expected: Any
) -> None:
    api.completed(ASK, model="gate/m", response_format=form)
    sent = service.requests[0].json()
    assert sent["response_format"] == expected
    assert sent["messages"] == [ASK]


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, ("json_object", 1)),
    ({"strict": True}, ("json_object", 2)),  # OpenAI's services refuse it without the word
    ({"json_object": False}, ("json_schema", 1)),
])  # fmt: skip
def test_item_5_any_object_without_a_mention_of_json(
    make_host: MakeHost, service: FakeService, settings: Any, expected: tuple[str, int]
) -> None:
    service.replies = [OBJECT]
    with gate_api(make_host, service, settings=settings) as api:
        api.completed(HI, model="gate/m", response_format={"type": "json_object"})
    sent = service.requests[0].json()
    assert (sent["response_format"]["type"], len(sent["messages"])) == expected
    assert sent["messages"][0] == HI


@pytest.mark.parametrize("strict", [True, False])
def test_item_5_whether_a_tool_is_strict(api: Api, service: FakeService, strict: bool) -> None:
    function = {"name": "f", "description": "", "parameters": SCHEMA, "strict": strict}
    api.completed(ASK, model="gate/m", tools=[{"type": "function", "function": function}])
    [tool] = service.requests[0].json()["tools"]
    assert tool["function"].get("strict", False) is strict


SPEAKERS = [
    {"role": "system", "name": "boss", "content": "be short"},
    {"role": "user", "name": "critic", "content": "No."},
    {"role": "user", "name": "writer", "content": [{"type": "text", "text": "Yes."}]},
    {"role": "assistant", "name": "editor", "content": "Perhaps."},
    {"role": "user", "content": "So?"},
]


def test_item_5_the_names_of_speakers(api: Api, service: FakeService) -> None:
    api.completed(*SPEAKERS, model="gate/m")
    names = [each.get("name") for each in service.requests[0].json()["messages"]]
    assert names == ["boss", "critic", "writer", "editor", None]


def test_item_5_names_that_another_format_lacks_are_listed(api: Api) -> None:
    reply = api.chat(*SPEAKERS, model="fake")
    dropped = reply.headers["x-genai-host-dropped"].split(", ")
    assert dropped == [f"messages[{number}].name" for number in range(4)]
    assert {message.name for message in api.fake.prompts[0].messages} == {""}


IDS = [[9906, 1917], [15339]]


def test_item_5_ids_of_tokens_are_embedded(api: Api, service: FakeService) -> None:
    """LangChain's OpenAIEmbeddings sends them by default."""
    vectors = [{"index": number, "embedding": [0.5, number]} for number in range(2)]
    for value, sent in ((IDS, IDS), (IDS[0], IDS[:1])):
        service.replies = [json_reply({"data": vectors[: len(sent)]})]
        reply = api.post("/v1/embeddings", {"model": "gate/e", "input": value})
        assert [each["index"] for each in reply.json()["data"]] == [*range(len(sent))]
        assert service.requests[-1].json()["input"] == sent


@pytest.mark.parametrize(
    ("value", "param"), [([[1, True]], "input"), ([[]], "input"), ([[1], 2], "input"), (IDS, None)]
)
def test_item_5_what_cannot_be_embedded(api: Api, value: Any, param: str | None) -> None:
    reply = api.post("/v1/embeddings", {"model": "fake-embed", "input": value})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


TOKENS: list[dict[str, Any]] = [
    {"token": token, "logprob": -0.25, "top_logprobs": []} for token in ("a", "b", "")
]


class TestLogprobs:
    """guidance, deepeval and others need them for each request."""

    def test_item_5_of_a_complete_answer(self, api: Api, service: FakeService) -> None:
        message = {"role": "assistant", "content": "ab"}
        choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": TOKENS}}
        service.replies = [json_reply({"choices": [choice]})]
        body = api.completed(ASK, model="gate/m", logprobs=True, top_logprobs=2)
        assert body["choices"][0]["logprobs"] == {"content": TOKENS}
        sent = service.requests[0].json()
        assert (sent["logprobs"], sent["top_logprobs"]) == (True, 2)

    def test_item_5_of_a_stream(self, api: Api, service: FakeService) -> None:
        deltas: list[Any] = [
            {"delta": {"content": each["token"]}, "logprobs": {"content": [each]}}
            for each in TOKENS
        ]
        end: Any = {"delta": {}, "finish_reason": "stop", "logprobs": None}
        service.replies = [streamed(*({"choices": [each]} for each in (*deltas, end)))]
        *pieces, done = api.events(ASK, model="gate/m", logprobs=True)
        assert done == "[DONE]"
        choices = [each["choices"][0] for each in pieces]
        assert "".join(each["delta"].get("content", "") for each in choices) == "ab"
        logprobs = [each["logprobs"]["content"] for each in choices if each["logprobs"]]
        assert logprobs == [[token] for token in TOKENS]

    def test_item_5_of_python(self, api: Api, service: FakeService) -> None:
        message = {"role": "assistant", "content": "ab"}
        logprobs = {"content": TOKENS, "refusal": None}
        choice = {"message": message, "finish_reason": "stop", "logprobs": logprobs}
        service.replies = [json_reply({"choices": [choice]})]
        prompt = Prompt([Message("user", "hi")], parameters={"logprobs": True})
        answering = CompletionStream(api.host.prompt(prompt, model="gate/m", stream=False))
        assert "".join(delta.text for delta in answering) == "ab"
        assert answering.completion.extra == {"logprobs": logprobs}

    def test_item_5_they_are_refused_for_other_formats(self, api: Api) -> None:
        assert api.refused(ASK, model="fake", logprobs=True)["param"] == "logprobs"
        [choice] = api.completed(ASK, model="fake", logprobs=False)["choices"]
        assert choice["logprobs"] is None


class TestSeveralAnswers:
    """ragas and outlines ask for several in one request."""

    @staticmethod
    def reply_with(*numbers: int, **more: Any) -> dict[str, Any]:
        """A reply with the answers of these numbers."""
        return {"choices": [{"index": at, "message": {"content": "abc"[at]}, **more}
                            for at in numbers]}  # fmt: skip

    def test_item_5_in_one_reply(self, api: Api, service: FakeService) -> None:
        reply = self.reply_with(0, 1, 2, more=1.5)
        service.replies = [json_reply(reply)]
        choices = api.completed(ASK, model="gate/m", n=3)["choices"]
        assert [each["message"]["content"] for each in choices] == ["a", "b", "c"]
        assert choices[1:] == reply["choices"][1:]
        assert service.requests[0].json()["n"] == 3

    def test_item_5_in_any_order(self, api: Api, service: FakeService) -> None:
        service.replies = [json_reply(self.reply_with(1, 0))]
        choices = api.completed(ASK, model="gate/m", n=2)["choices"]
        texts = [(each["index"], each["message"]["content"]) for each in choices]
        assert texts == [(0, "a"), (1, "b")]

    def test_item_5_not_with_functions(self, api: Api) -> None:
        function = {"name": "f", "parameters": {}}
        assert api.refused(ASK, model="gate/m", n=2, functions=[function])["param"] == "n"

    @pytest.mark.parametrize(("chunks", "texts"), [
        ([((0, "a", None),), ((1, "x", None),), ((0, "b", None),), ((1, "y", None),),
          ((0, "", "stop"),), ((1, "", "stop"),)], ["ab", "xy"]),
        ([((1, "b", "stop"), (0, "a", "stop"))], ["a", "b"]),
    ], ids=["in chunks", "in one chunk"])  # fmt: skip
    def test_item_5_in_a_stream(
        self, api: Api, service: FakeService, chunks: Any, texts: list[str]
    ) -> None:
        events = [[{"index": at, "delta": {"content": text}, "finish_reason": finish}
                   for at, text, finish in chunk] for chunk in chunks]  # fmt: skip
        service.replies = [streamed(*({"choices": each} for each in events))]
        *pieces, done = api.events(ASK, model="gate/m", n=2)
        assert done == "[DONE]"
        contents, finished = ["", ""], [0, 0]
        for [choice] in (each["choices"] for each in pieces):
            contents[choice["index"]] += choice["delta"].get("content") or ""
            finished[choice["index"]] += choice["finish_reason"] == "stop"
        assert (contents, finished) == (texts, [1, 1])

    def test_item_5_in_a_stream_of_a_service_that_does_not_stream(
        self, api: Api, service: FakeService
    ) -> None:
        service.replies = [json_reply(self.reply_with(0, 1))]
        *pieces, _ = api.events(ASK, model="gate/m", n=2)
        choices = [each["choices"][0] for each in pieces]
        texts = [(each["index"], each["delta"].get("content")) for each in choices]
        assert [each for each in texts if each[1]] == [(1, "b"), (0, "a")]

    @pytest.mark.parametrize("stream", [False, True])
    def test_item_5_those_that_were_not_requested_are_left_out(
        self, api: Api, service: FakeService, stream: bool
    ) -> None:
        service.replies = [json_reply(self.reply_with(0, 1))]
        assert '"b"' not in api.chat(ASK, model="gate/m", stream=stream).text

    @pytest.mark.parametrize(("n", "status"), [(1, 200), (2, 400)])
    def test_item_5_other_formats_give_one(self, api: Api, n: int, status: int) -> None:
        assert api.chat(ASK, model="fake", n=n).status_code == status


FILTERED = {
    "message": "filtered", "type": None, "param": "prompt", "code": "content_filter",
    "innererror": {"code": "ResponsibleAIPolicyViolation", "result": {"hate": [True]}},
}  # fmt: skip
QUOTA = {"message": "no", "type": "insufficient_quota", "param": None,
         "code": "insufficient_quota"}  # fmt: skip
VALUE = {"message": "no", "type": "invalid_request_error", "param": "temperature",
         "code": "unsupported_value"}  # fmt: skip
LONG = {"message": "no", "code": "x" * 999, "type": ["x"], "param": 3,
        "innererror": {"x": "x" * 9999}}  # fmt: skip
DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"a": DEEP}
DEFAULTS = {"type": "invalid_request_error", "code": "request_refused", "param": None}


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize(("status", "error", "expected"), [
    (400, FILTERED, {**FILTERED, "type": DEFAULTS["type"]}),
    (400, VALUE, VALUE),
    (429, QUOTA, QUOTA),
    (400, {"message": "no"}, DEFAULTS),
    (400, {"message": "no", "code": None, "innererror": DEEP}, DEFAULTS),
    (400, LONG, {**DEFAULTS, "code": "x" * 200}),
    # the client cannot correct it
    (401, {**VALUE, "code": "invalid_api_key"}, {"type": "server_error", "param": None}),
], ids=["filtered", "value", "quota", "no code", "deep", "long", "own key"])  # fmt: skip
def test_the_error_of_a_service_keeps_its_fields(
    make_host: MakeHost, service: FakeService, path: str, status: int, error: Any, expected: Any
) -> None:
    service.replies = [json_reply({"error": error}, status=status)]
    with reading_api(make_host, service) as api:
        asked = {"model": "gate/m", "messages": [HI], "input": "hi"}
        received = api.post(f"/v1/{path}", asked).json()["error"]
    kept = {name: each for name, each in expected.items() if name != "message"}
    assert {name: received.get(name) for name in kept} == kept
    assert received.keys() - {"innererror"} == {"message", "type", "param", "code"}
    assert ("innererror" in received) == ("innererror" in expected)


def test_the_error_of_a_service_has_no_keys(
    make_host: MakeHost, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-of-the-host-123456"
    monkeypatch.setenv("GATE_KEY", key)
    error = {"message": f"no {key}", "code": f"x {key}", "innererror": {key: [key]}}
    service.replies = [json_reply({"error": error}, status=400)]
    with gate_api(make_host, service, settings={"api_key": {"env": "GATE_KEY"}}) as api:
        reply = api.chat(model="gate/m")
    assert reply.json()["error"]["code"].startswith("x ")
    assert reply.json()["error"]["innererror"]
    assert key not in reply.text


SEEN = {"url": "https://a.example/b.png"}


@pytest.mark.parametrize("client", ["chat/completions", "responses"])
@pytest.mark.parametrize(
    ("detail", "chat", "responses"),
    [("low", "low", "low"), ("high", "high", "high"), ("auto", None, "auto"),
     ("original", None, "original")],
)  # fmt: skip
def test_the_resolution_of_an_image(
    make_host: MakeHost, service: FakeService, client: str, detail: str, chat: Any, responses: str
) -> None:
    picture: dict[str, Any] = {"type": "image_url", "image_url": {**SEEN, "detail": detail}}
    if client == "responses":
        picture = {"type": "input_image", "image_url": SEEN["url"], "detail": detail}
    field = "input" if client == "responses" else "messages"
    asked = {field: [{"role": "user", "content": [picture]}]}
    service.replies = [json_reply({"choices": [{"message": {"content": "ok"}}], "output": []})] * 2
    for serves, expected in (("openai-chat", chat), ("openai-responses", responses)):
        with reading_api(make_host, service, serves=[serves]) as api:
            replies = [
                api.post(f"/v1/{client}", {"model": model, **asked}) for model in ("gate/m", "fake")
            ]
            unsent, unknown = (r.headers.get("x-genai-host-dropped", "") for r in replies)
        body = service.requests[-1].json()
        if serves == "openai-chat":
            sent = body["messages"][0]["content"][0]["image_url"].get("detail")
        else:
            sent = body["input"][0]["content"][0]["detail"]
        assert sent == expected
        path = "messages[0].content[0].image_url" if "chat" in client else "input[0].content[0]"
        assert unsent == (f"{path}.detail" if sent is None and detail != "auto" else "")
        assert unknown == ("" if detail == "auto" else f"{path}.detail")
