"""What holds for all rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, field, frozen


@frozen
class Task:
    """
    feature, model, provider, parameters, settings, tools   as `Host.open` takes them; a row
                  may have its own of all but the feature and the tools
    schema        that each answer satisfies; None for free text
    record        whether each row is a conversation in the store. One whose process was
                  killed in the midst is then gone on with: calls of models on record are
                  not repeated
    """

    feature: str = ""
    model: str = ""
    provider: str = ""
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    tools: tuple[str, ...] | None = None
    schema: Mapping[str, Any] | None = None
    record: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Task:
        tools = value["tools"]
        return cls(**{**value, "tools": None if tools is None else tuple(tools)})
