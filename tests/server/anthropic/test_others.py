"""Our Anthropic API: the count of tokens, the models, errors."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic_api import CLOCK, HI, Api
from genai_wire_anthropic.server.replies import error_object, problem_reply

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProblem,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    hookimpl,
)
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


class _Speaks(Provider):
    serves = {"plain": DialectEndpoint()}

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise NotImplementedError

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        raise NotImplementedError


class _Plugin:
    @hookimpl
    def genai_providers(self) -> Any:
        yield ProviderType("speaks", NoSettings, lambda *_: _Speaks(), automatic=True)


class TestTokens:
    path = "/v1/messages/count_tokens"

    def test_of_a_request(self, api: Api) -> None:
        body = {"model": "fake", "messages": [{"role": "user", "content": "one two"}]}
        assert api.post(body, self.path).json() == {"input_tokens": 2}
        more = {"system": "be kind", "tools": [CLOCK], "thinking": {"type": "adaptive"}}
        assert api.post({**body, **more}, self.path).json() == {"input_tokens": 4}
        assert api.fake.prompts == []

    @pytest.mark.parametrize(
        ("name", "status"), [("feature:chat", 400), ("nobody", 404), ("feature:nobody", 400)]
    )
    def test_where_nobody_counts(self, api: Api, name: str, status: int) -> None:
        reply = api.post({"model": name, "messages": [HI]}, self.path)
        assert reply.status_code == status
        assert name in reply.json()["error"]["message"]

    def test_by_a_model_whose_service_counts_none(self, make_host: MakeHost) -> None:
        with Api.serving(make_host, other=_Plugin()) as api:
            reply = api.post({"model": "speaks/any", "messages": [HI]}, self.path)
        assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")
        assert "count" in reply.json()["error"]["message"]


class TestModels:
    def test_page_by_page(self, api: Api) -> None:
        every = [each["id"] for each in api.get("/v1/models?limit=1000").json()["data"]]
        assert {"fake@fake", "feature:chat"} <= {*every}
        first = api.get("/v1/models?limit=1").json()
        assert (first["has_more"], first["first_id"]) == (True, every[0])
        rest = api.get(f"/v1/models?limit=1000&after_id={first['last_id']}").json()
        assert not rest["has_more"]
        assert [each["id"] for each in first["data"] + rest["data"]] == every
        back = api.get(f"/v1/models?limit=1&before_id={rest['first_id']}").json()
        assert back["data"] == first["data"]
        assert not back["has_more"]
        none = api.get(f"/v1/models?before_id={every[0]}").json()
        assert (none["data"], none["first_id"], none["last_id"]) == ([], None, None)

    @pytest.mark.parametrize("query", [
        "limit=0", "limit=x", "limit=1001", "limit=%D9%A3", "limit=000000001" + "9" * 5000,
        "after_id=nobody", "before_id=nobody", "after_id=fake@fake&before_id=fake@fake",
    ])  # fmt: skip
    def test_no_page(self, api: Api, query: str) -> None:
        reply = api.get(f"/v1/models?{query}")
        assert (reply.status_code, reply.json()["type"]) == (400, "error")

    @pytest.mark.parametrize("name", ["fake", "fake@fake", "fake/some/one", "feature:chat"])
    def test_one(self, api: Api, name: str) -> None:
        body = api.get(f"/v1/models/{name}").json()
        assert (body["type"], body["id"], body["lifecycle"]) == ("model", name, "active")

    def test_what_it_can(self, api: Api) -> None:
        able = api.get("/v1/models/fake").json()["capabilities"]
        assert able["image_input"] == {"supported": True}
        assert able["batch"] == {"supported": False}
        assert api.get("/v1/models/feature:chat").json()["capabilities"] is None

    @pytest.mark.parametrize("name", ["nobody", "fake-embed", "feature:none"])
    def test_none(self, api: Api, name: str) -> None:
        reply = api.get(f"/v1/models/{name}")
        assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")


class TestProblems:
    @pytest.mark.parametrize(("status", "sent", "kind"), [
        (400, 400, "invalid_request_error"), (401, 401, "authentication_error"),
        (403, 403, "permission_error"), (404, 404, "not_found_error"),
        (405, 405, "invalid_request_error"), (413, 413, "request_too_large"),
        (422, 422, "invalid_request_error"), (429, 429, "rate_limit_error"),
        (500, 500, "api_error"), (502, 502, "api_error"), (503, 529, "overloaded_error"),
        (504, 504, "timeout_error"),
    ])  # fmt: skip
    def test_each_has_its_type(self, status: int, sent: int, kind: str) -> None:
        problem = HttpProblem(status, "some_code", "it went wrong")
        assert problem_reply(problem).status == sent
        assert error_object(problem)["error"] == {"type": kind, "message": "it went wrong"}

    def test_where_and_what_to_do(self) -> None:
        problem = HttpProblem(400, "invalid_data", "no text", "give one", "$.messages[0]")
        message = error_object(problem)["error"]["message"]
        assert message == "messages[0]: no text (give one)"

    def test_threads(self, api: Api) -> None:
        """Clients know it by its code, and send the whole conversation then."""
        reply = api.sent(thread={"type": "create"})
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert error["details"] == {"error_code": "thread_unsupported_request"}
        assert error["message"].startswith("thread: ")
        api.answered(thread=None)

    def test_batches(self, api: Api) -> None:
        replies = [
            api.post({"requests": []}, "/v1/messages/batches"),
            api.get("/v1/messages/batches"),
            api.get("/v1/messages/batches/b1"),
        ]
        for reply in replies:
            assert reply.status_code == 404
            assert "Batches" in reply.json()["error"]["message"]

    def test_a_body_that_is_no_json(self, api: Api) -> None:
        for data in (b"", b"{", b"\xff", b"[" * 100_000):
            assert api.post(data).status_code == 400
