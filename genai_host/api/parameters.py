"""The model parameters that all dialects call by the same name, as JSON Schemas.

A dialect lists those that its format has; a model narrows or refuses them, a
provider adds its own. Whatever a user sets is checked against the outcome, and a
name that is not in it is an error: nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STANDARD: Mapping[str, Mapping[str, Any]] = {
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
        "description": "randomness: 0 always takes the likeliest token",
    },
    "top_p": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "choose among the likeliest tokens that add up to this probability",
    },
    "top_k": {
        "type": "integer",
        "minimum": 1,
        "description": "choose among this many of the likeliest tokens",
    },
    "max_tokens": {
        "type": "integer",
        "minimum": 1,
        "description": "end the answer after this many tokens",
    },
    "stop": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "description": "end the answer before any of these strings",
    },
    "seed": {
        "type": "integer",
        "description": "the same seed gives the same answer, as far as the service can",
    },
    "presence_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "above 0: rather new tokens than ones that occurred",
    },
    "frequency_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "above 0: the rarer, the more often they occurred",
    },
}


def standard(*names: str) -> dict[str, Mapping[str, Any]]:
    """Those of the standard parameters, for `Dialect.parameters`."""
    return {name: STANDARD[name] for name in names}
