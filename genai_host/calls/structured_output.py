"""Structured output: JSON that matches a schema, and objects created from it.

If a service has no JSON mode, an instruction with the schema is added to the prompt. The answer is
parsed and checked against the schema in any case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from genai_host.api import Answer, ChatCall, Completion, Message, SchemaValidator
from genai_host.api.json_text import read_json, write_json
from genai_host.api.schema import build, has_schema_per_dialect, schema_of
from genai_host.errors import OutputValidationError, ValidationError

_FENCED = re.compile(r"```(?:json)?[^\S\n]*\n(.*)```", re.DOTALL)


def with_schema_in_prompt(call: ChatCall) -> ChatCall:
    """The call with an instruction instead of its schema."""
    instruction = (
        "Answer with JSON only, without any other text. It must satisfy this JSON Schema:\n"
        + write_json(call.schema).decode()
    )
    return evolve(call, messages=[*call.messages, Message("system", instruction)], schema=None)


def with_value(completion: Completion, checker: SchemaValidator) -> Completion:
    """The completion with the JSON value of its text.

    Raises:
        OutputValidationError: The text is not JSON, or does not match the schema.
    """
    text = completion.text
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = read_json(fenced.group(1) if fenced else text)
        checker.check(value)
    except (ValueError, ValidationError) as error:
        cut = completion.finish == "length"
        raise OutputValidationError(
            f"the answer is not valid JSON for the schema: {error}",
            reason=completion.reason,
            detail=text,
            hint="the answer was truncated: raise max_tokens" if cut else "",
            **completion.place,
        ) from error
    return evolve(completion, value=value)


class Answers:
    """Checks and converts the data of a feature's answers; schemas are compiled once.

    Args:
        feature: Name of the feature.
    """

    def __init__(self, feature: str) -> None:
        self._feature = feature
        self._checkers: dict[str, SchemaValidator] = {}

    def built(
        self,
        answer: Answer,
        schema: Mapping[str, Any] | None,
        form: Any,
        completion: Completion | None = None,
    ) -> Answer:
        """The answer with its data as an object.

        Args:
            answer: The answer.
            schema: JSON Schema of the data; None if none was requested.
            form: Class of the data; a JSON Schema leaves the data unchanged.
            completion: Last completion, whose dialect determines the schema.

        Raises:
            OutputValidationError: The data does not match.
        """
        if schema is None:
            return answer
        route = completion.route if completion else None
        if route is not None and has_schema_per_dialect(form):
            schema = schema_of(form, route.dialect)
        try:
            self._checker(schema).check(answer.data)
            return evolve(answer, data=build(answer.data, form))
        except ValidationError as error:
            raise OutputValidationError(
                f"the answer of {self._feature} does not match the requested form: {error}",
                detail=answer.summary,
                reason=completion.reason if completion else "",
                **(completion.place if completion else {}),
            ) from error

    def _checker(self, schema: Mapping[str, Any]) -> SchemaValidator:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._checkers:
            self._checkers[key] = SchemaValidator(schema)
        return self._checkers[key]
