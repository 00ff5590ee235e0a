"""The same for counts of tokens as `dialect` has it for chat."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from genai_host.api import ChatCall, Message, TokenCount, ToolSchema
from genai_host.testing.suites.codec import CodecSuite


class CountDialectSuite(CodecSuite):
    """The suite of a dialect in which tokens are counted.

        class TestMyCount(CountDialectSuite):
            dialect = MyCount()
            reply = b'{"input_tokens": 12}'
            count = 12

    dialect            the one that is tested
    reply              body of a whole reply
    count              the tokens that it tells of
    refusals           replies of status 400 or more: status, body, the class of the error
    parameter_values   for parameters whose JSON Schema is not enough to find one, a value
    """

    count: int

    def call(self) -> ChatCall:
        weather = {"type": "object", "properties": {"city": {"type": "string"}}}
        said = [Message("system", "be brief"), Message("user", "one")]
        tools = [ToolSchema("weather", "tells the weather", weather)]
        return ChatCall(model_id="m-1", messages=said, tools=tools)

    def test_it_says_whose_calls_it_counts(self) -> None:
        assert self.dialect.operation == "count"
        assert self.dialect.counts

    def test_all_that_takes_tokens_is_written(self) -> None:
        whole = self.data(self.call())
        for message in self.call().messages:
            other = [*self.call().messages, message]
            assert self.data(evolve(self.call(), messages=other)) != whole
        assert self.data(evolve(self.call(), messages=self.call().messages[1:])) != whole
        assert self.data(evolve(self.call(), tools=())) != whole

    def test_a_reply_is_read(self) -> None:
        assert self.extracted(self.reply).tokens == self.count

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, TokenCount) and type(result.tokens) is int and result.tokens >= 0
