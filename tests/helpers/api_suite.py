"""Suite of our APIs: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import Completion, Message
from genai_host_testing.internal.tables import TableSuite


def completion_of(*parts: Any, finish: Any = "stop", **more: Any) -> Completion:
    """Return an answer of these parts."""
    return Completion(Message("assistant", parts), finish, **more)


class ApiSuite(TableSuite):
    """Tests of an API, in the fixture `api`, with a model behind it.

    Attributes:
        prompts: Messages of a request, and those that the model hears, by name.
        answers: Answer of the model, further fields of the request, and the content of the reply,
            by name.
    """

    tables = {
        "test_what_was_said_reaches_the_model": "prompts",
        "test_what_the_model_says_reaches_the_client": "answers",
    }
    prompts: Mapping[str, tuple[Sequence[Any], Sequence[Message]]] = {}
    answers: Mapping[str, tuple[Completion, Mapping[str, Any], Any]] = {}

    def ask(self, api: Any, *messages: Any, **more: Any) -> Any:
        """The body of a successful reply."""
        raise NotImplementedError

    def content(self, reply: Any) -> Any:
        """What the model says in the body of a reply."""
        raise NotImplementedError

    def test_what_was_said_reaches_the_model(
        self, api: Any, row: tuple[Sequence[Any], Sequence[Message]]
    ) -> None:
        messages, expected = row
        self.ask(api, *messages)
        assert list(api.fake.prompts[-1].messages) == list(expected)

    def test_what_the_model_says_reaches_the_client(
        self, api: Any, row: tuple[Completion, Mapping[str, Any], Any]
    ) -> None:
        answer, more, content = row
        api.fake.answer = lambda prompt: answer
        assert self.content(self.ask(api, **more)) == content
