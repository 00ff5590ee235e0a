"""Our Gemini API: tokens, embeddings, the list of models; and that no request breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gemini_form import Api, serving, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genai_host.api import RouteRequest
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_text import write_json
from genai_host.server.gemini.routes import ROUTES
from genai_host.serving.router import HttpRoutes
from genai_host.testing import FakeModel
from genai_host_testing.fixtures import MakeHost

pytestmark = pytest.mark.part

HI = user("hi")


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with serving(make_host, FakeModel()) as api:
        yield api


class TestTokens:
    def test_of_contents(self, api: Api) -> None:
        body = {"contents": [user("one two three")]}
        assert api.call("countTokens", body).json() == {"totalTokens": 3}
        assert api.fake.prompts == []

    def test_of_a_whole_request(self, api: Api) -> None:
        whole = {
            "model": "models/fake",
            "contents": [user("one two")],
            "systemInstruction": {"parts": [{"text": "be kind"}]},
            "generationConfig": {"temperature": 0},
        }
        body = {"generateContentRequest": whole}
        assert api.call("countTokens", body).json() == {"totalTokens": 4}

    @pytest.mark.parametrize(
        "body", [{}, {"generateContentRequest": 1}, {"generateContentRequest": {}, "contents": []}]
    )
    def test_of_nothing(self, api: Api, body: Any) -> None:
        assert api.call("countTokens", body).status_code == 400

    def test_of_features(self, api: Api) -> None:
        assert api.call("countTokens", {"contents": [HI]}, "feature:chat").status_code == 400


class TestEmbeddings:
    def test_one(self, api: Api) -> None:
        body = {"model": "models/fake-embed", "content": {"parts": [{"text": "a"}, {"text": "b"}]}}
        reply = api.call("embedContent", body, "fake-embed").json()
        (expected,) = api.host.embed(["ab"], model="fake-embed").vectors
        assert reply == {"embedding": {"values": list(expected)}}

    def test_several(self, api: Api) -> None:
        tasks = ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", None]
        requests = [
            {"content": {"parts": [{"text": f"text {number}"}]}, "taskType": task}
            for number, task in enumerate(tasks)
        ]
        reply = api.call("batchEmbedContents", {"requests": requests}, "fake-embed").json()
        texts = [f"text {number}" for number in range(4)]
        expected = api.host.embed(texts, model="fake-embed").vectors
        assert [each["values"] for each in reply["embeddings"]] == [list(each) for each in expected]

    @pytest.mark.parametrize(
        "more",
        [
            {"title": "T"},
            {"taskType": "SOMETHING"},
            {"outputDimensionality": 4},
            {"content": None},
            {"content": {"parts": []}},
            {"content": {"parts": [{"inlineData": {}}]}},
        ],
    )
    def test_that_are_refused(self, api: Api, more: Any) -> None:
        body = {"content": {"parts": [{"text": "a"}]}, **more}
        assert api.call("embedContent", body, "fake-embed").status_code == 400

    @pytest.mark.parametrize("number", [0, 101])
    def test_how_many(self, api: Api, number: int) -> None:
        requests = [{"content": {"parts": [{"text": "a"}]}}] * number
        reply = api.call("batchEmbedContents", {"requests": requests}, "fake-embed")
        assert reply.status_code == 400

    @pytest.mark.parametrize("name", ["fake", "feature:chat", "nobody"])
    def test_by_what_has_none(self, api: Api, name: str) -> None:
        body = {"content": {"parts": [{"text": "a"}]}}
        assert api.call("embedContent", body, name).status_code == 404


class TestLists:
    def get(self, api: Api, path: str) -> Any:
        return api.client.get(f"{api.url}/v1beta/models{path}")

    def test_all(self, api: Api) -> None:
        models = {each["name"]: each for each in self.get(api, "").json()["models"]}
        assert models["models/fake@fake"]["supportedGenerationMethods"] == [
            "generateContent",
            "streamGenerateContent",
            "countTokens",
        ]
        assert models["models/fake-embed@fake"]["supportedGenerationMethods"] == [
            "embedContent",
            "batchEmbedContents",
        ]
        assert models["models/feature:chat"]["description"]
        assert "models/fake-moderate@fake" not in models

    def test_in_pages(self, api: Api) -> None:
        whole = self.get(api, "?pageSize=1000").json()
        assert "nextPageToken" not in whole
        found: list[Any] = []
        token = ""
        for _ in whole["models"]:
            page = self.get(api, f"?pageSize=1&pageToken={token}").json()
            found += page["models"]
            token = page.get("nextPageToken", "")
        assert found == whole["models"]
        assert token == ""

    @pytest.mark.parametrize("query", ["pageSize=x", "pageToken=-1", "pageSize=9999999999"])
    def test_no_page(self, api: Api, query: str) -> None:
        assert self.get(api, f"?{query}").status_code == 400

    @pytest.mark.parametrize(
        "name", ["fake", "fake@fake", "fake%40fake", "feature:chat", "fake/some", "fake/some/one"]
    )
    def test_one(self, api: Api, name: str) -> None:
        assert self.get(api, f"/{name}").json()["name"] == f"models/{name.replace('%40', '@')}"

    @pytest.mark.parametrize("name", ["nobody", "fake-moderate", "nobody/at/all", "feature:none"])
    def test_none(self, api: Api, name: str) -> None:
        reply = self.get(api, f"/{name}")
        assert reply.status_code == 404
        assert reply.json()["error"]["status"] == "NOT_FOUND"


NAMES = """
contents parts role text inlineData mimeType data fileData fileUri functionCall name args
functionResponse response id thought thoughtSignature systemInstruction tools model
functionDeclarations parameters type properties items enum anyOf nullable required
toolConfig functionCallingConfig mode allowedFunctionNames generationConfig
temperature topK maxOutputTokens stopSequences responseMimeType responseSchema
responseJsonSchema thinkingConfig thinkingBudget safetySettings category
generateContentRequest requests content taskType
"""
METHODS = (
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
)

names = st.sampled_from(NAMES.split())
words = st.sampled_from(
    ["user", "model", "STRING", "OBJECT", "ANY", "application/json", "image/png", "AAAA", "a",
     "https://a.test/b", "\ud800", "", "LOW", "NaN", "1e999"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=25,
)  # fmt: skip
parts = st.dictionaries(names, values, max_size=3) | st.just({"text": "hi"})
contents = st.lists(
    st.fixed_dictionaries(
        {"parts": st.lists(parts, min_size=1, max_size=3)}, optional={"role": words}
    ),
    min_size=1,
    max_size=3,
)
bodies = values | st.fixed_dictionaries(
    {"contents": contents | st.just([HI])},
    optional={
        "tools": st.lists(st.fixed_dictionaries({"functionDeclarations": values}), max_size=2),
        "toolConfig": values,
        "generationConfig": st.dictionaries(names, values, max_size=4),
        "systemInstruction": values,
    },
)


@pytest.fixture
def routes(make_host: MakeHost) -> Iterator[HttpRoutes]:
    def answer(heard: Any) -> str:
        return "{}" if heard.schema is None else "null"

    routes = HttpRoutes(make_host(fake=FakeModel(answer)), ROUTES)
    yield routes
    routes.close()


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    body=bodies,
    method=st.sampled_from(METHODS),
)
def test_whatever_is_sent_is_answered(routes: HttpRoutes, body: Any, method: str) -> None:
    name, sent = "fake", write_json(body)
    if "mbed" in method:  # the fake takes nothing for a text that UTF-8 has no place for
        name, sent = "fake-embed", sent.replace(b"\\ud800", b"")
    path = f"/v1beta/models/{name}:{method}"
    with Cancellation() as limits:
        request = RouteRequest("POST", path, body=sent, limits=limits)
        reply = routes.answer(request)
        written = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    assert reply.status < 500 or b"the answer is not valid JSON" in written, written
