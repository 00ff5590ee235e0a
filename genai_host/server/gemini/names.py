"""Names of models, as they stand in addresses."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "models/"


def model_named(parameters: Mapping[str, str]) -> str:
    """The name that the segments of an address add up to, without what all names of models
    begin with in the Gemini API."""
    order = ("provider", "owner", "call", "model")
    name = "/".join(parameters[each] for each in order if each in parameters)
    return name.removeprefix(PREFIX)
