"""The schema of the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from genai_host.store.database import VERSION
from genai_host.store.tables import metadata

EXPECTED = Path(__file__).parents[1] / "data" / "schema.sql"
HEADER = f"""\
-- Version {VERSION} of the schema, on PostgreSQL.
-- A change requires a new version and a step in genai_host/store/migrations.py.
"""


def test_the_schema_is_that_of_its_version() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # so in SQLAlchemy
    statements = []
    for _, table in sorted(metadata.tables.items()):
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            statements.append(str(CreateIndex(index).compile(dialect=dialect)))
    lines = "".join(f"\n{each.strip()};" for each in statements).expandtabs(4).splitlines()
    schema = "\n".join(line.rstrip() for line in lines) + "\n"
    assert HEADER + schema == EXPECTED.read_text("utf-8")
