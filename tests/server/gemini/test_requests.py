"""Our Gemini API: parameters, schemas and tools, and what is refused, with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import genai_vendor_gemini
import pytest
from gemini_form import Api, model, user
from genai_wire_gemini.server.requests import configured, json_schema

from genai_host.api import JsonReader, ToolSchema, VendorPart
from genai_host.serving.router import DROPPED
from genai_host_testing import FakeModel
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

HI = user("hi")
BUDGET = {"thinking_budget": {"minimum": 1024}}


def effort(*values: str) -> dict[str, Any]:
    return {"reasoning_effort": {"enum": list(values)}}


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with Api.serving(
        make_host, FakeModel(lambda prompt: "{}" if prompt.schema is not None else "yes")
    ) as api:
        yield api


def violation(error: dict[str, Any]) -> str:
    """The field that an error is about."""
    (detail,) = [each for each in error["details"] if each["@type"].endswith("BadRequest")]
    field: str = detail["fieldViolations"][0]["field"]
    return field


@pytest.mark.parametrize("version", ["/v1beta", "/v1", ""])
def test_the_version_of_the_path(api: Api, version: str) -> None:
    reply = api.post(f"{version}/models/fake:generateContent", {"contents": [HI]})
    assert reply.status_code == 200, reply.text


def test_one_object_is_a_list(api: Api) -> None:
    """Google's documentation sends requests in this form."""
    body = {
        "system_instruction": {"parts": {"text": "be kind"}},
        "contents": {"parts": {"text": "hi"}},
        "tools": {"functionDeclarations": {"name": "f", "description": "d"}},
    }
    assert api.call("generateContent", body).status_code == 200
    prompt = api.fake.prompts[-1]
    assert [message.text for message in prompt.messages] == ["be kind", "hi"]
    assert prompt.tools == ("f",)


class TestParameters:
    def test_all_of_them(self, api: Api) -> None:
        config = {
            "temperature": 0.5, "topP": 0.9, "topK": 40.0, "maxOutputTokens": "100",
            "stopSequences": ["X"], "seed": 7, "presencePenalty": 1, "frequencyPenalty": -1,
            "candidateCount": 1, "responseModalities": ["TEXT"], "responseLogprobs": False,
        }  # fmt: skip
        api.generate(HI, generationConfig=config, safetySettings=[{"category": "A"}])
        assert api.fake.prompts[-1].parameters == {
            "temperature": 0.5, "top_p": 0.9, "top_k": 40, "max_tokens": 100, "stop": ["X"],
            "seed": 7, "presence_penalty": 1, "frequency_penalty": -1,
        }  # fmt: skip

    def test_with_underscores(self, api: Api) -> None:
        config = {"top_p": 0.9, "max_output_tokens": 100, "stop_sequences": None}
        api.generate(HI, generation_config=config)
        assert api.fake.prompts[-1].parameters == {"top_p": 0.9, "max_tokens": 100}

    @pytest.mark.parametrize(("config", "field"), [
        ({"candidateCount": 2}, "generationConfig.candidateCount"),
        ({"topK": 1.5}, "generationConfig.topK"), ({"topK": "x"}, "generationConfig.topK"),
        ({"topK": True}, "generationConfig.topK"),
        ({"temperature": "0.5"}, "generationConfig.temperature"),
        ({"stopSequences": "X"}, "generationConfig.stopSequences"),
        ({"stop_sequences": [1]}, "generationConfig.stop_sequences[0]"),
        ({"responseModalities": ["IMAGE"]}, "generationConfig.responseModalities"),
        ({"responseLogprobs": True}, "generationConfig.responseLogprobs"),
        ({"responseMimeType": "text/csv"}, "generationConfig.responseMimeType"),
        ({"responseMimeType": "text/x.enum"}, "generationConfig.responseMimeType"),
        ({"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING"}},
         "generationConfig.responseMimeType"),
        ({"responseSchema": {}}, "generationConfig.responseMimeType"),
        ({"topP": 1, "top_p": 1}, "generationConfig.top_p"),
        ({"thinkingConfig": {"thinkingLevel": "some"}},
         "generationConfig.thinkingConfig.thinkingLevel"),
        ({"thinkingConfig": 1}, "generationConfig.thinkingConfig"),
    ])  # fmt: skip
    def test_that_are_wrong(self, api: Api, config: Any, field: str) -> None:
        assert violation(api.refused(HI, generationConfig=config)) == field

    @pytest.mark.parametrize("config", [{"temperature": 5}, {"maxOutputTokens": 0}])
    def test_that_the_model_does_not_take(self, api: Api, config: Any) -> None:
        error = api.refused(HI, generationConfig=config)
        assert error["details"][0]["reason"] == "INVALID_PARAMETER"

    def test_hints_that_the_model_does_not_take(self) -> None:
        """Gemini CLI sends them with each request."""
        config = {"topK": 64, "topP": 0.9, "seed": 1, "thinkingConfig": {"thinkingLevel": "HIGH"}}
        reader = JsonReader(config, "$.generationConfig")
        assert configured(reader, {"top_p": {}}).parameters == {"top_p": 0.9, "seed": 1}
        assert reader.dropped == [
            "generationConfig.topK",
            "generationConfig.thinkingConfig.thinkingLevel",
        ]

    @pytest.mark.parametrize(("thinking", "taken", "parameters"), [
        # Claude by a budget, by an effort, by both; GPT; Gemini
        ({"thinkingBudget": 0}, BUDGET, {}),
        ({"thinkingBudget": -1}, BUDGET, {}),
        ({"thinkingBudget": 512}, BUDGET, {"thinking_budget": 1024}),
        ({"thinkingBudget": 4096}, BUDGET, {"thinking_budget": 4096}),
        ({"thinkingBudget": 0}, effort("none", "low"), {"reasoning_effort": "none"}),
        ({"thinkingBudget": 0}, effort("low", "max"), {}),
        ({"thinkingBudget": 512}, effort("none", "low"), {}),
        ({"thinkingBudget": 0}, BUDGET | effort("none", "low"), {"reasoning_effort": "none"}),
        ({"thinkingBudget": -1}, BUDGET | effort("none", "low"), {}),
        ({"thinkingBudget": 0}, {"thinking_budget": {"minimum": -1}}, {"thinking_budget": 0}),
        ({"thinkingBudget": -1}, {"thinking_budget": {"minimum": -1}}, {"thinking_budget": -1}),
        ({"thinkingLevel": "minimal"}, effort("none", "low"), {"reasoning_effort": "low"}),
        ({"thinkingLevel": "XHIGH"}, effort("high", "max"), {"reasoning_effort": "high"}),
        ({"thinkingLevel": "LOW"}, effort("medium", "high"), {"reasoning_effort": "medium"}),
        ({"thinkingLevel": "HIGH"}, {"reasoning_effort": {}}, {"reasoning_effort": "high"}),
    ])  # fmt: skip
    def test_hints_get_the_nearest_value_of_the_model(
        self, thinking: Any, taken: Any, parameters: Any
    ) -> None:
        reader = JsonReader({"thinkingConfig": thinking}, "$.generationConfig")
        assert configured(reader, taken).parameters == parameters

    def test_those_of_thinking_and_safety_reach_a_model_that_takes_them(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GEMINI_API_KEY", "key")
        reply_body = {
            "candidates": [{"content": {"parts": [{"text": "so"}]}, "finishReason": "STOP"}]
        }
        body: dict[str, Any] = {
            "contents": [HI],
            "generationConfig": {
                "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"}
            },
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        }
        with FakeService([json_reply(reply_body)]) as service:
            monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
            with Api.serving(make_host, gemini=genai_vendor_gemini) as api:
                reply = api.call("generateContent", body, "gemini/gemini-new")
                assert reply.status_code == 200, reply.text
            (received,) = service.requests
        assert received.json()["generationConfig"] == body["generationConfig"]
        assert received.json()["safetySettings"] == body["safetySettings"]


class TestSchemas:
    def test_any_json(self, api: Api) -> None:
        api.generate(HI, generationConfig={"responseMimeType": "application/json"})
        assert api.fake.prompts[-1].schema == {}

    def test_json_schema_is_left_as_it_is(self, api: Api) -> None:
        schema = {"type": "object", "properties": {"max_items": {"const": 1}}}
        config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
        api.generate(HI, generationConfig=config)
        assert api.fake.prompts[-1].schema == schema

    @pytest.mark.parametrize(
        ("kind", "value", "bare"), [("STRING", 'two "words"', 'two "words"'), ("INTEGER", 2, "2")]
    )
    def test_a_value_of_an_enum_has_no_quotes(
        self, api: Api, kind: str, value: Any, bare: str
    ) -> None:
        api.fake.answer = lambda prompt: json.dumps(value)
        schema = {"type": kind, "enum": ["1", bare], "format": "enum"}
        config = {"responseMimeType": "text/x.enum", "responseSchema": schema}
        reply = api.generate(HI, generationConfig=config)
        assert reply["candidates"][0]["content"]["parts"] == [{"text": bare}]
        first = 1 if kind == "INTEGER" else "1"
        assert api.fake.prompts[-1].schema == {"type": kind.lower(), "enum": [first, value]}
        events = api.events(HI, generationConfig=config)
        parts = [each["candidates"][0]["content"]["parts"] for each in events]
        assert parts == [[{"text": bare}]]

    def test_geminis_form(self) -> None:
        schema = {
            "type": "OBJECT", "property_ordering": ["b", "a"], "required": ["a"], "nullable": False,
            "properties": {
                "a": {"type": "STRING", "format": "enum", "enum": ["x", "y"], "nullable": True},
                "max_items": {"type": "ARRAY", "items": {"type": "integer"}, "max_items": "3"},
                "c": {"type": "INTEGER", "format": "int32", "enum": ["1", "2"], "example": 1},
                "d": {"anyOf": [{"type": "NUMBER"}, {"$ref": "#/$defs/e"}], "nullable": True},
                "f": {"type": "TYPE_UNSPECIFIED", "title": "F", "default": 0},
                "g": {"type": "OBJECT", "additionalProperties": {"type": "BOOLEAN"}},
                "h": {"type": "OBJECT", "additionalProperties": False},
                "i": {"type": "STRING", "format": "date-time", "pattern": "^a", "minLength": 1}},
            "$defs": {"e": {"type": "STRING"}},
        }  # fmt: skip
        assert json_schema(JsonReader(schema, "$", camel=True)) == {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": ["string", "null"], "enum": ["x", "y", None]},
                "max_items": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
                "c": {"type": "integer", "enum": [1, 2]},
                "d": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/e"}, {"type": "null"}]},
                "f": {"title": "F", "default": 0},
                "g": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "h": {"type": "object", "additionalProperties": False},
                "i": {"type": "string", "format": "date-time", "pattern": "^a", "minLength": 1},
            },
            "$defs": {"e": {"type": "string"}},
        }

    @pytest.mark.parametrize(("schema", "field"), [
        ({"type": "TEXT"}, "responseSchema.type"),
        ({"type": "OBJECT", "properties": {"a": 1}}, "responseSchema.properties.a"),
        ({"type": "ARRAY", "minItems": "x"}, "responseSchema.minItems"),
        ({"anyOf": 1}, "responseSchema.anyOf"), ({"enum": 1}, "responseSchema.enum"),
        ({"type": "INTEGER", "enum": ["NaN", "1e999"]}, ""),
    ])  # fmt: skip
    def test_that_are_wrong(self, api: Api, schema: Any, field: str) -> None:
        config = {"responseMimeType": "application/json", "responseSchema": schema}
        if not field:
            reply = api.call("generateContent", {"contents": [HI], "generationConfig": config})
            assert reply.status_code == 502  # "{}" is no such answer
            return
        assert violation(api.refused(HI, generationConfig=config)) == f"generationConfig.{field}"


LOOK = {
    "name": "look",
    "description": "Look at it",
    "parameters": {"type": "OBJECT", "properties": {"at": {"type": "STRING"}}},
}
HEAR = {"name": "hear", "parametersJsonSchema": {"type": "object"}}
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


class TestTools:
    def test_functions(self, make_host: MakeHost) -> None:
        seen: list[Any] = []
        with Api.serving(make_host) as api:
            from genai_wire_gemini.server.requests import tools_in

            body = {"tools": [{"functionDeclarations": [LOOK]}, {"function_declarations": [HEAR]}]}
            seen += tools_in(JsonReader(body, "$", camel=True))
            api.generate(HI, **body)
            assert api.fake.prompts[-1].tools == ("look", "hear")
        assert seen == [
            ToolSchema("look", "Look at it", SCHEMA),
            ToolSchema("hear", "", {"type": "object"}),
        ]

    @pytest.mark.parametrize(("config", "tools", "choice"), [
        ({}, ("look", "hear"), None), ({"mode": "AUTO"}, ("look", "hear"), "auto"),
        ({"mode": "NONE"}, ("look", "hear"), "none"),
        ({"mode": "ANY"}, ("look", "hear"), "required"),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["hear"]}, ("hear",), "auto"),
        ({"mode": "ANY", "allowedFunctionNames": ["hear"]}, ("hear",), "hear"),
        ({"mode": "ANY", "allowed_function_names": ["hear", "look"]}, ("look", "hear"), "required"),
    ])  # fmt: skip
    def test_which_may_be_called(self, config: Any, tools: Any, choice: str | None) -> None:
        from genai_wire_gemini.server.requests import chosen, tools_in

        body = JsonReader(
            {
                "tools": [{"functionDeclarations": [LOOK, HEAR]}],
                "toolConfig": {"functionCallingConfig": config},
            },
            "$",
            camel=True,
        )
        allowed, tool_choice = chosen(body, tools_in(body))
        assert tuple(tool.name for tool in allowed) == tools
        assert tool_choice == choice

    def test_one_of_google_is_refused_before_the_model_is_looked_up(self, api: Api) -> None:
        """Gemini CLI asks a model with a fixed name to search, and repeats that on 404."""
        body = {
            "contents": [HI],
            "tools": [{"googleSearch": {}}],
            "generationConfig": {"temperature": 0, "topP": 1},
        }
        assert api.call("generateContent", body, "nobody").status_code == 400

    @pytest.mark.parametrize(("more", "field"), [
        ({"tools": [{"file_search": {}}]}, "tools[0].file_search"),
        ({"tools": 1}, "tools"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0]"),
        ({"tools": [{"functionDeclarations": [LOOK, LOOK]}]}, "tools"),
        ({"tools": [{"functionDeclarations": [{**LOOK, "parametersJsonSchema": {}}]}]},
         "tools[0].functionDeclarations[0].parametersJsonSchema"),
        ({"tools": [{"functionDeclarations": [{**HEAR, "behavior": "NON_BLOCKING"}]}]},
         "tools[0].functionDeclarations[0].behavior"),
        ({"tools": [{"functionDeclarations": [
            {"name": "a", "parametersJsonSchema": {"properties": {"x": 1}}}]}]},
         "tools[0].functionDeclarations[0].parametersJsonSchema.properties.x"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
         "toolConfig.functionCallingConfig.mode"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}},
         "toolConfig.functionCallingConfig.mode"),
        ({"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["x"]}}},
         "toolConfig.functionCallingConfig.allowedFunctionNames[0]"),
        ({"toolConfig": {"retrievalConfig": {"languageCode": "de"}}}, "toolConfig.retrievalConfig"),
    ])  # fmt: skip
    def test_that_are_refused(self, api: Api, more: Any, field: str) -> None:
        assert violation(api.refused(HI, **more)) == field

    def test_options_without_effect_are_not_named(self, api: Api) -> None:
        config = {"retrievalConfig": {}, "includeServerSideToolInvocations": False}
        reply = api.call("generateContent", {"contents": [HI], "toolConfig": config})
        assert (reply.status_code, reply.headers.get(DROPPED)) == (200, None)


class TestContentsThatAreRefused:
    @pytest.mark.parametrize(("contents", "field"), [
        ([], "contents"), (["hi"], "contents[0]"),
        ([{"role": "system", "parts": []}], "contents[0].role"),
        ([{"role": "user"}], "contents[0].parts"),
        ([user({"text": "", "thoughtSignature": "c2ln"})], "contents[0].parts"),
        ([user({"executableCode": {}})], "contents"), ([model({"text": ""})], "contents"),
        ([user({})], "contents[0].parts[0]"),
        ([user({"text": 1})], "contents[0].parts[0].text"),
        ([user({"text": "a", "inlineData": {}})], "contents[0].parts[0]"),
        ([user({"text": "a", "videoMetadata": {"fps": 1}})], "contents[0].parts[0].videoMetadata"),
        ([user({"inlineData": {"mimeType": "image/png", "data": "!"}})],
         "contents[0].parts[0].inlineData.data"),
        ([user({"inlineData": {"data": "AAAA"}})], "contents[0].parts[0].inlineData"),
        ([user({"fileData": {"fileUri": "file:///etc/passwd"}})],
         "contents[0].parts[0].fileData.fileUri"),
        ([user({"functionCall": {"name": "a"}})], "contents[0].parts[0]"),
        ([model({"functionResponse": {"name": "a"}})], "contents[0].parts[0]"),
        ([model({"functionCall": {"args": {}}})], "contents[0].parts[0].functionCall.name"),
        ([model({"functionCall": {"name": "a", "args": []}})],
         "contents[0].parts[0].functionCall.args"),
        ([user({"functionResponse": {"name": "a", "response": {}}})],
         "contents[0].parts[0].functionResponse"),
        ([model({"executableCode": {}, "fileData": {"fileUri": "gs://b/a"}})],
         "contents[0].parts[0]"),
        ([model({"codeExecutionResult": {}, "text": "a"})], "contents[0].parts[0]"),
        ([model({"executable_code": 5})], "contents[0].parts[0].executable_code"),
        ([model({"toolCall": {}, "videoMetadata": {"fps": 1}})],
         "contents[0].parts[0].videoMetadata"),
    ])  # fmt: skip
    def test_where(self, api: Api, contents: Any, field: str) -> None:
        assert violation(api.refused(*contents)) == field

    def test_a_feature_keeps_what_a_service_ran(self, api: Api) -> None:
        ran = {"executableCode": {"code": "1"}}
        reply = api.call("generateContent", {"contents": [HI, model(ran), HI]}, "feature:chat")
        assert VendorPart("gemini", ran) in api.fake.prompts[-1].messages[-2].content
        assert DROPPED not in reply.headers

    @pytest.mark.parametrize(("more", "field"), [
        ({"cachedContent": "cachedContents/a"}, "cachedContent"),
        ({"systemInstruction": {"parts": [{"inlineData": {"data": "AAAA"}}]}},
         "systemInstruction.parts[0].inlineData"),
        ({"systemInstruction": {"parts": [{"executableCode": {"code": "1"}}]}},
         "systemInstruction.parts[0].executableCode"),
    ])  # fmt: skip
    def test_beside_them(self, api: Api, more: Any, field: str) -> None:
        assert violation(api.refused(HI, **more)) == field

    def test_what_says_nothing_is_taken(self, api: Api) -> None:
        api.generate(HI, labels={"a": "b"}, store=False, cachedContent=None, model="models/fake")

    def test_no_object(self, api: Api) -> None:
        for body in (b"[]", b"1", b"{", b"\xff", b"[" * 5000):
            url = f"{api.url}/v1beta/models/fake:generateContent"
            assert api.client.post(url, data=body).status_code == 400

    def test_what_is_nested_too_deeply(self, api: Api) -> None:
        args: dict[str, Any] = {}
        for _ in range(200):
            args = {"a": args}
        assert (
            "levels" in api.refused(model({"functionCall": {"name": "a", "args": args}}))["message"]
        )
