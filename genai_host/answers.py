"""The data of answers, as the class that was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import Answer, Checker, Completion
from genai_host.api.schema import build
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
        schemas: Sequence[Mapping[str, Any]],
        form: Any,
        completion: Completion | None = None,
    ) -> Answer:
        """The answer with its data as was asked for.

        schemas      one of which the data must satisfy; none if none was asked for
        form         class of the data; a schema leaves it as it is
        completion   what a model said last, for the error

        Raises `DeserializationError`.
        """
        if not schemas:
            return answer
        try:
            self._check(answer.data, schemas)
            return evolve(answer, data=build(answer.data, form))
        except InvalidData as error:
            raise DeserializationError(
                f"the answer of {self._feature} is not what was asked for: {error}",
                detail=answer.summary,
                reason=completion.reason if completion else "",
                **(completion.place if completion else {}),
            ) from error

    def _check(self, data: Any, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Raises `InvalidData` if it fits none of them, as the last of them says."""
        for number, schema in enumerate(schemas, 1):
            key = json.dumps(schema, sort_keys=True)
            if key not in self._checkers:
                self._checkers[key] = Checker(schema)
            try:
                self._checkers[key].check(data)
            except InvalidData:
                if number == len(schemas):
                    raise
            else:
                return
