"""The same for moderation as `dialect` has it for chat."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from genai_host.api import ModerateCall, Verdict
from genai_host.testing.suites.codec import CodecSuite


class ModerateDialectSuite(CodecSuite):
    """The suite of a dialect for moderation.

        class TestMyDialect(ModerateDialectSuite):
            dialect = MyDialect()
            reply = b'{"bad": true}'
            flagged = True

    dialect            the one that is tested
    reply              body of a whole reply
    flagged            whether it says that the text breaks the rules
    refusals           replies of status 400 or more: status, body, the class of the error
    parameter_values   for parameters whose JSON Schema is not enough to find one, a value
    """

    flagged: bool

    def call(self) -> ModerateCall:
        return ModerateCall(model_id="m-1", text="one")

    def test_the_text_is_written(self) -> None:
        assert self.data(self.call()) != self.data(evolve(self.call(), text="two"))

    def test_a_reply_is_read(self) -> None:
        assert self.extracted(self.reply).flagged is self.flagged

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, Verdict) and isinstance(result.flagged, bool)
