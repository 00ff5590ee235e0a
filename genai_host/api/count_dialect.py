"""What formats in which tokens are counted have in common: they ask for a count with what
would be sent for an answer."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from genai_host.api.calls import ChatCall, Completion, TokenCount
from genai_host.api.dialects import Dialect
from genai_host.api.exchange import ProviderReply, ProviderRequest
from genai_host.api.reply_fields import malformed, read_object
from genai_host.errors import GenaiError


class CountDialect(Dialect[ChatCall, TokenCount]):
    """Counts the tokens of calls of another dialect, whose request it sends in part.

        class MyCount(CountDialect):
            name = "my-count"
            of = MyMessages
            endpoint = Serve(path="/count")
            fields = frozenset({"model", "messages", "tools"})
            tokens = "input_tokens"

    of       the dialect whose calls it counts
    fields   fields of the request's body that the service wants for a count
    tokens   field of the reply that has the number
    """

    operation = "count"
    of: ClassVar[type[Dialect[ChatCall, Completion]]]
    fields: ClassVar[frozenset[str]]
    tokens: ClassVar[str]

    @property
    def counts(self) -> str:
        return self.of.name

    @cached_property
    def _chat(self) -> Dialect[ChatCall, Completion]:
        return self.of()

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        asked = self._chat.prepare_request(call)
        body = {name: value for name, value in asked.body.items() if name in self.fields}
        return ProviderRequest("count", self.name, asked.model_id, body, headers=asked.headers)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> TokenCount:
        tokens: Any = read_object(reply.body).get(self.tokens)
        if type(tokens) is not int or tokens < 0:
            raise malformed(f"{self.tokens} is no number of tokens")
        return TokenCount(tokens)

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return self._chat.explain_error(reply)
