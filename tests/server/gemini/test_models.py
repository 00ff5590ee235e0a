"""Our Gemini API: tokens, embeddings, the list of models."""

from __future__ import annotations

from typing import Any

import pytest
from gemini_form import Api, user

pytestmark = pytest.mark.part

HI = user("hi")


class TestTokens:
    def test_of_contents(self, api: Api) -> None:
        body = {"contents": [user("one two three")]}
        assert api.call("countTokens", body).json() == {"totalTokens": 3}
        assert api.fake.prompts == []

    def test_of_a_whole_request(self, api: Api) -> None:
        request = {
            "model": "models/fake",
            "contents": [user("one two")],
            "systemInstruction": {"parts": [{"text": "be kind"}]},
            "generationConfig": {"temperature": 0},
        }
        body = {"generateContentRequest": request}
        assert api.call("countTokens", body).json() == {"totalTokens": 4}

    @pytest.mark.parametrize(
        "body", [{}, {"generateContentRequest": 1}, {"generateContentRequest": {}, "contents": []}]
    )
    def test_of_nothing(self, api: Api, body: Any) -> None:
        assert api.call("countTokens", body).status_code == 400

    def test_of_features(self, api: Api) -> None:
        assert api.call("countTokens", {"contents": [HI]}, "feature:chat").status_code == 400

    def test_item_6_a_part_of_a_conversation_is_counted(self, api: Api) -> None:
        """Gemini CLI counts the result of a tool with a picture, without the call."""
        result = {"functionResponse": {"id": "1", "name": "look", "response": {"output": "so"}}}
        picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
        contents = [{"role": "user", "parts": [result, picture]}]
        assert api.call("countTokens", {"contents": contents}).status_code == 200
        assert api.call("generateContent", {"contents": contents}).status_code == 400


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

    @pytest.mark.parametrize("more", [
        {"title": "T"}, {"taskType": "SOMETHING"}, {"outputDimensionality": 4}, {"content": None},
        {"content": {"parts": []}}, {"content": {"parts": [{"inlineData": {}}]}},
    ])  # fmt: skip
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
            "generateContent", "streamGenerateContent", "countTokens",
        ]  # fmt: skip
        assert models["models/fake-embed@fake"]["supportedGenerationMethods"] == [
            "embedContent",
            "batchEmbedContents",
        ]
        assert models["models/feature:chat"]["description"]
        assert "models/fake-moderate@fake" not in models

    def test_in_pages(self, api: Api) -> None:
        listed = self.get(api, "?pageSize=1000").json()
        assert "nextPageToken" not in listed
        models: list[Any] = []
        token = ""
        for _ in listed["models"]:
            page = self.get(api, f"?pageSize=1&pageToken={token}").json()
            models += page["models"]
            token = page.get("nextPageToken", "")
        assert models == listed["models"]
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

    @pytest.mark.parametrize("path", ["files", "files/abc", "cachedContents", "tunedModels/x"])
    def test_of_what_there_is_not(self, api: Api, path: str) -> None:
        reply = api.client.get(f"{api.url}/v1beta/{path}")
        assert reply.status_code == 404
        error = reply.json()["error"]
        assert (error["code"], error["status"]) == (404, "NOT_FOUND")
        assert error["message"].startswith(f"{path.partition('/')[0]} are not supported")
