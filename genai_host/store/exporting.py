"""A conversation outside of its store: as JSON, which can be read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.api.json_text import read_json, write_json
from genai_host.errors import InvalidData
from genai_host.store.attached import Attached
from genai_host.store.stored_record import Written

FORM = 1


def exported(
    id: str, name: str | None, rows: Iterable[Written], attached: Attached
) -> dict[str, Any]:
    """A conversation as JSON: all its entries with what is attached, each with the time
    when it came. Raises `StoreError` for bytes that are missing."""
    entries = [{"at": row.at, **attached.put_back(read_json(row.body))} for row in rows]
    return {"form": FORM, "id": id, "name": name, "entries": entries}


def imported(data: Any) -> tuple[str | None, list[Written]]:
    """The name and the entries of what was exported; whether they are a record, whoever
    has a codec looks. Raises `InvalidData`."""
    if not isinstance(data, Mapping) or data.get("form") != FORM:
        raise InvalidData(f"this is no conversation in form {FORM}")
    name, entries = data.get("name"), data.get("entries")
    if not isinstance(name, (str, type(None))) or not isinstance(entries, list):
        raise InvalidData("a conversation has a name and a list of entries")
    return name, [_written(each) for each in entries]


def _written(entry: Any) -> Written:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("at"), (int, float)):
        raise InvalidData("an entry is an object, with the time when it came in `at`")
    form = {key: value for key, value in entry.items() if key != "at"}
    kind = str(form.get("entry"))
    return Written(form.get("turn"), kind, float(entry["at"]), write_json(form).decode())
