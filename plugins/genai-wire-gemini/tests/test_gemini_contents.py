"""What is said, as the dialect `gemini` writes it; it can be read back, nothing lost."""

from __future__ import annotations

from typing import Any

import pytest
from genai_wire_gemini.dialect.generate_content import GenerateContent
from genai_wire_gemini.grounding import METADATA, citations_in, metadata_of, with_citations

from genai_host.api import (
    Citation,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import UnsupportedPart
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user

CALL, OTHER = ToolCall("fc_1", "look", {"at": "é"}), ToolCall("fc_2", "look")
SIGN = {"thoughtSignature": "c2ln"}
SIGNED = VendorPart("gemini", SIGN)
ALONE = {"text": "", **SIGN}
CODE = {"executableCode": {"code": "1"}, **SIGN}
NOTHING = {"type": "object", "properties": {}}
TOOLS = [ToolSchema("look", "looks"), ToolSchema("see", "", {"type": "object", "x": 1})]
DECLARED = [{"functionDeclarations": [
    {"name": "look", "description": "looks", "parametersJsonSchema": NOTHING},
    {"name": "see", "description": "", "parametersJsonSchema": {**NOTHING, "x": 1}},
]}]  # fmt: skip
PARAMETERS = {
    "temperature": 0, "top_p": 1, "top_k": 2, "max_tokens": 3, "stop": ["x"], "seed": 4,
    "presence_penalty": 0.5, "frequency_penalty": -0.5, "reasoning_effort": "xhigh",
    "thinking_budget": -1, "include_thoughts": False,
    "safety_settings": {"HARM_CATEGORY_HARASSMENT": "OFF"},
}  # fmt: skip
CONFIG = {
    "temperature": 0, "topP": 1, "topK": 2, "maxOutputTokens": 3, "stopSequences": ["x"],
    "seed": 4, "presencePenalty": 0.5, "frequencyPenalty": -0.5,
    "thinkingConfig": {"includeThoughts": False, "thinkingBudget": -1, "thinkingLevel": "XHIGH"},
    "responseMimeType": "application/json", "responseJsonSchema": {"type": "array"},
}  # fmt: skip


def of(role: str, *parts: Any) -> Any:
    content = [{"text": each} if isinstance(each, str) else each for each in parts]
    return {"role": role, "parts": content}


def inline(kind: str, data: str = "YQ==") -> Any:
    return {"inlineData": {"mimeType": kind, "data": data}}


def called(id: str, args: Any, **more: Any) -> Any:
    return {"functionCall": {"id": id, "name": "look", "args": args}, **more}


def response(id: str, response: Any, **more: Any) -> Any:
    return {"functionResponse": {"id": id, "name": "look", "response": response, **more}}


class TestRequests(ChatRequests):
    dialect = GenerateContent()
    place = "contents"
    shown = [
        (Image(b"a"), inline("image/png")), (Image(b"a", "image/webp"), inline("image/webp")),
        (File(b"a"), inline("application/pdf")), (File(b"a", "audio/wav"), inline("audio/wav")),
        (File(url="gs://b/a.MP4?x=.y"),
         {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a.MP4?x=.y"}}),
        (File(url="https://x/files/a1"), {"fileData": {"fileUri": "https://x/files/a1"}}),
        (Image(url="https://x/a", media_type="image/gif"),
         {"fileData": {"mimeType": "image/gif", "fileUri": "https://x/a"}}),
    ]  # fmt: skip
    conversations = {
        "messages of one role": (
            [user("a"), user("b"), assistant(CALL, OTHER), tool(ToolResult("fc_1", "look", "x")),
             tool(ToolResult("fc_2", "look", "y")), user("c")],
            [of("user", "a", "b"), of("model", called("fc_1", {"at": "é"}), called("fc_2", {})),
             of("user", response("fc_1", {"output": "x"}), response("fc_2", {"output": "y"}),
                "c")]),
        "nothing said": ([user("a"), assistant(Reasoning("hm")), user("b")],
                         [of("user", "a", "b")]),
        "a result without a name": (
            [assistant(CALL), tool(ToolResult("fc_1", content="x"))],
            [of("model", called("fc_1", {"at": "é"})),
             of("user", response("fc_1", {"output": "x"}))]),
        "nothing but system messages": (
            [system("Be brief."), system("Write a haiku."), user("")],
            [of("user", {"text": "Be brief."}, {"text": "Write a haiku."})]),
        "a failure with a picture": (
            [tool(ToolResult("fc_1", "look", ["a", Image(b"PNG", "image/png"), "b"], error=True))],
            [of("user", response("fc_1", {"error": "a\nb"}, parts=[inline("image/png", "UE5H")]))]),
        "arguments that are no object": (
            [assistant(ToolCall("fc_1", "look", malformed="{at"))],
            [of("model", called("fc_1", {"malformed": "{at"}))]),
        "signatures": (
            [assistant(Reasoning("hm"), "so", SIGNED, CALL, SIGNED, "x")],
            [of("model", {"text": "so", **SIGN}, called("fc_1", {"at": "é"}, **SIGN), "x")]),
        "a signature alone": ([assistant(SIGNED)], [of("model", ALONE)]),
        "two signatures": ([assistant("a", SIGNED, SIGNED)],
                           [of("model", {"text": "a", **SIGN}, ALONE)]),
        "a signed empty text": ([assistant("a", VendorPart("gemini", ALONE))],
                                [of("model", "a", ALONE)]),
        "others": ([assistant(VendorPart("gemini", CODE), VendorPart("another", {"x": 1}))],
                   [of("model", CODE)]),
    }  # fmt: skip
    calls = {
        "nothing": ({"tool_choice": "auto"}, {
            "contents": [of("user", "hi")], "tools": None, "toolConfig": None,
            "generationConfig": None, "systemInstruction": None}),
        "all": ({"schema": {"type": "array"}, "parameters": PARAMETERS}, {
            "generationConfig": CONFIG,
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]}),
        "a category in its settings": (
            {"parameters": {"safety_settings": {"A": {"threshold": "OFF", "category": "B"}}}},
            {"safetySettings": [{"category": "A", "threshold": "OFF"}]}),
        **{f"choice {choice}": ({"tools": TOOLS, "tool_choice": choice}, {
            "tools": DECLARED, "toolConfig": {"functionCallingConfig": config}})
           for choice, config in [
               ("auto", {"mode": "AUTO"}), ("none", {"mode": "NONE"}),
               ("required", {"mode": "ANY"}),
               ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]})]},
    }  # fmt: skip
    refused = [
        user(CALL), user(ToolResult("fc_1", "look", "x")), tool("x"), system(Image(b"a")),
        assistant(ToolResult("fc_1", "look", "x")), assistant(VendorPart("gemini", "no object")),
    ]  # fmt: skip

    def part_of(self, content: Any) -> Any:
        return content[0]["parts"][0]

    def test_what_the_system_says_has_a_place_of_its_own(self) -> None:
        body = self.body(system("a"), user("hi"), system("b", "c"))
        assert body == {
            "systemInstruction": {"parts": [{"text": each} for each in "abc"]},
            "contents": [of("user", "hi")],
        }

    def test_a_result_of_nothing_known_is_refused(self) -> None:
        with pytest.raises(UnsupportedPart, match="no call has the id 'fc_9'"):
            self.body(tool(ToolResult("fc_9", content="x")))

    @pytest.mark.parametrize(
        ("parts", "signatures"),
        [([CALL, OTHER], ["skip", None]), ([CALL, SIGNED, OTHER], ["c2ln", None]), (["a"], [None])],
    )
    def test_calls_of_others_are_marked(self, parts: Any, signatures: list[str | None]) -> None:
        (content,) = self.content(assistant(*parts), variant={"unsigned_calls": "skip"})
        assert [each.get("thoughtSignature") for each in content["parts"]] == signatures


PAGES = [{"web": {"uri": "https://a", "title": "A"}}, {"web": {"uri": "https://b"}}]


def metadata(*supports: Any, chunks: Any = PAGES) -> Any:
    return {METADATA: {"groundingChunks": chunks, "groundingSupports": [*supports]}}


def support(*numbers: Any, **segment: Any) -> dict[str, Any]:
    return {"segment": segment, "groundingChunkIndices": [*numbers]}


def test_positions_are_in_bytes_of_a_part() -> None:
    """The first part is a thought."""
    texts = ["", "Été. ", "é cold"]
    given = metadata(support(0, 1, partIndex=2, startIndex=3, endIndex=7))
    assert citations_in(given, texts) == [
        Citation("https://a", "A", start=7, end=11), Citation("https://b", start=7, end=11)
    ]  # fmt: skip
    assert "".join(texts)[7:11] == "cold"


def test_pages_without_passages_are_of_the_whole_text() -> None:
    assert citations_in(metadata(), ["ab", "c"]) == [
        Citation("https://a", "A", start=0, end=3), Citation("https://b", start=0, end=3)
    ]  # fmt: skip


@pytest.mark.parametrize("given", [
    {}, {METADATA: 1}, {METADATA: []}, metadata(chunks=1), metadata(chunks=[1, {"web": 2}, {}]),
    metadata(1, support(9, -1, "0", True), support(0), chunks=[{"web": {"uri": 1}}]),
    {METADATA: {"groundingChunks": [], "groundingSupports": 1}},
    metadata({"segment": 1, "groundingChunkIndices": 1}, chunks=[{"maps": {}}]),
], ids=str)  # fmt: skip
def test_what_is_no_citation_is_ignored(given: Any) -> None:
    assert citations_in(given, ["ab"]) == []


@pytest.mark.parametrize("place", [{"startIndex": -1}, {"startIndex": "1"}, {"endIndex": 99}])
def test_a_position_that_is_not_in_the_text_is_moved_into_it(place: Any) -> None:
    [found] = citations_in(metadata(support(0, **place)), ["ab"])
    assert 0 <= found.start <= found.end <= 2


def test_metadata_is_read_as_it_was_written() -> None:
    thought, first = (
        Reasoning("hm"),
        Text("Été. ", citations=[Citation("https://a", "A", "", 0, 3)]),
    )
    cited = [Citation("https://a", "A", "", 2, 6), Citation("https://b", "", "", 2, 6)]
    message = Message("assistant", [thought, first, Text("é cold", citations=cited)])
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True}, {"text": "Été. "}, {"text": "é cold"},
    ]  # fmt: skip
    shown = metadata_of(message, parts)
    second = shown[METADATA]["groundingSupports"][1]
    assert second["groundingChunkIndices"] == [0, 1]
    assert second["segment"] == {"partIndex": 2, "startIndex": 3, "endIndex": 7, "text": "cold"}
    found = citations_in(shown, ["", "Été. ", "é cold"])
    plain = [thought, Text("Été. "), Text("é cold")]
    assert with_citations(plain, found) == list(message.content)
    assert citations_in(metadata_of(message, [{"text": ""}]), ["Été. é cold"]) == found
