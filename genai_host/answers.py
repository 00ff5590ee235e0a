"""The data of answers, as the class that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from genai_host.api import Answer, Checker
from genai_host.api.schema import build
from genai_host.errors import DeserializationError, InvalidData


class Answers:
    """Checks and builds the data of one feature's answers; a schema is compiled once.

    feature   its name
    """

    def __init__(self, feature: str) -> None:
        self._feature = feature
        self._checkers: dict[str, Checker] = {}

    def built(self, answer: Answer, schema: Mapping[str, Any] | None, form: Any) -> Answer:
        """The answer with its data as was asked for.

        schema   what the data must satisfy; None if none was asked for
        form     class of the data; a schema leaves it as it is

        Raises `DeserializationError`.
        """
        if schema is None:
            return answer
        key = json.dumps(schema, sort_keys=True)
        if key not in self._checkers:
            self._checkers[key] = Checker(schema)
        try:
            self._checkers[key].check(answer.data)
            return evolve(answer, data=build(answer.data, form))
        except InvalidData as error:
            raise DeserializationError(
                f"the answer of {self._feature} is not what was asked for: {error}",
                detail=answer.summary,
            ) from error
