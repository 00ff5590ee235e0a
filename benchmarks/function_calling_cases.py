#!/usr/bin/env python3
"""Writes the cases of `function_calling.py` anew, from the wheel that they were taken from.

    pip download --no-deps bfcl-eval==2026.3.23
    python benchmarks/function_calling_cases.py bfcl_eval-2026.3.23-py3-none-any.whl [--rest FILE]

They are the first 50 of the category `multiple` of the Berkeley Function-Calling Leaderboard
that offer exactly three functions. Each is as it is there, with its answer beside it. The
rest of those with three functions is there to develop on: `--rest` writes it elsewhere.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Any

_CASES = (
    Path(__file__).resolve().parents[1]
    / "plugins"
    / "genai-host-testing"
    / "genai_host_testing"
    / "internal"
    / "function_calling.jsonl"
)
_QUESTIONS = "bfcl_eval/data/BFCL_v4_multiple.json"
_ANSWERS = "bfcl_eval/data/possible_answer/BFCL_v4_multiple.json"
_FUNCTIONS = 3
_SCORED = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--rest", type=Path, metavar="FILE")
    given = parser.parse_args()
    with zipfile.ZipFile(given.wheel) as wheel:
        questions, answers = (_lines(wheel, name) for name in (_QUESTIONS, _ANSWERS))
    answer_of = {each["id"]: each["ground_truth"] for each in answers}
    cases = [
        {**each, "ground_truth": answer_of[each["id"]]}
        for each in questions
        if len(each["function"]) == _FUNCTIONS
    ]
    _write(_CASES, cases[:_SCORED])
    if given.rest:
        _write(given.rest, cases[_SCORED:])


def _lines(wheel: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in wheel.read(name).decode().splitlines()]


def _write(file: Path, cases: list[dict[str, Any]]) -> None:
    lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases]
    file.write_text("".join(lines), encoding="utf-8", newline="\n")
    print(f"{file.name}: {len(cases)} cases")


if __name__ == "__main__":
    main()
