"""Suites whose tests have the rows of tables, which are attributes of the class."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


class TableSuite:
    """A suite with tables: each row of the table of a test is a test, in the argument `row`.

    A table is a sequence of rows, or a mapping of names to rows.

    Attributes:
        tables: Names of tests, and of their tables. A test without rows is left out.
    """

    tables: Mapping[str, str]

    def __init_subclass__(cls) -> None:
        for test, table in cls.tables.items():
            if test not in vars(cls) and getattr(cls, table) in (None, (), [], {}):
                setattr(cls, test, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "row" in metafunc.fixturenames:
            rows = getattr(self, self.tables[metafunc.function.__name__])
            is_named = isinstance(rows, Mapping)
            names = list(rows) if is_named else [repr(each)[:70] for each in rows]
            metafunc.parametrize("row", rows.values() if is_named else rows, ids=names)
