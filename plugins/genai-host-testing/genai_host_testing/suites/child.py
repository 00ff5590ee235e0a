"""Runs a part of a `FeatureSuite` in a separate process, with arguments as JSON."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def main(text: str) -> None:
    given = json.loads(text)
    sys.path[:] = given["path"]
    spec = importlib.util.spec_from_file_location(given["module"], given["file"])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite: Any = functools.reduce(getattr, given["suite"].split("."), module)
    suite().go_on(Path(given["record"]))


if __name__ == "__main__":
    main(sys.argv[1])
