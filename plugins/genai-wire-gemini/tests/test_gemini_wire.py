"""Gemini's format, by the suite of API formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import genai_wire_gemini
import pytest
from genai_wire_gemini.dialect.generate_content import GenerateContent

from genai_host.api import StreamEvent
from genai_host.serving.router import DROPPED
from genai_host_testing.internal.wires import WEATHER, Wire

pytestmark = pytest.mark.part


class TestGemini(Wire):
    plugin = genai_wire_gemini
    dialect = GenerateContent()
    path = "/v1beta/models/tested:generateContent"
    stream_path = "/v1beta/models/tested:streamGenerateContent?alt=sse"
    streaming: Mapping[str, Any] = {}
    new = ("responseId",)
    neutral = ("labels",)
    named = {
        "systemInstruction": "it is one of several messages of the system, which are joined",
        "systemInstruction.parts": "they are joined, too",
        "tools": "functions of several tools are declared in one",
    }
    data = ("contents.parts.functionResponse.response",)
    called = {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}}
    result = {"id": "call_1", "name": "weather", "response": {"output": "3 degrees"}}
    request = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {
                "role": "user", "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "UE5H"}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "UERG"}}]},
            {"role": "model", "parts": [{"text": "so:"}, called]},
            {"role": "user", "parts": [{"functionResponse": result}]},
            {"role": "model", "parts": [{"text": "cold"}]},
            {"role": "user", "parts": [{"text": "and?"}]}],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "weather", "description": "of a city",
                        "parametersJsonSchema": WEATHER}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"temperature": 0.5, "thinkingConfig": {"includeThoughts": True}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "labels": {"team": "a"},
    }  # fmt: skip
    service_tools = ({"googleSearch": {}}, {"urlContext": {"new": 1}}, {"codeExecution": {}})
    used = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    content = {"role": "model", "parts": [{"text": "so"}, called]}
    reply = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": used,
    }
    begun = {"role": "model", "parts": [{"text": "so"}]}
    stream = [
        {"candidates": [{"content": begun, "index": 0}]},
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [called]}, "finishReason": "STOP",
                    "index": 0}],
            "usageMetadata": used},
    ]  # fmt: skip

    code = {"executableCode": {"id": "c1", "language": "PYTHON", "code": "print(2)"}}
    output = {
        "codeExecutionResult": {"id": "c1", "outcome": "OUTCOME_OK", "output": "2"},
        "thoughtSignature": "c2ln",
    }  # fmt: skip
    invoked = {"toolCall": {"id": "t1", "toolType": "URL_CONTEXT", "args": {}}}
    ran = ({"text": "see"}, code, output, invoked, {"text": "so"})

    settings = {
        "generationConfig": {
            "temperature": 0.5, "topP": 0.5, "topK": 3, "seed": 7, "thinkingConfig": {
                "includeThoughts": True, "thinkingBudget": 9, "thinkingLevel": "LOW"}},
    }  # fmt: skip
    options = {
        "toolConfig": {
            "functionCallingConfig": {"mode": "AUTO", "new": 1},
            "retrievalConfig": {"languageCode": "de"},
            "includeServerSideToolInvocations": True,
            "new": {"a": 1},
        },
        "generationConfig": {
            "temperature": 0.5,
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "thinkingConfig": {"includeThoughts": True, "new": 1},
        },
        "safetySettings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF", "method": "SEVERITY"},
            {"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"},
        ],
    }  # fmt: skip

    def test_unknown_options_are_named_for_others(self) -> None:
        config = {**self.options["toolConfig"]}
        del config["retrievalConfig"], config["includeServerSideToolInvocations"]  # are refused
        request = {**self.request, **self.options, "toolConfig": config}
        with self.serving(another=True) as (_, client):
            _, headers, _ = client.send(self.path, request)
        assert set(headers[DROPPED].split(", ")) >= {
            "toolConfig.functionCallingConfig.new", "toolConfig.new", "safetySettings[0].method",
            "generationConfig.mediaResolution", "generationConfig.thinkingConfig.new",
        }  # fmt: skip
        assert "functionCallingConfig.mode" not in headers[DROPPED]

    def turn(self, *parts: Any) -> dict[str, Any]:
        content = {"role": "model", "parts": [*parts]}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}

    def request_with(self, *parts: Any, role: str = "model") -> dict[str, Any]:
        """The next turn."""
        user = {"role": "user", "parts": [{"text": "hi"}]}
        return {"contents": [user, {"role": role, "parts": [*parts]}, user]}

    def test_what_the_service_ran_is_shown(self) -> None:
        with self.serving() as (service, client):
            service.reply = self.turn(*self.ran)
            shown = json.loads(client.post(self.path, self.request))
        assert shown["candidates"][0]["content"]["parts"] == list(self.ran)

    picture = {"inlineData": {"mimeType": "image/png", "data": "-_8="}, "thoughtSignature": "c2ln"}
    signed = {**called, "thoughtSignature": "c2ln"}

    @pytest.mark.parametrize("parts", [
        ran,
        (code, output, picture, {"text": "so"}, code, output, picture, picture),
        (code, signed, invoked, {"toolResponse": {"id": "t1"}}, code, picture),
    ], ids=["tools", "pictures", "a call"])  # fmt: skip
    def test_what_the_service_ran_is_shown_in_its_place_in_a_stream(self, parts: Any) -> None:
        with self.serving() as (service, client):
            service.events = [StreamEvent(json.dumps(self.turn(part)).encode()) for part in parts]
            text = client.post(*self._for_stream()).decode()
        events = [json.loads(each.removeprefix("data: ")) for each in text.split("\r\n\r\n")[:-1]]
        shown = [part for each in events for part in each["candidates"][0]["content"]["parts"]]
        text = json.dumps([part for part in shown if part != {"text": ""}])
        assert text.replace("+/8=", "-_8=") == json.dumps(parts)  # the last may be encoded anew

    def test_what_the_service_ran_is_sent_back(self) -> None:
        snake = {"executable_code": {"code": "1"}, "thought_signature": "c2ln", "new": 1}
        with self.serving() as (service, client):
            for parts in (list(self.ran), [snake]):
                client.post(self.path, self.request_with(*parts))
                assert service.bodies[-1]["contents"][1]["parts"] == parts

    def test_what_the_service_ran_is_sent_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "genai_host_testing.suites.wire_service.ServiceProvider.extra_body", None
        )
        with self.serving() as (service, client):
            _, headers, _ = client.send(self.path, self.request_with(self.code))
        assert service.bodies[-1]["contents"][1]["parts"] == [self.code]
        assert DROPPED not in headers

    def test_what_a_service_ran_is_left_out_for_others_and_named(self) -> None:
        with self.serving(another=True) as (_, client):
            ran = (*self.ran[:-1], {**self.invoked, "partMetadata": {"a": 1}, "new": 1})
            status, headers, _ = client.send(self.path, self.request_with(*ran))
        assert status == 200
        places = [(1, "executableCode"), (2, "codeExecutionResult"), (3, "toolCall"),
                  (4, "toolCall"), (4, "new")]  # fmt: skip
        named = [f"contents[1].parts[{at}].{kind}" for at, kind in places]
        assert headers[DROPPED].split(", ") == named

    def test_a_message_of_the_user_may_be_left_out(self) -> None:
        """Some clients run the code themselves, and send the output as the user."""
        with self.serving(another=True) as (service, client):
            client.post(self.path, self.request_with(self.output, role="user"))
        assert len(service.bodies[-1]["messages"]) == 2
