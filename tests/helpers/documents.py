"""The code blocks of a document, and a shell that runs them.

A hidden comment precedes a block that needs one:

    <!-- not run: REASON -->   the block is parsed and checked, but not run
    <!-- varies: REASON -->    its output is not compared
    <!-- before: COMMANDS -->  commands to run first, for example to write a file that it reads
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import field, frozen

from genai_host_testing.environments import Environment

ROOT = Path(__file__).resolve().parents[2]
GENERATED = "docs/reference/"
"""These documents contain no programs: `tests/project/test_reference.py` writes them."""
_COMMENT = re.compile(r"<!-- (not run|varies|before): (.*?) -->", re.DOTALL)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SERVE = re.compile(r"^genai-host( -\S+)* serve\b(?! --help)")
_STDIN = {"keys set": "sk-example-12345678\n", "genai-host chat": "Hello\n"}


@frozen
class Typed:
    """A command, and its output as the document shows it."""

    command: str
    output: str


@frozen
class Block:
    """A code block.

    Attributes:
        comments: The comments before it: kind to text.
        shown: For a program, the output below it.
    """

    document: str
    line: int
    language: str
    text: str
    comments: Mapping[str, str]
    shown: str = ""

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file name, if the block is a file: its first line is `# name.py`."""
        match = re.match(r"# ([\w/]+\.py)\b", self.text)
        return match[1] if match and self.language == "python" else None

    def typed(self) -> list[Typed]:
        """Return the commands of a console block."""
        pairs: list[tuple[list[str], list[str]]] = []
        for line in self.text.splitlines():
            if pairs and not pairs[-1][1] and _goes_on(pairs[-1][0]):
                pairs[-1][0].append(line)
            elif line.startswith("$ "):
                pairs.append(([line[2:]], []))
            else:
                assert pairs, f"{self.place}: {line!r} is no command"
                pairs[-1][1].append(line)
        return [Typed("\n".join(command), "\n".join(output)) for command, output in pairs]


def _goes_on(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return text.endswith("\\") or re.sub(r"\\.", "", text).count("'") % 2 == 1


def documents() -> list[str]:
    """Return the paths of the documents with blocks to run."""
    paths = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")]
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return sorted(name for name in names if not name.startswith(GENERATED))


def blocks(document: str, *languages: str) -> list[Block]:
    """Return the blocks of a document in order; only of these languages, if given."""
    text = (ROOT / document).read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    found_blocks: list[Block] = []
    for at, match in enumerate(fences):
        begin = fences[at - 1].end() if at else 0
        comments = dict(_COMMENT.findall(text[begin : match.start()]))
        found_blocks.append(
            Block(
                document,
                text.count("\n", 0, match.start()) + 1,
                match[1],
                match[2],
                comments,
                _output_below(match, fences[at + 1 : at + 2], text),
            )
        )
    return [each for each in found_blocks if not languages or each.language in languages]


def _output_below(match: re.Match[str], next: list[re.Match[str]], text: str) -> str:
    """Return the output directly below a program, or an empty string."""
    if match[1] != "python" or not next or next[0][1] != "text":
        return ""
    return "" if text[match.end() : next[0].start()].strip() else next[0][2]


@frozen
class Walk:
    """A shell that runs the blocks of a document in order.

    Attributes:
        environment: Environment with the installed packages; a walk may change it.
        folder: Initial working directory.
        variables: Environment variables, in addition to those of this process.
        addresses: Addresses in the document, to the real ones.
    """

    environment: Environment
    folder: Path
    variables: Mapping[str, str]
    addresses: Mapping[str, str]
    _shell: list[subprocess.Popen[str]] = field(factory=list, init=False)

    def __enter__(self) -> Walk:
        started = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self._own(), **self.variables},
            start_new_session=True,
        )
        self._shell.append(started)
        self._do(_FUNCTIONS.format(uv=_uv(), python=self.environment.python))
        return self

    def __exit__(self, *_: object) -> None:
        """End all started processes, including servers."""
        [shell] = self._shell
        os.killpg(shell.pid, signal.SIGTERM)
        assert shell.stdin is not None
        shell.stdin.close()
        shell.wait(timeout=30)
        assert shell.stdout is not None
        shell.stdout.close()

    def run(self, block: Block) -> None:
        """Run a block, and compare its output with the document."""
        if "before" in block.comments:
            self._take(block, Typed(self._real(block.comments["before"]), ""), compare=False)
        compare = "varies" not in block.comments
        if block.language == "console":
            for each in block.typed():
                self._take(block, each, compare=compare)
        elif block.file:
            file = self.folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._real(block.text), encoding="utf-8")
        else:
            file = self.folder / "block.py"
            file.write_text(self._real(block.text), encoding="utf-8")
            self._take(block, Typed("python block.py", block.shown), compare=compare)
            file.unlink()

    def _take(self, block: Block, typed: Typed, *, compare: bool = True) -> None:
        code, output, errors = self.take(typed.command)
        shown = f"{block.place}: $ {typed.command}\n{output}\n{errors}"
        assert code == 0, shown
        if typed.output and compare:
            assert matches(typed.output, f"{output}{errors}"), f"{shown}\nis not\n{typed.output}"

    def take(self, command: str) -> tuple[int, str, str]:
        """Run a command and return its exit code, its output and its errors."""
        real = self._real(command)
        if _SERVE.match(real):
            self._do(_END_SERVER)
            code = self._do(_SERVER.replace("COMMAND", re.sub(r"\s*(&\s*)?(#.*)?$", "", real)))
        else:
            text = next((text for part, text in _STDIN.items() if part in command), "")
            (self.folder.parent / "stdin").write_text(text)
            code = self._do(f"{{ {real}\n}} >%s/stdout 2>%s/stderr <%s/stdin")
        printed, errors = (
            (self.folder.parent / name).read_text(encoding="utf-8") for name in ("stdout", "stderr")
        )
        return code, self._shown(printed), self._shown(errors)

    def _do(self, script: str) -> int:
        """Run a script in the shell, wait for its end and return the exit code."""
        [shell] = self._shell
        assert shell.stdin is not None
        assert shell.stdout is not None
        script = script.replace("%s/", f"{self.folder.parent}/")
        shell.stdin.write(f"{script}\necho {_MARK} $?\n")
        shell.stdin.flush()
        for line in shell.stdout:
            if line.startswith(_MARK):
                return int(line.split()[1])
        raise AssertionError(f"the shell ended at {script}")

    def _own(self) -> dict[str, str]:
        programs = os.pathsep.join([str(self.environment.python.parent), os.environ["PATH"]])
        return {
            "PATH": programs,
            "VIRTUAL_ENV": str(self.environment.folder),
            "GENAI_HOST_HOME": str(self.environment.home),
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def _real(self, text: str) -> str:
        for there, here in self.addresses.items():
            text = text.replace(there, here)
        return text

    def _shown(self, text: str) -> str:
        for there, here in self.addresses.items():
            text = text.replace(here, there)
        return text


_MARK = "----done----"
_FUNCTIONS = """
pip() {{ '{uv}' pip "$1" --quiet --python '{python}' "${{@:2}}"; }}
"""
_SERVER = """exec 7< <(exec COMMAND 2>%s/stderr)
SERVER=$!
IFS= read -r -t 60 -u 7 LINE; CODE=$?
echo "$LINE" >%s/stdout
(exit $CODE)"""
_END_SERVER = '[ -z "$SERVER" ] || { kill $SERVER; wait $SERVER 2>/dev/null; SERVER=; }'


def matches(shown: str, printed: str) -> bool:
    """Return whether output matches: `...` matches any text, and whitespace any whitespace."""
    parts = map(re.escape, re.split(r" *\.\.\. *", " ".join(shown.split())))
    return re.fullmatch(".*".join(parts), " ".join(printed.split()), re.DOTALL) is not None


def _uv() -> str:
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    program = shutil.which("uv", path=places)
    assert program is not None
    return program


def copy_clone(folder: Path) -> None:
    """Copy this repository as a clone that a reader of its documents has."""
    unwanted = shutil.ignore_patterns(
        ".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules", "tests", "venv"
    )
    shutil.copytree(ROOT, folder, ignore=unwanted)


_COMMAND = re.compile(r"\(genai-host ([^|)]*)\)|(?:^|\| ?)genai-host ([^|]*)")


def commands_in(block: Block) -> Iterator[list[str]]:
    """Yield the words of each `genai-host` command in a block."""
    for typed in block.typed():
        for inner, outer in _COMMAND.findall(typed.command.replace("\\\n", "")):
            line = (inner or outer).partition(" < ")[0].rstrip("& ")
            yield shlex.split(line, comments=True)
