"""The official `openai` SDK as an oracle: for OpenAI's own service, for Azure and elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import genai_vendor_openai
import openai
import pytest
from attrs import frozen
from peers.conversations import CHAT_TOOLS, CONVERSATIONS, RESPONSE_TOOLS, Example, Kind
from peers.oracle import ABSENT, Case, Difference, Oracle, Place, both_ways, using_tools

from genai_host.api import CountTokens, Embed, Message, Moderate, Prompt
from genai_host.config import InstanceConfig
from genai_host_testing.fake_service import Reply, json_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.services.openai import KEY, chat, embeddings, responses

pytestmark = pytest.mark.peers


def _openai(url: str) -> Any:
    return openai.OpenAI(max_retries=0)


def _azure(url: str) -> Any:
    return openai.AzureOpenAI(max_retries=0)


def _azure_v1(url: str, **more: Any) -> Any:
    """As Azure documents it: the plain client, at the address of the API without versions."""
    return openai.OpenAI(base_url=f"{url}/openai/v1/", api_key="eyJ-canary", max_retries=0, **more)


def _azure_preview(url: str) -> Any:
    return _azure_v1(url, default_query={"api-version": "preview"})


_TOKEN = {
    "AZURE_OPENAI_AD_TOKEN": "eyJ-canary",
    "GENAI_HOST_PROVIDERS__MINE__TOKEN": "eyJ-canary",
    "AZURE_OPENAI_ENDPOINT": "{url}",
}
OWN = Place(
    {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": "http://api.openai.com/v1",
        "OPENAI_ORG_ID": "org-1",
        "OPENAI_PROJECT_ID": "proj_1",
        "HTTP_PROXY": "{url}",  # so that it is OpenAI's own address, and comes here
    },
    _openai,
)
ELSEWHERE = Place({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "{url}/v1"}, _openai)
DATED = Place(
    {
        "AZURE_OPENAI_API_KEY": KEY, "GENAI_HOST_PROVIDERS__MINE__API_KEY": KEY,
        "AZURE_OPENAI_ENDPOINT": "{url}", "OPENAI_API_VERSION": "2025-04-01-preview",
    },
    _azure,
)  # fmt: skip
TOKEN = Place(_TOKEN, _azure_v1)
PREVIEW = Place({**_TOKEN, "OPENAI_API_VERSION": "preview"}, _azure_preview)
DEPLOYMENTS = {"gpt-5.4": "my-five", "gpt-4.1": "my four", "text-embedding-3-small": "vectors"}


@frozen
class Way:
    """A service in one dialect. An instance named `mine` has a key of its own.

    model     its name here
    id        what the SDK calls the model, or the deployment
    dialect   chat or responses
    kind      what the model can do
    lacks     conversations that are refused here
    """

    place: Place
    model: str
    id: str
    dialect: Literal["chat", "responses"]
    kind: Kind = "direct"
    lacks: tuple[str, ...] = ()

    def fields(self, example: Example) -> Any:
        """What the SDK is given; None where the conversation has no place."""
        if example.only not in ("", self.kind) or example.name in self.lacks:
            return None
        return example.chat if self.dialect == "chat" else example.responses

    def resource(self, client: Any) -> Any:
        return client.chat.completions if self.dialect == "chat" else client.responses

    def case(self, tell: Any, by_sdk: Callable[[Any], Any], *replies: Reply, **more: Any) -> Case:
        return Case(self.place, self.model, tell, by_sdk, replies, **more)

    def says(self, example: Example, streamed: bool) -> Case:
        fields = {
            **self.fields(example), "model": self.id, **({"stream": True} if streamed else {}),
        }  # fmt: skip
        method = "parse" if example.parsed else "create"
        reply = chat if self.dialect == "chat" else responses
        return self.case(
            example.prompt, lambda client: getattr(self.resource(client), method)(**fields),
            reply('{"name": "Oslo", "people": null}', streamed=streamed), streamed=streamed,
        )  # fmt: skip


_NO_FILES = ("file",)
WAYS = {
    "openai, chat": Way(OWN, "gpt-4.1@openai+openai-chat", "gpt-4.1", "chat"),
    "openai, responses": Way(OWN, "gpt-4.1@openai+openai-responses", "gpt-4.1", "responses"),
    "openai, thinking, chat": Way(
        OWN, "gpt-5.4@openai+openai-chat", "gpt-5.4", "chat", "thinking"),
    "openai, thinking, responses": Way(
        OWN, "gpt-6.1-sol@openai", "gpt-6.1-sol", "responses", "thinking"),
    "elsewhere, chat": Way(ELSEWHERE, "gpt-4.1@openai+openai-chat", "gpt-4.1", "chat"),
    "compatible, chat": Way(ELSEWHERE, "gate/qwen", "qwen", "chat"),
    "azure, dated, chat": Way(
        DATED, "gpt-4.1@mine+openai-chat", "my four", "chat", lacks=_NO_FILES),
    "azure, dated, responses": Way(DATED, "gpt-4.1@mine+openai-responses", "my four", "responses"),
    "azure, chat": Way(
        TOKEN, "gpt-5.4@mine+openai-chat", "my-five", "chat", "thinking", lacks=_NO_FILES),
    "azure, responses": Way(
        TOKEN, "gpt-5.4@mine+openai-responses", "my-five", "responses", "thinking"),
    "azure, preview, chat": Way(
        PREVIEW, "gpt-4.1@mine+openai-chat", "my four", "chat", lacks=_NO_FILES),
}  # fmt: skip

CALLS = [("call_1", '{"at":"é"}'), ("call_2", '{"at":"b"}')]
USED: Mapping[str, list[Reply]] = {
    "chat": [
        json_reply({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": None, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "look", "arguments": text}}
                for id, text in CALLS]}}]}),
        chat("fine"),
    ],
    "responses": [
        json_reply({"status": "completed", "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            *({"id": id.replace("call", "fc"), "type": "function_call", "call_id": id,
               "name": "look", "arguments": text, "status": "completed"} for id, text in CALLS)]}),
        responses("fine"),
    ],
}  # fmt: skip
"""Replies that ask for two tools at once, and then answer."""


def _use_tools(client: Any, id: str) -> None:
    """As OpenAI's guide to function calling has it."""
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    first = client.chat.completions.create(model=id, messages=messages, tools=CHAT_TOOLS)
    messages.append(first.choices[0].message)
    for call in first.choices[0].message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "fine"})
    client.chat.completions.create(model=id, messages=messages, tools=CHAT_TOOLS)


def _use_tools_by_responses(client: Any, id: str) -> None:
    items: list[Any] = [{"role": "user", "content": "hi"}]
    first = client.responses.create(model=id, input=items, tools=RESPONSE_TOOLS)
    items += first.output
    for item in first.output:
        if item.type == "function_call":
            output = {"type": "function_call_output", "call_id": item.call_id, "output": "fine"}
            items.append(output)
    client.responses.create(model=id, input=items, tools=RESPONSE_TOOLS)


def _embed(request: Mapping[str, Any], client: Any) -> None:
    client.embeddings.create(**request)


def _cases() -> Iterator[tuple[str, Case]]:
    for name, way in WAYS.items():
        for example in CONVERSATIONS:
            if way.fields(example) is None:
                continue
            cases = both_ways(example.name, partial(way.says, example))
            if example.parsed:  # for streams the SDK has another function
                del cases[f"{example.name}, streamed"]
            yield from ((f"{name}: {each}", case) for each, case in cases.items())
        use = _use_tools if way.dialect == "chat" else _use_tools_by_responses
        yield (
            f"{name}: tools that are used",
            way.case(using_tools(False, False), partial(use, id=way.id), *USED[way.dialect]),
        )
    small, texts = "text-embedding-3-small", ["a", "é"]
    for place, model, id in ((OWN, f"{small}@openai", small), (ELSEWHERE, f"{small}@openai", small),
                             (DATED, f"{small}@mine", "vectors"),
                             (TOKEN, f"{small}@mine", "vectors")):  # fmt: skip
        for parameters in ({}, {"dimensions": 2}):
            request: dict[str, Any] = {"model": id, "input": texts, **parameters}
            yield (
                f"{id} embeds, {place.environment.keys()}, {parameters}",
                Case(
                    place, model, Embed(texts, role="main"), partial(_embed, request),
                    [embeddings([1.0, 2.0], [3.0, 4.0])], operation="embed", parameters=parameters,
                ),
            )  # fmt: skip
    input_items: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    yield (
        "tokens",
        Case(
            OWN,
            "gpt-4.1@openai",
            CountTokens(Prompt([Message("system", "Be brief."), Message("user", "hi")])),
            lambda client: client.responses.input_tokens.count(model="gpt-4.1", input=input_items),
            [json_reply({"object": "response.input_tokens", "input_tokens": 12})],
        ),
    )
    yield (
        "moderation",
        Case(
            OWN, "omni-moderation@openai", Moderate("é", role="main"),
            lambda client: client.moderations.create(model="omni-moderation-latest", input="é"),
            [json_reply({"results": [{"flagged": False, "category_scores": {"hate": 0.1}}]})],
            operation="moderate",
        ),
    )  # fmt: skip
    listed = json_reply({"object": "list", "data": [{"id": "m", "object": "model"}]})
    yield "models", Case(OWN, "openai", None, lambda client: client.models.list(), [listed])


class TestOpenAI(Oracle):
    variables = {name for way in WAYS.values() for name in way.place.environment}
    plugins = {"openai": genai_vendor_openai}
    cases = dict(_cases())
    fields = {
        Difference("stream_options.include_usage", True, ABSENT): (
            "we count the tokens of streamed replies as well"
        ),
        Difference("store", False, ABSENT): "nothing of ours is kept at the service",
        Difference("include[]", "reasoning.encrypted_content", ABSENT): (
            "as nothing is kept there, we bring back what the model thought"
        ),
        Difference("messages[].role", "developer", "system"): (
            "models that think call it so; the SDK leaves it to whoever writes"
        ),
        Difference("input[].role", "developer", "system"): "the same",
        Difference("input[].type", "message", ABSENT): (
            "some servers do not know what the model said for a message without it"
        ),
        # services elsewhere, of which less is taken for granted:
        Difference("max_tokens", 7, ABSENT): "they may know the older name alone",
        Difference("max_completion_tokens", ABSENT, 7): "the same",
        Difference("tools[].function.strict", ABSENT, True): "they may not know the word",
        Difference("tools[].function.parameters.additionalProperties", ABSENT, False): (
            "which only the strict form needs"
        ),
        Difference("response_format.json_schema.strict", False, True): "they may refuse it",
        Difference("response_format.json_schema.schema.additionalProperties", ABSENT, False): (
            "which only the strict form needs"
        ),
        Difference("stream", ABSENT, False): "the SDK's `parse` says what is so anyway",
        Difference("encoding_format", "float", "base64"): "they may know no other",
        # a tool's round trip:
        Difference("input[].id", ABSENT, "fc_1"): (
            "names an item that is kept at the service, where nothing is"
        ),
        Difference("input[].id", ABSENT, "fc_2"): "the same",
        Difference("input[].status", ABSENT, "completed"): "says nothing: we send whole items only",
    }

    def instances(self, url: str) -> Mapping[str, InstanceConfig]:
        gate = {"base_url": f"{url}/v1", "api_key": {"env": "OPENAI_API_KEY"}}
        return {
            "mine": provider_config("azure-openai", models=DEPLOYMENTS),
            "gate": provider_config("openai-compatible", **gate),
        }
