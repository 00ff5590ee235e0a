#!/usr/bin/env python3
"""Recreate the cases of `function_calling.py` from their wheel.

    pip download --no-deps bfcl-eval==2026.3.23
    python benchmarks/function_calling_cases.py bfcl_eval-2026.3.23-py3-none-any.whl [--rest FILE]

The cases are the first 50 of the category `multiple` of the Berkeley Function-Calling Leaderboard
with exactly three functions, unchanged, with their answers. `--rest` writes the other cases with
three functions to a separate file, for development.
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
    parser.add_argument("wheel", type=Path, help="wheel of bfcl-eval")
    parser.add_argument("--rest", type=Path, metavar="FILE", help="file for the other cases")
    options = parser.parse_args()
    with zipfile.ZipFile(options.wheel) as wheel:
        questions, answers = (_lines(wheel, name) for name in (_QUESTIONS, _ANSWERS))
    answer_of = {answer["id"]: answer["ground_truth"] for answer in answers}
    cases = [
        {**question, "ground_truth": answer_of[question["id"]]}
        for question in questions
        if len(question["function"]) == _FUNCTIONS
    ]
    _write(_CASES, cases[:_SCORED])
    if options.rest:
        _write(options.rest, cases[_SCORED:])


def _lines(wheel: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in wheel.read(name).decode().splitlines()]


def _write(file: Path, cases: list[dict[str, Any]]) -> None:
    lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases]
    file.write_text("".join(lines), encoding="utf-8", newline="\n")
    print(f"{file.name}: {len(cases)} cases")


if __name__ == "__main__":
    main()
