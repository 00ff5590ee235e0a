"""Run the tests under coverage.py, those of child processes too, and hold each package to a gate.

    python tests/measure.py [ARGUMENTS OF PYTEST]

The host's packages need 95 % of their branches and lines, plugins 90 %.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_HOST, _PLUGIN = 95.0, 90.0
_CONFIG = """\
[run]
branch = true
parallel = true
patch = subprocess, _exit
sigterm = true
data_file = {folder}/data
source = {source}
# runs without site packages, where coverage.py cannot start; see test_sandbox_supervisor.py
omit = */genai_tools_sandbox/supervisor.py
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    raise NotImplementedError
    ^\\s*\\.\\.\\.$
"""
# Such a process is killed once it has answered, and may be unable to write files.
_SAVE_IN_CHILD = """
import os, resource, coverage
from genai_host.api import child_process
os.environ.pop("COVERAGE_PROCESS_CONFIG")

def save(asked, answer=child_process.answer):
    written = answer(asked)
    measured = coverage.Coverage.current()
    measured.stop()
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY:
        measured.save()
    else:
        measured.erase()
    return written

child_process.answer = save
"""


def pytest_configure() -> None:
    """Measure the processes of `run_in_child`, which get few environment variables."""
    from genai_host.api import child_process

    child_process._ENVIRONMENT |= {"COVERAGE_PROCESS_CONFIG"}
    child_process._MAIN = child_process._MAIN.replace("main()", f"{_SAVE_IN_CHILD}main()")


def main(arguments: list[str]) -> int:
    """The exit code: 1 if a package is below its gate, or else that of pytest."""
    packages = [file.parent for file in sorted(ROOT.glob("plugins/*/genai_*/__init__.py"))]
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        config = Path(folder, "config")
        source = ",".join(map(str, [ROOT / "genai_host", *packages]))
        config.write_text(_CONFIG.format(folder=folder, source=source), encoding="utf-8")
        coverage = [sys.executable, "-m", "coverage"]
        option = f"--rcfile={config}"
        pytest = [*coverage, "run", option, "-m", "pytest", "-p", "tests.measure"]
        code = subprocess.run([*pytest, *arguments], cwd=ROOT).returncode
        subprocess.run([*coverage, "combine", "--quiet", option], check=True)
        report = Path(folder, "report.json")
        subprocess.run([*coverage, "json", "--quiet", option, "-o", report], check=True)
        low = _below(json.loads(report.read_text("utf-8"))["files"])
    return code or int(low)


def _below(files: dict[str, dict[str, dict[str, int]]]) -> bool:
    """Print what each package has, and the files that have least; whether a package has too
    little."""
    covered, all_ = Counter[str](), Counter[str]()
    by_file = {}
    for path, file in files.items():
        name, counts = str(Path(path).resolve().relative_to(ROOT)), file["summary"]
        parts = name.split("/")
        package = parts[1] if parts[0] == "plugins" else ".".join(parts[: len(parts) - 1][:2])
        good = counts["covered_lines"] + counts["covered_branches"]
        there = counts["num_statements"] + counts["num_branches"]
        covered[package] += good
        all_[package] += there
        by_file[name] = (100 * good / there if there else 100.0, there - good)
    low = False
    for package in sorted(all_):
        share = 100 * covered[package] / (all_[package] or 1)
        gate = _PLUGIN if package.startswith("genai-") else _HOST
        is_low = share < gate
        low = low or is_low
        print(f"{share:6.1f} %  {package}{f'  BELOW {gate:.0f} %' if is_low else ''}")
    print("\nfiles that have least:")
    for name, (share, missing) in sorted(by_file.items(), key=lambda each: each[1])[:40]:
        print(f"{share:6.1f} %  {missing:4} missing  {name}")
    return low


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
