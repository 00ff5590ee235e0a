"""A feature that does nothing but ask: for tests of providers, which need no other."""

from __future__ import annotations

from genai_host.api import Answer, Feature, NoSettings, Prompt, Story, Turn


def _respond(turn: Turn[NoSettings]) -> Story:
    completion = yield from Prompt([*turn.history, turn.message])
    return Answer(completion.text)


ASKING = Feature("asking", NoSettings, _respond, help="ask a model")
