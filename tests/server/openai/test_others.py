"""Embeddings, moderations and models of our OpenAI API."""

from __future__ import annotations

import array
import base64
import json
from typing import Any

import pytest
from genai_wire_openai.server.replies import problem_reply
from openai_form import HI, Api
from served_api import body_of

from genai_host.api import HttpProblem
from genai_host.errors import AuthenticationFailed

pytestmark = pytest.mark.part


def embedded(api: Api, **more: Any) -> dict[str, Any]:
    return body_of(api.post("/v1/embeddings", {"model": "fake-embed", "input": "a", **more}))


def test_texts_become_vectors_in_order(api: Api) -> None:
    first, second, third = embedded(api, input=["a", "b", "a"])["data"]
    assert [each["index"] for each in (first, second, third)] == [0, 1, 2]
    assert first["embedding"] == third["embedding"] != second["embedding"]


def test_vectors_in_base64_are_the_same(api: Api) -> None:
    [plain] = embedded(api)["data"]
    [packed] = embedded(api, encoding_format="base64")["data"]
    numbers = array.array("f", base64.b64decode(packed["embedding"]))
    assert list(numbers) == pytest.approx(plain["embedding"])


@pytest.mark.parametrize("wrong", [[], "", [""], None, 3])
def test_what_is_no_text_is_refused(api: Api, wrong: Any) -> None:
    reply = api.post("/v1/embeddings", {"model": "fake-embed", "input": wrong})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "input"


def test_a_model_for_chat_embeds_nothing(api: Api) -> None:
    reply = api.post("/v1/embeddings", {"model": "fake", "input": "a"})
    assert reply.status_code == 404


def test_texts_are_judged_each(api: Api) -> None:
    api.fake.flags = lambda text: "bad" in text
    reply = api.post("/v1/moderations", {"input": ["so bad", "so good"]})
    bad, good = reply.json()["results"]
    assert (bad["flagged"], good["flagged"]) == (True, False)
    assert set(bad["categories"]) == set(bad["category_scores"])
    assert not any(good["categories"].values())


def test_parts_are_judged_together_and_pictures_are_not(api: Api) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert len(api.post("/v1/moderations", {"input": parts}).json()["results"]) == 1
    assert api.post("/v1/moderations", {"input": [{"type": "image_url"}]}).status_code == 400


def test_models_are_listed_and_found(api: Api) -> None:
    listed = api.get("/v1/models").json()
    names = [each["id"] for each in listed["data"]]
    assert {"fake@fake", "feature:chat"} <= {*names}
    for name in (*names, "fake", "fake/accounts/of/models/some"):
        assert api.get(f"/v1/models/{name}").json()["id"] == name
    assert api.get("/v1/models/nobody").status_code == 404


def test_a_list_has_the_form_of_the_client_that_asks(api: Api) -> None:
    assert "models" in api.get("/v1/models", **{"x-goog-api-key": "x"}).json()
    assert api.get("/v1/models/fake", **{"x-goog-api-key": "x"}).json()["name"] == "models/fake"


@pytest.mark.parametrize(("path", "headers"), [
    ("/v1/audio/speech", {}), ("/openai/deployments/m/audio/speech", {}), ("/audio/speech", {}),
    ("/v1/audio/speech", {"anthropic-version": "2023-06-01"}),
    ("/v1/audio/speech", {"x-goog-api-key": "x"}), ("/api/v1/nope", {}),
])  # fmt: skip
def test_unknown_paths(api: Api, path: str, headers: dict[str, str]) -> None:
    reply = api.get(path, **headers)
    assert reply.status_code == 404
    error = reply.json()["error"]
    assert path in error["message"]
    assert "docs/reference/http.md" in error.get("hint", error["message"])
    assert "model_not_found" not in error.values()
    assert "code" in error or error["type"] == "not_found_error"
    if "param" in error:
        assert (error["type"], error["code"]) == ("invalid_request_error", "not_found")


@pytest.mark.parametrize("name", ["nobody", "feature:nobody"])
def test_unknown_models(api: Api, name: str) -> None:
    body = {"model": name, "messages": [HI], "logit_bias": {}}
    replies = [
        api.get(f"/v1/models/{name}"),
        api.post("/v1/chat/completions", body),
        api.post("/v1/responses", {"model": name, "input": "hi"}),
    ]
    for reply in replies:
        assert reply.status_code == 404
        assert reply.json()["error"]["code"] == "model_not_found"


CHAT = {"messages": [HI]}


@pytest.mark.parametrize(("path", "body"), [
    ("/openai/deployments/fake/chat/completions?api-version=2024-10-21", CHAT),
    ("/openai/deployments/fake/chat/completions", {**CHAT, "model": None}),
    ("/openai/deployments/fake/chat/completions", {**CHAT, "model": "gpt-5"}),
    ("/openai/deployments/fake%40fake/chat/completions", CHAT),
    ("/openai/deployments/fake/fake/chat/completions", CHAT),
    ("/openai/deployments/fake/completions", {"prompt": "hi"}),
    ("/openai/deployments/fake-embed/embeddings", {"input": "a"}),
    ("/openai/v1/chat/completions", {**CHAT, "model": "fake"}),
    ("/openai/v1/embeddings", {"input": "a", "model": "fake-embed"}),
    ("/openai/v1/responses", {"input": "hi", "model": "fake"}),
    ("/openai/responses?api-version=2025-03-01-preview", {"input": "hi", "model": "fake"}),
    ("/openai/responses/input_tokens", {"input": "hi", "model": "fake"}),
    ("/openai/models", None), ("/openai/v1/models/fake", None),
    ("/chat/completions", {**CHAT, "model": "fake"}),
    ("/completions", {"prompt": "hi", "model": "fake"}),
    ("/embeddings", {"input": "a", "model": "fake-embed"}),
    ("/v1beta/openai/embeddings", {"input": "a", "model": "fake-embed"}),
    ("/moderations", {"input": "a"}),
    ("/responses", {"input": "hi", "model": "fake"}),
    ("/models", None), ("/models/fake", None),
])  # fmt: skip
def test_paths_of_other_base_urls(api: Api, path: str, body: Any) -> None:
    reply = api.get(path) if body is None else api.post(path, body)
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(("path", "body", "status", "param"), [
    ("/openai/deployments/nope/chat/completions", CHAT, 404, None),
    ("/openai/deployments/fake/chat/completions", {}, 400, "messages"),
    ("/openai/deployments/fake/chat/completions", b"{", 400, None),
    ("/openai/deployments/fake/chat/completions", [], 400, None),
    ("/openai/deployments/fake/nope", None, 404, None),
    ("/openai/nope", None, 404, None), ("/openai/chat/completions", None, 405, None),
])  # fmt: skip
def test_errors_of_other_base_urls(api: Api, path: str, body: Any, status: int, param: Any) -> None:
    reply = api.get(path) if body is None else api.post(path, body)
    assert reply.status_code == status, reply.text
    assert reply.json()["error"]["param"] == param


def test_a_body_that_is_no_json(api: Api) -> None:
    for data in (b"", b"{", b"\xff", b"[" * 100_000):
        assert api.post("/v1/chat/completions", data).status_code == 400


def test_a_wrong_token_is_an_invalid_key() -> None:
    reply = problem_reply(HttpProblem(401, "unauthorized", "who are you?"))
    assert isinstance(reply.body, bytes)
    error = json.loads(reply.body)["error"]
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")


def test_a_wrong_key_of_the_service_behind_is_none_of_the_client() -> None:
    reply = problem_reply(HttpProblem.of(AuthenticationFailed("no")))
    assert isinstance(reply.body, bytes)
    assert (reply.status, json.loads(reply.body)["error"]["code"]) == (502, "authentication")
