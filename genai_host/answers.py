"""The data of answers, as the class that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from genai_host.api import Answer, Checker, Completion
from genai_host.api.schema import build, schema_of, tells_dialects_apart
from genai_host.errors import DeserializationError, InvalidData


class Answers:
    """Checks and builds the data of one feature's answers; a schema is compiled once.

    feature   its name
    """

    def __init__(self, feature: str) -> None:
        self._feature = feature
        self._checkers: dict[str, Checker] = {}

    def built(
        self,
        answer: Answer,
        schema: Mapping[str, Any] | None,
        form: Any,
        completion: Completion | None = None,
    ) -> Answer:
        """The answer with its data as was asked for.

        schema       what the data must satisfy; None if none was asked for
        form         class of the data; a schema leaves it as it is
        completion   what a model said last: the data is of it, in its dialect

        Raises `DeserializationError`.
        """
        if schema is None:
            return answer
        route = completion.route if completion else None
        if route is not None and tells_dialects_apart(form):
            schema = schema_of(form, route.dialect)
        try:
            self._checker(schema).check(answer.data)
            return evolve(answer, data=build(answer.data, form))
        except InvalidData as error:
            raise DeserializationError(
                f"the answer of {self._feature} is not what was asked for: {error}",
                detail=answer.summary,
                reason=completion.reason if completion else "",
                **(completion.place if completion else {}),
            ) from error

    def _checker(self, schema: Mapping[str, Any]) -> Checker:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._checkers:
            self._checkers[key] = Checker(schema)
        return self._checkers[key]
